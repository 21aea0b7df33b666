"""Up the likelihood, by quasi-Newton steps in the metric of the rows' own scores.

A pass over the rows gives the log-likelihood and its exact derivative: the moments of the hidden cells are those at
which expectation propagation is stationary. Plain EM steps, the derivative times the inverse information of complete
rows, crawl where much is hidden (300 rounds). The outer products of the rows' scores sum to the information of what is
seen, up to chance: with M their sum plus a little of the complete rows', steps M^-1 score are nearly Newton's, and
L-BFGS learns what is left of the difference (docs/research/026). A step that does not raise the likelihood is halved.

Half the score times the step is the log-likelihood still to be gained, which says when to stop: with g a parameter the
typical one is sqrt(2 g) standard errors from the maximum.

A prior of one row keeps the likelihood bounded where columns determine each other or rows are few:

    weight/2 ( -log det S - tr(T S^-1) )

is the log-likelihood of a row whose second moment T is that of the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from unrelu.contracts import Evidence, FloatArray, Step, Watch, unwatched
from unrelu.fit.likelihood.cells import Cells
from unrelu.fit.likelihood.scores import Law, ScoreQuestion

_TO_GAIN = 5e-7  # a parameter: a thousandth of a standard error
MOST_ROUNDS = 200
MOST_OUTER = 2500  # coordinates whose outer products are kept
_ROUNDS_A_STRETCH = 12  # before the metric is taken anew
_MEMORY = 20
_LONGEST = 1.0  # change of a coordinate in a step: a standard deviation, or a factor e of a variance
_ENOUGH = 1e-4  # share of the gain that the slope promises
_MOST_HALVINGS = 30
_LEAST_COMPLETE = 0.01  # share of the complete rows' information in the metric, and more where rows are few
CLIMBING = "Climbing the likelihood"

Objective = Callable[[FloatArray], tuple[float, FloatArray]]


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


@dataclass(eq=False)
class _Place:
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
    to_gain: float = _TO_GAIN,
) -> Climbed:
    """The most likely law of its kind, from ``law`` on. ``rows``: their weight and their effective number.

    ``to_gain``: log-likelihood that may be left, a parameter.
    """
    weight, effective = rows
    enough = to_gain * law.n_free * weight / effective
    levels: list[float] = []
    converged = law.n_coordinates == 0
    here = _Place(law, 0.0, 0.0, np.empty(0))
    while not converged and len(levels) < most_rounds:
        reference, wants_outer = law, law.n_coordinates <= MOST_OUTER
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
