"""Standard errors of partial correlations."""

import numpy as np
import pytest

from tests.graph.tables import chain, floored
from unrelu import RectifiedGaussianGraph
from unrelu.graph.subsets import moderated


def test_ratios_of_one_size_are_drawn_together_and_others_stay_apart():
    rng = np.random.default_rng(1)
    alike, degrees = moderated(1.7 * rng.chisquare(19, 400) / 19, 19.0)
    assert degrees > 200.0
    assert np.all(np.abs(alike / 1.7 - 1.0) < 0.15)
    true = np.exp(rng.normal(0.0, 1.0, 400))
    apart, few = moderated(true * rng.chisquare(19, 400) / 19, 19.0)
    assert few < 25.0
    assert np.corrcoef(np.log(apart), np.log(true))[0, 1] > 0.9


def test_few_ratios_stay_as_they_are():
    ratio = np.array([0.5, 2.0])
    same, degrees = moderated(ratio, 19.0)
    assert same is ratio
    assert degrees == 19.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_errors_are_the_spread_over_tables():
    """Of the edges of a chain, known to be so, over 30 tables: within the error of a spread from 30."""
    model, found = chain(5), []
    for seed in range(30):
        graph = RectifiedGaussianGraph("fdr").fit(floored(model, 400, seed))
        found.append((graph.partial_correlation_, graph.partial_correlation_stderr_))
    values, errors = np.array([v for v, _ in found]), np.array([e for _, e in found])
    first, second = np.triu_indices(5, 1)
    values, errors = values[:, first, second], errors[:, first, second]
    ratio = np.sqrt(np.mean(errors**2, axis=0)) / values.std(axis=0, ddof=1)
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.12)  # 10 spreads of 13 % each, not independent


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_intervals_cover():
    model = chain(10)
    truth = -np.linalg.inv(model.covariance)
    truth /= np.sqrt(np.outer(np.diagonal(-truth), np.diagonal(-truth)))
    inside = []
    for seed in range(40):
        ends = RectifiedGaussianGraph("fdr").fit(floored(model, 2000, seed)).confidence_intervals()
        low, high = ends["partial_correlation"][np.triu_indices(10, 1)].T
        inside.append((low < truth[np.triu_indices(10, 1)]) & (truth[np.triu_indices(10, 1)] < high))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)
