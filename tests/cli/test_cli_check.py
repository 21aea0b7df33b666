"""check: whether a model fits a table, with and without a model, as text, JSON, exit code and picture."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import unrelu
from unrelu.tables import write_table

NAMES = ["As", "Pb", "Fe"]
QUICK = ("--simulations", "19")
NORMAL = ("--margins", "normal")


@pytest.fixture
def skewed(folder, rows):
    """Pb is the exponential of what it should be."""
    x = rows[:600].copy()
    x[:, 1] = np.expm1(2.0 * x[:, 1] / x[:, 1].std())
    path = folder / "skewed.csv"
    write_table(path, x, NAMES)
    return path


@pytest.fixture
def few(folder, rows):
    path = folder / "few.csv"
    write_table(path, rows[:600], NAMES)
    return path


def test_the_answer_is_the_learners(run, few, rows):
    result = run("check", few, "--simulations", "39", "--json", "-o", "columns.csv")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    found = unrelu.RectifiedGaussianLearner().fit(rows[:600]).check(rows[:600], n_simulations=39)
    assert facts["p_value"] == found.p_value
    assert [column["p_value"] for column in facts["columns"]] == pytest.approx(found.column_p_value.tolist())
    assert facts["verdict"] == found.verdict.replace("x0", "As")
    assert (facts["refitted"], facts["n_looked_at"], facts["model"]) == (True, 600, None)
    written = pd.read_csv("columns.csv")
    assert written["column"].tolist() == NAMES
    np.testing.assert_allclose(written["p_value"], found.column_p_value)
    pair = facts["worst_pairs"][0]
    assert np.sum(pair["observed"]) == 1200


def test_exit_codes_say_nothing_unless_strict(run, folder, rows, model):
    x = rows[:200].copy()
    write_table(folder / "few.csv", x, NAMES)
    x[:, 1] = np.expm1(2.0 * x[:, 1] / x[:, 1].std())
    write_table(folder / "skewed.csv", x, NAMES)
    few, skewed = "few.csv", "skewed.csv"
    assert run("check", few, *QUICK, "--strict").exit_code == 0
    assert run("check", skewed, *QUICK, "--strict").exit_code == 0  # margins are learned
    assert run("check", skewed, *QUICK, *NORMAL, "--strict").exit_code == 1
    given = (model, *QUICK)
    assert run("check", skewed, *given).exit_code == 0
    assert run("check", skewed, *given, "--strict").exit_code == 1
    assert run("check", skewed, *given, "--strict", "--json").exit_code == 1


def test_the_terminal_names_columns_and_options(run, skewed):
    result = run("check", skewed, *NORMAL, "--picture", "check.png", *QUICK)
    text = " ".join(result.stdout.split())
    assert "does not fit" in text
    assert "not normal: Pb. --margins auto was tried and helps: the model then fits" in text
    assert "Checked 600 rows of 3 columns against 19 simulated tables" in text
    assert "Picture written to check.png" in text
    assert result.stdout.index("worst columns") < result.stdout.index("worst pairs")
    assert result.stderr == ""


def test_a_model_is_taken_as_given(run, few, skewed, model, refused):
    fits = run("check", few, model, *QUICK, "--strict")
    assert fits.exit_code == 0, fits.stdout
    assert "taken as given" in fits.stdout
    misfit = run("check", skewed, model, *QUICK)
    assert "fit a model to this table" in " ".join(misfit.stdout.split())
    for option in (("--floor", "1"), ("--method", "robust"), ("--components", "1"), ("--ceiling", "max")):
        assert f"{option[0]} belongs to a fit" in refused(run("check", few, model, *option))


def test_a_models_columns_are_found_by_name(run, few, model, folder):
    facts = json.loads(run("check", few, model, "--columns", "Fe,As", "--json", *QUICK).stdout)
    assert [column["name"] for column in facts["columns"]] == ["Fe", "As"]


def test_columns_left_out_and_outliers_are_named(run, folder, rows):
    x = np.column_stack([rows[:300, :2], np.full(300, 2.0)])
    x[:20, :2] += 30.0
    write_table(folder / "columns.csv", x, NAMES)
    text = " ".join(run("check", "columns.csv", "--method", "robust", *QUICK).stdout.split())
    assert "Left out: Fe (constant)." in text
    assert "20 outlier rows left out." in text
    assert "Checked 280 rows of 3 columns" in text


def test_bad_input_is_refused_on_one_line(run, folder, rows, few, model, refused):
    write_table(folder / "short.csv", rows[:10], NAMES)
    assert "10 rows: a check needs at least 20" in refused(run("check", "short.csv"))
    write_table(folder / "zeros.csv", np.zeros((50, 2)), ["a", "b"])
    assert "Never above its floor" in refused(run("check", "zeros.csv"))
    assert "No column can be checked" in refused(run("check", "zeros.csv", model_of(folder)))
    write_table(folder / "narrow.csv", rows[:50, :2], NAMES[:2])
    assert "no column 'Fe'" in refused(run("check", "narrow.csv", model))
    assert "level must be" in refused(run("check", few, "--level", "0"))
    assert "--simulations" in refused(run("check", few, "--level", "0.01", *QUICK))
    assert "no model file gone.npz" in refused(run("check", few, "gone.npz"))


def model_of(folder):
    path = folder / "ab.npz"
    unrelu.RectifiedGaussian([1.0, 1.0], np.eye(2), feature_names=["a", "b"]).save(path)
    return path


def test_a_margin_of_the_fit_is_checked(run, folder):
    rng = np.random.default_rng(3)
    table = np.maximum(np.expm1(0.8 * rng.standard_normal((300, 2)) + 0.3), 0.0)
    np.savetxt(folder / "skewed.csv", table, delimiter=",", header="a,b", comments="")
    normal, power, auto = (
        json.loads(run("check", "skewed.csv", "--simulations", "19", *options, "--json").stdout)
        for options in (NORMAL, ("--margins", "boxcox"), ())
    )
    assert not normal["fits"]
    assert power["fits"]
    assert auto["fits"]
