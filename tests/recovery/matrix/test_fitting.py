"""Factors of one table: exact on what is identified, whatever the units, the order, the floor's size or the gaps."""

import numpy as np
import pytest

from unrelu.metrics import subspace_distance
from unrelu.recovery.matrix.descent import CensoredALS, Task, TobitEM
from unrelu.recovery.matrix.factors import Cells, Factors, find_core
from unrelu.recovery.matrix.matrix import recover_matrix

SIZES = [(0, 200, 30, 2), (1, 300, 40, 3), (2, 400, 60, 5), (3, 200, 60, 4), (4, 300, 30, 5)]


def truth(seed, n, d, k, bias=0.5):
    rng = np.random.default_rng(seed)
    return Factors(rng.standard_normal((n, k)), rng.standard_normal((d, k)), bias * rng.standard_normal(d))


def recover(X, rank, gauge="centered", method=None, **options):
    return recover_matrix(Cells(X), rank, method, gauge, **options)


def identified(fit):
    return np.ix_(fit.conditions.row_identifiable, fit.conditions.column_identifiable)


@pytest.mark.parametrize(("seed", "n", "d", "k"), SIZES)
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_exact_recovery(seed, n, d, k, missing):
    true = truth(seed, n, d, k)
    X = np.maximum(true.matrix(), 0.0)
    X[np.random.default_rng(seed + 100).random(X.shape) < missing] = np.nan
    fit = recover(X, k)
    assert fit.report.converged
    cells = identified(fit)
    assert cells[0].size > 0.9 * n
    assert cells[1].size > 0.9 * d
    np.testing.assert_allclose(fit.factors.matrix()[cells], true.matrix()[cells], rtol=0.0, atol=1e-8)
    columns = fit.conditions.column_identifiable
    assert subspace_distance(fit.factors.loadings[columns], true.loadings[columns]) < 1e-8


@pytest.mark.parametrize("gauge", ["centered", "orthogonal", "bayes"])
def test_gauges_of_a_fit(gauge):
    """The definitions hold over the rows that the fit rests on; the matrix is the same in all."""
    true = truth(5, 300, 40, 3)
    X = np.maximum(true.matrix() + 1.0, 0.0)
    X[3] = 0.0
    fit = recover(X, 3, gauge)
    np.testing.assert_allclose(fit.factors.matrix(), recover(X, 3).factors.matrix(), atol=1e-9)
    rows = find_core(Cells(X), 3, True)[0]
    assert np.flatnonzero(~rows).tolist() == [3]
    C, A, b = fit.factors.latent[rows], fit.factors.loadings, fit.factors.bias
    np.testing.assert_allclose(C.mean(axis=0), fit.latent_mean, atol=1e-12)
    np.testing.assert_allclose(np.cov(C.T, ddof=0), np.eye(3), atol=1e-9)
    gram = A.T @ A
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)
    if gauge == "centered":
        np.testing.assert_allclose(fit.latent_mean, 0.0, atol=1e-12)
        np.testing.assert_allclose(b, fit.factors.matrix()[rows].mean(axis=0), atol=1e-10)
    elif gauge == "orthogonal":
        np.testing.assert_allclose(A.T @ b, 0.0, atol=1e-10)
    else:
        assert 0.0 < np.linalg.norm(fit.latent_mean) < np.linalg.norm(recover(X, 3, "orthogonal").latent_mean)


def test_without_a_bias():
    true = truth(6, 200, 30, 3, bias=0.0)
    fit = recover(np.maximum(true.matrix(), 0.0), 3, "zero")
    assert fit.factors.bias is None
    np.testing.assert_array_equal(fit.latent_mean, 0.0)
    np.testing.assert_allclose(fit.factors.matrix(), true.matrix(), atol=1e-8)


@pytest.mark.parametrize("unit", [2.0**-500, 1e-150, 1e-9, 1e9, 1e100, 2.0**400])
@pytest.mark.parametrize("method", [CensoredALS(), TobitEM()])
def test_units_do_not_matter(unit, method):
    rng = np.random.default_rng(7)
    X = np.maximum(truth(7, 150, 20, 2).matrix() + 0.2 * rng.standard_normal((150, 20)), 0.0)
    one, other = recover(X, 2, method=method), recover(X * unit, 2, method=method)
    assert other.report.residual == pytest.approx(one.report.residual, rel=1e-4)
    np.testing.assert_allclose(other.factors.matrix() / unit, one.factors.matrix(), atol=1e-3)
    np.testing.assert_allclose(other.factors.latent, one.factors.latent, atol=1e-3)
    if one.report.noise is not None:
        assert other.report.noise / unit == pytest.approx(one.report.noise, rel=1e-4)
        np.testing.assert_allclose(other.errors.latent, one.errors.latent, rtol=1e-3)
        np.testing.assert_allclose(other.errors.bias / unit, one.errors.bias, rtol=1e-3)


def test_tiny_units_do_not_matter():
    true = truth(7, 150, 20, 2)
    fit = recover(np.maximum(true.matrix(), 0.0) * 1e-200, 2)
    np.testing.assert_allclose(fit.factors.matrix() * 1e200, true.matrix(), atol=1e-8)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_filled_in_does_not_depend_on_units():
    X = np.maximum(truth(8, 150, 20, 2).matrix(), 0.0)
    X[3], X[4:, 5] = 0.0, 0.0
    one, other = recover(X, 2), recover(X * 1e25, 2)
    np.testing.assert_array_equal(other.conditions.row_identifiable, one.conditions.row_identifiable)
    np.testing.assert_allclose(other.factors.matrix() / 1e25, one.factors.matrix(), atol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_order_does_not_matter(noise):
    rng = np.random.default_rng(9)
    X = np.maximum(truth(9, 150, 20, 2).matrix() + noise * rng.standard_normal((150, 20)), 0.0)
    rows, columns = rng.permutation(150), rng.permutation(20)
    one, other = recover(X, 2), recover(X[rows][:, columns], 2)
    tolerance = 2e-3 if noise else 1e-8
    np.testing.assert_allclose(other.factors.matrix(), one.factors.matrix()[rows][:, columns], atol=tolerance)
    np.testing.assert_allclose(other.factors.latent, one.factors.latent[rows], atol=tolerance)
    np.testing.assert_allclose(other.conditions.rows, one.conditions.rows[rows], rtol=1e-2)


def test_a_table_without_zeros_is_what_principal_components_say():
    X = truth(10, 100, 15, 3).matrix() + 30.0
    fit = recover(X, 3)
    mean = X.mean(axis=0)
    u, s, vt = np.linalg.svd(X - mean, full_matrices=False)
    np.testing.assert_allclose(fit.factors.matrix(), (u[:, :3] * s[:3]) @ vt[:3] + mean, atol=1e-10)
    np.testing.assert_allclose(np.abs(fit.factors.latent), np.abs(u[:, :3]) * 10.0, atol=1e-8)
    np.testing.assert_allclose(np.abs(fit.factors.loadings), np.abs(vt[:3].T * s[:3] / 10.0), atol=1e-8)


def test_a_noisy_table_without_zeros_has_the_principal_axes_of_its_own_and_shrunken_values():
    """ridge/2 (|C|^2 + |A|^2) is the nuclear norm at its best: singular values lose the ridge."""
    rng = np.random.default_rng(11)
    X = truth(11, 100, 15, 3).matrix() + 30.0 + 0.3 * rng.standard_normal((100, 15))
    fit = recover(X, 3)
    mean = X.mean(axis=0)
    u, s, vt = np.linalg.svd(X - mean, full_matrices=False)
    ridge = CensoredALS().recover(Task(Cells(X), 3)).ridge
    shrunk = (u[:, :3] * (s[:3] - ridge)) @ vt[:3] + mean
    assert 0.0 < ridge < 0.05 * s[2]
    np.testing.assert_allclose(fit.factors.matrix(), shrunk, atol=1e-4)


# --- weak rows and columns ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weak():
    """Column 4 has three values above the floor, column 7 none, row 5 one, row 6 none."""
    true = truth(12, 200, 30, 3)
    hidden = true.matrix().copy()
    X = np.maximum(hidden, 0.0)
    few = np.flatnonzero(X[:, 4])[:3]
    X[np.setdiff1d(np.arange(200), few), 4] = np.nan
    X[np.flatnonzero(hidden[:, 4] < 0.0)[:20], 4] = 0.0
    X[:, 7] = 0.0
    X[5, np.flatnonzero(X[5])[1:]] = np.nan
    X[6] = 0.0
    return true, X, few


@pytest.mark.parametrize("method", [CensoredALS(), TobitEM()])
def test_weak_rows_and_columns_are_named_and_do_no_harm(weak, method):
    true, X, _ = weak
    fit = recover(X, 3, method=method)
    assert np.flatnonzero(~fit.conditions.column_identifiable).tolist() == [4, 7]
    assert np.flatnonzero(~fit.conditions.row_identifiable).tolist() == [5, 6]
    assert np.flatnonzero(~find_core(Cells(X), 3, True)[1]).tolist() == [4, 7]
    cells = identified(fit)
    np.testing.assert_allclose(
        fit.factors.matrix()[cells], true.matrix()[cells], atol=1e-8 if fit.errors is None else 1e-5
    )
    assert np.isfinite(fit.factors.matrix()).all()


def test_what_is_filled_in_agrees_with_what_was_seen(weak):
    _, X, few = weak
    fit = recover(X, 3)
    T, known = fit.factors.matrix(), fit.conditions.row_identifiable
    np.testing.assert_allclose(T[few, 4], X[few, 4], atol=1e-6)
    zeros = known & (X[:, 4] == 0.0)
    assert T[zeros, 4].max() < 1e-6
    assert T[known, 7].max() < 1e-6
    seen = X[5] > 0.0
    np.testing.assert_allclose(T[5, seen], X[5, seen], atol=1e-6)


def test_whoever_watches_sees_factors_of_the_whole_table(weak):
    _, X, _ = weak
    seen = []
    unit = 1e9
    fit = recover(X * unit, 3, progress=lambda step: seen.append(step.state.factors))
    assert len(seen) == fit.report.iterations
    core = np.ix_(*find_core(Cells(X), 3, True)[:2])
    np.testing.assert_allclose(seen[-1].matrix()[core] / unit, fit.factors.matrix()[core] / unit, atol=1e-8)
    assert (seen[-1].loadings[[4, 7]] == 0.0).all()


def test_a_start_of_the_whole_table_is_gone_on_from(weak):
    _, X, _ = weak
    first = recover(X, 3)
    again = recover(X, 3, start=first.factors)
    assert again.report.iterations <= 2
    np.testing.assert_allclose(again.factors.matrix(), first.factors.matrix(), atol=1e-7)


@pytest.mark.parametrize("method", [CensoredALS(), TobitEM()])
def test_a_start_does_not_change_the_answer(method):
    rng = np.random.default_rng(13)
    X = np.maximum(truth(13, 200, 30, 2).matrix() + 0.5 * rng.standard_normal((200, 30)), 0.0)
    first = recover(X, 2, method=method)
    again = recover(X, 2, method=method, start=first.factors)
    np.testing.assert_allclose(again.factors.matrix(), first.factors.matrix(), atol=2e-3)


# --- what is called identified is right -------------------------------------------------------------


def worst_identified(fit, hidden):
    """The largest error among cells of rows and columns that count as identified."""
    return np.abs(fit.factors.matrix() - hidden)[identified(fit)].max()


def test_guessed_rows_do_not_spoil_a_column():
    """Column 0 has four values in good rows, which determine it, and one in a row that has one more value only."""
    hidden = truth(20, 200, 20, 3).matrix()
    X = np.maximum(hidden, 0.0)
    seen = np.flatnonzero(X[:, 0])[:5]
    X[np.setdiff1d(np.arange(200), seen), 0] = np.nan
    X[seen[4], np.flatnonzero(X[seen[4]])[2:]] = np.nan
    fit = recover(X, 3)
    assert not fit.conditions.row_identifiable[seen[4]]
    assert worst_identified(fit, hidden) < 1e-6


def test_values_in_guessed_columns_determine_no_row():
    """Column 0 has three values for four unknowns; one row has three values for three, one of them in that column."""
    hidden = truth(21, 200, 20, 3).matrix()
    X = np.maximum(hidden, 0.0)
    seen = np.flatnonzero(X[:, 0])[:3]
    X[np.setdiff1d(np.arange(200), seen), 0] = np.nan
    X[seen[0], np.flatnonzero(X[seen[0]])[3:]] = np.nan
    fit = recover(X, 3)
    assert not fit.conditions.column_identifiable[0]
    assert not fit.conditions.row_identifiable[seen[0]]
    assert worst_identified(fit, hidden) < 1e-6


def test_parts_that_nothing_links_are_not_identified_together():
    """Columns 0 to 2 are above the floor in rows of large c, columns 3 to 5 in rows of small c, never both."""
    rng = np.random.default_rng(22)
    c = np.repeat([1.0, -1.0], 50) * rng.uniform(1.0, 3.0, 100)
    hidden = np.outer(c, [1.0, 1.5, 2.0, -1.0, -1.5, -2.0]) - np.array([0.5, 0.2, 0.3, 0.4, 0.6, 0.1])
    X = np.maximum(hidden, 0.0)
    assert not ((X[:, :3] > 0.0).any(axis=1) & (X[:, 3:] > 0.0).any(axis=1)).any()
    fit = recover(X, 1)
    np.testing.assert_array_equal(fit.conditions.column_identifiable, [True, True, True, False, False, False])
    assert worst_identified(fit, hidden) < 1e-6


def test_constant_tables():
    fit = recover(np.full((40, 8), 3.0), 2)
    np.testing.assert_allclose(fit.factors.matrix(), 3.0, rtol=1e-14)
    assert fit.report.converged


def test_more_rank_than_a_table_needs():
    """Without zeros what is more than needed is zero; the matrix is the same."""
    X = truth(14, 100, 20, 2).matrix() + 30.0
    fit = recover(X, 4)
    np.testing.assert_allclose(fit.factors.matrix(), X, atol=1e-9)
    assert (np.abs(fit.factors.loadings[:, 2:]) < 1e-9).all()
    assert fit.conditions.column_identifiable.all()
    assert fit.conditions.row_identifiable.all()


def test_columns_of_different_scales():
    rng = np.random.default_rng(15)
    scale = 10.0 ** rng.uniform(-3.0, 3.0, 30)
    true = truth(15, 200, 30, 3)
    fit = recover(np.maximum(true.matrix(), 0.0) * scale, 3)
    np.testing.assert_allclose(fit.factors.matrix() / scale, true.matrix(), atol=1e-6)


@pytest.mark.parametrize(("spread", "seed"), [(10.0, 0), (10.0, 1), (30.0, 1)])
def test_components_of_different_sizes(spread, seed):
    """The table fits exactly, with components whose sizes are as 1, 1/sqrt(spread) and 1/spread."""
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((300, 3)) * [1.0, spread**-0.5, 1.0 / spread]
    hidden = latent @ rng.standard_normal((3, 40)) + 0.5 * rng.standard_normal(40)
    fit = recover(np.maximum(hidden, 0.0), 3)
    assert fit.report.residual <= 1e-12
    assert worst_identified(fit, hidden) < 1e-8


def test_duplicated_rows_have_the_same_latent_vector():
    true = truth(16, 50, 20, 2)
    X = np.repeat(np.maximum(true.matrix(), 0.0), 4, axis=0)
    fit = recover(X, 2)
    ok = fit.conditions.row_identifiable
    groups = fit.factors.latent.reshape(50, 4, 2)
    np.testing.assert_allclose(groups[ok[::4]] - groups[ok[::4], :1], 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("n", "d", "k", "lift"), [(40, 200, 3, 0.0), (60, 3, 1, 1.0), (60, 2, 1, 1.0), (5, 30, 1, 1.0), (3, 3, 1, 5.0)]
)
def test_unusual_sizes(n, d, k, lift):
    true = truth(17, n, d, k)
    hidden = true.matrix() + lift
    fit = recover(np.maximum(hidden, 0.0), k)
    cells = identified(fit)
    assert min(cells[0].size, cells[1].size) > 1
    np.testing.assert_allclose(fit.factors.matrix()[cells], hidden[cells], atol=1e-8)
