"""Distributions that every method of ``unrelu.methods`` obeys; a new method is picked up by its name."""

import pickle
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

import unrelu
from tests.warned import warns
from unrelu import RectifiedGaussianLearner, methods, synthetic
from unrelu.contracts import Assumptions, Evidence
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes import LocalEngine
from unrelu.tables import ArraySamples, open_samples, write_table

NAMES = sorted(methods.method_names())


@pytest.fixture(scope="module")
def table():
    # Norms near 1, as Bulusu et al. 2022's domain wants them, and means that are clearly positive.
    model = synthetic.random_model(4, condition_number=2.0, random_state=1)
    return unrelu.RectifiedGaussian(model.mean + 0.3, model.covariance).sample(1000, random_state=2)


def fit(name, x, **options):
    return RectifiedGaussianLearner(method=name, random_state=0, **{"margins": "normal", **options}).fit(x)


@pytest.fixture(scope="module")
def whole(table):
    """The fit of each method to the whole table, for tests that only look at it."""
    return cache(lambda name: fit(name, table))


def chosen(name, samples, evidence, assumptions):
    """The method of that name, or the one that it takes for these rows."""
    method = methods.method_named(name)
    return method.choose(samples, evidence, assumptions)[0] if isinstance(method, methods.Auto) else method


# What a method promises beyond the distributions of all: Bulusu et al. 2022 do not rescale, and their filter is
# biased on skewed
# batches;
# the gradient methods draw a stream per column.
ANY_COLUMN_ORDER = ("auto", "one_pass", "robust_cells", "full_likelihood", "median")
ANY_UNITS = ("auto", "one_pass", "robust", "robust_cells", "full_likelihood", "median", "sgd")
CONSISTENT = ("auto", "one_pass", "robust", "robust_cells", "full_likelihood", "median", "sgd")
WEIGHTED = ("auto", "one_pass", "robust", "robust_cells", "full_likelihood")
NOISE_IN_EVERY_COLUMN = ("full_likelihood",)


@pytest.mark.parametrize("name", NAMES)
class TestEveryMethod:
    def test_is_deterministic(self, name, table, whole):
        np.testing.assert_array_equal(fit(name, table).covariance_, whole(name).covariance_)

    def test_does_not_change_its_input(self, name, table):
        before, given = table[:300].copy(), table[:300].copy()
        fit(name, given)
        np.testing.assert_array_equal(given, before)

    @pytest.mark.parametrize(
        ("rows", "block_rows"),
        [(300, 1), (1000, 999), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((600, 7), (1000, 500)))],
    )
    def test_does_not_depend_on_the_blocks(self, name, table, whole, rows, block_rows):
        expected = whole(name) if rows == len(table) else fit(name, table[:rows])
        table = table[:rows]
        samples = ArraySamples(table, block_rows=block_rows)
        assumptions = Assumptions((0.0,) * 4)
        evidence = Evidence(samples, LocalEngine())
        learned = chosen(name, samples, evidence, assumptions).learn(evidence, assumptions)
        np.testing.assert_allclose(learned.distribution.mean, expected.mean_, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(learned.distribution.covariance, expected.covariance_, rtol=1e-10, atol=1e-10)

    def test_reads_files(self, name, table, whole, tmp_path):
        write_table(tmp_path / "x.parquet", table)
        samples, assumptions = open_samples(tmp_path / "x.parquet"), Assumptions((0.0,) * 4)
        evidence = Evidence(samples, LocalEngine())
        learned = chosen(name, samples, evidence, assumptions).learn(evidence, assumptions)
        np.testing.assert_allclose(learned.distribution.covariance, whole(name).covariance_, rtol=1e-10)

    def test_covariance_is_semidefinite_and_symmetric(self, name, table):
        covariance = fit(name, table[:60]).covariance_
        np.testing.assert_array_equal(covariance, covariance.T)
        assert np.linalg.eigvalsh(covariance)[0] > -1e-8 * np.trace(covariance)

    def test_report_and_learner_travel_by_pickle(self, name, table, whole):
        learner = pickle.loads(pickle.dumps(whole(name)))
        assert learner.report_.n_rows == 1000
        assert learner.report_.method == ("full_likelihood" if name == "auto" else name)
        np.testing.assert_allclose(learner.report_.share_floored_by_column, (table == 0).mean(axis=0))

    def test_rank_is_respected(self, name, table):
        if name in NOISE_IN_EVERY_COLUMN:  # one factor and noise: the tetrads vanish
            r = fit(name, table, n_components=1).correlation_
            np.testing.assert_allclose(r[0, 1] * r[2, 3], r[0, 2] * r[1, 3], rtol=1e-9)
            return
        assert np.linalg.matrix_rank(fit(name, table, n_components=2).covariance_, tol=1e-6) <= 2

    def test_missing_values_are_not_zeros(self, name, table, whole):
        holes = table.copy()
        holes[np.random.default_rng(0).random(table.shape) < 0.2] = np.nan
        learner = fit(name, holes)
        assert learner.report_.share_missing == pytest.approx(np.isnan(holes).mean())
        assert np.abs(learner.mean_ - whole(name).mean_).max() < 0.3

    def test_bad_cells_are_named(self, name, table):
        bad = table.copy()
        bad[3, 2] = -1.0
        with pytest.raises(InvalidDataError, match=r"column 2 \(1, first in row 3 \(the first is 0\)\)"):
            fit(name, bad)
        bad[3, 2] = np.inf
        with pytest.raises(InvalidDataError, match="infinite"):
            fit(name, bad)
        bad[:, 2] = np.nan
        with pytest.raises(InvalidDataError, match="No value at all in column 2"):
            fit(name, bad)

    def test_a_constant_column_is_a_zero_row_of_weights(self, name, table):
        """Wu et al. 2019, footnote 3."""
        constant = table.copy()
        constant[:, 1] = 2.5
        with warns("constant-column"):
            learner = fit(name, constant)
        assert (learner.mean_[1], learner.std_[1]) == (2.5, 0.0)


@pytest.mark.parametrize("name", ANY_COLUMN_ORDER)
def test_columns_may_come_in_any_order(name, table, whole):
    order = [2, 0, 3, 1]
    plain, permuted = whole(name), fit(name, table[:, order])
    np.testing.assert_allclose(permuted.mean_, plain.mean_[order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(permuted.covariance_, plain.covariance_[np.ix_(order, order)], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ANY_UNITS)
def test_units_carry_through(name, table, whole):
    units = np.array([1e-3, 1.0, 40.0, 1e5])
    plain, scaled = whole(name), fit(name, table * units)
    np.testing.assert_allclose(scaled.mean_, plain.mean_ * units, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(scaled.correlation_, plain.correlation_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", CONSISTENT)
def test_gets_closer_with_more_rows(name):
    truth = synthetic.random_model(3, condition_number=2.0, random_state=5)
    few, many = (fit(name, truth.sample(n, random_state=0)) for n in (300, 5000))
    assert np.linalg.norm(many.covariance_ - truth.covariance) < np.linalg.norm(few.covariance_ - truth.covariance)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("auto", "one_pass")])
def test_methods_that_read_more_than_once_say_so(name, table, whole):
    with pytest.raises(InvalidParameterError, match="more than once"):
        RectifiedGaussianLearner(method=name).partial_fit(table)
    with pytest.raises(InvalidParameterError, match="keeps no record"):
        unrelu.merge([whole(name)])


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WEIGHTED])
def test_methods_without_row_weights_say_so(name, table):
    with pytest.raises(InvalidParameterError, match="no row weights"):
        RectifiedGaussianLearner(method=name).fit(table, sample_weight=np.ones(len(table)))


@pytest.mark.parametrize("name", WEIGHTED)
def test_rows_of_weight_zero_are_absent(name, table, whole):
    spoiled = np.vstack([table, np.full((500, 4), 40.0)])
    weights = np.repeat([1.0, 0.0], [len(table), 500])
    learner = RectifiedGaussianLearner(method=name, margins="normal").fit(spoiled, sample_weight=weights)
    np.testing.assert_allclose(learner.covariance_, whole(name).covariance_, rtol=1e-9)


# --- auto -----------------------------------------------------------------------------------------


def test_auto_takes_the_full_likelihood_of_small_tables_and_one_pass_of_others(table):
    assert fit("auto", table).report_.chosen_because == "a table of this size takes some seconds at most"
    np.testing.assert_array_equal(fit("auto", table).covariance_, fit("full_likelihood", table).covariance_)
    large = np.tile(table, (200, 1))
    learner = fit("auto", large)
    assert (learner.report_.method, learner.report_.n_rows) == ("one_pass", 200_000)
    np.testing.assert_array_equal(learner.covariance_, fit("one_pass", large).covariance_)
    assert learner.record_.n_rows == 200_000


def test_auto_takes_one_pass_where_both_are_the_same(table):
    learner = fit("auto", table + 1.0, floor=None)
    assert (learner.report_.method, learner.report_.chosen_because) == ("one_pass", "no cell is hidden or missing")
    holes = table + 1.0
    holes[::7, 1] = np.nan
    assert fit("auto", holes, floor=None).report_.method == "full_likelihood"


def test_auto_learns_parts_in_one_pass(table):
    parts = RectifiedGaussianLearner(margins="normal").partial_fit(table[:700]).partial_fit(table[700:])
    np.testing.assert_allclose(parts.covariance_, fit("one_pass", table).covariance_, rtol=1e-10)
    assert parts.report_.method == "one_pass"


def test_the_answer_does_not_jump_where_the_choice_changes():
    """On tables of the model at the border: half a standard error, in the root of the mean square."""
    truth, apart = synthetic.random_model(6, condition_number=5.0, random_state=3), []
    for seed in range(4):
        x = truth.sample(4000, random_state=seed)
        likely, quick = fit("full_likelihood", x), fit("one_pass", x)
        apart += list((likely.mean_ - quick.mean_) / likely.mean_stderr_)
        pairs = np.triu_indices(6, 1)
        apart += list((likely.correlation_ - quick.correlation_)[pairs] / likely.correlation_stderr_[pairs])
    assert np.sqrt(np.mean(np.square(apart))) < 0.5


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(
        InvalidParameterError, match=r"Unknown method 'onepass'\. Did you mean 'one_pass'\? There are: "
    ):
        methods.method_named("onepass")


def test_the_papers_methods_are_found_by_name():
    assert set(methods.__all__) <= set(dir(methods))
    assert [methods.method_named(name) for name in ("sgd", "filtered_gradient", "median")] == [
        methods.TruncatedSGD(),
        methods.FilteredGradient(),
        methods.MedianBias(),
    ]
    of_papers = [name for name in NAMES if getattr(methods.method_named(name), "of_papers", False)]
    assert of_papers == ["filtered_gradient", "median", "sgd"]
    with pytest.raises(AttributeError, match=r"'unrelu.methods' has no attribute 'Nothing'"):
        _ = methods.Nothing


def test_the_core_does_not_load_the_papers():
    """Nor does asking for the names; only for a method of theirs."""
    loaded = "print('unrelu.papers' in sys.modules)"
    code = f"import sys; from unrelu import methods; methods.method_names(); methods.method_named('auto'); {loaded};"
    code += f"methods.method_named('sgd'); {loaded}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
