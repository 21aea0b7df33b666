"""Errors over the oracle's, for every kind of bad cells and every method, and the share of bad cells found."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from sklearn.covariance import MinCovDet
from threadpoolctl import threadpool_limits

from benchmarks.cells.dirt import CLEAN, EMPTY, ROWS, Mask, Place, Rows, places
from benchmarks.rivals.deviating_cells import flagged_cells
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu import RectifiedGaussian, RectifiedGaussianLearner, metrics
from unrelu.errors import UnreluError
from unrelu.passes.engine import available_cores

SEEDS = 10
OWN, DEVIATING, MCD = "robust_cells", "DetectDeviatingCells", "MinCovDet"
BOUNDS = {0.01: 1.1, 0.05: 1.2, 0.1: 1.4}  # most error / oracle's at +6 sd and beyond, by the share of bad cells


def one_pass(x: Rows) -> RectifiedGaussian:
    return RectifiedGaussianLearner("one_pass", margins="normal").fit(x).distribution_


def robust(x: Rows) -> RectifiedGaussian:
    return RectifiedGaussianLearner("robust", margins="normal").fit(x).distribution_


def determinant(x: Rows) -> RectifiedGaussian:
    fitted = MinCovDet(random_state=0).fit(x)
    return RectifiedGaussian(fitted.location_, fitted.covariance_)


def deviating(x: Rows) -> RectifiedGaussian:
    return one_pass(np.where(flagged_cells(x), np.nan, x))


RIVALS: dict[str, Callable[[Rows], RectifiedGaussian]] = {
    "one_pass": one_pass,
    DEVIATING: deviating,
    "robust": robust,
    MCD: determinant,
}


@dataclass(frozen=True)
class Trial:
    """One table: errors by method and of the oracle, the share of the bad cells that were found, and of false ones."""

    errors: dict[str, float]
    oracle: float
    found: float
    false: float


def error(learned: RectifiedGaussian, truth: RectifiedGaussian) -> float:
    found = metrics.parameter_errors(learned, truth)
    return 0.5 * (found["bias"] + found["weights"])


def trial(task: tuple[Place, int]) -> Trial:
    place, seed = task
    warnings.simplefilter("ignore")  # diagnostics show in the errors
    truth, x, bad, outliers = place.draw(seed)
    learner = RectifiedGaussianLearner(OWN, margins="normal").fit(x)
    errors = {OWN: error(learner.distribution_, truth)}
    for name, fit in RIVALS.items():
        try:
            errors[name] = error(fit(x), truth)
        except (UnreluError, ValueError):  # sklearn and LAPACK raise ValueErrors
            errors[name] = math.inf
    oracle = error(one_pass(np.where(bad, np.nan, x)[~outliers]), truth)
    flagged = learner.cell_weights_ < 0.5
    return Trial(errors, oracle, *_shares(flagged, bad, outliers))


def _shares(flagged: Mask, bad: Mask, outliers: Mask) -> tuple[float, float]:
    inlier = ~bad & ~outliers[:, None]
    at = bad & ~outliers[:, None]
    return float(flagged[at].mean()) if at.any() else math.nan, float(flagged[inlier].mean())


def ratio(trials: list[Trial], name: str) -> float:
    """The mean error of a method over the oracle's on the same tables."""
    return sum(each.errors[name] for each in trials) / sum(each.oracle for each in trials)


def set_threads() -> None:
    """One thread for every process."""
    threadpool_limits(1)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[os.getpid() % available_cores()]})


def measure(most: int) -> list[Claim]:
    """All places, at most so many draws of each."""
    names, everywhere, seeds = (OWN, *RIVALS), places(), range(min(SEEDS, most))
    tasks = [(place, seed) for seed in seeds for place in reversed(everywhere)]  # the longest first
    with ProcessPoolExecutor(available_cores(), get_context("spawn"), set_threads) as pool:
        found_by_task = dict(zip(tasks, pool.map(trial, tasks), strict=True))
    lines, claims = [], []
    for place in everywhere:
        trials = [found_by_task[place, seed] for seed in seeds]
        figures = {name: ratio(trials, name) for name in names}
        found, false = (float(np.mean([getattr(each, key) for each in trials])) for key in ("found", "false"))
        lines.append([place.name, *(f"{figures[name]:.3f}" for name in names), f"{found:.2%}", f"{false:.3%}"])
        claims += claims_of(place, figures, found, false)
    show("Error over the oracle's; bad cells found, inlier cells flagged", ["", *names, "found", "false"], lines)
    return print_claims(*claims)


def claims_of(place: Place, figures: dict[str, float], found: float, false: float) -> list[Claim]:
    own = figures[OWN]
    if place.kind == CLEAN:
        return [Claim(place.name, own, most=1.02)]
    if place.kind in (ROWS, EMPTY):
        return [Claim(place.name, own, most=1.3)]
    rival = min(figures["one_pass"], figures["robust"])
    claims = [Claim(f"{place.name}, beside one_pass and robust", own / rival, most=1.0)]
    if place.kind in ("+6 sd", "+10 sd"):
        claims.append(Claim(place.name, own, most=BOUNDS[place.share]))
    if place.kind == "+4 sd" and place.share == 0.05:
        claims.append(Claim(place.name, own, most=1.5))
    if place.kind == "+6 sd":
        claims.append(Claim(f"{place.name}, found", found, least=0.98))
        claims.append(Claim(f"{place.name}, false", false, most=0.002))
    return claims
