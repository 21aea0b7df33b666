"""Summaries and tables: the numbers that are shown are those that were learned."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from unrelu.model import RectifiedGaussian
from unrelu.report.model import model_tables, strongest_correlations, variance_shares
from unrelu.report.tables import facts, with_error
from unrelu.report.trying import comparison_table, mean_absolute_skewness, moment_errors, moments_of_rows
from unrelu.synthetic import random_model


def _text(table) -> str:
    stream = io.StringIO()
    Console(file=stream, width=100).print(table.on_terminal())
    return stream.getvalue()


@pytest.mark.parametrize(
    ("value", "stderr", "expected"),
    [
        (0.5, 0.25, "0.50 ± 0.25"),
        (0.0996, 0.0099, "0.0996 ± 0.0099"),
        (12345.6, 120.0, "12346 ± 120"),
        (1e-9, 2e-10, "1e-09 ± 2e-10"),
        (3e9, 1e6, "3e+09 ± 1e+06"),
        (2.0, 0.0, "2 ± 0"),
        (2.0, float("nan"), "2"),
        (-0.25, None, "-0.25"),
    ],
)
def test_values_with_errors(value, stderr, expected):
    assert with_error(value, stderr) == expected


def test_the_strongest_pairs_are_the_strongest():
    model = random_model(9, 3, random_state=0)
    r = np.abs(model.correlation[np.triu_indices(9, 1)])
    pairs = strongest_correlations(model, np.full((9, 9), 0.25), most=7)
    assert [abs(pair["correlation"]) for pair in pairs] == sorted(r, reverse=True)[:7]
    for pair in pairs:
        i, j = int(pair["first"][1:]), int(pair["second"][1:])
        assert i < j
        assert pair["correlation"] == model.correlation[i, j]
        assert pair["stderr"] == 0.25
    assert len(strongest_correlations(model, most=100)) == 36


def test_one_column_has_no_pairs():
    assert strongest_correlations(RectifiedGaussian([0.0], [[1.0]])) == []


@pytest.mark.parametrize("d", [7, 520])
def test_variance_shares_are_those_of_all_eigenvalues(d):
    model = random_model(d, condition_number=50.0, random_state=1)
    expected = np.linalg.eigvalsh(model.correlation)[::-1][:5] / d
    np.testing.assert_allclose(variance_shares(model), expected, atol=1e-9)


def test_column_table_shows_names_as_they_are_and_floors_where_they_differ():
    model = RectifiedGaussian([0.5, 1.0], np.eye(2), floor=[0.0, 0.25], feature_names=["[red]a[/red]", "b"])
    text = _text(model_tables(facts(model, [0.5, 0.0], [0.1, 0.1], [0.2, 0.2]))[0])
    for words in ("[red]a[/red]", "50.0%", "0.50 ± 0.10", "1.00 ± 0.20", "0.25"):
        assert words in text
    alone = RectifiedGaussian([1.0], [[1.0]], floor=0.25)
    same_floor = _text(model_tables(facts(alone))[0])
    assert "floor " not in same_floor.replace("floored", "")


def test_moment_errors_are_zero_for_the_truth_and_scale_free():
    rows = np.random.default_rng(0).normal(size=(500, 3)) @ np.diag([1.0, 10.0, 0.1])
    true = moments_of_rows(rows)
    np.testing.assert_allclose(true.correlation, np.corrcoef(rows.T), atol=1e-12)
    assert moment_errors(true, true) == {"mean": 0.0, "std": 0.0, "correlation": 0.0}
    shifted = RectifiedGaussian(true.mean + 0.5 * true.std, 1.5**2 * true.covariance)
    assert moment_errors(shifted, true)["mean"] == pytest.approx(0.5)
    assert moment_errors(shifted, true)["std"] == pytest.approx(0.5)


def test_one_column_can_be_compared():
    true = moments_of_rows(np.array([[0.0], [1.0], [3.0]]))
    assert moment_errors(true, true)["correlation"] == 0.0


def test_skewness_of_an_exponential():
    rows = np.random.default_rng(0).exponential(size=(200_000, 2))
    assert mean_absolute_skewness(rows) == pytest.approx(2.0, abs=0.05)


def test_comparison_table():
    errors = {"a": {"mean": 0.1, "std": 0.2, "correlation": 0.3}, "b": {"mean": 0.0, "std": 0.0, "correlation": 0.0}}
    text = _text(comparison_table(errors, {"a": 0.0125}))
    for words in ("0.100", "0.200", "0.300", "12.5 ms"):
        assert words in text
