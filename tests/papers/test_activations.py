"""Footnote 2 of Wu et al. 2019: invertible activations are undone exactly, and what is left is a Gaussian."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from unrelu import RectifiedGaussianLearner
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.papers import undo_activation

FORWARD = {
    "leaky_relu": lambda y: np.where(y > 0.0, y, 0.2 * y),
    "elu": lambda y: np.where(y > 0.0, y, np.expm1(np.minimum(y, 0.0))),
    "softplus": lambda y: np.logaddexp(0.0, y),
    "sigmoid": expit,
    "tanh": np.tanh,
}


def latent(n: int = 3000) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]]) + [0.4, -1.1]


@pytest.mark.parametrize("name", FORWARD)
def test_what_was_activated_comes_back_and_is_learned_as_a_gaussian(name):
    y = latent()
    undone = undo_activation(FORWARD[name](y), name, slope=0.2)
    np.testing.assert_allclose(undone, y, rtol=1e-9, atol=1e-9)
    learner = RectifiedGaussianLearner(floor=None).fit(undone)
    np.testing.assert_allclose(learner.mean_, y.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(learner.covariance_, np.cov(y.T, bias=True), atol=1e-4)


def test_an_inverse_of_ones_own_and_missing_cells():
    y = latent(50)
    y[3, 1] = np.nan
    np.testing.assert_allclose(undo_activation(y**3, np.cbrt), y, rtol=1e-12)
    np.testing.assert_allclose(undo_activation(np.tanh(y), "tanh"), y, rtol=1e-9)


@pytest.mark.parametrize(
    ("x", "options", "error", "words"),
    [
        ([[0.5, 1.0]], {"activation": "sigmoid"}, InvalidDataError, r"1.0.* in row 0 of column 1 .*rounded"),
        ([[0.5], [-2.0]], {"activation": "tanh"}, InvalidDataError, "in row 1 of column 0"),
        ([[0.0]], {"activation": "softplus"}, InvalidDataError, "no value of the activation"),
        ([[1.0]], {"activation": "relu"}, InvalidParameterError, "has no inverse.*RectifiedGaussianLearner"),
        ([[1.0]], {"activation": "leaky"}, InvalidParameterError, "Did you mean 'leaky_relu'"),
        ([[1.0]], {"activation": 3}, InvalidParameterError, "a name or the inverse function"),
        ([[1.0]], {"slope": 0.0}, InvalidParameterError, "slope must be a finite number above 0"),
        ([[1.0]], {"activation": lambda x: x[0]}, InvalidParameterError, "The inverse gives shape"),
        ([1.0], {}, InvalidDataError, "must be a table"),
        ([["a"]], {}, InvalidDataError, "real numbers"),
    ],
)
def test_what_it_refuses(x, options, error, words):
    with pytest.raises(error, match=words):
        undo_activation(x, **options)
