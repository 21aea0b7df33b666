from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from unrelu.contracts import Block
from unrelu.errors import InvalidParameterError
from unrelu.papers.batches import BINS, count_exceedances, count_in_bins, sum_batches, sum_columns

ZERO = np.zeros(2)


def table(n=257):
    x = np.maximum(np.random.default_rng(0).standard_normal((n, 2)) + 0.5, 0.0)
    x[5, 0] = np.nan
    return x


def ask(x, batches, block_rows=None, **options):
    question = partial(sum_columns, ZERO, (0.0, 0.0))
    cuts = range(0, len(x), block_rows or len(x))
    blocks = [Block(x[k : k + (block_rows or len(x))], k) for k in cuts]
    column_sums = question(blocks[0])
    for block in blocks[1:]:
        column_sums = column_sums.merge(question(block))
    means = partial(sum_batches, ZERO, ZERO, np.ones(2), column_sums, np.full(2, batches), **options)
    record = means(blocks[0])
    for block in blocks[1:]:
        record = record.merge(means(block))
    return column_sums, record.values


def test_tallied_is_that_of_the_values_above_the_floor():
    x = table()
    column_sums, _ = ask(x, 3, block_rows=50)
    for j in range(2):
        column = x[:, j]
        positive = column[column > 0]
        assert column_sums.above[j] == len(positive)
        assert column_sums.observed[j] == np.count_nonzero(~np.isnan(column))
        assert column_sums.mean[j] == pytest.approx(positive.mean(), rel=1e-12)
        assert column_sums.variance[j] == pytest.approx(positive.var(), rel=1e-12)


@pytest.mark.parametrize("scattered", [False, True])
def test_batches_are_equal_and_lose_nothing(scattered):
    x = table()
    column_sums, sums = ask(x, 7, scattered=scattered)
    for j in range(2):
        positive = x[:, j][x[:, j] > 0]
        assert np.ptp(sums[j, :, 0]) <= 1
        np.testing.assert_allclose(
            sums[j].sum(axis=0), [column_sums.above[j], positive.sum(), (positive**2).sum() / 2], rtol=1e-12
        )


def test_ordered_batches_follow_the_rows():
    x = table()
    _, sums = ask(x, 4)
    positive = x[:, 1][x[:, 1] > 0]
    edges = np.ceil(np.arange(5) * len(positive) / 4).astype(int)
    expected = [positive[a:b].sum() for a, b in pairwise(edges)]
    np.testing.assert_allclose(sums[1, :, 1], expected, rtol=1e-12)


def test_scattered_batches_spread_neighbours():
    """A run of outliers at the end must reach every batch, not fill a few."""
    x = np.ones((1000, 2))
    x[900:] = 50.0
    _, ordered = ask(x, 20)
    _, scattered = ask(x, 20, scattered=True, seed=3)
    assert np.count_nonzero(ordered[0, :, 1] > 60) == 2
    assert np.all((scattered[0, :, 1] > 150) & (scattered[0, :, 1] < 450))
    _, other = ask(x, 20, scattered=True, seed=4)
    assert not np.array_equal(scattered, other)


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("block_rows", [1, 10, 100])
def test_blocks_do_not_matter(scattered, block_rows):
    _, whole = ask(table(), 5, scattered=scattered)
    _, parts = ask(table(), 5, block_rows, scattered=scattered)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def test_weights_are_refused():
    with pytest.raises(InvalidParameterError, match="no row weights"):
        sum_columns(ZERO, (0.0, 0.0), Block(table(), 0, np.ones(257)))


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("block_rows", [10, 257])
def test_chosen_batches_are_those_of_all(scattered, block_rows):
    x = table()
    _, everything = ask(x, 40, scattered=scattered)
    chosen = np.array([[0, 7, 39, np.iinfo(np.int64).max], [1, 2, 3, 20]])
    _, some = ask(x, 40, block_rows, scattered=scattered, chosen=chosen)
    assert some.shape == (2, 4, 3)
    np.testing.assert_allclose(some[0, :3], everything[0, chosen[0, :3]], rtol=1e-12)
    np.testing.assert_allclose(some[1], everything[1, chosen[1]], rtol=1e-12)
    np.testing.assert_array_equal(some[0, 3], 0.0)  # no such batch: padding


def test_counts_are_exact_with_and_without_missing_values():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 5))
    thresholds = np.array([0.1, -0.2, 0.5, 0.0, 1.0])
    for holes in (False, True):
        if holes:
            x[rng.random(x.shape) < 0.1] = np.nan
        question = partial(count_exceedances, thresholds)
        record = question(Block(x[:1300])).merge(question(Block(x[1300:], 1300)))
        above = (x > thresholds).astype(float)
        seen = (~np.isnan(x)).astype(float)
        np.testing.assert_array_equal(record.values[0], above.T @ above)
        np.testing.assert_array_equal(record.values[1], seen.T @ seen)


def test_histogram_counts_every_observed_value_once():
    x = np.random.default_rng(1).standard_normal((2000, 2))
    x[::7, 0] = np.nan
    low, high = np.array([-1.0, 0.0]), np.array([1.0, 2.0])
    question = partial(count_in_bins, low, high)
    counts = question(Block(x[:500])).merge(question(Block(x[500:], 500))).values
    for j in range(2):
        column = x[~np.isnan(x[:, j]), j]
        inside, _ = np.histogram(column, bins=BINS, range=(low[j], high[j]))
        np.testing.assert_array_equal(counts[j, 1:-1], inside)
        assert (counts[j, 0], counts[j, -1]) == (np.sum(column < low[j]), np.sum(column > high[j]))
