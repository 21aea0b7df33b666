"""Labels as people give them, and columns of labels in frames and files."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unrelu.contracts import Block
from unrelu.errors import InputFileError, InvalidDataError, InvalidParameterError
from unrelu.tables import ArraySamples, open_samples, write_table
from unrelu.tables.groups import LabelledRows, row_labels, split_groups


@pytest.mark.parametrize(
    "given",
    [
        [2, 1, 2],
        [2.0, 1.0, 2.0],
        ["2", " 1", "2 "],
        np.array([2, 1, 2], dtype=np.float32),
        pd.Series([2, 1, 2], dtype="Int64"),
        pd.Series(["2", "1", "2"], dtype="category"),
        pl.Series([2, 1, 2]),
        np.array([2.0, "1", 2], dtype=object),
    ],
)
def test_one_label_is_one_text(given):
    labels = row_labels(given)
    assert labels.labels == ("1", "2")
    assert labels.index.tolist() == [1, 0, 1]


def test_dates_and_truths_are_labels():
    days = pd.to_datetime(pd.Series(["2024-05-02", "2024-05-01"]))
    assert row_labels(days).index.tolist() == [1, 0]
    assert row_labels([True, False]).labels == ("False", "True")


@pytest.mark.parametrize(
    "given",
    [
        [1.0, np.nan],
        ["a", ""],
        np.array(["a", None], dtype=object),
        pd.Series([1, None], dtype="Int64"),
        pd.to_datetime(pd.Series(["2024-05-02", None])),
    ],
)
def test_a_missing_label_is_refused(given):
    with pytest.raises(InvalidDataError, match="The group of 1 row is missing, first in row 1"):
        row_labels(given)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_a_frame(frame):
    table = frame({"site": ["b", "a"], "As": [0.5, 1.0]})
    rest, labels = split_groups(table, "site")
    assert list(rest.columns) == ["As"]
    assert labels.labels == ("a", "b")
    with pytest.raises(InvalidParameterError, match=r"groups: no column 'sit'\. Did you mean 'site'"):
        split_groups(table, "sit")
    with pytest.raises(InvalidDataError, match=r"missing \(column 'site'\)"):
        split_groups(frame({"site": ["b", None], "As": [0.5, 1.0]}), "site")


def test_only_frames_and_files_have_columns_to_name():
    with pytest.raises(InvalidParameterError, match="which only data frames and files have"):
        split_groups(np.ones((2, 2)), "site")
    with pytest.raises(InvalidParameterError, match="one label per row or a column's name"):
        split_groups(np.ones((2, 2)), np.ones((2, 1)))


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet", "rows.feather"])
def test_a_column_of_text_in_files(tmp_path, name):
    frame = pd.DataFrame({"As": [0.5, 1.0, 2.0], "site": ["b", "a", "b"], "Pb": [0.0, 1.0, 3.0]})
    write = {"csv": frame.to_csv, "gz": frame.to_csv, "parquet": frame.to_parquet, "feather": frame.to_feather}
    write[name.split(".")[-1]](tmp_path / name, **({"index": False} if "csv" in name else {}))
    rest, labels = split_groups(open_samples(tmp_path / name, drop="site"), "site")
    assert rest.feature_names == ("As", "Pb")
    assert labels.labels == ("a", "b")
    assert labels.index.tolist() == [1, 0, 1]
    with pytest.raises(InputFileError, match=r"is among columns= and groups=: leave it out of columns="):
        split_groups(open_samples(tmp_path / name, columns=["As", "Pb"]), "Pb")
    with pytest.raises(InputFileError, match="Did you mean 'site'"):
        split_groups(open_samples(tmp_path / name, drop="site"), "sites")


def test_a_column_of_numbers_in_files_of_several_kinds(tmp_path):
    values = np.array([[3.0, 0.5], [1.0, 1.0], [3.0, 2.0]])
    names = [tmp_path / name for name in ("a.npz", "b.parquet", "c.csv")]
    for name in names:
        write_table(name, values, ["day", "As"])
    rest, labels = split_groups(open_samples(names, block_rows=2), "day")
    assert rest.feature_names == ("As",)
    assert labels.index.tolist() == [1, 0, 1] * 3
    assert labels.labels == ("1", "3")
    np.save(tmp_path / "d.npy", values)
    rest, labels = split_groups(open_samples(tmp_path / "d.npy"), "0")
    assert rest.n_features == 1
    assert labels.index.tolist() == [1, 0, 1]


def test_a_missing_label_in_csv(tmp_path):
    (tmp_path / "rows.csv").write_text("day,As\n1,0.5\n,1\nNA,2\n")
    with pytest.raises(InvalidDataError, match=r"2 rows is missing \(column 'day'\), first in row 1"):
        split_groups(open_samples(tmp_path / "rows.csv"), "day")


class Unknown(ArraySamples):
    """Rows whose number only a full read can tell."""

    @property
    def n_rows(self):
        return None

    def blocks(self):
        for first in range(0, len(self._values), 2):
            yield Block(self._values[first : first + 2], first)


@pytest.mark.parametrize("n_labels", [3, 5])
def test_one_label_per_row(n_labels):
    labels = row_labels(np.arange(n_labels))
    with pytest.raises(
        InvalidParameterError, match=f"groups has {n_labels} labels, the table 4 rows: give one per row"
    ):
        LabelledRows(ArraySamples(np.ones((4, 1))), labels)
    with pytest.raises(InvalidParameterError, match=rf"groups has {n_labels} labels, the table .*4 rows"):
        list(LabelledRows(Unknown(np.ones((4, 1))), labels).blocks())


@pytest.mark.parametrize("weighted", [False, True])
def test_long_blocks_hold_the_same_rows(monkeypatch, weighted):
    monkeypatch.setattr("unrelu.tables.groups._LONG_ROWS", 5)
    values, weights = np.arange(24.0).reshape(12, 2), np.arange(12.0) if weighted else None
    blocks = list(LabelledRows(ArraySamples(values, weights, block_rows=3), long=True).blocks())
    assert [(block.first_row, len(block.values)) for block in blocks] == [(0, 6), (6, 6)]
    np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), values)
    if weighted:
        np.testing.assert_array_equal(np.concatenate([block.weights for block in blocks]), weights)
    labelled = LabelledRows(ArraySamples(values, weights, block_rows=3), row_labels(np.arange(12)))
    assert [len(block.values) for block in LabelledRows(labelled, long=True).blocks()] == [3, 3, 3, 3]
