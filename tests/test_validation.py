import warnings

import numpy as np

from tests.warned import kinds_of
from unrelu import RectifiedGaussianLearner


def test_warnings_point_at_the_users_line():
    x = np.abs(np.random.default_rng(0).normal(size=(50, 2)))
    x[:, 1] = 1.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RectifiedGaussianLearner().fit(x)
    assert kinds_of(caught) == ["constant-column"]
    assert caught[0].filename == __file__
