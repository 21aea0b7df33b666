import numpy as np

from unrelu.contracts import Block
from unrelu.statistics.exceedances import ExceedancesQuestion
from unrelu.statistics.histogram import BINS, HistogramQuestion


def test_counts_are_exact_with_and_without_missing_values():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 5))
    thresholds = (0.1, -0.2, 0.5, 0.0, 1.0)
    for holes in (False, True):
        if holes:
            x[rng.random(x.shape) < 0.1] = np.nan
        question = ExceedancesQuestion(thresholds)
        record = question(Block(x[:1300])).merge(question(Block(x[1300:], 1300)))
        above = (x > np.array(thresholds)).astype(float)
        seen = (~np.isnan(x)).astype(float)
        np.testing.assert_array_equal(record.both, above.T @ above)
        np.testing.assert_array_equal(record.seen, seen.T @ seen)


def test_histogram_counts_every_observed_value_once():
    x = np.random.default_rng(1).standard_normal((2000, 2))
    x[::7, 0] = np.nan
    low, high = np.array([-1.0, 0.0]), np.array([1.0, 2.0])
    question = HistogramQuestion(low, high)
    counts = question(Block(x[:500])).merge(question(Block(x[500:], 500))).counts
    for j in range(2):
        column = x[~np.isnan(x[:, j]), j]
        inside, _ = np.histogram(column, bins=BINS, range=(low[j], high[j]))
        np.testing.assert_array_equal(counts[j, 1:-1], inside)
        assert (counts[j, 0], counts[j, -1]) == (np.sum(column < low[j]), np.sum(column > high[j]))
