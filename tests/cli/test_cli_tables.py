"""Tables as they come, on the command line: notes on their text cells, ids in every output, rows counted from 1."""

from __future__ import annotations

import csv
import json
import shlex
import zipfile

import numpy as np
import pytest

import unrelu


@pytest.fixture
def named(folder, rows):
    """The rows as a csv file with a name and a date for each of them, and the numbers as text."""
    cells = [[f"{value:.6f}" for value in row] for row in rows[:400]]
    path = folder / "named.csv"
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["site", "As", "Pb", "Fe"])
        writer.writerows([f"s{i}", *row] for i, row in enumerate(cells))
    return path


def lines(path) -> list[list[str]]:
    with open(path, newline="") as stream:
        return list(csv.reader(stream))


def test_text_cells_are_one_line_of_the_answer(run, folder):
    rng = np.random.default_rng(0)
    values = rng.normal(1.0, 1.0, (200, 2))
    text = "\n".join(";".join(("<0,25" if v < 0.25 else f"{v:.4f}".replace(".", ",")) for v in row) for row in values)
    (folder / "x.csv").write_text(f"As;Pb\n{text}\nND;1,5\n")
    result = run("fit", "x.csv", "--floor", "0.25", "-o", "m.npz")
    assert result.exit_code == 0, result.stderr
    output = [line for line in result.stdout.splitlines() if line.startswith("Text in cells:")]
    below = [int((column < 0.25).sum()) for column in values.T]
    assert output == [
        f"Text in cells: As: {below[0]} cells <0.25 censored at the floor 0.25, 1 cell 'ND' read as missing, Pb:"
        f" {below[1]} cells <0.25 censored at the floor 0.25."
    ]
    assert "--nondetect floor puts them at the floor" in result.stderr
    quiet = run("fit", "x.csv", "--floor", "0.25", "--nondetect", "floor", "--json", "-o", "m.npz")
    assert quiet.stderr == ""
    assert json.loads(quiet.stdout)["text_cells"][0].endswith("1 cell 'ND' censored at the floor 0.25")


def test_an_ordinary_table_brings_no_new_line(run, table):
    result = run("fit", table, "--json", "-o", "m.npz")
    assert "text_cells" not in json.loads(result.stdout)
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (
            "As\n<0.1\n<0.5\n1\n2\n",
            ["--limits", "one"],
            "2 different limits, <0.1, <0.5, but --limits one means one floor a column. --limits cell",
        ),
        ("As\n<0.5\n0.3\n1\n2\n", ["--limits", "one"], "<0.5 beside 0.3"),
        ("As\n1\n2\n", ["--limits", "lowest"], "Unknown --limits 'lowest'"),
        ("As\n1\n2\n", ["--nondetect", "zero"], "Unknown --nondetect 'zero'"),
        (
            "site,As\na,1\nb,2\n",
            [],
            "column 'site' holds text (row 1 (line 2): 'a'), not numbers. Leave it out with --drop",
        ),
        ("site,As\na,1\nb,2\n", [], "--id site"),
        ("site,As\na,1\nb,2\n", ["--id", "site", "--columns", "site,As"], "is among --columns and --id"),
        ("site,As\na,1\nb,2\n", ["--id", "sit"], "Did you mean 'site'?"),
        ("As,As\n1,2\n3,4\n", [], "the column name 'As' occurs twice"),
        (",As\n1,2\n3,4\n", [], "has no name (is it a row index?)"),
        ("As,Pb\n\n1,2\n3,-4\n5,6\n", [], "(1, first in row 2 (line 4))"),
        ("1,2\n3,-4\n5,6\n", ["--no-header"], "(1, first in row 2 (line 2))"),
    ],
)
def test_tables_that_need_a_word(run, refused, folder, content, options, words):
    (folder / "bad.csv").write_text(content)
    assert words in refused(run("fit", "bad.csv", *options, "-o", "out.npz"))


@pytest.mark.parametrize("option", ["--drop", "--id"])
def test_what_is_advised_for_columns_of_text_works_as_it_stands(run, refused, folder, rows, option):
    cells = "".join(f"A,x y,{a:.4f},{b:.4f},2020-01-01\n" for a, b, _ in rows[:200])
    (folder / "x.csv").write_text(f'site,"unit, old",As,Pb,date\n{cells}')
    said = refused(run("fit", "x.csv", "--margins", "normal", "-o", "m.npz"))
    words = shlex.split(said)
    advised = words[words.index(option) + 1].rstrip(".,")
    result = run("fit", "x.csv", "--margins", "normal", option, advised, "-o", "m.npz")
    assert result.exit_code == 0, result.stderr
    assert unrelu.load("m.npz").feature_names == ("As", "Pb")


def test_excel_without_its_reader_is_refused(run, refused, folder, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "python_calamine", None)
    (folder / "x.xlsx").write_bytes(b"x")
    assert 'pip install "unrelu[xlsx]"' in refused(run("fit", "x.xlsx", "-o", "out.npz"))


def test_a_header_of_numbers_is_a_warning_and_can_be_overruled(run, folder, rows):
    np.savetxt(folder / "x.csv", rows[:300], fmt="%.4f", delimiter=",", header="1990,1991,1992", comments="")
    result = run("fit", "x.csv", "--json", "-o", "m.npz")
    assert [column["name"] for column in json.loads(result.stdout)["columns"]] == ["1990", "1991", "1992"]
    assert "Warning: x.csv: the first line (1990, 1991, 1992) was read as column names" in result.stderr
    assert "Give --no-header if it is data, --header if it is not." in result.stderr
    result = run("fit", "x.csv", "--header", "--json", "-o", "m.npz")
    assert result.stderr == ""
    assert json.loads(result.stdout)["report"]["n_rows"] == 300
    result = run("fit", "x.csv", "--no-header", "--json", "-o", "m.npz")
    assert "the first line" not in result.stderr
    assert json.loads(result.stdout)["report"]["n_rows"] == 301


def test_a_floor_typed_with_four_digits_is_the_tables_own(run, folder):
    z = np.maximum(np.random.default_rng(0).normal(size=(400, 2)), np.log(0.3))
    np.savetxt(folder / "x.csv", z, fmt="%.10f", delimiter=",", header="As,Pb", comments="")
    options = ["--margins", "normal", "--method", "one_pass", "--json", "-o", "m.npz"]
    typed = run("fit", "x.csv", "--floor=-1.204", *options)
    assert "column 0 ('As'): -1.2039728043 for -1.204" in typed.stderr
    assert "Say --floor min if that is right" in typed.stderr
    right = run("fit", "x.csv", "--floor", "min", *options)
    assert right.stderr == ""
    assert json.loads(right.stdout)["columns"] == json.loads(typed.stdout)["columns"]


def test_zip_of_a_table(run, folder, table):
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.write(table, "rows.csv")
    assert run("fit", "x.zip", "-o", "m.npz").exit_code == 0


def test_ids_and_rows_from_one_in_scores(run, named):
    result = run("score", named, "--id", "site", "--top", 3, "-o", "scores.csv", "--json")
    assert result.exit_code == 0, result.stderr
    head, *body = lines("scores.csv")
    assert head[:3] == ["row", "site", "score"]
    assert [line[:2] for line in body[:2]] == [["1", "s0"], ["2", "s1"]]
    assert len(body) == 400
    for strange in json.loads(result.stdout)["most_outlying"]:
        assert strange["id"] == {"site": f"s{strange['row'] - 1}"}
        assert float(body[strange["row"] - 1][2]) == pytest.approx(strange["score"])
    shown = run("score", named, "--id", "site", "--top", 1)
    assert "site" in shown.stdout


@pytest.mark.slow  # several fits
def test_ids_in_what_factor_and_recover_write(run, refused, named):
    given = ["--id", "site", "--components", 1]
    result = run("factor", named, *given, "--hidden", "t.csv", "--latent", "c.parquet", "-o", "f.npz")
    assert result.exit_code == 0, result.stderr
    head, *body = lines("t.csv")
    assert head == ["site", "As", "Pb", "Fe"]
    assert [line[0] for line in body] == [f"s{i}" for i in range(400)]
    result = run("recover", "f.npz", named, "--id", "site", "--skip-bad-rows", "--outliers", "e.csv", "-o", "clean.csv")
    assert result.exit_code == 0, result.stderr
    for name in ("clean.csv", "e.csv"):
        head, *body = lines(name)
        assert (head, body[-1][0], len(body)) == (["site", "As", "Pb", "Fe"], "s399", 400)
    assert "unknown kind of file" in refused(run("factor", named, *given, "--hidden", "t.npy", "-o", "out.npz"))


def test_limits_of_single_cells_are_learned_or_refused_with_the_way_out(run, refused, folder):
    (folder / "x.csv").write_text("As,Pb\n<0.1,1\n<0.5,2\n0.3,3\n2,4\n")
    robust = ["fit", "x.csv", "--method", "robust"]
    for command in (robust, ["score", "x.csv"], ["check", "x.csv"], ["factor", "x.csv"], ["peel", "x.csv"]):
        for options in ([], ["--limits", "cell"]):
            line = refused(run(*command, *options))
            assert (
                "have limits of their own. Only RectifiedGaussianLearner, FloorImputer and RectifiedGaussianGraph"
                in line
            )
            assert "--limits highest" in line
    for options in ([], ["--limits", "cell"]):
        result = run("fit", "x.csv", *options, "-o", "m.npz")
        assert result.exit_code == 0, result.stderr
        words = " ".join(result.stdout.split())
        assert "As: 2 cells <0.1, <0.5 censored, each at its own limit." in words
        assert "by full_likelihood, as cells have limits of their own." in words
    result = run("fit", "x.csv", "--method", "one_pass", "-o", "one.npz")
    assert result.exit_code == 0, result.stderr
    assert "each at its own limit" in " ".join(result.stdout.split())


def test_two_rows_with_one_limit_have_no_errors_rather_than_absurd_ones(run, folder):
    (folder / "x.csv").write_text("As,Pb\n1,<0.5\n3,0.1\n")
    result = run("fit", "x.csv", "--json", "-o", "m.npz")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["columns"][1]["mean_stderr"] is None
    assert "barely determined" in result.stderr


def test_bad_files_are_left_out_and_named(folder, run, refused):
    for name in ("a", "b"):
        rows = unrelu.synthetic.random_model(2, random_state=0).sample(500, random_state=len(name))
        unrelu.tables.write_table(f"{name}.csv", rows, ["x", "y"])
    (folder / "c.csv").write_text("")
    assert "c.csv: the file is empty" in refused(run("fit", "*.csv"))
    result = run("fit", "*.csv", "--skip-bad-files", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["report"]["n_rows"]) == (0, 1000)
    assert found["skipped_files"] == {"c.csv": "c.csv: the file is empty."}
    assert any("1 bad file left out. c.csv" in line for line in found["warnings"])
    assert json.loads(run("info", "model.npz", "--json").stdout)["details"]["skipped_files"] == found["skipped_files"]
