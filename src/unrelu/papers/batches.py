"""Questions of the papers' learners to the rows (sums of columns, batches, joint counts, histograms); compiled loops.

Bulusu et al. 2022, section 3, does not say what is in a batch. Its text splits at random: *scattered*. But its median
is taken "either from all the true samples or outliers", and its propositions need p Psi > 1/2, a batch without outliers
with probability p and not p^m: *consecutive* batches of rows. They help where outliers are next to each other in the
table (:func:`warn_of_order`).

The negative log-likelihood of a truncated normal is convex in v = (1/sigma^2, mu/sigma^2), with gradient (Wu et al.
2019, (6); Bulusu et al. 2022, (4))

    g = ( E[x^2/2], -E[x] ) + ( -E[z^2/2], E[z] ),   z ~ N(mu, sigma^2) truncated, at the current v.

Wu et al. 2019 draws z; Bulusu et al. 2022 uses the closed form of its moments, (5) and (6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unrelu.contracts import Block, BoolArray, FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes import LARGEST, Screening, as_stored, screening_of, seen_above
from unrelu.validation import check_choice, column_label, label_columns, listed, warn

BINS = 1024
ORDERS = ("scattered", "consecutive")
_FEWEST_BATCHES = 20  # with which the spread of their means is known to a third
_APART = 4.0  # standard errors by which that spread must exceed the one of shuffled rows
_DRIFT = 3.0  # times the spread of shuffled rows, in the half of the batches that agree best
_GOLDEN = 0.6180339887498949

Counts = NDArray[np.int64]
Names = tuple[str, ...] | None


# --- questions to a block of rows, whose answers merge ------------------------------------------


@dataclass(frozen=True, eq=False)
class Sums:
    """Counts or sums of the rows, laid out as the question says."""

    values: NDArray[Any]

    def merge(self, other: Self) -> Self:
        return replace(self, values=self.values + other.values)


def tiles(block: Block) -> Iterator[Block]:
    """The block's rows some at a time, as the compiled loops want them; their working copies stay in cache."""
    n, d = block.values.shape
    height = int(np.clip(2**19 // max(d, 1), 64, 4096))
    for start in range(0, n, height):
        yield Block(np.array(block.values[start : start + height], order="C"), block.first_row + start)


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Rows; per column: values observed, values above the floor, their mean and sum of squared deviations.

    They come first: Wu et al. 2019 rescales by mean and deviation (7), and batches of values above the floor need every
    value's rank among them, whatever the blocks: ``above_by_block`` maps the first row of every block to its number of
    values above the floor.
    """

    n_rows: int
    observed: Counts
    above: Counts
    mean: FloatArray
    deviation: FloatArray
    above_by_block: dict[int, Counts]
    screening: Screening

    @property
    def variance(self) -> FloatArray:
        return self.deviation / np.maximum(self.above, 1)

    def merge(self, other: Self) -> Self:
        above = self.above + other.above
        share = other.above / np.maximum(above, 1)
        gap = other.mean - self.mean
        return type(self)(
            self.n_rows + other.n_rows,
            self.observed + other.observed,
            above,
            self.mean + share * gap,
            self.deviation + other.deviation + gap**2 * share * self.above,
            self.above_by_block | other.above_by_block,
            self.screening.merge(other.screening),
        )


def sum_columns(floor: FloatArray, lowest: tuple[float, ...], block: Block) -> ColumnSums:
    """The sums of a block's columns, above ``floor``."""
    if block.weights is not None:
        raise InvalidParameterError("This method has no row weights: leave out sample_weight or use 'one_pass'.")

    def part(tile: Block) -> ColumnSums:
        values = tile.values
        seen = (values > seen_above(floor, values)) & (values <= np.float64(LARGEST))
        above = np.count_nonzero(seen, axis=0)
        mean = np.where(seen, values, 0.0).sum(axis=0, dtype=np.float64) / np.maximum(above, 1)
        deviation = np.where(seen, values - mean, 0.0)
        square = np.einsum("ij,ij->j", deviation, deviation)
        observed = np.count_nonzero(~np.isnan(values), axis=0)
        return ColumnSums(len(values), observed, above, mean, square, {}, screening_of(tile, lowest))

    whole = reduce(ColumnSums.merge, map(part, tiles(block)))
    return replace(whole, above_by_block={block.first_row: whole.above})


def sum_batches(
    floor: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    column_sums: ColumnSums,
    batches: Counts,
    block: Block,
    *,
    scattered: bool = False,
    seed: int = 0,
    chosen: Counts | None = None,
) -> Sums:
    """(count, sum t, sum t^2/2), t = (x - centre)/scale, of ``batches[j]`` equal batches of a column: d x n_b x 3.

    Bulusu et al. 2022, (7), of the values above the floor. A value's batch depends on its rank among those of its
    column, never on the blocks, so that sums add. ``scattered`` spreads neighbouring rows over all batches, by a fixed
    permutation k -> (multiplier k + shift) mod total drawn from ``seed``, one to one since multiplier and total share
    no factor; else batches follow the order of the rows, as in Wu et al. 2019. ``chosen`` (d x m, rising along each
    row) limits the sums to some batches: a step that takes one value must not keep a sum for every value there is.
    """
    earlier = [above for first_row, above in column_sums.above_by_block.items() if first_row < block.first_row]
    rank = np.sum([np.zeros_like(column_sums.above), *earlier], axis=0)
    total = np.maximum(column_sums.above, 1)
    multiplier, shift = np.ones_like(total), np.zeros_like(total)
    if scattered:
        rng = np.random.default_rng(seed)
        for j, n in enumerate(total.tolist()):
            multiplier[j] = max(int(n * _GOLDEN) + int(rng.integers(0, max(n // 8, 1))), 1)
            while math.gcd(int(multiplier[j]), n) != 1:
                multiplier[j] += 1
            shift[j] = int(rng.integers(0, n))
    wanted = np.empty((len(floor), 0), dtype=np.int64) if chosen is None else chosen
    sums = np.zeros((len(floor), wanted.shape[1] or int(batches.max()), 3))
    for tile in tiles(block):
        low = seen_above(floor, tile.values)
        add_batch_sums(tile.values, low, centre, scale, rank, total, batches, multiplier, shift, wanted, sums)
    return Sums(sums)


def count_exceedances(thresholds: FloatArray, block: Block) -> Sums:
    """How often two columns exceed their thresholds together, and are both observed: 2 x d x d exact counts."""
    d = len(thresholds)
    counts = np.zeros((2, d, d))
    for tile in tiles(block):
        above = tile.values > as_stored(thresholds, tile.values)
        for count, marks in zip(counts, (above, ~np.isnan(tile.values)), strict=True):
            ones = marks.astype(np.float32)  # whose sums over a tile are exact
            count += ones.T @ ones
    return Sums(counts)


def count_in_bins(low: FloatArray, high: FloatArray, block: Block) -> Sums:
    """Counts below ``low``, in BINS equal bins up to ``high``, and above, column by column: d x (BINS + 2)."""
    d = len(low)
    counts = np.zeros((d, BINS + 2), dtype=np.int64)
    width = np.where(high > low, (high - low) / BINS, 1.0)
    for tile in tiles(block):
        seen = ~np.isnan(tile.values)
        place = np.floor((np.where(seen, tile.values, 0.0) - low) / width) + 1.0
        bins = np.clip(place, 0, BINS + 1).astype(np.int64)
        for j in range(d):
            counts[j] += np.bincount(bins[seen[:, j], j], minlength=BINS + 2)
    return Sums(counts)


# --- batches and filters ------------------------------------------------------------------------


def find_filter(name: str | None, trim: float) -> Callable[[FloatArray], FloatArray]:
    """One robust mean of many vectors, coordinate by coordinate: shape (..., n, 2) becomes (..., 2).

    None is the plain mean; "median" stays among the batches without outliers as long as they are the majority;
    "trimmed_mean" is the mean without the share ``trim`` of largest and of smallest values.
    """
    if name is None:
        return lambda vectors: np.asarray(vectors.mean(axis=-2))
    check_choice("filter", name, ("median", "trimmed_mean"))
    if name == "median":
        return lambda vectors: np.asarray(np.median(vectors, axis=-2))
    if not 0.0 <= trim < 0.5:
        raise InvalidParameterError(f"trim must be in [0, 0.5), the share cut off at each end; got {trim!r}.")

    def trimmed_mean(vectors: FloatArray) -> FloatArray:
        n = vectors.shape[-2]
        cut = int(trim * n)
        return np.asarray(np.sort(vectors, axis=-2)[..., cut : n - cut, :].mean(axis=-2))

    return trimmed_mean


def batch_means(sums: FloatArray) -> FloatArray:
    """(7): the mean of (x^2/2, -x) of every batch, n x 2, from (count, sum x, sum x^2/2)."""
    count, total, half_square = sums.T
    return np.stack([half_square / count, -total / count], axis=1)


def require_positives(
    column_sums: ColumnSums, fitted: BoolArray, names: Names, batches: int | None = None, batch_size: int = 1
) -> None:
    """Raise InvalidDataError where a fitted column lacks a value above the floor in a batch, or one whole batch."""
    short = fitted & (column_sums.above < (batches or batch_size))
    if short.any():
        where = listed(f"{column_label(int(j), names)} ({column_sums.above[j]})" for j in np.flatnonzero(short))
        what = f"one batch of batch_size={batch_size}" if batches is None else f"the {batches} batches"
        fewer = "smaller" if batches is None else "fewer"
        raise InvalidDataError(
            f"Fewer values above the floor than {what} in {where}. Take {fewer} batches or add rows."
        )


def warn_of_order(sums: FloatArray, batches: Counts, fitted: BoolArray, names: Names) -> None:
    """Warn where the order of the rows does not justify consecutive batches (``sums`` as of :func:`sum_batches`).

    The variance of the batches' means is compared with what shuffled rows would give, the variance within batches over
    their size. Consecutive batches are for a majority that agrees and a few that stand apart. Where none stands apart
    the order carries no information on outliers; where even the half that agrees best disagrees the rows are sorted or
    drift, and the median of the batches is no estimate of a mean.
    """
    apart, drifting, compared = False, np.zeros_like(fitted), False
    for j in np.flatnonzero(fitted & (batches >= _FEWEST_BATCHES)):
        count, total, half_square = sums[j, : batches[j]].T
        if count.min() < 2:
            continue
        compared = True
        mean = total / count
        within = np.maximum(2.0 * half_square / count - mean**2, 0.0) / (count - 1.0)  # of a mean, batch by batch
        apart |= bool(mean.var(ddof=1) > (1.0 + _APART * np.sqrt(2.0 / batches[j])) * within.mean())
        mean.sort()
        half = len(mean) // 2
        shortest = (mean[half:] - mean[: len(mean) - half]).min()  # of a normal: 1.349 standard deviations
        drifting[j] = shortest / 1.349 > _DRIFT * np.sqrt(np.median(within))
    if drifting.any():
        warn(
            f"Consecutive batches do not agree in {label_columns(drifting, names)}: the rows are sorted or drift, and"
            " the filtered batches are no estimate of a mean. Use order='scattered', or put the rows into the order in"
            " which they came.",
            "row-order",
        )
    elif compared and not apart:
        warn(
            "Consecutive batches resist outliers that are next to each other in the table, and the order of these rows"
            " gives no sign of that: batches differ no more than those of shuffled rows. If the order means nothing,"
            " use order='scattered'.",
            "row-order",
        )


# --- compiled loops -----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def draw_above(rng: np.random.Generator, low: float, mean: float, sd: float) -> float:
    """One draw of N(mean, sd^2) above ``low``: rejection from the normal, in the tail from an exponential (Robert)."""
    a = (low - mean) / sd
    if a < 0.45:
        u = rng.standard_normal()
        while u <= a:
            u = rng.standard_normal()
        return mean + sd * u
    rate = 0.5 * (a + math.sqrt(a * a + 4.0))
    while True:
        u = a - math.log(1.0 - rng.random()) / rate
        if rng.random() <= math.exp(-0.5 * (u - rate) * (u - rate)):
            return mean + sd * u


@njit(cache=True, nogil=True)
def truncated_moments(mu: float, sigma: float) -> tuple[float, float]:
    """Mean and mean square of N(mu, sigma^2) above 0 (Bulusu et al. 2022, (5) and (6))."""
    a = mu / sigma
    # phi(a)/Phi(a), by its expansion where both vanish
    if a > -30.0:
        ratio = math.exp(-0.5 * a * a) / math.sqrt(0.5 * math.pi) / math.erfc(-a / math.sqrt(2.0))
    else:
        ratio = -a + 1.0 / max(-a, 1.0)
    mean = mu + sigma * ratio
    variance = sigma * sigma * (1.0 - a * ratio - ratio * ratio)
    return mean, variance + mean * mean


@njit(cache=True, nogil=True)
def project(v: np.ndarray, radius: float) -> None:
    """Onto D_r = {1/r <= v(1) <= r, |v(2)| <= r} (Wu et al. 2019, (8); Bulusu et al. 2022, (10))."""
    v[0] = min(max(v[0], 1.0 / radius), radius)
    v[1] = min(max(v[1], -radius), radius)


@njit(cache=True, nogil=True)
def sampled_descent(
    sums: np.ndarray, low: float, step: float, radius: float, draws: int, rng: np.random.Generator, average: np.ndarray
) -> None:
    """Wu et al. 2019, Algorithm 3 (ProjSGD): a step a mini-batch, with ``draws`` fresh z a value; average of iterates.

    ``sums`` (T x 3) = (count, sum x, sum x^2/2) of the mini-batches; truncation at ``low``; steps 1/(step t).
    """
    v = np.array([1.0, 0.0])
    average[:] = 0.0
    taken = 0
    for k in range(sums.shape[0]):
        count = int(sums[k, 0])
        if count == 0:
            continue
        taken += 1
        mu = v[1] / v[0]
        sigma = math.sqrt(1.0 / v[0])
        z_sum = 0.0
        z_half_square = 0.0
        for _ in range(draws * count):
            z = draw_above(rng, low, mu, sigma)
            z_sum += z
            z_half_square += 0.5 * z * z
        size = 1.0 / (step * taken)
        v[0] -= size * (sums[k, 2] - z_half_square / draws) / count
        v[1] -= size * (z_sum / draws - sums[k, 1]) / count
        project(v, radius)
        average += v
    average /= taken


@njit(cache=True, nogil=True)
def closed_descent(gradients: np.ndarray, steps: int, step: float, radius: float, v: np.ndarray) -> None:
    """Bulusu et al. 2022, Algorithm 2 (ProjGD): v <- P(v - g/(step t)), g = filtered part + closed form; v becomes v_T.

    ``gradients`` (1 or T x 2) hold the filtered means of (x^2/2, -x): one for gradient descent, one a step for its
    stochastic version. The paper starts at v = (0, 0), outside the domain; we start at its projection.
    """
    v[:] = 0.0
    project(v, radius)
    for t in range(1, steps + 1):
        row = min(t, gradients.shape[0]) - 1
        mean, square = truncated_moments(v[1] / v[0], math.sqrt(1.0 / v[0]))
        size = 1.0 / (step * t)
        first = gradients[row, 0] - 0.5 * square
        second = gradients[row, 1] + mean
        v[0] -= size * first
        v[1] -= size * second
        project(v, radius)


@njit(cache=True, nogil=True)
def add_batch_sums(
    values: np.ndarray,
    floor: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    rank: np.ndarray,
    total: np.ndarray,
    batches: np.ndarray,
    multiplier: np.ndarray,
    shift: np.ndarray,
    chosen: np.ndarray,
    out: np.ndarray,
) -> None:
    """out[j, batch] += (1, t, t^2/2), t = (x - centre)/scale, for every x above the floor of column j.

    The k-th such value of a column, k = rank[j] (advanced here), goes to batch (place * batches) // total with
    place = (multiplier * k + shift) mod total: equal batches, in order of the rows for multiplier 1 and shift 0,
    scattered for a multiplier without common factor with the total. ``chosen`` (d x m, each row rising): the batches
    that are wanted, out[j, k] being that of chosen[j, k]; all of them where m is 0.
    """
    n, d = values.shape
    for i in range(n):
        for j in range(d):
            x = values[i, j]
            if x > floor[j]:
                place = (multiplier[j] * rank[j] + shift[j]) % total[j]
                rank[j] += 1
                batch = (place * batches[j]) // total[j]
                if chosen.shape[1] > 0:
                    wanted = batch
                    batch = np.searchsorted(chosen[j], wanted)
                    if batch == chosen.shape[1] or chosen[j, batch] != wanted:
                        continue
                t = (x - centre[j]) / scale[j]
                out[j, batch, 0] += 1.0
                out[j, batch, 1] += t
                out[j, batch, 2] += 0.5 * t * t
