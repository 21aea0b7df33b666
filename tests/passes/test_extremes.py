import numpy as np

from unrelu.contracts import Block
from unrelu.passes.columns import extremes


def test_ends_and_how_often_they_occur_whatever_the_split():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, size=(3000, 3)).astype(float)
    x[:, 1] = np.nan
    x[0, 2], x[1, 2] = np.inf, -np.inf
    for cut in (1, 1500):
        found = extremes(Block(x[:cut])).merge(extremes(Block(x[cut:], cut)))
        finite = np.where(np.isfinite(x), x, np.nan)
        np.testing.assert_array_equal(found.ends[0], [0.0, np.inf, 0.0])
        np.testing.assert_array_equal(found.ends[1], [5.0, -np.inf, 5.0])
        np.testing.assert_array_equal(found.counts[0], (finite == 0.0).sum(axis=0))
        np.testing.assert_array_equal(found.counts[1], (finite == 5.0).sum(axis=0))
