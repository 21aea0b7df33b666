"""What rows show: each kind of table gets its own word, whatever the method, and rows of the model get none."""

import warnings

import numpy as np
import pytest

import unrelu
from tests.warned import warns
from unrelu.checks.misfit import RowSample, is_sorted, neighbours_of
from unrelu.estimators.second_look import has_far_values

R = 0.5 + 0.5 * np.eye(5)
N = 2000


def latent(kind, seed=0, n=N):
    rng = np.random.default_rng(seed)
    y = rng.multivariate_normal(np.zeros(5), R, n)
    if kind == "t5":
        y *= np.sqrt(5.0 / rng.chisquare(5.0, (n, 1)))
    if kind == "quadratic":
        y[:, 1] = 0.5 * (y[:, 0] ** 2 - 1.0) + 0.5 * y[:, 0] + 0.5 * rng.standard_normal(n)
    if kind == "mixture":
        y[rng.random(n) < 0.4] += [-2.5, 2.5, -2.5, 2.5, -2.5]
    if kind == "serial":
        for i in range(1, n):
            y[i] = 0.6 * y[i - 1] + 0.8 * y[i]
    return y


def table(kind, hidden=0.5, seed=0, n=N):
    y = latent(kind, seed, n)
    x = np.maximum(y - np.quantile(y, hidden, axis=0), 0.0)
    if kind == "zeros":
        x[np.random.default_rng(seed + 100).random(x.shape) < 0.2] = 0.0
    return x


def diagnostics(x, method="one_pass", margins="normal", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unrelu.errors.UnreluWarning)
        report = unrelu.RectifiedGaussianLearner(method, margins=margins, **options).fit(x).report_
    return {diagnostic.kind: diagnostic for diagnostic in report.diagnostics}


KINDS = {
    "t5": "heavy-tails",
    "quadratic": "bent",
    "mixture": "groups",
    "zeros": "excess-zeros",
    "serial": "dependent-rows",
}


@pytest.mark.parametrize("method", ["one_pass", "full_likelihood"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_each_kind_of_table_gets_its_word_first(kind, method):
    found = diagnostics(table(kind), method)
    assert next(iter(found)) == KINDS[kind]


def test_rows_of_the_model_get_none():
    """30 tables of 80 rows: each has a finding with a chance of about 2 %, so that 5 come once in 1,500 such tests."""
    assert (
        sum(bool(diagnostics(table("normal", hidden, seed, 80))) for seed in range(10) for hidden in (0.2, 0.5, 0.8))
        < 5
    )


def test_every_one_has_its_warning():
    for kind, said in KINDS.items():
        with warns(said):
            unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(table(kind))


def test_diagnostics_of_zeros_and_of_curves():
    zeros = diagnostics(table("zeros", 0.2))["excess-zeros"]
    assert zeros.columns == (0, 1, 2, 3, 4)
    assert 0.1 < min(zeros.values) < max(zeros.values) < 0.4  # to first order
    assert "means come out too low" in zeros.words
    assert {0, 1} <= set(diagnostics(table("quadratic"))["bent"].columns)


def test_errors_of_dependent_rows_are_too_small_by_a_factor():
    """AR(1) of .6: neighbours are alike by .6, errors of means too small by sqrt(1.6/.4) = 2."""
    y = latent("serial", n=4000)
    _, correlation, factor = neighbours_of(np.arange(4000), y)
    assert correlation == pytest.approx(0.6, abs=0.05)
    assert factor == pytest.approx(2.0, abs=0.3)
    shuffled = neighbours_of(np.arange(4000), y[np.random.default_rng(0).permutation(4000)])
    assert abs(shuffled[0]) < 4.0
    assert neighbours_of(2 * np.arange(4000), y)[0] == 0.0  # no neighbours among them


def test_a_sorted_table_is_no_series():
    x = table("normal")
    by_first = x[np.argsort(x[:, 0])]
    assert is_sorted(RowSample(np.arange(N), by_first, np.zeros(x.shape, dtype=np.int8), np.ones(N)))
    assert diagnostics(by_first) == {}


def test_a_value_that_lies_far_beyond_the_middle_of_its_column():
    values = np.random.default_rng(0).standard_normal((100, 2))
    look = RowSample(np.arange(100), values, np.zeros((100, 2), dtype=np.int8), np.ones(100))
    assert not has_far_values(look)
    values[7, 1] = 9.0
    assert has_far_values(look)


def test_heavy_tails_of_one_column_and_of_all():
    x = latent("normal")
    x[:, 2] = np.random.default_rng(5).standard_t(4, N)
    found = diagnostics(x, floor=None)
    assert found["heavy-tails"].columns == (2,)
    assert "margins='monotone'" in found["heavy-tails"].remedy
    assert diagnostics(x, floor=None, margins=["normal", "normal", "monotone", "normal", "normal"]) == {}
    assert (
        diagnostics(table("t5"), margins="monotone")["heavy-tails"].columns == ()
    )  # which no margins of columns change


def test_limits_by_cell_have_diagnostics():
    rng = np.random.default_rng(2)
    y = latent("normal")
    limit = rng.choice([-0.5, 0.0, 0.4], y.shape)
    assert diagnostics(np.maximum(y, limit), "full_likelihood", floor=limit) == {}
    found = diagnostics(np.exp(np.maximum(y, limit)), "full_likelihood", floor=np.exp(limit))
    assert "margins='monotone'" in next(iter(found.values())).remedy
    assert diagnostics(np.maximum(latent("t5"), limit), "full_likelihood", floor=limit).keys() == {"heavy-tails"}
    x = np.maximum(y + 0.5, limit)
    lost = rng.random(x.shape) < 0.2
    assert "excess-zeros" in diagnostics(np.where(lost, limit, x), "full_likelihood", floor=limit)


@pytest.mark.parametrize("method", ["robust", "robust_cells"])
def test_inlier_rows_and_cells_alone_are_tested(method):
    x = table("normal", 0.3)
    x[::10] += 12.0
    assert diagnostics(x, method) == {}


def test_gross_values_break_nothing():
    x = table("normal")
    x[3, 2] = 1e12
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        diagnostics(x)


@pytest.mark.parametrize("method", ["one_pass", "full_likelihood"])
def test_a_gross_value_beside_limits_by_cell_has_its_word(method):
    """One unit mistake among cells with limits of their own: named, by whichever method learns them."""
    rng = np.random.default_rng(0)
    floor = np.array([0.3, 0.6, 1.2])[rng.integers(0, 3, 1500)][:, None] * np.ones((1, 3))
    x = np.maximum(rng.standard_normal((1500, 3)), floor)
    assert "gross-value" not in diagnostics(x, method, floor=floor)
    x[0, 1] = 1e9
    assert diagnostics(x, method, floor=floor)["gross-value"].columns == (1,)
