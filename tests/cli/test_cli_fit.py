"""fit: tables of every kind in, model and answer out."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import unrelu
from tests.warned import warns
from unrelu.model import read_header
from unrelu.tables import write_table


def test_fit_writes_the_model_the_library_learns(run, folder, table, rows):
    result = run("fit", table, "-o", "out.npz")
    assert result.exit_code == 0
    assert result.stderr == ""
    learned = unrelu.RectifiedGaussian.load(folder / "out.npz")
    expected = unrelu.RectifiedGaussianLearner().fit(rows)
    np.testing.assert_allclose(learned.mean, expected.mean_, rtol=1e-9)
    np.testing.assert_allclose(learned.covariance, expected.covariance_, rtol=1e-9)
    assert learned.feature_names == ("As", "Pb", "Fe")
    for words in ("As", "Pb", "±", "3,000 rows", "As – Fe", "Model written to out.npz"):
        assert words in result.stdout


@pytest.mark.parametrize("name", ["rows.parquet", "rows.feather", "rows.npy", "rows.npz", "rows.csv.gz"])
def test_the_kind_of_file_does_not_change_the_model(run, folder, table, rows, name):
    write_table(folder / name, rows, ["As", "Pb", "Fe"])
    assert run("fit", table, "-o", "one.npz").exit_code == 0
    assert run("fit", name, "-o", "two.npz").exit_code == 0
    one, two = (unrelu.RectifiedGaussian.load(folder / path) for path in ("one.npz", "two.npz"))
    np.testing.assert_allclose(two.mean, one.mean, rtol=1e-10)
    np.testing.assert_allclose(two.covariance, one.covariance, rtol=1e-10)


def test_standard_input_several_files_and_globs_give_the_same_rows(run, program, folder, table, rows):
    for part, half in enumerate((rows[:1000], rows[1000:])):
        write_table(folder / f"part-{part}.csv", half, ["As", "Pb", "Fe"])
    given = ("--method", "one_pass", "--json")
    answers = [
        json.loads(program("fit", "-", *given, input=table.read_text()).stdout),
        json.loads(run("fit", "part-0.csv", "part-1.csv", *given).stdout),
        json.loads(run("fit", "part-*.csv", *given).stdout),
        json.loads(run("fit", table, *given).stdout),
    ]
    assert {answer["report"]["n_rows"] for answer in answers} == {3000}
    biases = [[column["mean"] for column in answer["columns"]] for answer in answers]
    np.testing.assert_allclose(biases, [biases[0]] * 4, rtol=1e-10)


def test_json_is_one_object_with_everything(run, folder, table):
    result = run("fit", table, "-o", "out.npz", "--picture", "fit.png", "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == 0
    assert answer["model"] == "out.npz"
    assert answer["picture"] == "fit.png"
    assert answer["warnings"] == []
    assert [column["name"] for column in answer["columns"]] == ["As", "Pb", "Fe"]
    assert set(answer["columns"][0]) == {
        *("name", "floor", "ceiling", "mean", "std", "share_floored", "mean_stderr", "std_stderr")
    }
    assert answer["strongest_correlations"][0]["stderr"] > 0.0
    assert (folder / "fit.png").read_bytes().startswith(b"\x89PNG")


def test_the_model_file_keeps_the_facts_of_the_fit(run, folder, table, rows):
    run("fit", table, "-o", "out.npz", "--floor", "0", "--components", 2)
    details = read_header(folder / "out.npz")["details"]
    assert details["report"]["n_rows"] == 3000
    assert details["n_components"] == 2
    assert details["inputs"] == [str(table)]
    np.testing.assert_allclose(details["columns"]["share_floored"], (rows == 0).mean(axis=0))
    model = unrelu.RectifiedGaussian.load(folder / "out.npz")
    assert np.linalg.matrix_rank(model.covariance, tol=1e-8) == 2


def test_the_same_rows_give_the_same_bytes(run, folder, table):
    run("fit", table, "-o", "one.npz")
    run("fit", table, "-o", "two.npz")
    assert (folder / "one.npz").read_bytes() == (folder / "two.npz").read_bytes()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], (0.0, 0.0, 0.0)),
        (["--floor", "-1"], (-1.0, -1.0, -1.0)),
        (["--floor", "Pb=-0.5,Fe=-2e-1"], (0.0, -0.5, -0.2)),
        (["--floor", "-0.1", "--floor", "Pb=-0.5"], (-0.1, -0.5, -0.1)),
    ],
)
def test_floors(run, folder, table, given, expected):
    assert run("fit", table, "-o", "out.npz", *given).exit_code == 0
    assert tuple(unrelu.RectifiedGaussian.load(folder / "out.npz").floor) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--columns", "Fe,As"], ("Fe", "As")),
        (["--drop", "Pb"], ("As", "Fe")),
        (["--columns", "Fe", "--columns", "As"], ("Fe", "As")),
        (["--columns", "Fe"], ("Fe",)),
    ],
)
def test_columns(run, folder, table, given, expected):
    assert run("fit", table, "-o", "out.npz", *given).exit_code == 0
    assert unrelu.RectifiedGaussian.load(folder / "out.npz").feature_names == expected


def test_a_column_name_with_a_comma_stands_in_quotes(run, folder, rows):
    write_table(folder / "rows.csv", rows, ["Fe, total", "[b]$x$", "c=d"])
    result = run("fit", "rows.csv", "-o", "out.npz", "--drop", '"Fe, total"', "--picture", "fit.png")
    assert result.exit_code == 0, result.stderr
    assert "[b]$x$" in result.stdout  # no markup, no formula
    result = run("fit", "rows.csv", "-o", "out.npz", "--floor", '"Fe, total=-1",c=d=-2')
    assert tuple(unrelu.RectifiedGaussian.load(folder / "out.npz").floor) == (-1.0, 0.0, -2.0)


def test_nonnegative_mean_is_handed_on(run, folder):
    low = unrelu.RectifiedGaussian([-0.5], [[1.0]]).sample(2000, random_state=0)
    write_table(folder / "low.npy", low)
    run("fit", "low.npy", "-o", "free.npz")
    run("fit", "low.npy", "-o", "bound.npz", "--nonnegative-mean")
    assert unrelu.RectifiedGaussian.load(folder / "free.npz").mean[0] < -0.4
    assert unrelu.RectifiedGaussian.load(folder / "bound.npz").mean[0] == 0.0


def test_library_warnings_are_single_lines_and_part_of_the_json(run, folder, rows):
    write_table(folder / "rows.csv", np.column_stack([rows[:, 0], np.ones(len(rows))]), ["As", "one"])
    result = run("fit", "rows.csv", "-o", "out.npz", "--json")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert len(answer["warnings"]) == 1
    assert answer["warnings"][0].startswith("Constant: column 1 ('one')")
    assert result.stderr == f"Warning: {answer['warnings'][0]}\n"
    assert answer["columns"][1]["std"] == 0.0
    assert answer["strongest_correlations"][0]["stderr"] is None  # NaN is no JSON


def test_many_columns_are_cut(run, folder):
    rows = unrelu.synthetic.random_model(25, random_state=0).sample(400, random_state=0)
    write_table(folder / "rows.npy", rows)
    result = run("fit", "rows.npy", "-o", "out.npz")
    assert "... and 5 more" in result.stdout
    assert "x19" in result.stdout


def test_a_picture_without_matplotlib_is_refused_before_the_work(run, refused, table, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    line = refused(run("fit", table, "-o", "out.npz", "--picture", "fit.png"))
    assert 'pip install "unrelu[plot]"' in line


def test_a_robust_fit_tells_what_became_of_the_rows(run, folder, rows):
    dirty = rows.copy()
    dirty[:600] = rows[:600] + 9.0  # one row in five
    write_table(folder / "dirty.csv", dirty, ["As", "Pb", "Fe"])
    result = run("fit", "dirty.csv", "--method", "robust", "-o", "out.npz")
    assert result.exit_code == 0
    assert "Outliers: 20.0% of the rows count less than half; other groups of rows:" in result.stdout
    learned = unrelu.RectifiedGaussian.load(folder / "out.npz")
    oracle = unrelu.RectifiedGaussianLearner().fit(rows[600:])
    assert np.abs((learned.mean - oracle.mean_) / oracle.mean_stderr_).max() < 0.5


def test_the_seed_reaches_methods_that_draw(run, folder, table):
    for name, seed in (("one.npz", 1), ("again.npz", 1), ("other.npz", 2)):
        assert run("fit", table, "--method", "sgd", "--seed", seed, "-o", name).exit_code == 0
    one, again, other = (unrelu.RectifiedGaussian.load(folder / f"{name}.npz") for name in ("one", "again", "other"))
    assert one == again
    assert one != other


@pytest.mark.parametrize("name", ["sites.csv", "sites.parquet"])
def test_jackknife_over_a_column_of_labels(run, folder, rows, name):
    frame = pd.DataFrame(rows, columns=["As", "Pb", "Fe"]).assign(site=[f"site {k // 200}" for k in range(len(rows))])
    frame.to_csv(folder / name, index=False) if name.endswith("csv") else frame.to_parquet(folder / name)
    answer = json.loads(run("fit", name, "--stderr", "jackknife", "--groups", "site", "--json").stdout)
    expected = unrelu.RectifiedGaussianLearner(stderr="jackknife").fit(frame, groups="site")
    assert (answer["report"]["stderr"], answer["report"]["stderr_degrees"]) == ("jackknife", 14)
    errors = [column["mean_stderr"] for column in answer["columns"]]
    np.testing.assert_allclose(errors, expected.mean_stderr_, rtol=1e-8)
    shown = run("fit", name, "--drop", "site", "--stderr", "jackknife").stdout
    assert "Standard errors: by a jackknife over 20 groups of rows." in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--groups", "Fe"], "--groups is for the jackknife: use it with --stderr jackknife, or leave it out."),
        (["--groups", "Fee", "--stderr", "jackknife"], "no column 'Fee'. Did you mean 'Fe'?"),
        (
            ["--groups", "Fe", "--columns", "As,Fe", "--stderr", "jackknife"],
            "is among --columns and --groups: leave it out",
        ),
        (["--stderr", "bootstrap"], "Unknown --stderr 'bootstrap'. There are: model, jackknife."),
        (["--stderr", "jackknife", "--method", "robust"], "model, --method one_pass or --method full_likelihood."),
    ],
)
def test_jackknifes_that_are_refused(run, table, arguments, words):
    result = run("fit", table, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


SHAPED = ("--floor", "As=0.5", "--margins", "As=log", "--margins", "*=auto")


@pytest.mark.slow  # several fits
def test_margins_reach_the_learner(run, folder, skewed, skewed_rows):
    result = run("fit", skewed, "-o", "out.npz", *SHAPED, "--picture", "fit.png")
    assert result.exit_code == 0, result.stderr
    learned = unrelu.RectifiedGaussian.load(folder / "out.npz")
    with warns("ties"):
        expected = unrelu.RectifiedGaussianLearner(floor=[0.5, 0, 0], margins=["log", "auto", "auto"]).fit(skewed_rows)
    assert learned.margins == expected.margins_
    np.testing.assert_allclose(learned.covariance, expected.covariance_, rtol=1e-9)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert "in the units of the table, before the floor:" in result.stdout
    assert "in the units of the table, as seen:" in result.stdout
    for name, kind, column in zip(("As", "rain", "count"), learned.margins, learned.column_summary(), strict=True):
        found = next(line for line in lines if line[:2] == [name, kind.kind])
        assert [f"{column[key]:.4g}" for key in ("mean", "lower_quartile", "median", "upper_quartile")] == found[-4:]
        assert column["distribution"] == ("before the floor" if name == "As" else "as seen")
    assert (folder / "fit.png").read_bytes().startswith(b"\x89PNG")


def test_json_has_margins_and_summaries_where_there_are_margins(run, skewed):
    answer = json.loads(run("fit", skewed, "--json", *SHAPED).stdout)
    assert [margins["kind"] for margins in answer["margins"]][:2] == ["log", "monotone"]
    assert [column["column"] for column in answer["column_summary"]] == ["As", "rain", "count"]
    assert answer["columns"][0]["floor"] == 0.5
    assert answer["report"]["floor"] == [0.5, 0.0, 0.0]
    learned = ("--floor", "As=0.5", "--margins", "As=log,boxcox", "--json")
    assert json.loads(run("fit", skewed, *learned).stdout)["margins"][1]["exponent_stderr"] > 0.0
    normal = ("--floor", "As=0.5", "--margins", "normal", "--json")
    assert "margins" not in json.loads(run("fit", skewed, *normal).stdout)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--margins", "logg"], "--margins of column 0 ('As'): unknown margin 'logg'. Did you mean 'log'?"),
        (["--margins", "Az=log"], "--margins: no column 'Az'. Did you mean 'As'?"),
        (["--margins", "rain=log"], "--margins log of column 1 ('rain'): its limit 0 has no logarithm."),
        (["--margins", "boxcox", "--floor-tolerance", "0.1"], "--floor-tolerance goes with --margins normal alone"),
    ],
)
def test_margins_that_are_refused(run, refused, skewed, arguments, words):
    assert words in refused(run("fit", skewed, "-o", "out.npz", *arguments))


def test_columns_left_to_themselves_are_normal_beside_a_tolerance(run, skewed):
    assert "margins" not in json.loads(run("fit", skewed, "--floor-tolerance", "0.1", "--json").stdout)


def test_the_diagnostic_about_skewed_columns_names_the_option(run, skewed):
    shown = " ".join(run("fit", skewed, "--floor", "As=0.5", "--margins", "normal").stdout.split())
    assert "skewed (3 columns)" in shown
    assert "--margins monotone" in shown
