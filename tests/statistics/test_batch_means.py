from itertools import pairwise

import numpy as np
import pytest

from unrelu.contracts import Block
from unrelu.errors import InvalidParameterError
from unrelu.statistics.batch_means import BatchMeansQuestion
from unrelu.statistics.column_tally import ColumnTallyQuestion

ZERO = np.zeros(2)


def table(n=257):
    x = np.maximum(np.random.default_rng(0).standard_normal((n, 2)) + 0.5, 0.0)
    x[5, 0] = np.nan
    return x


def ask(x, batches, block_rows=None, **options):
    question = ColumnTallyQuestion((0.0, 0.0), (0.0, 0.0))
    cuts = range(0, len(x), block_rows or len(x))
    blocks = [Block(x[k : k + (block_rows or len(x))], k) for k in cuts]
    tally = question(blocks[0])
    for block in blocks[1:]:
        tally = tally.merge(question(block))
    means = BatchMeansQuestion(ZERO, ZERO, np.ones(2), tally, np.full(2, batches), **options)
    record = means(blocks[0])
    for block in blocks[1:]:
        record = record.merge(means(block))
    return tally, record.sums


def test_tally_is_that_of_the_values_above_the_floor():
    x = table()
    tally, _ = ask(x, 3, block_rows=50)
    for j in range(2):
        column = x[:, j]
        positive = column[column > 0]
        assert tally.above[j] == len(positive)
        assert tally.observed[j] == np.count_nonzero(~np.isnan(column))
        assert tally.mean[j] == pytest.approx(positive.mean(), rel=1e-12)
        assert tally.variance[j] == pytest.approx(positive.var(), rel=1e-12)


@pytest.mark.parametrize("scattered", [False, True])
def test_batches_are_equal_and_lose_nothing(scattered):
    x = table()
    tally, sums = ask(x, 7, scattered=scattered)
    for j in range(2):
        positive = x[:, j][x[:, j] > 0]
        assert np.ptp(sums[j, :, 0]) <= 1
        np.testing.assert_allclose(
            sums[j].sum(axis=0), [tally.above[j], positive.sum(), (positive**2).sum() / 2], rtol=1e-12
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
        ColumnTallyQuestion((0.0, 0.0), (0.0, 0.0))(Block(table(), 0, np.ones(257)))


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
