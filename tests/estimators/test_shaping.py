"""margins= of all estimators: the latent model, densities in the user's units, parts, weights, limits, files."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

import unrelu
from tests.warned import warns
from unrelu import FloorOutlierDetector, RectifiedGaussianLearner, RectifiedGaussianMixture, ReLUMatrixRecovery
from unrelu.errors import InvalidDataError, InvalidParameterError, UnreluWarning
from unrelu.margins import BoxCox, Log, Monotone, Normal
from unrelu.tables import open_samples

pytestmark = pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")

NAMES = ["As", "Pb", "Zn"]
MIXED = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.3, 0.2, 0.9]])
FLOOR = [0.5, 0.5, 0.8]
rng = np.random.default_rng(0)
Y = rng.standard_normal((600, 3)) @ MIXED.T
X = np.maximum(np.exp(0.8 * Y), FLOOR)
TABLE = pd.DataFrame(X, columns=NAMES)


@pytest.fixture(autouse=True)
def same_numbers():
    """Every test draws the same, whichever ran before it."""
    rng.bit_generator.state = np.random.default_rng(1).bit_generator.state


def learner(margins="log", **more):
    return RectifiedGaussianLearner(**{"method": "one_pass", "floor": FLOOR, "margins": margins, **more})


def normal(**more):
    """One pass over columns as they are."""
    return RectifiedGaussianLearner(**{"method": "one_pass", "margins": "normal", **more})


def assert_same_model(one, other, rtol=1e-10):
    for name in ("mean_", "covariance_", "correlation_stderr_", "mean_stderr_"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=rtol)
    assert_array_equal(one.floor_, other.floor_)


# --- the learner ----------------------------------------------------------------------------------


def test_log_is_the_normal_fit_of_logarithms():
    plain = normal(floor=np.log(FLOOR)).fit(np.log(X))
    found = learner().fit(X)
    assert_allclose(found.mean_, plain.mean_, rtol=1e-10)
    assert_allclose(found.covariance_, plain.covariance_, rtol=1e-10)
    assert_allclose(found.correlation_stderr_, plain.correlation_stderr_, rtol=1e-8)
    jacobian = np.where(X > FLOOR, -np.log(X), 0.0).sum(axis=1)
    assert_allclose(found.score_samples(X), plain.score_samples(np.log(X)) + jacobian, rtol=1e-9)
    assert_allclose(found.confidence_intervals()["mean"], plain.confidence_intervals()["mean"], rtol=1e-8)


def test_log_with_a_ceiling_and_missing_cells():
    top = np.minimum(np.exp(0.8 * Y), 1.8)
    top[rng.random(X.shape) < 0.1] = np.nan
    plain = normal(floor=None, ceiling=np.log(1.8)).fit(np.log(top))
    found = learner(floor=None, ceiling=1.8).fit(top)
    assert_allclose(found.mean_, plain.mean_, rtol=1e-9)
    assert_allclose(found.covariance_, plain.covariance_, rtol=1e-9)
    jacobian = np.where(top < 1.8, -np.log(top), 0.0).sum(axis=1)
    assert_allclose(found.score_samples(top), plain.score_samples(np.log(top)) + jacobian, rtol=1e-9)
    assert_array_equal(found.ceiling_, [1.8] * 3)
    assert found.report_.ceiling == (1.8,) * 3
    assert_array_equal(found.distribution_.sample(500, 0).max(axis=0), [1.8] * 3)


@pytest.mark.parametrize("margins", ["log", "boxcox", "monotone"])
@pytest.mark.parametrize("limit", ["floor", "ceiling", "none"])
def test_the_density_integrates_to_one(margins, limit):
    values = np.exp(0.8 * Y[:, :1])
    values = {"floor": np.maximum(values, 0.5), "ceiling": np.minimum(values, 1.5), "none": values}[limit]
    limits = {"floor": {"floor": 0.5}, "ceiling": {"floor": None, "ceiling": 1.5}, "none": {"floor": None}}[limit]
    found = RectifiedGaussianLearner("one_pass", margins=margins, **limits).fit(values)
    low, high = {"floor": (0.5, 60.0), "ceiling": (1e-3, 1.5), "none": (1e-3, 60.0)}[limit]
    x = np.geomspace(low * (1 + 1e-12), high * (1 - 1e-12), 4001)
    if margins == "monotone":  # constant beyond what was seen
        x = x[(x >= values.min()) & (x <= values.max())]
    total = np.trapezoid(np.exp(found.score_samples(x[:, None])), x)
    if limit != "none":
        total += np.exp(found.score_samples([[low if limit == "floor" else high]])[0])
    assert abs(total - 1.0) < (0.03 if margins == "monotone" else 2e-3)


def test_ways_to_ask_for_margins():
    wanted = learner(["log", "normal", "boxcox"]).fit(TABLE)
    assert [margins.kind for margins in wanted.margins_] == ["log", "normal", "boxcox"]
    by_name = {"As": "log", "Pb": "normal", "Zn": "boxcox"}
    for given in (by_name, pd.Series(by_name), {"Pb": "normal", "As": "log", "*": "boxcox"}, wanted.margins_):
        found = learner(given).fit(TABLE)
        assert found.margins_ == wanted.margins_
        assert_same_model(found, wanted)
    assert learner(Log()).fit(TABLE).margins_ == (Log(),) * 3
    assert learner("normal").fit(TABLE).margins_ is None
    assert learner({"*": "normal"}).fit(TABLE).margins_ is None
    assert learner({"*": "normal"}).fit(TABLE).distribution_.margins is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("logg", "unknown margin 'logg'.*'log'"),
        ({"Pd": "log"}, "margins: no column 'Pd'.*Pb"),
        (["log", "log"], "3 columns, margins has shape"),
        ({"As": 0.5}, "must be one of normal, log, boxcox, monotone, auto"),
    ],
)
def test_requests_that_make_no_sense(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        learner(given).fit(TABLE)


@pytest.mark.parametrize("margins", ["boxcox", "monotone", "auto"])
def test_orders_blocks_types_and_weights_do_not_matter(margins, tmp_path):
    whole = learner(margins).fit(X)
    assert_same_model(learner(margins).fit(X[::-1]), whole)
    assert_same_model(learner(margins).fit(np.asfortranarray(X)), whole)
    np.save(tmp_path / "x.npy", X)
    assert_same_model(learner(margins).fit(open_samples([str(tmp_path / "x.npy")])), whole)
    weights = rng.integers(0, 3, len(X)).astype(float)
    wild = X.copy()
    wild[weights == 0.0] = [-np.inf, 1e300, np.nan]
    weighted = learner(margins).fit(wild, sample_weight=weights)
    repeated = learner(margins).fit(np.repeat(X, weights.astype(int), axis=0))
    assert_allclose(weighted.correlation_, repeated.correlation_, rtol=2e-3, atol=2e-3)
    if margins == "boxcox":
        assert_allclose(weighted.mean_, repeated.mean_, rtol=1e-7)
        assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-7)


def test_a_table_of_smaller_floats():
    small = X.astype(np.float32)
    for margins in ("log", "boxcox", "monotone"):
        found, wide = learner(margins).fit(small), learner(margins).fit(X)
        assert_allclose(found.correlation_, wide.correlation_, atol=1e-4)
        assert_allclose(found.score_samples(small), wide.score_samples(X), atol=2e-2)
        share = (X == FLOOR).mean(axis=0)
        assert_allclose([row["share_floored"] for row in found.distribution_.column_summary()], share, atol=0.05)


def test_sparse_tables_take_margins():
    x = np.maximum(np.expm1(Y), 0.0)
    margins = "boxcox"
    dense = RectifiedGaussianLearner("one_pass", margins=margins).fit(x)
    assert_same_model(RectifiedGaussianLearner("one_pass", margins=margins).fit(scipy.sparse.csr_array(x)), dense)


def test_the_report_speaks_in_the_users_units():
    found = learner("monotone").fit(TABLE)
    assert found.report_.floor == tuple(FLOOR)
    assert_array_equal(found.floor_, FLOOR)
    assert found.report_.n_rows == 600


def test_free_gives_the_correlations_of_any_margin():
    n = 4000
    y = rng.standard_normal((n, 3)) @ MIXED.T
    bent = np.column_stack([np.exp(y[:, 0]), scipy.stats.norm.cdf(y[:, 1]), np.sinh(y[:, 2])])
    floor = np.quantile(bent, 0.3, axis=0)
    found = RectifiedGaussianLearner(floor=floor, margins="monotone").fit(np.maximum(bent, floor))
    z = (found.correlation_ - MIXED @ MIXED.T / np.sqrt(np.outer(*[(MIXED**2).sum(axis=1)] * 2))) / np.where(
        found.correlation_stderr_ > 0.0, found.correlation_stderr_, 1.0
    )
    assert np.abs(z).max() < 3.5
    norm = np.sqrt((MIXED[0] ** 2).sum())  # a positive column has latent values in the units of its logarithm
    assert abs(found.mean_[0]) < 4.0 * found.mean_stderr_[0]
    assert abs(found.std_[0] - norm) < 4.0 * found.std_stderr_[0]


@pytest.mark.parametrize(
    ("x", "what", "message"),
    [
        (0.2, {}, r"below the floor 0.5, in column 0 \('As'\).*smallest is 0.2"),
        (np.inf, {}, r"infinite or beyond .* column 0 \('As'\)"),
        (-np.inf, {}, r"infinite or beyond"),
    ],
)
@pytest.mark.parametrize("margins", ["log", "monotone"])
def test_cells_that_cannot_be_are_named_in_the_users_numbers(x, what, message, margins):
    wrong = TABLE.copy()
    wrong.iloc[7, 0] = x
    with pytest.raises(InvalidDataError, match=message):
        learner(margins, **what).fit(wrong)
    found = learner(margins).fit(TABLE)
    with pytest.raises(InvalidDataError, match=message):
        found.score_samples(wrong)
    with pytest.raises(InvalidDataError, match=message):
        FloorOutlierDetector.from_model(found).predict(wrong)


def test_what_goes_with_normal_columns_alone():
    with pytest.raises(InvalidParameterError, match="floor_tolerance goes with margins='normal' alone"):
        learner("log", floor_tolerance=0.1).fit(X)
    with pytest.raises(InvalidParameterError, match="floor_tolerance goes with margins='normal' alone"):
        learner("log", floor_tolerance=0.1).partial_fit(X)
    learner("normal", floor_tolerance=0.1).fit(X)
    tolerant = learner("auto", floor_tolerance=0.1).fit(X)  # what is left open is then normal
    assert tolerant.margins_ is None
    with pytest.raises(InvalidDataError, match="its limit 0 has no logarithm"):
        RectifiedGaussianLearner(margins="log").fit(np.where(X > 1.0, X, 0.0))


def test_diagnostics_speak_in_the_users_units():
    with warns("repeated-minimum", match=r"column 0 \('As'\): 0.5, column 1 \('Pb'\): 0.5, .*: 0.8. If it"):
        learner("log", floor=None).fit(TABLE)
    with warns("repeated-maximum", match=r"largest value .* column 0 \('As'\): 1.5"):
        learner("monotone").fit(TABLE.clip(upper=1.5))


def test_rounded_columns_give_no_false_alarm():
    rounded = np.round(rng.gamma(2.0, size=(3000, 2)), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnreluWarning)
        for margins in ("monotone", "boxcox"):
            RectifiedGaussianLearner(margins=margins).fit(rounded)
    counts = rng.poisson(1.2, (3000, 2)).astype(float)
    with pytest.warns(UnreluWarning) as heard:
        RectifiedGaussianLearner(margins="monotone").fit(counts)
    assert ["the step between them). In column 0: 1, column 1: 1" in str(warning.message) for warning in heard] == [
        True
    ]


def test_jackknife():
    found = learner("log", stderr="jackknife").fit(TABLE, groups=np.arange(600) // 20)
    plain = normal(floor=np.log(FLOOR), stderr="jackknife").fit(np.log(X), groups=np.arange(600) // 20)
    assert_allclose(found.mean_stderr_, plain.mean_stderr_, rtol=1e-8)
    assert learner("monotone", stderr="jackknife").fit(TABLE).mean_stderr_.shape == (3,)


@pytest.mark.parametrize("method", ["robust", "median"])
def test_other_methods_work_on_latent_values(method):
    found = learner("log", method=method).fit(X)
    plain = normal(method=method, floor=np.log(FLOOR)).fit(np.log(X))
    assert_allclose(found.mean_, plain.mean_, rtol=1e-7)
    assert_allclose(found.covariance_, plain.covariance_, rtol=1e-7)


# --- parts ----------------------------------------------------------------------------------------


class Unreadable:
    """Rows that nobody may look at."""

    n_features, n_rows, feature_names = 3, None, None

    def blocks(self):
        raise AssertionError("the rows were read")


@pytest.mark.parametrize(
    "margins",
    ["boxcox", "monotone", ["log", "monotone", "log"], {0: "boxcox"}, pd.Series(["auto", "auto", "monotone"])],
)
def test_margins_that_need_all_rows_are_refused_before_reading(margins):
    with pytest.raises(InvalidParameterError, match="needs all rows at once: use fit, or give the margins"):
        learner(margins).partial_fit(Unreadable())


def test_parts_are_log_where_the_first_is_positive_and_normal_elsewhere():
    mixed = np.column_stack([X[:, 0], Y[:, 1:]])
    parts = RectifiedGaussianLearner(floor=[0.5, None, None]).partial_fit(mixed[:200]).partial_fit(mixed[200:])
    assert [margins.kind for margins in parts.margins_] == ["log", "normal", "normal"]
    assert_same_model(parts, learner(["log", "normal", "normal"], floor=[0.5, None, None]).fit(mixed), rtol=1e-9)
    with pytest.raises(InvalidDataError, match=r"a value of 0 has no logarithm.*margins='normal'"):
        RectifiedGaussianLearner().partial_fit(X).partial_fit(np.zeros((2, 3)))


@pytest.mark.parametrize("margins", ["log", {"Pb": "log", "*": "normal"}, "given"])
def test_parts_give_the_model_of_all_rows(margins):
    if margins == "given":
        margins = learner("monotone").fit(TABLE).margins_
    whole = learner(margins).fit(TABLE)
    parts = learner(margins).partial_fit(TABLE[:200]).partial_fit(TABLE[200:201]).partial_fit(TABLE[201:])
    assert_same_model(parts, whole)
    merged = unrelu.merge([learner(margins).fit(TABLE[:200]), learner(margins).fit(TABLE[200:])])
    assert_same_model(merged, whole)
    assert merged.margins_ == whole.margins_
    with pytest.raises(InvalidParameterError, match="different parameters"):
        unrelu.merge([learner("normal").fit(TABLE), whole])


def test_learners_with_other_margins_do_not_merge():
    one, other = learner("monotone").fit(TABLE[:300]), learner("monotone").fit(TABLE[300:])
    with pytest.raises(InvalidParameterError, match="different parameters"):
        unrelu.merge([one, other])
    more = learner("monotone").fit(TABLE)
    assert more.partial_fit(TABLE).report_.n_rows == 1200


def test_a_part_that_its_shape_is_not_defined_for_is_refused():
    parts = RectifiedGaussianLearner(floor=None, margins="log").partial_fit(X)
    before = parts.mean_
    wrong = X.copy()
    wrong[5, 1] = -2.0
    with pytest.raises(InvalidDataError, match="column 1: a value of -2 has no logarithm"):
        parts.partial_fit(wrong)
    assert_array_equal(parts.mean_, before)
    assert np.isfinite(parts.score_samples(wrong)).all()
    assert parts.score_samples(wrong)[5] < parts.score_samples(X).min() - 1000.0


def test_a_sample_of_parts_is_not_cut_to_the_first():
    parts = learner("log").partial_fit(X[:5]).partial_fit(X[5:])
    assert parts.sample(5000, 0).max() > 1.5 * X[:5].max()


# --- the other estimators -------------------------------------------------------------------------


def test_the_detector_judges_latent_rows():
    odd = X.copy()
    odd[:6, 1] *= 100.0
    found = FloorOutlierDetector("one_pass", floor=FLOOR, margins="log").fit(odd)
    plain = FloorOutlierDetector("one_pass", floor=np.log(FLOOR)).fit(np.log(odd))
    assert_allclose(found.score_samples(odd), plain.score_samples(np.log(odd)), rtol=1e-7)
    assert_array_equal(found.predict(odd), plain.predict(np.log(odd)))
    assert_allclose(found.cell_residuals(odd), plain.cell_residuals(np.log(odd)), rtol=1e-6, atol=1e-7)
    assert (found.predict(odd)[:6] == -1).mean() > 0.9
    assert found.distribution_.margins[0].kind == "log"
    assert_array_equal(found.distribution_.floor, FLOOR)
    assert found.report_.floor == tuple(FLOOR)
    again, plainly = (FloorOutlierDetector.from_model(each.distribution_) for each in (found, plain))
    assert_allclose(again.score_samples(odd), plainly.score_samples(np.log(odd)), rtol=1e-7)
    verdict = found.score_table(odd, top=3)
    assert_array_equal(verdict.flagged, found.predict(odd) == -1)


def test_the_mixture_groups_latent_rows():
    far = np.vstack([X, np.maximum(np.exp(0.5 * Y[:200] + 3.0), FLOOR)])
    found = RectifiedGaussianMixture(2, n_init=1, floor=FLOOR, margins="log").fit(far)
    plain = RectifiedGaussianMixture(2, n_init=1, floor=np.log(FLOOR)).fit(np.log(far))
    assert_allclose(found.means_, plain.means_, rtol=1e-6)
    assert_array_equal(found.predict(far), plain.predict(np.log(far)))
    jacobian = np.where(far > FLOOR, -np.log(far), 0.0).sum(axis=1)
    assert_allclose(found.score_samples(far), plain.score_samples(np.log(far)) + jacobian, rtol=1e-6)
    rows, _ = found.sample(500, 0)
    assert (rows >= FLOOR).all()
    assert (rows == FLOOR).any()
    assert rows.max() <= far.max()


def test_matrix_recovery_of_latent_values():
    t = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 8)) * 0.7
    x = np.maximum(np.exp(t), 0.6)
    found = ReLUMatrixRecovery(2, floor=0.6, margins="log").fit(x)
    plain = ReLUMatrixRecovery(2, floor=np.log(0.6)).fit(np.log(x))
    assert_allclose(found.hidden(), np.exp(plain.hidden()), rtol=1e-6)
    assert_allclose(found.bias_, plain.bias_, rtol=1e-8)
    assert_array_equal(found.floor_, np.full(8, 0.6))
    assert_allclose(found.inverse_transform(found.transform(x)), x, rtol=1e-5)
    assert found.inverse_transform(found.latent_).min() == 0.6
    assert found.margins_[0].kind == "log"
    assert_allclose(found.score(x), plain.score(np.log(x)), rtol=1e-8)
    with pytest.raises(InvalidParameterError, match="margins= goes with dense tables"):
        ReLUMatrixRecovery(2, margins="monotone").fit(scipy.sparse.csr_array(x))


def test_a_layer_is_not_made_of_latent_values():
    model = learner("log").fit(X)
    with pytest.raises(InvalidParameterError, match=r"model.latent, and rows as model.to_latent\(X\)"):
        unrelu.ReLULatentRecovery.from_model(model)
    layer = unrelu.ReLULatentRecovery.from_model(model.distribution_.latent)
    assert layer.transform(model.distribution_.to_latent(X[:3])).shape == (3, 3)


# --- files ----------------------------------------------------------------------------------------

EVERY = {
    "learner": lambda: learner("auto").fit(TABLE),
    "free learner": lambda: learner({"As": "monotone", "Zn": "boxcox"}).fit(TABLE),
    "given": lambda: learner(BoxCox(0.1, 0.0, 2.0)).fit(TABLE),
    "ceilings": lambda: learner("boxcox", floor=None, ceiling=2.0).fit(TABLE.clip(upper=2.0)),
    "jackknife": lambda: learner("monotone", stderr="jackknife").fit(TABLE),
    "detector": lambda: FloorOutlierDetector("one_pass", floor=FLOOR, margins="monotone").fit(TABLE),
    "mixture": lambda: RectifiedGaussianMixture(1, n_init=1, floor=FLOOR, margins="boxcox").fit(TABLE),
    "matrix": lambda: ReLUMatrixRecovery(1, floor=FLOOR, margins="boxcox").fit(TABLE),
}


@pytest.mark.parametrize("name", EVERY)
def test_files_and_pickles_give_back_the_same(name, tmp_path):
    estimator, table = EVERY[name](), TABLE.clip(upper=2.0)
    estimator.save(tmp_path / "file")
    for again in (unrelu.load(tmp_path / "file"), pickle.loads(pickle.dumps(estimator))):
        use = "transform" if name == "matrix" else "score_samples"
        assert_array_equal(getattr(again, use)(table), getattr(estimator, use)(table))
        if hasattr(estimator, "distribution_"):
            assert again.distribution_ == estimator.distribution_
        if hasattr(estimator, "margins_"):
            assert again.margins_ == estimator.margins_
        if name != "mixture":  # slow
            again.fit(table if name == "ceilings" else TABLE)
    if name == "learner":
        loaded = unrelu.load(tmp_path / "file")
        assert unrelu.merge([loaded, estimator]).report_.n_rows == 1200
        assert loaded.partial_fit(TABLE).report_.n_rows == 1200


def test_normal_margins_among_others_keep_what_was_seen():
    found = learner({"As": "monotone", "*": "normal"}).fit(TABLE)
    assert isinstance(found.margins_[0], Monotone)
    assert isinstance(found.margins_[1], Normal)
    assert (found.margins_[1].seen.low, found.margins_[1].seen.high) == (0.5, X[:, 1].max())


@pytest.mark.slow  # some seconds
@pytest.mark.parametrize(
    "estimator", [RectifiedGaussianLearner, pytest.param(FloorOutlierDetector, marks=pytest.mark.slow)]
)
def test_outliers_do_not_bend_the_margins_of_a_robust_fit(estimator):
    rng = np.random.default_rng(8)
    y = rng.multivariate_normal(np.full(3, 0.3), 0.15 * np.eye(3) + 0.1, size=3000)
    x = np.maximum(np.exp(y), 1.0)
    x[:300] = rng.uniform(15.0, 29.0, size=(300, 3))
    clean = RectifiedGaussianLearner("one_pass", floor=1.0, margins="monotone").fit(x[300:]).margins_
    bent = RectifiedGaussianLearner("one_pass", floor=1.0, margins="monotone").fit(x).margins_
    robust = estimator(method="robust", floor=1.0, margins="monotone").fit(x).distribution_.margins
    for inlier, all_rows, kept in zip(clean, bent, robust, strict=True):
        at = inlier.from_latent([0.5, 1.0, 1.5])
        assert np.abs(all_rows.to_latent(at) - inlier.to_latent(at)).min() > 0.1
        assert np.abs(kept.to_latent(at) - inlier.to_latent(at)).max() < 0.03  # but for the few rows told wrongly
