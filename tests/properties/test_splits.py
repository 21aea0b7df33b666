"""Any split of the rows, in any order, gives the same model to 1e-10: arrays, partial_fit, merges, files."""

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unrelu
from unrelu import RectifiedGaussianLearner, synthetic
from unrelu.contracts import Assumptions, Evidence
from unrelu.errors import InvalidDataError
from unrelu.methods import OnePass
from unrelu.passes.engine import LocalEngine
from unrelu.tables import ArraySamples, open_samples

TRUTH = synthetic.random_model(4, condition_number=8.0, mean="signed", random_state=3)
N = 600
one_pass = partial(RectifiedGaussianLearner, "one_pass", margins="normal")  # no part of a table tells its margins


def table(missing: bool, singular: bool) -> np.ndarray:
    x = TRUTH.sample(N, random_state=4)
    if singular:  # pair estimates that need the semidefinite projection
        x[:, 3] = np.maximum(0.8 * x[:, 0] + 0.6 * x[:, 1] - 0.3, 0.0)
    if missing:
        x[np.random.default_rng(5).random(x.shape) < 0.15] = np.nan
    return x


def assert_same(first, second):
    size = np.abs(second.covariance).max()
    np.testing.assert_allclose(first.mean, second.mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(first.covariance, second.covariance, rtol=1e-10, atol=1e-10 * size)


@settings(max_examples=30, deadline=None)
@given(
    cuts=st.lists(st.integers(1, N - 1), max_size=8, unique=True),
    seed=st.integers(0, 1000),
    missing=st.booleans(),
    singular=st.booleans(),
    weighted=st.booleans(),
)
def test_partial_fits_and_merges(cuts, seed, missing, singular, weighted):
    x = table(missing, singular)
    rng = np.random.default_rng(seed)
    weights = rng.gamma(2.0, size=N) if weighted else np.ones(N)
    whole = one_pass().fit(x, sample_weight=weights if weighted else None).distribution_
    order = rng.permutation(N)
    parts = np.split(order, sorted(cuts))
    rng.shuffle(parts)
    streamed = one_pass()
    learners = []
    for rows in parts:
        w = weights[rows] if weighted else None
        streamed.partial_fit(x[rows], sample_weight=w)
        learners.append(one_pass().partial_fit(x[rows], sample_weight=w))
    assert_same(streamed.distribution_, whole)
    assert_same(unrelu.merge(learners).distribution_, whole)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(block_rows=st.integers(1, N), singular=st.booleans())
def test_blocks_of_arrays_and_files(tmp_path, block_rows, singular):
    x = table(False, singular)
    whole = one_pass().fit(x).distribution_
    np.save(tmp_path / "x.npy", x)
    for samples in (ArraySamples(x, block_rows=block_rows), open_samples(tmp_path / "x.npy", block_rows=block_rows)):
        learned = OnePass().learn(Evidence(samples, LocalEngine()), Assumptions((0.0,) * 4))
        assert_same(learned.distribution, whole)


def test_tables_that_need_projection_do_need_it():
    """The singular table above is only a test of the assembly if the estimates are indefinite there."""
    report = one_pass().fit(table(False, True)).report_
    assert report.nearest.smallest_eigenvalue < -1e-3
    assert report.nearest.rounds > 0


def test_a_first_row_above_its_floors_does_not_take_them_away():
    """Rows that come one by one: the first is constant, and says nothing of margins or floors."""
    x = table(False, False)
    first = int(np.flatnonzero((x > 0.0).all(axis=1))[0])
    streamed = RectifiedGaussianLearner().partial_fit(x[[first]]).partial_fit(np.delete(x, first, axis=0))
    np.testing.assert_array_equal(streamed.distribution_.floor, 0.0)
    assert_same(streamed.distribution_, one_pass().fit(x).distribution_)


def test_a_later_part_that_the_margins_of_the_first_do_not_fit_says_what_does():
    x = table(False, False)
    above = (x > 0.0).all(axis=1)
    learner = RectifiedGaussianLearner().partial_fit(x[above])
    with pytest.raises(
        InvalidDataError, match=r"a value of 0 has no logarithm.*all parts with margins='normal' for it"
    ):
        learner.partial_fit(x[~above])
    parts = one_pass().partial_fit(x[above]).partial_fit(x[~above])
    assert_same(parts.distribution_, one_pass().fit(x).distribution_)
