"""What positive cells determine: condition numbers by dense algebra, the core by peeling one line at a time."""

import numpy as np
import pytest
import scipy.sparse

from tests.references import matrix as reference
from unrelu.errors import InvalidDataError
from unrelu.recovery.matrix import factors as cells_module
from unrelu.recovery.matrix.factors import Cells, Factors, conditions, effective_components, find_core, tiles


def slow_core(X, rank, bias):
    """Take away one row or column at a time, in any order: the core is the same."""
    rows, columns = set(range(X.shape[0])), set(range(X.shape[1]))
    while True:
        weak_rows = {i for i in rows if sum(X[i, j] > 0.0 for j in columns) <= rank}
        weak_columns = {j for j in columns if sum(X[i, j] > 0.0 for i in rows) <= rank + bias}
        if weak_columns:
            columns.discard(max(weak_columns))
        elif weak_rows:
            rows.discard(min(weak_rows))
        else:
            return rows, columns


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bias", [True, False])
def test_the_core_is_what_is_left_of_peeling(seed, bias):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((60, 14)) < rng.random(14) * 0.6 + 0.15, rng.random((60, 14)), 0.0)
    X[rng.random(X.shape) < 0.1] = np.nan
    rows, columns = slow_core(X, 2, bias)
    core = find_core(Cells(X), 2, bias)
    assert [set(np.flatnonzero(marked)) for marked in core[:2]] == [rows, columns]
    assert 0 < len(rows) < 60
    assert core[2] == (X > 0.0).sum()


def test_peeling_can_take_several_rounds():
    """A chain: leaving out one column leaves out a row, which leaves out the next column."""
    X = np.zeros((12, 8))
    X[:6, :4] = 1.0
    for m in range(4):  # column 4 + m leans on rows 6 + m, which lean on column 3 + m
        X[[6 + m, 0, 7 + m if m < 3 else 1], 4 + m] = 1.0
        X[6 + m, 3 + m] = 1.0
    X[[6, 0, 1], 4] = [1.0, 0.0, 0.0]
    core = find_core(Cells(X), 1, True)
    rows, columns = slow_core(X, 1, True)
    assert [set(np.flatnonzero(marked)) for marked in core[:2]] == [rows, columns]
    assert columns == {0, 1, 2, 3}


@pytest.mark.parametrize(("rank", "margins"), [(1, (2, 6)), (2, (30, 2)), (3, (3, 30))])
def test_too_small_a_core_is_refused(rank, margins):
    with pytest.raises(
        InvalidDataError, match=f"Too few values above the floor for n_components={rank}: after leaving out"
    ):
        find_core(Cells(np.ones(margins)), rank, True)


@pytest.fixture(scope="module")
def table():
    """Some columns are hardly above the floor, and some are so on rows that do not determine their unknowns."""
    rng = np.random.default_rng(0)
    factors = Factors(rng.standard_normal((300, 3)), rng.standard_normal((20, 3)), 0.5 * rng.standard_normal(20))
    X = np.maximum(factors.matrix(), 0.0)
    X[:, 0] = 0.0
    X[np.flatnonzero(X[:, 1])[3:], 1] = 0.0  # three values for four unknowns
    X[np.flatnonzero(X[:, 2])[4:], 2] = 0.0  # just enough
    flat = np.argsort(np.abs(factors.latent[:, 2]))
    factors.latent[flat[:5], 2] = 1e-6 * rng.standard_normal(5)  # five rows in a plane, nearly
    X[:, 3] = 0.0
    X[flat[:5], 3] = 1.0
    X[7] = 0.0
    X[8] = np.nan
    X[9, np.flatnonzero(X[9] > 0.0)[2:]] = 0.0
    return X, factors.standard()


def test_conditions_are_those_of_dense_algebra(table):
    X, factors = table
    found = conditions(Cells(X), factors)
    determined = np.where(found.row_identifiable[:, None], X, 0.0)  # rows that are guesses do not count for a column
    wanted = np.array([reference.column_condition(determined, factors.latent, j) for j in range(20)])
    small = wanted < 1e6
    np.testing.assert_allclose(found.columns[small], wanted[small], rtol=1e-4)
    assert (found.columns[~small] > 1e5).all()
    np.testing.assert_array_equal(found.column_identifiable, wanted <= 1e4)
    assert np.flatnonzero(~found.column_identifiable).tolist() == [0, 1, 3]
    assert np.isinf(found.columns[:2]).all()
    wanted = np.array([reference.row_condition(X, factors.loadings, i) for i in range(300)])
    many = np.isfinite(wanted)
    # The spread of a component about its mean in place of its mean square: a factor between components.
    ratio = found.rows[many] / wanted[many]
    assert ((ratio > 0.5) & (ratio < 2.0)).all()
    np.testing.assert_array_equal(found.row_identifiable, wanted <= 1e4)
    assert not found.row_identifiable[[7, 8, 9]].any()


@pytest.mark.parametrize("bias", [True, False])
def test_tiles_and_storage_do_not_matter(table, monkeypatch, bias):
    X, factors = table
    factors = factors if bias else Factors(factors.latent, factors.loadings, None)
    X = np.nan_to_num(X)
    whole, sparse = conditions(Cells(X), factors), conditions(Cells(scipy.sparse.csr_array(X)), factors)
    np.testing.assert_array_equal(whole.columns, sparse.columns)
    monkeypatch.setattr(cells_module, "_LEAST_CELLS", 500)
    assert len(tiles(X.shape)) > 1
    cut = conditions(Cells(X), factors)
    fine = whole.columns < 1e4
    np.testing.assert_allclose(cut.columns[fine], whole.columns[fine], rtol=1e-8)
    np.testing.assert_allclose(cut.rows[whole.rows < 1e4], whole.rows[whole.rows < 1e4], rtol=1e-8)


def test_only_columns_of_the_core_determine_rows():
    """What stands for the others is a guess, whatever their values are."""
    rng = np.random.default_rng(5)
    factors = Factors(rng.standard_normal((50, 2)), rng.standard_normal((6, 2)), rng.random(6)).standard()
    X = np.maximum(factors.matrix(), 0.0) + 0.1
    X[3, 2:] = 0.0  # two values: in columns 0 and 1
    assert conditions(Cells(X), factors).row_identifiable[3]
    found = conditions(Cells(X), factors, np.arange(6) > 0)
    assert np.flatnonzero(~found.row_identifiable).tolist() == [3]
    # And columns are determined by the rows that are: a column with three values, one of them in row 3, is not.
    X[:, 5], X[[3, 4, 5], 5] = 0.0, 1.0
    assert conditions(Cells(X), factors).column_identifiable[5]
    assert not conditions(Cells(X), factors, np.arange(6) % 5 > 0).column_identifiable[5]


def test_the_scale_of_a_component_does_not_matter():
    rng = np.random.default_rng(1)
    latent, loadings = rng.standard_normal((200, 2)), rng.standard_normal((12, 2))
    X = np.maximum(latent @ loadings.T, 0.0)
    one = conditions(Cells(X), Factors(latent, loadings, None))
    other = conditions(Cells(X), Factors(latent * [1e5, 1.0], loadings * [1e-5, 1.0], None))
    np.testing.assert_allclose(one.columns, other.columns, rtol=1e-8)
    np.testing.assert_allclose(one.rows, other.rows, rtol=1e-8)


def test_equal_loadings_determine_rows():
    """Loadings of 1 on every column have hardly any variance, and rows are determined perfectly well."""
    loadings = np.column_stack([np.ones(8), np.tile([0.5, -0.5], 4)])
    loadings[:4, 0] += 1e-6
    latent = np.linalg.qr(np.column_stack([np.ones(60), np.random.default_rng(2).standard_normal((60, 2))]))[0][:, 1:]
    factors = Factors(latent * np.sqrt(60.0), loadings, np.full(8, 5.0)).standard()
    found = conditions(Cells(factors.matrix()), factors)
    np.testing.assert_allclose(found.rows, 1.0, rtol=1e-5)


def test_latent_vectors_far_from_zero_determine_columns():
    rng = np.random.default_rng(3)
    latent = np.column_stack([1e5 + rng.standard_normal(100), rng.standard_normal(100)])
    factors = Factors(latent, np.column_stack([1.0 + rng.random(10), rng.standard_normal(10)]), None).standard()
    found = conditions(Cells(factors.matrix()), factors)
    np.testing.assert_allclose(found.columns, 1.0, rtol=1e-6)


def test_components_that_are_rounding_are_left_out():
    rng = np.random.default_rng(4)
    latent, loadings = rng.standard_normal((100, 3)), rng.standard_normal((10, 3)) * [1.0, 1e-3, 1e-13]
    factors = Factors(latent, loadings, None)
    np.testing.assert_array_equal(effective_components(factors), [True, True, False])
    X = np.maximum(factors.matrix(), 0.0)
    two = Factors(latent[:, :2], loadings[:, :2], None)
    np.testing.assert_allclose(conditions(Cells(X), factors).rows, conditions(Cells(X), two).rows)
    nothing = Factors(np.zeros((100, 1)), np.zeros((10, 1)), np.ones(10))
    assert not effective_components(nothing).any()
    np.testing.assert_array_equal(conditions(Cells(np.ones((100, 10))), nothing).columns, 1.0)
    np.testing.assert_array_equal(conditions(Cells(np.ones((100, 10))), nothing).rows, 1.0)
