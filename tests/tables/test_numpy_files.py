from __future__ import annotations

import numpy as np
import pytest

import unrelu
from unrelu.errors import InputFileError
from unrelu.tables import open_samples


def test_a_model_is_no_table(tmp_path):
    unrelu.RectifiedGaussian([1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]]).save(tmp_path / "model.npz")
    with pytest.raises(InputFileError, match="is no table but a model"):
        open_samples(tmp_path / "model.npz")


SAVERS = {"x.npy": np.save, "x.npz": np.savez, "y.npz": np.savez_compressed}


def refusal(path, **options) -> str:
    with pytest.raises(InputFileError) as caught:
        list(open_samples(path, **options).blocks())
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(params=SAVERS)
def save(request, tmp_path):
    def write(array):
        path = tmp_path / request.param
        SAVERS[request.param](path, array)
        return path

    return write


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("block_rows", [None, 7, 5000])
def test_rows(save, table, all_rows, order, block_rows):
    path = save(np.asarray(table, order=order))
    samples = open_samples(path, block_rows=block_rows)
    assert (samples.n_rows, samples.n_features, samples.feature_names) == (1100, 3, None)
    assert samples.n_bytes == path.stat().st_size
    np.testing.assert_array_equal(all_rows(samples), table)
    np.testing.assert_array_equal(all_rows(samples), table)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("f4", "f4"), (">f4", "f4"), ("f2", "f4"), ("i8", "f8"), ("?", "f8"), (">i2", "f8")]
)
def test_kinds_of_numbers(save, all_rows, dtype, expected):
    values = np.array([[0, 1], [1, 0], [1, 1]], dtype)
    rows = all_rows(open_samples(save(values)))
    assert rows.dtype == np.dtype(expected)
    np.testing.assert_array_equal(rows, values.astype(float))


def test_npy_blocks_are_views_of_the_file(tmp_path, table):
    np.save(tmp_path / "x.npy", table)
    for block in open_samples(tmp_path / "x.npy").blocks():
        assert not block.values.flags.owndata
        assert not block.values.flags.writeable


def test_columns_by_number(save, table, all_rows):
    path = save(table)
    np.testing.assert_array_equal(all_rows(open_samples(path, columns=[2, 0])), table[:, [2, 0]])
    np.testing.assert_array_equal(all_rows(open_samples(path, columns=["2", "0"])), table[:, [2, 0]])
    np.testing.assert_array_equal(all_rows(open_samples(path, drop=1)), table[:, [0, 2]])
    assert refusal(path, drop=[3]) == f"{path}: no column number 3; it has 3, counted from 0."
    assert "no column number As; it has 3" in refusal(path, columns=["As"])
    assert "no column number -1" in refusal(path, columns=[-1])


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(5), "the array has shape (5,), but rows and columns are needed. Reshape a single column"),
        (np.zeros((2, 2, 2)), "the array has shape (2, 2, 2)"),
        (np.array([[1, None]]), "the array holds Python objects, not numbers"),
        (np.array([["a", "b"]]), "the array holds values of type <U1, not numbers"),
        (np.zeros((2, 2), complex), "values of type complex128"),
        (np.zeros((0, 3)), "has columns but no rows"),
    ],
    ids=["1-d", "3-d", "objects", "text", "complex", "no rows"],
)
def test_what_is_no_table(save, array, said):
    assert said in refusal(save(array))


def test_damaged_files(save, table):
    path = save(table)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-1], whole[:9], whole[:3], b"nothing of the kind" * 20):
        path.write_bytes(content)
        assert refusal(path).startswith(f"{path}: not a whole {path.suffix[1:]} file")
    path.write_bytes(b"")
    assert refusal(path) == f"{path}: the file is empty."


def test_npy_cut_short_is_refused_at_once(tmp_path, table):
    np.save(tmp_path / "x.npy", table)
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-8])
    with pytest.raises(InputFileError, match=rf"{len(whole) - 8} of {len(whole)} bytes"):
        open_samples(tmp_path / "x.npy")


def test_npy_with_a_spoilt_head(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 2)))
    content = (tmp_path / "x.npy").read_bytes()
    for old, new in (
        (b"'descr'", b"b'desc'"),
        (b"(2, 2)", b"(2, 2 "),
        (b"'<f8'", b"'<q9'"),
        (b"NUMPY\x01", b"NUMPY\x07"),
    ):
        assert old in content
        (tmp_path / "x.npy").write_bytes(content.replace(old, new))
        assert "not a whole npy file" in refusal(tmp_path / "x.npy")


def test_npz_damaged_in_the_middle(tmp_path, table):
    path = tmp_path / "x.npz"
    np.savez(path, table)
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)
    assert "Bad CRC-32" in refusal(path)


def test_npz_with_several_arrays(tmp_path, all_rows):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.zeros((2, 2)), b=np.ones((2, 2)))
    assert refusal(path) == f"{path}: holds several tables (a, b). Save the one to read as X."
    np.savez(path, a=np.zeros((2, 2)), X=np.ones((2, 2)))
    np.testing.assert_array_equal(all_rows(open_samples(path)), np.ones((2, 2)))
    np.savez(path, mean=np.zeros(2), rows=np.ones((2, 2)))
    np.testing.assert_array_equal(all_rows(open_samples(path)), np.ones((2, 2)))
    np.savez(path)
    assert "holds no array" in refusal(path)


def test_npz_with_names(tmp_path, all_rows):
    path = tmp_path / "x.npz"
    np.savez(path, X=np.array([[1.0, 2.0]]), feature_names=np.array(["As", "Pb"]))
    assert open_samples(path).feature_names == ("As", "Pb")
    np.testing.assert_array_equal(all_rows(open_samples(path, columns="Pb")), [[2]])
    for names in (np.array(["As"]), np.array([1, 2])):
        np.savez(path, X=np.array([[1.0, 2.0]]), feature_names=names)
        assert "feature_names is not one text per column" in refusal(path)
    np.savez(path, X=np.array([[1.0, 2.0]]), feature_names=np.array(["a", None]))
    assert "not a whole npz file" in refusal(path)
