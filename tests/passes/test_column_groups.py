"""Groups of columns: every two columns together in one, no group larger than asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unrelu.contracts import Block, RowLabels
from unrelu.passes.dask_engine import column_groups
from unrelu.passes.pair_moments import GroupedMomentsQuestion, PairMomentsQuestion


@pytest.mark.parametrize(("d", "most", "groups"), [(4, 2, 6), (9, 3, 12), (23, 9, 12), (50, 10, 30), (61, 14, 56)])
def test_every_two_columns_are_together(d, most, groups):
    found = column_groups(d, lambda columns: columns <= most)
    together = np.zeros((d, d), dtype=int)
    for group in found:
        assert len(group) <= most
        assert (np.diff(group) > 0).all()
        together[np.ix_(group, group)] += 1
    assert (together > 0).all()
    p = together.diagonal()[0] - 1
    assert len(found) == groups == p * (p + 1)
    assert together.sum() <= (1.0 + 1.0 / p) * d**2 + 2 * p * d  # uneven blocks have a few more


def test_where_nothing_fits_groups_are_as_small_as_they_get():
    assert [len(group) for group in column_groups(3, lambda _: False)] == [3]
    assert max(len(group) for group in column_groups(30, lambda _: False)) == 5 * 2


# --- records --------------------------------------------------------------------------------------

D = 11


def rows(missing: bool, weighted: bool) -> Block:
    rng = np.random.default_rng(5)
    x = np.maximum(rng.standard_normal((700, D)) @ rng.standard_normal((D, D)) + 0.3, 0.0)
    x[:, 4] += 1e6  # far from zero, and never at its floor
    if missing:  # in some columns, so that some groups are complete
        x[::3, 2] = x[5::7, 9] = np.nan
    x[17, 6], x[30, 8] = -3.0, np.inf
    weights = rng.uniform(0.5, 2.0, 700) if weighted else None
    return Block(x, 100, weights, RowLabels(np.arange(700) % 40, tuple(f"{k:02}" for k in range(40))))


def whole_and_in_groups(question, block):
    def of_columns(columns):
        part = Block(block.values[:, columns].copy(), block.first_row, block.weights, block.groups)
        return columns, question.of_columns(columns)(part)

    groups = column_groups(D, lambda columns: columns <= 4)
    assert len(groups) == 12
    return question(block), question.put_together(map(of_columns, groups))


def same_records(one, other):
    assert (one.n_rows, one.weight, one.squared_weight) == (other.n_rows, other.weight, other.squared_weight)
    np.testing.assert_array_equal(one.floor, other.floor)
    other = other._about(one.origin)  # origins are bookkeeping
    if one.margins is not None:
        other = replace(other, margins=other.margins.about(one.margins.origin, one.margins.unit))
    size = 1e-11 * np.sqrt(np.abs(one.cross).max())
    for name in ("count", "cross", "masked_sum", "masked_square"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-11, atol=size, err_msg=name)
    for mine, theirs in (
        (one.observed, other.observed),
        (one.screening, other.screening),
        (one.margins, other.margins),
    ):
        assert (mine is None) == (theirs is None)
        for name, value in vars(mine).items() if mine is not None else ():
            np.testing.assert_allclose(getattr(theirs, name), value, rtol=1e-11, atol=size, err_msg=name)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_records_of_groups_are_that_of_all_columns(missing, weighted):
    floor = (0.0,) * 7 + (0.5,) + (0.0,) * (D - 8)
    same_records(*whole_and_in_groups(PairMomentsQuestion(floor, (0.0,) * D), rows(missing, weighted)))


def test_records_without_margins():
    same_records(*whole_and_in_groups(PairMomentsQuestion((0.0,) * D, (0.0,) * D, margins=False), rows(True, False)))


@pytest.mark.parametrize("most", [60, 30])
def test_rows_in_groups(monkeypatch, most):
    """Fewer columns have more labels apart than all of them."""
    apart = {D: most}
    monkeypatch.setattr("unrelu.passes.pair_moments.most_apart", lambda d: apart.get(d, 60))
    question = GroupedMomentsQuestion(PairMomentsQuestion((0.0,) * D, (0.0,) * D, margins=False))
    whole, joined = whole_and_in_groups(question, rows(True, False))
    assert joined.labels == whole.labels
    assert (len(joined.labels) == 40) == (most == 60)
    for one, other in zip(whole.parts, joined.parts, strict=True):
        same_records(one, other)


def test_groups_with_origins_of_their_own():
    question, block, rng = PairMomentsQuestion((0.0,) * D, (0.0,) * D), rows(True, True), np.random.default_rng(1)

    def of_columns(columns):
        record = question.of_columns(columns)(Block(block.values[:, columns].copy(), 100, block.weights))
        return columns, record._about(record.origin + rng.normal(size=len(columns)))

    groups = column_groups(D, lambda columns: columns <= 4)
    same_records(question(block), question.put_together(map(of_columns, groups)))
