"""The maximum of the likelihood: up to it, how the likelihood lies around it, and the errors that follow.

Up: quasi-Newton steps in the metric of the rows' own scores. A pass over the rows gives the log-likelihood and its
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
corrected likelihood rises by it. A and the derivative of kappa are differences of scores at laws near by, a coordinate
theta_j away: a pass for every coordinate, on a part of the rows that is large enough, where parameters are few.

Errors that do not trust the model: A^-1 B A^-1, with B the sum of the outer products of the rows' scores, both from
the rows themselves. Under the model A = B, up to chance; with heavier tails B is larger, and the errors are those of a
bootstrap of the rows. In small tables they would be too small: B has fourth powers of what is seen, of which the
largest are seldom there. With n cells of which m are seen, variances grow by 8/n, and those of means by 1/n, and both
by 13 (1/m - 1/n) (docs/research/026). That takes several rows a parameter. Where rows are too few or parameters too
many, each column is taken by itself: mean and spread with A and B of the column's own cells, as if the others said
nothing of it, and correlations with the information of as many complete rows as the two columns amount to,

    stderr(r_ij) = (1 - r_ij^2) / sqrt(n e_i e_j),     e_i = mean of (score of the mean)^2 s_i^2,

which is 1 for a column without cut-off or missing cells, times what tails add to it. Both are rather too wide than too
narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve, solve_triangular

from unrelu.contracts import Block, Evidence, FloatArray, Step, Watch, unwatched
from unrelu.fit.likelihood.cells import Cells, CellTally, Fold, ScoreQuestion, Scores
from unrelu.fit.likelihood.laws import FactorLaw, Law
from unrelu.passes.engine import map_in_threads

TO_GAIN = 5e-7  # a parameter: a thousandth of a standard error
MOST_ROUNDS = 200
_MOST_OUTER = 2500  # coordinates whose outer products are kept
_ROUNDS_A_STRETCH = 12  # before the metric is taken anew
_MEMORY = 20
_LONGEST = 1.0  # change of a coordinate in a step: a standard deviation, or a factor e of a variance
_ENOUGH = 1e-4  # share of the gain that the slope promises
_MOST_HALVINGS = 30
_LEAST_COMPLETE = 0.01  # share of the complete rows' information in the metric, and more where rows are few
CLIMBING = "Climbing the likelihood"

_MOST_COORDINATES = 500  # for a pass each
_WORK = 5e5  # rows times coordinates
_FEWEST_ROWS = 1000
_ROWS_A_PARAMETER = 3.0
_DIFFERENCE = 0.005  # of a coordinate
_RIDGE = 0.003  # of complete rows, for what rows leave open
_LONGEST_CORRECTION = 0.25  # change of a coordinate: a longer step says that first order is not enough
_LENGTHS, _KEPT = (1.0, 0.5, 0.25), 0.25  # of the step, and the share of the slope's promise that it must keep
_OF_MEAN, _OF_SCALE, _OF_HIDDEN = 1.0, 8.0, 13.0  # shares by which variances grow, over the number of cells

Errors = tuple[FloatArray, FloatArray]
Curvature = tuple[FloatArray, FloatArray, FloatArray]
"""Around a maximum, in theta: the information, the outer products of the rows' scores, the slope of corrections."""


@dataclass(frozen=True, eq=False)
class Prior:
    """``weight`` rows of second moment ``target``."""

    weight: float
    target: FloatArray

    def level(self, law: Law) -> float:
        """Its own log-likelihood."""
        return self.add(law, 0.0, np.zeros(law.n_coordinates))[0]

    def add(self, law: Law, value: float, score: FloatArray) -> tuple[float, FloatArray]:
        """Log-likelihood and score with those of the prior."""
        factor = cho_factor(law.covariance, lower=True)
        inverse = cho_solve(factor, np.eye(len(self.target)))
        log_det = 2.0 * float(np.log(np.diagonal(factor[0])).sum())
        value -= 0.5 * self.weight * (log_det + float(np.sum(inverse * self.target)))
        derivative = 0.5 * self.weight * (inverse @ self.target @ inverse - inverse)
        return value, score + law.from_covariance(0.5 * (derivative + derivative.T))


@dataclass(frozen=True, eq=False)
class Climbed:
    """Where the climb ended. ``log_likelihood`` is without the prior; ``levels`` has every round's, with it."""

    law: Law
    log_likelihood: float
    rounds: int
    converged: bool
    levels: tuple[float, ...]


class _Place(NamedTuple):
    """Where a climb is: a law, the value there, and its derivative in the coordinates around the last reference."""

    law: Law
    value: float
    log_likelihood: float
    gradient: FloatArray


def climb(
    evidence: Evidence,
    cells: Cells,
    law: Law,
    prior: Prior,
    rows: tuple[float, float],
    watch: Watch = unwatched,
    most_rounds: int = MOST_ROUNDS,
    to_gain: float = TO_GAIN,
) -> Climbed:
    """The most likely law of its kind, from ``law`` on. ``rows``: their weight and their effective number. ``to_gain``:
    log-likelihood that may be left, a parameter."""
    weight, effective = rows
    enough = to_gain * law.n_free * weight / effective
    levels: list[float] = []
    converged = law.n_coordinates == 0
    here = _Place(law, 0.0, 0.0, np.empty(0))
    while not converged and len(levels) < most_rounds:
        reference, wants_outer = law, law.n_coordinates <= _MOST_OUTER
        record = evidence.collect(ScoreQuestion(cells, law, wants_outer), remember=False)
        value, score = prior.add(law, record.log_likelihood, record.score)
        _, pulled = law.moved(np.zeros(law.n_coordinates))
        here = _Place(law, value, record.log_likelihood, pulled(score))
        whiten = _whitening(reference, record.outer, weight, effective)
        levels.append(value)

        def place(theta: FloatArray, reference: Law = reference) -> _Place:
            law, pulled = reference.moved(theta)
            record = evidence.collect(ScoreQuestion(cells, law), remember=False)
            value, score = prior.add(law, record.log_likelihood, record.score)
            return _Place(law, value, record.log_likelihood, pulled(score))

        def told(place: _Place) -> None:
            levels.append(place.value)
            words = f"round {len(levels)}, log-likelihood {place.log_likelihood:,.2f}"
            watch(Step(CLIMBING, len(levels), most_rounds, words))

        rounds = min(_ROUNDS_A_STRETCH if wants_outer else most_rounds, most_rounds - len(levels))
        here, converged, stuck = _stretch(place, here, whiten, rounds, enough, told)
        law = here.law
        if stuck:
            break
    return Climbed(law, here.log_likelihood, len(levels), converged, tuple(levels))


def _whitening(
    law: Law, outer: FloatArray | None, weight: float, effective: float
) -> Callable[[FloatArray, bool], FloatArray]:
    """Between theta and x = R theta, M = R'R: gradients from theta to x (True), steps from x to theta (False)."""
    complete = weight * law.complete_metric()
    if outer is None:
        scale = np.sqrt(complete)
        return lambda vector, _: vector / scale
    share = float(np.clip(law.n_coordinates / effective, _LEAST_COMPLETE, 1.0))
    metric = law.metric(outer) + np.diag(share * complete)
    root = np.linalg.cholesky(metric)  # lower: R = root'
    return lambda vector, gradient: np.asarray(solve_triangular(root, vector, lower=True, trans=0 if gradient else 1))


def _stretch(
    place: Callable[[FloatArray], _Place],
    here: _Place,
    whiten: Callable[[FloatArray, bool], FloatArray],
    most: int,
    enough: float,
    told: Callable[[_Place], None],
) -> tuple[_Place, bool, bool]:
    """L-BFGS in one metric: (where it ended, whether there is nothing to gain, whether no step helped)."""
    theta = np.zeros(len(here.gradient))
    slope = whiten(here.gradient, True)
    pairs: list[tuple[FloatArray, FloatArray]] = []
    for _ in range(most):
        direction = _direction(slope, pairs)
        gain = float(slope @ direction)
        if 0.5 * gain < enough:
            return here, True, False
        step = whiten(direction, False)
        length = min(1.0, _LONGEST / float(np.max(np.abs(step))))
        for _ in range(_MOST_HALVINGS):
            there = place(theta + length * step)
            if there.value >= here.value + _ENOUGH * length * gain:
                break
            length *= 0.5
        else:
            return here, False, True
        theta = theta + length * step
        before, slope, here = slope, whiten(there.gradient, True), there
        change = before - slope
        if change @ direction > 1e-10 * gain:
            pairs = [*pairs[1 - _MEMORY :], (length * direction, change)]
        told(here)
    return here, 0.5 * float(slope @ _direction(slope, pairs)) < enough, False


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


@dataclass(frozen=True, eq=False)
class _NearbyQuestion:
    """Ask a block for corrections and scores under ``law`` and its neighbours, one a coordinate."""

    cells: Cells
    law: Law

    @cached_property
    def laws(self) -> list[Law]:
        return [self.law, *(self.law.moved(step)[0] for step in _DIFFERENCE * np.eye(self.law.n_coordinates))]

    def __call__(self, block: Block) -> Scores:
        u, beyond, weights = self.cells.of(block)

        def summed(law: Law) -> tuple[float, FloatArray]:
            _, corrections, scores = law.scores(u, beyond, True)
            return float(weights @ corrections), weights @ scores

        corrections, scores = zip(*map_in_threads(summed, self.laws), strict=True)
        return Scores(np.array(corrections), np.array(scores), None, float(weights.sum()))


def curvature(
    evidence: Evidence, cells: Cells, law: Law, prior: Prior, rows: tuple[float, float], outer: FloatArray
) -> Curvature:
    """That of a law at its maximum, with the prior. ``outer``: of the scores there, in the law's own coordinates."""
    p = law.n_coordinates
    number = max(1, int(rows[1] / max(_WORK / p, _FEWEST_ROWS)))
    part = replace(cells, rows=None if number == 1 else Fold(0, number, True))
    question = _NearbyQuestion(part, law)
    nearby = evidence.collect(question, remember=False)
    share = rows[0] / nearby.weight if nearby.weight > 0.0 else 0.0
    scores = np.array(
        [prior.add(each, 0.0, share * score)[1] for each, score in zip(question.laws, nearby.score, strict=True)]
    )
    bend = (scores[0] - scores[1:]) / _DIFFERENCE @ law.jacobian
    slope = share * (nearby.log_likelihood[1:] - nearby.log_likelihood[0]) / _DIFFERENCE
    return 0.5 * (bend + bend.T), law.metric(outer), slope


def corrected(
    evidence: Evidence, cells: Cells, climbed: Climbed, prior: Prior, rows: tuple[float, float]
) -> tuple[Climbed, FloatArray, Curvature | None]:
    """(the same climb a step further, with the corrected log-likelihood; the step; how the likelihood bends)."""
    law, stay = climbed.law, np.zeros(climbed.law.n_coordinates)
    # A pass for every coordinate must be worth it, and rows enough for the outer products of scores.
    small = 0 < law.n_coordinates <= _MOST_COORDINATES and rows[1] > _ROWS_A_PARAMETER * law.n_free
    record = evidence.collect(ScoreQuestion(cells, law, outer=small, corrected=True), remember=False)
    here = replace(climbed, log_likelihood=record.log_likelihood)
    if record.outer is None:
        return here, stay, None
    around = curvature(evidence, cells, law, prior, rows, record.outer)
    _, outer, slope = around
    if not slope.any():
        return here, stay, around
    metric = outer + np.diag(_RIDGE * rows[0] * law.complete_metric())
    step = solve(metric, slope, assume_a="pos")
    step *= min(1.0, _LONGEST_CORRECTION / float(np.max(np.abs(step))))
    for length in _LENGTHS:
        moved = law.moved(length * step)[0]
        level = evidence.collect(ScoreQuestion(cells, moved, corrected=True), remember=False).log_likelihood
        gain = level + prior.level(moved) - record.log_likelihood - prior.level(law)
        if gain > _KEPT * length * float(slope @ step):
            return replace(climbed, law=moved, log_likelihood=level), length * step, around
    return here, stay, around


# --- errors -----------------------------------------------------------------------------------------


def standard_errors(evidence: Evidence, cells: Cells, law: Law, tally: CellTally, around: Curvature | None) -> Errors:
    """(covariance d x 2 x 2 of mean and scale, standard errors d x d of correlations), in standard units."""
    with np.errstate(invalid="ignore", divide="ignore"):
        both, variance = (
            _sandwich(law, around, tally)
            or _from_scores(evidence, cells, law, tally)
            or _one_by_one(evidence, cells, law, tally)
        )
        # By which variances of means and of scales are too small in tables of few cells.
        per_row = tally.effective_rows / tally.weight
        seen, known = (np.maximum(per_row * each[cells.columns], 1.0) for each in (tally.seen, tally.observed))
        hidden = _OF_HIDDEN * (1.0 / seen - 1.0 / known)
        mean, scale = 1.0 + _OF_MEAN / known + hidden, 1.0 + _OF_SCALE / known + hidden
        root = np.sqrt(np.stack([mean, scale], axis=1))
        variance = variance * (0.5 * (scale[:, None] + scale))
        return both * root[:, :, None] * root[:, None], np.minimum(np.sqrt(variance), 1.0)


def _sandwich(law: Law, around: Curvature | None, tally: CellTally) -> Errors | None:
    """None where there is no information, or the rows leave something open altogether."""
    if around is None:
        return None
    try:
        inverse = law.inverse(around[0])
    except np.linalg.LinAlgError:
        return None
    spread = inverse @ around[1] @ inverse * (tally.weight / tally.effective_rows)
    return law.errors(law.jacobian @ spread @ law.jacobian.T)


def _from_scores(evidence: Evidence, cells: Cells, law: Law, tally: CellTally) -> Errors | None:
    """From B alone, which stands for A, times what the tails of single columns add to that; None as above."""
    n = tally.effective_rows
    if law.n_coordinates > _MOST_OUTER or n <= _ROWS_A_PARAMETER * law.n_free:
        return None
    outer = evidence.collect(ScoreQuestion(cells, law, outer=True), remember=False).outer
    assert outer is not None, "it was asked for"
    # The inverse of a sum of n outer products is too large by n / (n - p - 1).
    per_weight = tally.weight / n * (1.0 - (law.n_free + 1.0) / n)
    try:
        both, variance = law.errors(law.inverse(outer) * per_weight)
    except np.linalg.LinAlgError:
        return None
    alone, spread, pair_tails = _columns(evidence, cells, law, tally)
    trusting = np.diagonal(np.linalg.inv(alone), axis1=1, axis2=2) * (tally.weight / n)
    root = np.sqrt(np.diagonal(spread, axis1=1, axis2=2) / trusting)
    return both * root[:, :, None] * root[:, None], variance * pair_tails


def _columns(evidence: Evidence, cells: Cells, law: Law, tally: CellTally) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of every column by itself, in mean and scale: outer products of scores, covariance of the estimates; and by how
    much tails make the variances of correlations larger, where rows as a whole have such tails."""
    variance = np.diagonal(law.covariance).copy()
    scale, d = np.sqrt(variance), len(variance)
    here = independent_scores(evidence, cells, law.mean, variance, outer=True)
    assert here.outer is not None, "it was asked for"
    # From means and log variances to means and scales.
    unit = np.stack([np.ones(d), 2.0 / scale], axis=1)
    moves = [
        independent_scores(evidence, cells, law.mean + _DIFFERENCE * scale, variance),
        independent_scores(evidence, cells, law.mean, variance * np.exp(2.0 * _DIFFERENCE)),
    ]
    bend = np.stack([(here.score - each.score).reshape(2, d).T for each in moves], axis=1)
    bend = bend * unit[:, None] / (_DIFFERENCE * scale)[:, None, None]
    at = np.arange(d)
    ends = np.stack([at, d + at], axis=1)
    outer = here.outer[ends[:, :, None], ends[:, None]] * unit[:, :, None] * unit[:, None]
    information = 0.5 * (bend + bend.transpose(0, 2, 1))
    definite = (information[:, 0, 0] > 0.0) & (np.linalg.det(information) > 0.0)
    information[~definite] = outer[~definite]
    inverse = np.linalg.inv(information)
    spread = inverse @ outer @ inverse
    spread[~(np.diagonal(spread, axis1=1, axis2=2) > 0.0).all(axis=1)] = np.nan  # too few cells to say
    tails = spread[:, 1, 1] / inverse[:, 1, 1]  # 1 + 3 kappa/2, for scales; 1 + kappa for correlations
    pair_tails = np.maximum(1.0 + (tails[:, None] + tails - 2.0) / 3.0, 1.0)
    return outer, spread * (tally.weight / tally.effective_rows), pair_tails


def _one_by_one(evidence: Evidence, cells: Cells, law: Law, tally: CellTally) -> Errors:
    outer, spread, pair_tails = _columns(evidence, cells, law, tally)
    variance = np.diagonal(law.covariance)
    share = outer[:, 0, 0] * variance / tally.weight
    r = law.covariance / np.sqrt(np.outer(variance, variance))
    squared = (1.0 - r**2) ** 2 / (tally.effective_rows * np.outer(share, share))
    return spread, squared * pair_tails


def independent_scores(
    evidence: Evidence, cells: Cells, mean: FloatArray, variance: FloatArray, outer: bool = False
) -> Scores:
    """Scores of means and log variances, with outer products if ``outer``, as if columns were independent."""
    law = FactorLaw(mean, np.empty((len(mean), 0)), variance)
    return evidence.collect(ScoreQuestion(cells, law, outer), remember=False)
