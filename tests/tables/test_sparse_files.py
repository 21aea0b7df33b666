"""Sparse tables: files of scipy.sparse.save_npz opened like all others."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import unrelu
from unrelu.contracts import Samples
from unrelu.errors import InputFileError
from unrelu.tables import SparseSamples, open_samples, write_table

TABLE = np.where(np.random.default_rng(0).random((1300, 5)) < 0.6, 0.0, 1.5)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scipy.sparse.save_npz("whole.npz", scipy.sparse.csr_array(TABLE))
    scipy.sparse.save_npz("1.npz", scipy.sparse.csc_array(TABLE[:500]))
    scipy.sparse.save_npz("2.npz", scipy.sparse.coo_array(TABLE[500:].astype(np.float32)))
    return tmp_path


@pytest.mark.parametrize("paths", ["whole.npz", ["1.npz", "2.npz"], "[12].npz"])
def test_sparse_files_are_rows_like_any_others(folder, all_rows, paths):
    samples = open_samples(paths)
    assert isinstance(samples, SparseSamples)
    assert isinstance(samples, Samples)
    assert (samples.n_rows, samples.n_features, samples.feature_names) == (1300, 5, None)
    np.testing.assert_array_equal(all_rows(samples), TABLE)


@pytest.mark.parametrize(
    ("options", "columns"),
    [({"columns": ["3", 0]}, [3, 0]), ({"drop": [1, "2"]}, [0, 3, 4]), ({"drop": "4"}, [0, 1, 2, 3])],
)
def test_columns_go_by_their_numbers(folder, all_rows, options, columns):
    np.testing.assert_array_equal(all_rows(open_samples("whole.npz", **options)), TABLE[:, columns])


def test_what_cannot_be_read_is_refused(folder):
    with pytest.raises(InputFileError, match=r"whole\.npz: no column number 5; it has 5, counted from 0"):
        open_samples("whole.npz", columns=[5])
    write_table("dense.npz", TABLE)
    with pytest.raises(InputFileError, match=r"whole\.npz holds a sparse table and dense\.npz does not"):
        open_samples(["dense.npz", "whole.npz"])
    scipy.sparse.save_npz("narrow.npz", scipy.sparse.csr_array(TABLE[:, :4]))
    with pytest.raises(InputFileError, match=r"narrow\.npz: has no column number 4 .* with drop=4\."):
        open_samples(["whole.npz", "narrow.npz"])
    np.savez("cut.npz", format=np.array(b"csr"), shape=np.array([2, 2]), data=np.ones(3))
    with pytest.raises(InputFileError, match="not a whole file of scipy"):
        open_samples("cut.npz")


def test_a_learner_reads_them_as_it_reads_arrays(folder):
    X = np.maximum(np.random.default_rng(1).standard_normal((900, 3)), 0.0)
    scipy.sparse.save_npz("x.npz", scipy.sparse.csr_array(X))
    one, two = (unrelu.RectifiedGaussianLearner().fit(rows) for rows in (open_samples("x.npz"), X))
    np.testing.assert_allclose(one.covariance_, two.covariance_, rtol=1e-9)
