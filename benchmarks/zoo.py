"""Kinds of outliers: true models, outliers among their rows, every method's error on the same rows, and the results.

A data set is n rows of a random model (condition number 10, means >= 0), of which a share is replaced by outliers of
one kind. Errors are the mean of the mean and the weight error (unrelu.metrics); the oracle is the default learner on
the inlier rows alone, so that error / oracle's error is 1 for a method that outliers do not harm.
"""

from __future__ import annotations

import csv
import functools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.covariance import MinCovDet

from unrelu import RectifiedGaussian, RectifiedGaussianLearner, methods, metrics, synthetic
from unrelu.contracts import Assumptions, Evidence
from unrelu.errors import UnreluError
from unrelu.fit.robust_rows.detection import OutlierScores
from unrelu.passes.engine import LocalEngine
from unrelu.tables import ArraySamples

N = 20_000
DIMENSIONS = (5, 20)
SHARES = (1.0, 0.95, 0.9, 0.8, 0.7)  # of inlier rows
SMALLEST_EIGENVALUE = 1e-3  # of the reversed correlations
FLAG_BELOW = 0.01  # p-value
CLEAN = "none"  # the kind of a data set without outliers

Rows = NDArray[np.floating]

# --- outliers -------------------------------------------------------------------------------------


def normal_cells(mean: float, deviation: float, truth: RectifiedGaussian, count: int, rng: np.random.Generator) -> Rows:
    return rng.normal(mean, deviation, (count, truth.n_features))


def cauchy_cells(truth: RectifiedGaussian, count: int, rng: np.random.Generator) -> Rows:
    return 3.0 * rng.standard_cauchy((count, truth.n_features))


def constant_cells(value: float, truth: RectifiedGaussian, count: int, rng: np.random.Generator) -> Rows:  # noqa: ARG001
    return np.full((count, truth.n_features), value)


def shift_one(truth: RectifiedGaussian, count: int, rng: np.random.Generator) -> Rows:
    rows = truth.sample(count, random_state=rng)
    rows[:, 0] += 6.0
    return rows


def triple(truth: RectifiedGaussian, count: int, rng: np.random.Generator) -> Rows:
    return 3.0 * truth.sample(count, random_state=rng)


def from_reversed(truth: RectifiedGaussian, count: int, rng: np.random.Generator) -> Rows:
    return reversed_model(truth).sample(count, random_state=rng)


def reversed_model(truth: RectifiedGaussian) -> RectifiedGaussian:
    """Every correlation negated, and shrunk as far as a covariance needs: I - t (R - I) with the largest t <= 1.

    Its smallest eigenvalue is 1 - t (l - 1), where l is the largest one of R.
    """
    largest = float(np.linalg.eigvalsh(truth.correlation)[-1])
    t = min(1.0, (1.0 - SMALLEST_EIGENVALUE) / max(largest - 1.0, SMALLEST_EIGENVALUE))
    identity = np.eye(truth.n_features)
    correlation = identity - t * (truth.correlation - identity)
    return RectifiedGaussian(truth.mean, correlation * np.outer(truth.std, truth.std))


KINDS: dict[str, Callable[[RectifiedGaussian, int, np.random.Generator], Rows]] = {
    "N(5,1)": functools.partial(normal_cells, 5.0, 1.0),
    "N(3,1)": functools.partial(normal_cells, 3.0, 1.0),
    "N(2,1)": functools.partial(normal_cells, 2.0, 1.0),
    "N(0,9)": functools.partial(normal_cells, 0.0, 3.0),
    "point mass at 10": functools.partial(constant_cells, 10.0),
    "all zeros": functools.partial(constant_cells, 0.0),
    "one coordinate +6": shift_one,
    "rows scaled by 3": triple,
    "reversed correlations": from_reversed,
    "Cauchy x 3": cauchy_cells,
}


@dataclass(frozen=True)
class Place:
    """A cell of the tables: the kind of outliers, the number of columns, the share of inlier rows."""

    kind: str
    d: int
    share: float

    @property
    def name(self) -> str:
        return f"d={self.d}, clean" if self.kind == CLEAN else f"d={self.d}, {self.kind}, p={self.share:g}"

    def draw(self, seed: int) -> tuple[RectifiedGaussian, Rows, NDArray[np.bool_]]:
        """The true model, the rows, and which of them are outliers; the inlier rows of all kinds are alike."""
        truth = synthetic.random_model(self.d, condition_number=10.0, mean="nonnegative", random_state=seed)
        inlier = truth.sample(N, random_state=np.random.default_rng([seed, self.d]))
        if self.kind == CLEAN:
            return truth, inlier, np.zeros(N, dtype=np.bool_)

        def outliers(count: int, rng: np.random.Generator) -> Rows:
            return np.maximum(KINDS[self.kind](truth, count, rng), 0.0)

        rng = np.random.default_rng([seed, self.d, round(100 * self.share), *self.kind.encode()])
        rows, is_outlier = synthetic.contaminate(inlier, 1.0 - self.share, outliers, random_state=rng, fixed=True)
        return truth, rows, is_outlier


def places(
    kinds: Iterable[str] = KINDS, dimensions: Iterable[int] = DIMENSIONS, shares: Iterable[float] = SHARES
) -> list[Place]:
    """Every cell; one without outliers for each d, as all kinds are the same there."""
    dirty = [share for share in shares if share < 1.0]
    rest = [(kind, share) for kind in kinds for share in dirty]
    return [Place(kind, d, share) for d in dimensions for kind, share in [(CLEAN, 1.0), *rest]]


# --- methods --------------------------------------------------------------------------------------

TRIM = 0.1
ROBUST, ORACLE, ONE_PASS = "robust", "oracle", "one_pass"
MCD, MEDIAN, TRIMMED = "MinCovDet", "median filter", "trimmed filter"
RIVALS = (MCD, MEDIAN, TRIMMED)


def fit_filtered(kind: str, rows: Rows, seed: int) -> RectifiedGaussian:
    method = methods.FilteredGradient(filter=kind, trim=TRIM, allow_partial=True)
    return RectifiedGaussianLearner(method, nonnegative_mean=True, random_state=seed).fit(rows).distribution_


def fit_determinant(rows: Rows, seed: int) -> RectifiedGaussian:
    fitted = MinCovDet(random_state=seed).fit(rows)
    return RectifiedGaussian(fitted.location_, fitted.covariance_)


def fit_one_pass(rows: Rows, seed: int) -> RectifiedGaussian:  # noqa: ARG001
    return RectifiedGaussianLearner("one_pass", margins="normal").fit(rows).distribution_


OTHERS: dict[str, Callable[[Rows, int], RectifiedGaussian]] = {
    ONE_PASS: fit_one_pass,
    MCD: fit_determinant,
    MEDIAN: functools.partial(fit_filtered, "median"),
    TRIMMED: functools.partial(fit_filtered, "trimmed_mean"),
}
METHODS = (ROBUST, *OTHERS)
MCD_SEEDS = 3  # it takes longer than all others together, and its error hardly varies


@dataclass(frozen=True)
class Trial:
    """One data set: every method's error, infinite where it gave up, and how well the robust scores separate outliers.

    NaN where a method was not run.
    """

    place: Place
    seed: int
    errors: dict[str, float]
    auc: float  # NaN where there are no outliers
    false_flags: float  # over their nominal share; NaN where there are outliers
    seconds: float  # of the robust fit


def measure(place: Place, seeds: Sequence[int]) -> list[Trial]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MinCovDet's and the filters' diagnostics show in their errors
        return [measure_one(place, seed) for seed in seeds]


def measure_one(place: Place, seed: int) -> Trial:
    truth, rows, is_outlier = place.draw(seed)
    own, auc, false_flags, seconds = measure_robust(truth, rows, is_outlier)
    errors = {ROBUST: own, ORACLE: error(fit_one_pass(rows[~is_outlier], seed), truth)}
    for name, fit in OTHERS.items():
        if name == MCD and seed >= MCD_SEEDS:
            errors[name] = math.nan
            continue
        try:
            errors[name] = error(fit(rows, seed), truth)
        except (UnreluError, ValueError):  # sklearn and LAPACK raise ValueErrors
            errors[name] = math.inf
    return Trial(place, seed, errors, auc, false_flags, seconds)


def measure_robust(
    truth: RectifiedGaussian, rows: Rows, is_outlier: NDArray[np.bool_]
) -> tuple[float, float, float, float]:
    """Error, area under the ROC curve, false flags over their nominal share, and seconds."""
    start = time.perf_counter()
    try:
        evidence = Evidence(ArraySamples(rows, block_rows=len(rows)), LocalEngine())
        learned = methods.Robust().learn(evidence, Assumptions((0.0,) * rows.shape[1]))
    except UnreluError:
        return math.inf, math.nan, math.nan, math.nan
    seconds = time.perf_counter() - start
    scorer = OutlierScores.of(learned)
    score = scorer.score(rows)
    if is_outlier.any():
        auc, false_flags = area(score, is_outlier), math.nan
    else:
        auc, false_flags = math.nan, float(np.mean(scorer.tail.p_value(score) < FLAG_BELOW)) / FLAG_BELOW
    return error(learned.distribution, truth), auc, false_flags, seconds


def error(learned: RectifiedGaussian, truth: RectifiedGaussian) -> float:
    errors = metrics.parameter_errors(learned, truth)
    return 0.5 * (errors["bias"] + errors["weights"])


def area(score: Rows, is_outlier: NDArray[np.bool_]) -> float:
    """The area under the ROC curve: the chance that an outlier scores lower than an inlier row, ties by halves.

    >>> area(np.array([1.0, 2.0, 2.0, -np.inf]), np.array([False, False, True, True]))
    0.625
    """
    below = is_outlier.sum()
    ranks = rankdata(score)[is_outlier].sum() - below * (below + 1) / 2.0
    return float(1.0 - ranks / (below * (len(score) - below)))


# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """All trials of one place."""

    place: Place
    trials: tuple[Trial, ...]

    def ratio(self, method: str) -> float:
        """Mean error over the oracle's mean error."""
        return self._mean_error(method) / self._mean_error(ORACLE)

    def best_other(self) -> str:
        """The method with the smallest mean error; on clean rows the default learner is the oracle, not a rival."""
        others = RIVALS if self.place.kind == CLEAN else (*RIVALS, ONE_PASS)
        return min(others, key=self.ratio)

    @property
    def robust_over_best(self) -> float:
        own = self.ratio(ROBUST)
        return own if math.isinf(own) else own / self.ratio(self.best_other())

    @property
    def auc(self) -> float:
        return float(np.mean([trial.auc for trial in self.trials]))

    @property
    def false_flags(self) -> float:
        return float(np.mean([trial.false_flags for trial in self.trials]))

    @property
    def seconds(self) -> float:
        return float(np.mean([trial.seconds for trial in self.trials]))

    def failures(self, method: str) -> int:
        return sum(math.isinf(trial.errors[method]) for trial in self.trials)

    def _mean_error(self, method: str) -> float:
        return float(np.nanmean([trial.errors[method] for trial in self.trials]))


Cells = dict[Place, Cell]
FIGURES = ("auc", "false_flags", "seconds")


def write_trials(path: Path, cells: Cells) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["kind", "d", "share", "seed", *METHODS, ORACLE, *FIGURES])
        for trial in (trial for cell in cells.values() for trial in cell.trials):
            errors = [trial.errors[name] for name in (*METHODS, ORACLE)]
            figures = [f"{value:.6g}" for value in (*errors, *(getattr(trial, name) for name in FIGURES))]
            writer.writerow([trial.place.kind, trial.place.d, trial.place.share, trial.seed, *figures])


def read_trials(path: Path) -> Cells:
    trials: dict[Place, list[Trial]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            place = Place(row["kind"], int(row["d"]), float(row["share"]))
            errors = {name: float(row[name]) for name in (*METHODS, ORACLE)}
            trial = Trial(place, int(row["seed"]), errors, *(float(row[name]) for name in FIGURES))
            trials.setdefault(place, []).append(trial)
    return {place: Cell(place, tuple(found)) for place, found in trials.items()}
