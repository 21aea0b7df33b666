"""Limits of single cells, from what users give to what a method sees; and who refuses them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import unrelu
from unrelu.contracts import no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.margins import BoxCox, Log
from unrelu.methods import OnePass, Robust
from unrelu.tables import joined, open_samples, read_frame

NAN, INF = np.nan, np.inf
NAMES = ["As", "Pb", "Zn"]
RNG = np.random.default_rng(0)
FLOOR = np.where(RNG.random((300, 3)) < 0.5, 0.7, np.where(RNG.random((300, 3)) < 0.5, 1.1, NAN))
FLOOR[:, 2] = 0.5  # one for all of the column
Y = np.exp(0.3 * RNG.normal(size=(300, 3)) @ (np.eye(3) + 0.5))
X = np.fmax(Y, FLOOR)
X[5] = NAN
MARKS = np.where(X == FLOOR, -1, 0)
pytestmark = pytest.mark.filterwarnings("ignore::unrelu.errors.AssumptionWarning")


class Seeing:
    """A method that keeps what it is given, and learns by one pass."""

    takes_cell_limits = True
    shown: ClassVar[list] = []

    def question(self, assumptions):
        return None

    def learn(self, evidence, assumptions, seed=0, progress=no_progress):
        blocks = list(evidence.samples.blocks())
        parts = [[getattr(b, name) for b in blocks] for name in ("values", "censoring")]
        censoring = None if parts[1][0] is None else np.concatenate(parts[1])
        self.shown[:] = [np.concatenate(parts[0]), censoring, assumptions]
        return OnePass().learn(evidence, assumptions, seed, progress)


def shown(X, **options):
    learner = unrelu.RectifiedGaussianLearner(Seeing(), **{"margins": "normal", **options}).fit(X)
    return learner, *Seeing.shown


def refused(make, X, words, error=InvalidParameterError):
    with pytest.raises(error, match=words):
        make().fit(X)


# --- what a method sees ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    [
        X,
        np.asfortranarray(X),
        pd.DataFrame(X, columns=NAMES),
        pl.DataFrame(X, schema=NAMES),
        joined([X], floor=[FLOOR]),
    ],
    ids=["array", "fortran", "pandas", "polars", "joined"],
)
def test_a_floor_per_cell(table):
    given = {} if hasattr(table, "blocks") else {"floor": FLOOR}
    learner, values, censoring, assumptions = shown(table, **given)
    assert_array_equal(values, X)
    assert_array_equal(censoring, MARKS)
    # What is the same in all rows is the column's floor; the others have none, so that draws are not cut off.
    assert assumptions.floor == (-INF, -INF, 0.5)
    assert assumptions.negated == ()
    assert_array_equal(learner.floor_, [-INF, -INF, 0.5])
    assert learner.report_.floor == (None, None, 0.5)


def test_frames_of_limits_go_by_name():
    frame = pd.DataFrame(FLOOR, columns=NAMES)[["Zn", "As", "Pb"]]
    assert_array_equal(shown(pd.DataFrame(X, columns=NAMES), floor=frame)[2], MARKS)
    refused(
        lambda: unrelu.RectifiedGaussianLearner(Seeing(), floor=frame[["Zn"]]),
        pd.DataFrame(X, columns=NAMES),
        "floor: no column 'As' in the frame",
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_limits_are_those_of_the_table_s_own_digits(dtype):
    assert_array_equal(shown(X.astype(dtype), floor=FLOOR)[2], MARKS)


def test_floors_and_ceilings_in_one_column():
    high = np.where(np.isnan(FLOOR), 1.3, NAN)
    high[:, 2] = NAN
    table = np.fmin(X, high)
    assumed = shown(table, floor=FLOOR, ceiling=high)
    assert_array_equal(assumed[2], np.where(table == high, 1, MARKS))
    assert assumed[3].floor == (-INF, -INF, 0.5)
    refused(
        lambda: unrelu.RectifiedGaussianLearner(Seeing(), floor=FLOOR, ceiling=np.full(X.shape, 0.6)),
        table,
        r"Row \d+ .*its floor .* is not below its ceiling 0\.6",
    )


def test_ceilings_alone_and_a_ceiling_in_all_rows():
    """The first column is turned, its marks with it; the default floor is for columns without a ceiling."""
    ceiling = np.full(X.shape, NAN)
    ceiling[:, 0], ceiling[::2, 1] = 1.2, 1.0
    table = np.fmin(Y, ceiling)
    learner, values, censoring, assumptions = shown(table, ceiling=ceiling)
    assert_array_equal(values, table * [-1, 1, 1])
    assert_array_equal(censoring, np.where(table == ceiling, [-1, 1, 1], 0))
    assert assumptions.floor == (-1.2, -INF, 0.0)
    assert_array_equal(learner.ceiling_, [1.2, INF, INF])


def test_columns_with_a_floor_are_marked_as_well(tmp_path):
    cells = [[f"<{v:g}" if m else f"{v}" for v, m in zip(*row, strict=True)] for row in zip(X, MARKS, strict=True)]
    text = pd.DataFrame(cells, columns=NAMES).replace("nan", None)
    text["Fe"] = np.where(np.arange(300) < 200, 0.2, Y[:, 0] + 0.2)
    text.to_csv(tmp_path / "x.csv", index=False)
    for table in (read_frame(text, limits="cell"), open_samples(tmp_path / "x.csv", limits="cell")):
        _, values, censoring, assumptions = shown(table, floor={"Fe": 0.2})
        assert_array_equal(censoring[:, :3], MARKS)
        assert_array_equal(censoring[:, 3], np.where(np.arange(300) < 200, -1, 0))
        assert assumptions.floor == (-INF, -INF, -INF, 0.2)  # what other cells of Zn could have shown is not told
        assert_allclose(values[:, :3], X)
        with pytest.raises(InvalidParameterError, match=r"column 0 \('As'\) has cells with limits of their own"):
            shown(table, floor={"As": 0.1})


def test_tables_without_limits_of_cells_are_as_they_were():
    assert shown(np.fmax(Y, 0.9), floor=0.9)[2] is None


def test_the_same_limits_everywhere_suit_any_method():
    table = np.fmax(Y, 0.8)
    learned = unrelu.RectifiedGaussianLearner("one_pass", floor=np.full(Y.shape, 0.8)).fit(table)
    usual = unrelu.RectifiedGaussianLearner("one_pass", floor=0.8).fit(table)
    assert_array_equal(learned.covariance_, usual.covariance_)
    assert_array_equal(learned.floor_, usual.floor_)


def test_weights_go_along():
    weights = np.arange(300.0)
    unrelu.RectifiedGaussianLearner(Seeing(), floor=FLOOR).fit(X, sample_weight=weights)
    assert_array_equal(Seeing.shown[1][1:], MARKS[1:])
    unrelu.RectifiedGaussianLearner(Seeing()).fit(joined([X], floor=[FLOOR]), sample_weight=weights)
    assert_array_equal(Seeing.shown[1][1:], MARKS[1:])


def test_a_frame_of_text_with_several_limits_keeps_them():
    text = pd.DataFrame({"As": ["<0.1", "<0.5", "0.3", "2"], "Pb": [1.0, 2.0, 3.0, 4.0]})
    for table in (text, read_frame(text), read_frame(text, limits="cell")):
        assert_array_equal(shown(table)[2][:, 0], [-1, -1, 0, 0])
    refused(
        lambda: unrelu.RectifiedGaussianLearner("robust"),
        text,
        r"column 0 \('As'\) have limits of their own.*method='auto', 'one_pass' or 'full_likelihood'.*limits='highest'",
        InvalidDataError,
    )


# --- margins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("margins", ["log", [Log(), BoxCox(0.5), "log"], {"*": "log", 2: "auto"}])
def test_margins_that_are_known(margins):
    learner, values, censoring, assumptions = shown(X, floor=FLOOR, margins=margins)
    assert_array_equal(censoring, MARKS)
    assert_allclose(values[:, 0], np.log(X[:, 0]))
    at = (MARKS[:, 2] < 0).nonzero()[0]
    assert_allclose(values[at, 2], assumptions.floor[2])
    draws = learner.sample(20_000, random_state=0)
    assert 0.0 < draws[:, 0].min() < np.nanmin(X[:, 0])  # the range of such a column was not seen
    assert draws[:, 2].min() == 0.5


@pytest.mark.parametrize(("margins", "kinds"), [("auto", "log"), ("boxcox", "boxcox"), ("monotone", "monotone")])
def test_margins_are_learned_with_them(margins, kinds):
    learner, values, censoring, _ = shown(X, floor=FLOOR, margins=margins)
    assert [each.kind for each in learner.margins_] == [kinds] * 3
    assert_array_equal(censoring, MARKS)
    for j, each in enumerate(learner.margins_):  # a limit is as far down as a value there would be
        known = ~np.isnan(X[:, j])
        assert_allclose(values[known, j], each.to_latent(X[known, j]), atol=1e-9)
    assert learner.sample(5000, random_state=0).min() > 0.0


def test_several_limits_of_lognormal_columns_need_no_option():
    """The default: log margins, the full likelihood, nothing negative, and the truth within its errors."""
    learner = unrelu.RectifiedGaussianLearner(floor=FLOOR).fit(X)
    assert learner.report_.method == "full_likelihood"
    assert learner.report_.chosen_because == "cells have limits of their own"
    covariance = 0.09 * (np.eye(3) + 0.5).T @ (np.eye(3) + 0.5)
    assert np.abs(learner.mean_ / learner.mean_stderr_).max() < 4.0
    spread = np.sqrt(np.diagonal(covariance))
    assert np.abs((learner.std_ - spread) / learner.std_stderr_).max() < 4.0
    imputer = unrelu.FloorImputer(floor=FLOOR).fit(X)
    filled = imputer.transform(X)
    assert (filled > 0.0).all()
    assert (filled <= np.where(MARKS < 0, FLOOR, np.inf)).all()


def test_limits_without_a_logarithm_are_refused():
    floor = FLOOR - 0.7
    floor[:, 0] = np.where(np.isnan(floor[:, 0]), NAN, 0.0)
    floor[::2, 0] = NAN
    table = np.fmax(X - 0.7, floor)
    refused(
        lambda: unrelu.RectifiedGaussianLearner(Seeing(), floor=floor, margins={0: "log"}),
        table,
        "has no logarithm",
        InvalidDataError,
    )


# --- who refuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["robust", "robust_cells", "sgd", "filtered_gradient", "median", Robust()])
def test_other_methods_say_which_one_takes_them(method):
    words = (
        r"column 0.*, column 1.* have limits of their own\. Only .*method='auto', 'one_pass' or 'full_likelihood'\."
        r".*limits='highest'"
    )
    refused(lambda: unrelu.RectifiedGaussianLearner(method, floor=FLOOR), X, words)
    refused(lambda: unrelu.RectifiedGaussianLearner(method), joined([X], floor=[FLOOR]), words, InvalidDataError)


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: unrelu.RectifiedGaussianMixture(2, **options),
        unrelu.FloorOutlierDetector,
        lambda **options: unrelu.ReLUMatrixRecovery(1, **options),
        lambda **options: unrelu.TwoLayerReLULearner(2, **{"floor": 0.0, **options}),
    ],
)
def test_other_estimators_refuse_them(make):
    words = r"RectifiedGaussianLearner.*method='auto', 'one_pass' or 'full_likelihood'.*limits='highest'"
    refused(lambda: make(floor=FLOOR), X, words)
    refused(make, joined([X], floor=[FLOOR]), words, InvalidDataError)


def test_functions_refuse_them():
    words = "method='auto', 'one_pass' or 'full_likelihood'"
    with pytest.raises(InvalidParameterError, match=words):
        unrelu.peel(X, [2], floor=FLOOR)
    with pytest.raises(InvalidDataError, match=words):
        unrelu.peel(joined([X], floor=[FLOOR]), [2])
    with pytest.raises(InvalidDataError, match=words):
        unrelu.check_model(unrelu.RectifiedGaussian(np.ones(3), np.eye(3)), joined([X], floor=[FLOOR]))


def test_densities_heed_them():
    learner = shown(X, floor=FLOOR)[0]
    assert_allclose(learner.score_samples(X), learner.distribution_.log_prob(X, floor=FLOOR), atol=1e-9)
    assert abs(learner.score(X) - learner.distribution_.log_prob(X).mean()) > 0.1  # as if marked cells were seen


def test_a_network_scores_rows_by_them_as_its_learner_does():
    options = {"floor": FLOOR, "margins": "normal"}
    learner = unrelu.RectifiedGaussianLearner("full_likelihood", **options).fit(X)
    network = unrelu.RectifiedGaussianGraph("ebic", method="full_likelihood", **options).fit(X)
    assert_allclose(network.score_samples(X), learner.score_samples(X), rtol=1e-9)


def test_what_a_fitted_learner_cannot_do_with_them_it_refuses():
    learner = shown(X, floor=FLOOR)[0]
    with pytest.raises(InvalidParameterError, match="limits of their own"):
        learner.check(X)
    with pytest.raises(InvalidParameterError, match=r"floor has shape \(300, 3\), the table \(9, 3\).*of this table"):
        learner.score_samples(X[:9])
    with pytest.raises(InvalidParameterError, match="limits of their own"):
        unrelu.RectifiedGaussianLearner("full_likelihood", floor=FLOOR).partial_fit(X)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"floor": FLOOR[:9]}, r"floor has shape \(9, 3\), the table \(300, 3\)"),
        ({"floor": FLOOR[:, :2]}, r"floor has shape \(300, 2\), the table \(300, 3\)"),
        ({"floor": FLOOR, "floor_tolerance": 0.1}, "floor_tolerance goes with one floor"),
        ({"floor": FLOOR, "ceiling": "max"}, "ceiling must be numbers"),
    ],
)
def test_limits_that_cannot_be(options, words):
    refused(lambda: unrelu.RectifiedGaussianLearner(Seeing(), **options), X, words)


def test_a_value_below_its_floor_is_named():
    table = X.copy()
    row = int(np.flatnonzero(MARKS[:, 1])[0])
    table[row, 1] = 0.123
    with pytest.raises(InvalidDataError, match=rf"Row {row} .*column 1 \('Pb'\): the value 0\.123 is below its floor"):
        shown(pd.DataFrame(table, columns=NAMES), floor=FLOOR)


def test_one_pass_learns_them_in_parts_and_from_a_file_of_its_record(tmp_path):
    """Cells that state their limits: all rows at once, or two parts, one of them through a file."""
    text = pd.DataFrame(
        [[f"<{low!r}" if mark < 0 else repr(x) for x, low, mark in zip(*row, strict=True)] for row in
         zip(X.tolist(), FLOOR.tolist(), MARKS.tolist(), strict=True)],
        columns=NAMES,
    )  # fmt: skip
    text = text.replace("nan", "")
    whole = unrelu.RectifiedGaussianLearner("one_pass", margins="log").fit(text)
    first = unrelu.RectifiedGaussianLearner("one_pass", margins="log").partial_fit(text[:150])
    first.save(tmp_path / "first.npz")
    joined_later = unrelu.load(tmp_path / "first.npz").partial_fit(text[150:])
    assert_allclose(joined_later.covariance_, whole.covariance_, rtol=1e-8)
    assert_allclose(joined_later.correlation_stderr_, whole.correlation_stderr_, rtol=1e-5)
    likeliest = unrelu.RectifiedGaussianLearner("full_likelihood", margins="log").fit(text)
    assert (np.abs(whole.mean_ - likeliest.mean_) < likeliest.mean_stderr_).all()
    apart = np.abs(whole.correlation_ - likeliest.correlation_)
    assert (apart <= np.maximum(likeliest.correlation_stderr_, 1e-9)).all()


def test_more_limits_than_one_pass_keeps_apart_are_refused_by_it_and_not_by_the_default():
    floor = np.linspace(0.6, 1.4, len(X))[:, None] * np.ones((1, 3))
    table = np.fmax(X, floor)
    with pytest.raises(InvalidDataError, match=r"more than 64 different limits.*method='full_likelihood'"):
        unrelu.RectifiedGaussianLearner("one_pass", floor=floor).fit(table)
    assert unrelu.RectifiedGaussianLearner(floor=floor).fit(table).report_.method == "full_likelihood"


def test_learners_with_limits_of_cells_can_be_saved(tmp_path):
    learner = unrelu.RectifiedGaussianLearner(floor=np.full(Y.shape, 0.8)).fit(np.fmax(Y, 0.8))
    learner.save(tmp_path / "learner.npz")
    loaded = unrelu.load(tmp_path / "learner.npz")
    assert_array_equal(loaded.covariance_, learner.covariance_)
    assert_array_equal(loaded.floor_, learner.floor_)
