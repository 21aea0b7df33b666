"""Tails that are heavier than a normal one's are named as such; bad cells and outlier rows are not taken for them."""

import warnings

import numpy as np
import pytest
from scipy.stats import norm, t

import unrelu
from tests.warned import refuse, warns
from unrelu import RectifiedGaussianLearner


def learn(x):
    return RectifiedGaussianLearner("robust_cells").fit(x)


@pytest.fixture
def normal():
    r = unrelu.synthetic.random_model(6, condition_number=10.0, random_state=1).correlation
    return np.random.default_rng(1).multivariate_normal(np.zeros(6), r, 3000)


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_they_are_named(normal, kind):
    wide = np.sqrt(5.0 / np.random.default_rng(0).chisquare(5.0, (3000, 1)))
    x = normal * wide if kind == "rows" else t.ppf(norm.cdf(normal), 5.0)
    with warns("tails-not-outliers", match="margins='monotone'"):
        learn(x + 100.0)


@pytest.mark.parametrize("kind", ["none", "+4", "-6 or +6", "N(0,9)", "rows"])
def test_bad_cells_and_rows_are_not_taken_for_them(normal, kind):
    rng = np.random.default_rng(0)
    bad, rows = rng.random(normal.shape) < 0.05, rng.random((3000, 1)) < 0.1
    x = {
        "none": normal,
        "+4": normal + 4.0 * bad,
        "-6 or +6": normal + 6.0 * bad * rng.choice([-1.0, 1.0], normal.shape),
        "N(0,9)": np.where(bad, rng.normal(0.0, 3.0, normal.shape), normal),
        "rows": np.where(rows, rng.normal(0.0, 5.0, normal.shape), normal),
    }[kind]
    with warnings.catch_warnings():
        refuse("tails-not-outliers")
        learn(x + 100.0)
