"""The record against loops over rows, and the distributions of merging."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unrelu
from unrelu.contracts import Assumptions, Block
from unrelu.errors import InvalidDataError
from unrelu.passes.pair_moments import PairMomentsQuestion


def ask(x, weights=None, floor=0.0):
    return PairMomentsQuestion(*((floor,) * x.shape[1],) * 2)(Block(x, 0, weights))


def raw_sums(x, weights, floor=0.0):
    """Row by row, about the floor: (count, cross, masked_sum, masked_square) and the four observed sums."""
    d = x.shape[1]
    sums = np.zeros((8, d, d))
    for row, w in zip(x, weights, strict=True):
        seen = ~np.isnan(row)
        p = np.where(seen, row > floor, False).astype(float)
        t = np.where(p > 0, row - floor, 0.0)
        o = seen.astype(float)
        for k, (f, g) in enumerate([(p, p), (t, t), (t, p), (t * t, p), (o, o), (p, o), (t, o), (t * t, o)]):
            sums[k] += w * np.outer(f, g)
    return sums


def sums_of(record, floor=0.0):
    """The record's sums re-expressed about the floor."""
    about = record._about(np.full(record.n_features, floor))
    o = about._observed_or_complete()
    return np.stack(
        [about.count, about.cross, about.masked_sum, about.masked_square, o.count, o.above, o.total, o.square]
    )


def table(seed, n, d, missing=0.0, offset=0.0):
    rng = np.random.default_rng(seed)
    x = np.maximum(rng.standard_normal((n, d)) + 0.3, 0.0) + offset
    x[rng.random((n, d)) < missing] = np.nan
    return x


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_a_loop_over_rows(missing, weighted):
    x = table(0, 1500, 4, missing)
    weights = np.random.default_rng(1).gamma(2.0, size=1500) if weighted else np.ones(1500)
    record = ask(x, weights if weighted else None)
    np.testing.assert_allclose(sums_of(record), raw_sums(x, weights), rtol=1e-11, atol=1e-9)
    assert record.weight == pytest.approx(weights.sum())
    assert record.squared_weight == pytest.approx((weights**2).sum())
    assert (record.observed is not None) == (missing > 0)


def test_floor_other_than_zero():
    x = table(2, 200, 3, offset=2.5)
    np.testing.assert_allclose(sums_of(ask(x, floor=2.5), 2.5), raw_sums(x, np.ones(200), 2.5), rtol=1e-11)


@settings(max_examples=40, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 299), min_size=1, max_size=6, unique=True),
    order=st.randoms(use_true_random=False),
    missing=st.sampled_from([0.0, 0.2]),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_any_split_in_any_order_gives_the_same_record(cuts, order, missing, offset):
    x = table(3, 300, 3, missing, offset)
    whole = ask(x, floor=offset)
    parts = [ask(rows, floor=offset) for rows in np.split(x, sorted(cuts))]
    order.shuffle(parts)
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    assert merged.n_rows == 300
    np.testing.assert_allclose(sums_of(merged, offset), sums_of(whole, offset), rtol=1e-9, atol=1e-7)
    for got, expected in zip(merged.positive_moments(), whole.positive_moments(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10)


def test_variance_survives_a_huge_offset():
    x = np.random.default_rng(4).standard_normal((5000, 1)) + 1e9
    parts = [ask(rows) for rows in np.split(x, 7 * np.arange(1, 50))]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    _, mean, variance = merged.positive_moments()
    assert mean[0] == pytest.approx(x.mean(), rel=1e-15)
    assert variance[0] == pytest.approx(x.var(), rel=1e-6)  # a naive sum of squares has no digit left here


def test_blocks_with_and_without_missing_values_merge():
    x = table(5, 400, 3, missing=0.2)
    x[:150] = table(6, 150, 3)
    merged = ask(x[:150]).merge(ask(x[150:]))
    np.testing.assert_allclose(sums_of(merged), raw_sums(x, np.ones(400)), rtol=1e-11, atol=1e-9)


def test_question_and_record_travel_by_pickle():
    question = pickle.loads(pickle.dumps(PairMomentsQuestion((0.0, 0.0), (0.0, 0.0))))
    record = question(Block(table(7, 50, 2)))
    again = pickle.loads(pickle.dumps(record))
    np.testing.assert_array_equal(sums_of(again), sums_of(record))


def test_screening_names_rows_across_blocks():
    x = table(8, 30, 2)
    x[4, 1] = x[21, 1] = -2.0
    question = PairMomentsQuestion((0.0, 0.0), (0.0, 0.0))
    merged = question(Block(x[:20], 0)).merge(question(Block(x[20:], 20)))
    with pytest.raises(
        InvalidDataError,
        match=r"2 values are below the floor 0, in column 1 \('b'\) \(2, first in row 4 \(the first is 0\)\)",
    ):
        merged.screening.check(Assumptions((0.0, 0.0)), ("a", "b"))


@pytest.mark.parametrize("missing", [False, True])
def test_counts_below_a_limit_are_rounded_with_their_sums(missing):
    rng = np.random.default_rng(3)
    rows = np.maximum(rng.normal(size=(300, 4)) - [0.0, 0.5, 1.5, 2.2], 0.0)
    if missing:
        rows[rng.random(rows.shape) < 0.3] = np.nan
    record = PairMomentsQuestion((0.0,) * 4, (0.0,) * 4)(Block(rows)).rounded(12)
    above, seen = np.nan_to_num(rows) > 0.0, ~np.isnan(rows)
    values = np.nan_to_num(rows)
    for i in range(4):
        for j in range(4):
            both = above[:, i] & above[:, j]
            rare = both.sum() < 12 or (seen[:, i] & seen[:, j]).sum() < 12
            assert record.count[i, j] == (0 if rare else both.sum())
            total = 0.0 if rare else (values[both, i] - record.origin[i]).sum()
            assert record.masked_sum[i, j] == pytest.approx(total, abs=1e-9)
            if missing:
                at = above[:, i] & seen[:, j]
                assert record.observed.above[i, j] == (at.sum() if at.sum() >= 12 else 0)
    assert 0 < (record.count == 0).sum() < 16
    assert record.margins is None


def test_the_record_of_some_columns_is_that_of_their_table():
    x = unrelu.synthetic.random_model(5, random_state=0).sample(800, random_state=1)
    x[::7, 2] = np.nan
    at = np.array([3, 2, 0])

    def record(table):
        zeros = (0.0,) * table.shape[1]
        return PairMomentsQuestion(zeros, zeros)(Block(table))

    some, own = record(x).of_columns(at), record(np.ascontiguousarray(x[:, at]))
    for name in ("origin", "count", "cross", "masked_sum", "masked_square"):
        np.testing.assert_allclose(getattr(some, name), getattr(own, name), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(some.observed.total, own.observed.total, rtol=1e-12)
    np.testing.assert_allclose(some.margins.sums, own.margins.sums, rtol=1e-12)
