"""The latent vector behind one output of a known layer: priors, the robust method, and program (47) as written.

Robust recovery of c from v = ReLU(A c + b) + e + w, e sparse, w small (Mazumdar and Rawat 2018, section 4): the noise's
scale first. Where the layer is off, v is noise, so negative entries are noise or outliers; EM separates a half-normal
part from a uniform one. Without negative entries (noise before the rectifier, a model that fits only roughly) a ladder
of scales is searched, and the likelihood of the residuals chooses. Then a search for the lowest optimum of Tukey's loss
of v - ReLU(A c + b) (:mod:`unrelu.recovery.latent_search`), at a scale somewhat below: a narrow loss separates two
candidate vectors, a wide one averages them. Then the scale again from all residuals, descent at it, and least squares
on the entries that are on and agree: as accurate as least squares without the outliers.

Program (47) treats the nonlinear layer as a linear one, outliers as a sparse vector:

    minimize over c, e   1/(2d) |v - A c - e|^2 + lambda |e|_1                                                   (47)

e is soft(v - A c, d lambda), so that c minimizes Huber's loss of v - A c with threshold d lambda. That is convex and
piecewise quadratic: Newton's method on the entries within the threshold ends after finitely many steps. For A with
standard normal entries and |c| = 1 the minimizer is near mu c (Plan and Vershynin 2016; Theorem 4), with

    mu = E[ReLU(g + b) g] = E[Phi(b)]                                       (Stein's identity; Phi(b/|c|) in general)

averaged over the layer's own biases. The theorem asks for lambda >= 2 |z + w|_inf / d, z = ReLU(A c + b) - mu A c: the
rule takes the level that max_i |ReLU(g_i + b_i) - mu g_i| stays below with probability .95, and adds the noise's bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import TypeAlias

import numpy as np
from scipy.special import ndtr

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.recovery.latent_search import descend, half_normal_scale, penalized_minimum, residual_sizes, search
from unrelu.validation import check_choice, check_positive

_NARROW = 0.65
_ROUNDS, _AGREED = 40, 6
_AGREES = 3.5  # standard deviations: rejecting from 3 on would cost 1.5 % of accuracy, this costs .3 %
_POLISH = 50
_LADDER = (1e-3, 4e-3, 0.016, 0.064, 0.256)  # of the median entry
_MOST, _SOME = 0.5, 0.2  # share of the entries that agree which chance cannot explain; where they agree exactly
_EXACT = 0.02  # of the scale that was searched at: less is exact
_LEAST = 1e-9  # of the largest entry: below it noise is as good as none
_UNSURE = 3.0  # difference of log-likelihoods below which two optima explain v equally well
_QUARTILE = 0.3186393639643752  # of a half-normal distribution

_OFF = 1e-6  # share of outputs that are on
_NEWTON_ROUNDS, _SHRINKS = 200, 40
_CONFIDENCE = 0.95
_FALL = 0.3
_FARTHEST = 1e6  # of an outlier, in thresholds or median entries


@dataclass(frozen=True)
class LatentResult:
    """What was recovered from one v.

    ``latent`` is c; ``clean`` is ReLU(A c + b), the signal without noise and outliers; ``outliers`` is e, 0 at inliers
    and NaN where v is missing; ``inliers`` marks entries that agree with c; ``noise_scale`` is the standard deviation
    of w; ``covariance`` that of c's error. ``unambiguous`` is False where another vector, ``rival``, explains v as
    well.

    >>> import unrelu
    >>> A = np.random.default_rng(0).standard_normal((30, 2))
    >>> v = np.maximum(A @ [1.0, -2.0], 0.0)
    >>> v[3] = 50.0
    >>> result = unrelu.recover_latent(A, np.zeros(30), v)
    >>> result.latent.round(6), np.flatnonzero(~result.inliers), result.unambiguous
    (array([ 1., -2.]), array([3]), True)
    """

    latent: FloatArray
    clean: FloatArray
    outliers: FloatArray
    inliers: BoolArray
    noise_scale: float
    covariance: FloatArray
    unambiguous: bool
    rival: FloatArray | None


# --- priors of c ----------------------------------------------------------------------------------
# ``penalty`` is (ridge, sparsity, 1 if nonnegative).


@dataclass(frozen=True)
class NoPrior:
    """No prior: the default.

    >>> import unrelu
    >>> unrelu.recovery.RobustLatent(NoPrior()) == unrelu.recovery.RobustLatent()
    True
    """

    @property
    def penalty(self) -> FloatArray:
        return np.zeros(3)


@dataclass(frozen=True)
class GaussianPrior:
    """c ~ N(0, scale^2 I): with scale 1 the z of the layers that RectifiedGaussianLearner learns.

    >>> GaussianPrior(2.0).penalty
    array([0.25, 0.  , 0.  ])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    @property
    def penalty(self) -> FloatArray:
        return np.array([self.scale**-2, 0.0, 0.0])


@dataclass(frozen=True)
class SparsePrior:
    """Few entries of c differ from 0: a Laplace distribution of that scale, whose mode is penalized by |c|_1 / scale.

    >>> SparsePrior(0.5).penalty
    array([0., 2., 0.])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    @property
    def penalty(self) -> FloatArray:
        return np.array([0.0, 1.0 / self.scale, 0.0])


@dataclass(frozen=True)
class NonnegativePrior:
    """c >= 0, as for the output of another rectified layer.

    >>> NonnegativePrior().penalty
    array([0., 0., 1.])
    """

    @property
    def penalty(self) -> FloatArray:
        return np.array([0.0, 0.0, 1.0])


Prior: TypeAlias = NoPrior | GaussianPrior | SparsePrior | NonnegativePrior
_PRIORS: dict[str, type[Prior]] = {"gaussian": GaussianPrior, "sparse": SparsePrior, "nonnegative": NonnegativePrior}


def find_prior(prior: str | Prior | None) -> Prior:
    """The prior of that name, none for None, or the object itself."""
    if prior is None:
        return NoPrior()
    if isinstance(prior, str):
        check_choice("prior", prior, list(_PRIORS))
        return _PRIORS[prior]()
    if isinstance(prior, type) or not hasattr(prior, "penalty"):
        raise InvalidParameterError(
            f"prior must be None, a name or an object of unrelu.recovery, got {prior!r}. Names: {', '.join(_PRIORS)}.",
            parameter="prior",
        )
    return prior


# --- robust ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RobustLatent:
    """The default: the lowest optimum of a bounded loss, then least squares on what agrees with it.

    ``prior`` is the prior distribution of c; ``noise_scale`` is the standard deviation of w where it is given.

    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A, b, c = rng.standard_normal((60, 3)), rng.standard_normal(60), np.array([0.6, -0.8, 0.1])
    >>> v = np.maximum(A @ c + b, 0.0)
    >>> v[:20] += 5.0
    >>> result = unrelu.recover_latent(A, b, v)
    >>> result.latent.round(6), result.inliers[:20].any()
    (array([ 0.6, -0.8,  0.1]), np.False_)
    """

    prior: Prior = field(default_factory=NoPrior)
    noise_scale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", find_prior(self.prior))
        if self.noise_scale is not None:
            check_positive("noise_scale", self.noise_scale)

    @property
    def _is_proper(self) -> bool:
        """Whether the prior determines c even where v does not determine it."""
        return bool(self.prior.penalty[:2].any())

    def check(self, weights: FloatArray) -> None:
        """Refuse layers that it cannot invert."""
        d, k = weights.shape
        if self._is_proper:
            return
        if d < k:
            raise InvalidParameterError(
                f"weights has fewer rows ({d}) than columns ({k}): so few outputs cannot determine that many latent"
                " numbers. Give a prior, such as prior='gaussian'."
            )
        rank = int(np.linalg.matrix_rank(weights))
        if rank < k:
            raise InvalidParameterError(
                f"weights has rank {rank}, less than its {k} columns: latent vectors that differ give the same output."
                " Drop dependent columns, or give a prior, such as prior='gaussian'."
            )

    def least_entries(self, k: int) -> int:
        """How many entries above the floor a v must have, to determine k latent numbers."""
        return 1 if self._is_proper else k

    def recover(self, weights: FloatArray, bias: FloatArray, v: FloatArray, seed: int) -> LatentResult:
        seen = ~np.isnan(v)
        A, b, values = np.ascontiguousarray(weights[seen]), bias[seen], v[seen]
        penalty = self.prior.penalty
        if self.noise_scale is None:
            scale, best, other = _search_with_scale(A, b, values, penalty, seed)
        else:
            scale = max(self.noise_scale, _LEAST * _typical(values))
            best, _, other, _, _ = search(A, b, values, _NARROW * scale, penalty, _ROUNDS, _AGREED, seed)
        ends = [(descend(A, b, values, c, scale, penalty, _POLISH), c) for c in (best, other)]
        (objective, c), (rival_objective, other) = sorted(ends, key=lambda end: end[0])
        c, agree, scale, covariance = self._least_squares(A, b, values, c, scale)
        inliers = np.zeros(len(v), dtype=bool)
        inliers[seen] = agree
        clean = np.maximum(c @ weights.T + bias, 0.0)
        outliers = np.where(np.isnan(v), np.nan, np.where(inliers, 0.0, v - clean))
        rival = None
        if rival_objective - objective < _UNSURE:  # and it differs by more than the errors of c
            gap = other - c
            rival = other if gap @ np.linalg.pinv(covariance, hermitian=True) @ gap > 9.0 * len(c) else None
        return LatentResult(c, clean, outliers, inliers, scale, covariance, rival is None, rival)

    def _least_squares(
        self, A: FloatArray, b: FloatArray, v: FloatArray, c: FloatArray, scale: float
    ) -> tuple[FloatArray, BoolArray, float, FloatArray]:
        """Least squares on entries that are on and agree, while these change: (c, which agree, scale, covariance)."""
        prior, k = self.prior, A.shape[1]
        ridge = prior.penalty[0] * np.eye(k)
        agree = used = np.zeros(len(v), dtype=bool)
        for _ in range(10):
            t = A @ c + b
            agree = np.abs(v - np.maximum(t, 0.0)) <= _AGREES * scale
            before, used = used, agree & (t > 0.0)
            if (used == before).all() or (used.sum() < k and not self._is_proper):
                break
            c = _solve_penalized(
                A[used] / scale, (v - b)[used] / scale, A[used].T @ A[used] / scale**2 + ridge, prior, c
            )
        if self.noise_scale is None and used.sum() > k:
            clean = np.maximum(A @ c + b, 0.0)
            noisy = agree & ((v != 0.0) | (clean > 0.0))  # elsewhere noise was cut off
            squares = ((v - clean)[noisy] ** 2).sum()
            scale = max(float(np.sqrt(squares / max(noisy.sum() - k, 1))), _LEAST * _typical(v))
        if not self._is_proper:
            # Entries determine c if they are clearly on, or many that may be: a small entry agrees with being off as
            # well, and c can always be made to switch a few of them on.
            rows, clear = A[used], v[used] > _AGREES * scale
            lacking = k - (int(np.linalg.matrix_rank(rows[clear])) if clear.any() else 0)
            few = np.count_nonzero(~clear) <= 2 * lacking
            if lacking != 0 and (few or int(np.linalg.matrix_rank(rows)) < k):
                raise InvalidDataError(
                    f"The {used.sum()} entries of an output that are on and agree do not determine {k} latent numbers."
                    " Give a prior, such as prior='gaussian', or leave the output out."
                )
        covariance = np.linalg.pinv(A[used].T @ A[used] / scale**2 + ridge, hermitian=True)
        return c, agree, scale, np.asarray(covariance)


def _search_with_scale(
    A: FloatArray, b: FloatArray, v: FloatArray, penalty: FloatArray, seed: int
) -> tuple[float, FloatArray, FloatArray]:
    """(scale, c, next best c): the search, where the noise's scale is to be found too."""
    d, k = A.shape
    typical, largest = _typical(v), float(np.abs(v).max(initial=0.0))
    # From the negative entries, unless there are hardly any, or they are outliers: noise leaves nothing at 0 exactly,
    # so where many entries are, what is negative is not noise.
    negative, levels = -v[v < 0.0], [rung * typical for rung in _LADDER]
    by_negatives = len(negative) >= 4 and 2 * np.count_nonzero(v == 0.0) < len(negative)
    if by_negatives:
        start = float(np.quantile(negative, 0.25)) / _QUARTILE
        levels = [half_normal_scale(negative, start, _LEAST * typical, largest)]
    chosen, highest = (math.nan, np.zeros(k), np.zeros(k)), -math.inf
    for level in levels:
        best, _, other, _, _ = search(A, b, v, _NARROW * level, penalty, _ROUNDS, _AGREED, seed)
        sizes = residual_sizes(A, b, v, best)
        if not by_negatives:  # where v is 0 and c agrees, noise was cut off
            sizes = sizes[(v != 0.0) | (sizes > 0.0)]
        scale = half_normal_scale(sizes, level, _LEAST * typical, largest)
        value = _log_likelihood(np.sort(sizes)[k:], max(scale, 1e-6 * typical), largest)
        if value > highest:
            chosen, highest = (scale * math.sqrt(d / max(d - k, 1.0)), best, other), value
        agree = np.count_nonzero(sizes <= _AGREES * level) - k
        if agree > (_SOME if scale < _EXACT * level else _MOST) * (len(sizes) - k):
            break
    return chosen


def _log_likelihood(sizes: FloatArray, scale: float, top: float) -> float:
    """The log-likelihood of residual sizes: half-normal of this scale or uniform up to ``top``, in the best shares."""
    noise = math.sqrt(2.0 / math.pi) / scale * np.exp(-0.5 * np.minimum(sizes / scale, 38.0) ** 2)
    share = 0.5
    for _ in range(30):
        density = share * noise + (1.0 - share) / top
        share = min(max(float((share * noise / density).mean()), 0.02), 0.98) if len(sizes) else 0.5
    return float(np.log(share * noise + (1.0 - share) / top).sum())


def _typical(v: FloatArray) -> float:
    """The median size of entries that are not 0."""
    sizes = np.abs(v[v != 0.0])
    return float(np.median(sizes)) if len(sizes) else 1.0


def _solve_penalized(A: FloatArray, target: FloatArray, gram: FloatArray, prior: Prior, c: FloatArray) -> FloatArray:
    """The minimum of |A x - target|^2/2 and the prior's penalty, from c."""
    ridge, sparsity, nonnegative = prior.penalty
    if sparsity == 0.0 and not nonnegative:
        root = np.sqrt(ridge) * np.eye(A.shape[1])
        padded = np.concatenate([target, np.zeros(A.shape[1])])
        return np.asarray(np.linalg.lstsq(np.concatenate([A, root]), padded)[0], dtype=np.float64)
    solution = c.copy()
    penalized_minimum(np.tril(gram), A.T @ target, float(sparsity), bool(nonnegative), solution)
    return solution


# --- program (47) ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LatentLasso:
    """Program (47) of Mazumdar and Rawat, as written: the layer taken for a linear one, c found up to the factor mu.

    ``penalty`` is lambda, by default the rule of Theorem 4 for entries of A that are standard normal, |c| = ``norm``
    and noise of at most ``noise_bound``. ``intercept`` takes the mean of ReLU(A c + b) - mu A c out of the outliers.

    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A, b, c = rng.standard_normal((2000, 3)), rng.standard_normal(2000), np.array([0.6, 0.0, 0.8])
    >>> result = unrelu.recover_latent(A, b, np.maximum(A @ c + b, 0.0), method="lasso")
    >>> bool(np.abs(result.latent - c).max() < 0.15)
    True
    """

    penalty: float | None = None
    intercept: bool = False
    norm: float = 1.0
    noise_bound: float = 0.0

    def __post_init__(self) -> None:
        check_positive("norm", self.norm)
        if self.penalty is not None:
            check_positive("penalty", self.penalty)
        if not (isinstance(self.noise_bound, Real) and 0.0 <= float(self.noise_bound) < math.inf):
            raise InvalidParameterError(f"noise_bound must be a finite number of 0 or more, got {self.noise_bound!r}.")

    def check(self, weights: FloatArray) -> None:
        RobustLatent().check(weights)

    def least_entries(self, k: int) -> int:  # noqa: ARG002 - recover checks the rank of those that are seen
        return 1

    def recover(self, weights: FloatArray, bias: FloatArray, v: FloatArray, seed: int) -> LatentResult:  # noqa: ARG002
        seen = ~np.isnan(v)
        A, b = weights[seen], bias[seen]
        slope = mean_slope(b, self.norm)
        if np.linalg.matrix_rank(A) < A.shape[1]:
            raise InvalidDataError(f"The {seen.sum()} entries that are seen do not determine {A.shape[1]} numbers.")
        if slope < _OFF:
            raise InvalidDataError("The layer is off nearly everywhere: its outputs say nothing of c to a linear fit.")
        penalty = self.penalty or penalty_rule(b, self.norm, self.noise_bound)
        c, e, intercept = solve_lasso(A, v[seen], penalty, self.intercept)
        latent = c / slope
        clean = np.maximum(latent @ weights.T + bias, 0.0)
        outliers = np.full(len(v), np.nan)
        outliers[seen] = e
        left = (v[seen] - A @ c - intercept)[e == 0.0]
        scale = float(np.sqrt((left**2).mean())) if len(left) else math.nan
        gram = A[e == 0.0].T @ A[e == 0.0]
        covariance = np.asarray((scale / slope) ** 2 * np.linalg.pinv(gram, hermitian=True))
        return LatentResult(latent, clean, outliers, seen & (outliers == 0.0), scale, covariance, True, None)


def mean_slope(b: FloatArray, norm: float) -> float:
    """mu: the mean of Phi(b_i / |c|)."""
    return float(ndtr(b / norm).mean())


def penalty_rule(b: FloatArray, norm: float, noise: float) -> float:
    """lambda = 2 (q + noise) / d, with P(max_i |ReLU(|c| g_i + b_i) - mu |c| g_i| <= q) = .95.

    With x = |c| g, that is (1 - mu) x + b where x > -b and -mu x elsewhere.
    """
    mu = mean_slope(b, norm)
    slope = max(1.0 - mu, 1e-12)

    def between(low: FloatArray, high: FloatArray) -> FloatArray:
        return np.maximum(ndtr(high / norm) - ndtr(low / norm), 0.0)

    low, high = 0.0, float(np.abs(b).max(initial=0.0)) + 10.0 * norm
    for _ in range(60):
        q = 0.5 * (low + high)
        # On the side where the layer is on: -q <= (1 - mu) x + b <= q. Where it is off: -q <= -mu x <= q.
        on = between(np.maximum(-b, (-q - b) / slope), (q - b) / slope)
        reach = q / max(mu, 1e-12)
        off = between(np.full(len(b), -reach), np.minimum(-b, reach))
        if float(np.log(np.maximum(on + off, 1e-300)).sum()) < math.log(_CONFIDENCE):
            low = q
        else:
            high = q
    return 2.0 * (high + noise) / len(b)


def solve_lasso(A: FloatArray, v: FloatArray, penalty: float, intercept: bool) -> tuple[FloatArray, FloatArray, float]:
    """Program (47), solved to rounding: the minimizers c (not yet divided by mu) and e, and the intercept.

    By Newton's method on Huber's loss, for thresholds that fall towards d lambda. A small threshold leaves Newton's
    method few entries to see; from the solution for a larger one it starts next to its own.
    """
    d, k = A.shape
    design = np.column_stack([A, np.ones(d)]) if intercept else A
    threshold = d * penalty
    # Beyond the threshold an entry only says on which side it is; if it is huge, the loss shows no other any more.
    farthest = _FARTHEST * max(threshold, float(np.median(np.abs(v))))
    near = np.clip(v, -farthest, farthest)
    solution = np.asarray(np.linalg.lstsq(design, near)[0], dtype=np.float64)
    level = float(np.abs(near - design @ solution).max(initial=0.0))
    while level > threshold:
        solution = _huber_minimum(design, near, solution, level)
        level *= _FALL
    solution = _huber_minimum(design, near, solution, threshold)
    residual = v - design @ solution
    e = np.sign(residual) * np.maximum(np.abs(residual) - threshold, 0.0)
    return solution[:k], e, float(solution[k]) if intercept else 0.0


def _huber_minimum(design: FloatArray, v: FloatArray, solution: FloatArray, threshold: float) -> FloatArray:
    """The minimizer of Huber's loss, from a point near it.

    Where Newton's step, from the few entries within the threshold, does not lower the loss, a step of reweighted least
    squares from all entries does; of the steps 1, 1/2, 1/4, ... the longest that does not raise the loss.
    """

    def loss(at: FloatArray) -> float:
        size = np.abs(v - design @ at)
        inside = np.minimum(size, threshold)  # outliers may be too large to square
        return float((inside * (size - 0.5 * inside)).sum())

    value = loss(solution)
    damping = 1e-13 * max(float((design**2).sum()), 1e-300) / design.shape[1] * np.eye(design.shape[1])
    for _ in range(_NEWTON_ROUNDS):
        residual = v - design @ solution
        gradient = design.T @ np.clip(residual, -threshold, threshold)
        newton = (np.abs(residual) <= threshold).astype(np.float64)
        moved, tried = solution, value
        for weights in (newton, threshold / np.maximum(np.abs(residual), threshold)):
            step = np.linalg.solve(design.T @ (weights[:, None] * design) + damping, gradient)
            for _ in range(_SHRINKS):
                moved = solution + step
                tried = loss(moved)
                if tried <= value:
                    break
                step = 0.5 * step
            if tried < value:
                break
        if not tried < value or np.abs(moved - solution).max() <= 1e-15 * max(float(np.abs(solution).max()), 1e-300):
            break
        solution, value = moved, tried
    return solution


# --- by name --------------------------------------------------------------------------------------

LatentMethod: TypeAlias = RobustLatent | LatentLasso
_METHODS: dict[str, type[LatentMethod]] = {"robust": RobustLatent, "lasso": LatentLasso}


def latent_method(method: str | LatentMethod, prior: str | Prior | None = None) -> LatentMethod:
    """The method of that name with this prior, or the object itself, which has its own."""
    own_prior = find_prior(prior)
    if not isinstance(method, str):
        if isinstance(method, type) or not hasattr(method, "recover"):
            raise InvalidParameterError(
                f"method must be one of {', '.join(_METHODS)} or an object of unrelu.recovery, got {method!r}."
            )
        if prior is not None:
            raise InvalidParameterError("Give the prior to the method's object, as RobustLatent(prior), not beside it.")
        return method
    check_choice("method", method, list(_METHODS))
    if method == "robust":
        return RobustLatent(own_prior)
    if prior is not None:
        raise InvalidParameterError("method='lasso' takes no prior: leave it out, or use method='robust'.")
    return LatentLasso()


def names_of(method: LatentMethod) -> tuple[str, str]:
    """What reports call a method and its prior: their names, or their classes'; "none" for no prior."""
    names = {kind: name for name, kind in [*_PRIORS.items(), ("none", NoPrior), *_METHODS.items()]}
    prior = getattr(method, "prior", NoPrior())
    method_name, prior_name = (names.get(type(each), type(each).__name__.lower()) for each in (method, prior))
    return method_name, prior_name
