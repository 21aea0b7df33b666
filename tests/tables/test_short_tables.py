"""Short tables stay in memory: the same rows, read once."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

import unrelu
from unrelu.tables import ArraySamples, open_samples
from unrelu.tables.prepared import HeldSamples, held


class Counted(ArraySamples):
    """Rows that are read, as those of files are."""

    in_memory, reads = False, 0

    def blocks(self):
        type(self).reads += 1
        return super().blocks()


def test_rows_are_read_once_for_any_number_of_passes():
    X = np.maximum(np.random.default_rng(0).standard_normal((200, 3)), 0.0)
    rows = Counted(X, block_rows=60)
    unrelu.RectifiedGaussianLearner("full_likelihood", margins="normal").fit(rows)
    assert Counted.reads == 1


def test_longer_tables_are_as_they_are():
    rows = Counted(np.ones((10, 3)), block_rows=2)
    assert held(rows, most=29) is rows
    short = held(rows, most=30)
    assert isinstance(short, HeldSamples)
    assert short.n_rows == 10
    assert_array_equal(np.concatenate([block.values for block in short.blocks()]), np.ones((10, 3)))


def test_ids_and_notes_of_files_are_kept(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("site,As\nA,0.5\nB,<0.25\nC,1.5\n")
    rows = held(open_samples(path, id="site"))
    assert rows.n_rows == 3
    assert rows.limits.floor == ((0, 0.25),)
    assert rows.ids() == {"site": ["A", "B", "C"]}


def test_arrays_and_what_is_read_elsewhere_are_no_matter_of_this():
    X = np.ones((3, 2))
    assert held(X) is X
    rows = Counted(X)
    rows.engine = object
    assert held(rows) is rows
