"""Tables as laboratories deliver them: habits are read as they are meant, by every door, contradictions refused."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import unrelu
from tests.tables.habits import HABITS, below
from unrelu.cli.app import app
from unrelu.contracts import Samples
from unrelu.errors import DataWarning, InputFileError, InvalidDataError, InvalidParameterError
from unrelu.tables import open_samples, read_frame


def cells_of(samples: Samples) -> dict[str, list]:
    """What samples say of every cell: a number, a limit from below or above, or None."""
    limits = samples.limits
    floor, ceiling = (dict(limits.floor), dict(limits.ceiling)) if limits else ({}, {})
    found: dict[str, list] = {name: [] for name in samples.feature_names}
    for block in samples.blocks():
        for j, name in enumerate(samples.feature_names):
            for i, value in enumerate(block.values[:, j].tolist()):
                mark = 0 if block.censoring is None else int(block.censoring[i, j])
                mark = mark or -int(value == floor.get(j)) or int(value == ceiling.get(j))
                found[name].append(None if np.isnan(value) else value if not mark else ("<>"[mark > 0], value))
    return found


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        yield


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", HABITS)
def test_a_habit_is_read_as_it_is_meant(written, name):
    habit = HABITS[name]
    path = written(habit.content, habit.file)
    # "cell" marks each limit, so that a value at a limit differs from the limit
    samples = open_samples(path, **{"limits": "cell", **habit.options})
    assert cells_of(samples) == habit.cells
    table = unrelu.read_table(path, limits="cell")
    assert cells_of(table) == habit.cells
    assert {label: table.cells()[label] for label in table.labels} == habit.labels
    if "id" not in habit.options:
        assert open_samples(path, id=list(habit.labels), **habit.options).ids() == habit.labels
    assert len(table.notes) <= 3
    assert table.notes


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", HABITS)
def test_a_clean_table_says_the_same(written, tmp_path, name):
    habit = HABITS[name]
    path = written(habit.content, habit.file)
    for end in (".csv", ".tsv", ".parquet"):
        result = CliRunner().invoke(app, ["read", path, "-o", f"clean{end}", "--json"])
        assert result.exit_code == 0, result.output
        again = unrelu.read_table(f"clean{end}", limits="cell")
        assert cells_of(again) == habit.cells
        assert {label: again.cells()[label] for label in again.labels} == habit.labels
    facts = json.loads(result.stdout)
    assert [each["name"] for each in facts["columns"]] == list(habit.cells)
    assert facts["rows"] == len(next(iter(habit.cells.values())))
    for each, cells in zip(facts["columns"], habit.cells.values(), strict=True):
        assert each["limits"] == sorted({cell[1] for cell in cells if isinstance(cell, tuple) and cell[0] == "<"})
        assert each["missing"] in (cells.count(None), cells.count(None) - 1)  # a word without a limit is not missing


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize("name", ["EPA's qualifiers", "NADA's indicator", "NHANES's comment codes", "half-limits"])
def test_a_frame_is_read_as_its_file(written, library, name):
    habit = HABITS[name]
    frame = library.read_csv(written(habit.content, habit.file))
    assert cells_of(read_frame(frame, limits="cell")) == habit.cells
    assert cells_of(unrelu.read_table(frame, limits="cell")) == habit.cells


@pytest.mark.usefixtures("quiet")
def test_parquet_and_excel_are_read_as_csv(written, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    habit = HABITS["EPA's qualifiers"]
    pd.read_csv(written(habit.content, habit.file)).to_parquet("x.parquet")
    assert cells_of(open_samples("x.parquet", limits="cell")) == habit.cells
    book = openpyxl.Workbook()
    for row in [["Report 12 of a laboratory"], [], *(line.split(",") for line in habit.content.splitlines())]:
        book.active.append([float(cell) if cell[:1].isdigit() else cell for cell in row])
    book.active.insert_rows(4)
    for column, unit in (("B", "µg/L"), ("D", "µg/L")):
        book.active[f"{column}4"] = unit
    book.save("x.xlsx")
    samples = open_samples("x.xlsx", limits="cell")
    assert cells_of(samples) == habit.cells
    assert (
        "skipped above the header: line 1 (Report 12 of a laboratory); skipped below it: the units µg/L, µg/L"
        in (samples.notes[0])
    )
    assert samples.row_label(1) == "row 2 (line 6)"


# --- what is said, and what goes on -------------------------------------------------------------------------


def test_what_was_understood_is_said(written):
    habit = HABITS["EPA's qualifiers"]
    table = unrelu.read_table(written(habit.content, habit.file))
    assert repr(table).splitlines() == [
        "4 rows, 2 columns: Arsenic, Lead (labels: Location)",
        "  Arsenic: limits <0.5 (1), <1 (1), 50 % censored",
        "  Lead: limits <1 (1), 33 % censored",
        "read with what stands beside them: Arsenic (Arsenic_Q), Lead (Lead_Q); no measurements: Location",
        "3 of 8 cells below a limit (0.5, 1); 2 estimated (seen); 1 missing",
        "Suspicious: 1 value flagged as rejected, read as missing",
    ]
    assert table.to_frame().to_dict("list") == {
        "Location": ["MW-1", "MW-2", "MW-3", "MW-4"],
        "Arsenic": ["<0.5", "0.7", "2.4", "<1"],
        "Lead": ["12", "<1", "", "4.5"],
    }
    assert "Arsenic" in table._repr_html_()


def test_what_is_suspicious_is_warned_of(written):
    habit = HABITS["half-limits"]
    path = written(habit.content, habit.file)
    with pytest.warns(DataWarning, match=r"4 values half of a limit .* put below it\. \[as-delivered\]"):
        open_samples(path)
    frame = pd.read_csv(path)
    with pytest.warns(DataWarning, match="Well left out, as no measurements; 4 values half of a limit"):
        read_frame(frame)


def test_a_value_that_repeats_among_others_that_do_is_no_half_limit(written):
    path = written("As\n<0.5\n0.25\n0.25\n0.25\n0.5\n0.5\n0.75\n0.75\n1\n")
    assert cells_of(open_samples(path, limits="cell"))["As"] == [below(0.5), 0.25, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1]


def test_estimators_and_commands_read_by_the_same_rules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], size=300)
    x = np.maximum(np.exp(y), 0.5).round(4)
    plain = pd.DataFrame(np.where(x == 0.5, "<0.5", x.astype(str)), columns=["As", "Pb"])
    flagged = pd.DataFrame({"As": x[:, 0], "As_cen": x[:, 0] == 0.5, "Pb": x[:, 1], "Pb_cen": x[:, 1] == 0.5})
    long = pd.DataFrame(
        [
            (f"S{i}", name, x[i, j], "<" if x[i, j] == 0.5 else "")
            for i in range(300)
            for j, name in enumerate(["As", "Pb"])
        ],
        columns=["sample", "analyte", "result", "qualifier"],
    )
    expected = unrelu.RectifiedGaussianLearner("one_pass", margins="log").fit(plain)
    assert expected.floor_.tolist() == [0.5, 0.5]
    for table in (flagged, pl.from_pandas(flagged), unrelu.read_table(flagged), unrelu.read_table(long)):
        learner = unrelu.RectifiedGaussianLearner("one_pass", margins="log").fit(table)
        np.testing.assert_array_equal(learner.correlation_, expected.correlation_)
        assert learner.feature_names_in_.tolist() == ["As", "Pb"]
    weighted = unrelu.RectifiedGaussianLearner("one_pass", margins="log").fit(flagged, sample_weight=np.ones(300))
    np.testing.assert_allclose(weighted.correlation_, expected.correlation_, atol=1e-12)
    long.to_csv("long.csv", index=False)
    given = ["--method", "one_pass", "--margins", "log", "-o", "model.npz", "--json"]
    result = CliRunner().invoke(app, ["fit", "long.csv", *given])
    assert result.exit_code == 0, result.output
    assert "a row for each value" in json.loads(result.stdout)["text_cells"][0]
    np.testing.assert_array_equal(unrelu.load("model.npz").correlation, expected.distribution_.correlation)


def test_a_column_that_is_named_is_no_flag(written):
    path = written("As,As_nd\n0.5,1\n0.7,0\n0.9,0\n")
    assert cells_of(open_samples(path)) == {"As": [below(0.5), 0.7, 0.9]}
    assert cells_of(open_samples(path, columns=["As", "As_nd"])) == {"As": [0.5, 0.7, 0.9], "As_nd": [1, 0, 0]}
    assert cells_of(open_samples(path, drop="As_nd")) == {"As": [0.5, 0.7, 0.9]}


@pytest.mark.parametrize(
    "content",
    [
        "income,income_flag\n31.5,0\n28.1,1\n99.3,0\n45.2,1\n12.8,0\n",  # 1 marks no repeated low values
        "bp_lower,bp_upper\n80,120\n75,118\n90,140\n",  # no end is open, and none equal
        "credit,credit_limit\n10,50\n20,50\n60,80\n",  # a limit of another kind
        "x_lower,x,x_upper\n1,2,3\n2,3,4\n,4,5\n",  # an interval around an estimate
        "# a,b\n1,2\n3,4\n",  # as NumPy writes names
        "Nd,Pr\n1,2\n3,4\n",  # neodymium
    ],
)
def test_plain_tables_stay_as_they_are(written, content):
    path = written(content)
    samples = open_samples(path)
    first, *rows = content.splitlines()
    assert samples.feature_names == tuple(name.strip() for name in first.split(","))
    expected = [[float(cell) if cell else None for cell in row.split(",")] for row in rows]
    assert [list(row) for row in zip(*cells_of(samples).values(), strict=True)] == expected
    assert samples.notes == []
    frame = pd.read_csv(path)
    assert unrelu.tables.grid_table.plain_frame(frame, False) is frame


# --- what contradicts itself ----------------------------------------------------------------------------------

LONG = "sample,analyte,value,unit,limit\nS1,As,0.5,mg/l,0.1\nS1,Pb,2,mg/l,1\nS2,As,0.7,mg/l,0.1\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "Pb,As_flag\n1,<\n2,\n",
            "column 'As_flag' holds flags (<), but no column is called as the values that they mark",
        ),
        (
            "As,As_q,As_MDL\n0.9,U,0.5\n0.7,,0.5\n",
            "row 1 (line 2), column 'As': flagged as a non-detect, but 0.9 is above",
        ),
        (
            "As,As_q,As_MDL\n0.9,,0.5\n0.3,,0.5\n",
            "row 2 (line 3), column 'As': not flagged as a non-detect, but 0.3 is below",
        ),
        ("As,AsCen\n<0.9,FALSE\n0.3,FALSE\n", "row 1 (line 2), column 'As': '<0.9' contradicts its flag."),
        (
            "As,As_q\n-0.9,U\n0.3,\n",
            "row 1 (line 2), column 'As': flagged as a non-detect, but its limit -0.9 is not above 0",
        ),
        (
            "As,As_q,As_MDL\n,U,-0.5\n0.3,,0.1\n",
            "row 1 (line 2), column 'As_MDL': the limit -0.5 of a non-detect is not",
        ),
        (
            "As,As_q\n0.3,\n,U\n",
            "row 2 (line 3), column 'As': flagged as a non-detect, but neither a value nor a limit",
        ),
        (
            "As_lower,As_upper\n0.7,0.7\n0.9,0.5\n",
            "row 2 (line 3), column 'As_lower': the lower end 0.9 is above the upper",
        ),
        (
            "As_lower,As_upper\n0.7,0.7\n0.1,0.5\n",
            "row 2 (line 3), column 'As': '[0.1; 0.5]' says that a value is between",
        ),
        (
            "As,Pb\n1,2\n2,0.1-0.5\n3,4\n",
            "row 2 (line 3), column 'Pb': '0.1-0.5' says that a value is between two numbers",
        ),
        (
            f"{LONG}S1,As,0.6,mg/l,0.1\n",
            "row 4 (line 5), column 'value': a second value of 'As' in sample 'S1'; the first is in",
        ),
        (f"{LONG}S3,As,0.6,ug/l,0.1\n", "row 4 (line 5), column 'unit': the unit 'ug/l', but 'mg/l' in row 1 (line 2)"),
        (f"{LONG},As,0.6,mg/l,0.1\n", "row 4 (line 5), column 'sample': no sample is named"),
        (f"{LONG}S3,As,high,mg/l,0.1\n", "row 4 (line 5), column 'value': 'high' is no number, no limit and no word"),
        (
            "analyte,value\nAs,1\nPb,2\n",
            "column 'analyte' names analytes, a row for each value, but no column says which",
        ),
        ("As,As_q\n0.3,X7\n0.5,U\n0.6,\n", "row 1 (line 2), column 'As_q': what the flag 'X7' says is not known."),
        ("chem,x\nr,1\n", "column 'chem' holds text"),
    ],
)
def test_what_contradicts_itself_is_refused(written, content, said):
    path = written(content)
    with pytest.raises(InputFileError) as caught:
        open_samples(path)
    assert str(caught.value).startswith(f"data.csv: {said}")
    result = CliRunner().invoke(app, ["fit", path])
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_a_frame_that_contradicts_itself_is_refused_by_row():
    frame = pd.DataFrame({"As": [0.9, 0.7], "As_q": ["U", ""], "As_MDL": [0.5, 0.5]})
    said = "^Row 0 \\(the first is 0\\), column 'As': flagged as a non-detect, but 0.9 is above its limit 0.5"
    for read in (read_frame, unrelu.read_table, unrelu.RectifiedGaussianLearner().fit):
        with pytest.raises(InvalidDataError, match=said):
            read(frame)


# --- with an option -----------------------------------------------------------------------------------------


def test_two_values_of_a_sample_and_analyte(written):
    path = written("sample,analyte,value,rep\nS1,As,0.5,1\nS1,As,0.7,2\nS1,Pb,<2,1\nS1,Pb,<4,2\n")
    read = {each: unrelu.read_table(path, duplicates=each, limits="cell") for each in ("mean", "first", "rep")}
    assert cells_of(read["mean"]) == {"As": [0.6], "Pb": [below(3)]}
    assert cells_of(read["first"]) == {"As": [0.5], "Pb": [below(2)]}
    assert cells_of(read["rep"]) == {"As": [0.5, 0.7], "Pb": [below(2), below(4)]}
    assert read["rep"].labels == ("sample", "rep")
    assert "2 repeated values of a sample and analyte, mean taken" in read["mean"].notes[-1]
    mixed = written("sample,analyte,value\nS1,As,0.5\nS1,As,<0.7\n", "mixed.csv")
    with pytest.raises(InputFileError, match=r"no number is the mean of '0\.5' and '<0\.7'"):
        unrelu.read_table(mixed, duplicates="mean")
    with pytest.raises(InputFileError, match="duplicates='last' is neither"):
        unrelu.read_table(mixed, duplicates="last")


def test_codes_and_samples_that_are_named(written):
    path = written("As,As_q\n0.3,K\n0.5,U\n0.6,\n0.9,L\n")
    table = unrelu.read_table(path, flags={"K": "censored", "L": "above"})
    assert cells_of(table) == {"As": [below(0.3), below(0.5), 0.6, (">", 0.9)]}
    result = CliRunner().invoke(app, ["read", path, "--flags", "K=censored,L=above"])
    assert result.exit_code == 0, result.output
    assert "2 of 4 cells below a limit (0.3, 0.5); 1 above one" in result.stdout
    for wrong in ("K", "K=low"):
        assert CliRunner().invoke(app, ["read", path, "--flags", wrong]).exit_code == 2
    with pytest.raises(InvalidParameterError, match="Unknown flags 'low'"):
        unrelu.read_table(path, flags={"K": "low"})
    named = written("batch,analyte,value\nB1,As,1\nB2,As,<2\n", "named.csv")
    assert cells_of(unrelu.read_table(named, sample="batch")) == {"As": [1, below(2)]}
    with pytest.raises(InvalidParameterError, match="no column 'lot'"):
        unrelu.read_table(named, sample="lot")


def test_fractions_are_columns_of_their_own_where_there_are_several(written):
    path = written("sample,analyte,fraction,value\nS1,As,total,5\nS1,As,dissolved,3\nS1,Pb,total,2\n")
    assert list(cells_of(unrelu.read_table(path))) == ["As (total)", "As (dissolved)", "Pb"]


def test_what_is_no_table_of_a_laboratory(tmp_path):
    with pytest.raises(InvalidParameterError, match="source must be paths or a frame, got int"):
        unrelu.read_table(3)
    with pytest.raises(InvalidDataError, match="no rows or no columns"):
        unrelu.read_table(pd.DataFrame({"As": []}))


def test_codes_that_are_not_known_beside_others_that_are(written):
    header = "sample,analyte,result,detect_flag,lab_qualifiers,mdl\n"
    path = written(f"{header}S1,As,,N,Z9,0.1\nS2,As,0.4,Y,,0.1\nS3,As,0.2,Y,J,0.1\n")
    table = unrelu.read_table(path)
    assert cells_of(table) == {"As": [below(0.1), 0.4, 0.2]}
    assert table.notes[-1] == "Suspicious: 1 code beside other flags not known, passed over"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16", "utf-16-le", "utf-16-be"])
def test_names_in_any_encoding(written, encoding):
    path = written("Größe,µ\n1,2\n3,<4\n".encode(encoding))
    assert cells_of(open_samples(path)) == {"Größe": [1, 3], "µ": [2, below(4)]}
    dear = written("Preis (€)\n1\n".encode("cp1252" if encoding == "latin-1" else encoding))  # Latin-1 has no euro
    assert open_samples(dear).feature_names == ("Preis (€)",)


@pytest.mark.parametrize("separator", ["\t", ";", ",", "|", " ", "   "])
def test_text_files_with_any_separator(written, separator):
    content = "\n".join(separator.join(row) for row in (("As", "Pb"), ("0.5", "<2"), ("0.7", "3.5"), ("0.9", "4")))
    for name in ("x.txt", "README.txt"):
        path = written(content + "\n", name)
        assert cells_of(open_samples(path)) == {"As": [0.5, 0.7, 0.9], "Pb": [below(2), 3.5, 4]}
    written("As,Pb\n1,2\n", "x.csv")
    assert cells_of(open_samples(".")) == {"As": [1], "Pb": [2]}  # what ends in .txt is read where it is named


def test_a_text_of_numbers_separated_by_spaces(written):
    samples = open_samples(written(" 0.5  2\n 0.7  3\n10.5 12\n", "x.txt"))
    assert samples.feature_names is None
    assert next(samples.blocks()).values.tolist() == [[0.5, 2], [0.7, 3], [10.5, 12]]


def test_conditions_groups_and_several_files(written):
    written("site,As,As_q\nA,0.5,U\nA,0.7,\nB,0.9,\n", "1.csv")
    written("site,As,As_q\nC,0.6,\nC,0.8,J\n", "2.csv")
    both = ["1.csv", "2.csv"]
    assert cells_of(open_samples(both)) == {"As": [below(0.5), 0.7, 0.9, 0.6, 0.8]}
    assert cells_of(open_samples(both, where="site in ['A', 'C'] and As > 0.6")) == {"As": [0.7, 0.8]}
    rest, groups = open_samples(both).split_column("site")
    assert rest.feature_names == ("As",)
    assert groups.tolist() == ["A", "A", "B", "C", "C"]
    assert unrelu.read_table(both).cells()["site"] == ["A", "A", "B", "C", "C"]


def test_a_quotation_mark_that_is_not_closed(written):
    path = written('As,As_q\n0.5,U\n"0.7,\n' + "0.9,\n" * 60_000)
    with pytest.raises(InputFileError, match="Is a quotation mark not closed"):
        open_samples(path)
