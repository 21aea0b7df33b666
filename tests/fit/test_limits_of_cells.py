"""One pass over tables whose limits differ by cell, beside the likelihood maximized by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

from unrelu import RectifiedGaussianLearner, merge
from unrelu.contracts import Assumptions, Block, RowParameters
from unrelu.fit.columns import fit_columns
from unrelu.fit.limit_likelihood import log_between, score_series
from unrelu.fit.one_pass import fit_pairs
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion

Array = NDArray[Any]
_NO_FLOOR = (-np.inf, -np.inf)


def laboratories(
    n: int, seed: int, r: float = 0.6, d: int = 2, levels: tuple[float, ...] = (-0.6, 0.0, 0.6)
) -> tuple[Array, Array]:
    """Rows of correlated unit normals (mean .3, sd 1.5) of laboratories with limits of their own, and the limits."""
    rng = np.random.default_rng(seed)
    correlation = np.full((d, d), r) + (1.0 - r) * np.eye(d)
    y = 0.3 + 1.5 * rng.multivariate_normal(np.zeros(d), correlation, n)
    floor = np.array(levels)[rng.integers(0, len(levels), n)]
    floor = np.tile(floor[:, None], (1, d)) + 0.2 * np.arange(d)
    return np.maximum(y, floor), floor


def intervals(n: int, seed: int, r: float) -> Block:
    """Cells below 0 censored, those between .5 and 1 only known to lie there, those above 2 as "at least 2"."""
    rng = np.random.default_rng(seed)
    y = rng.multivariate_normal([0.3, 0.6], [[1.0, r], [r, 1.0]], n)
    marks = np.select([y < 0.0, (y > 0.5) & (y < 1.0), y > 2.0], [-1, 2, 1], 0).astype(np.int8)
    lower = np.select([marks == -1, marks == 2, marks == 1], [0.0, 0.5, 2.0], y)
    return Block(lower, censoring=marks, upper=np.where(marks == 2, 1.0, lower))


def fitted(block: Block) -> tuple[PairMoments, RowParameters, Any]:
    record = PairMomentsQuestion(_NO_FLOOR, _NO_FLOOR)(block)
    rows = fit_columns(record, Assumptions(_NO_FLOOR))
    return record, rows, fit_pairs(record, rows)


def ends_of(block: Block) -> tuple[Array, Array]:
    marks, upper = block.censoring, block.values if block.upper is None else block.upper
    assert marks is not None
    low = np.where(marks == -1, -np.inf, block.values)
    return low, np.where(marks == 1, np.inf, np.where(marks == -1, block.values, upper))


def column_log_likelihood(theta: Array, low: Array, high: Array, seen: Array) -> float:
    mean, sd = theta[0], np.exp(theta[1])
    own = norm.logpdf(low[seen], mean, sd).sum()
    return float(own + np.log(norm.cdf(high[~seen], mean, sd) - norm.cdf(low[~seen], mean, sd)).sum())


def pair_log_likelihood(r: float, rows: RowParameters, block: Block) -> float:
    """Of every row by itself, its rectangles by SciPy's bivariate distribution."""
    marks = block.censoring
    assert marks is not None
    low, high = ((end - rows.mean) / rows.std for end in ends_of(block))
    q, total = np.sqrt(1.0 - r * r), 0.0
    both = (marks == 0).all(axis=1)
    total += multivariate_normal.logpdf(low[both], [0.0, 0.0], [[1.0, r], [r, 1.0]]).sum()
    for i, j in ((0, 1), (1, 0)):
        one = (marks[:, i] == 0) & (marks[:, j] != 0)
        u = low[one, i]
        total += np.log(norm.cdf((high[one, j] - r * u) / q) - norm.cdf((low[one, j] - r * u) / q)).sum()
    none = (marks != 0).all(axis=1)
    corners = np.concatenate([low[none], high[none]], axis=1)
    kinds, counts = np.unique(corners, axis=0, return_counts=True)
    cdf = multivariate_normal([0.0, 0.0], [[1.0, r], [r, 1.0]]).cdf
    for (a, b, c, d), count in zip(np.clip(kinds, -9.0, 9.0), counts, strict=True):
        total += count * np.log(cdf([c, d]) - cdf([a, d]) - cdf([c, b]) + cdf([a, b]))
    return float(total)


@pytest.mark.parametrize("kind", ["limits", "intervals"])
def test_columns_have_the_most_likely_mean_and_standard_deviation(kind: str) -> None:
    if kind == "limits":
        x, floor = laboratories(400, 1)
        block = Block(x, censoring=-(x <= floor).astype(np.int8))
    else:
        block = intervals(400, 1, 0.5)
    _, rows, _ = fitted(block)
    low, high = ends_of(block)
    assert block.censoring is not None
    for j in range(2):
        seen = block.censoring[:, j] == 0

        def loss(theta: Array, at: int = j, seen: Array = seen) -> float:
            return -column_log_likelihood(theta, low[:, at], high[:, at], seen)

        best = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9, "maxiter": 4000})
        assert rows.mean[j] == pytest.approx(best.x[0], abs=1e-6)
        assert rows.std[j] == pytest.approx(np.exp(best.x[1]), abs=1e-6)
        # Its errors are those of the curvature.
        step = 1e-4
        shifts = step * np.eye(2)
        bend = np.empty((2, 2))
        for a in range(2):
            for b in range(2):
                corners = [loss(best.x + s * shifts[a] + t * shifts[b]) * s * t for s in (1, -1) for t in (1, -1)]
                bend[a, b] = sum(corners) / (4.0 * step**2)
        spread = np.linalg.inv(bend)
        assert rows.mean_std_covariance[j, 0, 0] == pytest.approx(spread[0, 0], rel=1e-3)
        assert rows.mean_std_covariance[j, 1, 1] == pytest.approx(spread[1, 1] * rows.std[j] ** 2, rel=1e-3)


def test_values_that_are_all_the_same_have_the_spread_that_limits_tell() -> None:
    """Half of the cells are 5, the others below limits far from it: the maximum by brute force, and finite errors."""
    rng = np.random.default_rng(2)
    floor = np.array([0.3, 0.6, 1.2])[rng.integers(0, 3, (200, 2))]
    x = np.where(rng.random((200, 2)) < 0.5, floor, 5.0)
    block = Block(x, censoring=-(x <= floor).astype(np.int8))
    _, rows, _ = fitted(block)
    (low, high), seen = ends_of(block), x[:, 0] > floor[:, 0]
    best = minimize(
        lambda theta: -column_log_likelihood(theta, low[:, 0], high[:, 0], seen),
        [3.0, 1.0],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-9, "maxiter": 4000},
    )
    assert rows.mean[0] == pytest.approx(best.x[0], abs=1e-5)
    assert rows.std[0] == pytest.approx(np.exp(best.x[1]), abs=1e-5)
    assert np.isfinite(rows.mean_std_covariance).all()


@pytest.mark.parametrize("r", [-0.8, 0.0, 0.5, 0.95])
@pytest.mark.parametrize("kind", ["limits", "intervals"])
def test_correlations_are_those_of_the_likelihood_of_the_pair(kind: str, r: float) -> None:
    """The projection loses at most 4 % of the information: estimates differ by a fifth of a standard error."""
    if kind == "limits":
        x, floor = laboratories(2000, 3, r)
        block = Block(x, censoring=-(x <= floor).astype(np.int8))
    else:
        block = intervals(2000, 3, r)
    _, rows, pairs = fitted(block)
    found, stderr = pairs.correlation[0, 1], pairs.stderr[0, 1]
    grid = np.tanh(np.arctanh(found) + np.linspace(-0.3, 0.3, 7) * stderr / (1.0 - found**2))
    levels = [pair_log_likelihood(each, rows, block) + 0.5 * np.log(1.0 - each**2) for each in grid]
    curve = np.polynomial.Polynomial.fit(grid, levels, 2)
    most_likely = float(curve.deriv().roots().real[0])
    assert abs(found - most_likely) < 0.2 * stderr


def test_standard_errors_are_the_scatter_over_tables() -> None:
    """Mean squares of (estimate - truth)/error, whose own error over 200 tables is sqrt(2/200) = .1."""
    scores = []
    for seed in range(200):
        x, floor = laboratories(300, 1000 + seed, 0.7)
        learner = RectifiedGaussianLearner("one_pass", floor=floor, margins="normal").fit(x)
        scores.append(
            [
                (learner.mean_[0] - 0.3) / learner.mean_stderr_[0],
                (learner.std_[0] - 1.5) / learner.std_stderr_[0],
                (learner.correlation_[0, 1] - 0.7) / learner.correlation_stderr_[0, 1],
            ]
        )
    np.testing.assert_allclose(np.mean(np.square(scores), axis=0), 1.0, atol=3.0 * np.sqrt(2.0 / 200))


def test_one_limit_in_all_rows_gives_what_a_floor_gives() -> None:
    """Marks and a floor are two doors to one answer: columns to rounding, pairs by two equations of the same model."""
    x, _ = laboratories(3000, 5, levels=(0.0,))
    marked = Block(x, censoring=-(x <= np.array([0.0, 0.2])).astype(np.int8))
    record, rows, pairs = fitted(marked)
    floor = RectifiedGaussianLearner("one_pass", floor=[0.0, 0.2], margins="normal").fit(x)
    np.testing.assert_allclose(rows.mean, floor.mean_, rtol=1e-8)
    np.testing.assert_allclose(rows.std, floor.std_, rtol=1e-8)
    assert abs(pairs.correlation[0, 1] - floor.correlation_[0, 1]) < 0.2 * pairs.stderr[0, 1]
    assert pairs.stderr[0, 1] == pytest.approx(floor.correlation_stderr_[0, 1], rel=0.05)
    assert record.limits is not None
    assert len(record.limits.column) == 2


def test_a_record_does_not_depend_on_how_rows_are_split_or_weighted() -> None:
    x, floor = laboratories(900, 7, d=3)
    x[::11, 1] = np.nan
    marks = -(x <= floor).astype(np.int8)
    weights = np.random.default_rng(0).integers(1, 4, len(x)).astype(float)
    levels = (-np.inf,) * 3
    question = PairMomentsQuestion(levels, levels)
    whole = question(Block(x, weights=weights, censoring=marks))
    parts = [
        question(Block(x[rows], rows.start, weights[rows], censoring=marks[rows]))
        for rows in (slice(0, 100), slice(100, 650), slice(650, 900))
    ]
    joined = parts[0].merge(parts[1]).merge(parts[2])
    again = np.repeat(np.arange(len(x)), weights.astype(int))
    repeated = question(Block(x[again], censoring=marks[again]))
    for other in (joined, repeated):
        rows, others = (fit_columns(each, Assumptions(levels)) for each in (whole, other))
        np.testing.assert_allclose(others.mean, rows.mean, rtol=1e-9)
        np.testing.assert_allclose(others.std, rows.std, rtol=1e-9)
        np.testing.assert_allclose(fit_pairs(other, others).correlation, fit_pairs(whole, rows).correlation, atol=1e-8)


def test_limits_of_one_part_alone_count_when_records_join() -> None:
    """Laboratories whose files are read one by one: their limits are joined by their numbers."""
    x, floor = laboratories(900, 9)
    marks = -(x <= floor).astype(np.int8)
    question = PairMomentsQuestion(_NO_FLOOR, _NO_FLOOR)
    order = np.argsort(floor[:, 0], kind="stable")
    whole = question(Block(x, censoring=marks))
    parts = [question(Block(x[at], censoring=marks[at])) for at in np.split(order, [200, 500])]
    joined = parts[0].merge(parts[1]).merge(parts[2])
    assert joined.limits is not None
    assert whole.limits is not None
    assert sorted(joined.limits.intervals) == sorted(whole.limits.intervals)
    rows, others = (fit_columns(each, Assumptions(_NO_FLOOR)) for each in (whole, joined))
    np.testing.assert_allclose(others.mean, rows.mean, rtol=1e-9)
    np.testing.assert_allclose(fit_pairs(joined, others).correlation, fit_pairs(whole, rows).correlation, atol=1e-8)


def test_series_of_scores_tell_their_covariance() -> None:
    """Mehler's sum beside a simulation of the columns' own scores."""
    n, r = 400_000, 0.7
    x, floor = laboratories(n, 11, r)
    marks = -(x <= floor).astype(np.int8)
    record = PairMomentsQuestion(_NO_FLOOR, _NO_FLOOR)(Block(x, censoring=marks))
    rows = fit_columns(record, Assumptions(_NO_FLOOR))
    assert record.limits is not None
    series = score_series(rows, record.limits, record.column_weight)
    told = np.einsum("ap,bp,p->ab", series[0], series[1], r ** np.arange(1.0, series.shape[2] + 1.0))
    u = (x - rows.mean) / rows.std
    tail = -np.exp(norm.logpdf(u) - norm.logcdf(u))
    scores = np.where(marks[:, :, None] == 0, np.stack([u, u * u - 1.0], axis=2), np.stack([tail, u * tail], axis=2))
    seen = scores[:, 0].T @ scores[:, 1] / n
    # Laboratories share their limits over columns, which the series takes for independent: 3 % of the variances.
    np.testing.assert_allclose(told, seen, atol=0.03 * 2.0 + 4.0 * 3.0 / np.sqrt(n))


def test_learners_of_laboratories_join() -> None:
    x, floor = laboratories(900, 13)
    options: dict[str, Any] = {"method": "one_pass", "margins": "normal"}
    whole = RectifiedGaussianLearner(floor=floor, **options).fit(x)
    parts = [RectifiedGaussianLearner(floor=floor[at], **options).fit(x[at]) for at in (slice(0, 300), slice(300, 900))]
    joined = merge(parts)
    np.testing.assert_allclose(joined.covariance_, whole.covariance_, rtol=1e-8)


def test_probabilities_of_intervals_keep_their_digits_in_both_tails() -> None:
    low, high = np.array([-40.0, 8.0, -9.0, -1.0]), np.array([-39.0, 9.0, -8.0, 2.0])
    told = log_between(low, high)
    assert told[1] == pytest.approx(told[2], rel=1e-14)
    assert told[3] == pytest.approx(np.log(norm.cdf(2.0) - norm.cdf(-1.0)), rel=1e-14)
    assert told[0] == pytest.approx(norm.logcdf(-39.0), rel=1e-6)
