"""Standard errors against the scatter of estimates, and the ways to them against each other."""

import numpy as np
import pytest

import unrelu
from unrelu import RectifiedGaussianLearner
from unrelu.likelihood import information

MODEL = unrelu.RectifiedGaussian([0.2, -0.3, 0.5, 0.0], 0.5 * np.eye(4) + 0.5)
UPPER = np.triu_indices(4, 1)


def fit(x, **options):
    return RectifiedGaussianLearner("full_likelihood", **options).fit(x)


@pytest.mark.parametrize("n_components", [None, 1])
def test_complete_rows_have_the_textbook_errors(n_components):
    y = np.random.default_rng(0).multivariate_normal(np.zeros(4), 0.5 * np.eye(4) + 0.5, size=4000)
    learner = fit(y, floor=None, n_components=n_components)
    scale = learner.row_norms_
    np.testing.assert_allclose(learner.bias_stderr_, scale / np.sqrt(4000), rtol=0.1)
    np.testing.assert_allclose(learner.row_norms_stderr_, scale / np.sqrt(8000), rtol=0.1)
    if n_components is None:
        expected = (1.0 - learner.correlation_[UPPER] ** 2) / np.sqrt(4000)
        np.testing.assert_allclose(learner.correlation_stderr_[UPPER], expected, rtol=0.1)
    else:  # six correlations from four loadings
        assert (learner.correlation_stderr_[UPPER] < 1.02 * 0.75 / np.sqrt(4000)).all()


def test_one_by_one_is_rather_too_wide(monkeypatch):
    x = MODEL.sample(2000, random_state=0)
    together = fit(x)
    monkeypatch.setattr(information, "MOST_OUTER", 0)
    alone = fit(x)
    for name in ("bias_stderr_", "row_norms_stderr_", "correlation_stderr_"):
        wide, near = (np.ravel(getattr(each, name)[UPPER] if name[0] == "c" else getattr(each, name)) for each in
                      (alone, together))  # fmt: skip
        assert ((wide > 0.9 * near) & (wide < 1.35 * near)).all()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"n_components": 1}])
def test_errors_are_those_of_repeated_tables(options):
    found = [fit(MODEL.sample(300, random_state=seed), **options) for seed in range(120)]
    for name, truth in (("bias", MODEL.bias), ("row_norms", np.ones(4))):
        z = [(getattr(each, f"{name}_") - truth) / getattr(each, f"{name}_stderr_") for each in found]
        assert 0.88 < np.sqrt(np.mean(np.square(z))) < 1.12
    z = [(each.correlation_ - 0.5)[UPPER] / each.correlation_stderr_[UPPER] for each in found]
    assert 0.88 < np.sqrt(np.mean(np.square(z))) < 1.12
