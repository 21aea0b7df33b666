"""Laws that every method of ``unrelu.methods`` obeys; a new method is picked up by its name."""

import pickle

import numpy as np
import pytest

from unrelu import RectifiedGaussianLearner, methods, synthetic
from unrelu.errors import InvalidParameterError

NAMES = sorted(methods._BY_NAME)


@pytest.fixture(scope="module")
def table():
    return synthetic.random_model(4, condition_number=4.0, random_state=1).sample(2000, random_state=2)


def fit(name, x, **options):
    return RectifiedGaussianLearner(method=name, random_state=0, **options).fit(x)


@pytest.mark.parametrize("name", NAMES)
class TestEveryMethod:
    def test_is_deterministic(self, name, table):
        np.testing.assert_array_equal(fit(name, table).covariance_, fit(name, table).covariance_)

    def test_does_not_change_its_input(self, name, table):
        before = table.copy()
        fit(name, table)
        np.testing.assert_array_equal(table, before)

    def test_columns_may_come_in_any_order(self, name, table):
        order = [2, 0, 3, 1]
        plain, permuted = fit(name, table), fit(name, table[:, order])
        np.testing.assert_allclose(permuted.bias_, plain.bias_[order], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(permuted.covariance_, plain.covariance_[np.ix_(order, order)], rtol=1e-7, atol=1e-9)

    def test_units_carry_through(self, name, table):
        units = np.array([1e-3, 1.0, 40.0, 1e5])
        plain, scaled = fit(name, table), fit(name, table * units)
        np.testing.assert_allclose(scaled.bias_, plain.bias_ * units, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(scaled.correlation_, plain.correlation_, rtol=1e-8, atol=1e-9)

    def test_covariance_is_semidefinite_and_symmetric(self, name, table):
        covariance = fit(name, table[:6]).covariance_
        np.testing.assert_array_equal(covariance, covariance.T)
        assert np.linalg.eigvalsh(covariance)[0] > -1e-8 * np.trace(covariance)

    def test_gets_closer_with_more_rows(self, name):
        truth = synthetic.random_model(3, condition_number=2.0, random_state=5)
        few, many = (fit(name, truth.sample(n, random_state=0)) for n in (300, 100_000))
        assert np.linalg.norm(many.covariance_ - truth.covariance) < np.linalg.norm(few.covariance_ - truth.covariance)

    def test_report_and_learner_travel_by_pickle(self, name, table):
        learner = pickle.loads(pickle.dumps(fit(name, table)))
        assert learner.report_.n_rows == 2000
        assert learner.report_.method == name

    def test_rank_is_respected(self, name, table):
        assert np.linalg.matrix_rank(fit(name, table, n_components=2).covariance_, tol=1e-6) <= 2


def test_unknown_names_are_met_with_the_nearest():
    with pytest.raises(InvalidParameterError, match=r"Did you mean 'one_pass'\? Methods: 'one_pass'"):
        methods.method_named("onepass")
