"""Floors and ceilings as people give them, and what the learners make of them."""

import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

import unrelu
from tests.warned import lines_of, warns
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.limits import floor_per_column, limits_of
from unrelu.margins import Log
from unrelu.passes.columns import cell_floors_of_data, floors_of_data

NAMES = ("As", "Pb", "Zn")
NONE = -np.inf
TRUTH = unrelu.RectifiedGaussian([0.5, 0.2, -0.3], 0.5 + 0.5 * np.eye(3), [NONE, 0.0, 0.3], NAMES)


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(TRUTH.sample(4000, random_state=0), columns=NAMES)


def learner(method="one_pass", **options):
    return unrelu.RectifiedGaussianLearner(method, **({"margins": "normal"} | options))


def within_errors(estimate, truth, stderr, errors=4.0):
    return bool((np.abs(estimate - truth) < errors * stderr).all())


# --- what is given --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("floor", "expected"),
    [
        (0.5, [0.5, 0.5, 0.5]),
        (None, [NONE, NONE, NONE]),
        ([1, None, -np.inf], [1.0, NONE, NONE]),
        (np.array([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]),
        ({"Pb": 2.0}, [0.0, 2.0, 0.0]),
        ({"Pb": 2.0, "*": None}, [NONE, 2.0, NONE]),
        (pd.Series({"Zn": 3.0, "As": 1.0, "Pb": 2.0}), [1.0, 2.0, 3.0]),  # by name, not by position
    ],
)
def test_floors_of_every_kind(floor, expected):
    np.testing.assert_array_equal(limits_of(floor, None, 3, NAMES)[0][0], expected)


def test_a_column_that_takes_its_floor_from_the_table_is_marked():
    (floor, _), from_data, floor_given = limits_of({"Pb": "min"}, None, 3, NAMES)
    np.testing.assert_array_equal(floor, [0.0, NONE, 0.0])
    assert from_data[0].tolist() == floor_given.tolist() == [False, True, False]


def test_columns_without_names_go_by_number():
    np.testing.assert_array_equal(limits_of({1: 2.0, "2": 3.0}, None, 3)[0][0], [0.0, 2.0, 3.0])
    np.testing.assert_array_equal(limits_of(pd.Series([1.0, 2.0, 3.0]), None, 3)[0][0], [1.0, 2.0, 3.0])


def test_a_ceiling_leaves_no_floor_unless_one_is_named():
    limits, _, _ = limits_of(0.0, {"Zn": 9.0}, 3, NAMES)
    np.testing.assert_array_equal(limits, [[0.0, 0.0, NONE], [np.inf, np.inf, 9.0]])
    with pytest.raises(InvalidParameterError, match=r"Both a floor and a ceiling for column 2 \('Zn'\)"):
        limits_of({"Zn": 0.0}, {"Zn": 9.0}, 3, NAMES)


@pytest.mark.parametrize(
    ("floor", "words"),
    [
        ({"as": 1.0}, r"floor: no column 'as'. Did you mean 'As'\?"),
        ([0.0, 1.0], r"3 columns, floor has shape \(2,\)"),
        ([[0.0]], "floor has shape"),
        (np.nan, r"floor of column 0 \('As'\) must be a number"),
        (np.inf, "must be a number"),
        ("low", "or 'min'; got 'low'"),
        ("max", "or 'min'; got 'max'"),
        (object(), "must be a number"),
        (True, "must be a number"),
        (pd.Series({"As": None}, dtype=float), "A Series turns None into NaN"),
    ],
)
def test_floors_that_cannot_be(floor, words):
    with pytest.raises(InvalidParameterError, match=words):
        limits_of(floor, None, 3, NAMES)


def test_where_every_column_needs_a_floor():
    given = np.array([1.0, 2.0])
    floor = floor_per_column(given, 2)
    floor[0] = 9.0
    assert given[0] == 1.0
    with pytest.raises(InvalidParameterError, match="No floor for column 1"):
        floor_per_column([0.0, None], 2)
    with pytest.raises(InvalidParameterError, match="no table to take it from"):
        floor_per_column("min", 2)
    with pytest.raises(InvalidParameterError, match=r"No floor for column 0 \('As'\)"):
        unrelu.ReLUMatrixRecovery(1, floor={"As": None}).fit(pd.DataFrame(np.ones((9, 2)), columns=["As", "Pb"]))


# --- what is learned ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["one_pass", "robust"])
def test_columns_without_a_floor(frame, method):
    learned = learner(method=method, floor={"As": None, "Zn": 0.3}).fit(frame)
    np.testing.assert_array_equal(learned.floor_, [NONE, 0.0, 0.3])
    assert learned.report_.floor == (None, 0.0, 0.3)
    assert within_errors(learned.mean_, TRUTH.mean, learned.mean_stderr_)
    assert within_errors(learned.correlation_, TRUTH.correlation, learned.correlation_stderr_ + 1e-9)
    assert learned.report_.share_floored_by_column[0] == 0.0


def test_a_column_without_a_floor_is_an_ordinary_sample(frame):
    learned = learner(floor={"As": None, "Zn": 0.3}).fit(frame)
    assert learned.mean_[0] == pytest.approx(frame["As"].mean(), rel=1e-12)
    assert learned.std_[0] == pytest.approx(frame["As"].std(ddof=0), rel=1e-12)


def test_the_papers_methods_need_floors(frame):
    with pytest.raises(InvalidParameterError, match=r"No floor for column 0 \('As'\), and method='sgd'"):
        learner(method="sgd", floor={"As": None, "Zn": 0.3}).fit(frame)


@pytest.mark.parametrize(
    "estimator", [learner, partial(unrelu.FloorOutlierDetector, margins="normal")], ids=["rows", "outliers"]
)
def test_a_ceiling_is_a_floor_of_negated_values(frame, estimator, tmp_path):
    down = frame.assign(Zn=-frame["Zn"])
    upside = estimator(floor={"As": None}, ceiling={"Zn": -0.3}).fit(down)
    usual = estimator(floor={"As": None, "Zn": 0.3}).fit(frame)
    np.testing.assert_allclose(upside.distribution_.mean, usual.distribution_.mean * [1, 1, -1], rtol=1e-12)
    np.testing.assert_array_equal(upside.distribution_.ceiling, [np.inf, np.inf, -0.3])
    np.testing.assert_allclose(upside.score_samples(down[:50]), usual.score_samples(frame[:50]), rtol=1e-9)
    assert upside.report_.ceiling == (None, None, -0.3)
    assert upside.distribution_.sample(500, random_state=0)[:, 2].max() == -0.3
    upside.save(tmp_path / "model.npz")
    loaded = unrelu.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.score_samples(down[:50]), upside.score_samples(down[:50]))
    if isinstance(upside, unrelu.FloorOutlierDetector):
        signs = np.array([1.0, 1.0, -1.0])
        np.testing.assert_allclose(upside.cell_residuals(down[:9]), usual.cell_residuals(frame[:9]) * signs, rtol=1e-9)
        ours, theirs = upside.score_table(down, top=1), usual.score_table(frame, top=1)
        row = int(ours.top[0])
        assert [c for c, _ in ours.drivers(row)] == [c for c, _ in theirs.drivers(row)]
        np.testing.assert_allclose(ours.cells.whole[row], theirs.cells.whole[row] * signs, rtol=1e-9)


def test_groups_of_rows_below_a_ceiling(frame):
    groups = unrelu.RectifiedGaussianMixture(1, floor={"As": None}, ceiling={"Zn": -0.3}, margins="normal", n_init=1)
    means = groups.fit(frame.assign(Zn=-frame["Zn"])).means_[0]
    usual = learner(floor={"As": None, "Zn": 0.3}).fit(frame)
    assert within_errors(means, usual.mean_ * [1, 1, -1], usual.mean_stderr_, 0.1)
    assert groups.report_.ceiling == (None, None, -0.3)


def test_values_above_the_ceiling_are_named(frame):
    with pytest.raises(InvalidDataError, match=r"above the ceiling 0\.5, in column 2 \('Zn'\).*The largest is [23]\."):
        learner(floor={"As": None}, ceiling={"Zn": 0.5}).fit(frame)


def test_the_smallest_value_where_it_repeats(frame):
    learned = learner(floor="min").fit(frame)
    np.testing.assert_array_equal(learned.floor_, [NONE, 0.0, 0.3])
    down = learner(ceiling="max", floor=None).fit(-frame)
    np.testing.assert_array_equal(down.ceiling_, [np.inf, 0.0, -0.3])
    np.testing.assert_allclose(down.mean_, -learned.mean_, rtol=1e-12)
    with pytest.raises(InvalidParameterError, match="need all rows"):
        learner(floor="min").partial_fit(frame)


def test_limits_survive_merging_and_files(frame, tmp_path):
    options = {"floor": {"As": None}, "ceiling": {"Zn": -0.3}}
    down = frame.assign(Zn=-frame["Zn"])
    whole = learner(**options).fit(down)
    parts = unrelu.merge([learner(**options).fit(down[:1000]), learner(**options).partial_fit(down[1000:])])
    np.testing.assert_allclose(parts.mean_, whole.mean_, rtol=1e-10)
    parts.save(tmp_path / "parts.npz")
    np.testing.assert_array_equal(unrelu.load(tmp_path / "parts.npz").covariance_, parts.covariance_)
    whole.distribution_.save(tmp_path / "model.npz")
    assert unrelu.load(tmp_path / "model.npz") == whole.distribution_


# --- rounding -------------------------------------------------------------------------------------


def test_floors_match_up_to_the_rounding_of_the_table():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(500, 1))
    level = np.log(0.3)
    share = np.mean(y <= level)
    nearly = np.nextafter(level, np.inf)  # the same but for rounding, as another program may have it
    for table in (
        np.maximum(y, level),
        np.maximum(y, level).astype(np.float32),
        np.maximum(y, level).astype(np.float16),
    ):
        for floor in (level, nearly):
            assert learner(floor=floor).fit(table).report_.share_floored == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize("typed", [-1.2039, -1.2040, -1.20, -1.20397])
def test_a_floor_typed_with_a_few_digits_is_that_of_the_data(typed):
    table = np.maximum(np.random.default_rng(0).normal(size=(500, 1)), np.log(0.3))
    if typed == -1.20:  # two digits are a number of its own
        with pytest.raises(InvalidDataError, match=r"below the floor -1\.2"):
            learner(floor=typed).fit(table)
        return
    with warns("rounded-limit", match=r"taken for its floor.*column 0: -1.2039728\d* for -1.20"):
        learned = learner(floor=typed).fit(table)
    np.testing.assert_array_equal(learned.floor_, np.log(0.3))
    np.testing.assert_array_equal(learned.mean_, learner(floor="min").fit(table).mean_)
    with warns("rounded-limit", match="taken for its ceiling"):
        negated = learner(ceiling=-typed).fit(-table)
    np.testing.assert_array_equal(negated.ceiling_, -np.log(0.3))


def test_floors_that_differ_by_noise_are_those_of_the_data_in_silence():
    table = np.maximum(np.random.default_rng(0).normal(size=(500, 2)), [np.log(0.3), NONE])
    for floor in (np.log(0.3) * (1.0 + 5e-10), np.log(0.3) * (1.0 - 5e-10), np.log10(0.3) * np.log(10.0)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            learned = learner(floor=[floor, None]).fit(table)
        np.testing.assert_allclose(learned.floor_[0], np.log(0.3), rtol=1e-15)
        assert learned.report_.share_floored > 0.03
    single = table.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nearly = float(np.nextafter(single[:, 0].min(), np.float32(9)))
        assert learner(floor=[nearly, None]).fit(single).report_.share_floored > 0.03


def test_values_above_the_floor_are_no_rounding_of_it():
    """A smallest value 1 % off, one that is alone, and ties of a table of few digits."""
    y = np.random.default_rng(0).normal(2.0, 1.0, size=(2000, 1))
    for table, floor in (
        (np.maximum(y, 1.0101), 1.00),
        (np.maximum(y, 1.2512), 1.24),
        (np.where(y > 1.2512, y, np.nan), 1.25),
        (np.where(y > 1.251, y.round(3), np.nan), 1.25),
    ):
        found, typed = floors_of_data(table, np.array([floor]))
        np.testing.assert_array_equal(found, floor)
        assert not typed.any()
    assert floors_of_data(np.maximum(y, 1.2512), np.array([1.25]))[0] == 1.2512


@pytest.fixture
def by_cell():
    """Logarithms of three laboratories' rows: (values, exact limits by cell, one ceiling negated in column 2)."""
    y = np.random.default_rng(0).multivariate_normal(np.zeros(3), 0.5 + 0.5 * np.eye(3), 900)
    limit = np.log([0.3, 0.55, 0.7])[np.arange(900) % 3][:, None] * np.ones(3)
    x, low, high = np.maximum(y, limit), limit.copy(), np.full((900, 3), np.nan)
    x[:, 2], high[:, 2], low[:, 2] = -x[:, 2], -limit[:, 2], np.nan
    return x, low, high


def test_limits_by_cell_that_differ_by_noise_are_those_of_the_data_in_silence(by_cell):
    x, low, high = by_cell
    exact = unrelu.FloorImputer(floor=low, ceiling=high, margins="normal").fit(x)
    model, wanted = exact.distribution_, exact.transform(x)
    assert exact.report_.share_floored > 0.15
    for factor in (1.0 + 5e-10, 1.0 - 5e-10):
        given = {"floor": low * factor, "ceiling": high * factor}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            learned = unrelu.FloorImputer(**given, margins="normal").fit(x)
            np.testing.assert_allclose(model.impute(x, **given), wanted, atol=1e-12)
        assert learned.report_.share_floored == exact.report_.share_floored
        np.testing.assert_allclose(learned.transform(x), wanted, atol=1e-12)


def test_limits_by_cell_that_were_typed_with_fewer_digits_are_those_of_the_data(by_cell):
    x, low, high = by_cell
    exact = unrelu.FloorImputer(floor=low, ceiling=high, margins="normal").fit(x)
    typed = {"floor": low.round(4), "ceiling": high.round(4)}
    assert ((low < typed["floor"]) & (x == low)).any()  # values below the limit that was given
    with warns("rounded-limit") as told:
        learned = unrelu.FloorImputer(**typed, margins="normal").fit(x)
    words = lines_of(told, "rounded-limit")
    assert [what in text for what, text in zip(("one floor", "one ceiling"), words, strict=True)] == [True, True]
    assert f"column 0: {np.log(0.3):.12g} for -1.204" in words[0]
    np.testing.assert_array_equal(learned.mean_, exact.mean_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once, where it was learned
        np.testing.assert_array_equal(learned.transform(x), exact.transform(x))
    with warns("rounded-limit"):
        np.testing.assert_allclose(exact.distribution_.impute(x, **typed), exact.transform(x), atol=1e-12)


def test_values_above_limits_by_cell_are_no_rounding_of_them():
    """Of two digits, of a smallest value that is alone, and where others are just above it."""
    y = np.random.default_rng(0).normal(2.0, 1.0, size=(2000, 1))
    floor = np.where(np.arange(2000)[:, None] % 2, 1.25, -np.inf)
    for table, level in (
        (np.maximum(y, 1.2012), 1.2),
        (np.where(y > 1.2512, y, np.nan), 1.25),
        (np.where(y > 1.251, y.round(3), np.nan), 1.25),
    ):
        given = np.where(np.isfinite(floor), level, floor)
        found, typed = cell_floors_of_data(table, given)
        np.testing.assert_array_equal(found, given)
        assert typed == []
    found, typed = cell_floors_of_data(np.maximum(y, 1.2512), floor)
    np.testing.assert_array_equal(found, np.where(np.isfinite(floor), 1.2512, floor))
    assert typed == [(0, 1.25, 1.2512)]


def test_a_limit_for_every_row():
    """Noise is passed over in single cells as well, and takes no time."""
    rng = np.random.default_rng(0)
    limit = rng.uniform(-1.0, 1.0, (100_000, 1))
    values = np.maximum(rng.normal(size=limit.shape), limit)
    begin = time.perf_counter()
    found, typed = cell_floors_of_data(values, limit * (1.0 + 1e-10))
    assert time.perf_counter() - begin < 5.0
    np.testing.assert_array_equal(found[values == limit], limit[values == limit])
    assert typed == []


def test_a_tolerance_that_was_given_is_left_alone():
    table = np.maximum(np.random.default_rng(0).normal(size=(500, 1)), np.log(0.3))
    learned = learner(floor=-1.204, floor_tolerance=1e-3).fit(table)
    np.testing.assert_array_equal(learned.floor_, -1.204)


def test_logs_taken_by_hand_are_at_the_latent_floor():
    """One number, computed in four ways: 300 of 1,000 cells are at the floor in each."""
    z = np.random.default_rng(0).normal(size=(1000, 2))
    level = np.quantile(z, 0.3)
    x = np.exp(np.maximum(z, level))
    distribution = unrelu.RectifiedGaussian([0.0, 0.0], np.eye(2), floor=np.exp(level), margins=[Log(), Log()]).latent
    n_floored = int((z <= level).sum())
    for logs in (
        np.log(x),
        np.log10(x) * np.log(10.0),
        np.log2(x) / np.log2(np.e),
        -np.log(1.0 / x),
        np.log(3 * x) - np.log(3),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            drawn = distribution.impute(logs)
        assert int((drawn < level - 1e-6).sum()) == n_floored
    with warns("rounded-limit", match="taken for its floor"):
        typed = distribution.with_parts(floor=float(f"{level:.4f}")).impute(np.log(x))
    assert int((typed < level - 1e-6).sum()) == n_floored


def test_zeros_below_a_floor_count_as_floored():
    """They say that nothing was found; any other number below the floor is a mistake."""
    y = np.random.default_rng(0).normal(1.0, 1.0, size=(2000, 2))
    learned = learner(floor=0.8).fit(np.where(y < 0.8, 0.0, y))
    assert within_errors(learned.mean_, 1.0, learned.mean_stderr_)
    with pytest.raises(InvalidDataError, match=r"Values below the floor: 1 value is below the floor 0\.8"):
        learner(floor=0.8).fit(np.vstack([np.where(y < 0.8, 0.0, y), [[0.1, 1.0]]]))


# --- limits that cells state ----------------------------------------------------------------------


@pytest.fixture
def stated(tmp_path):
    """As has cells "<0.25" below .25, Zn cells ">1" above 1; the truth is N(.5, 1) in both."""
    y = np.random.default_rng(0).normal(0.5, 1.0, size=(3000, 2))
    low = [f"{v:.6f}" if v >= 0.25 else "<0.25" for v in y[:, 0]]
    high = [f"{v:.6f}" if v <= 1.0 else ">1" for v in y[:, 1]]
    path = tmp_path / "cells.csv"
    path.write_text("As,Zn\n" + "\n".join(",".join(row) for row in zip(low, high, strict=True)) + "\n")
    return path


def test_limits_of_cells_are_the_columns_own(stated):
    learned = learner().fit(unrelu.tables.open_samples(stated))
    np.testing.assert_array_equal(learned.floor_, [0.25, NONE])
    np.testing.assert_array_equal(learned.ceiling_, [np.inf, 1.0])
    assert within_errors(learned.mean_, 0.5, learned.mean_stderr_)
    assert learned.report_.diagnostics == ()
    text = pd.read_csv(stated, dtype=str)
    # A file whose rows are not counted yet is cut into other blocks: sums in another order round otherwise.
    np.testing.assert_allclose(learner().fit(text).mean_, learned.mean_, rtol=1e-13)


def test_a_higher_floor_takes_such_cells_along(stated):
    table = unrelu.tables.open_samples(stated, columns="As")
    numbers = pd.read_csv(stated, dtype=str)["As"].replace("<0.25", "0.25").astype(float).to_numpy()[:, None]
    below = (numbers > 0.25) & (numbers < 0.5)
    with pytest.raises(InvalidDataError, match="Values below the floor"):
        learner(floor=0.5).fit(table)
    text = pd.DataFrame({"As": np.where(numbers[:, 0] == 0.25, "<0.25", np.where(below[:, 0], 0.5, numbers[:, 0]))})
    learned = learner(floor={"As": 0.5}).fit(text)
    assert learned.report_.share_floored == pytest.approx(np.mean(numbers < 0.5))
    assert within_errors(learned.mean_, 0.5, learned.mean_stderr_)


@pytest.mark.parametrize("floor", [{"As": 0.1}, {"As": None}, 0.1])
def test_a_lower_floor_contradicts_such_cells(stated, floor):
    with pytest.raises(
        InvalidParameterError, match=r"column 0 \('As'\) has .*cells such as '<0.25', whose limit is higher"
    ):
        learner(floor=floor).fit(unrelu.tables.open_samples(stated, columns="As"))


def test_upper_limits_of_cells_are_refused_where_there_are_none(stated):
    with pytest.raises(InvalidDataError, match=r"'>1' in column 1 \('Zn'\): ReLUMatrixRecovery has no upper limits"):
        unrelu.ReLUMatrixRecovery(1).fit(unrelu.tables.open_samples(stated))
