"""Two layers to learn, outlier rows, the known-support oracle, and alternatives of a user (for layers.py)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

import unrelu
from unrelu import Peeled
from unrelu.contracts import Step
from unrelu.errors import CannotPeelError, InvalidDataError, UnreluWarning
from unrelu.metrics import parameter_errors
from unrelu.recovery.layers.decoding import Subspace, decode_by_facets, pure_rows

OUTLIERS = ("gaussian", "shifted", "repeated", "inside")
FAR = 5.0  # root mean squares of X
LP_ROWS = 60
PATIENCE = 60  # seconds for one table to be peeled
_ROUNDS = 30


@dataclass(frozen=True)
class Layers:
    """x = A h, h = ReLU(W z + b) in n rows, and the table X of outputs."""

    A: np.ndarray
    W: np.ndarray
    b: np.ndarray
    H: np.ndarray
    X: np.ndarray

    @classmethod
    def draw(cls, p: int, k: int, seed: int, positive: bool = False, d: int = 40, n: int = 2000) -> Layers:
        """W, b, A and z standard normal; with ``positive`` the absolute value of A."""
        rng = np.random.default_rng([seed, p, k, d, n])
        W, b, A = rng.standard_normal((p, k)), rng.standard_normal(p), rng.standard_normal((d, p))
        A = np.abs(A) if positive else A
        H = np.maximum(rng.standard_normal((n, k)) @ W.T + b, 0.0)
        return cls(A, W, b, H, H @ A.T)

    @property
    def size(self) -> float:
        """Root mean square of A h."""
        return float(np.sqrt(((self.H @ self.A.T) ** 2).mean()))

    def noisy(self, share: float, seed: int) -> Layers:
        """With noise of this share of the signal's root mean square."""
        rng = np.random.default_rng([seed, 1])
        return replace(self, X=self.X + share * self.size * rng.standard_normal(self.X.shape))

    def with_outliers(self, kind: str, share: float, seed: int) -> Layers:
        """With this share of the rows replaced: by N(0, (5 rms)^2) ("gaussian"), the row moved by 5 rms and standard
        noise of one rms ("shifted"), one far point ("repeated"), or A g, the units' signs at random ("inside")."""
        rng = np.random.default_rng([seed, 2, OUTLIERS.index(kind)])
        n, d = self.X.shape
        rows = rng.choice(n, round(share * n), replace=False)
        X = self.X.copy()
        if kind == "gaussian":
            X[rows] = FAR * self.size * rng.standard_normal((len(rows), d))
        elif kind == "shifted":
            X[rows] += FAR * self.size + self.size * rng.standard_normal((len(rows), d))
        elif kind == "repeated":
            X[rows] = FAR * self.size * rng.standard_normal(d)
        else:
            signs = rng.choice([-1.0, 1.0], (len(rows), self.H.shape[1]))
            spread = np.sqrt((self.H**2).mean(axis=0))
            X[rows] = (signs * np.abs(rng.standard_normal(signs.shape)) * spread) @ self.A.T
        return replace(self, X=X)


# --- how far from the truth -------------------------------------------------------------------------


def sines(found: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(sine of each found column to its partner, the partner's index), partners by the largest sum of cosines.

    The sine is the length of what the partner leaves: small angles keep their digits.
    """
    found, truth = found / _lengths(found), truth / _lengths(truth)
    cosines = found.T @ truth
    rows, partners = linear_sum_assignment(-np.abs(cosines))
    left = found[:, rows] - truth[:, partners] * cosines[rows, partners]
    return np.linalg.norm(left, axis=0), partners


def worst_sine(found: np.ndarray | None, truth: np.ndarray) -> float:
    """Of the worst column after matching; 1 where nothing, or not every column, was found."""
    if found is None or found.shape != truth.shape or not np.isfinite(found).all():
        return 1.0
    return float(sines(found, truth)[0].max())


def rows_apart(H: np.ndarray) -> np.ndarray:
    """For each unit the fewest rows in which it is off while another one is on."""
    off = H == 0.0
    apart = off.T.astype(int) @ (~off).astype(int)
    return np.where(np.eye(len(apart), dtype=bool), len(H), apart).min(axis=1)


def _lengths(columns: np.ndarray) -> np.ndarray:
    return np.maximum(np.linalg.norm(columns, axis=0), 1e-300)


# --- unrelu -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learned:
    """A fit, its seconds and its warnings; ``learner`` is None where it was refused."""

    learner: unrelu.TwoLayerReLULearner | None
    seconds: float
    not_found: bool
    doubtful: bool

    @property
    def weights(self) -> np.ndarray | None:
        return None if self.learner is None else self.learner.output_weights_

    @property
    def silent(self) -> bool:
        """Whether there was no warning."""
        return self.learner is not None and not self.not_found and not self.doubtful

    def missing(self, layers: Layers) -> list[int]:
        """True units that no found one is nearest to."""
        p = layers.H.shape[1]
        partners = [] if self.learner is None else sines(self.learner.transform(layers.X), layers.H)[1].tolist()
        return [unit for unit in range(p) if unit not in partners]


def fit_layers(X: np.ndarray, p: int, method: str = "facets", output_bias: bool = False) -> Learned:
    learner: unrelu.TwoLayerReLULearner | None = unrelu.TwoLayerReLULearner(p, method, output_bias=output_bias)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnreluWarning)
        try:
            learner.fit(X)
        except InvalidDataError:
            learner = None
    seconds = time.perf_counter() - start
    kinds = [kind for one in caught for kind in getattr(one.message, "kinds", ())]
    return Learned(learner, seconds, "units-not-found" in kinds, "doubtful-units" in kinds)


def facets_without_trimming(X: np.ndarray, p: int) -> np.ndarray:
    """The same facet search in the plain principal components of all rows, none set aside as an outlier."""
    directions = np.linalg.svd(X, full_matrices=False)[2][:p].T
    left = X - (X @ directions) @ directions.T
    noise = max(float(np.sqrt((left**2).mean())), 1e-9 * float(np.sqrt((X**2).mean())))
    space = Subspace(np.zeros(X.shape[1]), directions, noise, np.ones(len(X), dtype=bool))
    return decode_by_facets(X, space, False, True, np.random.default_rng(0)).layer.weights


def misses(fits: Sequence[Learned], draws: Sequence[Layers], errors: Sequence[float], bound: float) -> str:
    """Draws above a bound, and of units that were not found the share of zeros and the fewest rows in which the unit is
    off while another one is on (without such rows it cannot be identified)."""
    found = []
    for seed, (fit, layers, error) in enumerate(zip(fits, draws, errors, strict=True)):
        if error > bound:
            zeros, apart = (layers.H == 0.0).mean(axis=0), rows_apart(layers.H)
            units = [f"unit {unit} (zeros {zeros[unit]:.3f}, apart {apart[unit]})" for unit in fit.missing(layers)]
            what = f"missing {', '.join(units)}" if units else f"all found, sine {error:.2g}"
            found.append(f"seed {seed}: {what}, {'silent' if fit.silent else 'warned'}")
    return "; ".join(found)


def try_peeling(X: np.ndarray, widths: list[int]) -> tuple[Peeled | CannotPeelError, float]:
    """The result of :func:`unrelu.peel`, or its error, and seconds; it gives up after ``PATIENCE``."""

    start = time.perf_counter()

    def give_up(_: Step) -> None:
        if time.perf_counter() - start > PATIENCE:
            raise CannotPeelError(f"given up after {PATIENCE} s", Peeled((), X, np.zeros(len(X), dtype=bool), None))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        try:
            peeled: Peeled | CannotPeelError = unrelu.peel(X, widths, progress=give_up)
        except CannotPeelError as error:
            peeled = error
    return peeled, time.perf_counter() - start


def distribution_ratios(peeled: Peeled, layers: Layers) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Ratios of errors, and both: of the peeled distribution and of the one learned from the true units, in the
    same units."""
    layer = peeled.layers[0]
    identified = layer.column_identifiable
    order = sines(layer.weights[identified], layers.A[identified])[1]
    scale = np.linalg.norm(layers.A[identified], axis=0)[order]
    truth = unrelu.RectifiedGaussian.from_weights(layers.W[order] * scale[:, None], layers.b[order] * scale)
    reference = (
        unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(layers.H[:, order] * scale).distribution_
    )
    found, from_units = (
        parameter_errors(distribution, truth) for distribution in (peeled.hidden_distribution, reference)
    )
    # kl is infinite where a learned covariance is singular
    names = [name for name in ("bias", "weights", "kl") if np.isfinite([found[name], from_units[name]]).all()]
    ratios = {name: found[name] / from_units[name] for name in names}
    return ratios, found, from_units


# --- rivals -----------------------------------------------------------------------------------------


def nmf(X: np.ndarray, p: int) -> np.ndarray:
    """scikit-learn's, with a tolerance a hundred times below its default; values below 0 are set to 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return NMF(p, init="nndsvda", tol=1e-6, max_iter=500).fit(np.maximum(X, 0.0)).components_.T


def successive_projection(X: np.ndarray, p: int) -> np.ndarray:
    """Successive projection, also where ``method="separable"`` refuses because the table has negative values: rows are
    then scaled to length 1 instead of to sum 1."""
    if (X >= 0.0).all():
        return X[pure_rows(X, p)].T
    lengths = np.linalg.norm(X, axis=1)
    rows = X[lengths > 1e-9 * lengths.max()]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    left, chosen = rows, []
    for _ in range(p):
        longest = int((left**2).sum(axis=1).argmax())
        chosen.append(longest)
        direction = left[longest] / np.linalg.norm(left[longest])
        left = left - np.outer(left @ direction, direction)
    return rows[chosen].T


@dataclass(frozen=True)
class Programs:
    """The result of linear programs: distinct facets, the number of true ones, the worst column if all were found."""

    found: int
    right: int
    worst: float
    seconds: float


def linear_programs(layers: Layers, seed: int) -> Programs:
    """The design's search: min q'mean(y) over q'y >= 0, q'y_j = 1 for random rows j, y of length 1 in the space of the
    rows; a solution with more than 3 p zeros is a facet, the p with the most zeros make A."""
    p = layers.A.shape[1]
    start = time.perf_counter()
    directions = np.linalg.svd(layers.X, full_matrices=False)[2][:p]
    points = layers.X @ directions.T
    points = points[np.linalg.norm(points, axis=1) > 1e-9 * np.linalg.norm(points, axis=1).max()]
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
    facets: list[tuple[int, np.ndarray]] = []
    for row in np.random.default_rng([seed, 3]).choice(len(points), LP_ROWS, replace=False):
        solved = linprog(
            points.mean(axis=0),
            A_ub=-points,
            b_ub=np.zeros(len(points)),
            A_eq=points[[row]],
            b_eq=[1.0],
            bounds=(None, None),
            method="highs",
        )
        if solved.status != 0:
            continue
        q = solved.x / np.linalg.norm(solved.x)
        zeros = int((np.abs(points @ q) < 1e-7).sum())
        if zeros > 3 * p and all(abs(q @ other) < 1.0 - 1e-6 for _, other in facets):
            facets.append((zeros, q))
    facets.sort(key=lambda facet: -facet[0])
    best = np.array([q for _, q in facets[:p]]).reshape(-1, p)
    full = len(best) == p and np.linalg.matrix_rank(best) == p
    weights = directions.T @ np.linalg.inv(best) if full else None
    seconds = time.perf_counter() - start
    right = right_units(np.maximum(layers.X @ directions.T @ best.T, 0.0), layers.H, 1e-6)
    return Programs(len(best), int(right.sum()), worst_sine(weights, layers.A), seconds)


def right_units(found: np.ndarray, H: np.ndarray, most: float) -> np.ndarray:
    """Which found units are true ones: the sine between the two columns of heights is at most ``most``."""
    if found.shape[1] == 0:
        return np.zeros(0, dtype=bool)
    return sines(found, H)[0] <= most


def oracle_weights(layers: Layers) -> np.ndarray:
    """The oracle: A and h by alternating least squares on X, h nonzero where the true units are on. Starts from the
    truth, so that the best of its limits is reached."""
    on = (layers.H > 0.0).astype(float)
    A = layers.A
    for _ in range(_ROUNDS):
        before = A
        grams = (A.T @ A) * (on[:, :, None] * on[:, None, :])
        grams[:, range(on.shape[1]), range(on.shape[1])] += 1.0 - on  # units that are off: h = 0
        H = np.linalg.solve(grams, ((layers.X @ A) * on)[:, :, None])[:, :, 0]
        A = np.linalg.lstsq(H, layers.X)[0].T
        A = A / _lengths(A)
        if worst_sine(A, before) < 1e-6:
            break
    return A
