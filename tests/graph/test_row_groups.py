"""Correlations of subsets of the rows, from records."""

from functools import partial

import numpy as np
import pytest

from tests.graph.tables import chain, floored
from unrelu import RectifiedGaussianLearner
from unrelu.contracts import PairCorrelations, no_progress
from unrelu.errors import InvalidDataError
from unrelu.graph.subsets import SUBSETS, RowGroups
from unrelu.passes.pair_moments import GroupedMoments

X = floored(chain(4), 500, 1)
DAYS = np.random.default_rng(2).integers(0, 20, len(X))
one_pass = partial(RectifiedGaussianLearner, "one_pass", margins="normal")


def groups_of(X, days=None):
    learner = one_pass(stderr="jackknife").fit(X, groups=days)
    record = learner.record_
    assert isinstance(record, GroupedMoments)
    pairs = one_pass().fit(X)
    near = PairCorrelations(pairs.correlation_, pairs.correlation_stderr_)
    return RowGroups(record, learner._assumptions(), near, np.arange(X.shape[1]))


def test_subsets_are_fits_of_their_rows():
    groups = groups_of(X, DAYS)
    labels = [int(label) for label in groups.record.labels]
    chosen = [groups.drawn(rng, 10.0 / np.sqrt(500))[0] for rng in [np.random.default_rng(5)] * SUBSETS]
    found = groups.subsets(lambda r: r, 5, no_progress)
    assert len(found) == len(chosen) == SUBSETS
    for some, r in list(zip(chosen, found, strict=True))[:3]:
        rows = np.isin(DAYS, [labels[k] for k in some])
        assert rows.mean() == pytest.approx(10.0 / np.sqrt(500), abs=0.06)
        np.testing.assert_allclose(r, one_pass().fit(X[rows]).correlation_, atol=1e-5)


def test_the_same_seed_takes_the_same_subsets_and_another_one_others():
    groups = groups_of(X)
    first, again, other = (groups.subsets(lambda r: r, seed, no_progress) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_leaving_out_groups():
    groups = groups_of(X, DAYS)
    left = groups.left_out(lambda r: r, no_progress)
    rows = int(groups.record.labels[0]) != DAYS
    np.testing.assert_allclose(left[0], one_pass().fit(X[rows]).correlation_, atol=1e-5)
    assert len(left) == 20


def test_the_progress_callback_gets_every_step():
    heard = []
    groups_of(X).subsets(lambda r: r, 0, heard.append)
    assert [step.done for step in heard] == sorted({step.done for step in heard})
    assert {step.total for step in heard} == {SUBSETS}


def test_too_few_rows_or_groups_are_refused_with_another_way():
    with pytest.raises(InvalidDataError, match=r"24 rows are too few.*at least 25.*'auto'"):
        groups_of(X[:24]).subsets(lambda r: r, 0, no_progress)
    with pytest.raises(InvalidDataError, match=r"4 groups count as .*at least 6.*groups="):
        groups_of(X, DAYS % 4).subsets(lambda r: r, 0, no_progress)


def test_a_column_that_a_subset_cannot_tell_is_named():
    rare = X.copy()
    rare[3:, 2] = 0.0
    rare[:3, 2] = [0.3, 0.8, 1.2]
    with pytest.raises(InvalidDataError, match=r"subsets of the rows, and in one of them.*column 2.*'auto'"):
        groups_of(rare).subsets(lambda r: r, 0, no_progress)


def test_halves_have_no_row_in_common_and_are_fits_of_their_rows():
    groups = groups_of(X, DAYS)
    halves = groups.halves(lambda r, share: (r, share), 0, no_progress)
    assert len(halves) == SUBSETS
    shares = np.array([share for _, share in halves])
    np.testing.assert_allclose(shares[0::2] + shares[1::2], 1.0)
    assert np.all(np.abs(shares - 0.5) < 0.06)
    some, _ = groups.drawn(np.random.default_rng(0), 0.5)
    labels = [int(groups.record.labels[k]) for k in some]
    for (r, _), rows in zip(halves[:2], (np.isin(DAYS, labels), ~np.isin(DAYS, labels)), strict=True):
        fitted = one_pass().fit(X[rows])
        np.testing.assert_allclose(r, fitted.correlation_, atol=1e-5)


@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_a_column_that_a_half_cannot_tell_is_uncorrelated_there():
    rare, days = X.copy(), np.arange(len(X)) // 25
    rare[:, 2] = 0.0
    rare[[0, 1, 25, 26], 2] = [0.3, 0.8, 1.2, 0.5]  # on days 0 and 1
    groups = groups_of(rare, days)
    halves = groups.halves(lambda r, _: r, 0, no_progress)
    has_values = [
        bool({"0", "1"} & {groups.record.labels[k] for k in some})
        for rng in [np.random.default_rng(0)] * (SUBSETS // 2)
        for some in groups.drawn(rng, 0.5)
    ]
    blind = [not r[2, [0, 1, 3]].any() for r in halves]
    assert blind == [not has for has in has_values]
    assert any(blind)
    without = groups_of(X[:, [0, 1, 3]], days).halves(lambda r, _: r, 0, no_progress)
    for r, other, cannot in zip(halves, without, blind, strict=True):
        if cannot:
            np.testing.assert_allclose(r[np.ix_([0, 1, 3], [0, 1, 3])], other, atol=1e-6)


def test_there_are_no_halves_of_few_rows_or_groups():
    assert groups_of(X[:39]).halves(lambda r, _: r, 0, no_progress) == []
    assert groups_of(X, DAYS % 4).halves(lambda r, _: r, 0, no_progress) == []
    assert len(groups_of(X[:60]).halves(lambda r, _: r, 0, no_progress)) == SUBSETS
