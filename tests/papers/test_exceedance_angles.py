from functools import partial

import numpy as np
import pytest

from tests.warned import warns
from unrelu import RectifiedGaussian, RectifiedGaussianLearner, methods
from unrelu.contracts import Assumptions, Evidence, RowParameters
from unrelu.errors import InvalidDataError
from unrelu.papers.batches import count_exceedances
from unrelu.papers.learners import check_columns, exceedance_angles
from unrelu.passes.engine import LocalEngine
from unrelu.tables import ArraySamples

S = np.array([[1.0, 0.6, -0.3], [0.6, 2.0, 0.2], [-0.3, 0.2, 0.5]])


def estimate(x, bias, names=None, **options):
    d = x.shape[1]
    assumptions = Assumptions((0.0,) * d)
    rows = RowParameters(np.array(bias), np.ones(d), np.zeros(d), np.full((d, 2, 2), np.nan), np.zeros((d, 2, 3)))
    evidence = Evidence(ArraySamples(x, feature_names=names), LocalEngine())
    column_sums = check_columns(evidence, assumptions)
    counts = evidence.collect(partial(count_exceedances, rows.mean)).values
    return exceedance_angles(column_sums, counts, rows, evidence.feature_names, **options)


def test_lemma_2_counts_give_the_angle():
    truth = RectifiedGaussian([0.3, 0.0, 1.0], S)
    x = truth.sample(100_000, random_state=0)
    pairs = estimate(x, truth.mean)
    upper = np.triu_indices(3, 1)
    z = (pairs.correlation - truth.correlation)[upper] / pairs.stderr[upper]
    assert np.all(np.abs(z) < 4)


def test_the_formula_itself():
    x = np.array([[1.0, 2.0], [0.0, 1.0], [2.0, 0.0], [3.0, 3.0], [0.0, 0.0], [1.0, 0.5], [0.0, 0.0], [2.0, 0.0]])
    share = np.mean((x[:, 0] > 0.5) & (x[:, 1] > 0.4))
    pairs = estimate(x, [0.5, 0.4])
    assert pairs.correlation[0, 1] == pytest.approx(np.cos(np.pi - 2 * np.pi * share))


def test_standard_errors_are_those_of_the_count():
    truth = RectifiedGaussian([0.3, 0.0, 1.0], S)
    z = []
    for seed in range(200):
        pairs = estimate(truth.sample(500, random_state=seed), truth.mean)
        z.append(((pairs.correlation - truth.correlation) / np.where(pairs.stderr > 0, pairs.stderr, 1))[0, 1])
    assert np.mean(np.square(z)) == pytest.approx(1.0, abs=0.3)  # 200 z-scores: standard error .1


def test_clearly_negative_biases_are_refused_by_name():
    x = RectifiedGaussian([0.3, -1.0, 1.0], S).sample(5000, random_state=1)
    with pytest.raises(InvalidDataError, match=r"column 1 \('Pb'\) \(\d+ %\).*method='one_pass'"):
        estimate(x, [0.3, 0.0, 1.0], ["As", "Pb", "Cd"])


def test_partial_recovery_gives_the_other_pairs():
    truth = RectifiedGaussian([0.3, -1.0, 1.0], S)
    x = truth.sample(50_000, random_state=1)
    with warns("partial-recovery", match="column 1"):
        pairs = estimate(x, [0.3, 0.0, 1.0], allow_partial=True)
    assert np.isnan(pairs.correlation[1, [0, 2]]).all()
    assert abs(pairs.correlation[0, 2] - truth.correlation[0, 2]) < 4 * pairs.stderr[0, 2]
    with warns("partial-recovery"):
        learner = RectifiedGaussianLearner(method=methods.TruncatedSGD(allow_partial=True)).fit(x)
    assert learner.correlation_[0, 1] == 0.0
    assert np.isnan(learner.correlation_stderr_[0, 1])
    assert learner.correlation_[0, 2] == pytest.approx(truth.correlation[0, 2], abs=0.1)


def test_biases_that_only_look_negative_are_accepted():
    x = RectifiedGaussian([0.0, 0.0, 0.0], S).sample(2000, random_state=3)
    assert np.isfinite(estimate(x, [0.0, 0.0, 0.0]).correlation).all()
