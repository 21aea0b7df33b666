"""The sample of the rows: the same for any split, uniform, and honest about all rows."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unrelu.contracts import Assumptions, Block
from unrelu.errors import InvalidDataError
from unrelu.passes.tiles import SubsampleQuestion, row_keys

N, D, SIZE = 300, 3, 40


def table(missing=0.15):
    rng = np.random.default_rng(0)
    x = np.maximum(rng.standard_normal((N, D)), 0.0)
    x[rng.random((N, D)) < missing] = np.nan
    return x


def weights(zeros=0.2):
    rng = np.random.default_rng(1)
    return np.where(rng.random(N) < zeros, 0.0, rng.gamma(2.0, size=N))


def question(size=SIZE, seed=0):
    return SubsampleQuestion(size, seed, (0.0,) * D, (0.0,) * D)


def assert_same(first, second):
    for name in ("rows", "keys", "values", "weights", "above", "observed"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.n_rows == second.n_rows
    assert first.n_present == second.n_present


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.integers(1, N - 1), max_size=8, unique=True),
    order=st.randoms(use_true_random=False),
    size=st.integers(1, N + 10),
    seed=st.integers(0, 2**63 - 1),
    weighted=st.booleans(),
)
def test_any_split_in_any_order_gives_the_same_sample(cuts, order, size, seed, weighted):
    x, w = table(), weights() if weighted else None
    ask = question(size, seed)
    whole = ask(Block(x, 0, w))
    edges = [0, *sorted(cuts), N]
    parts = [ask(Block(x[a:b], a, None if w is None else w[a:b])) for a, b in pairwise(edges)]
    order.shuffle(parts)
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    assert_same(merged, whole)


def test_the_sample_is_rows_of_the_table_in_its_order():
    x, w = table(), weights()
    sample = question()(Block(x, 1000, w))
    at = sample.rows - 1000
    assert len(at) == SIZE
    assert (np.diff(at) > 0).all()
    np.testing.assert_array_equal(sample.values, x[at])
    np.testing.assert_array_equal(sample.weights, w[at])
    assert (sample.weights > 0.0).all()


def test_all_rows_where_there_are_no_more():
    x = table()
    for size in (N, N + 1, 10 * N):
        np.testing.assert_array_equal(question(size)(Block(x)).rows, np.arange(N))
    present = weights()
    sample = question(10 * N)(Block(x, 0, present))
    np.testing.assert_array_equal(sample.rows, np.flatnonzero(present > 0.0))


def test_counts_of_all_rows_leave_out_what_is_missing_or_absent():
    x, w = table(), weights()
    sample = question()(Block(x, 0, w))
    there = x[w > 0.0]
    np.testing.assert_array_equal(sample.above, np.count_nonzero(there > 0.0, axis=0))
    np.testing.assert_array_equal(sample.observed, np.count_nonzero(~np.isnan(there), axis=0))
    assert sample.n_rows == N
    assert sample.n_present == len(there)


def test_floors_of_float32_tables():
    x = np.maximum(table(0.0), 0.1).astype(np.float32)
    sample = SubsampleQuestion(SIZE, 0, (0.1,) * D, (0.1,) * D)(Block(x))
    np.testing.assert_array_equal(sample.above, np.count_nonzero(x > np.float32(0.1), axis=0))
    assert sample.values.dtype == np.float32
    sample.screening.check(Assumptions((0.1,) * D), None)  # float32's 0.1 is not below the floor


def test_the_tolerance_moves_the_floor_up_and_the_lowest_value_down():
    assumptions = Assumptions((0.0, 1.0), floor_tolerance=0.25)
    ask = SubsampleQuestion.under(assumptions, 10, 3)
    x = np.array([[-0.25, 1.25], [0.25, 0.75], [0.3, 1.3]])
    sample = ask(Block(x))
    np.testing.assert_array_equal(sample.above, [1, 1])
    sample.screening.check(assumptions, None)


def test_screening_is_of_all_rows_and_names_them():
    x = table(0.0)
    x[7, 2] = x[250, 2] = -1.0
    ask = question(5)
    merged = ask(Block(x[:100], 0)).merge(ask(Block(x[100:], 100)))
    assert not {7, 250} & set(merged.rows.tolist())  # found without having been sampled
    with pytest.raises(
        InvalidDataError, match=r"2 values are below the floor 0, in column 2 \(2, first in row 7 \(the first is 0\)\)"
    ):
        merged.screening.check(Assumptions((0.0,) * D), None)


def test_the_sample_owns_its_rows():
    """Blocks of a file may be overwritten by the next one."""
    x = table(0.0)
    sample = question(N)(Block(x))
    before = sample.values.copy()
    x[:] = -5.0
    np.testing.assert_array_equal(sample.values, before)


def test_every_row_is_as_likely():
    """Chi-square of inclusion counts over seeds, with correction for drawing without replacement."""
    draws, x = 400, np.zeros((N, 1))
    counts = np.zeros(N)
    for seed in range(draws):
        ask = SubsampleQuestion(SIZE, seed, (0.0,), (0.0,))
        counts[ask(Block(x)).rows] += 1.0
    share = SIZE / N
    assert counts.sum() == draws * SIZE
    # (N-1)/N sum (count - mean)^2 / (draws share (1 - share)) is near chi-square with N - 1 degrees of freedom, of
    # standard deviation sqrt(2 (N - 1)).
    statistic = (N - 1.0) / N * np.sum((counts - draws * share) ** 2) / (draws * share * (1.0 - share))
    assert abs(statistic - (N - 1.0)) < 5.0 * np.sqrt(2.0 * (N - 1.0))


def test_neighbouring_rows_are_drawn_independently():
    """A hash with a pattern would take neighbours together, or never."""
    draws, together = 400, 0
    for seed in range(draws):
        ask = SubsampleQuestion(SIZE, seed, (0.0,), (0.0,))
        together += int(np.count_nonzero(np.diff(ask(Block(np.zeros((N, 1)))).rows) == 1))
    expected = draws * (N - 1) * SIZE / N * (SIZE - 1) / (N - 1)
    assert abs(together - expected) < 5.0 * np.sqrt(expected)  # about Poisson


def test_seeds_draw_different_samples():
    rows = [question(seed=seed)(Block(table())).rows for seed in (0, 1, 2, 2**62)]
    for i in range(4):
        for j in range(i):
            assert len(np.intersect1d(rows[i], rows[j])) < SIZE / 2  # SIZE^2 / N = 5 in common by chance


def test_keys_are_spread_over_all_64_bits():
    """Each bit of each key is fair: five standard errors of 20,000 rows."""
    keys = row_keys(12345, np.arange(20_000))
    assert len(np.unique(keys)) == 20_000
    for bit in range(64):
        share = np.mean((keys >> np.uint64(bit)) & np.uint64(1))
        assert abs(share - 0.5) < 5.0 * 0.5 / np.sqrt(20_000)


def test_question_and_sample_travel_by_pickle():
    ask = pickle.loads(pickle.dumps(question()))
    assert ask == question()
    assert hash(ask) == hash(question())
    sample = ask(Block(table()))
    assert_same(pickle.loads(pickle.dumps(sample)), sample)
