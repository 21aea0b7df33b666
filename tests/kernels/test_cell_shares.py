"""Histograms of columns, against NumPy."""

import numpy as np
import pytest

from unrelu.kernels.cell_shares import add_bin_counts, histogram_log_densities


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_histograms_of_columns(dtype):
    rng = np.random.default_rng(1)
    x = np.maximum(rng.normal(1.0, 2.0, (400, 2)), 0.25).astype(dtype)
    x[rng.random(x.shape) < 0.1] = np.nan
    w = rng.gamma(2.0, size=len(x))
    edges = [np.array([0.25, 0.5, 2.0], dtype), np.array([0.25, 1.0], dtype)]
    masses = [rng.normal(size=4), rng.normal(size=3)]
    together, starts = np.concatenate(edges), np.array([0, 3, 5])
    out, counts = np.empty(len(x)), np.zeros(7)
    histogram_log_densities(x, together, starts, np.concatenate(masses), out)
    add_bin_counts(x, w, together, starts, counts)
    expected, held = np.zeros(len(x)), []
    for column, edge, mass in zip(x.T, edges, masses, strict=True):
        known = ~np.isnan(column)
        at = np.searchsorted(edge, column[known], side="left")
        tail = np.where(at == len(edge), 2.0 * np.log(np.maximum(column[known].astype(float) - edge[0], 1e-9)), 0.0)
        expected[known] += mass[at] - tail
        held.append(np.bincount(at, w[known], len(edge) + 1))
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(counts, np.concatenate(held), rtol=1e-12)
