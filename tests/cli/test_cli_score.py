"""score: outlier rows of a table, with and without a model, on the terminal, in files and as JSON."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import unrelu
from unrelu.fit.robust_rows.detection import OutlierScores
from unrelu.tables import write_table

NAMES = ["As", "Pb", "Fe"]
ROWS, PLANTED = 1000, 50


@pytest.fixture
def dirty(rows, truth):
    """Rows, in the first 50 of them Pb too high by 8 standard deviations."""
    changed = rows[:ROWS].copy()
    changed[:PLANTED, 1] += 8.0 * truth.std[1]
    return changed


@pytest.fixture
def dirty_table(folder, dirty):
    path = folder / "dirty.csv"
    write_table(path, dirty, NAMES)
    return path


def _lines(path, delimiter=","):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


def _numbers(lines, name):
    return np.array([float(line[name]) for line in lines])


# --- without a model ------------------------------------------------------------------------------


def test_the_table_of_scores_is_what_the_detector_finds(run, folder, dirty, dirty_table):
    result = run("score", dirty_table, "-o", "scores.csv")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    lines = _lines(folder / "scores.csv")
    assert list(lines[0]) == ["row", "score", "p_value", "outlier", "weight", "drivers"]
    detector = unrelu.FloorOutlierDetector().fit(dirty)
    np.testing.assert_array_equal(_numbers(lines, "row"), np.arange(len(dirty)) + 1)
    np.testing.assert_allclose(_numbers(lines, "score"), detector.score_samples(dirty), rtol=1e-8)
    np.testing.assert_allclose(_numbers(lines, "p_value"), detector.p_values(dirty), rtol=1e-6)
    np.testing.assert_array_equal(_numbers(lines, "outlier"), detector.predict(dirty) == -1)
    np.testing.assert_allclose(_numbers(lines, "weight"), detector.row_weights_, rtol=1e-6, atol=1e-12)
    # 8 standard deviations: none of 50 rows is missed, and no other cell comes near.
    assert all(line["outlier"] == "1" and line["drivers"].startswith("Pb +") for line in lines[:PLANTED])
    assert all((line["drivers"] == "") == (line["outlier"] == "0") for line in lines)


def test_the_terminal_shows_how_many_and_which(run, dirty_table):
    result = run("score", dirty_table, "--top", 4)
    assert result.exit_code == 0
    for words in ("1,000 rows of 3 columns", "that the model fits would have about 10", "p-value", "Pb +"):
        assert words in result.stdout
    assert "Weight: how much the row counted in the fit" in result.stdout
    assert sum(" yes " in line for line in result.stdout.splitlines()) == 4


def test_diagnostics_of_the_fit_are_one_table(run, folder):
    rng = np.random.default_rng(0)
    np.save(folder / "rounded.npy", np.round(5.0 * rng.normal(0.5, 1.0, (600, 4)).clip(0.0)) / 5.0)
    result = run("score", "rounded.npy", "--top", 1)
    assert result.exit_code == 0
    assert "The answer may be wrong: " in result.stdout
    assert "ties (4 columns)." in result.stdout
    assert "few different values" not in result.stderr  # said once


@pytest.mark.slow  # a study
def test_many_flagged_rows_may_be_a_skewed_table(run, folder):
    rng = np.random.default_rng(0)
    y = rng.standard_normal((600, 2))
    np.save(folder / "skewed.npy", np.maximum(np.exp(0.6 * y), 0.7))
    np.save(folder / "logs.npy", np.maximum(0.6 * y, np.log(0.7)))
    hint = "They are outliers only if the other rows fit"
    assert hint in run("score", "skewed.npy", "--floor", 0.7, "--margins", "normal").stdout
    assert hint not in run("score", "skewed.npy", "--floor", 0.7).stdout
    assert hint not in run("score", "logs.npy", f"--floor={np.log(0.7)}").stdout


def test_json_has_the_same_facts(run, folder, dirty_table):
    result = run("score", dirty_table, "-o", "scores.csv", "--top", 3, "--false-alarm-rate", 0.05, "--json")
    answer = json.loads(result.stdout)
    lines = _lines(folder / "scores.csv")
    assert answer["rows"] == ROWS
    assert answer["expected_if_clean"] == pytest.approx(0.05 * ROWS)
    assert answer["flagged"] == sum(line["outlier"] == "1" for line in lines)
    assert (answer["output"], answer["picture"], answer["model"]) == ("scores.csv", None, None)
    assert answer["report"]["method"] == "robust"
    scores = _numbers(lines, "score")
    assert [row["row"] for row in answer["most_outlying"]] == (np.argsort(scores)[:3] + 1).tolist()
    for row in answer["most_outlying"]:
        text = ", ".join(f"{driver['column']} {driver['residual']:+.1f}" for driver in row["drivers"])
        assert text == lines[row["row"] - 1]["drivers"]
        assert row["outlier"] is True
    flagged = _numbers(lines, "outlier") == 1
    assert scores[flagged].max() < answer["threshold"] <= scores[~flagged].min()
    assert _numbers(lines, "p_value")[flagged].max() < 0.05 <= _numbers(lines, "p_value")[~flagged].min()


@pytest.mark.parametrize("name", ["scores.parquet", "scores.feather", "scores.tsv", "scores.csv.gz"])
def test_the_kind_of_output_does_not_change_the_scores(run, folder, dirty_table, model, name):
    arguments = ("score", dirty_table, "--model", model, "--top", 0)
    assert run(*arguments, "-o", "scores.csv").exit_code == 0
    assert run(*arguments, "-o", name).exit_code == 0
    expected = _lines(folder / "scores.csv")
    if name.endswith((".parquet", ".feather")):
        read = pa.parquet.read_table if name.endswith(".parquet") else pa.feather.read_table
        table = read(folder / name)
        assert table.column("drivers").to_pylist() == [line["drivers"] or None for line in expected]
        found = table.column("score").to_numpy()
    elif name.endswith(".tsv"):
        found = _numbers(_lines(folder / name, "\t"), "score")
    else:
        import gzip

        (folder / "unpacked.csv").write_bytes(gzip.decompress((folder / name).read_bytes()))
        found = _numbers(_lines(folder / "unpacked.csv"), "score")
    np.testing.assert_allclose(found, _numbers(expected, "score"), rtol=1e-14)


@pytest.mark.slow  # the detector's tests say the same
def test_several_files_and_blocks_are_one_table(run, folder, dirty, dirty_table):
    """Rows are counted on from file to file; the fit, which reads block by block, is the same to rounding."""
    for part, some in enumerate((dirty[:400], dirty[400:])):
        write_table(folder / f"part-{part}.parquet", some, NAMES)
    run("score", dirty_table, "-o", "one.csv")
    assert run("score", "part-*.parquet", "-o", "two.csv").exit_code == 0
    one, two = _lines(folder / "one.csv"), _lines(folder / "two.csv")
    np.testing.assert_allclose(_numbers(two, "score"), _numbers(one, "score"), rtol=1e-7)
    assert [line["drivers"] for line in two] == [line["drivers"] for line in one]


@pytest.mark.slow  # several fits
def test_floors_tolerance_and_columns_reach_the_fit(run, folder, dirty):
    shifted = dirty + np.array([1.0, 0.0, -2.0])
    shifted[dirty == 0.0] += np.random.default_rng(0).uniform(-0.01, 0.01, int(np.sum(dirty == 0.0)))
    write_table(folder / "rows.csv", np.column_stack([np.arange(float(ROWS)), shifted]), ["id", *NAMES])
    options = ("--drop", "id", "--floor", "As=1,Fe=-2", "--floor-tolerance", 0.01, "-o", "scores.csv")
    assert run("score", "rows.csv", *options).exit_code == 0
    detector = unrelu.FloorOutlierDetector(floor=[1.0, 0.0, -2.0], floor_tolerance=0.01).fit(shifted)
    found = _numbers(_lines(folder / "scores.csv"), "score")
    np.testing.assert_allclose(found, detector.score_samples(shifted), rtol=1e-8)


@pytest.mark.slow  # the detector's tests say the same
def test_the_same_seed_gives_the_same_bytes(run, folder, dirty_table):
    for name in ("one.csv", "two.csv"):
        run("score", dirty_table, "-o", name, "--seed", 5)
    assert (folder / "one.csv").read_bytes() == (folder / "two.csv").read_bytes()


def test_top_zero_and_one_row_and_standard_input(run, dirty_table, model):
    result = run("score", dirty_table, "--model", model, "--top", 0)
    assert result.exit_code == 0
    assert "p-value" not in result.stdout
    assert json.loads(run("score", dirty_table, "--model", model, "--top", 0, "--json").stdout)["most_outlying"] == []
    result = run("score", "-", "--model", model.name, "--json", input="As,Pb,Fe\n0,99,0\n")
    answer = json.loads(result.stdout)
    assert (answer["rows"], answer["flagged"], answer["most_outlying"][0]["row"]) == (1, 1, 1)
    assert result.stderr == ""


# --- with a model ---------------------------------------------------------------------------------


def test_columns_are_matched_to_the_model_by_name(run, folder, dirty, truth, model):
    order = [2, 0, 1]
    header = "site," + ",".join(NAMES[j] for j in order)
    body = [f"lake {i}," + ",".join(repr(float(x)) for x in row[order]) for i, row in enumerate(dirty[:500])]
    (folder / "other.csv").write_text("\n".join([header, *body]) + "\n")
    assert run("score", "other.csv", "--model", model, "-o", "scores.csv").exit_code == 0
    lines = _lines(folder / "scores.csv")
    assert "weight" not in lines[0]
    scorer = OutlierScores.of_model(truth)
    np.testing.assert_allclose(_numbers(lines, "score"), scorer.score(dirty[:500]), rtol=1e-12)
    assert all(line["drivers"].startswith("Pb +") for line in lines[:PLANTED])


def test_some_of_the_models_columns_are_scored_by_their_own_distribution(run, folder, dirty, dirty_table, truth, model):
    for options, wanted in ((("--drop", "Pb"), ["As", "Fe"]), (("--columns", "Fe,Pb"), ["Fe", "Pb"])):
        assert run("score", dirty_table, "--model", model, *options, "-o", "scores.csv").exit_code == 0
        scorer = OutlierScores.of_model(truth.marginal(wanted))
        expected = scorer.score(np.ascontiguousarray(dirty[:, [NAMES.index(name) for name in wanted]]))
        np.testing.assert_allclose(_numbers(_lines(folder / "scores.csv"), "score"), expected, rtol=1e-12)


def test_a_model_without_names_goes_by_position(run, refused, folder, dirty, truth):
    unrelu.RectifiedGaussian(truth.mean, truth.covariance).save(folder / "bare.npz")
    write_table(folder / "rows.npy", dirty)
    answer = json.loads(run("score", "rows.npy", "--model", "bare.npz", "--json").stdout)
    assert answer["most_outlying"][0]["drivers"][0]["column"] == "x1"
    line = refused(run("score", "rows.npy", "--drop", "0", "--model", "bare.npz"))
    assert "bare.npz has 3 columns, the table 2" in line


def test_a_cell_off_a_constant_column_is_named(run, folder):
    unrelu.RectifiedGaussian([1.0, 5.0], np.diag([1.0, 0.0]), feature_names=["As", "pH"]).save(folder / "model.npz")
    write_table(folder / "rows.csv", np.array([[1.0, 5.0], [1.0, 6.0]]), ["As", "pH"])
    assert run("score", "rows.csv", "--model", "model.npz", "-o", "scores.csv").exit_code == 0
    lines = _lines(folder / "scores.csv")
    assert [(line["outlier"], line["drivers"]) for line in lines] == [("0", ""), ("1", "pH +inf")]


def test_pictures(run, folder, dirty_table, model):
    for top in (5, 0):
        result = run("score", dirty_table, "--model", model, "--picture", "scores.png", "--top", top)
        assert "Picture written to scores.png" in result.stdout
        assert (folder / "scores.png").read_bytes().startswith(b"\x89PNG")


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.csv"], "no such file"),
        (["rows.csv", "--false-alarm-rate", "0"], "--false-alarm-rate must be a number between 0 and 1"),
        (["rows.csv", "--false-alarm-rate", "1"], "--false-alarm-rate must be a number between 0 and 1"),
        (["rows.csv", "--false-alarm-rate", "nan"], "--false-alarm-rate must be a number between 0 and 1"),
        (["rows.csv", "--columns", "As,Zn"], "no column 'Zn'"),
        (["rows.csv", "--floor", "Zn=1"], "no column 'Zn'"),
        (["rows.csv", "--model", "nowhere.npz"], "There is no model file nowhere.npz"),
        (["rows.csv", "--model", "truth.npz", "--floor", "0"], "--floor belongs to a fit"),
        (["rows.csv", "--model", "truth.npz", "--columns", "Zn"], "truth.npz has no column 'Zn'. It has As, Pb"),
        (["rows.csv", "--model", "truth.npz", "--drop", "As,Pb,Fe"], "No column of truth.npz is left"),
        (["rows.csv", "--picture", "picture.doc"], "unknown kind of picture"),
    ],
)
def test_unusable_arguments_are_refused(run, refused, folder, table, model, arguments, words):
    assert words in refused(run("score", *arguments, "-o", "scores.csv"), allowed=set())
    assert sorted(os.listdir(folder)) == ["rows.csv", "truth.npz"]


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("scores.npy", "unknown kind of file. Known are .csv"),
        ("rows.csv", "also an input"),
        ("truth.npz", "also an input"),
        ("nowhere/scores.csv", "does not exist"),
    ],
)
def test_unusable_outputs_are_refused_before_anything_is_read(run, refused, table, model, monkeypatch, output, words):
    monkeypatch.setattr("unrelu.tables.open_samples", lambda *_, **__: pytest.fail("read before checking"))
    before = table.read_bytes(), model.read_bytes()
    assert words in refused(run("score", table, "--model", model, "-o", output))
    assert (table.read_bytes(), model.read_bytes()) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x[:5], "Only 5 rows for 3 columns"),
        (lambda x: np.where(np.arange(len(x))[:, None] < 1800, x[0], x), "60% of the rows are identical"),
        (lambda x: np.where(np.arange(len(x))[:, None] == 7, -1.0, x), "first in row 8 (line 9)"),
    ],
    ids=["few rows", "identical rows", "negative"],
)
def test_tables_that_cannot_be_scored_are_refused(run, refused, folder, rows, change, words):
    write_table(folder / "bad.csv", change(rows), NAMES)
    (folder / "scores.csv").write_text("old")
    line = refused(run("score", "bad.csv", "-o", "scores.csv", "--picture", "scores.png"))
    assert words in line
    assert "method=" not in line  # advice is in words of the command line
    assert (folder / "scores.csv").read_text() == "old"
    assert not (folder / "scores.png").exists()


def test_rows_that_the_model_cannot_have_are_refused(run, refused, folder, table, model):
    (folder / "bad.csv").write_text("As,Pb,Fe\n1,2,3\n1,inf,3\n")
    line = refused(run("score", "bad.csv", "--model", model, "-o", "scores.csv"))
    assert "column 1 ('Pb') (1, first in row 2 (line 3))" in line
    (folder / "bad.csv").write_text("As,Fe\n1,2\n")
    line = refused(run("score", "bad.csv", "--model", model, "-o", "scores.csv"))
    assert "no column 'Pb'" in line
    assert "has the columns As, Pb, Fe" in line
    assert not (folder / "scores.csv").exists()


@pytest.mark.slow  # a study
def test_margins_leave_the_tails_of_skewed_columns_alone(run, skewed):
    given = ("score", skewed, "--drop", "count", "--floor", "As=0.5")
    fitted = json.loads(run(*given, "--margins", "auto", "--json").stdout)
    assert fitted["flagged"] < 20  # of 800, and 8 of a clean table
    shown = " ".join(run(*given, "--margins", "normal").stdout.split())
    assert int(re.search(r"Flagged (\d+) rows", shown)[1]) > 80
    assert "the tail of a skewed column is flagged as well, unless --margins auto fits it." in shown


def test_a_model_with_margins_scores_rows_in_its_units(run, skewed):
    run("fit", skewed, "-o", "out.npz", "--floor", "As=0.5", "--margins", "auto")
    answer = json.loads(run("score", skewed, "--model", "out.npz", "--json").stdout)
    assert answer["flagged"] < 25
    refusal = run("score", skewed, "--model", "out.npz", "--margins", "log")
    assert (refusal.exit_code, "--margins belongs to a fit, and out.npz has its own" in refusal.stderr) == (2, True)


PEAK = """
import resource, sys
from unrelu.cli import main
try:
    main()
except SystemExit as end:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
    raise
"""


@pytest.mark.slow
def test_memory_is_set_by_the_block(folder):
    """Of a table beyond the first rows two numbers a row are kept: its score and its p-value."""
    distribution = unrelu.synthetic.random_model(10, random_state=0)
    distribution.save("model.npz")
    rows = distribution.sample(100_000, random_state=1)
    peaks = []
    for copies in (2, 15):
        unrelu.tables.write_table("rows.parquet", (rows for _ in range(copies)))
        command = [sys.executable, "-c", PEAK, "score", "rows.parquet", "--model", "model.npz", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stderr.split()[-1]))
    table = rows.nbytes * 13 / 2**20  # MiB more in the second file
    assert peaks[1] - peaks[0] < 0.6 * table, peaks
