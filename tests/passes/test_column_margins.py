"""Sums, ends and ties of columns, against the same computed from all cells at once."""

from itertools import pairwise

import numpy as np
import pytest

from unrelu.contracts import Block
from unrelu.passes.columns import ties, window
from unrelu.passes.pair_moments import PairMomentsQuestion

FLOOR = (0.0, -1.0, -np.inf)
ASK = PairMomentsQuestion(FLOOR, FLOOR)


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    x = np.maximum(rng.normal(1.0, 2.0, size=(n, 3)), FLOOR)
    x[rng.random((n, 3)) < 0.1] = np.nan
    x[::7, 1] = 0.25
    return x


def margins_of(x, weights=None, cuts=()):
    edges = [0, *cuts, len(x)]
    parts = [ASK(Block(x[a:b], a, None if weights is None else weights[a:b])) for a, b in pairwise(edges)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merge(part)
    return whole.margins


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cuts", [(), (5, 1700)])
def test_sums_and_ends_are_those_of_the_cells(weighted, cuts):
    x = table(3000)
    w = np.random.default_rng(1).random(3000) if weighted else np.ones(3000)
    found = margins_of(x, w if weighted else None, cuts)
    seen = x > np.array(FLOOR)
    t = np.where(seen, (x - found.origin) / found.unit, 0.0)
    expected = [(w[:, None] * seen * t**p).sum(axis=0) for p in range(4)]
    np.testing.assert_allclose(found.sums, expected, rtol=1e-9, atol=1e-9 * 3000)
    np.testing.assert_allclose(found.observed, w @ ~np.isnan(x))
    ends = [np.where(seen, x, np.inf).min(axis=0), np.where(seen, x, -np.inf).max(axis=0)]
    np.testing.assert_array_equal(found.ends, ends)
    np.testing.assert_allclose(found.end_weights, [w @ (x == end) for end in ends])


def test_the_same_rows_of_a_long_table_are_taken_however_it_is_cut():
    n = 60_000
    looked_at = []
    for height in (37, 1000, 1024):
        rows = [np.arange(a, min(a + height, n))[window(a, min(height, n - a))] for a in range(0, n, height)]
        looked_at.append(np.concatenate(rows))
    np.testing.assert_array_equal(looked_at[0], looked_at[1])
    np.testing.assert_array_equal(looked_at[0], looked_at[2])
    np.testing.assert_array_equal(looked_at[0][:4096], np.arange(4096))
    np.testing.assert_array_equal(np.unique(looked_at[0][4096:] // 32_768), [1])
    assert len(looked_at[0]) == 4096 + 512


def test_ties_are_counted_among_what_is_above_the_floor():
    x = np.round(table(400), 1)
    compared, different, step = ties(np, x, x > np.array(FLOOR))
    for j in range(3):
        values = x[x[:, j] > FLOOR[j], j]
        distinct = np.unique(values)
        assert (compared[j], different[j]) == (len(values), len(distinct))
        assert step[j] == np.diff(distinct).min()
    nothing = ties(np, np.full((4, 1), np.nan), np.zeros((4, 1), dtype=bool))
    assert [part.tolist() for part in nothing] == [[0.0], [0.0], [np.inf]]
