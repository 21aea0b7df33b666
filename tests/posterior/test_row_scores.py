"""Scores of whole tables: the kernel's numbers for every layout, type and unit, and for models that are singular."""

import numpy as np
import pytest
from scipy.special import log_ndtr

from tests.references import row_density as reference
from unrelu import RectifiedGaussian
from unrelu.kernels.hidden_cells import cell_residuals, hidden_rows
from unrelu.posterior.density import Density, seen_sum

MODEL = RectifiedGaussian(
    [0.3, -0.5, 1.0, 0.2], [[1.0, 0.5, 0.2, 0.0], [0.5, 1.5, -0.3, 0.4], [0.2, -0.3, 0.8, 0.1], [0.0, 0.4, 0.1, 2.0]]
)
RIDGE = 1e-8  # what Density adds to the diagonal of the correlations


def scores_of(model, floor=None):
    return Density(model.mean, model.std, model.correlation, model.floor if floor is None else floor)


def per_unit(scores, x, converged=False):
    """Per unit of scale."""
    return scores.log_density(x, None, converged) + seen_sum(x, scores.floor, scores.log_scale)


@pytest.fixture(scope="module")
def table():
    return MODEL.sample(5000, random_state=0)  # enough rows for several threads


def test_log_density_is_that_of_the_model(table):
    some = table[:60]
    ridged = MODEL.correlation + RIDGE * np.eye(4)
    expected = [reference.matched_log_density(x, MODEL.mean, MODEL.std, ridged, MODEL.floor) for x in some]
    np.testing.assert_allclose(per_unit(scores_of(MODEL), some), expected, rtol=1e-9, atol=1e-9)


def test_the_two_modes_agree_but_for_what_a_sweep_leaves_out(table):
    """Exact for one floored cell both; for more the converged one is scipy's integral, to .002 a cell."""
    some, scores = table[:300], scores_of(MODEL)
    swept, settled, floored = per_unit(scores, some), per_unit(scores, some, True), np.sum(some == 0.0, axis=1)
    np.testing.assert_allclose(swept[floored < 2], settled[floored < 2], atol=1e-9)
    expected = [reference.exact_log_density(x, MODEL.mean, MODEL.std, MODEL.correlation, MODEL.floor) for x in some]
    assert (np.abs(settled - expected) < 1e-4 + 2e-3 * floored).all()
    assert np.abs(swept - expected).max() > 5.0 * np.abs(settled - expected).max()


def test_the_ridge_goes_unnoticed(table):
    """A ridge e changes the log density of seen cells by e/2 (u' Q Q u - tr Q), to first order."""
    seen = table[(table > 0).all(axis=1)][:50]
    q = np.linalg.inv(MODEL.correlation)
    u = (seen - MODEL.mean) / MODEL.std
    exact = [reference.exact_log_density(x, MODEL.mean, MODEL.std, MODEL.correlation, MODEL.floor) for x in seen]
    change = RIDGE / 2.0 * (np.sum((u @ q) ** 2, axis=1) - np.trace(q))
    for converged in (False, True):
        np.testing.assert_allclose(per_unit(scores_of(MODEL), seen, converged) - exact, change, atol=1e-12)


def test_every_row_gets_its_own_score(table):
    """Threads share the rows: a table's scores are those of its rows one by one."""
    scores = scores_of(MODEL)
    whole = scores.log_density(table)
    assert whole.shape == (5000,)
    for rows in (slice(0, 1), slice(1, 300), slice(4990, 5000)):
        np.testing.assert_array_equal(scores.log_density(table[rows]), whole[rows])
    residuals = scores.cell_residuals(table)
    np.testing.assert_array_equal(scores.cell_residuals(table[4990:]), residuals[4990:])


def test_no_rows(table):
    assert scores_of(MODEL).log_density(table[:0]).shape == (0,)
    assert seen_sum(table[:0], np.zeros(4), np.ones(4)).shape == (0,)


def test_layouts(table):
    scores = scores_of(MODEL)
    read_only = table.copy()
    read_only.flags.writeable = False
    for other in (np.asfortranarray(table), read_only, np.repeat(table, 2, axis=0)[::2], table[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(scores.log_density(other), scores.log_density(table))
        np.testing.assert_array_equal(scores.cell_residuals(other), scores.cell_residuals(table))
        np.testing.assert_array_equal(seen_sum(other, np.zeros(4), np.arange(4.0)), (table > 0) @ np.arange(4.0))
    scores.log_density(table.astype(np.float32), converged=False)
    # Compiling takes seconds: the kernels see one layout and one type of table.
    for kernel in (cell_residuals, hidden_rows):
        assert len({(values, marks) for values, marks, *_ in kernel.signatures}) == 1


def test_a_model_mapped_into_memory_compiles_nothing_again(table):
    """Its arrays are read-only, another type to the compiler."""
    scores, mapped = scores_of(MODEL), scores_of(MODEL)
    for array in (mapped.mean, mapped.scale, mapped.correlation, mapped.inverse[0]):
        array.flags.writeable = False
    kernels = (cell_residuals, hidden_rows)
    expected = scores.log_density(table), scores.cell_residuals(table)
    compiled = [len(kernel.signatures) for kernel in kernels]
    np.testing.assert_array_equal(mapped.log_density(table), expected[0])
    np.testing.assert_array_equal(mapped.cell_residuals(table), expected[1])
    assert [len(kernel.signatures) for kernel in kernels] == compiled


def test_units_do_not_matter(table):
    units = np.array([1e-3, 1.0, 40.0, 1e5])
    scaled = Density(MODEL.mean * units, MODEL.std * units, MODEL.correlation, np.zeros(4))
    for converged in (False, True):
        found = per_unit(scaled, table * units, converged)
        np.testing.assert_allclose(found, per_unit(scores_of(MODEL), table, converged), rtol=1e-10)
    np.testing.assert_allclose(
        scaled.cell_residuals(table * units), scores_of(MODEL).cell_residuals(table), rtol=1e-9, atol=1e-10
    )


def test_the_floor_need_not_be_zero(table):
    shift = np.array([5.0, -2.0, 0.1, 100.0])
    shifted = Density(MODEL.mean + shift, MODEL.std, MODEL.correlation, shift)
    np.testing.assert_allclose(shifted.log_density(table + shift), scores_of(MODEL).log_density(table), atol=1e-10)


class TestScore:
    """Log density in units in which a seen cell adds about nothing."""

    def test_independent_cells_add_half_of_one_less_their_square(self):
        scores = Density(np.full(3, 5.0), np.array([1.0, 2.0, 3.0]), np.eye(3), np.zeros(3))
        u = np.random.default_rng(0).uniform(-1.5, 1.5, (20, 3))
        got = scores.score(5.0 + u * [1.0, 2.0, 3.0])
        np.testing.assert_allclose(got, np.sum(0.5 - u**2 / 2.0, axis=1), atol=1e-7)

    def test_is_the_density_per_cell_unit(self, table):
        """The unit of a cell: sqrt(2 pi e) times its spread given all others, 1/sqrt(Q_jj)."""
        q = np.linalg.inv(MODEL.correlation + RIDGE * np.eye(4))
        unit = 0.5 * np.log(2.0 * np.pi * np.e / q.diagonal()) + np.log(MODEL.std)
        scores = scores_of(MODEL)
        np.testing.assert_allclose(
            scores.score(table) - scores.log_density(table), (table > 0) @ unit, rtol=1e-9, atol=1e-9
        )

    def test_does_not_depend_on_units(self, table):
        units = np.array([1e-3, 1.0, 40.0, 1e5])
        scaled = Density(MODEL.mean * units, MODEL.std * units, MODEL.correlation, np.zeros(4))
        np.testing.assert_allclose(scaled.score(table * units), scores_of(MODEL).score(table), atol=1e-9)

    def test_a_constant_column_adds_nothing(self):
        model = RectifiedGaussian([1.0, 2.0], [[1.0, 0.0], [0.0, 0.0]])
        alone = RectifiedGaussian([1.0], [[1.0]])
        x = np.array([[0.5, 2.0], [0.0, 2.0]])
        np.testing.assert_allclose(scores_of(model).score(x), scores_of(alone).score(x[:, :1].copy()), atol=1e-12)


@pytest.mark.parametrize("floor", [0.1, 0.7])
def test_a_floor_that_float32_cannot_hold(table, floor):
    """0.1 as float32 is a little above 0.1, but a cell there is floored all the same."""
    floored = np.maximum(table, floor)
    scores = scores_of(MODEL, np.full(4, floor))
    single = scores.log_density(floored.astype(np.float32))
    # Rounding to float32 moves values by 6e-8 of their size: the score's slope is a few units.
    np.testing.assert_allclose(single, scores.log_density(floored), atol=1e-5)
    count = seen_sum(floored.astype(np.float32), np.full(4, floor), np.ones(4))
    np.testing.assert_array_equal(count, np.count_nonzero(floored > floor, axis=1))


@pytest.mark.parametrize("r", [1.0, -1.0, 0.999999])
def test_singular_correlations_give_numbers(r):
    scores = Density(np.zeros(3), np.ones(3), np.array([[1.0, r, 0.0], [r, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.zeros(3))
    x = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 2.0], [1.0, np.nan, 0.5]])
    assert np.isfinite(scores.log_density(x)).all()
    assert np.isfinite(scores.cell_residuals(x)[~np.isnan(x)]).all()


def test_a_singular_model_still_prefers_its_own_rows():
    scores = Density(np.full(2, 3.0), np.ones(2), np.ones((2, 2)), np.zeros(2))
    on, off = scores.log_density(np.array([[2.5, 2.5], [2.5, 3.5]]))
    assert on - off > 1e6  # the distance of 1 in units of sqrt(2 ridge), squared


def test_low_rank_models_in_many_columns_give_numbers():
    w = np.random.default_rng(0).standard_normal((30, 3))
    model = RectifiedGaussian(np.zeros(30), w @ w.T)
    x = model.sample(200, random_state=1)
    assert np.isfinite(scores_of(model).log_density(x)).all()
    assert np.isfinite(scores_of(model).cell_residuals(x)).all()


def test_missing_cells_are_integrated_over(table):
    holes = table[:200].copy()
    holes[:, 1] = np.nan
    keep = [0, 2, 3]
    rest = MODEL.marginal(keep)
    # Leaving a column out before or after the ridge is the same: it only touches the diagonal.
    np.testing.assert_allclose(
        scores_of(MODEL).log_density(holes), scores_of(rest).log_density(table[:200, keep].copy()), atol=1e-9
    )


class TestConstantColumns:
    """A column of norm 0 holds its constant; a cell that differs is all but impossible."""

    model = RectifiedGaussian([0.3, 2.5, -1.0], [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])

    def test_log_density(self):
        x = np.array([[0.5, 2.5, 0.0], [0.5, 2.6, 0.0], [0.5, 2.6, 0.1], [0.5, np.nan, np.nan], [0.0, 2.5, 0.0]])
        got = scores_of(self.model).log_density(x)
        on = -0.5 * (0.2**2 + np.log(2 * np.pi))
        expected = [on, on - 1e4, on - 2e4, on, log_ndtr(-0.3)]
        np.testing.assert_allclose(got, expected, atol=1e-7)

    def test_residuals(self):
        got = scores_of(self.model).cell_residuals(np.array([[0.5, 2.5, 0.0], [np.nan, 2.5, 0.0]]))
        np.testing.assert_allclose(got, [[0.2, np.nan, np.nan], [np.nan, np.nan, np.nan]], atol=1e-7)

    def test_float32(self):
        model = RectifiedGaussian([0.3, 0.1], [[1.0, 0.0], [0.0, 0.0]])
        x = np.array([[0.5, 0.1]])
        np.testing.assert_allclose(
            scores_of(model).log_density(x.astype(np.float32)), scores_of(model).log_density(x), atol=1e-6
        )

    def test_no_column_varies(self):
        model = RectifiedGaussian([1.0, 2.0], np.zeros((2, 2)))
        np.testing.assert_array_equal(scores_of(model).log_density(np.array([[1.0, 2.0], [1.0, 3.0]])), [0.0, -1e4])


def test_residuals_have_unit_variance_under_the_model():
    """Seen cells given the others, where none is floored: standard normal. Five standard errors of 20,000 rows."""
    model = RectifiedGaussian(MODEL.mean + 20.0, MODEL.covariance)
    residuals = scores_of(model).cell_residuals(model.sample(20_000, random_state=3))
    np.testing.assert_allclose(residuals.mean(axis=0), 0.0, atol=5.0 / np.sqrt(20_000))
    np.testing.assert_allclose(residuals.std(axis=0), 1.0, atol=5.0 / np.sqrt(2 * 20_000))


def test_an_outlying_cell_is_the_one_that_stands_out(table):
    spoiled = table[:100].copy()
    spoiled[:, 2] += 8.0
    residuals = np.abs(scores_of(MODEL).cell_residuals(spoiled))
    assert (np.argmax(residuals, axis=1) == 2).all()
    assert residuals[:, 2].min() > 4.0  # 8 over a conditional deviation below .9, less what the row had before


def test_a_floor_where_a_value_was_due_has_a_residual_far_below_zero():
    model = RectifiedGaussian([6.0, 6.0], [[1.0, 0.8], [0.8, 1.0]])
    residuals = scores_of(model).cell_residuals(np.array([[0.0, 6.5], [6.5, 6.5]]))
    # Cell 0 was due at 6 + .8 * .5 with deviation .6; its floor is at 0.
    assert residuals[0, 0] == pytest.approx(-6.4 / 0.6, rel=1e-6)
    assert abs(residuals[1]).max() < 1.0
