"""What is doubtful about tables that do not fit, and nothing about those that do."""

import warnings

import numpy as np
import pytest

import unrelu
from tests.warned import warns
from unrelu import errors

NORMAL = np.random.default_rng(0).multivariate_normal(np.zeros(4), 0.4 + 0.6 * np.eye(4), size=1000)


def diagnostics(table, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = unrelu.RectifiedGaussianLearner(**options).fit(table).report_
    found = [w.message.kinds for w in caught if issubclass(w.category, errors.AssumptionWarning)]
    said = [diagnostic.kind for diagnostic in report.diagnostics]
    assert found == ([tuple(said)] if said else [])  # whatever is in the report is told, in one warning
    return {diagnostic.kind: diagnostic for diagnostic in report.diagnostics}, said


@pytest.mark.parametrize("shift", [-0.5, 0.0, 2.0, 10.0])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_tables_that_fit_are_left_alone(shift, kind):
    assert diagnostics(np.maximum(NORMAL + shift, 0.0).astype(kind))[0] == {}


def test_many_tables_that_fit():
    """30 tables: each has a finding with a chance of about 1 %, so 3 or more come once in 300 such tests."""
    models = [unrelu.synthetic.random_model(5, random_state=seed) for seed in range(30)]
    found = [diagnostics(model.sample(300 + 40 * seed, random_state=seed))[0] for seed, model in enumerate(models)]
    assert sum(map(bool, found)) < 3


def test_a_limit_without_a_floor():
    table = np.maximum(NORMAL, 0.0)
    table[:, 1] = np.maximum(NORMAL[:, 1], 0.25)
    found, said = diagnostics(table)
    assert (found["repeated-minimum"].columns, found["repeated-minimum"].values) == ((1,), (0.25,))
    assert said == ["repeated-minimum"]
    assert diagnostics(table, floor=[0.0, 0.25, 0.0, 0.0])[0] == {}
    found, _ = diagnostics(-table, ceiling=0.0)
    assert (found["repeated-maximum"].columns, found["repeated-maximum"].values) == ((1,), (-0.25,))


def test_an_upper_limit_without_a_ceiling():
    found, said = diagnostics(np.clip(NORMAL, 0.0, [1.5, 9.0, 9.0, 9.0]))
    assert (found["repeated-maximum"].columns, found["repeated-maximum"].values) == ((0,), (1.5,))
    assert said == ["repeated-maximum"]


def test_zeros_that_mean_less_than():
    table = np.where(NORMAL + 0.5 < 0.8, 0.0, NORMAL + 0.5)
    found, said = diagnostics(table, margins="normal")
    assert list(found) == ["empty-gap"]
    assert said == ["empty-gap"]
    assert found["empty-gap"].columns == (0, 1, 2, 3)
    np.testing.assert_array_equal(found["empty-gap"].values, np.where(table > 0.0, table, np.inf).min(axis=0))
    assert diagnostics(table, floor=0.8)[0] == {}


def test_values_within_rounding_of_the_floor():
    table = np.maximum(NORMAL, -1.2)
    table = np.where(table == -1.2, -1.1999, table)
    found, _ = diagnostics(table, floor=-1.2)  # two digits say too little for the table's own to be taken
    assert found["near-the-floor"].columns == (0, 1, 2, 3)
    with warns("near-the-floor", match=r"In column 0: -1.1999, column 1"):
        unrelu.RectifiedGaussianLearner(floor=-1.2).fit(table)
    assert "near-the-floor" not in diagnostics(table, floor="min")[0]
    assert "near-the-floor" not in diagnostics(table, floor=-1.1999)[0]


def test_skewed_columns_and_their_direction():
    table = np.maximum(NORMAL, 0.0)
    table[:, 2] = np.maximum(np.exp(0.5 * NORMAL[:, 2]) - 1.0, 0.0)
    found, said = diagnostics(table, margins="normal")
    assert (list(found), found["skewed"].columns) == (["skewed"], (2,))
    assert "to the right" in found["skewed"].words
    assert found["skewed"].values[0] < -0.1
    assert said == ["skewed"]
    found, _ = diagnostics(-table, ceiling=0.0, margins="normal")
    assert "to the left" in found["skewed"].words
    assert found["skewed"].values[0] > 0.1
    found, _ = diagnostics(
        -table, ceiling=0.0
    )  # by default such a column is free, and half of it goes on as normal ones do
    assert (list(found), found["skewed"].columns) == (["skewed"], (2,))
    assert "below the floor that distribution continues them all the same" in found["skewed"].words


def test_positive_columns_without_anything_at_the_floor():
    found, said = diagnostics(np.exp(0.7 * NORMAL), margins="normal")
    assert found["nothing-floored"].columns == (0, 1, 2, 3)
    assert "nothing-floored" in said
    assert diagnostics(np.exp(0.7 * NORMAL))[0] == {}  # by default they are lognormal, without a floor


def test_counts_and_coarse_rounding():
    found, said = diagnostics(np.random.default_rng(0).poisson(2.0, size=(1000, 3)))
    assert (found["ties"].columns, found["ties"].values) == ((0, 1, 2), (1.0, 1.0, 1.0))
    assert "ties" in said
    for digits in (1, 2, 3):  # fine enough
        assert diagnostics(np.maximum(np.round(NORMAL, digits), 0.0))[0] == {}


def test_few_rows_and_no_inverse():
    x = unrelu.synthetic.random_model(30, random_state=0).sample(100, random_state=1)
    found, said = diagnostics(x)
    assert "few-rows" in found
    assert "few-rows" in said
    together = np.maximum(np.random.default_rng(0).normal(size=(300, 3)) @ np.ones((3, 24)), 0.0)
    together += 1e-3 * np.random.default_rng(1).random(together.shape) * (together > 0.0)
    found, said = diagnostics(together)
    assert "singular" in found
    assert "singular" in said


def test_diagnostics_survive_merging_and_files(tmp_path):
    table = np.maximum(NORMAL, 0.0)
    table[:, 1] = np.maximum(NORMAL[:, 1], 0.25)
    parts = [unrelu.RectifiedGaussianLearner().partial_fit(rows) for rows in (table[:300], table[300:])]
    with warns("repeated-minimum"):
        expected = unrelu.RectifiedGaussianLearner().fit(table).report_.diagnostics
    merged = unrelu.merge(parts)
    with warns("repeated-minimum"):
        found = merged.report_.diagnostics
    assert found == expected
    merged.save(tmp_path / "learner.npz")
    assert unrelu.load(tmp_path / "learner.npz").report_.diagnostics == expected


# --- columns with margins --------------------------------------------------------------------------


@pytest.mark.parametrize("margins", ["log", "boxcox", "monotone", "auto"])
def test_tables_that_fit_their_margins_are_left_alone(margins):
    assert diagnostics(np.maximum(np.exp(NORMAL), 0.5), floor=0.5, margins=margins)[0] == {}


def test_many_tables_with_margins_that_fit():
    """12 tables: each has a finding with a chance of about 1 %, so 3 or more come once in 4,000 such tests."""
    models = [unrelu.synthetic.random_model(4, random_state=seed) for seed in range(12)]
    tables = [np.exp(model.sample(400, random_state=seed)) for seed, model in enumerate(models)]
    assert sum(bool(diagnostics(table, floor=1.0, margins="auto")[0]) for table in tables) < 3


def test_the_remedy_for_skewed_columns_is_a_margin():
    table = np.maximum(np.exp(NORMAL), 0.5)
    found, _ = diagnostics(table, floor=0.5, margins="normal")
    assert "margins='monotone'" in found["skewed"].remedy  # which helps, and is never in force where this is told
    assert found["skewed"].columns == (0, 1, 2, 3)
    assert diagnostics(table, floor=0.5, margins="monotone")[0] == {}


def test_columns_that_are_skewed_even_after_their_margin():
    table = np.maximum(np.exp(NORMAL), 0.5)
    table[:, 1] = np.maximum(NORMAL[:, 1] + 2.0, 0.5)  # needs no logarithm
    found, said = diagnostics(table, floor=0.5, margins="log")
    assert (found["skewed"].columns, said) == ((1,), ["skewed"])
    assert "to the left even after their margin" in found["skewed"].words
    assert "margins='monotone'" in found["skewed"].remedy
    assert diagnostics(table, floor=0.5, margins="monotone")[0] == {}


@pytest.mark.parametrize("margins", ["log", "monotone"])
def test_values_are_in_the_units_of_the_table(margins):
    table = np.maximum(np.exp(NORMAL), 0.5)
    table[:, 1] = np.maximum(table[:, 1], 0.8)
    found, _ = diagnostics(table, floor=0.5, margins=margins)
    assert found["repeated-minimum"].columns == (1,)
    assert found["repeated-minimum"].values == pytest.approx((0.8,))
    found, _ = diagnostics(1.0 / table, floor=None, ceiling=2.0, margins=margins)
    assert found["repeated-maximum"].values == pytest.approx((1.25,))


def test_gaps_are_in_the_units_of_the_table():
    table = np.exp(NORMAL)
    table = np.where(table < 0.8, 0.4, table)
    found, _ = diagnostics(table, floor=0.4, margins="log")
    assert found["empty-gap"].columns == (0, 1, 2, 3)
    np.testing.assert_allclose(found["empty-gap"].values, np.where(table > 0.4, table, np.inf).min(axis=0))


@pytest.mark.parametrize("margins", ["boxcox", "monotone", "auto"])
def test_counts_with_margins_are_ties_and_no_limits(margins):
    counts = np.maximum(np.round(np.exp(1.0 + NORMAL) - 1.0), 0.0)
    found, _ = diagnostics(counts, margins=margins)
    assert (list(found), found["ties"].columns) == (["ties"], (0, 1, 2, 3))
    assert found["ties"].values == (1.0, 1.0, 1.0, 1.0)
    assert "repeated-minimum" not in diagnostics(np.round(4.0 * np.exp(NORMAL)) / 4.0, margins=margins)[0]


def test_small_values_of_a_coarse_scale_are_no_limit():
    """Rain, in steps of .1 mm: the smallest amounts are the most frequent, and what is wrong is the normal
    distribution."""
    rng = np.random.default_rng(0)
    rain = np.where(rng.random((3000, 3)) < 0.5, 0.0, np.round(rng.gamma(0.6, 6.0, (3000, 3)), 1))
    found, _ = diagnostics(rain, method="one_pass", margins="normal")
    assert list(found) == ["skewed"]
    rain[:, 1] = np.maximum(rain[:, 1], 0.4)  # one that nobody named
    found, _ = diagnostics(rain, method="one_pass", margins="normal")
    assert (found["repeated-minimum"].columns, found["skewed"].columns) == ((1,), (0, 2))


def test_the_remedy_for_half_limits_works_when_followed():
    """Cells below a limit of .5 that hold .25: named as the floor they leave a gap, and what is then said helps."""
    table = np.exp(NORMAL)
    table[table < 0.5] = 0.25
    found, _ = diagnostics(table, floor=0.25, method="one_pass", margins="log")
    gap = found["empty-gap"]
    assert "write that value into these cells, and pass it as floor=" in gap.remedy
    value = np.array(gap.values)
    assert diagnostics(np.maximum(table, value), floor=value, method="one_pass", margins="log")[0] == {}


def test_skewness_that_moves_no_mean_is_diagnosed_as_skewness():
    """Without a floor the mean is the mean; .0 or -3.7e-31 as how far it is off would say nothing."""
    found, _ = diagnostics(np.exp(NORMAL), floor=None, method="one_pass", margins="normal")
    assert "values: the skewness" in found["skewed"].words
    assert min(found["skewed"].values) > 1.0


def test_n_components_is_no_remedy_where_it_is_given():
    x = unrelu.synthetic.random_model(30, random_state=0).sample(100, random_state=1)
    assert "n_components" in diagnostics(x, method="one_pass", margins="normal")[0]["few-rows"].remedy
    found, _ = diagnostics(x, method="one_pass", margins="normal", n_components=2)
    assert "n_components" not in found["few-rows"].remedy


@pytest.mark.parametrize(
    "estimator",
    [
        unrelu.RectifiedGaussianLearner(),
        unrelu.RectifiedGaussianLearner("robust", margins="normal"),
        unrelu.RectifiedGaussianLearner("robust_cells", margins="normal"),
        unrelu.RectifiedGaussianGraph(0.99, margins="normal"),
        unrelu.FloorImputer(margins="normal"),
        unrelu.FloorOutlierDetector(margins="normal"),
    ],
    ids=repr,
)
def test_a_fit_tells_all_in_one_warning(estimator):
    table = np.maximum(NORMAL, 0.0)
    table[:, 1] = np.maximum(NORMAL[:, 1], 0.25)
    table[:, 2] = np.exp(1.5 * NORMAL[:, 2])
    table[:, 3] = np.round(table[:, 3])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = estimator.fit(table).report_
    (told,) = [each for each in caught if issubclass(each.category, errors.AssumptionWarning)]
    assert told.message.kinds == tuple(diagnostic.kind for diagnostic in report.diagnostics)
    lines = str(told.message).splitlines()
    assert len(lines) == len(report.diagnostics) > 1
    for line, diagnostic in zip(lines, report.diagnostics, strict=True):
        assert line[0].isupper()
        assert line.endswith(f"{diagnostic.remedy} [{diagnostic.kind}]")
