"""The table at first sight: what cannot be learned from, rows that repeat, and a prior worth one row."""

import warnings

import numpy as np
import pytest

from tests.warned import warns
from unrelu import RectifiedGaussian
from unrelu.contracts import Assumptions, Block
from unrelu.errors import InvalidDataError
from unrelu.fit.robust_rows.table import check_table, column_resolution, find_repeated_rows, prior_record
from unrelu.passes.tiles import SubsampleQuestion

MODEL = RectifiedGaussian([0.8, 0.5, 1.0], [[1.0, 0.5, 0.2], [0.5, 1.5, -0.3], [0.2, -0.3, 0.8]])
ASSUMPTIONS = Assumptions((0.0,) * 3)


@pytest.fixture
def table():
    return MODEL.sample(1000, random_state=0)


def unfloored(x):
    """The same with a small number of its own in every floored cell."""
    return np.where(x > 0.2, x, np.random.default_rng(9).uniform(0.15, 0.2, x.shape))


def sample_of(x, assumptions=ASSUMPTIONS, weights=None):
    return SubsampleQuestion.under(assumptions, 5000, 0)(Block(x, 0, weights))


def is_of(atom, rows):
    return atom.log_density(rows) == atom.log_mass


class TestCheckTable:
    def test_columns_that_vary(self, table):
        np.testing.assert_array_equal(check_table(sample_of(table), ASSUMPTIONS, None), [0, 1, 2])
        table[:, 1] = 4.0
        np.testing.assert_array_equal(check_table(sample_of(table), ASSUMPTIONS, None), [0, 2])

    def test_a_column_all_missing_or_all_floored_does_not_vary(self, table):
        table[:, 0] = np.nan
        table[:, 2] = 0.0
        np.testing.assert_array_equal(check_table(sample_of(table), ASSUMPTIONS, None), [1])

    def test_nothing_varies(self, table):
        """Every column is one value in 60 % of its own rows."""
        constant = np.random.default_rng(0).random(table.shape) < 0.6
        with pytest.raises(InvalidDataError, match="No column varies"):
            check_table(sample_of(np.where(constant, 2.0, table)), ASSUMPTIONS, None)
        with pytest.raises(InvalidDataError, match="100% of the rows are identical"):
            check_table(sample_of(np.full((50, 3), 2.0)), ASSUMPTIONS, None)

    def test_more_than_half_of_the_rows_identical(self, table):
        table[400:901] = [1.0, 2.0, 3.0]
        with pytest.raises(
            InvalidDataError, match=r"50% of the rows are identical, such as row 400 \(the first is 0\)"
        ):
            check_table(sample_of(table), ASSUMPTIONS, None)
        table[400] = [9.0, 9.0, 9.0]  # exactly half is an atom
        check_table(sample_of(table), ASSUMPTIONS, None)

    def test_columns_that_repeat_another_say_nothing_more(self, table):
        """In other units, and where rows are missing."""
        x = np.c_[table[:, 0], 40.0 * table[:, 0], table[:, 1:]]
        x[::9, 1] = np.nan
        np.testing.assert_array_equal(check_table(sample_of(x, four := Assumptions((0.0,) * 4)), four, None), [0, 2, 3])

    def test_columns_mostly_of_one_value_cannot_judge_rows(self, table):
        """But floored cells are no such value."""
        table[:600, 1] = 7.5
        table[:900, 2] = 0.0
        np.testing.assert_array_equal(check_table(sample_of(table), ASSUMPTIONS, None), [0, 2])

    def test_a_far_row_does_not_make_columns_alike(self, table):
        table[5] = 1e8
        np.testing.assert_array_equal(check_table(sample_of(table), ASSUMPTIONS, None), [0, 1, 2])

    def test_too_few_rows(self, table):
        check_table(sample_of(table[:6]), ASSUMPTIONS, None)
        with pytest.raises(InvalidDataError, match=r"Only 5 rows for 3 columns.*one_pass"):
            check_table(sample_of(table[:5]), ASSUMPTIONS, None)

    def test_rows_of_weight_zero_are_no_rows(self, table):
        with pytest.raises(InvalidDataError, match="Only 5 rows"):
            check_table(sample_of(table, weights=np.where(np.arange(1000) < 5, 1.0, 0.0)), ASSUMPTIONS, None)

    def test_bad_cells_come_first(self, table):
        table[3, 1] = -1.0
        with pytest.raises(InvalidDataError, match=r"column 1 \('b'\) \(1, first in row 3 \(the first is 0\)\)"):
            check_table(sample_of(table[:5]), ASSUMPTIONS, ("a", "b", "c"))

    def test_a_tolerance_makes_small_values_floored(self, table):
        table[:, 1] = np.random.default_rng(0).uniform(-0.1, 0.1, 1000)
        assumptions = Assumptions((0.0,) * 3, floor_tolerance=0.1)
        np.testing.assert_array_equal(check_table(sample_of(table, assumptions), assumptions, None), [0, 2])


class TestFindAtoms:
    def test_a_table_without_repetitions(self, table):
        table = unfloored(table)
        atoms, rest = find_repeated_rows(table, ASSUMPTIONS)
        assert atoms == []
        np.testing.assert_array_equal(rest, table)

    def test_rows_of_zeros_and_a_repeated_row(self, table):
        table = unfloored(table)
        table[:200] = 0.0
        table[300:350] = [1.5, 0.0, 2.5]
        table[400:403] = [9.0, 9.0, 9.0]  # three times is no atom
        atoms, rest = find_repeated_rows(table, ASSUMPTIONS)
        np.testing.assert_array_equal([atom.row for atom in atoms], [[0.0, 0.0, 0.0], [1.5, 0.0, 2.5]])
        assert len(rest) == 750
        assert not any(is_of(atom, rest).any() for atom in atoms)
        assert [int(is_of(atom, table).sum()) for atom in atoms] == [200, 50]

    def test_an_atoms_mass_is_spread_over_a_cell_of_the_columns_resolution(self):
        """Two decimals: a row seen in two columns has 1/(.01 .01) of density, one of zeros its mass itself."""
        x = np.round(MODEL.sample(3000, random_state=0), 2)
        x[:300] = [1.25, 0.0, 0.75]
        x[300:500] = 0.0
        atoms, _ = find_repeated_rows(x, ASSUMPTIONS)
        assert atoms[0].log_mass == pytest.approx(2.0 * np.log(100.0), rel=1e-6)
        assert atoms[1].log_mass == 0.0

    def test_half_of_the_rows_are_an_atom(self, table):
        table[:500] = [1.0, 2.0, 3.0]
        atoms, rest = find_repeated_rows(table, ASSUMPTIONS)
        np.testing.assert_array_equal(atoms[0].row, [1.0, 2.0, 3.0])
        assert len(rest) <= 500

    def test_a_table_of_a_few_different_rows(self):
        x = np.tile([[1.0, 2.0, 0.0], [3.0, 0.0, 1.0], [0.0, 1.0, 1.0]], (300, 1))
        with pytest.raises(InvalidDataError, match="copies of 3 rows"):
            find_repeated_rows(x, ASSUMPTIONS)

    @pytest.mark.filterwarnings("ignore::unrelu.errors.DataWarning")
    def test_rows_with_missing_cells_are_no_atoms(self, table):
        table[:300] = [np.nan, 2.0, 3.0]
        table[300:900] = np.nan
        atoms, rest = find_repeated_rows(table, ASSUMPTIONS)
        assert not any(np.isnan(atom.row).any() for atom in atoms)
        assert len(rest) == 1000 - sum(int(is_of(atom, table).sum()) for atom in atoms)

    def test_what_is_floored_is_alike(self, table):
        """Within a tolerance of the floor cells say nothing but that."""
        table = unfloored(table)
        table[:110] = np.random.default_rng(0).uniform(-0.1, 0.1, (110, 3))
        table[110:200, 0], table[110:200, 1:] = 2.0, np.random.default_rng(1).uniform(-0.1, 0.1, (90, 2))
        atoms, rest = find_repeated_rows(table, Assumptions((0.0,) * 3, floor_tolerance=0.1))
        np.testing.assert_array_equal([atom.row for atom in atoms], [[0.1, 0.1, 0.1], [2.0, 0.1, 0.1]])
        assert len(rest) == 800

    def test_minus_zero_is_zero(self, table):
        table[:100] = -0.0
        table[100:200] = 0.0
        atoms, _ = find_repeated_rows(table, ASSUMPTIONS)
        assert len(atoms) == 1
        assert is_of(atoms[0], table)[:200].all()

    def test_float32_floors(self):
        x = np.maximum(MODEL.sample(2000, random_state=0), 0.1)
        x[:200] = 0.1
        assumptions = Assumptions((0.1,) * 3)
        single, double = (find_repeated_rows(table, assumptions)[0][0] for table in (x.astype(np.float32), x))
        assert single.log_mass == double.log_mass == 0.0

    def test_copies_are_mentioned(self, table):
        doubled = np.vstack([table, table[:300]])
        with warns("duplicated-rows", match=r"2\d% of the sampled rows are exact copies"):
            find_repeated_rows(doubled, ASSUMPTIONS)

    def test_atoms_and_rows_of_zeros_are_no_copies(self, table):
        """Atoms get a component, and rows with at most one seen cell repeat by themselves."""
        table[:300] = [1.5, 0.5, 2.5]
        table[300:600] = 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            find_repeated_rows(table, ASSUMPTIONS)


class TestColumnResolution:
    def test_smallest_steps(self):
        rng = np.random.default_rng(0)
        x = np.c_[rng.integers(1, 50, 500), np.round(rng.random(500) * 9.0 + 1.0, 1), rng.random(500) + 1.0]
        steps = column_resolution(x, np.zeros(3))
        np.testing.assert_allclose(steps[:2], [1.0, 0.1], rtol=1e-9)
        assert 0.0 < steps[2] < 1e-4

    def test_the_floor_is_no_value(self):
        """A step from the floor to the first value says nothing of the resolution."""
        x = np.array([[0.0], [0.003], [1.003], [3.003]])
        np.testing.assert_allclose(column_resolution(x, np.zeros(1)), [1.0])

    def test_columns_with_one_value_or_none(self):
        x = np.array([[0.0, 0.0, np.nan], [5.0, 0.0, np.nan]])
        np.testing.assert_array_equal(column_resolution(x, np.zeros(3)), [1.0, 1.0, 1.0])


class TestPriorRecord:
    @pytest.mark.parametrize("missing", [0.0, 0.3])
    def test_is_worth_one_row(self, table, missing):
        table[np.random.default_rng(0).random(table.shape) < missing] = np.nan
        record = prior_record(table, ASSUMPTIONS, np.random.default_rng(0))
        assert record.weight == pytest.approx(1.0)
        count, mean, variance = record.positive_moments()
        assert (count > 0.0).all()
        assert (variance > 0.0).all()
        # About the columns' own: the mean of 256 values, of which those beyond twice the quartile are cut.
        own = np.array([column[column > 0.0].mean() for column in table.T])
        np.testing.assert_allclose(mean, own, rtol=0.25)

    def test_columns_are_shuffled_against_each_other(self):
        x = np.repeat(np.random.default_rng(0).gamma(9.0, size=(2000, 1)), 3, axis=1)  # perfectly correlated
        record = prior_record(x, ASSUMPTIONS, np.random.default_rng(0))
        about = record._about(record.positive_moments()[1])
        r = about.cross[0, 1] / np.sqrt(about.cross[0, 0] * about.cross[1, 1])
        assert abs(r) < 5.0 / np.sqrt(256)

    def test_a_far_row_leaves_no_trace(self, table):
        table[0] = 1e9
        record = prior_record(table, ASSUMPTIONS, np.random.default_rng(0))
        assert (record.positive_moments()[1] < 10.0).all()

    def test_neither_do_outliers_in_a_column_that_is_mostly_floored(self):
        """A tenth of the rows are outliers, but they are more than a quarter of what is seen."""
        x = RectifiedGaussian([-0.6, -0.6, -0.6], np.eye(3)).sample(1000, random_state=0)
        x[:100] = 1e5
        record = prior_record(x, ASSUMPTIONS, np.random.default_rng(0))
        assert (record.positive_moments()[1] < 10.0).all()

    def test_a_column_without_positives_has_one_in_the_prior(self, table):
        table[:, 1] = 0.0
        record = prior_record(table, ASSUMPTIONS, np.random.default_rng(0))
        assert record.count[1, 1] > 0.0
