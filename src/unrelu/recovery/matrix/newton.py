"""Descent on F(C, A, b) + ridge/2 (|C|^2 + |A|^2): alternating Newton steps far out, joint ones near the end.

Given A and b, F is convex and piecewise quadratic in every row of C, and likewise in every column's (a_j, b_j) given
C: one Newton step for each, all Grams from one matrix product, is a round of censored alternating least squares. It
is robust and converges linearly. A joint step in all factors, the Gauss-Newton system solved by conjugate gradients
with those Grams as preconditioner, converges quadratically where T fits exactly, and much faster than alternation
where it does not; it is taken once alternation slows down, and kept while it lowers F.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.engines.local import map_in_threads
from unrelu.kernels.floor_cells import careful_rows, factor_grams, packed_products, solve_grams, unpacked, weigh
from unrelu.recovery.matrix.cells import Cells, tiles
from unrelu.recovery.matrix.factors import Factors
from unrelu.recovery.matrix.losses import Loss

_HALVINGS = 8
_STILL = 1e-13  # relative movement of rows that have arrived
_ROUNDING = 1e-13  # a loss that rose by less has not risen
_SINGLE_DAMPING, _DOUBLE_DAMPING = 1e-6, 1e-13  # what Grams in that precision do not resolve, relative to a diagonal
_LITTLE = 1e-12  # share of a row's objective: a careful step that gains less is the last
_MUCH_BETTER = 0.25
_FARTHEST = 1e9  # of a factor, values being about 1: beyond are rounding over rounding, and single precision's end
_HARD = 1e-3  # relative pivot below which a row's Gram is formed anew in double precision


@dataclass(frozen=True)
class ColumnSums:
    """What the columns' equations need, summed over rows: losses, gradients, packed Grams; and the noise's squares."""

    loss: FloatArray
    gradient: FloatArray
    gram: FloatArray
    squares: float
    weight: float

    def __add__(self, other: ColumnSums) -> ColumnSums:
        return ColumnSums(
            self.loss + other.loss,
            self.gradient + other.gradient,
            self.gram + other.gram,
            self.squares + other.squares,
            self.weight + other.weight,
        )


@dataclass(frozen=True)
class _Tile:
    """A tile after its rows took their step."""

    latent: FloatArray
    loss_before: FloatArray
    sums: ColumnSums


@dataclass(frozen=True)
class _Jump:
    """Where a joint step leads the rows, and the objective each of them had before it."""

    to: FloatArray
    objective: FloatArray


@dataclass(frozen=True)
class State:
    """Factors, the columns' sums there, and F with its penalty."""

    factors: Factors
    sums: ColumnSums
    objective: float


@dataclass(frozen=True)
class _Point:
    """All that a joint step needs at one set of factors."""

    factors: Factors
    sums: ColumnSums
    row_objective: FloatArray
    row_gradient: FloatArray
    row_factor: FloatArray
    weights: list[Any]


@dataclass(frozen=True)
class Descent:
    """The table, what a cell costs and the penalty: everything that stays while factors move."""

    cells: Cells
    loss: Loss
    ridge: float = 0.0
    row_ridge: FloatArray | None = None  # for rows alone, in place of ``ridge``: one per component

    # --- alternating steps ------------------------------------------------------------------------

    def alternate(self, state: State) -> State:
        """The columns' step from the sums at ``state``, then every row's; columns that lose by it step back."""
        k = state.factors.rank
        extended = state.factors.extended
        step = self._column_step(state)
        share = np.ones(len(extended))
        for _ in range(_HALVINGS):
            moved = state.factors.with_extended(_in_range(extended + share[:, None] * step))
            results = map_in_threads(lambda rows, f=moved: self._row_step(f, rows), self._tiles())  # type: ignore[misc]
            penalty = 0.5 * self.ridge * ((moved.loadings**2).sum(axis=1) - (extended[:, :k] ** 2).sum(axis=1))
            rise = sum(result.loss_before for result in results) + penalty - state.sums.loss
            if rise.sum() <= _ROUNDING * state.objective:
                break
            share = np.where(rise > 0.0, 0.5 * share, share)
        else:
            moved = state.factors
            results = map_in_threads(lambda rows: self._row_step(state.factors, rows), self._tiles())
        latent = np.concatenate([result.latent for result in results])
        return self._state(replace(moved, latent=latent), _total([result.sums for result in results]))

    def start(self, factors: Factors) -> State:
        """The sums at given factors."""

        def at(rows: slice) -> ColumnSums:
            return _TileFit(self, factors, self.cells.rows(rows.start, rows.stop), factors.latent[rows]).column_sums()

        return self._state(factors, _total(map_in_threads(at, self._tiles())))

    def settle_rows(self, factors: Factors, rounds: int = 100) -> Factors:
        """Rows alone, until they stand still: the latent vectors of a table whose columns are known."""
        for _ in range(rounds):
            results = map_in_threads(lambda rows, f=factors: self._row_step(f, rows), self._tiles())  # type: ignore[misc]
            latent = np.concatenate([result.latent for result in results])
            moved = float(np.abs(latent - factors.latent).max(initial=0.0))
            factors = replace(factors, latent=latent)
            if moved <= _STILL * float(np.abs(latent).max(initial=0.0)):
                break
        return factors

    def leading_residual(self, factors: Factors, rounds: int = 8) -> tuple[FloatArray, FloatArray]:
        """u and v with u v' the best rank-1 fit of the residuals, by power iteration from the largest column's."""
        parts = self._tiles()

        def residual(rows: slice) -> FloatArray:
            return _TileFit(self, factors, self.cells.rows(rows.start, rows.stop), factors.latent[rows]).residual

        pieces = map_in_threads(residual, parts)
        right = np.sqrt(np.add.reduce([(piece**2).sum(axis=0) for piece in pieces]))
        left = np.zeros(len(factors.latent))
        for _ in range(rounds):
            right = right / max(float(np.linalg.norm(right)), 1e-300)
            left = np.concatenate([piece @ right for piece in pieces])
            right = np.add.reduce([left[part] @ piece for part, piece in zip(parts, pieces, strict=True)])
            size = float(left @ left)
            right = right / size if size > 0.0 else right
        return left, right

    def fitted_by_rows(self, factors: Factors) -> float:
        """sum_i tr((G_i + ridge)^-1 G_i): the numbers that the rows' cells determine of their n k."""
        k = factors.rank

        def at(rows: slice) -> float:
            tile = _TileFit(self, factors, self.cells.rows(rows.start, rows.stop), factors.latent[rows])
            gram = unpacked(tile.weight.astype(np.float64) @ factors.loading_products, k)
            eigenvalues = np.maximum(np.linalg.eigvalsh(gram), 0.0)
            return float((eigenvalues / np.maximum(eigenvalues + self.ridge, 1e-300)).sum())

        return sum(map_in_threads(at, self._tiles()))

    def _state(self, factors: Factors, sums: ColumnSums) -> State:
        return State(factors, sums, float(sums.loss.sum()) + self._penalty(factors))

    def _penalty(self, factors: Factors) -> float:
        if self.ridge == 0.0:
            return 0.0
        return 0.5 * self.ridge * float((factors.latent**2).sum() + (factors.loadings**2).sum())

    def _column_step(self, state: State) -> FloatArray:
        step = state.sums.gradient.copy()
        step[:, : state.factors.rank] -= self.ridge * state.factors.loadings
        solve_grams(self._column_factor(state.factors, state.sums), step)
        return step

    def _column_factor(self, factors: Factors, sums: ColumnSums) -> FloatArray:
        ridge = np.full(factors.extended.shape[1], self.ridge)
        ridge[factors.rank :] = 0.0
        factor, pivot = np.empty_like(sums.gram), np.empty(len(sums.gram))

        def at(part: slice) -> None:
            factor_grams(sums.gram[part], ridge, _SINGLE_DAMPING, factor[part], pivot[part])

        map_in_threads(at, [slice(start, start + 64) for start in range(0, len(factor), 64)])
        return factor

    def _row_step(self, factors: Factors, rows: slice, jump: _Jump | None = None) -> _Tile:
        """A Newton step for every row of a tile; after a ``jump``, only where that has not done all rows much good."""
        values = self.cells.rows(rows.start, rows.stop)
        tile = _TileFit(self, factors, values, factors.latent[rows] if jump is None else jump.to[rows])
        loss_before = tile.column_loss
        if jump is not None:
            if (tile.row_objective <= _MUCH_BETTER * jump.objective[rows]).all():
                return _Tile(tile.latent, loss_before, tile.column_sums())
            worse = np.flatnonzero(tile.row_objective > jump.objective[rows])
            latent = tile.latent.copy()
            stayed = _TileFit(self, factors, values[worse], factors.latent[rows][worse])
            better = stayed.row_objective < tile.row_objective[worse]
            latent[worse[better]] = stayed.latent[better]
            tile = _TileFit(self, factors, values, latent)
        step = tile.row_gradient()
        solve_grams(tile.row_factor(), step)
        moved = _TileFit(self, factors, values, _in_range(tile.latent + step))
        rose = np.flatnonzero(moved.row_objective > tile.row_objective * (1.0 + _ROUNDING))
        if len(rose):
            latent = moved.latent.copy()
            latent[rose] = self._careful(factors, values[rose], tile.latent[rose])
            moved = _TileFit(self, factors, values, latent)
        return _Tile(moved.latent, loss_before, moved.column_sums())

    def _careful(self, factors: Factors, values: FloatArray, latent: FloatArray) -> FloatArray:
        """Several careful steps for rows that a full one made worse, as it carried cells across the floor."""
        ridge = np.full(factors.rank, self.ridge) if self.row_ridge is None else self.row_ridge
        offset = np.zeros(len(factors.loadings)) if factors.bias is None else factors.bias
        how = (ridge, *self.loss.of_rows(len(offset)))
        reached, loadings = latent.copy(), np.ascontiguousarray(factors.loadings)
        careful_rows(values, reached, np.ascontiguousarray(offset), loadings, how, _DOUBLE_DAMPING, _LITTLE)
        return _in_range(reached)

    # --- joint steps ------------------------------------------------------------------------------

    def join(self, state: State, accuracy: float, rounds: int) -> tuple[State, bool]:
        """One Gauss-Newton step in all factors; (the state it led to, whether the objective fell)."""
        point = self._evaluate(state)
        rows, columns = self._direction(point, accuracy, rounds)
        for halving in range(3):
            share = 0.5**halving
            moved = state.factors.with_extended(_in_range(state.factors.extended + share * columns))
            jump = _Jump(_in_range(state.factors.latent + share * rows), point.row_objective)
            results = map_in_threads(lambda part, f=moved, j=jump: self._row_step(f, part, j), self._tiles())  # type: ignore[misc]
            latent = np.concatenate([result.latent for result in results])
            tried = self._state(replace(moved, latent=latent), _total([result.sums for result in results]))
            if tried.objective < state.objective:
                return tried, True
        return state, False

    def _evaluate(self, state: State) -> _Point:
        factors = state.factors

        def at(rows: slice) -> tuple[FloatArray, FloatArray, FloatArray, Any]:
            tile = _TileFit(self, factors, self.cells.rows(rows.start, rows.stop), factors.latent[rows])
            gradient = tile.row_gradient()
            kept = np.round(tile.weight * 255.0).astype(np.uint8)
            return tile.row_objective, gradient, tile.row_factor(), kept

        results = map_in_threads(at, self._tiles())
        objective, gradient, factor = (np.concatenate([result[i] for result in results]) for i in (0, 1, 2))
        return _Point(factors, state.sums, objective, gradient, factor, [result[3] for result in results])

    def _direction(self, point: _Point, accuracy: float, rounds: int) -> tuple[FloatArray, FloatArray]:
        """Preconditioned conjugate gradients on the Gauss-Newton system in (rows of C, columns' [A b])."""
        factors = point.factors
        column_gradient = point.sums.gradient.copy()
        column_gradient[:, : factors.rank] -= self.ridge * factors.loadings
        column_factor = self._column_factor(factors, point.sums)
        parts = self._tiles()

        def precondition(rows: FloatArray, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
            rows, columns = rows.copy(), columns.copy()
            map_in_threads(lambda part: solve_grams(point.row_factor[part], rows[part]), parts)
            solve_grams(column_factor, columns)
            return _in_range(rows), _in_range(columns)

        residual = [point.row_gradient, column_gradient]
        solution = [np.zeros_like(residual[0]), np.zeros_like(residual[1])]
        z = precondition(*residual)
        direction = [z[0].copy(), z[1].copy()]
        rho = first = _dot(residual, z)
        for _ in range(rounds):
            if not rho > accuracy * accuracy * first:
                break
            image = self._hessian(point, direction, parts)
            curvature = _dot(direction, image)
            if not curvature > 0.0:
                break
            alpha = rho / curvature
            for s, r, p, q in zip(solution, residual, direction, image, strict=True):
                s += alpha * p
                r -= alpha * q
            z = precondition(*residual)
            rho, before = _dot(residual, z), rho
            direction = [z_part + (rho / before) * p for z_part, p in zip(z, direction, strict=True)]
        return solution[0], solution[1]

    def _hessian(self, point: _Point, direction: list[FloatArray], parts: list[slice]) -> list[FloatArray]:
        """The Gauss-Newton matrix times a direction, in single precision: directions need few digits."""
        factors = point.factors
        both = np.concatenate([factors.loadings, direction[1]], axis=1).astype(np.float32)
        loadings = np.ascontiguousarray(both[:, : factors.rank])

        def at(item: tuple[slice, Any]) -> tuple[Any, Any]:
            rows, weight = item
            extended = factors.extend(factors.latent[rows]).astype(np.float32)
            product = np.concatenate([direction[0][rows].astype(np.float32), extended], axis=1) @ both.T
            weigh(product, weight)
            return product @ loadings, product.T @ extended

        results = map_in_threads(at, list(zip(parts, point.weights, strict=True)))
        rows = np.concatenate([result[0] for result in results]).astype(np.float64)
        rows = rows / 255.0 + self.ridge * direction[0]
        columns = reduce(operator.add, [result[1].astype(np.float64) for result in results]) / 255.0
        columns[:, : factors.rank] += self.ridge * direction[1][:, : factors.rank]
        return [rows, columns]

    def _tiles(self) -> list[slice]:
        return tiles(self.cells.shape)


class _TileFit:
    """Residuals, weights and losses of some rows at given factors."""

    def __init__(self, descent: Descent, factors: Factors, values: FloatArray, latent: FloatArray) -> None:
        self._descent, self._factors, self._values = descent, factors, values
        self.latent = latent
        self._extended = factors.extend(latent)
        self.residual = self._extended @ factors.extended.T
        self.weight = np.empty(self.residual.shape, np.float32)
        self.row_loss, self.column_loss = np.zeros(len(values)), np.zeros(values.shape[1])
        self._squares = descent.loss.cells(values, self.residual, self.weight, self.row_loss, self.column_loss)
        row_ridge = np.full(factors.rank, descent.ridge) if descent.row_ridge is None else descent.row_ridge
        self._row_ridge: FloatArray = row_ridge
        self.row_objective = self.row_loss + 0.5 * (latent**2 @ row_ridge)

    def row_gradient(self) -> FloatArray:
        """Minus the gradient of the objective in each row's latent vector."""
        gradient: FloatArray = self.residual @ self._factors.loadings - self._row_ridge * self.latent
        return gradient

    def row_factor(self) -> FloatArray:
        """Factored Grams of the rows: single precision, but double where a row is nearly singular."""
        gram = self.weight @ self._factors.single_loading_products
        factor, pivot = np.empty(gram.shape), np.empty(len(gram))
        factor_grams(gram, self._row_ridge, _SINGLE_DAMPING, factor, pivot)
        hard = np.flatnonzero(pivot < _HARD)
        if len(hard):
            exact = np.empty((len(hard), gram.shape[1]))
            doubles = self.weight[hard].astype(np.float64) @ self._factors.loading_products
            factor_grams(doubles, self._row_ridge, _DOUBLE_DAMPING, exact, pivot)
            factor[hard] = exact
        return factor

    def column_sums(self) -> ColumnSums:
        gram = self.weight.T @ packed_products(self._extended.astype(np.float32))
        return ColumnSums(
            self.column_loss,
            self.residual.T @ self._extended,
            gram.astype(np.float64),
            self._squares,
            float(self.weight.sum(dtype=np.float64)),
        )


def _total(parts: list[ColumnSums]) -> ColumnSums:
    return reduce(operator.add, parts)


def _in_range(factors: FloatArray) -> FloatArray:
    """What no curvature to speak of carried off stays where its squares are numbers; the objective then judges it."""
    return np.clip(np.nan_to_num(factors), -_FARTHEST, _FARTHEST)


def _dot(one: Any, other: Any) -> float:
    return float(sum(np.vdot(a, b) for a, b in zip(one, other, strict=True)))
