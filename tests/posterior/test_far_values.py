"""Rows of any size: unit mistakes, 1e5 standard deviations, 1e300."""

import warnings
from functools import cache

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.special import log_ndtr

from tests.warned import kinds_of, refuse, warns
from unrelu import FloorImputer, FloorOutlierDetector, RectifiedGaussian, RectifiedGaussianLearner
from unrelu.errors import InvalidDataError, UnreluWarning
from unrelu.estimators import RectifiedGaussianMixture
from unrelu.margins import BoxCox, Log, Monotone, Normal, Seen
from unrelu.posterior.density import Density
from unrelu.synthetic import random_model

SIZES = (1e5, 1e7, 1e20, 1e100, 1e153, 1e200, 1e300)
PAIR = RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]], feature_names=["As", "Pb"])


def correlated(seed, d):
    w = np.random.default_rng(seed).normal(size=(d, d))
    s = w @ w.T + 0.2 * np.eye(d)
    scale = np.sqrt(np.diagonal(s))
    return s / np.outer(scale, scale)


def shaped_model(seed):
    """A model with columns of every margin, some with a ceiling."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 8))
    covariance = correlated(seed, d) * (1.0 + rng.random())
    if seed % 5 == 0:
        covariance = np.outer(*[np.diagonal(covariance) ** 0.5] * 2)  # singular
    mean, floor, margins = rng.normal(size=d), np.zeros(d), []
    for j in range(d):
        kind = rng.integers(4)
        if kind == 0:
            floor[j] = np.exp(mean[j] - 0.3)
            margins.append(Log(Seen(floor[j], float(np.exp(mean[j] + 4.0)))))
        elif kind == 1:
            floor[j] = 0.5
            margins.append(BoxCox(float(rng.choice([0.0, 0.3, 1.0, 2.0])), seen=Seen(0.5, 40.0)))
        elif kind == 2:
            values = np.sort(rng.exponential(size=20))
            floor[j] = values[4]
            margins.append(Monotone(values, np.linspace(mean[j] - 3.0, mean[j] + 3.0, 20)))
        else:
            margins.append(Normal())
    ceiling = np.full(d, np.inf)
    if seed % 3 == 0:
        floor[0], ceiling[0] = -np.inf, 5.0
    return RectifiedGaussian(mean, covariance, floor, ceiling=ceiling, margins=margins if seed % 2 else None)


def gross_rows(model, seed):
    """Rows of the model with missing cells, and gross ones on the side that is seen."""
    rng = np.random.default_rng(seed)
    x = model.sample(12, random_state=seed)
    x[rng.random(x.shape) < 0.2] = np.nan
    for _ in range(10):
        i, j = rng.integers(12), rng.integers(model.n_features)
        x[i, j] = rng.choice(SIZES) * (1.0 if model.ceiling[j] == np.inf else -1.0)
    return x


@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
@pytest.mark.parametrize("seed", range(12))
def test_every_answer_is_a_number(seed):
    model = shaped_model(seed)
    x, d = gross_rows(model, seed), model.n_features
    hidden = np.isnan(x) | (x <= model.floor) | (x >= model.ceiling)
    densities = model.log_prob(x)
    assert np.isfinite(densities).all()
    assert (densities < 1e3).all()
    filled, std = model.impute(x, return_std=True)
    completed = [filled, std, model.impute(x, quantile=0.9), *model.sample_latent(x, 2, random_state=0)]
    for each in completed:
        assert np.isfinite(each).all()
    for each in (completed[0], *completed[2:]):
        np.testing.assert_array_equal(each[~hidden], x[~hidden])
        low, high = x <= model.floor, x >= model.ceiling
        assert (each <= np.where(low, model.floor, np.inf)).all()
        assert (each >= np.where(high, model.ceiling, -np.inf)).all()
    assert np.isfinite(model.outlier_score(x)).all()
    np.testing.assert_array_equal(np.isfinite(model.cell_outlier_score(x)), ~np.isnan(x))
    for whole in (False, True):
        found = model.predict(x, 0, hidden=whole)
        for numbers in (found.mean, found.std, found.quantiles, found.probability_floored):
            assert np.isfinite(numbers).all()
    given = model.condition({d - 1: 1e200 if model.ceiling[d - 1] == np.inf else -1e200})
    assert np.isfinite(given.mean).all()
    detector, imputer = FloorOutlierDetector.from_model(model), FloorImputer.from_model(model)
    assert np.isfinite(detector.score_samples(x)).all()
    assert np.isfinite(detector.p_values(x)).all()
    for cells in (detector.cell_outlier_score(x), detector.cell_probabilities(x)):
        np.testing.assert_array_equal(np.isfinite(cells), ~np.isnan(x))
    np.testing.assert_array_equal(imputer.transform(x)[~hidden], x[~hidden])
    assert np.isfinite(imputer.draw(x, random_state=0)).all()


@pytest.mark.filterwarnings("ignore::unrelu.errors.DataWarning")
@pytest.mark.parametrize("u", [1e3, 1e5, 1e6])
def test_one_floored_cell_beside_a_gross_one_is_exact(u):
    far = -0.6 * u / 0.8
    exact = -0.5 * (u * u + np.log(2.0 * np.pi)) + log_ndtr(far)
    np.testing.assert_allclose(PAIR.log_prob([[0.0, u]]), [exact], rtol=1e-7)  # the ridge
    # The truncated normal far out: an exponential of mean 1/|far| below the floor.
    filled, std = PAIR.impute([[0.0, u]], return_std=True)
    np.testing.assert_allclose([filled[0, 0], std[0, 0]], [0.8 / far, -0.8 / far], rtol=2.0 * u**-0.5)


@pytest.mark.filterwarnings("ignore::unrelu.errors.DataWarning")
@pytest.mark.parametrize("seed", range(8))
def test_many_floored_cells_beside_a_gross_one(seed):
    """Far out the posterior is its most likely point, and the log probability its squared distance."""
    d, u = 3 + seed % 4, 10.0 ** (3 + seed % 4)
    r = correlated(seed, d)
    x = np.zeros((1, d))
    x[0, 0] = u
    mean, covariance = r[1:, 0] * u, r[1:, 1:] - np.outer(r[1:, 0], r[1:, 0])
    root = np.linalg.cholesky(np.linalg.inv(covariance)).T
    below, distance = nnls(root, -root @ mean)
    model = RectifiedGaussian(np.zeros(d), r)
    np.testing.assert_allclose(model.log_prob(x), [-0.5 * (u * u + distance**2)], rtol=1e-3)
    np.testing.assert_allclose(model.impute(x)[0, 1:], -below, atol=1e-3 * u)


@pytest.mark.filterwarnings("ignore::unrelu.errors.DataWarning")
def test_densities_fall_as_rows_go_further():
    rows = np.column_stack([np.zeros(40), np.logspace(0.0, 110.0, 40)])
    for densities in (PAIR.log_prob(rows), -PAIR.outlier_score(rows)):
        assert (np.diff(densities) < 0.0).all()
    assert PAIR.log_prob(rows)[-1] < -1e219


def test_factors_give_what_correlations_give():
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(6, 2))
    loadings /= np.sqrt(1.0 + np.sum(loadings**2, axis=1, keepdims=True))
    r = loadings @ loadings.T
    np.fill_diagonal(r, 1.0)
    values = np.maximum(rng.normal(size=(30, 6)), 0.0)
    values[np.arange(21), np.arange(21) % 6] = np.repeat(SIZES, 3)
    parts = np.zeros(6), np.ones(6), r, np.zeros(6)
    distributions = Density(*parts), Density(*parts, loadings)
    whole, factors = (distribution.log_density(values, converged=False) for distribution in distributions)
    np.testing.assert_allclose(factors, whole, rtol=1e-5)
    whole, factors = (distribution.log_density(values) for distribution in distributions)
    np.testing.assert_allclose(
        factors, whole, rtol=1e-2
    )  # pairs are exact in the one, impossible rows swept in the other


def test_what_is_far_says_to_others_what_a_million_standard_deviations_say():
    with warns("impossible-rows"):
        filled = PAIR.impute([[np.nan, 1e5], [np.nan, 1e6], [np.nan, 1e7], [np.nan, 1e300]])
    np.testing.assert_allclose(filled[:, 0], [6e4, 6e5, 6e5, 6e5], rtol=1e-6)


class TestNaming:
    rows = np.array([[1.0, 1.0], [2.0, 1e5], [0.5, np.nan], [np.nan, 2e9], [0.0, 0.0]])
    message = r"Rows 1, 3 \(the first is 0\) have no chance under the model: .* in column 1 \('Pb'\)\."

    @pytest.mark.parametrize(
        "ask",
        [
            PAIR.log_prob,
            PAIR.impute,
            PAIR.sample_latent,
            lambda x: PAIR.predict(x, "As"),
            FloorImputer.from_model(PAIR).transform,
            FloorImputer.from_model(PAIR).std,
            FloorImputer.from_model(PAIR).draw,
        ],
    )
    def test_rows_and_columns_are_named_once(self, ask):
        with warns("impossible-rows", match=self.message) as caught:
            ask(self.rows)
        assert kinds_of(caught).count("impossible-rows") == 1

    def test_one_row(self):
        with warns("impossible-rows", match=r"Row 0 \(the first is 0\) has no chance"):
            PAIR.condition({"Pb": 1e5})

    def test_a_limit_may_have_no_chance(self):
        with warns("impossible-rows", match=r"Row 1 .* in column 0 \('As'\)"):
            PAIR.impute([[0.0, 1.0], [-5000.0, 1.0]], floor=[-5000.0, 0.0])

    def test_judges_say_it_by_their_scores(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnreluWarning)
            PAIR.outlier_score(self.rows)
            PAIR.cell_outlier_score(self.rows)
            FloorOutlierDetector.from_model(PAIR).score_table(self.rows)

    def test_ordinary_rows_are_not_named(self):
        x = PAIR.sample(2000, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnreluWarning)
            PAIR.log_prob(x)
            PAIR.impute(x)
            FloorImputer.from_model(PAIR).transform(x)

    def test_the_rows_of_a_long_table_are_counted_through(self):
        x = np.tile([[1.0, 1.0]], (20_000, 1))
        x[[9000, 19_999], 0] = 1e9
        with warns("impossible-rows", match=r"Rows 9,000, 19,999 \(the first is 0\)"):
            FloorImputer.from_model(PAIR).transform(x)


@cache
def scorers():
    """Rows without gross values, and what learned them."""
    x = random_model(3, random_state=0).sample(400, random_state=1)
    return x, (
        RectifiedGaussianLearner("one_pass", margins="normal").fit(x),
        RectifiedGaussianLearner("one_pass", margins=[Normal(), BoxCox(2.0, -1.0), Normal()]).fit(x),
        RectifiedGaussianMixture(2, margins="normal").fit(x),
    )


@pytest.mark.parametrize("size", [1e5, 1e100, 1e300])
def test_learners_and_mixtures_score_gross_rows(size):
    x, learned = scorers()
    gross = x[:20].copy()
    gross[7, 1] = size
    for fitted in learned:
        with warns("impossible-rows", match=r"Row 7 \(the first is 0\) has no chance .* in column 1\."):
            densities = fitted.score_samples(gross)
        assert np.isfinite(densities).all()
        assert np.argmin(densities) == 7
        with warnings.catch_warnings():
            refuse("impossible-rows")
            fitted.score_samples(x)
    assert np.isfinite(fitted.predict_proba(gross)).all()


def test_infinite_rows_are_refused():
    with pytest.raises(InvalidDataError, match="infinite"):
        FloorImputer.from_model(PAIR).transform([[np.inf, 1.0]])
