"""The method on dirty tables: nearly the oracle's error, cells found, rows beside cells, and tables that do not fit."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import unrelu
from benchmarks.cells.accuracy import error, one_pass
from benchmarks.cells.dirt import ROWS, Place
from tests.warned import kinds_of, lines_of, warns
from unrelu import RectifiedGaussianLearner
from unrelu.errors import InvalidDataError
from unrelu.fit.robust_cells import learn as learning
from unrelu.tables import ArraySamples


def learn(x, **options):
    return RectifiedGaussianLearner("robust_cells", **options).fit(x)


@pytest.fixture(scope="module")
def dirty():
    truth, x, bad, _ = Place("+6 sd", 6, 0.05).draw(1)
    return truth, x, bad, learn(x)


def test_bad_cells_are_found_and_cost_almost_nothing(dirty):
    truth, x, bad, learner = dirty
    flagged = learner.cell_weights_ < 0.5
    assert flagged[bad].mean() >= 0.98
    assert flagged[~bad].mean() <= 0.002
    assert error(learner.distribution_, truth) < 1.2 * error(one_pass(np.where(bad, np.nan, x)), truth)
    report = learner.report_
    assert report.share_bad == pytest.approx(bad.mean(), abs=0.003)
    np.testing.assert_allclose(report.share_bad_by_column, bad.mean(axis=0), atol=0.005)
    rows, columns, odds = zip(*report.most_outlying, strict=True)
    assert bad[rows, columns].all()
    assert list(odds) == sorted(odds)
    assert report.share_downweighted == 0.0


def test_a_clean_table_is_learned_as_in_one_pass():
    _, x, _, _ = Place("clean", 5, 0.0).draw(0)
    learner = learn(x[:2000])
    np.testing.assert_allclose(learner.covariance_, one_pass(x[:2000]).covariance, rtol=0.01, atol=1e-3)
    assert (learner.cell_weights_ < 0.5).sum() <= 1


def test_outlier_rows_beside_bad_cells():
    truth, x, bad, outliers = Place(ROWS, 5, 0.03).draw(2)
    learner = learn(x)
    assert learner.row_weights_[outliers].max() < 0.5
    assert learner.row_weights_[~outliers].mean() > 0.999
    assert error(learner.distribution_, truth) < 1.3 * error(one_pass(np.where(bad, np.nan, x)[~outliers]), truth)


def test_zeros_where_the_rest_says_otherwise():
    truth = unrelu.RectifiedGaussian(np.full(5, 3.0), np.full((5, 5), 0.8) + 0.2 * np.eye(5))
    x = truth.sample(2000, random_state=0)
    bad = np.random.default_rng(1).random(x.shape) < 0.05
    learner = learn(np.where(bad, 0.0, x))
    assert (learner.cell_weights_ < 0.5)[bad].mean() > 0.95
    np.testing.assert_allclose(learner.mean_, truth.mean, atol=0.1)


def test_zeros_that_stand_for_failures_in_columns_that_are_half_floored():
    truth, x, bad, _ = Place("zero", 10, 0.1).draw(11)
    oracle = error(one_pass(np.where(bad, np.nan, x)), truth)
    assert error(one_pass(x), truth) > 4.0 * oracle
    learner = learn(x)
    assert error(learner.distribution_, truth) < 1.5 * oracle
    np.testing.assert_allclose(learn(2.0**20 * x).cell_weights_, learner.cell_weights_, atol=1e-3)  # in other units


def test_failures_in_one_column_do_not_spoil_the_others():
    truth, x, _, _ = Place("clean", 8, 0.0).draw(12)
    clean, failed = one_pass(x), np.random.default_rng(0).random(len(x)) < 0.2
    x[failed, 3] = 0.0
    learner = learn(x)
    others = np.arange(8) != 3
    stderr = truth.std / np.sqrt(len(x))
    np.testing.assert_array_less(np.abs(learner.mean_ - clean.mean)[others], 0.5 * stderr[others])
    lost = np.mean(1.0 - learner.cell_weights_[:, 3])
    assert lost == pytest.approx(np.mean(failed), abs=0.03)
    assert abs(learner.mean_[3] - clean.mean[3]) < 0.2 * abs(one_pass(x).mean[3] - clean.mean[3])


def test_rows_of_zeros_beside_those_that_the_model_has():
    truth, x, _, _ = Place("clean", 5, 0.0).draw(102)  # one row in forty is 0 everywhere
    failed = np.random.default_rng(0).random(len(x)) < 0.1
    learner = learn(np.where(failed[:, None], 0.0, x))
    assert learner.row_weights_[failed].max() < 0.5
    assert error(learner.distribution_, truth) < 1.3 * error(one_pass(x[~failed]), truth)


@pytest.mark.parametrize(("d", "correlation", "mean"), [(3, 0.95, 0.0), (5, 0.95, 0.0), (10, 0.8, -0.5)])
def test_rows_of_zeros_that_the_model_has_are_inlier(d, correlation, mean):
    truth = unrelu.RectifiedGaussian(np.full(d, mean), correlation + (1.0 - correlation) * np.eye(d))
    x = truth.sample(3000, random_state=2)
    learner = learn(x)
    assert learner.row_weights_.min() > 0.5
    np.testing.assert_allclose(learner.covariance_, one_pass(x).covariance, rtol=0.02)


def test_blocks_files_weights_missing_cells_and_floors(dirty, tmp_path):
    _, x, bad, _ = dirty
    x = x[:1500].copy()
    x[np.random.default_rng(0).random(x.shape) < 0.05] = np.nan
    x[:, 2] += 1.5
    floor = [0.0, 0.0, 1.5, 0.0, 0.0, 0.0]
    whole, weights = learn(x, floor=floor), np.where(np.arange(1500) % 3, 1.0, 2.0)
    by_blocks = learn(ArraySamples(x, block_rows=211), floor=floor)
    np.testing.assert_allclose(by_blocks.covariance_, whole.covariance_, rtol=1e-9)
    np.testing.assert_allclose(by_blocks.cell_weights_, whole.cell_weights_, atol=1e-6)
    flagged, seen = whole.cell_weights_ < 0.5, ~np.isnan(x)
    assert flagged[bad[:1500] & seen].mean() > 0.97
    assert not flagged[~seen].any()
    weighted = RectifiedGaussianLearner("robust_cells", floor=floor).fit(x, sample_weight=weights)
    assert np.abs(weighted.mean_ - whole.mean_).max() < 0.1
    whole.save(tmp_path / "learner.npz")
    np.testing.assert_array_equal(unrelu.load(tmp_path / "learner.npz").cell_weights_, whole.cell_weights_)


def test_margins_are_learned_from_the_inlier_cells():
    truth = unrelu.RectifiedGaussian(np.full(4, 1.0), 0.3 * (np.full((4, 4), 0.5) + 0.5 * np.eye(4)), floor=-np.inf)
    y = np.random.default_rng(0).multivariate_normal(truth.mean, truth.covariance, 2000)
    bad = np.random.default_rng(1).random(y.shape) < 0.03
    x = np.exp(np.where(bad, y + 4.0, y))
    for margin in ("log", "boxcox"):
        learner = learn(x, margins=margin, floor=None)
        assert (learner.cell_weights_ < 0.5)[bad].mean() > 0.97
        assert (learner.cell_weights_ < 0.5)[~bad].mean() < 0.01
    np.testing.assert_allclose(learn(x, margins="log", floor=None).mean_, truth.mean, atol=0.05)


@pytest.mark.parametrize("kind", ["exponential", "lognormal"])
def test_skewed_tables_are_diagnosed_rather_than_emptied(kind):
    z = np.random.default_rng(0).multivariate_normal(np.zeros(4), np.full((4, 4), 0.5) + 0.5 * np.eye(4), 1500)
    x = np.exp(z) if kind == "lognormal" else -np.log1p(-np.clip(np.exp(-np.exp(-z)), 1e-12, 1 - 1e-12))
    with warnings.catch_warnings(record=True) as got:
        warnings.simplefilter("always")
        learner = learn(x, margins="normal")
    assert {"many-bad-cells", "skewed"} & set(kinds_of(got))
    assert learner.report_.share_bad < 0.25
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert learn(x).report_.share_bad < 0.005  # by default they are no normal columns


def test_zeros_of_counts_are_not_taken_for_failures():
    z = np.random.default_rng(0).multivariate_normal(np.zeros(6), 0.5 + 0.5 * np.eye(6), 3000)
    counts = np.random.default_rng(1).poisson(np.exp(0.5 * z + 0.5)).astype(float)
    with warns("many-bad-cells"):
        learner = learn(counts)
    assert (learner.cell_weights_ < 0.5).mean() < 0.05


def tables_of_other_distributions():
    """(table, options, columns whose distribution is another one)"""
    z = np.random.default_rng(0).multivariate_normal(np.zeros(4), 0.6 + 0.4 * np.eye(4), 800)
    skewed = np.exp(1.2 * z)
    floor = np.quantile(skewed, 0.7, axis=0)
    rng = np.random.default_rng(1)
    groups, waste = z.copy(), z.copy()
    groups[:, 0] = 5.0 * (rng.random(800) < 0.45) + 0.3 * z[:, 0]
    waste[:, 0] = np.where(rng.random(800) < 0.4, rng.normal(0.0, 40.0, 800), z[:, 0])
    mostly_floored = np.maximum(z, 1.0)
    rows = rng.random(800) < 0.2
    mostly_floored[rows] = rng.normal(6.0, 1.0, (rows.sum(), 4))
    tails = z * np.sqrt(2.0 / rng.chisquare(2.0, (800, 1)))
    return {
        "skewed, taken for normal": (np.maximum(skewed, floor), {"margins": "normal", "floor": floor.tolist()}),
        "skewed, a power": (np.maximum(skewed, floor), {"margins": "boxcox", "floor": floor.tolist()}),
        "two groups": (groups, {"floor": None, "margins": "normal"}),
        "two distributions": (waste, {"floor": None, "margins": "normal"}),
        "outlier rows": (mostly_floored, {"floor": 1.0, "margins": "normal"}),
        "tails": (tails, {"floor": None, "margins": "normal"}),
    }


@pytest.mark.parametrize("distribution", list(tables_of_other_distributions()))
def test_no_column_loses_more_than_a_third_of_its_cells_or_of_those_off_the_floor(distribution):
    x, options = tables_of_other_distributions()[distribution]
    with warnings.catch_warnings(record=True) as got:
        warnings.simplefilter("always")
        learner = learn(x, **options)
    floor = np.array([-np.inf if options["floor"] is None else options["floor"]])
    bad, off = learner.cell_weights_ < 0.5, x > floor
    assert (bad.mean(axis=0) <= 1 / 3).all()
    assert ((bad & off).sum(axis=0) <= off.sum(axis=0) / 3).all()
    named = " ".join(lines_of(got, "many-bad-cells"))
    assert ("left as they are" in named) == (distribution not in ("skewed, a power", "tails"))
    detector = unrelu.FloorOutlierDetector("robust_cells", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = detector.fit(x).cell_probabilities(x) > 0.5
    np.testing.assert_array_equal(again, bad)


def test_columns_are_left_for_what_all_rows_say_and_not_the_sample_alone(monkeypatch):
    """The sample has a third less two of column 0 bad, all rows a third and two more."""
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(np.zeros(3), 0.7 + 0.3 * np.eye(3), 1500)
    x[:502, 0] += 9.0
    first = learning.sampled_table

    def sample_with_fewer(*given):
        found = first(*given)
        keep = np.arange(len(found.rows)) >= 20
        return replace(found, rows=found.rows[keep], values=found.values[keep], weights=found.weights[keep])

    monkeypatch.setattr(learning, "sampled_table", sample_with_fewer)
    with warns("many-bad-cells", match=r"left as they are.* In column 0\."):
        assert not (learn(x, floor=None, margins="normal").cell_weights_[:, 0] < 0.5).any()
    x[495:502, 0] -= 9.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = learn(x, floor=None, margins="normal").cell_weights_[:, 0] < 0.5
    assert found[:495].all()
    assert found[495:].mean() < 0.01


class TestBadInput:
    def test_too_few_rows(self):
        with pytest.raises(InvalidDataError, match="at least five rows a column"):
            learn(np.random.default_rng(0).random((40, 10)) + 1.0)

    def test_a_row_and_a_column_of_bad_cells(self, dirty):
        _, x, _, _ = dirty
        x = x[:1500].copy()
        x[7] = 60.0
        x[:, 3] = np.random.default_rng(0).normal(30.0, 4.0, 1500)  # nothing tells that all of it is wrong
        learner = learn(x)
        assert (learner.cell_weights_[7] < 0.5).sum() >= 5
        assert learner.mean_[3] == pytest.approx(30.0, abs=1.0)

    @pytest.mark.parametrize("shift", [10.0, 40.0])
    def test_more_than_a_third_of_a_column(self, dirty, shift):
        _, x, bad, _ = dirty
        x, far = x[:1500].copy(), np.arange(1500) % 20 < 9
        x[:, 0] = np.where(far, x[:, 0] + shift, x[:, 0])
        with warns("many-bad-cells", match=r"left as they are.* In column 0\."):
            learner = learn(x, margins="normal")
        found = learner.cell_weights_ < 0.5
        assert not found[:, 0].any()
        assert found[:, 1:][bad[:1500, 1:]].mean() > 0.95  # those of the others are found all the same
        assert found[:, 1:][~bad[:1500, 1:]].mean() < 0.005
        assert learner.report_.share_bad_by_column[0] == 0.0

    def test_a_column_that_is_no_normal_one_is_named(self):
        z = np.random.default_rng(0).multivariate_normal(np.zeros(4), 0.5 + 0.5 * np.eye(4), 1500)
        with warnings.catch_warnings(record=True) as got:
            warnings.simplefilter("always")
            learn(np.exp(2.0 * z), margins="normal")
        assert "many-bad-cells" in kinds_of(got)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert learn(np.exp(2.0 * z)).report_.share_bad < 0.005

    def test_two_columns(self):
        truth = unrelu.RectifiedGaussian([5.0, 5.0], [[1.0, 0.99], [0.99, 1.0]])
        x = truth.sample(1000, random_state=0)
        x[:30, 0] = x[:30, 1] + np.where(np.arange(30) % 2, 2.0, -2.0)
        bad = learn(x).cell_weights_ < 0.5
        assert bad[:30].mean() > 0.9
        assert bad[30:].mean() < 0.01

    def test_duplicated_columns_and_integers(self, dirty):
        _, x, _, _ = dirty
        x = np.round(3.0 * x[:1500])
        x = np.column_stack([x, x[:, 1]])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner = learn(x)
        bad = learner.cell_weights_ < 0.5
        assert bad.mean() < 0.12
        np.testing.assert_array_equal(bad[:, 1], bad[:, 6])
