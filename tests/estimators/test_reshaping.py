"""Margins that robust methods learn of the rows and cells that they keep."""

import numpy as np
import pytest
from scipy.special import gammaincinv, ndtr

from tests.warned import warns
from unrelu import FloorOutlierDetector, RectifiedGaussianLearner
from unrelu.estimators.fits import keeping
from unrelu.margins import BoxCox, Log, Monotone, Normal
from unrelu.tables.prepared import Columns

PAIRS = np.triu_indices(4, 1)
LAWS = {
    "log": np.exp,
    "log, narrow": lambda z: np.exp(0.5 * z),
    "normal": lambda z: 5.0 + z,
    "gamma": lambda z: gammaincinv(2.0, ndtr(z)),
}


def latent(n, seed=0):
    """Four columns, all correlations .5."""
    rng = np.random.default_rng([seed, n, 0])
    return rng, np.sqrt(0.5) * (rng.standard_normal((n, 4)) + rng.standard_normal((n, 1)))


def positive(distributions, n, share, alternate=False):
    """(rows, number of outliers): columns of these distributions, and a share of the rows six standard deviations
    off, in every column or in every other."""
    rng, z = latent(n)
    x = np.column_stack([LAWS[distribution](column) for distribution, column in zip(distributions, z.T, strict=True)])
    k = int(share * n)
    far = x.mean(axis=0) + x.std(axis=0) * (6.0 + (0.5 if alternate else 1.0) * rng.standard_normal((k, 4)))
    x[:k] = np.where(np.arange(4) % 2 == 1, far, x[:k]) if alternate else far
    return x, k


@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
@pytest.mark.parametrize(
    ("estimator", "distributions", "n", "share", "alternate"),
    [
        (RectifiedGaussianLearner, tuple(LAWS), 600, 0.25, False),
        (RectifiedGaussianLearner, ("gamma",) * 4, 400, 0.1, True),
        pytest.param(FloorOutlierDetector, tuple(LAWS), 600, 0.25, False, marks=pytest.mark.slow),
        pytest.param(RectifiedGaussianLearner, ("gamma",) * 4, 1000, 0.1, False, marks=pytest.mark.slow),
        pytest.param(RectifiedGaussianLearner, ("normal",) * 4, 1000, 0.1, False, marks=pytest.mark.slow),
        # other starts are tried on a part of the rows
        pytest.param(RectifiedGaussianLearner, tuple(LAWS), 3000, 0.1, False, marks=pytest.mark.slow),
    ],
)
def test_bent_exponents_do_not_make_outliers_of_tails(estimator, distributions, n, share, alternate):
    x, k = positive(distributions, n, share, alternate)
    found = estimator("robust").fit(x)
    left_out = found.row_weights_ < 0.5
    assert left_out[:k].mean() > 0.95
    assert left_out[k:].mean() < 0.01
    error = (1.0 - 0.5**2) / np.sqrt(n - k)
    assert np.abs(found.distribution_.correlation[PAIRS] - 0.5).max() < 4.0 * error


@pytest.mark.parametrize("distribution", LAWS)
def test_clean_positive_columns_keep_their_rows(distribution):
    x, _ = positive((distribution,) * 4, 800, 0.0)
    found = RectifiedGaussianLearner("robust", floor=None).fit(x)
    assert np.mean(found.row_weights_ < 0.5) < 0.01
    assert np.abs(found.correlation_[PAIRS] - 0.5).max() < 4.0 * 0.75 / np.sqrt(800)


@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
@pytest.mark.parametrize("distribution", ["rectified", "log, narrow"])
def test_a_column_that_is_half_bad_is_named_and_keeps_its_shape(distribution):
    _, z = latent(1000)
    x = np.maximum(z + 1.0, 0.0) if distribution == "rectified" else LAWS[distribution](z)
    x[:450, 1] += 8.0 * x[:, 1].std()
    learner = RectifiedGaussianLearner("robust_cells")
    with warns("many-bad-cells", match="In column 1"):
        learner.fit(x)
    assert all(margins.kind != "monotone" for margins in learner.margins_ or ())
    assert np.abs(learner.correlation_[0, 2:] - 0.5).max() < 4.0 * 0.75 / np.sqrt(1000) / 0.8  # with some at the floor


def test_columns_keep_margins_and_floors_of_before():
    free = Monotone(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    ceiling = np.array([np.inf, np.inf, 9.0])
    before = Columns(np.array([1.0, 0.0, -np.inf]), ceiling)
    found = Columns(np.array([1.0, -np.inf, -np.inf]), ceiling, margins=(free, BoxCox(0.5), Log()))
    kept = keeping(found, before, (0, 1))
    assert kept.margins == (Normal(), Normal(), Log())
    np.testing.assert_array_equal(kept.floor, before.floor)
    assert keeping(found, before, ()) is found
    assert keeping(found, before, (0, 1, 2)).margins is None
