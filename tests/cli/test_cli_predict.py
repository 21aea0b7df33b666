"""predict: a column from the others, how near it comes, and what is refused."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pytest

import unrelu
from unrelu.report.imputation import PredictedColumn
from unrelu.tables import write_table

NAMES = ["As", "Pb", "Fe"]


@pytest.mark.slow  # impute's real program is started too
def test_the_real_program_predicts_what_the_model_does(program, folder, rows, truth, table, model):
    result = program("predict", table, "--column", "Pb", "--model", model, "-o", "out.csv")
    assert (result.returncode, result.stderr) == (0, "")
    found, expected = pd.read_csv("out.csv"), truth.predict(rows, "Pb")
    assert list(found) == ["row", "mean", "std", "q05", "q50", "q95", "probability_floored"]
    assert found["row"].tolist() == list(range(1, 3001))
    np.testing.assert_allclose(found["mean"], expected.mean, rtol=1e-10)
    np.testing.assert_allclose(found["std"], expected.std, rtol=1e-10)
    np.testing.assert_allclose(found[["q05", "q50", "q95"]], expected.quantiles, rtol=1e-10)
    np.testing.assert_allclose(found["probability_floored"], expected.probability_floored, rtol=1e-10)
    assert "Predicted Pb from 2 other columns in 3,000 rows by" in result.stdout


def test_the_answer_says_how_near(run, rows, table, model):
    answer = json.loads(run("predict", table, "--column", "Pb", "--model", model, "-o", "out.csv", "--json").stdout)
    found, x = pd.read_csv("out.csv"), rows[:, 1]
    assert answer["share_explained"] == pytest.approx(1.0 - np.mean((x - found["mean"]) ** 2) / x.var())
    assert answer["root_mean_square_error"] == pytest.approx(np.sqrt(np.mean((x - found["mean"]) ** 2)))
    assert answer["share_within"] == pytest.approx(np.mean((found["q05"] <= x) & (x <= found["q95"])))
    assert answer["share_floored"] == pytest.approx(np.mean(x == 0.0))
    # the model is the true one: to 4 standard errors of 3,000 rows
    within, floored = answer["expected_share_within"], answer["predicted_share_floored"]
    assert 0.9 <= within < 1.0
    assert abs(answer["share_within"] - within) < 4.0 * np.sqrt(within * (1.0 - within) / 3000)
    assert abs(answer["share_floored"] - floored) < 4.0 * np.sqrt(floored * (1.0 - floored) / 3000)


def test_the_table_may_lack_the_column(run, folder, rows, truth, model):
    write_table(folder / "lacks.csv", rows[:, [2, 0]], ["Fe", "As"])
    result = run("predict", "lacks.csv", "--column", "Pb", "--model", model, "-o", "out.csv")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(pd.read_csv("out.csv")["mean"], truth.predict(rows, "Pb").mean, rtol=1e-9)
    assert "Explained" not in result.stdout
    assert run("predict", "lacks.csv", "--column", "Pb", "--model", model, "--columns", "As").exit_code == 0
    alone = truth.marginal(["As", "Pb"]).predict(rows[:, :2], "Pb")
    np.testing.assert_allclose(pd.read_csv("predicted.csv")["mean"], alone.mean, rtol=1e-9)


def test_hidden_values_ids_and_levels(run, folder, rows, truth, model):
    frame = pd.DataFrame(rows[:300], columns=NAMES).assign(site=[f"s{i}" for i in range(300)])
    frame.loc[7, "As"] = np.nan
    frame.to_csv(folder / "sites.csv", index=False)
    given = ("predict", "sites.csv", "--column", "As", "--id", "site", "--model", model, "--hidden")
    answer = json.loads(run(*given, "--quantiles", ".9,0.1", "-o", "out.parquet", "--json").stdout)
    found = pd.read_parquet("out.parquet")
    assert list(found) == ["row", "site", "mean", "std", "q10", "q90", "probability_floored"]
    expected = truth.predict(rows[:300], "As", (0.1, 0.9), hidden=True)
    np.testing.assert_allclose(found["mean"], expected.mean, rtol=1e-10)
    np.testing.assert_allclose(found["q10"], expected.quantiles[:, 0], rtol=1e-10)
    assert (answer["rows"], answer["values"], answer["hidden"]) == (300, 299, True)


def test_a_fit_of_the_table_itself(run, folder, rows, table):
    assert run("predict", table, "--column", "Fe", "--columns", "As", "-o", "out.csv").exit_code == 0
    two = rows[:, [0, 2]]
    expected = unrelu.RectifiedGaussianLearner().fit(two).distribution_.predict(two, 1)
    np.testing.assert_allclose(pd.read_csv("out.csv")["mean"], expected.mean, rtol=1e-8)
    write_table(folder / "bare.npy", rows)
    answer = json.loads(run("predict", "bare.npy", "--column", "2", "-o", "out.csv", "--json").stdout)
    assert answer["share_explained"] > 0.0


def test_intervals_that_end_at_limits_hold_what_is_cut_off():
    """The closed interval of quantiles, against rows of the model: floors below, a ceiling above."""
    covariance = [[1.0, 0.5], [0.5, 1.0]]
    for floor, ceiling in ((0.0, np.inf), (-np.inf, 0.3)):
        distribution = unrelu.RectifiedGaussian([0.2, 0.0], covariance, [floor, -np.inf], ceiling=[ceiling, np.inf])
        x = distribution.sample(20_000, random_state=1)
        found = PredictedColumn(distribution, 0, (0.2, 0.7))
        from unrelu.posterior.cells import Cells

        found.add(Cells.of(distribution, x), distribution.predict(x, 0, (0.2, 0.7)))
        facts = found.facts()
        assert facts["expected_share_within"] > 0.52
        assert abs(facts["share_within"] - facts["expected_share_within"]) < 4.0 * np.sqrt(0.25 / 20_000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rows.csv", "--column", "Zn"], "no column 'Zn' in the table"),
        (["rows.csv", "--column", "as"], "Did you mean 'As'?"),
        (["rows.csv", "--column", "Zn", "--model", "truth.npz"], "truth.npz has no column 'Zn'"),
        (["rows.csv", "--column", "As", "--drop", "As"], "which --drop or --id leaves out"),
        (["rows.csv", "--column", "As", "--quantiles", "1"], "--quantiles: '1' is no number between 0 and 1"),
        (["rows.csv", "--column", "As", "--quantiles", ","], "at least one level"),
        (["rows.csv", "--column", "As", "--model", "truth.npz", "--margins", "log"], "--margins belongs to a fit"),
        (["rows.csv", "--column", "As", "-o", "rows.csv"], "also an input"),
        (["rows.csv", "--column", "As", "-o", "out.npy"], "unknown kind of file"),
        (["rows.csv", "--column", "As", "--floor", "99"], "below the floor 99"),
        (["few.csv", "--column", "Pb", "--model", "truth.npz"], "no column 'Fe'"),
        (["few.csv", "--column", "Pb"], "row 2 (line 3)"),
    ],
)
def test_unusable_input_is_refused(run, refused, folder, table, model, arguments, words):
    (folder / "few.csv").write_text("As,Pb\n1,2\n-3,4\n5,6\n")
    before = table.read_bytes()
    given = arguments if "-o" in arguments else [*arguments, "-o", "out.csv"]
    assert words in refused(run("predict", *given))
    assert sorted(os.listdir(folder)) == ["few.csv", "rows.csv", "truth.npz"]
    assert table.read_bytes() == before
