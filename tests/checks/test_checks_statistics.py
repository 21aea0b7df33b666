"""The numbers that a table is judged by, against their definitions and against simulated rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.references import fit_check as reference
from unrelu import RectifiedGaussian
from unrelu.checks.statistics import LEVELS, Standardized, column_statistics, pair_statistics, quadrants
from unrelu.kernels.pair_solver import upper_parts

CORRELATION = np.array([[1.0, 0.6, -0.4], [0.6, 1.0, 0.2], [-0.4, 0.2, 1.0]])
MODEL = RectifiedGaussian(
    [0.5, -0.2, 1.0], CORRELATION * np.outer([2.0, 1.0, 0.5], [2.0, 1.0, 0.5]), [0.0, -np.inf, -np.inf], None,
    [np.inf, np.inf, 1.2],
)  # fmt: skip


def rows(n, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    x = MODEL.sample(n, random_state=rng)
    x[rng.random(x.shape) < missing] = np.nan
    return x


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_columns_are_what_the_definition_says(missing, tolerance):
    x = rows(150, missing=missing)
    found = column_statistics(Standardized.of(x, MODEL, tolerance))
    low, high = MODEL.floor + tolerance, MODEL.ceiling - tolerance
    expected = [reference.anderson_darling(x[:, j], low[j], high[j], MODEL.mean[j], MODEL.std[j]) for j in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_pairs_are_what_the_definition_says(missing):
    x = rows(300, missing=missing)
    table = Standardized.of(x, MODEL, 0.0)
    found = pair_statistics(table)
    for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        at = [tuple(reference.threshold(level, table.low[c], table.high[c]) for c in (i, j)) for level in LEVELS[:, 0]]
        expected = reference.pair_numbers(table.u[:, [i, j]], at, CORRELATION[i, j])
        np.testing.assert_allclose(found[:, k], expected, atol=2e-7)


def test_a_negated_column_is_as_far_from_its_model():
    x = rows(200)
    turned = [True, True, True]
    found = column_statistics(Standardized.of(-x, MODEL.negated(turned), 0.0))
    np.testing.assert_allclose(found, column_statistics(Standardized.of(x, MODEL, 0.0)), rtol=1e-9)


def test_upper_parts_of_strong_and_impossible_pairs():
    for r in (0.0, 0.7, -0.7, 0.97):
        share, within = np.zeros((1, 2, 2)), np.zeros((2, 2))
        upper_parts(np.array([[0.3, -0.5]]), np.array([[1.0, r], [r, 1.0]]), share, within)
        assert share[0, 0, 1] == pytest.approx(reference.joint_share(0.3, -0.5, r), abs=1e-7)
        assert within[0, 1] == pytest.approx(reference.correlation_above(0.3, -0.5, r), abs=1e-6)
    upper_parts(np.array([[1.0, 1.0]]), np.array([[1.0, -1.0], [-1.0, 1.0]]), share, within)
    assert share[0, 0, 1] == 0.0
    assert np.isnan(within[0, 1])


def test_expected_quadrants_are_those_of_simulated_rows():
    n = 100_000
    observed, expected = quadrants(Standardized.of(rows(n, seed=5), MODEL, 0.0))
    assert np.isnan(observed[..., 0, 0]).all()
    pairs = np.triu_indices(3, 1)
    seen, wanted = (each[..., pairs[0], pairs[1]] for each in (observed, expected))
    np.testing.assert_allclose(seen.sum(axis=(1, 2)), n)
    np.testing.assert_allclose(wanted.sum(axis=(1, 2)), n)
    assert (np.abs(seen - wanted) < 4.5 * np.sqrt(wanted)).all()


def test_quadrants_leave_out_rows_with_a_missing_cell():
    x = rows(400, missing=0.3)
    observed, expected = quadrants(Standardized.of(x, MODEL, 0.0))
    together = np.count_nonzero(~np.isnan(x[:, 0]) & ~np.isnan(x[:, 1]))
    assert observed[0, :, :, 0, 1].sum() == together
    assert expected[0, :, :, 0, 1].sum() == pytest.approx(together)
