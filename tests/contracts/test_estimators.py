"""The distributions that every estimator obeys (docs/architecture.md, "One interface").

Estimators are found by looking, so that the next one cannot differ: it needs a case below, and passes or fails here.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import unrelu
import unrelu.estimators
from unrelu.contracts import Assumptions, Block
from unrelu.errors import ModelFileError, UnreluError, warning_class
from unrelu.estimators.base import FloorEstimator
from unrelu.storage import Unsaved
from unrelu.tables import open_samples

rng = np.random.default_rng(0)
ROWS = unrelu.synthetic.random_model(4, random_state=0).sample(200, random_state=1)
LOW_RANK = np.maximum(rng.standard_normal((120, 2)) @ rng.standard_normal((2, 10)) + 0.3, 0.0)
A, B = rng.standard_normal((30, 2)), rng.standard_normal(30)
OUTPUTS = np.maximum(rng.standard_normal((5, 2)) @ A.T + B, 0.0)
UNITS = np.maximum(rng.standard_normal((500, 2)) + 0.2, 0.0)
LINEAR = UNITS @ np.array([[1.0, 2.0, 0.0, 1.0], [0.5, -1.0, 1.0, 0.0]])


def _widened() -> np.ndarray:
    """Outputs of a network from 2 inputs over 6 units."""
    own = np.random.default_rng(3)
    z, A1, A2 = (own.standard_normal(margins) for margins in ((1500, 2), (6, 2), (24, 6)))
    return np.maximum(z @ A1.T + 0.3, 0.0) @ A2.T


@dataclass(frozen=True, eq=False)
class Case:
    """How to make an estimator, a table for it, what it says of a table, and where that table lies.

    ``location`` moves by c where table and floor move by c.
    """

    make: Callable[..., Any]
    table: np.ndarray
    use: Callable[[Any, Any], Any]
    location: Callable[[Any, np.ndarray], np.ndarray]


CASES = {
    "RectifiedGaussianLearner": Case(
        unrelu.RectifiedGaussianLearner, ROWS, lambda e, X: e.score_samples(X), lambda e, X: e.mean_
    ),
    "FloorImputer": Case(unrelu.FloorImputer, ROWS, lambda e, X: e.transform(X), lambda e, X: e.mean_),
    "FloorOutlierDetector": Case(
        unrelu.FloorOutlierDetector, ROWS, lambda e, X: e.score_samples(X), lambda e, X: e.distribution_.mean
    ),
    "RectifiedGaussianMixture": Case(
        lambda **more: unrelu.RectifiedGaussianMixture(2, n_init=1, **more),
        ROWS,
        lambda e, X: e.predict_proba(X),
        lambda e, X: e.means_,
    ),
    "RectifiedGaussianGraph": Case(
        unrelu.RectifiedGaussianGraph, ROWS, lambda e, X: e.partial_correlation_, lambda e, X: e.mean_
    ),
    "ReLUMatrixRecovery": Case(
        lambda **more: unrelu.ReLUMatrixRecovery(2, **more), LOW_RANK, lambda e, X: e.transform(X), lambda e, X: e.bias_
    ),
    "ReLULatentRecovery": Case(
        lambda floor=0.0, **more: unrelu.ReLULatentRecovery(
            A, B if isinstance(floor, str) else B + np.min(floor), floor=floor, **more
        ),
        OUTPUTS,
        lambda e, X: e.transform(X),
        lambda e, X: e.denoise(X),
    ),
    "TwoLayerReLULearner": Case(
        lambda **more: unrelu.TwoLayerReLULearner(2, **more),
        LINEAR,
        lambda e, X: e.transform(X),
        lambda e, X: e.inverse_transform(UNITS[:3]),
    ),
}
RECTIFIED = {**CASES, "TwoLayerReLULearner": Case(
    CASES["TwoLayerReLULearner"].make,
    np.maximum(UNITS @ np.random.default_rng(3).standard_normal((2, 12)) + 0.3, 0.0),
    CASES["TwoLayerReLULearner"].use,
    lambda e, X: e.output_bias_,
)}  # fmt: skip

WIDENED = Case(
    lambda **more: unrelu.TwoLayerReLULearner(6, n_inputs=2, **more), _widened(), lambda e, X: e.transform(X),
    lambda e, X: e.output_bias_,
)  # fmt: skip


def every_estimator() -> list[str]:
    """The public names of all classes with scikit-learn's interface, wherever they are defined."""
    public = {name: getattr(unrelu, name) for name in unrelu.__all__}
    return sorted(name for name, each in public.items() if inspect.isclass(each) and issubclass(each, BaseEstimator))


every = pytest.mark.parametrize("name", every_estimator())


# --- the distributions, as functions of a case, so that the last test can see them fail ----------------------


def fitted(case: Case, **more: Any) -> Any:
    return case.make(**more).fit(case.table)


@cache
def fitted_once(case: Case) -> Any:
    """For tests that only look at it."""
    return fitted(case)


def has_the_base_and_its_parameters(case: Case, tmp_path: Any) -> None:
    estimator = case.make()
    assert isinstance(estimator, FloorEstimator)
    parameters = inspect.signature(type(estimator).__init__).parameters
    assert parameters["random_state"].default == 0
    assert "floor" in parameters
    assert clone(estimator).get_params().keys() == estimator.get_params().keys()


def saves_and_loads(case: Case, tmp_path: Any) -> None:
    estimator, path = fitted_once(case), tmp_path / "estimator"
    before = case.use(estimator, case.table)
    estimator.save(path, details={"site": "north"})
    for again in (unrelu.load(path), type(estimator).load(path)):
        assert type(again) is type(estimator)
        assert repr(again) == repr(estimator)
        np.testing.assert_array_equal(case.use(again, case.table), before)
        assert again.report_ == estimator.report_


def seeds_determine_everything(case: Case, tmp_path: Any) -> None:
    first, again = (case.use(fitted(case, random_state=5), case.table) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    with pytest.raises(UnreluError, match="random_state"):
        fitted(case, random_state="seed")


def reports(case: Case, tmp_path: Any) -> None:
    estimator = fitted_once(case)
    case.use(estimator, case.table)
    report = estimator.report_
    assert is_dataclass(report)
    assert report.__dataclass_params__.frozen
    assert (report.n_rows, report.n_features) == case.table.shape
    assert isinstance(report.converged, bool)


def floors_move_with_the_table(case: Case, tmp_path: Any) -> None:
    shift = 2.0
    normal = {"margins": "normal"} if "margins" in inspect.signature(type(case.make()).__init__).parameters else {}
    at_zero, higher = fitted(case, floor=0.0, **normal), case.make(floor=shift, **normal).fit(case.table + shift)
    found = case.location(higher, case.table + shift)
    np.testing.assert_allclose(found, case.location(at_zero, case.table) + shift, rtol=1e-6, atol=1e-6)
    each = case.make(floor=np.full(case.table.shape[1], shift), **normal).fit(case.table + shift)
    np.testing.assert_allclose(case.location(each, case.table + shift), found, rtol=1e-9, atol=1e-9)
    with pytest.raises(UnreluError, match="floor"):
        fitted(case, floor="low")


def margins_bend_the_table(case: Case, tmp_path: Any) -> None:
    """A table of exponentials with margins="log" is the table itself; estimators without margins do not name them."""
    parameters = inspect.signature(type(case.make()).__init__).parameters
    if "margins" not in parameters:
        assert type(case.make()).__name__ in ("ReLULatentRecovery", "TwoLayerReLULearner")
        return
    assert parameters["margins"].default == ("normal" if type(case.make()).__name__ == "ReLUMatrixRecovery" else "auto")
    plain, bent = fitted(case, margins="normal"), case.make(floor=1.0, margins="log").fit(np.exp(case.table))
    np.testing.assert_allclose(
        case.location(bent, np.exp(case.table)), case.location(plain, case.table), rtol=1e-6, atol=1e-6
    )
    with pytest.raises(UnreluError, match="margins"):
        fitted(case, margins="bent")


LAWS = [
    has_the_base_and_its_parameters,
    saves_and_loads,
    seeds_determine_everything,
    reports,
    floors_move_with_the_table,
    margins_bend_the_table,
]


@every
@pytest.mark.parametrize("distribution", LAWS, ids=lambda distribution: distribution.__name__)
def test_every_estimator_obeys(name, distribution, tmp_path):
    distribution((RECTIFIED if distribution is floors_move_with_the_table else CASES)[name], tmp_path)


@pytest.mark.parametrize(
    "distribution",
    [saves_and_loads, seeds_determine_everything, reports],
    ids=lambda distribution: distribution.__name__,
)
def test_a_network_down_to_its_inputs_obeys(distribution, tmp_path):
    distribution(WIDENED, tmp_path)


@pytest.mark.slow
def test_floors_of_a_network_down_to_its_inputs_move_with_the_table(tmp_path):
    floors_move_with_the_table(replace(WIDENED, table=np.maximum(WIDENED.table + 0.2, 0.0)), tmp_path)


# --- more that holds for all -------------------------------------------------------------------------


@every
def test_names_of_columns_are_kept_also_in_files(name, tmp_path):
    case = CASES[name]
    columns = [f"c{j}" for j in range(case.table.shape[1])]
    estimator = case.make().fit(pd.DataFrame(case.table, columns=columns))
    estimator.save(tmp_path / "file")
    for each in (estimator, unrelu.load(tmp_path / "file")):
        assert each.n_features_in_ == len(columns)
        assert list(each.feature_names_in_) == columns


@every
def test_an_unfitted_one_cannot_be_saved(name, tmp_path):
    if name == "ReLULatentRecovery":  # its layer is given, so there is nothing to fit
        CASES[name].make().save(tmp_path / "file")
        assert isinstance(unrelu.load(tmp_path / "file"), unrelu.ReLULatentRecovery)
        return
    with pytest.raises(NotFittedError):
        CASES[name].make().save(tmp_path / "file")
    assert not (tmp_path / "file").exists()


@every
def test_another_kind_of_file_is_refused_by_name(name, tmp_path):
    unrelu.RectifiedGaussian([1.0], [[2.0]]).save(tmp_path / "file")
    with pytest.raises(ModelFileError, match="is not an unrelu"):
        type(CASES[name].make()).load(tmp_path / "file")


@every
def test_a_parameter_that_no_file_holds_is_left_out(name, tmp_path):
    case = CASES[name]
    estimator = fitted(case, random_state=np.random.default_rng(3))
    assert estimator.random_state is not None
    before = case.use(estimator, case.table) if name != "ReLULatentRecovery" else None
    estimator.save(tmp_path / "file")
    again = unrelu.load(tmp_path / "file")
    assert again.random_state == Unsaved(repr(estimator.random_state))
    if before is not None:
        np.testing.assert_array_equal(case.use(again, case.table), before)
    with pytest.raises(UnreluError, match="random_state"):
        case.use(again.fit(case.table), case.table)


@every
def test_the_progress_callback_gets_steps_and_can_end_the_work(name):
    case, heard = CASES[name], []
    estimator = case.make().with_progress(heard.append)
    case.use(estimator.fit(case.table), case.table)
    assert heard
    assert all(step.stage for step in heard)
    assert all(0 <= step.done <= step.total for step in heard if step.total is not None)

    def stop(step):
        raise KeyboardInterrupt

    stopped = case.make().with_progress(stop)
    with pytest.raises(KeyboardInterrupt):
        case.use(stopped.fit(case.table), case.table)
    if name != "ReLULatentRecovery":
        with pytest.raises(NotFittedError):
            check_is_fitted(stopped)


@every
def test_fitted_attributes_are_the_same_objects_on_every_access(name):
    estimator = fitted_once(CASES[name])
    names = [each for each in dir(estimator) if each.endswith("_") and not each.startswith("_")]
    names += [each for each in type(estimator)._derived if hasattr(estimator, each)]
    assert names
    for each in names:
        first, again = getattr(estimator, each), getattr(estimator, each)
        assert first is again or (isinstance(first, float | int) and first == again), each


@pytest.mark.parametrize("name", CASES)
def test_limits_and_margins_that_are_no_parameters_are_no_attributes(name):
    estimator = CASES[name].make()
    parameters = estimator.get_params()
    for each in ("floor", "ceiling", "margins", "floor_tolerance", "random_state"):
        assert hasattr(estimator, each) == (each in parameters), each


@every
def test_sampling_has_one_signature(name):
    case = CASES[name]
    if not hasattr(case.make(), "sample"):
        assert name in ("FloorOutlierDetector", "ReLUMatrixRecovery", "ReLULatentRecovery")
        return
    parameters = inspect.signature(case.make().sample).parameters
    assert [(p.name, p.default) for p in parameters.values()] == [("n_samples", 1), ("random_state", None)]
    estimator = fitted_once(CASES[name])
    first, again, other = (np.ravel(np.asarray(estimator.sample(6, seed)[0])) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@every
def test_scikit_learn_shows_it_in_a_notebook(name):
    page = fitted_once(CASES[name])._repr_html_()
    assert name in page
    assert "fitted" in page


@every
def test_rows_read_in_blocks_are_a_table_too(name, tmp_path):
    case = CASES[name]
    np.save(tmp_path / "rows.npy", case.table)
    samples = open_samples([str(tmp_path / "rows.npy")])
    in_blocks = case.use(case.make().fit(samples), case.table)
    np.testing.assert_allclose(in_blocks, case.use(fitted_once(CASES[name]), case.table), rtol=1e-8, atol=1e-8)


class Minimal:
    """Rows of somebody else's class: what estimators need, and nothing more."""

    def __init__(self, table):
        self._table, self.n_features, self.n_rows, self.feature_names = table, table.shape[1], len(table), None

    def blocks(self):
        for first in range(0, self.n_rows, 50):
            yield Block(self._table[first : first + 50], first)


@every
def test_rows_need_four_members_and_no_more(name):
    case = CASES[name]
    found = case.use(case.make().fit(Minimal(case.table)), Minimal(case.table))
    np.testing.assert_allclose(found, case.use(fitted_once(CASES[name]), case.table), rtol=1e-8, atol=1e-8)


# --- for scikit-learn's users ------------------------------------------------------------------------


@every
def test_what_transforms_names_its_columns(name):
    case = CASES[name]
    if not hasattr(case.make(), "transform"):
        assert name not in ("FloorImputer", "ReLUMatrixRecovery", "ReLULatentRecovery", "TwoLayerReLULearner")
        return
    columns = [f"c{j}" for j in range(case.table.shape[1])]
    table = pd.DataFrame(case.table, columns=columns, index=[f"r{i}" for i in range(len(case.table))])
    estimator = case.make().set_output(transform="pandas").fit(table)
    found = estimator.transform(table)
    assert list(found.columns) == list(estimator.get_feature_names_out())
    assert list(found.index) == list(table.index)
    plain = estimator.set_output(transform="default").transform(table)
    np.testing.assert_array_equal(found.to_numpy(), plain)
    assert len(set(found.columns)) == plain.shape[1]
    assert (list(found.columns) == columns) == (name == "FloorImputer")


@every
def test_whole_weights_are_repeated_rows_or_refused(name):
    case = CASES[name]
    weights = np.random.default_rng(3).integers(0, 3, len(case.table)).astype(float)
    if not has_fit_parameter(case.make(), "sample_weight"):
        with pytest.raises(UnreluError, match=f"{name} takes no sample_weight: .*[Rr]ow"):
            case.make().fit(case.table, sample_weight=weights)
        assert case.make().fit(case.table, sample_weight=None).n_features_in_ == case.table.shape[1]
        return
    # Means alone, and a fixed penalty: errors, and what is chosen by them, take weights for measures of trust.
    options = {"selection": 0.1} if name == "RectifiedGaussianGraph" else {}
    weighted = case.make(**options).fit(case.table, sample_weight=weights)
    repeated = case.make(**options).fit(np.repeat(case.table, weights.astype(int), axis=0))
    found, expected = (case.location(each, case.table) for each in (weighted, repeated))
    apart = np.abs(case.location(fitted_once(case), case.table) - expected).max()
    assert np.abs(found - expected).max() < 0.02 * apart
    with pytest.raises((UnreluError, ValueError), match=r"sample_weight|Negative values"):
        case.make().fit(case.table, sample_weight=-weights)


def _nasty(n: int = 300) -> np.ndarray:
    """Skewed, tied, gross, heavy-tailed, half empty, constant and rarely seen columns, and one that follows another."""
    own = np.random.default_rng(0)
    z = 0.7 * own.standard_normal((n, 1)) + 0.7 * own.standard_normal((n, 7))
    skewed, counts = np.exp(1.5 * z[:, 0]), np.round(np.maximum(2.0 * z[:, 1] + 1.0, 0.0))
    gross, tails = z[:, 2] + 1.0, own.standard_t(1.5, n)
    gross[5] = 1e6
    half = np.where(np.arange(n) < n // 2, np.nan, z[:, 4])
    rare = np.where(z[:, 6] > 2.0, z[:, 6], 0.0)
    return np.maximum(np.column_stack([skewed, counts, gross, tails, half, np.full(n, 2.0), rare, 2.0 * skewed]), 0.0)


NASTY = _nasty()
OPTIONS = [
    *((name, {}) for name in every_estimator()),
    *(("RectifiedGaussianLearner", {"method": method}) for method in ("one_pass", "robust", "robust_cells")),
    ("RectifiedGaussianLearner", {"method": "full_likelihood", "margins": "normal"}),
    ("RectifiedGaussianLearner", {"method": "one_pass", "stderr": "jackknife"}),
    ("FloorOutlierDetector", {"method": "one_pass", "margins": "normal"}),
    ("RectifiedGaussianMixture", {"max_iter": 3}),
    ("RectifiedGaussianGraph", {"method": "robust"}),
    ("ReLUMatrixRecovery", {"method": "tobit_em", "max_iter": 3}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_a_fit_gives_one_warning_at_most(name, options):
    case = replace(CASES[name], table=NASTY)
    if name == "ReLULatentRecovery":
        case = replace(case, make=lambda: unrelu.ReLULatentRecovery(n_components=1))
    if name == "TwoLayerReLULearner":
        case = replace(case, table=np.nan_to_num(NASTY[:60]), make=lambda: unrelu.TwoLayerReLULearner(2, floor=0.0))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            fitted(case, **options)
        except UnreluError:
            assert name == "TwoLayerReLULearner"  # no other refuses such a table
    assert len(said) <= 1
    if name not in ("ReLULatentRecovery", "TwoLayerReLULearner"):
        kinds = said[0].message.kinds
        assert said[0].category is warning_class(kinds[0])
        assert said[0].filename == __file__
        harm = ["ConvergenceWarning", "AssumptionWarning", "RecoveryWarning", "DataWarning"]
        order = [harm.index(warning_class(kind).__name__) for kind in kinds]
        assert order == sorted(order)
        assert len(set(str(said[0].message).splitlines())) == len(kinds)
        assert len(kinds) > 1 or name == "RectifiedGaussianMixture"


@pytest.mark.parametrize("kind", [unrelu.RectifiedGaussianLearner, unrelu.FloorImputer, unrelu.RectifiedGaussianGraph])
@pytest.mark.parametrize("use", [lambda e: e.mean_, lambda e: e.score_samples(ROWS[:3]), lambda e: e.report_])
def test_rows_learned_in_parts_give_one_warning_when_they_are_solved(kind, use):
    skewed = np.exp(2.0 * ROWS)[:60]
    skewed[:, 3] = 2.0 * skewed[:, 2]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        estimator = kind(method="one_pass", margins="normal").partial_fit(skewed[:30]).partial_fit(skewed[30:])
        assert not said
        use(estimator)
    assert len([each for each in said if "impossible-rows" not in each.message.kinds]) == 1
    assert "perfect-correlation" in said[0].message.kinds


# --- the distributions can fail -------------------------------------------------------------------------------


class WithoutFiles(unrelu.RectifiedGaussianLearner):
    save = load = None


class WithoutSeed(unrelu.RectifiedGaussianLearner):
    def __init__(self, *, floor=0.0):
        super().__init__(floor=floor)


class WithoutFloor(unrelu.RectifiedGaussianLearner):
    def __init__(self, *, random_state=0):
        super().__init__(random_state=random_state)


class DeafToFloor(unrelu.RectifiedGaussianLearner):
    def _assumptions(self, columns=None):
        return Assumptions((0.0,) * self.n_features_in_)


class DeafToShape(unrelu.RectifiedGaussianLearner):
    def __init__(self, *, floor=0.0, margins="normal", random_state=0):
        super().__init__(floor=floor, random_state=random_state)


class WithoutReport(unrelu.RectifiedGaussianLearner):
    report_ = property(lambda self: None, lambda self, report: None)


@pytest.mark.parametrize(
    ("broken", "distribution"),
    [
        (WithoutFiles, saves_and_loads),
        (WithoutSeed, has_the_base_and_its_parameters),
        (WithoutFloor, has_the_base_and_its_parameters),
        (DeafToFloor, floors_move_with_the_table),
        (WithoutReport, reports),
        (DeafToShape, margins_bend_the_table),
    ],
)
def test_an_estimator_that_loses_something_is_noticed(broken, distribution, tmp_path):
    case = CASES["RectifiedGaussianLearner"]
    with pytest.raises((AssertionError, KeyError, TypeError)):
        distribution(Case(broken, case.table, case.use, case.location), tmp_path)
