"""``unrelu fit --record`` and ``unrelu merge``: only records travel, and what does not agree is refused by name."""

from __future__ import annotations

import json

import numpy as np
import pytest

import unrelu

X = unrelu.synthetic.random_model(3, random_state=0).sample(3000, random_state=1)
NAMES = ["a", "b", "c"]


@pytest.fixture
def sites(folder):
    """Three tables of different rows, and one of all rows."""
    for name, rows in (("north", X[:700]), ("south", X[700:1900]), ("west", X[1900:]), ("all", X)):
        unrelu.tables.write_table(f"{name}.csv", rows, NAMES)
    return folder


def recorded(run, name, *options):
    result = run("fit", f"{name}.csv", "-o", f"{name}.npz", "--record", f"{name}.record", *options)
    assert result.exit_code == 0, result.output
    return f"{name}.record"


def test_records_give_the_model_of_all_rows(sites, run):
    records = [recorded(run, name) for name in ("north", "south", "west")]
    found = json.loads(run("merge", *records, "-o", "merged.npz", "--record", "all.record", "--json").stdout)
    assert (found["report"]["n_rows"], found["record"]) == (3000, "all.record")
    whole = unrelu.RectifiedGaussianLearner("one_pass").fit(X)
    model = unrelu.RectifiedGaussian.load("merged.npz")
    np.testing.assert_allclose(model.covariance, whole.covariance_, rtol=1e-10)
    assert model.feature_names == ("a", "b", "c")
    assert unrelu.load("all.record").report_.n_rows == 3000
    assert "a" in run("merge", "all.record").output
    assert json.loads(run("info", "north.record", "--json").stdout)["n_features"] == 3


def test_a_record_holds_no_row(sites, run):
    recorded(run, "north")
    kept = unrelu.load("north.record")
    sizes = [value.size for value in vars(kept.record_).values() if isinstance(value, np.ndarray)]
    assert max(sizes) == 9
    assert kept._learned is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--floor", "-1", "--margins", "normal"], "different parameters (floor)"),
        (["--drop", "c"], "3 columns in one part, 2 in another"),
        (["--columns", "b,a,c"], "different column names: a, b, c; and b, a, c"),
        (["--nonnegative-mean"], "different parameters (nonnegative_mean"),
        (["--margins", "c=boxcox"], "Learned margins differ with the rows: give all learners the same."),
        (["--stderr", "jackknife"], "different parameters (stderr)"),
    ],
)
def test_records_that_do_not_agree_are_refused(sites, run, refused, options, said):
    first, second = recorded(run, "north"), recorded(run, "south", *options)
    shown = refused(run("merge", first, second, "-o", "merged.npz"))
    assert said.replace("nonnegative_mean", "--nonnegative-mean") in shown
    assert "north.record and south.record: " in shown
    assert not (sites / "merged.npz").exists()


def test_the_same_rows_count_once(sites, run, refused):
    first = recorded(run, "north")
    (sites / "copy.record").write_bytes((sites / first).read_bytes())
    assert "north.record and copy.record are of the same rows" in refused(run("merge", first, "copy.record"))
    assert "are of the same rows" in refused(run("merge", first, first))


def test_what_is_no_record_is_refused(sites, run, refused):
    first = recorded(run, "north")
    assert "north.npz holds a RectifiedGaussian without a record" in refused(run("merge", first, "north.npz"))
    assert "There is no model file gone.record" in refused(run("merge", first, "gone.record"))
    assert "is also an input" in refused(run("merge", first, "-o", first))
    assert "one pass over the rows" in refused(run("fit", "north.csv", "--method", "robust", "--record", "r"))
    assert "--round-counts is for" in refused(run("fit", "north.csv", "--round-counts", "5"))


@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_small_counts_are_rounded(folder, run):
    rows = X.copy()
    rows[:, 2] = 0.0
    rows[5:25, 2] = 7.25  # 20 rows; a few of them with both others above
    unrelu.tables.write_table("north.csv", rows, NAMES)
    recorded(run, "north", "--round-counts", "25")
    record = unrelu.load("north.record").record_
    assert (record.count[2] == 0).all()
    assert (record.masked_sum[2] == 0).all()
    assert (record.masked_sum[:, 2] == 0).all()
    assert record.origin[2] == 0.0
    assert record.margins is None
    whole = unrelu.RectifiedGaussianLearner("one_pass").fit(rows).record_
    np.testing.assert_array_equal(record.count[:2, :2], whole.count[:2, :2])
