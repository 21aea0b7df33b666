"""Helpers that write files, and read samples back as one array."""

from __future__ import annotations

import numpy as np
import pytest

from unrelu.contracts import Samples


def _all_rows(samples: Samples) -> np.ndarray:
    blocks = list(samples.blocks())
    starts = np.cumsum([0, *(len(block.values) for block in blocks)])[:-1]
    assert [block.first_row for block in blocks] == starts.tolist()
    assert all(block.values.dtype in (np.float32, np.float64) for block in blocks)
    return np.concatenate([block.values for block in blocks])


@pytest.fixture
def all_rows():
    return _all_rows


@pytest.fixture
def table() -> np.ndarray:
    """Floored numbers with missing cells, longer than the smallest default block."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1100, 3)).clip(0)
    values[rng.random(values.shape) < 0.1] = np.nan
    return values


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a file and return its bare name, as someone in that folder would type it."""
    monkeypatch.chdir(tmp_path)

    def write(content: str | bytes, name: str = "data.csv") -> str:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return write
