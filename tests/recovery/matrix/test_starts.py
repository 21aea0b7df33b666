"""Where the descent begins: the singular value decomposition of the table itself."""

import numpy as np
import pytest
import scipy.sparse

from unrelu.recovery.matrix import factors as module
from unrelu.recovery.matrix.factors import Cells, singular_start, tiles


def table(seed=0, n=200, d=30, k=3):
    rng = np.random.default_rng(seed)
    return np.maximum(rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) * 3.0 + rng.standard_normal(d), 0.0)


def best(X, rank, centre):
    mean = X.mean(axis=0) if centre else 0.0
    u, s, vt = np.linalg.svd(X - mean, full_matrices=False)
    return (u[:, :rank] * s[:rank]) @ vt[:rank] + mean


@pytest.mark.parametrize("free_bias", [True, False])
@pytest.mark.parametrize("rank", [1, 3])
def test_is_nearly_the_best_low_rank_fit(free_bias, rank):
    X = table()
    start = singular_start(Cells(X), rank, free_bias)
    assert (start.bias is None) != free_bias
    left, least = np.linalg.norm(X - start.matrix()), np.linalg.norm(X - best(X, rank, free_bias))
    assert least * (1.0 - 1e-12) <= left <= least * (1.0 + 1e-5)


def test_is_exact_where_the_table_has_low_rank():
    low = best(table() + 100.0, 4, True)
    np.testing.assert_allclose(singular_start(Cells(low), 4, True).matrix(), low, rtol=1e-12)


def test_missing_cells_count_as_their_columns_mean():
    X = table(1)
    X[np.random.default_rng(2).random(X.shape) < 0.2] = np.nan
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    got, wanted = singular_start(Cells(X), 3, True), singular_start(Cells(filled), 3, True)
    np.testing.assert_allclose(got.matrix(), wanted.matrix(), atol=1e-10)
    got, wanted = singular_start(Cells(X), 3, False), singular_start(Cells(filled), 3, False)
    np.testing.assert_allclose(got.matrix(), wanted.matrix(), atol=1e-10)


def test_tiles_and_storage_do_not_matter(monkeypatch):
    X = table(3)
    whole = singular_start(Cells(X), 3, True).matrix()
    np.testing.assert_array_equal(singular_start(Cells(scipy.sparse.csr_array(X)), 3, True).matrix(), whole)
    monkeypatch.setattr(module, "_LEAST_CELLS", 500)
    assert len(tiles(X.shape)) > 1
    np.testing.assert_allclose(singular_start(Cells(X), 3, True).matrix(), whole, atol=1e-10)
