"""Standard errors against the scatter of estimates, and the ways to them against each other."""

import warnings

import numpy as np
import pytest

import unrelu
from tests.references import full_likelihood as exact
from unrelu import RectifiedGaussianLearner
from unrelu.errors import AssumptionWarning
from unrelu.fit.likelihood import learning as information
from unrelu.fit.likelihood import maximizing as curvature

MODEL = unrelu.RectifiedGaussian([0.2, -0.3, 0.5, 0.0], 0.5 * np.eye(4) + 0.5)
UPPER = np.triu_indices(4, 1)


def fit(x, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)  # of columns that are not normal
        return RectifiedGaussianLearner("full_likelihood", margins="normal", **options).fit(x)


def errors(learner):
    """Of means, scales and correlations, each as one array."""
    upper = np.triu_indices(len(learner.mean_), 1)
    return learner.mean_stderr_, learner.std_stderr_, learner.correlation_stderr_[upper]


def contaminated(n, d, seed=0):
    """Correlations of .5; one row in ten has three times the spread."""
    rng = np.random.default_rng(seed)
    y = np.sqrt(0.5) * (rng.standard_normal((n, 1)) + rng.standard_normal((n, d)))
    return np.maximum(y * np.where(rng.random((n, 1)) < 0.1, 3.0, 1.0), 0.0)


@pytest.mark.parametrize("n_components", [None, 1])
def test_complete_rows_have_the_textbook_errors(n_components):
    y = np.random.default_rng(0).multivariate_normal(np.zeros(4), 0.5 * np.eye(4) + 0.5, size=4000)
    learner = fit(y, floor=None, n_components=n_components)
    scale = learner.std_
    np.testing.assert_allclose(learner.mean_stderr_, scale / np.sqrt(4000), rtol=0.1)
    np.testing.assert_allclose(learner.std_stderr_, scale / np.sqrt(8000), rtol=0.1)
    if n_components is None:
        expected = (1.0 - learner.correlation_[UPPER] ** 2) / np.sqrt(4000)
        np.testing.assert_allclose(learner.correlation_stderr_[UPPER], expected, rtol=0.1)
    else:  # six correlations from four loadings
        assert (learner.correlation_stderr_[UPPER] < 1.02 * 0.75 / np.sqrt(4000)).all()


def test_errors_are_the_exact_sandwich(monkeypatch):
    for name in ("_OF_MEAN", "_OF_STD", "_OF_HIDDEN"):
        monkeypatch.setattr(information, name, 0.0)
    x = contaminated(150, 2, seed=1)
    x[::7, 0] = np.nan
    learner, marks = fit(x), np.where(x == 0.0, -1, 0)
    best, inverse = exact.maximum(x, marks, exact.parameters(learner.mean_, learner.covariance_))
    trusting = np.sqrt(np.diagonal(inverse))
    wanted = np.sqrt(np.diagonal(exact.sandwich(x, marks, best, inverse)))
    r = learner.correlation_[0, 1]
    mean, scale, pair = errors(learner)
    found = np.concatenate([mean, scale / learner.std_, pair / (1.0 - r**2)])
    np.testing.assert_allclose(found, wanted, rtol=0.03)  # a prior of one row, and differences
    assert (wanted[2:4] > 1.3 * trusting[2:4]).all()


@pytest.mark.parametrize("n_components", [None, 1])
def test_heavy_tails_have_the_errors_of_a_bootstrap(n_components):
    x = contaminated(400, 3)
    rng = np.random.default_rng(1)
    again = [fit(x[rng.integers(400, size=400)], n_components=n_components) for _ in range(40)]
    upper = np.triu_indices(3, 1)
    scatter = [
        np.std(values, axis=0)
        for values in (
            [each.mean_ for each in again],
            [each.std_ for each in again],
            [each.correlation_[upper] for each in again],
        )
    ]
    for found, wanted in zip(errors(fit(x, n_components=n_components)), scatter, strict=True):
        # 40 draws know a spread to 11 %, and columns hardly differ; outer products alone give .45 for scales.
        assert np.sqrt(np.mean(found**2) / np.mean(wanted**2)) == pytest.approx(1.0, abs=0.27)


def test_other_ways_are_wide_enough(monkeypatch):
    """Without a pass for every parameter, and without outer products: tails are heeded, and nothing is too narrow."""
    for x, most in ((MODEL.sample(2000, random_state=0), 1.35), (contaminated(2000, 4), 1.6)):
        together = errors(fit(x))
        with monkeypatch.context() as patched:
            patched.setattr(curvature, "_MOST_COORDINATES", 0)
            from_scores = errors(fit(x))
            for module in (curvature, information):
                patched.setattr(module, "MOST_OUTER", 0)
            alone = errors(fit(x))
        for near, scores, wide in zip(together, from_scores, alone, strict=True):
            assert ((scores > 0.85 * near) & (scores < 1.35 * near)).all()
            assert ((wide > 0.9 * near) & (wide < most * near)).all()


def test_weights_count_as_effective_rows():
    x = MODEL.sample(1000, random_state=0)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, 1000)
    with_weights = RectifiedGaussianLearner("full_likelihood", margins="normal").fit(x, sample_weight=weights)
    wider = np.sqrt(1000 / with_weights.report_.effective_rows)
    for found, plain in zip(errors(with_weights), errors(fit(x)), strict=True):
        assert np.mean(found / plain) == pytest.approx(wider, rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"n_components": 1}])
def test_errors_are_those_of_repeated_tables(options):
    found = [fit(MODEL.sample(300, random_state=seed), **options) for seed in range(200)]
    for name, truth in (("mean", MODEL.mean), ("std", np.ones(4))):
        z = [(getattr(each, f"{name}_") - truth) / getattr(each, f"{name}_stderr_") for each in found]
        assert 0.92 < np.sqrt(np.mean(np.square(z))) < 1.1
    z = [(each.correlation_ - 0.5)[UPPER] / each.correlation_stderr_[UPPER] for each in found]
    assert 0.92 < np.sqrt(np.mean(np.square(z))) < 1.1
