"""score --cells: the most outlying cells, what the rest of their rows predicts, on the terminal, in files and as
JSON."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import unrelu
from unrelu.tables import write_table

NAMES = ["As", "Pb", "Fe"]


@pytest.fixture
def dirty(folder, rows, truth):
    """One cell too high by 9 standard deviations, one at its floor beside high ones, one missing."""
    changed = rows[:500].copy()
    changed[7, 1] += 9.0 * truth.std[1]
    changed[20, 2] = np.nan
    write_table(folder / "dirty.csv", changed, NAMES)
    return changed


def _conditional(distribution, row, j):
    """Mean and standard deviation of a column given the others, all of which are above their floors."""
    rest = [k for k in range(distribution.n_features) if k != j]
    inverse = np.linalg.inv(distribution.covariance[np.ix_(rest, rest)])
    weights = distribution.covariance[j, rest] @ inverse
    return distribution.mean[j] + weights @ (row[rest] - distribution.mean[rest]), np.sqrt(
        distribution.covariance[j, j] - weights @ distribution.covariance[rest, j]
    )


def test_every_cell_is_written_from_the_most_outlying_on(run, dirty, truth, model):
    result = run("score", "dirty.csv", "--model", model, "--cells", "-o", "cells.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    found = pd.read_csv("cells.csv")
    assert list(found) == ["row", "column", "value", "predicted_mean", "predicted_std", "residual", "bad_probability"]
    assert len(found) == dirty.size - 1
    assert found.loc[0, ["row", "column"]].tolist() == [8, "Pb"]
    assert (np.diff(found["bad_probability"]) <= 0.0).all()
    at = (found["row"] - 1, found["column"].map(NAMES.index))
    np.testing.assert_allclose(found["value"], dirty[at], rtol=1e-12)
    np.testing.assert_allclose(np.abs(found["residual"]), truth.cell_outlier_score(dirty)[at], rtol=1e-9, atol=1e-12)
    seen = (dirty > 0.0).all(axis=1)[at[0]]  # rows without hidden cells: the formula holds
    for _, line in found[seen][:40].iterrows():
        j = NAMES.index(line["column"])
        mean, std = _conditional(truth, dirty[line["row"] - 1], j)
        assert line["predicted_mean"] == pytest.approx(mean, rel=1e-6)
        assert line["predicted_std"] == pytest.approx(std, rel=1e-6)
        assert line["residual"] == pytest.approx((line["value"] - mean) / std, rel=1e-6)


def test_the_top_and_the_terminal(run, dirty, model):
    answer = json.loads(run("score", "dirty.csv", "--model", model, "--cells", "--json").stdout)
    assert len(answer["most_outlying_cells"]) == 10
    assert (answer["cells_scored"], answer["cells_beyond_4"] >= 1) == (dirty.size - 1, True)
    assert answer["expected_beyond_4"] == pytest.approx(2.0 * norm.sf(4.0) * (dirty.size - 1))
    result = run("score", "dirty.csv", "--model", model, "--cells", "--top", 3, "-o", "cells.parquet")
    assert len(pd.read_parquet("cells.parquet")) == 3
    for words in ("1,499 cells in 500 rows", "a residual above 4 or below -4", "predicted", "±", "Pb"):
        assert words in result.stdout
    for top in (0, 5000):
        options = ("--cells", "--top", top, "-o", "cells.csv")
        assert run("score", "dirty.csv", "--model", model, *options).exit_code == 0
        assert len(pd.read_csv("cells.csv")) == min(top, dirty.size - 1)


def test_a_fit_of_the_table_with_ids(run, folder, dirty):
    frame = pd.DataFrame(dirty, columns=NAMES).assign(site=[f"lake {i}" for i in range(500)])
    frame.to_csv(folder / "sites.csv", index=False)
    answer = json.loads(run("score", "sites.csv", "--id", "site", "--cells", "--top", 1, "--json").stdout)
    (cell,) = answer["most_outlying_cells"]
    assert (cell["row"], cell["id"], cell["column"]) == (8, {"site": "lake 7"}, "Pb")
    assert answer["report"]["method"] == "robust_cells"
    assert cell["bad_probability"] > 0.99
    assert answer["cells_bad"] >= 1


def test_cells_off_a_constant_are_the_most_outlying(run, folder):
    unrelu.RectifiedGaussian([0.0, 2.0], [[1.0, 0.0], [0.0, 0.0]]).save(folder / "constant.npz")
    np.save(folder / "rows.npy", [[1.0, 2.0], [9.0, 2.0], [0.5, 3.0]])
    answer = json.loads(run("score", "rows.npy", "--model", "constant.npz", "--cells", "--json").stdout)
    assert [(cell["row"], cell["column"]) for cell in answer["most_outlying_cells"][:2]] == [(3, "x1"), (2, "x0")]


def test_a_picture_of_the_bad_cells(run, folder, dirty, model):
    assert run("score", "dirty.csv", "--model", model, "--cells", "--picture", "p.png").exit_code == 0
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
