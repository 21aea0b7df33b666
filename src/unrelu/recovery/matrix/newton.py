"""Descent on F(C, A, b) + ridge/2 (|C|^2 + |A|^2): alternating Newton steps far out, joint ones near the end.

Given A and b, F is convex and piecewise quadratic in every row of C, and likewise in every column's (a_j, b_j) given
C: one Newton step for each, all Grams from one matrix product, is a round of censored alternating least squares. It
is robust and converges linearly. A joint step in all factors, the Gauss-Newton system solved by conjugate gradients
with those Grams as preconditioner, converges quadratically where T fits exactly, and much faster than alternation
where it does not; it is taken once alternation slows down, and kept while it lowers F.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.passes import map_in_threads
from unrelu.recovery.matrix.factors import Cells, Factors, tiles
from unrelu.recovery.matrix.floor_cells import (
    careful_rows,
    factor_grams,
    floor_cells,
    packed_products,
    solve_grams,
    tobit_cells,
    unpacked,
    weigh,
)

_HALVINGS = 8
_STILL = 1e-13  # relative movement of rows that have arrived
_ROUNDING = 1e-13  # a loss that rose by less has not risen
_SINGLE_DAMPING, _DOUBLE_DAMPING = 1e-6, 1e-13  # what Grams in that precision do not resolve, relative to a diagonal
_LITTLE = 1e-12  # share of a row's objective: a careful step that gains less is the last
_MUCH_BETTER = 0.25
_FARTHEST = (
    1e9  # of a factor, values being about 1: beyond it are quotients of rounding, and overflow in single precision
)
_HARD = 1e-3  # relative pivot below which a row's Gram is formed anew in double precision
_CG_ACCURACY, _CG_ROUNDS = 3e-2, 40


class State(NamedTuple):
    """Factors, F with its penalty there, and what the columns' equations need, summed over rows.

    ``loss``, ``gradient`` and packed ``gram`` are the columns'; ``squares``, of the noise, and ``weight`` the table's.
    """

    factors: Factors
    objective: float
    loss: FloatArray
    gradient: FloatArray
    gram: FloatArray
    squares: float
    weight: float


@dataclass(frozen=True)
class Descent:
    """The table, what a cell costs and the penalty: everything that stays while factors move.

    With ``sigma`` = 0, no noise inside the rectifier, F(T) = 1/2 sum_{X>0} (X - T)^2 + 1/2 sum_{X=0} max(0, T - cap)^2;
    the ``caps``, one per column, 0 unless given, are what T may reach where X = 0. Otherwise F is sigma^2 times minus
    the log-likelihood of X = ReLU(T + sigma noise), but for the logarithm of sigma.
    """

    cells: Cells
    sigma: float = 0.0
    ridge: float = 0.0
    row_ridge: FloatArray | None = None  # for rows alone, in place of ``ridge``: one per component
    caps: FloatArray | None = None

    # --- alternating steps ------------------------------------------------------------------------

    def alternate(self, state: State) -> State:
        """The columns' step from the sums at ``state``, then every row's; columns that lose by it step back."""
        factors, extended = state.factors, state.factors.extended
        step = self._column_gradient(state)
        solve_grams(self._column_factor(state), step)
        share = np.ones(len(extended))
        for _ in range(_HALVINGS):
            moved = factors.with_extended(_in_range(extended + share[:, None] * step))
            after, loss_before = self._moved_rows(moved)
            penalty = (moved.loadings**2).sum(axis=1) - (extended[:, : factors.rank] ** 2).sum(axis=1)
            rise = loss_before + 0.5 * self.ridge * penalty - state.loss
            if rise.sum() <= _ROUNDING * state.objective:
                return after
            share = np.where(rise > 0.0, 0.5 * share, share)
        return self._moved_rows(factors)[0]

    def start(self, factors: Factors) -> State:
        """The sums at given factors."""
        return self._state(factors, self._by_tile(lambda rows: self._at(factors, rows).column_sums()))

    def converge_rows(self, factors: Factors, rounds: int = 100) -> Factors:
        """Rows alone, until they stand still: the latent vectors of a table under given columns."""
        for _ in range(rounds):
            after = self._moved_rows(factors)[0].factors
            moved = float(np.abs(after.latent - factors.latent).max(initial=0.0))
            factors = after
            if moved <= _STILL * float(np.abs(factors.latent).max(initial=0.0)):
                break
        return factors

    def leading_residual(self, factors: Factors, rounds: int = 8) -> tuple[FloatArray, FloatArray]:
        """u and v with u v' the best rank-1 fit of the residuals, by power iteration from the largest column's."""
        pieces = self._by_tile(lambda rows: self._at(factors, rows).residual)
        right = np.sqrt(np.add.reduce([(piece**2).sum(axis=0) for piece in pieces]))
        left = np.zeros(len(factors.latent))
        for _ in range(rounds):
            right = right / max(float(np.linalg.norm(right)), 1e-300)
            left = np.concatenate([piece @ right for piece in pieces])
            parts = tiles(self.cells.shape)
            right = np.add.reduce([left[part] @ piece for part, piece in zip(parts, pieces, strict=True)])
            size = float(left @ left)
            right = right / size if size > 0.0 else right
        return left, right

    def fitted_by_rows(self, factors: Factors) -> float:
        """sum_i tr((G_i + ridge)^-1 G_i): the numbers that the rows' cells determine of their n k."""

        def at(rows: slice) -> float:
            weight = self._at(factors, rows).weight.astype(np.float64)
            eigenvalues = np.linalg.eigvalsh(unpacked(weight @ factors.loading_products, factors.rank))
            eigenvalues = np.maximum(eigenvalues, 0.0)
            return float((eigenvalues / np.maximum(eigenvalues + self.ridge, 1e-300)).sum())

        return float(sum(self._by_tile(at)))

    def _by_tile(self, work: Any) -> list[Any]:
        return map_in_threads(work, tiles(self.cells.shape))

    def _at(self, factors: Factors, rows: slice) -> _TileFit:
        return _TileFit(self, factors, self.cells.rows(rows.start, rows.stop), factors.latent[rows])

    def _state(self, factors: Factors, parts: list[tuple[Any, ...]]) -> State:
        loss, *others = (sum(each) for each in zip(*parts, strict=True))
        penalty = 0.0
        if self.ridge != 0.0:
            penalty = 0.5 * self.ridge * float((factors.latent**2).sum() + (factors.loadings**2).sum())
        return State(factors, float(loss.sum()) + penalty, loss, *others)

    def _column_gradient(self, state: State) -> FloatArray:
        gradient = state.gradient.copy()
        gradient[:, : state.factors.rank] -= self.ridge * state.factors.loadings
        return gradient

    def _column_factor(self, state: State) -> FloatArray:
        ridge = np.full(state.factors.extended.shape[1], self.ridge)
        ridge[state.factors.rank :] = 0.0
        factor, pivot = np.empty_like(state.gram), np.empty(len(state.gram))

        def at(part: slice) -> None:
            factor_grams(state.gram[part], ridge, _SINGLE_DAMPING, factor[part], pivot[part])

        map_in_threads(at, [slice(start, start + 64) for start in range(0, len(factor), 64)])
        return factor

    def _moved_rows(
        self, factors: Factors, jump: tuple[FloatArray, FloatArray] | None = None
    ) -> tuple[State, FloatArray]:
        """The state after a step of every row, and the columns' losses before it."""
        results = self._by_tile(partial(self._row_step, factors, jump=jump))
        latent = np.concatenate([latent for latent, _, _ in results])
        after = self._state(replace(factors, latent=latent), [sums for _, _, sums in results])
        return after, sum(loss for _, loss, _ in results)

    def _row_step(
        self, factors: Factors, rows: slice, jump: tuple[FloatArray, FloatArray] | None = None
    ) -> tuple[FloatArray, FloatArray, tuple[Any, ...]]:
        """A Newton step for every row of a tile: (latent vectors, columns' losses before it, sums after it).

        After a ``jump``, where a joint step leads all rows and the objective that they had, rows step only where it has
        not done all of them much good.
        """
        values = self.cells.rows(rows.start, rows.stop)
        tile = _TileFit(self, factors, values, factors.latent[rows] if jump is None else jump[0][rows])
        loss_before = tile.column_loss
        if jump is not None:
            objective = jump[1][rows]
            if (tile.row_objective <= _MUCH_BETTER * objective).all():
                return tile.latent, loss_before, tile.column_sums()
            worse = np.flatnonzero(tile.row_objective > objective)
            latent = tile.latent.copy()
            stayed = _TileFit(self, factors, values[worse], factors.latent[rows][worse])
            better = stayed.row_objective < tile.row_objective[worse]
            latent[worse[better]] = stayed.latent[better]
            tile = _TileFit(self, factors, values, latent)
        step = tile.row_gradient()
        solve_grams(tile.row_factor(), step)
        moved = _TileFit(self, factors, values, _in_range(tile.latent + step))
        rose = np.flatnonzero(moved.row_objective > tile.row_objective * (1.0 + _ROUNDING))
        if len(rose):  # as a full step carried cells across the floor: several careful ones
            latent, reached = moved.latent.copy(), np.ascontiguousarray(tile.latent[rose])
            offset = np.zeros(len(factors.loadings)) if factors.bias is None else np.ascontiguousarray(factors.bias)
            how = (tile.row_ridge, tile.caps, self.sigma)
            loadings = np.ascontiguousarray(factors.loadings)
            careful_rows(values[rose], reached, offset, loadings, how, _DOUBLE_DAMPING, _LITTLE)
            latent[rose] = _in_range(reached)
            moved = _TileFit(self, factors, values, latent)
        return moved.latent, loss_before, moved.column_sums()

    # --- joint steps ------------------------------------------------------------------------------

    def join(self, state: State, accuracy: float = _CG_ACCURACY, rounds: int = _CG_ROUNDS) -> tuple[State, bool]:
        """One Gauss-Newton step in all factors; (the state it led to, whether the objective fell)."""
        objective, gradient, row_factors, weights = self._evaluate(state)
        rows, columns = self._direction(state, gradient, row_factors, weights, accuracy, rounds)
        for share in (1.0, 0.5, 0.25):
            moved = state.factors.with_extended(_in_range(state.factors.extended + share * columns))
            tried, _ = self._moved_rows(moved, (_in_range(state.factors.latent + share * rows), objective))
            if tried.objective < state.objective:
                return tried, True
        return state, False

    def _evaluate(self, state: State) -> tuple[FloatArray, FloatArray, list[FloatArray], list[Any]]:
        """Of every row the objective and its gradient; of every tile the rows' factored Grams, and weights of cells."""

        def at(rows: slice) -> tuple[FloatArray, FloatArray, FloatArray, Any]:
            tile = self._at(state.factors, rows)
            kept = np.round(tile.weight * 255.0).astype(np.uint8)
            return tile.row_objective, tile.row_gradient(), tile.row_factor(), kept

        objective, gradient, factors, weights = zip(*self._by_tile(at), strict=True)
        return np.concatenate(objective), np.concatenate(gradient), list(factors), list(weights)

    def _direction(
        self,
        state: State,
        gradient: FloatArray,
        row_factors: list[FloatArray],
        weights: list[Any],
        accuracy: float,
        rounds: int,
    ) -> tuple[FloatArray, FloatArray]:
        """Preconditioned conjugate gradients on the Gauss-Newton system in (rows of C, columns' [A b])."""
        column_factor, parts = self._column_factor(state), tiles(self.cells.shape)

        def precondition(rows: FloatArray, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
            rows, columns = rows.copy(), columns.copy()
            pairs = [(factor, rows[part]) for factor, part in zip(row_factors, parts, strict=True)]
            map_in_threads(lambda pair: solve_grams(*pair), pairs)
            solve_grams(column_factor, columns)
            return _in_range(rows), _in_range(columns)

        def product(one: Any, other: Any) -> float:
            return float(sum(np.vdot(a, b) for a, b in zip(one, other, strict=True)))

        residual = [gradient, self._column_gradient(state)]
        solution = [np.zeros_like(residual[0]), np.zeros_like(residual[1])]
        z = precondition(*residual)
        direction = [z[0].copy(), z[1].copy()]
        rho = first = product(residual, z)
        for _ in range(rounds):
            if not rho > accuracy * accuracy * first:
                break
            image = self._hessian(state.factors, weights, direction)
            curvature = product(direction, image)
            if not curvature > 0.0:
                break
            alpha = rho / curvature
            for s, r, p, q in zip(solution, residual, direction, image, strict=True):
                s += alpha * p
                r -= alpha * q
            z = precondition(*residual)
            rho, before = product(residual, z), rho
            direction = [z_part + (rho / before) * p for z_part, p in zip(z, direction, strict=True)]
        return solution[0], solution[1]

    def _hessian(self, factors: Factors, weights: list[Any], direction: list[FloatArray]) -> list[FloatArray]:
        """The Gauss-Newton matrix times a direction, in single precision: directions need few digits."""
        both = np.concatenate([factors.loadings, direction[1]], axis=1).astype(np.float32)
        loadings = np.ascontiguousarray(both[:, : factors.rank])

        def at(item: tuple[slice, Any]) -> tuple[Any, Any]:
            rows, weight = item
            extended = factors.extend(factors.latent[rows]).astype(np.float32)
            product = np.concatenate([direction[0][rows].astype(np.float32), extended], axis=1) @ both.T
            weigh(product, weight)
            return product @ loadings, product.T @ extended

        results = map_in_threads(at, list(zip(tiles(self.cells.shape), weights, strict=True)))
        rows = np.concatenate([result[0] for result in results]).astype(np.float64)
        rows = rows / 255.0 + self.ridge * direction[0]
        columns = np.add.reduce([result[1].astype(np.float64) for result in results]) / 255.0
        columns[:, : factors.rank] += self.ridge * direction[1][:, : factors.rank]
        return [rows, columns]


class _TileFit:
    """Residuals, weights and losses of some rows at given factors."""

    def __init__(self, descent: Descent, factors: Factors, values: FloatArray, latent: FloatArray) -> None:
        self._factors, self.latent = factors, latent
        self._extended = factors.extend(latent)
        self.residual = self._extended @ factors.extended.T
        self.weight = np.empty(self.residual.shape, np.float32)
        self.caps = np.zeros(values.shape[1]) if descent.caps is None else descent.caps
        row_loss, self.column_loss = np.zeros(len(values)), np.zeros(values.shape[1])
        # The kernels turn fitted values into residuals, in place.
        if descent.sigma > 0.0:
            squares = tobit_cells(values, self.residual, descent.sigma, self.weight, row_loss, self.column_loss)
        else:
            floor_cells(values, self.residual, self.caps, self.weight, row_loss, self.column_loss)
            squares = 2.0 * float(row_loss.sum())
        self._squares = float(squares)
        own = descent.row_ridge
        self.row_ridge: FloatArray = np.full(factors.rank, descent.ridge) if own is None else own
        self.row_objective = row_loss + 0.5 * (latent**2 @ self.row_ridge)

    def row_gradient(self) -> FloatArray:
        """Minus the gradient of the objective in each row's latent vector."""
        return self.residual @ self._factors.loadings - self.row_ridge * self.latent

    def row_factor(self) -> FloatArray:
        """Factored Grams of the rows: single precision, but double where a row is nearly singular."""
        gram = self.weight @ self._factors.single_loading_products
        factor, pivot = np.empty(gram.shape), np.empty(len(gram))
        factor_grams(gram, self.row_ridge, _SINGLE_DAMPING, factor, pivot)
        hard = np.flatnonzero(pivot < _HARD)
        if len(hard):
            exact = np.empty((len(hard), gram.shape[1]))
            doubles = self.weight[hard].astype(np.float64) @ self._factors.loading_products
            factor_grams(doubles, self.row_ridge, _DOUBLE_DAMPING, exact, pivot)
            factor[hard] = exact
        return factor

    def column_sums(self) -> tuple[FloatArray, FloatArray, FloatArray, float, float]:
        """The tile's part of a :class:`State`, from ``loss`` on."""
        gram = (self.weight.T @ packed_products(self._extended.astype(np.float32))).astype(np.float64)
        weight = float(self.weight.sum(dtype=np.float64))
        return self.column_loss, self.residual.T @ self._extended, gram, self._squares, weight


def _in_range(factors: FloatArray) -> FloatArray:
    """Factors clipped to where squares are finite; the objective then decides on steps of almost no curvature."""
    return np.clip(np.nan_to_num(factors), -_FARTHEST, _FARTHEST)
