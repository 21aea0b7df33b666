"""pyarrow reads the same files: what it gives is what is asked for."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from unrelu.errors import InputFileError
from unrelu.samples import open_samples
from unrelu.samples.parquet_pages import NotPlainError, plain_batches

N, PLAIN = 5000, {"use_dictionary": False, "compression": "none"}


def write(path, kind=np.float32, missing=None, required=(), **options):
    values = np.maximum(np.random.default_rng(0).standard_normal((N, 3)), 0.0).astype(kind)
    if missing is not None:
        values[missing, 1] = np.nan
    fields = [pa.field(name, pa.from_numpy_dtype(np.dtype(kind)), name not in required) for name in "abc"]
    columns = [pa.array(column, from_pandas=True) for column in values.T]
    parquet.write_table(pa.table(columns, schema=pa.schema(fields)), path, row_group_size=3000, **options)
    return values


def plainly(path, names=("a", "b", "c")):
    """The rows that are read without pyarrow, up to the first that are not."""
    batches = []
    with parquet.ParquetFile(path) as opened, open(path, "rb", buffering=0) as file:
        try:
            for group in range(opened.metadata.num_row_groups):
                for columns in plain_batches(file, opened, group, names):
                    batches.append(np.stack(columns, axis=1))
        except NotPlainError:
            pass
    return np.concatenate([np.empty((0, len(names))), *batches])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("required", [(), ("a", "b", "c"), ("b",)])
def test_plain_files(tmp_path, all_rows, kind, required):
    path = tmp_path / "x.parquet"
    values = write(path, kind, required=required, data_page_size=3000, **PLAIN)
    np.testing.assert_array_equal(plainly(path), values)
    np.testing.assert_array_equal(plainly(path, ("c", "a")), values[:, [2, 0]])
    for rows in (1, 700, 4999, None):
        read = all_rows(open_samples(path, block_rows=rows))
        assert read.dtype == kind
        np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {**PLAIN, "use_byte_stream_split": True},
        {**PLAIN, "data_page_version": "2.0"},
        {**PLAIN, "write_page_checksum": True},
        {**PLAIN, "compression": "lz4"},
    ],
    ids=["dictionaries", "split", "version 2", "checksums", "packed"],
)
def test_other_files_are_left_to_pyarrow(tmp_path, all_rows, options):
    path = tmp_path / "x.parquet"
    values = write(path, **options)
    assert len(plainly(path)) == 0
    np.testing.assert_array_equal(all_rows(open_samples(path)), values)


@pytest.mark.parametrize("missing", [0, 1234, 2999, 3000, N - 1])
def test_from_the_page_of_a_missing_cell_on_pyarrow_reads(tmp_path, all_rows, missing):
    path = tmp_path / "x.parquet"
    values = write(path, missing=missing, data_page_size=1000, **PLAIN)
    before = plainly(path)
    assert missing - 1100 <= len(before) <= missing
    np.testing.assert_array_equal(before, values[: len(before)])
    np.testing.assert_array_equal(all_rows(open_samples(path, block_rows=900)), values)


def test_columns_of_two_types(tmp_path, all_rows):
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"a": np.ones(9), "b": np.ones(9, np.float32)}), path, **PLAIN)
    assert len(plainly(path, ("a", "b"))) == 0
    np.testing.assert_array_equal(all_rows(open_samples(path)), np.ones((9, 2)))


def test_damage_is_what_pyarrow_takes_for_damage(tmp_path, all_rows):
    path = tmp_path / "x.parquet"
    write(path, data_page_size=3000, **PLAIN)
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    with parquet.ParquetFile(path) as opened:
        starts = [opened.metadata.row_group(g).column(c).data_page_offset for g in range(2) for c in range(3)]
    seen = set()
    for place in [*(start + k for start in starts[::2] for k in range(24)), *rng.integers(4, starts[-1], 20)]:
        content = bytearray(whole)
        content[place] ^= 1 << rng.integers(8)
        path.write_bytes(content)
        expected, read, said = None, None, ""
        with suppress(OSError, ValueError):
            expected = np.stack([column.to_numpy() for column in parquet.read_table(path).columns], axis=1)
        try:
            read = all_rows(open_samples(path))
        except InputFileError as error:
            said = str(error)
        seen.add(read is None)
        assert (read is None) == (expected is None)
        if read is None:
            assert f"row group {int(place >= starts[3])}: not a whole parquet file" in said
        else:
            np.testing.assert_array_equal(read, expected)
    assert seen == {True, False}


def test_a_page_that_claims_no_values_is_damage(tmp_path, all_rows):
    path = tmp_path / "x.parquet"
    write(path, data_page_size=3000, **PLAIN)
    content, claimed = bytearray(path.read_bytes()), b"\x15\x80\x10\x15"  # 1024 values, a varint, between two fields
    at = content.index(claimed)
    content[at + 2] = 0
    path.write_bytes(content)
    with pytest.raises(InputFileError, match="row group 0: not a whole parquet file"):
        all_rows(open_samples(path))
