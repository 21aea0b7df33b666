"""A more outlying's tables, answered without options: no absurd number, and what is not right is said.

Every test is a simulated table with a property that once gave wrong numbers, most of them without a word.
"""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import unrelu
from benchmarks.defaults.kinds import NAMED, draw
from benchmarks.defaults.rubin import covers
from tests.references.commands import invoke
from tests.warned import kinds_of, warns
from unrelu.errors import UnreluWarning
from unrelu.tables import open_samples, write_table

SAMPLES = Path(__file__).parent.parent / "examples" / "samples.csv"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command that must succeed, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(*args):
        result = invoke(*args)
        assert result.exit_code == 0, result.output
        return result

    return command


@contextmanager
def listening():
    """A list of the kinds of our warnings."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    said += kinds_of(caught)


def told(learner, X, **options):
    """(the fitted learner, what was said of the table: warnings and diagnostics)."""
    with listening() as said:
        learner.fit(X, **options)
        diagnostics = [diagnostic.kind for diagnostic in learner.report_.diagnostics]
    assert [kind for kind in said if kind in diagnostics] == diagnostics
    return learner, said


def quietly(learner, X):
    return told(learner, X)[0]


def normals(n, d, seed, r=0.5):
    rng = np.random.default_rng(seed)
    return np.sqrt(1.0 - r) * rng.standard_normal((n, d)) + np.sqrt(r) * rng.standard_normal((n, 1))


# --- filled cells -----------------------------------------------------------------------------------


@pytest.fixture
def emptied(tmp_path):
    """The sample file with 15 cells of Zn empty: (table, rows of those cells)."""
    table = pd.read_csv(SAMPLES, dtype=str)
    rows = np.random.default_rng(0).permutation(len(table))[:15]
    table.loc[rows, "Zn"] = ""
    table.to_csv(tmp_path / "emptied.csv", index=False)
    return table, rows


@pytest.mark.parametrize("given", [(), ("--margins", "auto")], ids=["default", "auto"])
def test_empty_cells_of_the_sample_file(run, emptied, given):
    table, rows = emptied
    run("impute", "emptied.csv", "--id", "site", *given, "-o", "completed.csv", "--std", "std.csv")
    seen = pd.to_numeric(table["Zn"].drop(index=rows))
    filled, std = (pd.read_csv(name)["Zn"].to_numpy()[rows] for name in ("completed.csv", "std.csv"))
    assert filled.min() >= seen.min() / 20.0
    assert filled.max() <= 10.0 * seen.max()
    assert std.max() <= 10.0 * seen.max()
    truth = pd.read_csv(SAMPLES)["Zn"].to_numpy()[rows]
    assert np.sqrt(np.mean((filled - truth) ** 2)) < 1.5 * truth.std()  # no worse than its mean, by and large


@pytest.mark.parametrize("given", [{}, {"margins": "auto"}], ids=["default", "auto"])
def test_empty_cells_of_columns_heavier_than_lognormal(given):
    """1 / gamma: a Box-Cox exponent of -1/3, which has no mean."""
    rng = np.random.default_rng(1)
    common = rng.gamma(1.5, size=(400, 1))
    full = 1.0 / (common + rng.gamma(1.5, size=(400, 6)))
    empty = rng.random(full.shape) < 0.1
    imputer = quietly(unrelu.FloorImputer(**given), np.where(empty, np.nan, full))
    filled = imputer.transform(np.where(empty, np.nan, full))
    assert (filled > 0.0).all()
    assert (filled <= 10.0 * np.where(empty, 0.0, full).max(axis=0)).all()
    assert filled.mean(axis=0) == pytest.approx(full.mean(axis=0), rel=0.2)
    alone = imputer.distribution_.impute(np.full((1, 6), np.nan), return_std=True)
    assert (alone[0] < 10.0 * full.mean(axis=0)).all()
    assert (alone[1] < 10.0 * full.max(axis=0)).all()


@pytest.mark.parametrize("given", [{}, {"margins": "auto"}], ids=["default", "auto"])
@pytest.mark.parametrize("n", [60, 100])
def test_lognormal_columns_stay_positive_with_few_rows(n, given):
    for seed in range(6):
        values = np.exp(normals(n, 4, seed))
        floor = np.quantile(values, 0.6, axis=0)
        x = np.maximum(values, floor)
        imputer = quietly(unrelu.FloorImputer(floor=floor.tolist(), **given), x)
        for several in (imputer.transform(x), imputer.draw(x)[0], imputer.sample(500, random_state=0)):
            assert (several > 0.0).all(), seed
            assert (several < 10.0 * x.max(axis=0)).all(), seed


@pytest.fixture
def laboratories(tmp_path):
    """Lognormal columns, limits of .5 and 2 by row: (values, limits, the rows that are in the file labs.csv)."""
    values = np.exp(normals(300, 3, 0)) * [1.0, 1.5, 2.0]
    limit = np.where(np.arange(300)[:, None] % 2, 0.5, 2.0) * np.ones(3)
    cells = np.where(values <= limit, np.char.add("<", limit.astype(str)), np.char.mod("%.6g", values))
    pd.DataFrame(cells, columns=["As", "Cu", "Zn"]).to_csv(tmp_path / "labs.csv", index=False)
    return values, limit


def test_several_limits_in_a_column(laboratories):
    values, limit = laboratories
    x = np.maximum(values, limit)
    imputer, said = told(unrelu.FloorImputer(floor=limit), x)
    assert said == []
    assert [margin.kind for margin in imputer.margins_] == ["log"] * 3
    filled = imputer.transform(x)
    assert (filled > 0.0).all()
    assert (filled <= limit + 1e-9)[values <= limit].all()
    logs = np.corrcoef(np.log(values), rowvar=False)
    assert np.abs(imputer.correlation_ - logs).max() < 0.15


def test_several_limits_in_a_column_of_a_file(run, laboratories):
    values, limit = laboratories
    run("impute", "labs.csv", "--limits", "cell", "-o", "out.csv")
    filled = pd.read_csv("out.csv").to_numpy()
    assert (filled > 0.0).all()
    assert (filled <= limit + 1e-9)[values <= limit].all()


def test_a_wrong_margin_is_diagnosed_with_several_limits_as_well(laboratories):
    values, limit = laboratories
    learner = unrelu.RectifiedGaussianLearner("full_likelihood", floor=limit, margins="normal")
    _, said = told(learner, np.maximum(values, limit))
    assert said


def rain():
    """Daily rain at four stations: 60 % dry, one cell in ten missing."""
    y = normals(500, 4, 2, 0.7) - 0.25
    x = np.maximum(y, 0.0) * 10.0
    return np.where(np.random.default_rng(3).random(x.shape) < 0.1, np.nan, x)


def test_missing_rain_is_filled_in_at_or_above_its_floor():
    x = rain()
    missing = np.isnan(x)
    imputer = quietly(unrelu.FloorImputer(below="floor", fill="missing"), x)
    filled = imputer.transform(x)
    np.testing.assert_array_equal(filled[~missing], x[~missing])
    assert (filled[missing] >= 0.0).all()
    assert (imputer.draw(x)[0] >= 0.0).all()
    latent = quietly(unrelu.FloorImputer(below="latent", fill="both"), x).transform(x)
    assert (latent[x == 0.0] < 0.0).all()
    hidden = quietly(unrelu.FloorImputer(fill="hidden"), x).transform(x)
    np.testing.assert_array_equal(np.isnan(hidden), missing)
    # A mean of max(y, 0), not the larger of 0 and the mean of y.
    assert (filled[missing] > np.maximum(latent[missing], 0.0)).mean() > 0.9


def test_missing_rain_by_the_command_line(run):
    x = rain()
    write_table("rain.csv", x, ["a", "b", "c", "d"])
    run("impute", "rain.csv", "--below", "floor", "--fill", "missing", "-o", "out.csv")
    found = pd.read_csv("out.csv").to_numpy()
    assert (found >= 0.0).all()
    wanted = quietly(unrelu.FloorImputer(below="floor", fill="missing"), x).transform(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


RAIN_NAMES = ["a", "b", "c", "d"]


def filled_by_all_doors(imputer, x):
    """What the imputer, and its model, fill in: {(door, question): table}."""
    model, found = imputer.distribution_, {}
    options = {"fill": imputer.fill, "below": imputer.below}
    for level in (0.05, 0.5, 0.9):
        found["imputer", level] = imputer.quantile(x, level)
        found["model", level] = model.impute(x, quantile=level, **options)
    found["imputer", "draw"] = imputer.draw(x, 3, 7, parameters="fitted")
    found["model", "draw"] = model.sample_latent(x, 3, 7, **options)
    found["imputer", "mean"], found["imputer", "std"] = imputer.transform(x), imputer.std(x)
    found["model", "mean"], found["model", "std"] = model.impute(x, return_std=True, **options)
    return found


@pytest.mark.parametrize("method", ["one_pass", "full_likelihood"])
def test_missing_rain_without_options_is_what_the_table_would_show(method):
    """As with below="floor" where a cell is missing, as with "latent" where it is 0, by imputer and model."""
    x = rain()
    missing = np.isnan(x)
    imputer = quietly(unrelu.FloorImputer(method, margins="normal"), x)
    assert imputer.get_params()["below"] == "auto"
    auto, latent, floor = (
        filled_by_all_doors(imputer.set_params(below=below), x) for below in ("auto", "latent", "floor")
    )
    for asked, values in auto.items():
        assert (values[..., missing] >= 0.0).all(), asked
        np.testing.assert_array_equal(values[..., missing], floor[asked][..., missing], err_msg=str(asked))
        np.testing.assert_array_equal(values[..., ~missing], latent[asked][..., ~missing], err_msg=str(asked))
        np.testing.assert_allclose(values, auto["model", asked[1]], atol=1e-9, err_msg=str(asked))
    assert (latent["model", "mean"][missing] < 0.0).mean() > 0.5  # as it was
    assert (auto["model", "mean"][x == 0.0] < 0.0).all()
    model = imputer.distribution_
    for plain in (model.impute(x), unrelu.FloorImputer.from_model(model).transform(x)):
        np.testing.assert_allclose(plain, auto["model", "mean"], atol=1e-9)
    assert (imputer.set_params(below="auto", strategy="draw").transform(x)[missing] >= 0.0).all()
    assert (imputer.draw(x, 3)[:, missing] >= 0.0).all()
    assert (model.sample_latent(x, 3, 7)[:, missing] >= 0.0).all()


def test_missing_rain_has_the_mean_of_what_would_fall():
    """Against integrals over the conditional normal, worked out by hand from the covariance."""
    covariance = np.array([[4.0, 2.0, 1.0], [2.0, 3.0, 0.5], [1.0, 0.5, 2.0]])
    model = unrelu.RectifiedGaussian([-0.5, 0.4, 0.2], covariance)
    x = np.array([[np.nan, 1.3, 0.7], [np.nan, 0.1, 2.5], [np.nan, np.nan, 0.3]])
    mean, std = model.impute(x, return_std=True)
    for i, seen in ((0, [1, 2]), (1, [1, 2]), (2, [2])):
        solved = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen, 0])
        centre = -0.5 + solved @ (x[i, seen] - model.mean[seen])
        distribution = norm(centre, np.sqrt(4.0 - solved @ covariance[seen, 0]))
        first = quad(lambda y, distribution=distribution: y * distribution.pdf(y), 0.0, 40.0)[0]
        second = quad(lambda y, distribution=distribution: y * y * distribution.pdf(y), 0.0, 40.0)[0]
        assert mean[i, 0] == pytest.approx(first, abs=1e-6)
        assert std[i, 0] == pytest.approx(np.sqrt(second - first**2), abs=1e-5)
        for level in (0.1, 0.5, 0.9):
            shown = max(distribution.ppf(level), 0.0)
            assert model.impute(x, quantile=level)[i, 0] == pytest.approx(shown, abs=1e-6)


def test_missing_rain_in_the_row_of_a_dry_station():
    """Both kinds of hidden cells in one row, against the rows of a simulated table that are dry there.

    What is known of a cell beside a dry one is taken for a normal: its deviation is a bit off, draws are exact.
    """
    model = unrelu.RectifiedGaussian([-0.3, -0.2], [[1.0, 0.7], [0.7, 1.0]])
    y = np.random.default_rng(0).multivariate_normal(model.mean, model.covariance, 400_000)
    y = y[y[:, 1] <= 0.0]
    mean, std = model.impute([[np.nan, 0.0]], return_std=True)
    error = 4.0 / np.sqrt(len(y))
    assert mean[0] == pytest.approx([np.maximum(y[:, 0], 0.0).mean(), y[:, 1].mean()], abs=error)
    assert std[0] == pytest.approx([np.maximum(y[:, 0], 0.0).std(), y[:, 1].std()], rel=0.1)
    draws = model.sample_latent([[np.nan, 0.0]] * 100, 400, 0).reshape(-1, 2)
    assert draws.std(axis=0) == pytest.approx([np.maximum(y[:, 0], 0.0).std(), y[:, 1].std()], abs=error)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "dask"])
def test_missing_rain_of_files_and_parts(run, kind):
    x = rain()
    if kind == "dask":
        table = pytest.importorskip("dask.array").from_array(x, chunks=(130, -1))
    else:
        write_table(f"rain.{kind}", x, RAIN_NAMES)
        table = open_samples(f"rain.{kind}")
    found = quietly(unrelu.FloorImputer("one_pass", margins="normal"), table).transform(table)
    wanted = quietly(unrelu.FloorImputer("one_pass", margins="normal"), x).transform(x)
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    assert (found[np.isnan(x)] >= 0.0).all()


@pytest.mark.parametrize("known", [False, True], ids=["table", "model"])
def test_missing_rain_by_the_command_line_without_options(run, known):
    x = rain()
    missing = np.isnan(x)
    write_table("rain.csv", x, RAIN_NAMES)
    imputer = quietly(unrelu.FloorImputer(), pd.DataFrame(x, columns=RAIN_NAMES))
    imputer.distribution_.save("model.npz")
    given = ("impute", "rain.csv", *(("--model", "model.npz") if known else ()))
    said = " ".join(run(*given, "-o", "out.csv", "--std", "std.csv", "--quantile", ".05").output.split())
    assert "Missing cells of a, b, c, d: filled as the table would show them" in said
    found = pd.read_csv("out.csv")
    np.testing.assert_allclose(found[RAIN_NAMES], imputer.transform(x), atol=1e-7)
    np.testing.assert_allclose(found[[f"{name}_q05" for name in RAIN_NAMES]], imputer.quantile(x, 0.05), atol=1e-7)
    np.testing.assert_allclose(pd.read_csv("std.csv"), imputer.std(x), atol=1e-7)
    assert (found[RAIN_NAMES].to_numpy()[missing] >= 0.0).all()
    run(*given, "--draws", 2, "-o", "out.csv")
    draws = pd.read_csv("out.csv")[RAIN_NAMES].to_numpy().reshape(2, *x.shape)
    assert (draws[:, missing] >= 0.0).all()
    assert (draws[:, x == 0.0] < 0.0).all()


def test_missing_concentrations_are_filled_in_before_their_limit(run):
    """A floor of .5 is a limit of detection, and a column without one has none: as with below="latent"."""
    x = np.maximum(normals(500, 3, 2, 0.7), [0.5, 0.5, -np.inf])
    x[np.random.default_rng(3).random(x.shape) < 0.1] = np.nan
    imputer = quietly(unrelu.FloorImputer(floor=[0.5, 0.5, None], margins="normal"), x)
    auto, latent = (filled_by_all_doors(imputer.set_params(below=below), x) for below in ("auto", "latent"))
    for asked, values in auto.items():
        np.testing.assert_array_equal(values, latent[asked], err_msg=str(asked))
    assert (auto["model", "mean"][np.isnan(x)] < 0.0).any()
    write_table("labs.csv", x, ["As", "Pb", "T"])
    given = ("--floor", "As=0.5,Pb=0.5,T=none", "--margins", "normal", "-o", "out.csv")
    assert "as the table would show" not in " ".join(run("impute", "labs.csv", *given).output.split())
    np.testing.assert_allclose(pd.read_csv("out.csv"), auto["imputer", "mean"], atol=1e-7)


def test_floors_of_rows_that_are_not_0_are_limits_of_detection():
    """Of a model whose floor is 0, asked about rows with other floors."""
    model = unrelu.RectifiedGaussian([-0.5, -0.5], [[1.0, 0.6], [0.6, 1.0]])
    x = np.array([[np.nan, 0.4], [0.3, np.nan]])
    latent = model.impute(x, floor=0.3, below="latent")
    for floor in (0.3, [0.3, 0.3], np.full((2, 2), 0.3)):
        np.testing.assert_array_equal(model.impute(x, floor=floor), latent)
        np.testing.assert_array_equal(model.sample_latent(x, 2, 0, floor=floor)[:, 0, 0] < 0.0, [True, True])
    for floor in (None, 0.0, [0.0, 0.0], np.zeros((2, 2))):
        assert (model.impute(x, floor=floor) >= 0.0).all()


@pytest.mark.parametrize("n", [150, 600])
def test_concentrations_with_non_detects_coded_as_0_are_never_negative(n):
    for seed in range(4):
        x = np.exp(normals(n, 5, 30 + seed, 0.7) * [0.8, 1.0, 1.0, 1.2, 1.5]) * [1.0, 10.0, 0.1, 5.0, 2.0]
        x = np.where(x < np.quantile(x, 0.2, axis=0), 0.0, x)
        x[np.random.default_rng(seed).random(x.shape) < 0.1] = np.nan
        imputer = quietly(unrelu.FloorImputer(), x)
        for several in (imputer.transform(x), imputer.draw(x)[0], imputer.sample(200, random_state=0)):
            assert (several >= 0.0).all(), seed


# --- errors that are honest -------------------------------------------------------------------------


def test_draws_pooled_by_rubins_rules():
    """20 draws of 100 rows, 80 % floored: intervals of the mean cover 95 %, here within three standard errors."""
    found = np.mean([covers(0.8, seed) for seed in range(40)], axis=0)
    assert found[0] > 0.95 - 3.0 * np.sqrt(0.05 * 0.95 / 40)


def test_errors_of_the_full_likelihood_with_heavy_tails():
    """One row in ten has three times the spread: reported errors of the norms beside their spread over tables."""
    stds, errors = [], []
    for seed in range(40):
        rng = np.random.default_rng([seed, 11])
        y = normals(400, 3, seed) * np.where(rng.random((400, 1)) < 0.1, 3.0, 1.0)
        learner = unrelu.RectifiedGaussianLearner("full_likelihood", margins="normal")
        quietly(learner, np.maximum(y + 0.3, 0.0))
        stds.append(learner.std_)
        errors.append(learner.std_stderr_)
    ratio = np.mean(errors) / np.std(stds, axis=0, ddof=1).mean()
    assert 0.75 < ratio < 1.3


def test_days_that_depend_on_the_day_before_are_diagnosed():
    rng = np.random.default_rng(4)
    y = normals(1000, 3, 5)
    for i in range(1, len(y)):
        y[i] = 0.6 * y[i - 1] + 0.8 * y[i]
    x = np.maximum(y, 0.0)
    assert told(unrelu.RectifiedGaussianLearner(), x)[1]
    assert told(unrelu.RectifiedGaussianLearner(), x[rng.permutation(len(x))])[1] == []


def test_edges_that_half_of_the_rows_do_not_share_are_diagnosed():
    """Forty columns follow a few factors, no two of them alone: halves of 100 rows find other edges."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal((100, 10)) @ rng.standard_normal((10, 40)) + 2.0 * rng.standard_normal((100, 40))
    x = np.maximum(y, 0.0)

    def edges(rows):
        network = unrelu.RectifiedGaussianGraph()
        with listening() as said:
            found = {(edge.first, edge.second) for edge in network.fit(rows).edges_}
        return found, said

    _, said = edges(x)
    if not said:
        (first, _), (second, _) = edges(x[::2]), edges(x[1::2])
        assert len(first & second) > 0.5 * len(first | second)


# --- tables that are not the model ------------------------------------------------------------------


def test_zeros_for_another_reason_are_diagnosed():
    y = normals(1000, 4, 6) + 0.5
    x = np.maximum(y, 0.0)
    x[np.random.default_rng(7).random(x.shape) < 0.2] = 0.0
    learner, said = told(unrelu.RectifiedGaussianLearner(), x)
    off = np.abs(learner.mean_ - 0.5) / learner.mean_stderr_
    assert said or off.max() < 2.5


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_a_mixture_of_two_groups_is_diagnosed(share):
    rng = np.random.default_rng(8)
    y = normals(1000, 4, 9) + 2.5 * (rng.random((1000, 1)) < 0.4)
    learner = unrelu.RectifiedGaussianLearner()
    x = np.maximum(y - np.quantile(y, share, axis=0), 0.0)
    _, said = told(learner, x)
    assert said
    assert not any("robust" in diagnostic.remedy for diagnostic in learner.report_.diagnostics)  # it goes further off


def test_heavy_tails_are_diagnosed_by_the_robust_fit():
    rng = np.random.default_rng(10)
    y = normals(1000, 4, 11) * np.sqrt(5.0 / rng.chisquare(5.0, (1000, 1)))
    learner, said = told(unrelu.RectifiedGaussianLearner("robust", margins="normal"), np.maximum(y, 0.0))
    assert (np.abs(learner.std_ / np.sqrt(5.0 / 3.0) - 1.0) < 0.1).all() or said


@pytest.mark.parametrize("name", ["t5", "quadratic"])
def test_intervals_cover_or_a_diagnostic_says_why(name):
    inside, silent = [], 0
    for seed in range(4):
        table = draw(NAMED[name], 1000, 0.5, seed)
        imputer, said = told(unrelu.FloorImputer(), table.x)
        low, high = (imputer.quantile(table.x, level) for level in (0.05, 0.95))
        within = ((table.behind >= low) & (table.behind <= high))[table.scored].mean()
        inside.append(within)
        silent += not 0.87 <= within <= 0.93 and not said
    assert silent == 0
    assert min(inside) > 0.8, inside  # and learned margins do not make them worthless


@pytest.mark.parametrize("far", [1e5, 1e10, 1e100])
def test_gross_values_have_finite_answers(far):
    x = np.maximum(normals(400, 4, 12), 0.0)
    model = quietly(unrelu.RectifiedGaussianLearner("one_pass", margins="normal"), x).distribution_
    row = np.array([[far, 0.0, 1.0, np.nan], [0.0, 1.0, far, far]])
    assert np.isfinite(model.log_prob(row)).all()
    assert np.isfinite(model.outlier_score(row)).all()
    assert np.isfinite(model.cell_outlier_score(row)[~np.isnan(row)]).all()
    for filled in model.impute(row, return_std=True):
        assert np.isfinite(filled).all()
    assert np.isfinite(model.sample_latent(row, 2, random_state=0)).all()


def test_a_unit_mistake_in_a_row_is_left_out_and_diagnosed():
    x = np.maximum(normals(400, 4, 13), 0.0)
    x[7] *= 1e5
    x[7, 0] = 1e5
    imputer, said = told(unrelu.FloorImputer(), x)
    assert said
    assert np.isfinite(imputer.transform(x)).all()
    assert np.isfinite(imputer.score_samples(x)).all()


@pytest.mark.parametrize("floor", [0.3, 0.7], ids=["rounded up", "rounded down"])
def test_logs_taken_by_hand_are_at_the_floor(floor):
    """In a file with nine digits: they are just above the logarithm of the floor, or just below."""
    values = np.exp(normals(400, 3, 14))
    x = np.maximum(values, floor)
    model = quietly(unrelu.RectifiedGaussianLearner("one_pass", margins="log", floor=floor), x).distribution_
    for logs in (np.log(x).round(9), np.log(x).astype(np.float32)):
        filled = model.latent.impute(logs)
        assert (filled < np.log(floor) - 1e-3)[values <= floor].all()


# --- the default takes its own advice -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["outlier rows", "bad cells"])
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_bad_cells_and_outlier_rows_are_left_out_and_diagnosed(kind, share):
    table = draw(NAMED[kind], 200, share, 50)
    learner, said = told(unrelu.RectifiedGaussianLearner(), table.x)
    assert "left-out" in said
    assert "left-out" in [diagnostic.kind for diagnostic in learner.report_.diagnostics]
    assert learner.report_.method == "robust_cells"
    assert "do not follow the model of the others" in learner.report_.chosen_because
    named = quietly(unrelu.RectifiedGaussianLearner("robust_cells"), table.x)
    np.testing.assert_array_equal(learner.correlation_, named.correlation_)
    z = (learner.correlation_ - table.correlation)[np.triu_indices(4, 1)] / 0.075  # about a standard error
    assert np.sqrt(np.mean(z**2)) < 2.0
    counted = quietly(
        unrelu.RectifiedGaussianLearner("full_likelihood"), table.x
    )  # a method that is named leaves out none
    assert np.abs(counted.correlation_ - table.correlation).max() > 0.2


def test_the_answer_says_that_cells_were_left_out(run):
    write_table("bad.csv", draw(NAMED["bad cells"], 200, 0.5, 0).x, ["As", "Pb", "Cd", "Zn"])
    result = run("fit", "bad.csv", "-o", "model.npz")
    assert "belong together: others were left out" in result.stdout
    words = "by robust_cells, as 23 single cells do not follow the model of the others, and were left out"
    assert words in " ".join(result.stdout.split())


def test_far_cells_are_left_out_where_there_is_no_other_diagnostic():
    """Of 60 rows, 80 % hidden, twelve values a column are seen: no test has the power to diagnostic them."""
    learner, said = told(unrelu.RectifiedGaussianLearner(), draw(NAMED["bad cells"], 60, 0.8, 100).x)
    assert "left-out" in said
    assert learner.report_.share_bad > 0.0


@pytest.mark.parametrize("kind", ["normal", "lognormal", "ties", "mixture", "counts"])
def test_nothing_is_left_out_of_other_tables(kind):
    for seed in range(40, 44):
        table = draw(NAMED[kind], 200, 0.5, seed)
        learner, said = told(unrelu.RectifiedGaussianLearner(**table.options), table.x)
        assert learner.report_.method != "robust_cells", (seed, said)


def test_columns_of_two_groups_become_free_in_their_own_units():
    table = draw(NAMED["mixture"], 1000, 0.2, 0)
    free = quietly(unrelu.RectifiedGaussianLearner(), table.x)
    normal = quietly(unrelu.RectifiedGaussianLearner(margins="normal"), table.x)
    assert {margin.kind for margin in free.margins_} == {"monotone"}
    off = [np.abs(each.correlation_ - table.correlation).max() for each in (free, normal)]
    assert off[0] < 0.6 * off[1]
    np.testing.assert_allclose(free.mean_, normal.mean_, atol=0.5)  # one unit of y is one of x
    np.testing.assert_allclose(free.std_, normal.std_, rtol=0.2)


def test_what_is_hidden_of_a_monotone_column_is_diagnosed():
    y = normals(1000, 3, 20)
    learner, said = told(unrelu.RectifiedGaussianLearner(), np.maximum(y + 0.35 * (y**2 - 1.0), 0.0))
    assert "skewed" in said
    assert any("seen values reject a normal" in diagnostic.words for diagnostic in learner.report_.diagnostics)


# --- reading and cleaning ---------------------------------------------------------------------------


def test_a_header_of_whole_numbers_over_fractions(run):
    """Numbers of stations, neither rising by ones nor of another size than the values."""
    values = np.random.default_rng(15).gamma(2.0, 5.0, (60, 4)).round(2)
    lines = ["7,2,11,4", *(",".join(f"{value:g}" for value in row) for row in values)]
    Path("stations.csv").write_text("\n".join(lines))
    with warns("guessed-header"):
        assert open_samples("stations.csv").feature_names == ("7", "2", "11", "4")
    answer = json.loads(run("fit", "stations.csv", "-o", "model.npz", "--json").stdout)
    assert answer["report"]["n_rows"] == 60


@pytest.mark.parametrize("given", [(), ("--margins", "normal")], ids=["default", "normal"])
def test_cleaning_leaves_a_column_that_is_of_another_distribution(run, given):
    x = normals(800, 4, 16, 0.6)
    x[:, 0] = 5.0 * (np.random.default_rng(17).random(800) < 0.45) + 0.3 * x[:, 0]  # two heaps
    x[5, 2] += 30.0
    write_table("heaps.csv", x, ["As", "Pb", "Cd", "Zn"])
    answer = json.loads(run("clean", "heaps.csv", "--floor", "none", *given, "-o", "out.csv", "--json").stdout)
    gone = np.isnan(pd.read_csv("out.csv").to_numpy())
    assert (gone.mean(axis=0) <= 1.0 / 3.0).all()
    assert gone[5, 2]
    named = [
        diagnostic["columns"]
        for diagnostic in answer["report"]["diagnostics"]
        if diagnostic["kind"] == "many-bad-cells"
    ]
    assert not given or named == [[0]]


# --- two doors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["normal", "lognormal"])
def test_both_doors_give_the_same_digits(run, kind):
    table = draw(NAMED[kind], 200, 0.5, 0)
    names = ["As", "Pb", "Cd", "Zn"]
    write_table("table.csv", table.x, names)
    floors = table.options.get("floor", np.zeros(4))
    given = ",".join(f"{name}={float(floor)!r}" for name, floor in zip(names, floors, strict=True))
    run("impute", "table.csv", "--floor", given, "-o", "filled.csv")
    answer = json.loads(run("fit", "table.csv", "--floor", given, "-o", "model.npz", "--json").stdout)
    imputer = quietly(unrelu.FloorImputer(floor=list(floors)), table.x)
    learner = quietly(unrelu.RectifiedGaussianLearner(floor=list(floors)), table.x)
    np.testing.assert_allclose(pd.read_csv("filled.csv"), imputer.transform(table.x), rtol=1e-10)
    model = unrelu.load("model.npz")
    np.testing.assert_allclose(model.mean, learner.mean_, rtol=1e-12)
    np.testing.assert_allclose(model.covariance, learner.covariance_, rtol=1e-12)
    np.testing.assert_array_equal(learner.correlation_, imputer.correlation_)
    assert answer["report"]["method"] == learner.report_.method == imputer.report_.method


@pytest.mark.parametrize("seed", [2, 5, 7])
def test_flags_and_halved_limits_left_in_the_table_give_an_answer_with_warnings(seed):
    """Columns that say nearly the same: products of scores drown in rounding, and are no curvature."""
    rng = np.random.default_rng(seed)
    concentration = np.exp(2.0 * rng.standard_normal(222) - 0.3)
    limit = rng.choice([1.0, 2.0, 4.0, 5.0], 222, p=[0.3, 0.2, 0.2, 0.3])
    told, hidden = np.round(np.maximum(concentration, limit), 1), concentration < limit
    table = np.column_stack([told, hidden, np.maximum(told, 5.0), told <= 5.0, np.where(hidden, limit / 2.0, told)])
    with pytest.warns(UnreluWarning) as said:
        learner = unrelu.RectifiedGaussianLearner().fit(table)
    assert {*kinds_of(said)} >= {"not-converged", "repeated-minimum"}
    assert np.isfinite(learner.covariance_).all()
    assert learner.correlation_[0, 4] > 0.9
