"""info: what a model file says of itself."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import unrelu
from unrelu import storage
from unrelu.tables import write_table


def test_info_of_a_fit(run, folder, table):
    run("fit", table, "-o", "out.npz")
    result = run("info", "out.npz")
    assert result.exit_code == 0
    for words in (
        "unrelu.RectifiedGaussian 5",
        unrelu.__version__,
        "full_likelihood",
        "a table of this size takes some seconds at",
        "3,000",
        "Pb",
        "±",
        "As – Fe",
    ):
        assert words in result.stdout


def test_info_as_json(run, folder, table, rows):
    fitted = json.loads(run("fit", table, "-o", "out.npz", "--json").stdout)
    answer = json.loads(run("info", "out.npz", "--json").stdout)
    assert answer["columns"] == fitted["columns"]
    assert answer["strongest_correlations"] == fitted["strongest_correlations"]
    assert answer["details"]["report"] == fitted["report"]
    assert answer["format_version"] == 5
    assert sum(answer["variance_shares"]) == pytest.approx(1.0)
    assert answer["warnings"] == []


@pytest.mark.parametrize(
    "details",
    [
        None,
        {"columns": [1], "strongest_correlations": 7, "report": "fine"},
        {"columns": {"mean_stderr": [0.1]}, "strongest_correlations": [None, {}], "note": ["a"] * 9},
    ],
)
def test_details_are_the_writers_own(run, folder, details):
    unrelu.RectifiedGaussian([0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]]).save(folder / "own.npz", details=details)
    result = run("info", "own.npz")
    assert result.exit_code == 0, result.stderr
    assert "without names" in result.stdout
    assert json.loads(run("info", "own.npz", "--json").stdout)["details"] == (details or {})


def test_one_column_and_many(run, folder):
    unrelu.RectifiedGaussian([0.0], [[4.0]]).save(folder / "one.npz")
    answer = json.loads(run("info", "one.npz", "--json").stdout)
    assert answer["strongest_correlations"] == []
    assert answer["columns"][0]["std"] == 2.0
    unrelu.synthetic.random_model(600, 3, random_state=0).save(folder / "many.npz")
    shares = json.loads(run("info", "many.npz", "--json").stdout)["variance_shares"]
    assert sum(shares[:3]) == pytest.approx(1.0)
    assert shares[3] == pytest.approx(0.0, abs=1e-9)


# --- every file that unrelu.load reads ------------------------------------------------------------


@pytest.fixture(scope="module")
def kinds(tmp_path_factory, rows):
    """One file of every kind of estimator and record, in a folder of their own."""
    folder = tmp_path_factory.mktemp("kinds")
    few = rows[:600]
    learner = unrelu.RectifiedGaussianLearner("one_pass").fit(few)
    fitted = {
        "learner": learner,
        "robust": unrelu.RectifiedGaussianLearner("robust").fit(few),
        "detector": unrelu.FloorOutlierDetector(false_alarm_rate=0.03).fit(few),
        "made": unrelu.FloorOutlierDetector.from_model(learner),
        "mixture": unrelu.RectifiedGaussianMixture(1).fit(few),
        "factors": unrelu.ReLUMatrixRecovery(1).fit(few),
        "latent": unrelu.ReLULatentRecovery.from_model(learner).fit(),
    }
    for name, estimator in fitted.items():
        estimator.save(folder / f"{name}.npz")
    storage.write(folder / "record.npz", learner.record_)
    return folder, fitted


@pytest.fixture
def saved(folder, kinds):
    """The files, copied to where the commands run; and what was saved."""
    shutil.copytree(kinds[0], folder, dirs_exist_ok=True)
    return kinds[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("learner", "one_pass"),
        ("robust", "share downweighted"),
        ("detector", "false alarm rate"),
        ("made", "false alarm rate"),
        ("mixture", "n components"),
        ("factors", "relative residual"),
        ("latent", "prior"),
        ("record", "masked sum"),
    ],
)
def test_info_of_every_kind(run, saved, name, words):
    result = run("info", f"{name}.npz")
    assert (result.exit_code, result.stderr) == (0, "")
    assert words in result.stdout
    answer = json.loads(run("info", f"{name}.npz", "--json").stdout)
    assert answer["format"].startswith("unrelu.")
    assert answer["format_version"] == 5


@pytest.mark.filterwarnings("ignore")
def test_a_learner_tells_what_its_model_file_would(run, saved):
    columns = json.loads(run("info", "learner.npz", "--json").stdout)["columns"]
    assert [column["mean"] for column in columns] == saved["learner"].mean_.tolist()
    assert [column["mean_stderr"] for column in columns] == saved["learner"].mean_stderr_.tolist()
    groups = json.loads(run("info", "mixture.npz", "--json").stdout)["groups"]
    assert [column["mean"] for column in groups[0]["columns"]] == saved["mixture"].means_[0].tolist()


@pytest.mark.filterwarnings("ignore")
def test_whatever_has_a_distribution_is_a_model(run, refused, saved, folder, rows):
    table = folder / "few.csv"
    write_table(table, rows[:40], ["As", "Pb", "Fe"])
    for name in ("learner", "detector"):
        assert run("sample", f"{name}.npz", "-n", 9, "--seed", 1, "-o", f"{name}.npy").exit_code == 0
        np.testing.assert_array_equal(np.load(f"{name}.npy"), saved[name].distribution_.sample(9, 1))
        assert run("score", table, "--model", f"{name}.npz").exit_code == 0
        assert run("recover", f"{name}.npz", table, "--skip-bad-rows", "-o", "x.npy").exit_code == 0
    for name in ("mixture", "record"):
        assert "which is no model of single rows" in refused(run("sample", f"{name}.npz"))
        assert "which is no layer" in refused(run("recover", f"{name}.npz", table))


# --- words ----------------------------------------------------------------------------------------


def test_words_for_what_is_inside(run, folder, rows):
    """Latent mean and sd beside mean and standard deviation; warnings with options; shares of groups; no entry
    of the method that only --json has."""
    np.save(folder / "skewed.npy", np.column_stack([rows[:800, 0], np.exp(rows[:800, 1])]))
    run("fit", "skewed.npy", "-o", "out.npz")
    shown = " ".join(run("info", "out.npz").stdout.split())
    for words in (
        "latent mean",
        "latent sd",
        "The answer may be wrong: ",
        "--floor min",
    ):
        assert words in shown
    assert "shrinkage" not in shown
    assert "kind" not in shown  # the diagnostics are not also printed as they are stored
    unrelu.RectifiedGaussianMixture(1).fit(rows[:300]).save(folder / "mixture.npz")
    assert "group 1: 100.0% of the rows" in run("info", "mixture.npz").stdout


def test_info_of_a_model_with_margins(run, folder, skewed):
    fitted = json.loads(
        run("fit", skewed, "-o", "out.npz", "--floor", "As=0.5", "--margins", "As=log,monotone", "--json").stdout
    )
    answer = json.loads(run("info", "out.npz", "--json").stdout)
    assert answer["margins"] == fitted["margins"]
    assert answer["column_summary"] == fitted["column_summary"]
    shown = run("info", "out.npz").stdout
    for words in ("unrelu.RectifiedGaussian 5", "monotone (2 columns), log (1 column)", "in the units of the table, "):
        assert words in shown


def test_info_of_a_mixture_with_margins(run, folder, skewed_rows):
    unrelu.RectifiedGaussianMixture(1, floor=[0.5, 0, 0], margins="monotone").fit(skewed_rows).save(
        folder / "mixture.npz"
    )
    group = json.loads(run("info", "mixture.npz", "--json").stdout)["groups"][0]
    assert [column["margin"] for column in group["column_summary"]] == ["monotone"] * 3
    assert "in the units of the table, " in run("info", "mixture.npz").stdout


# --- how probable rows are ------------------------------------------------------------------------


def test_fit_and_info_tell_the_likelihood(run, folder, table, rows):
    learner = unrelu.RectifiedGaussianLearner().fit(rows)
    fitted = json.loads(run("fit", table, "-o", "out.npz", "--json").stdout)["likelihood"]
    assert fitted["log_likelihood"] == pytest.approx(learner.score_samples(rows).sum())
    assert (fitted["n_parameters"], fitted["rows"]) == (9, 3000)
    assert (fitted["aic"], fitted["bic"]) == pytest.approx((learner.aic(rows), learner.bic(rows)))
    assert json.loads(run("info", "out.npz", "--json").stdout)["likelihood"] == fitted
    assert "log-likelihood" in run("info", "out.npz").stdout
    again = json.loads(run("info", "out.npz", "--table", table, "--json").stdout)["likelihood"]
    assert again == pytest.approx(fitted)
    assert f"AIC {fitted['aic']:,.1f}" in " ".join(run("fit", table, "-o", "out.npz").stdout.split())


def test_big_fits_say_where_the_likelihood_is(run, folder, table, monkeypatch):
    monkeypatch.setattr("unrelu.cli.learning._CHEAP", 1e4)
    result = run("fit", table, "--method", "one_pass", "-o", "out.npz")
    assert "take another pass: unrelu info out.npz --table TABLE" in result.stdout
    assert json.loads(run("info", "out.npz", "--json").stdout)["likelihood"] is None


@pytest.mark.filterwarnings("ignore")
def test_the_likelihood_of_other_rows(run, refused, saved, folder, rows, table):
    write_table(folder / "fresh.csv", rows[600:1100, [1, 2, 0]], ["Pb", "Fe", "As"])
    others = rows[600:1100]
    mixture, learner = saved["mixture"], saved["learner"]
    for name, estimator in (("learner", learner), ("mixture", mixture)):
        found = json.loads(run("info", f"{name}.npz", "--table", table, "--json").stdout)["likelihood"]
        assert found["bic"] == pytest.approx(estimator.bic(rows))
    named = learner.distribution_.with_parts(feature_names=("As", "Pb", "Fe"))
    named.save(folder / "named.npz")
    found = json.loads(run("info", "named.npz", "--table", "fresh.csv", "--json").stdout)["likelihood"]
    assert found["log_likelihood"] == pytest.approx(named.log_prob(others).sum())
    assert found["n_parameters"] == 3 + 6
    assert found["rows"] == 500
    assert "is no model of single rows" in refused(run("info", "record.npz", "--table", "fresh.csv"))
    assert "there is none: give it with --table" in refused(run("info", "named.npz", "--columns", "As"))
    assert "no such file" in refused(run("info", "named.npz", "--table", "nowhere.csv"))


def test_margins_count_in_the_likelihood(run, folder, skewed, skewed_rows):
    given = ("--floor", "As=0.5", "--margins", "As=log,boxcox")
    found = json.loads(run("fit", skewed, "-o", "out.npz", *given, "--json").stdout)["likelihood"]
    learner = unrelu.RectifiedGaussianLearner(floor=[0.5, 0, 0], margins=["log", "boxcox", "boxcox"]).fit(skewed_rows)
    assert found["n_parameters"] == learner.n_parameters_ > 9
    assert found["bic"] == pytest.approx(learner.bic(skewed_rows))
    again = json.loads(run("info", "out.npz", "--table", skewed, "--json").stdout)["likelihood"]
    assert again == pytest.approx(found)


def test_info_of_an_imputer(run, folder, rows, truth):
    unrelu.FloorImputer().fit(rows[:500]).save(folder / "imputer.npz")
    unrelu.FloorImputer.from_model(truth).save(folder / "made.npz")
    for name in ("imputer", "made"):
        result = run("info", f"{name}.npz")
        assert (result.exit_code, result.stderr) == (0, "")
        assert "latent mean" in result.stdout


def test_the_rank_of_a_model_counts(run, folder):
    rows = unrelu.synthetic.random_model(6, 2, random_state=0).sample(400, random_state=1)
    np.save(folder / "rows.npy", rows)
    fitted = json.loads(run("fit", "rows.npy", "--components", 2, "-o", "out.npz", "--json").stdout)["likelihood"]
    again = json.loads(run("info", "out.npz", "--table", "rows.npy", "--json").stdout)["likelihood"]
    assert fitted["n_parameters"] == again["n_parameters"] == 6 + 6 * 3 - 1  # means; loadings up to a turn, and noise
