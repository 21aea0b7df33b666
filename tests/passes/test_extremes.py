import numpy as np

from unrelu.contracts import Block
from unrelu.passes.columns import ExtremesQuestion


def test_ends_and_how_often_they_occur_whatever_the_split():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, size=(3000, 3)).astype(float)
    x[:, 1] = np.nan
    x[0, 2], x[1, 2] = np.inf, -np.inf
    ask = ExtremesQuestion()
    for cut in (1, 1500):
        found = ask(Block(x[:cut])).merge(ask(Block(x[cut:], cut)))
        finite = np.where(np.isfinite(x), x, np.nan)
        np.testing.assert_array_equal(found.smallest, [0.0, np.inf, 0.0])
        np.testing.assert_array_equal(found.largest, [5.0, -np.inf, 5.0])
        np.testing.assert_array_equal(found.smallest_count, (finite == 0.0).sum(axis=0))
        np.testing.assert_array_equal(found.largest_count, (finite == 5.0).sum(axis=0))
