"""n_components="auto": as many factors as there are."""

import numpy as np
import pytest

import unrelu
from unrelu.contracts import Block
from unrelu.fit.likelihood.maximizing import Fold


@pytest.mark.parametrize("k", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_finds_the_factors_that_there_are(k):
    rng = np.random.default_rng(k)
    weights = rng.standard_normal((8, k))
    model = unrelu.RectifiedGaussian(np.full(8, 0.2), weights @ weights.T + 0.5 * np.eye(8))
    learner = unrelu.RectifiedGaussianLearner("full_likelihood", n_components="auto")
    assert learner.fit(model.sample(800, random_state=3)).report_.n_components == k


def test_folds_are_dealt_by_the_row_alone():
    folds = [Fold(index, 3, True) for index in range(3)]
    whole = np.array([fold.of(Block(np.zeros((3000, 1)))) for fold in folds])
    np.testing.assert_array_equal(whole.sum(axis=0), 1)
    assert whole.mean(axis=1) == pytest.approx(1 / 3, abs=0.01)
    part = folds[1].of(Block(np.zeros((500, 1)), first_row=700))
    np.testing.assert_array_equal(part, whole[1, 700:1200])
    np.testing.assert_array_equal(Fold(1, 3, False).of(Block(np.zeros((3000, 1)))), ~whole[1])
