"""Rows whose cells state their own limits."""

import numpy as np
import pytest

from unrelu.contracts import Block, Evidence, Samples
from unrelu.passes.engine import LocalEngine


class MarkedRows(Samples):
    """Rows with a mark for every cell, in blocks of ``size``."""

    n_rows = None

    def __init__(self, values, censoring, size=10**9):
        self.values, self.censoring, self.size = values, censoring, size
        self.n_rows, self.n_features = values.shape

    def blocks(self):
        for start in range(0, self.n_rows, self.size):
            rows = slice(start, start + self.size)
            yield Block(self.values[rows], start, censoring=self.censoring[rows])


@pytest.fixture(scope="session")
def marked_evidence():
    def evidence(values, censoring, size=10**9):
        return Evidence(MarkedRows(values, censoring, size), LocalEngine())

    return evidence


@pytest.fixture(scope="session")
def laboratories():
    """(values, beyond, latent rows) with one of three lower limits a cell, and an upper one in the last column."""

    def drawn(model, n, seed=0):
        rng = np.random.default_rng(seed)
        y = rng.multivariate_normal(model.mean, model.covariance, size=n)
        low = np.array([-0.8, -0.2, 0.4])[rng.integers(3, size=y.shape)]
        high = np.where(np.arange(y.shape[1]) == y.shape[1] - 1, 1.0, np.inf)
        censoring = np.where(y < low, -1, np.where(y > high, 1, 0)).astype(np.int8)
        return np.clip(y, low, high), censoring, y

    return drawn
