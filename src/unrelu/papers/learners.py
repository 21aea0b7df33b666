"""The papers' learners: Wu et al. 2019 and Bulusu et al. 2022, whose Algorithm 1 is the same.

Both learn norm and bias of every coordinate by itself (the core's std and mean), from the values above the floor alone,
and then the angle of every pair by a count (:func:`exceedance_angles`). They differ in the first step:

    TruncatedSGD       Wu et al. 2019, Algorithms 2 and 3: stochastic gradients of the truncated likelihood
    MedianBias         Wu et al. 2019, footnote 4: the samples' median
    FilteredGradient   Bulusu et al. 2022, Algorithm 2: gradient descent on filtered batch means

Users reach them as methods like any other (:mod:`unrelu.methods`, "sgd", "median" and "filtered_gradient").
:func:`undo_activation` is a step before learning, for activations that have an inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit

from unrelu import RectifiedGaussian
from unrelu.contracts import (
    Assumptions,
    ColumnCounts,
    Evidence,
    FloatArray,
    LearningReport,
    NearestCovariance,
    PairCorrelations,
    Progress,
    RowParameters,
    Step,
    no_progress,
)
from unrelu.errors import InvalidDataError, InvalidParameterError, NotSemidefiniteError
from unrelu.fit import Learned, Stages, nearest_covariance, refuse_tiny, warn_of_constants
from unrelu.methods import LEARNING, Method
from unrelu.papers.batches import (
    BINS,
    ORDERS,
    ColumnSums,
    Counts,
    Names,
    batch_means,
    closed_descent,
    count_exceedances,
    count_in_bins,
    find_filter,
    require_positives,
    sampled_descent,
    sum_batches,
    sum_columns,
    warn_of_order,
)
from unrelu.passes import map_in_threads
from unrelu.validation import check_choice, check_count, check_positive, column_label, label_columns, listed, warn

_CLEARLY = 4.0  # standard errors by which the share above the floor must miss one half
_MEDIAN_PASSES = 3  # each narrows the bracket by the number of bins

Inverse = Callable[[FloatArray], FloatArray]
Fitted = tuple[FloatArray, FloatArray]  # biases and norms


class _Algorithm1(Method):
    """Algorithm 1 of Wu et al. 2019 and Bulusu et al. 2022; ``_fit`` gives every column's bias and norm.

    With ``project`` the pairs become the nearest semidefinite matrix. Without, to the letter: S_ij = s_i s_j
    cos(theta_ij), whether or not that is a covariance.
    """

    of_papers: ClassVar[bool] = True  # which assume normal columns
    name: ClassVar[str]
    allow_partial: bool
    project: bool = True

    def _check(self) -> None:
        """Raise InvalidParameterError where the options contradict each other."""

    def _fit(self, evidence: Evidence, assumptions: Assumptions, column_sums: ColumnSums, seed: int) -> Fitted:
        raise NotImplementedError

    def learn(
        self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, progress: Progress = no_progress
    ) -> Learned:
        self._check()
        names = evidence.feature_names
        if (none := np.isneginf(assumptions.floor)).any():
            raise InvalidParameterError(
                f"No floor for {label_columns(none, names)}, and method={self.name!r} needs one in every column: use"
                " method='one_pass' or 'robust'."
            )
        progress(Step(LEARNING))
        if not self.project and assumptions.n_components is not None:
            raise InvalidParameterError(
                "n_components means a matrix of lower rank, and project=False the pairs as they are: leave one out."
            )
        column_sums = check_columns(evidence, assumptions)
        bias, scale = self._fit(evidence, assumptions, column_sums, seed)
        d, floor, bias = len(bias), np.array(assumptions.censored_at), np.maximum(bias, assumptions.floor)
        rows = RowParameters(bias, scale, floor, np.full((d, 2, 2), np.nan), np.zeros((d, 2, 3)))  # no standard errors
        above = partial(count_exceedances, np.maximum(bias, floor))
        counts: FloatArray = evidence.collect(above, remember=False).values
        pairs = exceedance_angles(column_sums, counts, rows, names, self.allow_partial, self.project)
        if self.project:
            covariance, nearest = nearest_covariance(rows.std, pairs, assumptions.n_components)
        else:
            correlation = np.nan_to_num(pairs.correlation)
            covariance = correlation * np.outer(rows.std, rows.std)
            nearest = NearestCovariance(float(np.linalg.eigvalsh(correlation)[0]))
        try:
            model = RectifiedGaussian(rows.mean, covariance, assumptions.floor, names)
        except InvalidParameterError:
            if self.project:
                raise
            raise NotSemidefiniteError(
                "Algorithm 1 as written gives no covariance here: its correlations have an eigenvalue of"
                f" {nearest.smallest_eigenvalue:.3g}. The error's mean and covariance hold them as they are; without"
                " project=False the nearest covariance is taken.",
                rows.mean,
                covariance,
            ) from None
        n = float(column_sums.n_rows)
        seen = ColumnCounts(column_sums.n_rows, column_sums.observed, column_sums.above, counts[0] == 0.0)
        report = LearningReport.of(self.name, column_sums.n_rows, n, seen, nearest, **assumptions.limits)
        return Learned.of(Stages(model, rows, pairs, nearest), report, assumptions.n_components, n)


@dataclass(frozen=True)
class TruncatedSGD(_Algorithm1):
    """Wu et al. 2019, Algorithms 1 to 3: truncated fits by projected SGD, angles by counts.

    ``radius`` r and ``step`` lambda are the paper's; ``batches`` is B of Algorithm 2; ``minibatch`` is the number of
    values a step, 10 in the authors' code; ``draws`` is the number of z drawn for each, 1 in equation (6), where more
    only reduce the noise. Needs non-negative biases; ``allow_partial`` learns the pairs it can. The pairs are made one
    semidefinite matrix, which the paper does not do: ``project=False`` is Algorithm 1 to the letter, and raises
    NotSemidefiniteError, which holds the matrix, where no model has it.

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(20_000, random_state=1)
    >>> learner = unrelu.RectifiedGaussianLearner(unrelu.methods.TruncatedSGD(batches=3)).fit(X)
    >>> learner.report_.method
    'sgd'
    """

    name: ClassVar[str] = "sgd"

    radius: float = 3.0
    step: float = 0.1
    batches: int = 1
    minibatch: int = 10
    draws: int = 3
    allow_partial: bool = False
    project: bool = True

    def _check(self) -> None:
        check_positive("radius", self.radius, least=1.0)
        check_positive("step", self.step)
        for name in ("batches", "minibatch", "draws"):
            check_count(name, getattr(self, name))

    def _fit(self, evidence: Evidence, assumptions: Assumptions, column_sums: ColumnSums, seed: int) -> Fitted:
        """Values are shifted and rescaled by their own mean and deviation (7), fitted, and transformed back.

        In v = (1/sigma^2, mu/sigma^2), by projected stochastic gradients (6) on the domain D_r (8).
        """
        fitted = column_sums.variance > 0.0
        require_positives(column_sums, fitted, evidence.feature_names, self.batches)
        mean, deviation = column_sums.mean, np.sqrt(np.where(fitted, column_sums.variance, 1.0))
        floor = np.array(assumptions.censored_at)
        minibatches = np.maximum(column_sums.above // self.minibatch, self.batches)
        question = partial(sum_batches, floor, mean, deviation, column_sums, minibatches)
        sums = evidence.collect(question, remember=False).values
        low = (floor - mean) / deviation

        def norm_bias(j: int) -> FloatArray:
            return self.most_central_run(sums[j, : minibatches[j]], low[j], [seed, j])

        v = np.array(map_in_threads(norm_bias, range(len(mean)))).reshape(-1, 2)
        bias = np.where(fitted, mean + deviation * v[:, 1] / v[:, 0], mean)
        return bias, np.where(fitted, deviation / np.sqrt(v[:, 0]), 0.0)

    def most_central_run(self, sums: FloatArray, low: float, seeds: list[int]) -> FloatArray:
        """Algorithm 2, steps 2 to 5: one run a batch, and the run with the least sum of distances to all."""
        runs = np.empty((self.batches, 2))
        for run, part in enumerate(np.array_split(sums, self.batches)):
            rng = np.random.default_rng([*seeds, run])
            sampled_descent(np.ascontiguousarray(part), low, self.step, self.radius, self.draws, rng, runs[run])
        distances = np.linalg.norm(runs[:, None, :] - runs[None, :, :], axis=2).sum(axis=1)
        return np.asarray(runs[np.argmin(distances)])


@dataclass(frozen=True)
class FilteredGradient(_Algorithm1):
    """Bulusu et al. 2022, Algorithms 1 and 2: gradient descent on filtered batch means, angles by counts.

    ``filter`` is "median", "trimmed_mean" (which cuts the share ``trim`` at each end) or None; ``steps`` is T (None:
    the paper's positives/100). Values are not rescaled, so norms must lie between 1/sqrt(radius) and sqrt(radius), as
    in the paper's experiments. ``allow_partial`` and ``project`` as in :class:`TruncatedSGD`.

    What the paper leaves open: ``batches``, their number n_b, or ``batch_size``, the values in one (None: ten); their
    ``order``, "scattered" (neighbouring rows in different batches) or "consecutive" (neighbours in one batch, for
    outliers in neighbouring rows); ``every_step`` makes batches and filters them at every step, as its section 3 says,
    instead of once, as its Algorithm 2 says.

    ``stochastic``: every step draws ``drawn`` batches of one value; None is one of them, as the paper says, or ten
    where a filter needs several.

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(20_000, random_state=1)
    >>> method = unrelu.methods.FilteredGradient(filter="trimmed_mean", trim=0.2)
    >>> unrelu.RectifiedGaussianLearner(method=method).fit(X).report_.method
    'filtered_gradient'
    """

    name: ClassVar[str] = "filtered_gradient"

    filter: str | None = "median"
    stochastic: bool = False
    trim: float = 0.1
    batches: int | None = None
    steps: int | None = None
    radius: float = 3.0
    step: float = 0.1
    allow_partial: bool = False
    order: str = "scattered"
    batch_size: int | None = None
    drawn: int | None = None
    every_step: bool = False
    project: bool = True

    def _check(self) -> None:
        if self.drawn is not None and not self.stochastic:
            raise InvalidParameterError(f"drawn={self.drawn!r} has no effect without stochastic=True: leave it out.")
        find_filter(self.filter, self.trim)
        check_choice("order", self.order, ORDERS)
        for name in ("batches", "batch_size"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.batches is not None and self.batch_size is not None:
            raise InvalidParameterError(
                f"batches={self.batches} and batch_size={self.batch_size} both say how large a batch is: give one of"
                " them."
            )
        check_positive("radius", self.radius, least=1.0)
        check_positive("step", self.step)
        if self.steps is not None:
            check_count("steps", self.steps)
        if self.drawn is not None:
            check_count("drawn", self.drawn)
            if self.drawn == 1 and self.filter is not None:
                raise InvalidParameterError(
                    "drawn=1 leaves a filter nothing to choose from: take filter=None, which is the same, or draw more."
                )
        if self.stochastic and self.every_step:
            raise InvalidParameterError(
                "every_step=True has no effect with stochastic=True, which draws its batches at every step: leave"
                " one of them out."
            )

    def _fit(self, evidence: Evidence, assumptions: Assumptions, column_sums: ColumnSums, seed: int) -> Fitted:
        """(4) to (10): a filter over the batches stands for the expectation under the inlier rows (8).

        The other half of the gradient has a closed form (5), (6). ``step`` 0.1 is gamma_t = 1/(0.1 t).
        """
        fitted, floor, names = column_sums.variance > 0.0, np.array(assumptions.censored_at), evidence.feature_names
        choose = find_filter(self.filter, self.trim)
        steps = np.maximum(column_sums.above // 100, 1)
        steps = steps if self.steps is None else np.full_like(steps, self.steps)
        if self.batches is not None:
            require_positives(column_sums, fitted, names, self.batches)
            batches = np.full_like(column_sums.above, self.batches)
        else:
            if self.batch_size is not None:
                require_positives(column_sums, fitted, names, batch_size=self.batch_size)
            batches = np.maximum(column_sums.above // (self.batch_size or (1 if self.stochastic else 10)), 1)

        def collect(seed: int, chosen: Counts | None = None) -> FloatArray:
            question = partial(sum_batches, floor, floor, np.ones_like(floor), column_sums, batches)
            how = partial(question, scattered=self.order == "scattered", seed=seed, chosen=chosen)
            return np.asarray(evidence.collect(how, remember=False).values)

        if self.stochastic:
            # One value a step, as the paper says twice; a filter needs several, and the paper does not say how many.
            number = self.drawn or (1 if self.filter is None else 10)
            streams = (np.random.default_rng([seed, j]) for j in range(len(batches)))
            drawn = [rng.integers(0, b, (t, number)) for rng, b, t in zip(streams, batches, steps, strict=True)]
            kept = [np.unique(of_column) for of_column in drawn]
            chosen = np.full((len(kept), max(map(len, kept))), np.iinfo(np.int64).max)
            for row, of_column in zip(chosen, kept, strict=True):
                row[: len(of_column)] = of_column
            sums = collect(seed, chosen)
            gradients = [np.zeros((1, 2))] * len(kept)  # per column a row for every step, or one for all
            for j in np.flatnonzero(fitted):
                gradients[j] = choose(batch_means(sums[j, : len(kept[j])])[np.searchsorted(kept[j], drawn[j])])
        else:
            gradients = [np.zeros((int(steps.max()) if self.every_step else 1, 2)) for _ in batches]
            for t in range(len(gradients[0])):  # scattered batches are drawn anew
                sums = collect(seed + t)
                if t == 0 and self.order == "consecutive":
                    warn_of_order(sums, batches, fitted, names)
                for j in np.flatnonzero(fitted):
                    gradients[j][t] = choose(batch_means(sums[j, : batches[j]]))

        def descend(j: int) -> FloatArray:
            v = np.array([1.0, 0.0])
            if fitted[j]:
                closed_descent(gradients[j], int(steps[j]), self.step, self.radius, v)
            return v

        v = np.array(map_in_threads(descend, range(len(fitted)))).reshape(-1, 2)
        bias = np.where(fitted, floor + v[:, 1] / v[:, 0], column_sums.mean)
        return bias, np.where(fitted, 1.0 / np.sqrt(v[:, 0]), 0.0)


@dataclass(frozen=True)
class MedianBias(_Algorithm1):
    """Wu et al. 2019, footnote 4: the bias is the samples' median; norms from the spread above it, angles by counts.

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(20_000, random_state=1)
    >>> unrelu.RectifiedGaussianLearner(method="median").fit(X).report_.method
    'median'
    """

    name: ClassVar[str] = "median"

    allow_partial: bool = False

    def _fit(self, evidence: Evidence, assumptions: Assumptions, column_sums: ColumnSums, seed: int) -> Fitted:
        """For b >= floor the floor cuts off at most half of y, so the median of x is that of y, which is b.

        Given b, half of the rows lie above it and E[(x - b)^2 1{x > b}] = s^2/2. The median lies within one standard
        deviation of the mean; histograms narrow that bracket down.
        """
        floor = np.array(assumptions.censored_at)
        share = column_sums.above / column_sums.observed
        step = np.where(column_sums.above > 0, column_sums.mean - floor, 0.0)
        mean = floor + share * step
        deviation = np.sqrt(share * column_sums.variance + share * (1.0 - share) * step**2)
        low, high = mean - deviation, mean + deviation
        for _ in range(_MEDIAN_PASSES):
            counts = evidence.collect(partial(count_in_bins, low, high), remember=False).values
            reached = np.cumsum(counts, axis=1) >= 0.5 * column_sums.observed[:, None]
            place = np.clip(np.argmax(reached, axis=1) - 1, 0, BINS - 1)
            width = (high - low) / BINS
            low, high = low + place * width, low + (place + 1) * width
        bias = np.maximum(0.5 * (low + high), assumptions.floor)
        upper = evidence.collect(partial(sum_columns, bias, assumptions.lowest), remember=False)
        square = upper.variance + np.where(upper.above > 0, upper.mean - bias, 0.0) ** 2
        return bias, np.sqrt(2.0 * square * upper.above / column_sums.observed)


# --- shared by the learners ----------------------------------------------------------------------


def check_columns(evidence: Evidence, assumptions: Assumptions) -> ColumnSums:
    """The sums of a table's columns; InvalidDataError where nothing can be learned from a column."""
    floor, names = np.array(assumptions.censored_at), evidence.feature_names
    column_sums = evidence.collect(partial(sum_columns, floor, assumptions.lowest), remember=False)
    column_sums.screening.check(assumptions, names)
    if (unseen := column_sums.observed == 0).any():
        raise InvalidDataError(
            f"No value at all in {label_columns(unseen, names)}: every row is missing (NaN). Drop it."
        )
    if (once := column_sums.observed < 2).any():
        raise InvalidDataError(f"Only 1 sample (row) with a value in {label_columns(once, names)}: two are needed.")
    refuse_tiny(column_sums.above > 0, column_sums.mean - floor, column_sums.variance, names)
    constant = column_sums.variance == 0.0
    if (equal := (column_sums.above > 0) & constant & (column_sums.above < column_sums.observed)).any():
        raise InvalidDataError(
            f"All values above the floor are equal in {label_columns(equal, names)}: a truncated fit needs spread. Use"
            " 'one_pass'."
        )
    warn_of_constants(constant, names)
    return column_sums


def exceedance_angles(
    column_sums: ColumnSums,
    counts: FloatArray,
    rows: RowParameters,
    names: Names,
    allow_partial: bool = False,
    project: bool = True,
) -> PairCorrelations:
    """The angle rule of Wu et al. 2019, (14), and Bulusu et al. 2022, (11): how often two columns exceed both biases.

    For b >= floor, x_i > b_i exactly when W(i,:) z > 0, so that (Wu et al. 2019, Fact 1 and Lemma 2)

        P[x_i > b_i and x_j > b_j] = (pi - theta_ij)/(2 pi),   theta_ij = pi - 2 pi count/n,   r_ij = cos(theta_ij).

    A negative bias breaks the first step: the rule then counts values that the floor has hidden. Columns whose bias is
    clearly negative are refused; with ``allow_partial`` their correlations are NaN instead. Standard errors are those
    of the count; the error of the bias is not in them. ``counts`` are of :func:`count_exceedances` above both biases. A
    count of more than half the rows is more than any angle gives: it counts as an angle of 0, or with ``project``
    False, as the papers have it, as a negative one, whose cosine falls again.
    """
    observed = np.maximum(column_sums.observed, 1)
    above = column_sums.above / observed
    negative = np.asarray((column_sums.above > 0) & (above - 0.5 < -0.5 * _CLEARLY / np.sqrt(observed)))
    if negative.any():
        where = listed(f"{column_label(int(j), names)} ({100 * above[j]:.0f} %)" for j in np.flatnonzero(negative))
        what = f"Above the floor in less than half of the rows: {where}. Its bias is clearly negative"
        if not allow_partial:
            raise InvalidDataError(
                f"{what}, and the papers' angle rule needs non-negative biases. Use method='one_pass',"
                " which handles any sign, or allow_partial=True for the other pairs."
            )
        warn(f"{what}: its correlations are not recovered (NaN, taken as 0 in the model).", "partial-recovery")
    both, together = counts
    seen = np.maximum(together, 1.0)
    share = both / seen
    theta = np.pi - 2.0 * np.pi * share
    # dr/dshare = 2 pi sin(theta); a pair never or always counted keeps the error of half a row.
    safe = np.clip(share, 0.5 / seen, 1.0 - 0.5 / seen)
    stderr = 2.0 * np.pi * np.maximum(np.abs(np.sin(theta)), 1e-3) * np.sqrt(safe * (1.0 - safe) / seen)
    angle = np.clip(theta, 0.0, np.pi) if project else theta
    correlation = np.where(together > 0, np.cos(angle), 0.0)
    stderr = np.where(together > 0, np.minimum(stderr, 1.0), 1.0)
    unknown = rows.std == 0.0
    correlation[unknown] = correlation[:, unknown] = 0.0
    stderr[unknown | negative] = stderr[:, unknown | negative] = np.nan
    correlation[negative] = correlation[:, negative] = np.nan
    np.fill_diagonal(correlation, 1.0)
    np.fill_diagonal(stderr, 0.0)
    return PairCorrelations(correlation, stderr)


# --- activations that have an inverse -----------------------------------------------------------


def undo_activation(X: ArrayLike, activation: str | Inverse = "leaky_relu", slope: float = 0.01) -> FloatArray:
    """Wu et al. 2019, footnote 2: y of x = f(y), y = W z + b ~ N(b, W W'), for an activation f that has an inverse.

    ``activation``: "leaky_relu" (x = ``slope`` y below 0), "elu" (x = e^y - 1 below 0), "softplus", "sigmoid", "tanh",
    or a function that is the inverse itself. Missing cells (NaN) stay missing. A value that f does not take, or takes
    only at infinity, such as a sigmoid that was rounded to 1, is refused. Learn what comes out without a floor:

    >>> import unrelu
    >>> y = np.random.default_rng(0).multivariate_normal([0.5, -1.0], [[1.0, 0.5], [0.5, 1.0]], 5000)
    >>> X = np.where(y > 0.0, y, 0.01 * y)  # a leaky ReLU
    >>> learner = unrelu.RectifiedGaussianLearner(floor=None).fit(undo_activation(X))
    >>> bool(np.allclose(learner.mean_, y.mean(axis=0), atol=1e-6))
    True
    """
    try:
        x = np.array(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidDataError(f"X must be a table of real numbers: {error}.") from error
    if x.ndim != 2:
        raise InvalidDataError(f"X must be a table, rows x columns, got shape {x.shape}.")
    if activation == "relu":
        raise InvalidParameterError(
            "The ReLU has no inverse: give X itself to RectifiedGaussianLearner, which is made for it."
        )
    if isinstance(activation, str):
        check_positive("slope", slope)
        inverses: dict[str, Inverse] = {
            "leaky_relu": lambda x: np.where(x > 0.0, x, x / slope),
            "elu": lambda x: np.where(x > 0.0, x, np.log1p(np.minimum(x, 0.0))),
            "softplus": lambda x: x + np.log(-np.expm1(-x)),  # log(e^x - 1), without overflow
            "sigmoid": logit,
            "tanh": np.arctanh,
        }
        check_choice("activation", activation, list(inverses))
        inverse = inverses[activation]
    elif callable(activation):
        inverse = activation
    else:
        raise InvalidParameterError(f"activation must be a name or the inverse function, got {activation!r}.")
    with np.errstate(all="ignore"):
        y = np.asarray(inverse(x), dtype=np.float64)
    if y.shape != x.shape:
        raise InvalidParameterError(
            f"The inverse gives shape {y.shape} for a table of shape {x.shape}: it must be kept."
        )
    lost = ~np.isfinite(y) & ~np.isnan(x)
    if lost.any():
        i, j = np.argwhere(lost)[0]
        raise InvalidDataError(
            f"{x[i, j]!r} in row {i} of {column_label(int(j), None)} is no value of the activation ({int(lost.sum())}"
            " such cells): check its name, and that values were not rounded or cut off."
        )
    return y
