"""The maximum of the full likelihood: the models it is sought in, the scores of rows, the steps, what corrects it.

Steps: quasi-Newton steps in the metric of the rows' own scores. A pass over the rows gives the log-likelihood and its
exact derivative: the moments of the hidden cells are those at which expectation propagation is stationary. Plain EM
steps, the derivative times the inverse information of complete rows, crawl where much is hidden (300 rounds). The
outer products of the rows' scores sum to the information of what is seen, up to chance: with M their sum plus a little
of the complete rows', steps M^-1 score are nearly Newton's, and L-BFGS learns what is left of the difference
(docs/research/026). A step that does not raise the likelihood is halved. Half the score times the step is the
log-likelihood still to be gained, which says when to stop: with g a parameter the typical one is sqrt(2 g) standard
errors from the maximum.

A prior of one row keeps the likelihood bounded where columns determine each other or rows are few:

    weight/2 ( -log det S - tr(T S^-1) )

is the log-likelihood of a row whose second moment T is that of the start.

Correction: moments of expectation propagation are slightly off where few cut-off cells are strongly correlated: at
correlations of .9 the maximum is .7 standard errors off. The leading correction kappa of a row's log density
(:mod:`hidden_cells <unrelu.kernels.hidden_cells>`) mends densities. With A the information,

    theta = A^-1 sum dkappa/dtheta

is where the corrected likelihood has its maximum, to first order in the correction. The step is taken as far as the
corrected likelihood rises by it. A and the derivative of kappa are differences of scores at distributions near by, a
coordinate theta_j away: a pass for every coordinate, on a part of the rows that is large enough, where parameters are
few.

A model has ``n_coordinates`` of its own, in which ``scores`` are derivatives, and ``n_free`` parameters that rows can
identify. Steps are taken in coordinates theta around it, in which complete rows would give (nearly)
independent estimates: ``moved`` gives the model at theta and what turns its score into the derivative in theta;
``jacobian`` is that of the own coordinates in theta, ``metric`` takes outer products of scores there, and
``complete_metric`` is the diagonal of a complete row's information. ``scores`` of rows are (log densities as
expectation propagation has them, what brings these closer, scores n x n_coordinates); the second need only be there if
``corrected``. ``from_covariance`` is the score of something that depends on the covariance alone, from its derivative
there. ``inverse`` of an information is without what the rows cannot identify, a LinAlgError where it is not definite;
``errors`` makes of the covariance of the estimated coordinates (covariance d x 2 x 2 of mean and standard deviation,
variance d x d of the correlations).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import combinations
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh, solve, solve_triangular

from unrelu.contracts import Block, BoolArray, Censoring, Evidence, FloatArray, Progress, Step, no_progress
from unrelu.kernels.factor_density import factor_scores
from unrelu.kernels.likelihood_scores import covariance_scores
from unrelu.passes.engine import map_in_threads
from unrelu.passes.pair_moments import AllButGroup
from unrelu.passes.tiles import censoring_of

TO_GAIN = 5e-7  # a parameter: a thousandth of a standard error
MOST_ROUNDS = 200
MOST_OUTER = 2500  # coordinates whose outer products are kept
_ROUNDS_A_STRETCH = 12  # before the metric is taken anew
_MEMORY = 20
_LONGEST = 1.0  # change of a coordinate in a step: a standard deviation, or a factor e of a variance
_ENOUGH = 1e-4  # share of the gain that the slope promises
_MOST_HALVINGS = 30
_LEAST_COMPLETE = 0.01  # share of the complete rows' information in the metric, and more where rows are few
MAXIMIZING = "Maximizing the likelihood"

_MOST_COORDINATES = 500  # for a pass each
_WORK = 5e5  # rows times coordinates
_FEWEST_ROWS = 1000
ROWS_A_PARAMETER = 3.0
DIFFERENCE = 0.005  # of a coordinate
_RIDGE = 0.003  # of complete rows, for what rows leave open
_LONGEST_CORRECTION = 0.25  # change of a coordinate: a longer step says that first order is not enough
_LENGTHS, _KEPT = (1.0, 0.5, 0.25), 0.25  # of the step, and the share of the slope's promise that it must keep

_FOLD_STEP = 2_654_435_769  # 2^32 over the golden ratio: consecutive rows get folds that look drawn
_CHUNK, _AT_A_TIME = 256, 16  # rows whose scores are held by a thread, and chunks whose sums wait to be merged

Curvature = tuple[FloatArray, FloatArray, FloatArray]
"""Around a maximum, in theta: the information, the outer products of the rows' scores, the slope of corrections."""


# --- the two kinds of model: any covariance, or factors and noise ----------------------------------


class CovarianceModel:
    """N(mean, covariance): coordinates are the mean and the covariance's lower triangle, row by row. Steps theta = (a,
    lower triangle of B) go to mean + L a and L exp(B) L with L the symmetric root of the covariance: no step leaves the
    definite matrices, and a complete row's information is 1 for a_i and B_ij, 1/2 for B_ii."""

    n_components = None  # factors

    def __init__(self, mean: FloatArray, covariance: FloatArray) -> None:
        d = len(mean)
        self.mean, self.covariance = mean, covariance
        self.n_coordinates = self.n_free = d + d * (d + 1) // 2
        values, self._vectors = eigh(covariance)
        self._values = np.maximum(values, 1e-300)
        self._precision = np.ascontiguousarray((self._vectors / self._values) @ self._vectors.T)
        self._log_det = float(np.log(self._values).sum())
        self._lower = i, j = np.tril_indices(d)
        self._twice = np.where(i == j, 1.0, 2.0)  # in the lower triangle an entry beside the diagonal counts twice
        self.complete_metric = np.concatenate([np.ones(d), 0.5 * self._twice])

    @cached_property
    def _root(self) -> FloatArray:
        return np.asarray((self._vectors * np.sqrt(self._values)) @ self._vectors.T)

    def _unpacked(self, lower: FloatArray) -> FloatArray:
        """The symmetric matrix of a lower triangle."""
        full = np.zeros_like(self.covariance)
        full[self._lower] = lower
        return full + np.tril(full, -1).T

    def scores(
        self,
        u: FloatArray,
        censoring: Censoring,
        corrected: bool = False,  # noqa: ARG002 - they are always there
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        found = np.empty(len(u)), np.empty(len(u)), np.empty((len(u), self.n_coordinates))
        unwanted = np.empty((2, 0, len(self.mean)))
        covariance_scores(u, censoring, self.mean, self._precision, self._log_det, *found, unwanted)
        return found

    def moved(self, theta: FloatArray) -> tuple[Self, Callable[[FloatArray], FloatArray]]:
        d, root = len(self.mean), self._root
        values, vectors = np.linalg.eigh(self._unpacked(theta[d:]))
        grown = np.exp(values)
        covariance = root @ ((vectors * grown) @ vectors.T) @ root
        model = type(self)(self.mean + root @ theta[:d], 0.5 * (covariance + covariance.T))
        # The derivative of exp at B: divided differences of exp between the eigenvalues of B.
        gap = values[:, None] - values[None]
        near = np.abs(gap) < 1e-6
        mean_growth = np.exp(0.5 * (values[:, None] + values[None]))
        divided = np.where(near, mean_growth, (grown[:, None] - grown[None]) / np.where(near, 1.0, gap))

        def pulled(score: FloatArray) -> FloatArray:
            full = self._unpacked(score[d:])  # in which an entry beside the diagonal counts twice
            inner = vectors.T @ (root @ (0.5 * (full + np.diag(np.diagonal(full)))) @ root) @ vectors
            rotated = vectors @ (divided * inner) @ vectors.T
            return np.concatenate([root @ score[:d], self._twice * rotated[self._lower]])

        return model, pulled

    @cached_property
    def jacobian(self) -> FloatArray:
        d, root, (i, j) = len(self.mean), self._root, self._lower
        # Column (i, j): the lower triangle of L (E_ij + E_ji) L, or of L E_ii L.
        moved = root[i][:, i] * root[j][:, j] + root[i][:, j] * root[j][:, i]
        moved[:, i == j] *= 0.5
        jacobian = np.zeros((self.n_coordinates, self.n_coordinates))
        jacobian[:d, :d], jacobian[d:, d:] = root, moved
        return jacobian

    def metric(self, outer: FloatArray) -> FloatArray:
        return np.asarray(self.jacobian.T @ outer @ self.jacobian)

    def from_covariance(self, derivative: FloatArray) -> FloatArray:
        return np.concatenate([np.zeros(len(self.mean)), self._twice * derivative[self._lower]])

    def inverse(self, information: FloatArray) -> FloatArray:
        return np.asarray(cho_solve(cho_factor(information, check_finite=False), np.eye(len(information))))

    def errors(self, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        d = len(self.mean)
        at = self._unpacked(d + np.arange(0.5 * d * (d + 1))).astype(np.int64)
        own, std = np.diagonal(at), np.sqrt(np.diagonal(self.covariance))
        both = np.empty((d, 2, 2))
        both[:, 0, 0] = np.diagonal(spread)[:d]
        both[:, 0, 1] = both[:, 1, 0] = spread[np.arange(d), own] / (2.0 * std)
        both[:, 1, 1] = spread[own, own] / (4.0 * std**2)
        # dr_ij = dS_ij / (s_i s_j) - r_ij (dS_ii / S_ii + dS_jj / S_jj) / 2.
        unit = np.outer(std, std)
        r = self.covariance / unit
        mine = -0.5 * r / (std**2)[:, None]  # of S_ii, for row i
        cross = spread[at, own[:, None]] * mine / unit
        variance = np.diagonal(spread)[at] / unit**2 + 2.0 * (cross + cross.T)
        alone = mine**2 * spread[own, own][:, None]
        variance += alone + alone.T + 2.0 * mine * mine.T * spread[np.ix_(own, own)]
        np.fill_diagonal(variance, 0.0)
        return both, np.asarray(variance)


class FactorModel:
    """Factors plus noise: y = b + W z + e, z ~ N(0, I_k), independent e_j ~ N(0, psi_j). Coordinates are (b, W row by
    row, log psi). W is identified up to a rotation only: scores are 0 along W A, A' = -A."""

    def __init__(self, mean: FloatArray, weights: FloatArray, noise: FloatArray) -> None:
        d, k = weights.shape
        self.mean, self.weights, self.noise = mean, weights, noise
        self.n_components, self.n_coordinates = k, d * (k + 2)
        self.n_free = min(self.n_coordinates - k * (k - 1) // 2, d + d * (d + 1) // 2)
        self.complete_metric = np.concatenate([1.0 / noise, np.repeat(1.0 / noise, k), np.full(d, 0.5)])

    @property
    def covariance(self) -> FloatArray:
        return np.asarray(self.weights @ self.weights.T + np.diag(self.noise))

    def scores(
        self, u: FloatArray, censoring: Censoring, corrected: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        n = len(u)
        found = np.empty(n), np.empty(n if corrected else 0), np.empty((n, self.n_coordinates))
        factor_scores(u, censoring, self.mean, self.weights, self.noise, *found)
        return found

    def moved(self, theta: FloatArray) -> tuple[Self, Callable[[FloatArray], FloatArray]]:
        d, k = self.weights.shape
        mean, weights, noise = np.split(theta, [d, d + d * k])
        model = type(self)(self.mean + mean, self.weights + weights.reshape(d, k), self.noise * np.exp(noise))
        return model, lambda score: score

    @property
    def jacobian(self) -> FloatArray:
        return np.eye(self.n_coordinates)

    def metric(self, outer: FloatArray) -> FloatArray:
        return outer

    def from_covariance(self, derivative: FloatArray) -> FloatArray:
        along = (2.0 * derivative @ self.weights).ravel()
        return np.concatenate([np.zeros(len(self.mean)), along, np.diagonal(derivative) * self.noise])

    def inverse(self, information: FloatArray) -> FloatArray:
        d, k = self.weights.shape
        gauge = np.zeros((self.n_coordinates, k * (k - 1) // 2))  # directions in which nothing changes, a column each
        for at, (i, j) in enumerate(combinations(range(k), 2)):
            rotated = np.zeros((d, k))
            rotated[:, i], rotated[:, j] = -self.weights[:, j], self.weights[:, i]
            gauge[d : d + d * k, at] = rotated.ravel()
        # Rotations are held where they are; whatever else the rows leave open keeps its wide error.
        gauge *= np.sqrt(np.trace(information) / len(information))
        held = information + gauge @ gauge.T
        return np.asarray(cho_solve(cho_factor(held, check_finite=False), np.eye(len(held))))

    def errors(self, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        d, k = self.weights.shape
        # Per column (w_j, log psi_j), which std and correlations depend on.
        at = np.hstack([d + np.arange(d * k).reshape(d, k), d + d * k + np.arange(d)[:, None]])
        blocks = spread[at[:, :, None, None], at[None, None]]  # d x q x d x q
        std = np.sqrt(np.sum(self.weights**2, axis=1) + self.noise)
        to_std = np.hstack([self.weights, 0.5 * self.noise[:, None]]) / std[:, None]
        own = np.arange(d)
        both = np.empty((d, 2, 2))
        both[:, 0, 0] = spread[own, own]
        both[:, 0, 1] = both[:, 1, 0] = np.einsum("jq,jq->j", spread[own[:, None], at], to_std)
        both[:, 1, 1] = np.einsum("jq,jqr,jr->j", to_std, blocks[own, :, own], to_std)
        # slope[i, j]: of r_ij in column i's parameters; r_ij = w_i'w_j / (s_i s_j).
        r = self.weights @ self.weights.T / np.outer(std, std)
        slope = np.zeros((d, d, k + 1))
        slope[:, :, :k] = self.weights[None] / (std[:, None] * std[None])[:, :, None]
        slope -= r[:, :, None] * (to_std / std[:, None])[:, None]
        alone = np.einsum("ijq,iqr,ijr->ij", slope, blocks[own, :, own], slope)
        cross = np.einsum("ijq,iqjr,jir->ij", slope, blocks, slope)
        return both, np.asarray(alone + alone.T + 2.0 * cross)


Model: TypeAlias = CovarianceModel | FactorModel


# --- scores of rows under a model --------------------------------------------------------------------------


@dataclass(frozen=True)
class Fold:
    """Rows held out, one of ``number`` folds, or the others: dealt by their place in the table alone."""

    index: int
    number: int
    held_out: bool

    def of(self, block: Block) -> BoolArray:
        rows = np.arange(block.first_row, block.first_row + len(block.values), dtype=np.uint64)
        dealt = (rows * np.uint64(_FOLD_STEP) % np.uint64(2**32)) * np.uint64(self.number) // np.uint64(2**32)
        return np.asarray((dealt == self.index) == self.held_out)


@dataclass(frozen=True, eq=False)
class Cells:
    """How cells are read: the columns that vary, u = (x - origin)/unit, and the level at which cells are cut off.
    ``rows``: only these count."""

    columns: NDArray[np.int64]
    origin: FloatArray
    unit: FloatArray
    floor: FloatArray
    rows: Fold | AllButGroup | None = None

    def of(self, block: Block) -> tuple[FloatArray, Censoring, FloatArray]:
        """(u, marks, weights) of the rows that count."""
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        kept = weights > 0.0
        if self.rows is not None:
            kept = kept & self.rows.of(block)
        rows = slice(None) if kept.all() else kept
        own = None if block.censoring is None else block.censoring[rows][:, self.columns]
        values, marks = censoring_of(block.values[rows][:, self.columns], own, self.floor)
        return np.ascontiguousarray((values - self.origin) / self.unit), np.ascontiguousarray(marks), weights[rows]


@dataclass(frozen=True, eq=False)
class Scores:
    """Sums over rows: weighted log density and score (or one of each for several distributions), outer products if
    wanted."""

    log_likelihood: Any
    score: FloatArray
    outer: FloatArray | None
    weight: float

    def merge(self, other: Self) -> Self:
        outer = None if self.outer is None or other.outer is None else self.outer + other.outer
        return type(self)(
            self.log_likelihood + other.log_likelihood, self.score + other.score, outer, self.weight + other.weight
        )


def scores_of(evidence: Evidence, cells: Cells, model: Model, outer: bool = False, corrected: bool = False) -> Scores:
    """Those of all rows under ``model``, with outer products if ``outer``, and ``corrected`` densities."""
    return evidence.collect(partial(_scores_in, cells, model, outer, corrected), remember=False)


def _scores_in(cells: Cells, model: Model, outer: bool, corrected: bool, block: Block) -> Scores:
    u, censoring, weights = cells.of(block)
    p = model.n_coordinates
    whole = Scores(0.0, np.zeros(p), np.zeros((p, p)) if outer else None, 0.0)

    def part(rows: slice) -> Scores:
        w = weights[rows]
        densities, corrections, scores = model.scores(u[rows], censoring[rows], corrected)
        if corrected:
            densities = densities + corrections
        products = scores.T @ (w[:, None] * scores) if outer else None
        return Scores(float(w @ densities), w @ scores, products, float(w.sum()))

    rows = [slice(start, start + _CHUNK) for start in range(0, len(u), _CHUNK)]
    for start in range(0, len(rows), _AT_A_TIME):
        whole = reduce(Scores.merge, map_in_threads(part, rows[start : start + _AT_A_TIME]), whole)
    return whole


# --- to the maximum -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prior:
    """``weight`` rows of second moment ``target``."""

    weight: float
    target: FloatArray

    def add(self, model: Model, value: float, score: FloatArray) -> tuple[float, FloatArray]:
        """Log-likelihood and score with those of the prior."""
        factor = cho_factor(model.covariance, lower=True)
        inverse = cho_solve(factor, np.eye(len(self.target)))
        log_det = 2.0 * float(np.log(np.diagonal(factor[0])).sum())
        value -= 0.5 * self.weight * (log_det + float(np.sum(inverse * self.target)))
        derivative = 0.5 * self.weight * (inverse @ self.target @ inverse - inverse)
        return value, score + model.from_covariance(0.5 * (derivative + derivative.T))


@dataclass(frozen=True, eq=False)
class Maximum:
    """Where the steps ended. ``log_likelihood`` is without the prior; ``levels`` has every round's, with it."""

    model: Model
    log_likelihood: float
    rounds: int
    converged: bool
    levels: tuple[float, ...]


class _Place(NamedTuple):
    """A distribution, the value there, and its derivative in the coordinates around a reference."""

    model: Model
    value: float
    log_likelihood: float
    gradient: FloatArray
    outer: FloatArray | None


def maximize(
    evidence: Evidence,
    cells: Cells,
    model: Model,
    prior: Prior,
    rows: tuple[float, float],
    progress: Progress = no_progress,
    most_rounds: int = MOST_ROUNDS,
    to_gain: float = TO_GAIN,
) -> Maximum:
    """The most likely model of its kind, from ``model`` on. ``rows``: their weight and their effective number.
    ``to_gain``: log-likelihood that may be left, a parameter."""
    weight, effective = rows
    enough, wants_outer = to_gain * model.n_free * weight / effective, model.n_coordinates <= MOST_OUTER
    levels: list[float] = []

    def at(reference: Model, theta: FloatArray, outer: bool = False) -> _Place:
        moved, pulled = reference.moved(theta)
        model = moved if theta.any() else reference
        record = scores_of(evidence, cells, model, outer)
        value, score = prior.add(model, record.log_likelihood, record.score)
        return _Place(model, value, record.log_likelihood, pulled(score), record.outer)

    converged = model.n_coordinates == 0
    here = _Place(model, 0.0, 0.0, np.empty(0), None)
    while not converged and len(levels) < most_rounds:
        reference, theta = here.model, np.zeros(model.n_coordinates)
        here = at(reference, theta, wants_outer)
        levels.append(here.value)
        # R' of the metric M = R'R, in which x = R theta; the roots of a diagonal one alone.
        complete = weight * reference.complete_metric
        root = np.sqrt(complete)
        if here.outer is not None:
            share = float(np.clip(model.n_coordinates / effective, _LEAST_COMPLETE, 1.0))
            with suppress(np.linalg.LinAlgError):  # products that drown in rounding, as without an inverse covariance
                root = np.asarray(np.linalg.cholesky(reference.metric(here.outer) + np.diag(share * complete)))
        slope, pairs = _whitened(root, here.gradient), list[tuple[FloatArray, FloatArray]]()
        most = min(_ROUNDS_A_STRETCH if wants_outer else most_rounds, most_rounds - len(levels))
        for left in range(most, -1, -1):
            direction = _direction(slope, pairs)
            gain = float(slope @ direction)
            converged = 0.5 * gain < enough
            if converged or left == 0:
                break
            step = _whitened(root, direction, back=True)
            length = min(1.0, _LONGEST / float(np.max(np.abs(step))))
            for _ in range(_MOST_HALVINGS):
                there = at(reference, theta + length * step)
                if there.value >= here.value + _ENOUGH * length * gain:
                    break
                length *= 0.5
            else:  # no step helps
                return Maximum(here.model, here.log_likelihood, len(levels), False, tuple(levels))
            theta = theta + length * step
            before, slope, here = slope, _whitened(root, there.gradient), there
            change = before - slope
            if change @ direction > 1e-10 * gain:
                pairs = [*pairs[1 - _MEMORY :], (length * direction, change)]
            levels.append(here.value)
            words = f"round {len(levels)}, log-likelihood {here.log_likelihood:,.2f}"
            progress(Step(MAXIMIZING, len(levels), most_rounds, words))
    return Maximum(here.model, here.log_likelihood, len(levels), converged, tuple(levels))


def _whitened(root: FloatArray, vector: FloatArray, back: bool = False) -> FloatArray:
    """A gradient in theta as one in x; ``back``: a step in x as one in theta."""
    if root.ndim == 1:
        return vector / root
    return np.asarray(solve_triangular(root, vector, lower=True, trans=1 if back else 0))


def _direction(slope: FloatArray, pairs: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """The two loops of L-BFGS, upwards, from pairs (step, fall of the slope) in coordinates whose metric is near 1."""
    q, shares = slope.copy(), []
    for step, fall in reversed(pairs):
        share = float(step @ q) / float(step @ fall)
        shares.append(share)
        q -= share * fall
    if pairs:
        step, fall = pairs[-1]
        q *= float(step @ fall) / float(fall @ fall)
    for (step, fall), share in zip(pairs, reversed(shares), strict=True):
        q += (share - float(fall @ q) / float(step @ fall)) * step
    return q


# --- around the maximum ----------------------------------------------------------------------------


def _nearby(cells: Cells, distributions: list[Model], block: Block) -> Scores:
    """A question: corrections and scores under each of these models."""
    u, censoring, weights = cells.of(block)

    def summed(model: Model) -> tuple[float, FloatArray]:
        _, corrections, scores = model.scores(u, censoring, True)
        return float(weights @ corrections), weights @ scores

    corrections, scores = zip(*map_in_threads(summed, distributions), strict=True)
    return Scores(np.array(corrections), np.array(scores), None, float(weights.sum()))


def curvature(
    evidence: Evidence, cells: Cells, model: Model, prior: Prior, rows: tuple[float, float], outer: FloatArray
) -> Curvature:
    """That of a model at its maximum, with the prior. ``outer``: of the scores there, in the model's own
    coordinates."""
    p = model.n_coordinates
    number = max(1, int(rows[1] / max(_WORK / p, _FEWEST_ROWS)))
    part = replace(cells, rows=None if number == 1 else Fold(0, number, True))
    distributions = [model, *(model.moved(step)[0] for step in DIFFERENCE * np.eye(p))]  # one a coordinate
    nearby = evidence.collect(partial(_nearby, part, distributions), remember=False)
    share = rows[0] / nearby.weight if nearby.weight > 0.0 else 0.0
    scores = np.array(
        [prior.add(each, 0.0, share * score)[1] for each, score in zip(distributions, nearby.score, strict=True)]
    )
    bend = (scores[0] - scores[1:]) / DIFFERENCE @ model.jacobian
    slope = share * (nearby.log_likelihood[1:] - nearby.log_likelihood[0]) / DIFFERENCE
    return 0.5 * (bend + bend.T), model.metric(outer), slope


def correct(
    evidence: Evidence, cells: Cells, maximum: Maximum, prior: Prior, rows: tuple[float, float]
) -> tuple[Maximum, FloatArray, Curvature | None]:
    """(the maximum a step further, with the corrected log-likelihood; the step; the curvature of the likelihood)."""
    model, stay = maximum.model, np.zeros(maximum.model.n_coordinates)
    # A pass for every coordinate must be worth it, and rows enough for the outer products of scores.
    small = 0 < model.n_coordinates <= _MOST_COORDINATES and rows[1] > ROWS_A_PARAMETER * model.n_free
    record = scores_of(evidence, cells, model, outer=small, corrected=True)
    here = replace(maximum, log_likelihood=record.log_likelihood)
    if record.outer is None:
        return here, stay, None
    around = curvature(evidence, cells, model, prior, rows, record.outer)
    _, outer, slope = around
    if not slope.any():
        return here, stay, around
    metric = outer + np.diag(_RIDGE * rows[0] * model.complete_metric)
    step = solve(metric, slope, assume_a="pos")
    step *= min(1.0, _LONGEST_CORRECTION / float(np.max(np.abs(step))))
    for length in _LENGTHS:
        moved = model.moved(length * step)[0]
        level = scores_of(evidence, cells, moved, corrected=True).log_likelihood
        gain = prior.add(moved, level, stay)[0] - prior.add(model, record.log_likelihood, stay)[0]
        if gain > _KEPT * length * float(slope @ step):
            return replace(maximum, model=moved, log_likelihood=level), length * step, around
    return here, stay, around
