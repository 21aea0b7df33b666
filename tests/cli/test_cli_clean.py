"""unrelu clean: bad cells made missing or imputed, a list of changes, nothing else touched."""

import json

import numpy as np
import pandas as pd
import pytest

from unrelu.tables import write_table

NAMES = ["As", "Pb", "Fe"]


@pytest.fixture
def dirty(folder, rows, truth):
    changed = rows[:1500].copy()
    bad = np.zeros(changed.shape, dtype=bool)
    bad[:40, 1] = True
    changed = np.where(bad, changed + 9.0 * truth.std, changed)
    changed[50, 2] = np.nan
    write_table(folder / "dirty.csv", changed, NAMES)
    return changed, bad


def test_bad_cells_become_missing_and_changes_are_listed(run, dirty):
    x, bad = dirty
    result = run("clean", "dirty.csv", "-o", "out.csv", "--changes", "changes.csv", "--picture", "p.png")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "made missing" in result.stdout
    cleaned, changes = pd.read_csv("out.csv").to_numpy(), pd.read_csv("changes.csv")
    gone = np.isnan(cleaned) & ~np.isnan(x)
    assert gone[bad].all()
    assert gone.sum() <= bad.sum() + 2
    np.testing.assert_array_equal(cleaned[~gone], x[~gone])
    assert list(changes) == ["row", "column", "old", "new", "bad_probability"]
    assert len(changes) == gone.sum()
    at = changes["row"] - 1, changes["column"].map(NAMES.index)
    np.testing.assert_allclose(changes["old"], x[at])
    assert changes["new"].isna().all()
    assert (changes["bad_probability"] > 0.5).all()


def test_bad_cells_are_imputed_by_their_rows(run, dirty, rows, model):
    x, bad = dirty
    given = ("--model", model, "--impute", "-o", "out.csv", "--changes", "changes.csv", "--json")
    answer = json.loads(run("clean", "dirty.csv", *given).stdout)
    cleaned = pd.read_csv("out.csv").to_numpy()
    assert answer["changed_to"] == "imputed"
    assert answer["changed"] == len(pd.read_csv("changes.csv")) >= bad.sum()
    assert not np.isnan(cleaned[bad]).any()
    assert np.isnan(cleaned[50, 2])  # what was missing stays so
    assert (cleaned[~np.isnan(cleaned)] >= 0.0).all()
    assert np.abs(cleaned[bad] - rows[:1500][bad]).mean() < np.abs(x[bad] - rows[:1500][bad]).mean() / 5.0


def test_a_column_of_which_a_third_would_go_is_named_and_left(run, folder, rows, model):
    changed = rows[:900].copy()
    changed[:, 1] = np.where(changed[:, 1] > 0.0, changed[:, 1] + 40.0, 0.0)  # more than a third off the floor
    changed[3, 0] += 40.0
    write_table(folder / "other.csv", changed, NAMES)
    for given in (("--model", model), ("--margins", "normal"), ()):
        result = run("clean", "other.csv", *given, "-o", "out.csv")
        assert result.exit_code == 0
        if "--model" in given:
            assert "('Pb'): the model does not fit such a column" in " ".join(result.stderr.split())
            assert result.stderr.endswith("[not-cleaned]\n")
        else:
            assert "many-bad-cells (1 column)" in " ".join(result.stdout.split())
            result = run("clean", "other.csv", *given, "-o", "out.csv", "--json")
            diagnostics = json.loads(result.stdout)["report"]["diagnostics"]
            left = [diagnostic for diagnostic in diagnostics if "all of them are left" in diagnostic["words"]]
            assert [(diagnostic["kind"], diagnostic["columns"]) for diagnostic in left] == [("many-bad-cells", [1])]
        cleaned = pd.read_csv("out.csv").to_numpy()
        np.testing.assert_array_equal(cleaned[:, 1], changed[:, 1])
        assert np.isnan(cleaned[3, 0])


def test_refusals(run, refused, dirty, model):
    assert "also an input" in refused(run("clean", "dirty.csv", "-o", "dirty.csv"))
    assert "--floor belongs to a fit" in refused(run("clean", "dirty.csv", "--model", model, "--floor", "1"))
    assert run("clean", "dirty.csv", "--level", "2").exit_code == 2
