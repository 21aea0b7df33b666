"""ColumnValues: what np.unique has, whatever the split, order, type and weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unrelu.contracts import Block
from unrelu.passes.columns import MOST_KEYS, margins_of

RNG = np.random.default_rng(0)
N = 12_000
COLUMNS = {
    "normal": RNG.standard_normal(N),
    "floored": np.maximum(RNG.standard_normal(N), 0.0),
    "near 300": 300.0 + RNG.standard_normal(N),
    "small": 1e-8 * np.exp(RNG.standard_normal(N)),
    "large": 1e12 * np.exp(RNG.standard_normal(N)),
    "all sizes": 10.0 ** RNG.uniform(-8.0, 12.0, N),
    "whole": RNG.integers(0, 30_000, N).astype(float),
    "three values": RNG.choice([0.0, 0.5, 1.25], N),
    "one value": np.full(N, 3.0),
    "both signs": RNG.choice([-1.0, 1.0], N) * np.exp(2.0 * RNG.standard_normal(N)),
}
TABLE = np.column_stack(list(COLUMNS.values()))


def asked(values, weights=None):
    return margins_of(Block(values, 0, weights))


def assert_same(one, other, rtol=0.0):
    for a, b in zip(one.columns, other.columns, strict=True):
        assert (a.shift, a.whole, a.ends) == (b.shift, b.whole, b.ends)
        assert_array_equal(a.keys, b.keys)
        assert_allclose(a.weights, b.weights, rtol=rtol)
    assert_allclose(one.weight, other.weight, rtol=rtol or 1e-15)
    assert_allclose(one.squared_weight, other.squared_weight, rtol=rtol or 1e-15)


@pytest.mark.parametrize("name", COLUMNS)
def test_runs_hold_the_weight_of_their_values(name):
    x = COLUMNS[name]
    margin = asked(x[:, None]).columns[0]
    low, high = margin.runs
    assert (low <= high).all()
    assert (low[1:] > high[:-1]).all()
    ordered = np.sort(x)
    assert_array_equal(
        margin.weights, np.searchsorted(ordered, high, side="right") - np.searchsorted(ordered, low, side="left")
    )
    assert margin.weights.sum() == N
    assert (low[0], high[-1]) == margin.ends == (x.min(), x.max())
    assert len(low) <= MOST_KEYS
    if len(np.unique(x)) > MOST_KEYS:
        assert len(low) > MOST_KEYS // 16  # as many runs as can be, but for what the last halving costs


@pytest.mark.parametrize("name", ["three values", "one value"])
def test_few_values_are_counted_one_by_one(name):
    margin = asked(COLUMNS[name][:, None]).columns[0]
    values, counts = np.unique(COLUMNS[name], return_counts=True)
    assert_array_equal(margin.runs[0], values)
    assert_array_equal(margin.runs[1], values)
    assert_array_equal(margin.weights, counts)


def test_fractions_are_noticed():
    whole = [column.whole for column in asked(TABLE).columns]
    assert whole == [bool((x == np.rint(x)).all()) for x in COLUMNS.values()]


@pytest.mark.parametrize("size", [1, 7, 997, 6000])
def test_any_split_gives_the_same_record(size):
    rows = TABLE[:700] if size < 100 else TABLE
    rows = rows[:200] if size == 1 else rows
    parts = [asked(rows[start : start + size]) for start in range(0, len(rows), size)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    assert_same(merged, asked(rows))
    backwards = parts[-1]
    for part in parts[-2::-1]:
        backwards = part.merge(backwards)
    assert_same(backwards, merged)


def test_any_order_and_layout_gives_the_same_record():
    whole = asked(TABLE)
    assert_same(asked(TABLE[RNG.permutation(N)]), whole)
    assert_same(asked(np.asfortranarray(TABLE)), whole)
    assert_same(asked(TABLE[::-1]), whole)


def test_weights_are_repetitions():
    weights = RNG.integers(0, 4, N)
    weighted, repeated = asked(TABLE, weights.astype(float)), asked(np.repeat(TABLE, weights, axis=0))
    for a, b in zip(weighted.columns, repeated.columns, strict=True):
        assert (a.shift, a.ends, a.whole) == (b.shift, b.ends, b.whole)
        assert_array_equal(a.keys, b.keys)
        assert_array_equal(a.weights, b.weights)
    assert_array_equal(weighted.weight, repeated.weight)
    assert_allclose(weighted.rows, weights.sum() ** 2 / (weights**2).sum(), rtol=1e-12)  # Kish's number


def test_missing_cells_and_rows_of_no_weight_are_not_there():
    values, weights = TABLE.copy(), np.ones(N)
    hidden, absent = RNG.random(N) < 0.2, RNG.random(N) < 0.1
    values[hidden, 0] = np.nan
    values[absent] = 1e300
    weights[absent] = 0.0
    found = asked(values, weights)
    assert_same(asked(TABLE[~absent][:, 1:]), _without_first(found))
    alone = asked(TABLE[~absent & ~hidden][:, :1])
    assert_array_equal(found.columns[0].keys, alone.columns[0].keys)
    assert_array_equal(found.rows[:2], [alone.rows[0], N - absent.sum()])


def _without_first(margins):
    names = ("columns", "at_most", "at_least", "weight", "squared_weight")
    return replace(margins, **{name: getattr(margins, name)[1:] for name in names})


def test_a_column_without_values():
    found = asked(np.full((3, 1), np.nan))
    assert len(found.columns[0].keys) == 0
    assert_array_equal(found.rows, [0.0])
    assert_same(found.merge(asked(np.ones((3, 1)))), asked(np.ones((3, 1))))


def test_both_zeros_are_one_value():
    found = asked(np.array([[0.0], [-0.0], [1.0]])).columns[0]
    assert_array_equal(found.weights, [2.0, 1.0])
    assert not np.signbit(found.runs[0][0])


def test_a_table_of_smaller_floats_is_the_same_table():
    small = TABLE.astype(np.float32)
    found, wide = asked(small), asked(small.astype(np.float64))
    assert_same(found, wide)
    assert (found.stored_as, wide.stored_as, found.merge(wide).stored_as) == ("float32", "float64", "float64")


def test_most_values_just_fit():
    values = np.arange(float(MOST_KEYS))[:, None]
    assert asked(values).columns[0].shift == 0
    more = asked(np.vstack([values, [[-1.0]]])).columns[0]
    assert more.shift > 0
    assert_same(asked(values).merge(asked(np.array([[-1.0]]))), asked(np.vstack([values, [[-1.0]]])))
