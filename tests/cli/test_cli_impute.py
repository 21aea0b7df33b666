"""impute: hidden cells filled in, with and without a model, in files of every kind, and what is refused."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pytest

import unrelu
from unrelu.tables import write_table

NAMES = ["As", "Pb", "Fe"]
FEW = 400


@pytest.fixture
def holes(folder, rows):
    """Rows with floored cells and some that are missing, all of one row."""
    changed = rows[:FEW].copy()
    changed[::9, 2] = np.nan
    changed[5] = np.nan
    write_table(folder / "holes.csv", changed, NAMES)
    return changed


def _read(path, **options):
    read = {".csv": pd.read_csv, ".tsv": pd.read_table, ".parquet": pd.read_parquet, ".feather": pd.read_feather}
    return read[os.path.splitext(path)[1]](path, **options)


def test_the_real_program_fills_in_what_the_imputer_does(program, folder, holes):
    result = program("impute", "holes.csv", "-o", "out.csv", "--std", "std.csv", "--mask", "mask.csv")
    assert (result.returncode, result.stderr) == (0, "")
    imputer = unrelu.FloorImputer().fit(holes)
    np.testing.assert_allclose(_read("out.csv"), imputer.transform(holes), rtol=1e-10)
    np.testing.assert_allclose(_read("std.csv"), imputer.std(holes), rtol=1e-10)
    np.testing.assert_array_equal(_read("mask.csv"), imputer.mask(holes))
    assert list(_read("out.csv")) == NAMES
    shown = " ".join(result.stdout.split())
    for words in (
        "400 rows of 3 columns",
        "1 row with no value, filled in by the model alone",
        "too little spread",
        "written to mask.csv",
    ):
        assert words in shown


def test_the_answer_counts_cells_and_gives_means(run, holes):
    answer = json.loads(run("impute", "holes.csv", "--method", "one_pass", "-o", "out.csv", "--json").stdout)
    floored, missing = holes == 0.0, np.isnan(holes)
    assert answer["rows"] == FEW
    assert answer["cells_floored"] == floored.sum()
    assert answer["cells_missing"] == missing.sum()
    assert answer["cells_filled"] == (floored | missing).sum()
    assert answer["rows_all_missing"] == 1
    completed = _read("out.csv")
    for j, column in enumerate(answer["columns"]):
        x = holes[:, j]
        assert column["name"] == NAMES[j]
        assert column["share_hidden"] == pytest.approx(np.mean(~(x > 0.0)))
        assert column["mean_seen"] == pytest.approx(x[x > 0.0].mean())
        assert column["mean_at_limits"] == pytest.approx(np.nanmean(x))
        assert column["mean_completed"] == pytest.approx(completed[NAMES[j]].mean())
    assert answer["report"]["method"] == "one_pass"


def test_medians_and_quantiles(run, holes):
    assert run("impute", "holes.csv", "-o", "out.csv", "--median", "--quantile", ".05,.95", "--quantile", 0.025).stdout
    found = _read("out.csv")
    ends = ("", "_q2.5", "_q05", "_q95")
    assert list(found) == [name + end for end in ends for name in NAMES]
    imputer = unrelu.FloorImputer().fit(holes)
    for end, level in zip(ends, (0.5, 0.025, 0.05, 0.95), strict=True):
        mine = found[[name + end for name in NAMES]]
        np.testing.assert_allclose(mine, imputer.quantile(holes, level), rtol=1e-10)


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet", "out.feather"])
def test_draws_are_tables_one_below_the_other(run, folder, holes, name):
    frame = pd.DataFrame(holes, columns=NAMES)
    frame.insert(0, "site", [f"lake {i}" for i in range(FEW)])
    frame.to_csv(folder / "sites.csv", index=False)
    result = run("impute", "sites.csv", "--id", "site", "-o", name, "--draws", 3, "--seed", 7, "--mask", "m.csv")
    assert result.exit_code == 0, result.stderr
    found = _read(name)
    assert list(found) == ["draw", "site", *NAMES]
    assert list(_read("m.csv")) == ["site", *NAMES]
    expected = unrelu.FloorImputer(random_state=7).fit(holes).draw(holes, 3)
    for draw in (1, 2, 3):
        mine = found[found["draw"] == draw]
        assert mine["site"].tolist() == frame["site"].tolist()
        np.testing.assert_allclose(mine[NAMES], expected[draw - 1], rtol=1e-10)
    assert "too little spread" not in result.stdout


def test_draws_stream_in_parts_of_rows(run, folder, holes, monkeypatch):
    run("impute", "holes.csv", "-o", "whole.csv", "--draws", 4)
    monkeypatch.setattr("unrelu.posterior.draws._NUMBERS", 4 * 3 * 37)
    answer = json.loads(run("impute", "holes.csv", "-o", "parts.csv", "--draws", 4, "--json").stdout)
    whole, parts = _read("whole.csv"), _read("parts.csv")
    assert parts["draw"].tolist()[:75] == [1] * 37 + [2] * 37 + [3]
    pd.testing.assert_frame_equal(parts.sort_values("draw", kind="stable").reset_index(drop=True), whole)
    assert answer["columns"][0]["mean_completed"] == pytest.approx(whole["As"].mean())


def test_a_model_fills_in_its_columns_by_name(run, folder, holes, truth, model):
    frame = pd.DataFrame(holes[:, [2, 0, 1]], columns=["Fe", "As", "Pb"])
    frame.to_csv(folder / "other.csv", index=False)
    assert run("impute", "other.csv", "--model", model, "-o", "out.csv").exit_code == 0
    np.testing.assert_allclose(_read("out.csv"), truth.impute(holes), rtol=1e-10)
    unrelu.FloorImputer.from_model(truth).save(folder / "imputer.npz")
    assert run("impute", "holes.csv", "--model", "imputer.npz", "--columns", "As,Fe", "-o", "two.csv").exit_code == 0
    expected = truth.marginal(["As", "Fe"]).impute(holes[:, [0, 2]])
    np.testing.assert_allclose(_read("two.csv"), expected, rtol=1e-10)


def test_values_and_limits_are_those_of_the_table(run, folder):
    rng = np.random.default_rng(0)
    y = np.exp(rng.multivariate_normal(np.zeros(2), [[1.0, 0.8], [0.8, 1.0]], 500))
    cells = [["<0.5" if a <= 0.5 else f"{a:.6f}", f"{b:.6f}"] for a, b in y.tolist()]
    (folder / "text.csv").write_text("As,Pb\n" + "\n".join(map(",".join, cells)) + "\n")
    given = ("impute", "text.csv", "-o", "out.csv", "--margins", "log", "--floor", "Pb=none", "--picture", "p.png")
    answer = json.loads(run(*given, "--json").stdout)
    assert "censored at the floor 0.5" in answer["text_cells"][0]
    assert answer["columns"][0]["mean_at_limits"] == pytest.approx(np.maximum(y[:, 0], 0.5).mean(), abs=1e-6)
    found, low = _read("out.csv"), y[:, 0] <= 0.5
    assert found["As"][low].between(0.0, 0.5, inclusive="neither").all()
    np.testing.assert_allclose(found[~low], y[~low], atol=1e-6)
    # the means of the hidden values, to 4 standard errors
    off = found["As"][low] - y[low, 0]
    assert abs(off.mean()) < 4.0 * off.std() / np.sqrt(low.sum())
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")


def test_limits_of_single_cells_are_not_the_models(run, folder, truth, model):
    (folder / "labs.csv").write_text("As,Pb,Fe\n<0.5,1.2,<0.1\n0.7,<0.8,-0.3\n")
    values, nan = np.array([[0.5, 1.2, 0.1], [0.7, 0.8, -0.3]]), np.nan
    floor = np.array([[0.5, nan, 0.1], [nan, 0.8, nan]])
    options = ("--limits", "cell", "--model", model)
    assert run("impute", "labs.csv", *options, "-o", "out.csv").exit_code == 0
    np.testing.assert_allclose(_read("out.csv"), truth.impute(values, floor=floor), rtol=1e-10)
    found = json.loads(run("info", model, "--table", "labs.csv", "--limits", "cell", "--json").stdout)["likelihood"]
    assert found["log_likelihood"] == pytest.approx(truth.log_prob(values, floor=floor).sum())
    assert json.loads(run("predict", "labs.csv", "--column", "Pb", *options, "--json").stdout)["values"] == 0
    others = np.array([[0.5, nan, 0.1], [0.7, nan, -0.3]])
    unlimited = truth.with_parts(floor=-np.inf)
    expected = unlimited.impute(others, floor=floor)[:, 1]
    assert run("predict", "labs.csv", "--column", "Pb", "--hidden", *options, "-o", "out.csv").exit_code == 0
    np.testing.assert_allclose(_read("out.csv")["mean"], expected, rtol=1e-9)


def test_floors_of_0_stay_beside_limits_of_single_cells(run, folder, truth, model):
    (folder / "labs.csv").write_text("As,Pb,Fe\n<0.5,,0\n<0.1,0,\n0.7,1.5,0.2\n")
    nan = np.nan
    values, floor = np.array([[0.5, nan, 0.0], [0.1, 0.0, nan], [0.7, 1.5, 0.2]]), np.zeros((3, 3))
    floor[:, 0] = [0.5, 0.1, nan]
    said = run("impute", "labs.csv", "--model", model, "-o", "out.csv").stdout
    assert "Missing cells of Pb, Fe: filled as the table would show them" in " ".join(said.split())
    found = _read("out.csv").to_numpy()
    np.testing.assert_allclose(found, truth.impute(values, floor=floor), rtol=1e-10)
    assert (found[[0, 1], [1, 2]] >= 0.0).all()
    assert (found[[0, 1], [2, 1]] < 0.0).all()


@pytest.mark.parametrize(
    ("fill", "below"), [(fill, below) for fill in ("missing", "hidden") for below in ("auto", "latent", "floor")][:-1]
)
def test_only_some_cells_are_filled_in(run, folder, holes, fill, below):
    given = ("impute", "holes.csv", "--method", "one_pass", "--margins", "normal", "--fill", fill, "--below", below)
    files = ("-o", "out.csv", "--std", "std.csv", "--mask", "mask.csv", "--picture", "p.png")
    result = run(*given, *files)
    assert result.exit_code == 0, result.stderr
    assert "Left as they are:" in result.stdout
    imputer = unrelu.FloorImputer("one_pass", margins="normal", fill=fill, below=below).fit(holes)
    np.testing.assert_allclose(_read("out.csv"), imputer.transform(holes), rtol=1e-10)
    np.testing.assert_allclose(_read("std.csv"), imputer.std(holes), rtol=1e-10)
    np.testing.assert_array_equal(_read("mask.csv"), imputer.mask(holes))
    answer = json.loads(run(*given, "-o", "out.csv", "--json").stdout)
    assert answer["cells_filled"] == imputer.mask(holes).sum()
    assert (answer["fill"], answer["below"]) == (fill, below)
    distribution = imputer.distribution_.column_summary(below="latent" if fill == "hidden" else below)
    assert [column["missing_as_seen"] for column in answer["columns"]] == [below != "latent"] * 3
    as_seen = "Missing cells of As, Pb, Fe: filled as the table would show them"
    assert (as_seen in " ".join(result.stdout.split())) == (fill == "missing" and below != "latent")
    for j, column in enumerate(answer["columns"]):
        assert column["mean_completed"] == pytest.approx(np.nanmean(imputer.transform(holes)[:, j]))
        assert column["mean_of_model"] == pytest.approx(distribution[j]["mean"])


def test_draws_of_one_model(run, folder, holes, model):
    given = ("impute", "holes.csv", "--method", "one_pass", "--margins", "normal", "-o", "out.csv", "--draws", 2)
    answer = json.loads(run(*given, "--parameters", "fitted", "--json").stdout)
    imputer = unrelu.FloorImputer("one_pass", margins="normal").fit(holes)
    expected = imputer.draw(holes, 2, parameters="fitted").reshape(-1, 3)
    np.testing.assert_allclose(_read("out.csv")[NAMES], expected, rtol=1e-10)
    assert answer["parameters"] == "fitted"
    assert json.loads(run(*given, "--json").stdout)["parameters"] == "drawn"
    np.testing.assert_allclose(_read("out.csv")[NAMES], imputer.draw(holes, 2).reshape(-1, 3), rtol=1e-10)
    known = ("impute", "holes.csv", "--model", model, "-o", "out.csv", "--draws", 2, "--json")
    assert json.loads(run(*known).stdout)["parameters"] == "fitted"


def test_nothing_hidden_is_no_error(run, folder, rows):
    write_table(folder / "full.csv", rows[:50] + 1.0, NAMES)
    result = run("impute", "full.csv", "--floor", "none", "-o", "out.csv", "--picture", "p.png")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(_read("out.csv"), rows[:50] + 1.0, rtol=1e-12)
    assert "Filled in 0 of 150 cells" in result.stdout
    assert "too little spread" not in result.stdout


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.csv"], "no such file"),
        (["rows.csv", "--columns", "As,Zn"], "no column 'Zn'"),
        (["rows.csv", "--quantile", "1.5"], "--quantile: '1.5' is no number between 0 and 1"),
        (["rows.csv", "--quantile", "0"], "--quantile: '0' is no number between 0 and 1"),
        (["rows.csv", "--quantile", "half"], "'half' is no number between 0 and 1"),
        (["rows.csv", "--draws", "2", "--median"], "leave out --median and --quantile"),
        (["rows.csv", "--draws", "2", "--mask", "mask.doc"], "unknown kind of file"),
        (["rows.csv", "--fill", "mising"], "Did you mean 'missing'?"),
        (["rows.csv", "--below", "zero"], "There are: auto, latent, floor"),
        (["rows.csv", "--fill", "hidden", "--below", "floor"], "use --below latent"),
        (["rows.csv", "--parameters", "fitted"], "give --draws"),
        (["rows.csv", "--draws", "2", "--parameters", "fit"], "Did you mean 'fitted'?"),
        (["rows.csv", "--model", "truth.npz", "--draws", "2", "--parameters", "drawn"], "use --parameters fitted"),
        (["rows.csv", "--method", "one_pas"], "Did you mean 'one_pass'?"),
        (["rows.csv", "--components", "4"], "--components must be between 1 and 3"),
        (["rows.csv", "--floor", "99"], "below the floor 99"),
        (["rows.csv", "--model", "truth.npz", "--floor", "0"], "--floor belongs to a fit"),
        (["rows.csv", "--model", "truth.npz", "--method", "robust"], "--method belongs to a fit"),
        (["rows.csv", "--model", "nowhere.npz"], "There is no model file nowhere.npz"),
        (["rows.csv", "--model", "truth.npz", "--columns", "Zn"], "truth.npz has no column 'Zn'"),
        (["rows.csv", "--id", "Zn"], "no column 'Zn'"),
    ],
)
def test_unusable_arguments_are_refused(run, refused, folder, table, model, arguments, words):
    assert words in refused(run("impute", *arguments, "-o", "out.csv"))
    assert sorted(os.listdir(folder)) == ["rows.csv", "truth.npz"]


def test_no_draws_are_wrong_usage(run, table):
    result = run("impute", table, "--draws", 0)
    assert (result.exit_code, "Traceback" in result.stderr) == (2, False)
    assert "--draws" in result.stderr


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (["-o", "rows.csv"], "also an input"),
        (["-o", "out.csv", "--std", "rows.csv"], "also an input"),
        (["-o", "out.csv", "--mask", "truth.npz"], "also an input"),
        (["-o", "out.csv", "--std", "out.csv"], "two outputs"),
        (["-o", "nowhere/out.csv"], "does not exist"),
        (["-o", "out.doc"], "unknown kind of file"),
        (["-o", "out.npy", "--draws", "2"], "unknown kind of file"),
    ],
)
def test_outputs_are_checked_before_anything_is_read(run, refused, table, model, monkeypatch, outputs, words):
    monkeypatch.setattr("unrelu.tables.open_samples", lambda *_, **__: pytest.fail("read before checking"))
    before = table.read_bytes(), model.read_bytes()
    assert words in refused(run("impute", table, "--model", model, *outputs))
    assert (table.read_bytes(), model.read_bytes()) == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("As,Pb,Fe\n", "no rows"),
        ("As,Pb\n1,2\n", "no column 'Fe'"),
        ("As,Pb,Fe\n1,2,3\n1,-2,3\n", "column 1 ('Pb') (1, first in row 2 (line 3))"),
        ("As,Pb,Fe\n1,2,3\n1,inf,3\n", "first in row 2 (line 3)"),
        ("As,Pb,Fe\n1,2,3\n1,abc,3\n", "row 2 (line 3), column 'Pb': 'abc' is not a number"),
    ],
)
def test_tables_that_the_model_cannot_have_are_refused(run, refused, folder, model, text, words):
    (folder / "bad.csv").write_text(text)
    (folder / "old.csv").write_text("old")
    assert words in refused(run("impute", "bad.csv", "--model", model, "-o", "old.csv", "--picture", "p.png"))
    assert (folder / "old.csv").read_text() == "old"
    assert not (folder / "p.png").exists()


def test_a_column_that_would_be_there_twice_is_refused(run, refused, folder, holes):
    pd.DataFrame(holes, columns=["As", "draw", "As_q05"]).to_csv(folder / "bad.csv", index=False)
    assert "two columns 'draw'" in refused(run("impute", "bad.csv", "--draws", 2))
    assert "two columns 'As_q05'" in refused(run("impute", "bad.csv", "--quantile", ".05"))


@pytest.fixture
def counted(monkeypatch):
    """Rows whose posterior was computed, and passes over the table, as they come."""
    from unrelu.posterior.density import Density
    from unrelu.tables.files import FileSamples

    found = {"rows": 0, "passes": 0}
    marginals, blocks = Density.marginals, FileSamples.blocks

    def posterior(self, values, censoring):
        found["rows"] += len(values)
        return marginals(self, values, censoring)

    def read(self):
        found["passes"] += 1
        return blocks(self)

    monkeypatch.setattr(Density, "marginals", posterior)
    monkeypatch.setattr(FileSamples, "blocks", read)
    return found


OUTPUTS = ("--std", "std.csv", "--mask", "mask.csv", "--picture", "filled.png")


@pytest.mark.parametrize("how", [["--quantile", ".05,.95"], ["--median"], ["--draws", "3"]], ids=lambda each: each[0])
def test_all_outputs_come_from_one_pass_and_one_posterior_of_a_row(run, table, rows, model, counted, how):
    assert run("impute", table, "--model", model, *how, *OUTPUTS, "-o", "completed.csv").exit_code == 0
    assert counted == {"rows": len(rows), "passes": 1}


@pytest.mark.parametrize("in_memory", [1, 2**26])
def test_outputs_are_the_same_alone_and_together(run, folder, table, model, monkeypatch, in_memory):
    monkeypatch.setattr("unrelu.report.imputation._IN_MEMORY", in_memory)  # the others lie on disk
    shared = ("impute", table, "--model", model, "--quantile", ".1")
    assert run(*shared, *OUTPUTS, "-o", "completed.csv").exit_code == 0
    together = {name: (folder / name).read_bytes() for name in ("completed.csv", *OUTPUTS[1::2])}
    for option, name in zip(OUTPUTS[0::2], OUTPUTS[1::2], strict=True):
        assert run(*shared, option, name, "-o", "completed.csv").exit_code == 0
        assert (folder / name).read_bytes() == together[name]
        assert (folder / "completed.csv").read_bytes() == together["completed.csv"]


def test_a_small_table_keeps_its_blocks_in_order(run, folder, table, model, monkeypatch):
    assert run("impute", table, "--model", model, *OUTPUTS, "-o", "completed.csv").exit_code == 0
    whole = {name: (folder / name).read_bytes() for name in ("completed.csv", *OUTPUTS[1::2])}
    monkeypatch.setattr("unrelu.tables.files.rows_per_block", lambda *_: 700)
    assert run("impute", table, "--model", model, *OUTPUTS, "-o", "completed.csv").exit_code == 0
    assert {name: (folder / name).read_bytes() for name in whole} == whole
