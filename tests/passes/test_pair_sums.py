"""Runs of tiles in threads, single precision and sparse rows against plain double-precision formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from unrelu.contracts import Block
from unrelu.passes import engine as local
from unrelu.passes import pair_sums
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.passes.pair_sums import runs, tile_height
from unrelu.passes.rows import SparseBlock

SUMS = ("count", "cross", "masked_sum", "masked_square")


def table(n, d, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    x = np.maximum(rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1)), 0.0)
    x[rng.random((n, d)) < missing] = np.nan
    return x


def ask(x, weights=None, floor=0.0):
    return PairMomentsQuestion(*((floor,) * x.shape[1],) * 2)(Block(x, 0, weights))


def ask_sparse(x, weights=None, floor=0.0, **others):
    block = SparseBlock(matrix=scipy.sparse.csr_array(x), weights=weights, **others)
    return PairMomentsQuestion(*((floor,) * x.shape[1],) * 2)(block), block


def by_formula(x, weights, origin, floor=0.0):
    """N, C, A, Q of the module's text about this origin, and the sums against what is observed."""
    x = x.astype(np.float64)
    p, o = (x > floor).astype(float), (~np.isnan(x)).astype(float)
    t = np.where(p > 0.0, x - origin, 0.0)
    w = weights[:, None]
    against = [(p, p), (t, t), (t, p), (t * t, p), (o, o), (p, o), (t, o), (t * t, o)]
    with local.one_blas_thread():
        return [left.T @ (w * right) for left, right in against]


def sums_of(record):
    o = record.observed
    kept = [getattr(record, name) for name in SUMS]
    return kept if o is None else [*kept, o.count, o.above, o.total, o.square]


def every_array(record):
    """All numbers that the record holds."""
    found = [*sums_of(record), np.array([record.weight, record.squared_weight]), record.origin]
    return [*found, *vars(record.screening).values(), *vars(record.margins).values()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_long_tables_in_many_runs(dtype, missing, weighted):
    x = table(40_100, 30, missing=missing).astype(dtype)
    weights = np.random.default_rng(1).gamma(2.0, size=len(x)) if weighted else None
    record = ask(x, weights)
    assert len(runs(*x.shape)) > 2
    expected = by_formula(x, np.ones(len(x)) if weights is None else weights, record.origin)
    # Single precision rounds 256 terms one after the other by up to 2^-24 each: at random that is 1e-6 together.
    off = 1e-6 if dtype == np.float32 and not weighted else 1e-12
    for got, exact in zip(sums_of(record), expected, strict=False):
        np.testing.assert_allclose(got, exact, rtol=0.0, atol=off * np.abs(exact).max())
    if not weighted:
        np.testing.assert_array_equal(record.count, expected[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_changes_no_bit(dtype, monkeypatch):
    x = table(40_000, 20, missing=0.01).astype(dtype)
    x[25_000, 3] = -1.0
    several = every_array(ask(x))
    monkeypatch.setattr(local, "available_cores", lambda: 1)
    for got, expected in zip(every_array(ask(x)), several, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_wide_tables_are_shared_out_by_panels_of_columns(monkeypatch):
    x = table(700, 30, missing=0.05)
    expected = sums_of(ask(x))
    monkeypatch.setattr(pair_sums, "_WIDE", 12)
    monkeypatch.setattr(pair_sums, "_PANEL", 7)
    assert len(runs(10**6, 30)) == 1
    for got, exact in zip(sums_of(ask(x)), expected, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15, 1e30])
def test_single_precision_gives_way_where_it_cannot_hold_the_squares(scale):
    """Of a whole table, or only of its later rows."""
    x = (table(30_000, 3) * scale).astype(np.float32)
    later = x.copy()
    later[:2000] /= np.float32(scale)
    for rows in (x, later):
        record = ask(rows)
        expected = by_formula(rows, np.ones(len(rows)), record.origin)
        for got, exact in zip(sums_of(record), expected, strict=False):
            # Like terms round alike: at worst 256 * 2^-24 = 1.5e-5.
            np.testing.assert_allclose(got, exact, rtol=0.0, atol=1.5e-5 * np.abs(exact).max())


def test_a_column_that_first_holds_nothing_and_then_tiny_numbers():
    x = table(30_000, 3).astype(np.float32)
    x[:, 1] = np.where(np.arange(30_000) < 2000, 0.0, 1e-30 * x[:, 1])
    record = ask(x)
    exact = by_formula(x, np.ones(len(x)), record.origin)[3]
    np.testing.assert_allclose(record.masked_square[1], exact[1], rtol=1e-6)


@pytest.mark.parametrize("floor", [0.1, 0.3, 1.0 - 2.0**-24])
def test_levels_between_two_short_floats_tell_cells_as_in_double_precision(floor):
    near = np.float32(floor) + np.arange(-3, 12, dtype=np.float32) * np.spacing(np.float32(floor))
    x = np.stack([near, np.full_like(near, 5.0)], axis=1)
    above = near.astype(np.float64) > pair_sums.seen_above(np.array([floor]), x)
    assert 0 < above.sum() < len(near)
    assert ask(x, floor=floor).count[0, 0] == above.sum()


def test_heights_and_runs_cover_the_rows():
    for n, d in ((1, 1), (511, 3), (4096, 25), (100_000, 200), (10_000, 600)):
        parts = runs(n, d)
        assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
        assert (parts[0].start, parts[-1].stop) == (0, n)
        assert all((part.stop - part.start) % tile_height(d) == 0 for part in parts[:-1])


# --- sparse rows --------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("floor", [0.0, 0.4])
def test_sparse_rows_have_the_record_of_dense_ones(weighted, floor):
    x = table(20_000, 12) * (np.random.default_rng(2).random((20_000, 12)) < 0.2)
    x[(x > 0.0) & (x < floor)] = floor
    weights = np.random.default_rng(1).gamma(2.0, size=len(x)) if weighted else None
    record, block = ask_sparse(x, weights, floor)
    assert "values" not in vars(block)
    for got, expected in zip(every_array(record), every_array(ask(x, weights, floor)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_what_is_out_of_place_in_sparse_rows_is_refused_as_in_dense_ones(bad):
    x = table(500, 3)
    x[77, 1] = bad
    record, _ = ask_sparse(x)
    for got, expected in zip(every_array(record), every_array(ask(x)), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_sparse_rows_above_a_negative_floor_are_dense_ones():
    x = table(500, 3)
    record, _ = ask_sparse(x, floor=-1.0)
    np.testing.assert_array_equal(record.count, np.full((3, 3), 500.0))
