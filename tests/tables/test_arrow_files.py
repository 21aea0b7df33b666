from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from unrelu.contracts import CellLimits
from unrelu.errors import InputFileError
from unrelu.tables import open_samples

WRITERS = {"x.parquet": parquet.write_table, "x.feather": feather.write_feather}


def refusal(path, **options) -> str:
    with pytest.raises(InputFileError) as caught:
        list(open_samples(path, **options).blocks())
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(params=WRITERS)
def save(request, tmp_path):
    def write(table: pa.Table, **options):
        path = tmp_path / request.param
        WRITERS[request.param](table, path, **options)
        return path

    return write


def test_rows_names_and_size(save, table, all_rows):
    path = save(pa.table({name: table[:, i] for i, name in enumerate("abc")}))
    samples = open_samples(path)
    assert (samples.n_rows, samples.n_features, samples.feature_names) == (1100, 3, ("a", "b", "c"))
    assert samples.n_bytes == path.stat().st_size
    np.testing.assert_array_equal(all_rows(samples), table)
    np.testing.assert_array_equal(all_rows(samples), table)


@pytest.mark.parametrize("block_rows", [1, 3, 300, 5000])
def test_any_block_size_gives_the_same_rows(save, table, all_rows, block_rows):
    path = save(pa.table({name: table[:, i] for i, name in enumerate("abc")}))
    samples = open_samples(path, block_rows=block_rows)
    assert len(next(samples.blocks()).values) == min(block_rows, 1100)
    np.testing.assert_array_equal(all_rows(samples), table)


def test_all_kinds_of_numbers(save, all_rows):
    columns = {
        "double": pa.array([0.5, None]),
        "half": pa.array(np.array([1, 2], np.float16)),
        "integer": pa.array([2, None], pa.int64()),
        "byte": pa.array([3, 4], pa.uint8()),
        "bool": pa.array([True, None]),
        "decimal": pa.array([decimal.Decimal("1.25"), None]),
        "empty": pa.nulls(2),
        "huge": pa.array([2**60 + 1, 0]),
    }
    rows = all_rows(open_samples(save(pa.table(columns))))
    nan = np.nan
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, [[0.5, 1, 2, 3, 1, 1.25, nan, 2.0**60], [nan, 2, nan, 4, nan, nan, nan, 0]])


def test_single_floats_stay_single(save, all_rows):
    data = pa.table({"a": pa.array([0.1, None], pa.float32()), "b": pa.array([1.0, 2.0])})
    path = save(data)
    assert all_rows(open_samples(path, columns=["a"])).dtype == np.float32
    assert all_rows(open_samples(path)).dtype == np.float64


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array(["x", "y"]), r"column 'the site' holds text \(row 1: 'x'\), not numbers"),
        (pa.array(["x", "y"]).dictionary_encode(), "holds text"),
        (pa.array([datetime.date(2020, 1, 1)] * 2), "holds dates or times"),
        (pa.array([datetime.datetime(2020, 1, 1)] * 2), "holds dates or times"),
        (pa.array([[1.0], [2.0]]), "holds values of type list<"),
    ],
    ids=["text", "categories", "dates", "times", "lists"],
)
def test_other_columns_are_named_at_once_and_can_be_left_out(save, all_rows, column, said):
    path = save(pa.table({"the site": column, "a": [1.0, 2.0]}))
    with pytest.raises(InputFileError, match=said):
        open_samples(path)
    assert "Leave it out with drop='the site'" in refusal(path)
    assert ("id='the site'" in refusal(path)) == ("list" not in said)
    np.testing.assert_array_equal(all_rows(open_samples(path, drop="the site")), [[1], [2]])


def test_all_columns_that_are_not_numbers_are_named_in_one_message(save, all_rows):
    days = pa.array([datetime.date(2020, 1, 1)] * 3)
    path = save(pa.table({"site": ["x", "y", None], "a": ["1", "<1", "n.d."], "day": days, "b": ["1", "2", "x"]}))
    said = refusal(path)
    assert "columns 'site' (text, row 1: 'x'), 'day' (dates or times) hold no numbers." in said
    assert "drop=['site', 'day'], or keep them as text with id=['site', 'day']. Row 3, column 'b': 'x' is not" in said
    assert open_samples(path, drop=["site", "day", "b"], nondetect="missing").feature_names == ("a",)


def test_columns_in_the_given_order(save, all_rows):
    path = save(pa.table({"a.b": [1.0], "c": [2.0], "d": [3.0]}))
    samples = open_samples(path, columns=["d", "a.b"])
    assert samples.feature_names == ("d", "a.b")
    np.testing.assert_array_equal(all_rows(samples), [[3, 1]])


def test_no_rows(save):
    assert "has columns but no rows" in refusal(save(pa.table({"a": pa.array([], pa.float64())})))


def test_damaged_files(save, table):
    path = save(pa.table({name: table[:, i] for i, name in enumerate("abc")}))
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:3], b"nothing of the kind" * 20):
        path.write_bytes(content)
        assert refusal(path).startswith(f"{path}: not a whole {path.suffix[1:]} file")
    path.write_bytes(b"")
    assert refusal(path) == f"{path}: the file is empty."


def test_parquet_damaged_in_the_middle(tmp_path, table):
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"a": table[:, 0]}), path, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[2000:2100] = bytes(100)
    path.write_bytes(content)
    assert "damaged" in refusal(path)


def test_repeated_names(tmp_path):
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table([[1.0], [2.0]], names=["a", "a"]), path)
    assert "the column name 'a' occurs twice" in refusal(path)


def test_a_pandas_index_is_no_feature(tmp_path, all_rows):
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index([7, 9], name="sample"))
    frame.to_parquet(tmp_path / "named.parquet")
    frame.rename_axis(None).to_parquet(tmp_path / "unnamed.parquet")
    for name in ("named", "unnamed"):
        samples = open_samples(tmp_path / f"{name}.parquet")
        assert samples.feature_names == ("a",)
        np.testing.assert_array_equal(all_rows(samples), [[1], [2]])


def test_polars_files(tmp_path, table, all_rows):
    frame = pl.DataFrame(table, schema=["a", "b", "c"], orient="row")
    frame.write_parquet(tmp_path / "x.parquet")
    frame.write_ipc(tmp_path / "x.arrow", compression="lz4")
    for name in ("x.parquet", "x.arrow"):
        np.testing.assert_array_equal(all_rows(open_samples(tmp_path / name)), table)


def test_arrow_stream(tmp_path, table, all_rows):
    data = pa.table({name: table[:, i] for i, name in enumerate("abc")})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data, max_chunksize=400)
    samples = open_samples(tmp_path / "x.arrow", columns=["c", "a"])
    assert samples.n_rows == 1100
    np.testing.assert_array_equal(all_rows(samples), table[:, [2, 0]])


def test_text_columns_hold_limits_and_words_as_those_of_csv(save, all_rows):
    data = pa.table({"site": ["u", "v", "w"], "As": ["0.5", "<0.25", "ND"], "Pb": [1.0, None, 2.0]})
    samples = open_samples(save(data), id="site")
    np.testing.assert_array_equal(all_rows(samples), [[0.5, 1], [0.25, np.nan], [np.nan, 2]])
    assert samples.limits == CellLimits(((0, 0.25),))
    assert samples.notes == ["As: 1 cell <0.25 censored at the floor 0.25, 1 cell 'ND' read as missing"]
    assert samples.ids() == {"site": ["u", "v", "w"]}


def test_dates_are_kept_as_text(save):
    data = pa.table({"day": pa.array([datetime.date(2020, 1, 31), None]), "a": [1.0, 2.0]})
    assert open_samples(save(data), id="day").ids() == {"day": ["2020-01-31", ""]}


def test_a_page_that_claims_no_values_is_damage(tmp_path, all_rows):
    """pyarrow takes it for the end of the row group, and says nothing."""
    path = tmp_path / "x.parquet"
    values = np.random.default_rng(0).standard_normal((5000, 3)).astype(np.float32)
    options = {"use_dictionary": False, "compression": "none", "data_page_size": 3000, "row_group_size": 3000}
    parquet.write_table(pa.table(list(values.T), names=list("abc")), path, **options)
    content, claimed = bytearray(path.read_bytes()), b"\x15\x80\x10\x15"  # 1024 values, a varint, between two fields
    content[content.index(claimed) + 2] = 0
    path.write_bytes(content)
    with pytest.raises(InputFileError, match="row group 0: not a whole parquet file"):
        all_rows(open_samples(path))
