"""Weights per cell: exact against plain sums, and against missing cells where they are 0 or 1."""

import numpy as np
import pytest

from unrelu.contracts import Block
from unrelu.fit.robust_cells.learn import weighted_record
from unrelu.passes.pair_moments import PairMomentsQuestion

QUESTION = PairMomentsQuestion((0.0,) * 3, (0.0,) * 3, margins=False)
SQUARES = ("count", "cross", "masked_sum", "masked_square")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return np.maximum(rng.normal(0.5, 1.0, (400, 3)), 0.0), rng.random((400, 3)), rng.random(400)


def _record(x, cells, rows=None):
    halves = (slice(0, 150), slice(150, 400))
    parts = ((Block(x[at], at.start, None if rows is None else rows[at]), cells[at]) for at in halves)
    return weighted_record(parts, QUESTION, len(x))


def test_zeros_and_ones_are_missing_and_seen_cells(table):
    x, weights, rows = table
    seen = weights > 0.2
    weighted = _record(x, seen.astype(float), rows)
    plain = QUESTION(Block(np.where(seen, x, np.nan), 0, rows))
    weighted, plain = weighted._about(np.zeros(3)), plain._about(np.zeros(3))
    for name in SQUARES:
        np.testing.assert_allclose(getattr(weighted, name), getattr(plain, name), rtol=1e-12, atol=1e-12)
    for name in ("count", "squared_weight", "above", "total", "square"):
        mine, others = getattr(weighted.observed, name), getattr(plain.observed, name)
        np.testing.assert_allclose(mine, others, rtol=1e-12, atol=1e-12)


def test_pairs_count_by_products_and_columns_by_their_own_weight(table):
    x, cells, rows = table
    record = _record(x, cells, rows)._about(np.zeros(3))
    for i in range(3):
        for j in range(3):
            w = rows * cells[:, i] * (cells[:, j] if i != j else 1.0)
            both = (x[:, i] > 0.0) & (x[:, j] > 0.0)
            assert record.count[i, j] == pytest.approx(w @ both)
            assert record.cross[i, j] == pytest.approx((w * both) @ (x[:, i] * x[:, j]))
            assert record.masked_sum[i, j] == pytest.approx((w * both) @ x[:, i])
            assert record.masked_square[i, j] == pytest.approx((w * both) @ x[:, i] ** 2)
            assert record.observed.count[i, j] == pytest.approx(w.sum())
            assert record.observed.squared_weight[i, j] == pytest.approx((w**2).sum())
            assert record.observed.total[i, j] == pytest.approx(w @ x[:, i])


def test_records_merge(table):
    x, cells, _ = table
    whole = _record(x, cells)._about(np.zeros(3))
    parts = [weighted_record(iter([(Block(x[at], at.start), cells[at])]), QUESTION, at.stop - at.start)
             for at in (slice(0, 90), slice(90, 400))]  # fmt: skip
    joined = parts[0].merge(parts[1])._about(np.zeros(3))
    for name in SQUARES:
        np.testing.assert_allclose(getattr(joined, name), getattr(whole, name), rtol=1e-11, atol=1e-11)
