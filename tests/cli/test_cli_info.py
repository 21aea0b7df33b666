"""info: what a model file says of itself."""

from __future__ import annotations

import json

import pytest

import unrelu


def test_info_of_a_fit(run, folder, table):
    run("fit", table, "-o", "out.npz")
    result = run("info", "out.npz")
    assert result.exit_code == 0
    for words in (
        "unrelu.RectifiedGaussian 1",
        unrelu.__version__,
        "one_pass",
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
    assert answer["format_version"] == 1
    assert sum(answer["variance_shares"]) == pytest.approx(1.0)
    assert answer["warnings"] == []


@pytest.mark.parametrize(
    "details",
    [
        None,
        {"columns": [1], "strongest_correlations": 7, "report": "fine"},
        {"columns": {"bias_stderr": [0.1]}, "strongest_correlations": [None, {}], "note": ["a"] * 9},
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
    assert answer["columns"][0]["norm"] == 2.0
    unrelu.synthetic.random_model(600, 3, random_state=0).save(folder / "many.npz")
    shares = json.loads(run("info", "many.npz", "--json").stdout)["variance_shares"]
    assert sum(shares[:3]) == pytest.approx(1.0)
    assert shares[3] == pytest.approx(0.0, abs=1e-9)
