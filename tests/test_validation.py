import warnings

import numpy as np
import pytest

from unrelu import RectifiedGaussianLearner, validation
from unrelu.errors import ConstantColumnWarning, InvalidParameterError


def test_warnings_point_at_the_users_line():
    x = np.abs(np.random.default_rng(0).normal(size=(50, 2)))
    x[:, 1] = 1.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RectifiedGaussianLearner().fit(x)
    assert [w.category for w in caught] == [ConstantColumnWarning]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("floor", [[0.0, 1.0], [[0.0]], np.inf, "low", None, object()])
def test_floors_that_cannot_be(floor):
    with pytest.raises(InvalidParameterError, match="floor"):
        validation.floor_per_column(floor, 3)


def test_floor_is_one_per_column_and_a_copy():
    given = np.array([1.0, 2.0])
    floor = validation.floor_per_column(given, 2)
    floor[0] = 9.0
    assert given[0] == 1.0
    np.testing.assert_array_equal(validation.floor_per_column(3, 2), [3.0, 3.0])
