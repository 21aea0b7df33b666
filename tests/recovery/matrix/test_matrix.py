"""The steps of matrix recovery: choices, refusals, reports and progress."""

import numpy as np
import pytest

import unrelu
from tests.warned import warns
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.recovery.matrix.descent import TobitEM
from unrelu.recovery.matrix.factors import Cells
from unrelu.recovery.matrix.matrix import MatrixFit, recover_matrix, warn_of


def table(n=200, d=30, k=3, lift=0.0, seed=12):
    rng = np.random.default_rng(seed)
    T = rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + 0.5 * rng.standard_normal(d) + lift
    return T, Cells(np.maximum(T, 0.0))


def test_the_number_of_components_is_chosen_then_fitted():
    T, cells = table()
    reported = []
    fit = recover_matrix(cells, seed=3, progress=reported.append)
    assert fit.report.n_components == fit.factors.rank == 3
    assert fit.report.converged
    ok = np.ix_(fit.conditions.row_identifiable, fit.conditions.column_identifiable)
    np.testing.assert_allclose(fit.factors.matrix()[ok], T[ok], atol=1e-8)
    choosing = [step for step in reported if step.stage == "Choosing the number of components"]
    chosen = [step.state for step in choosing if step.state is not None]
    assert tuple(chosen) == fit.report.component_errors
    recovering = [step for step in reported if step.stage == "Recovering"]
    assert reported == [*choosing, *recovering]
    assert [step.done for step in recovering] == list(range(1, fit.report.iterations + 1))
    last = recovering[-1].state
    assert recovering[-1].words == f"iteration {last.iterations}, residual {last.residual:.1e}"
    assert (last.iterations, last.residual) == (fit.report.iterations, fit.report.residual)
    np.testing.assert_allclose(last.factors.matrix()[ok], T[ok], atol=1e-8)


def test_reports_count_cells():
    _, cells = table()
    X = cells.values.copy()
    X[6], X[3:, 7], X[::9, 4] = 0.0, 0.0, np.nan
    report = recover_matrix(Cells(X), 3).report
    assert report.share_missing == pytest.approx(np.isnan(X).mean())
    assert report.share_floored == pytest.approx((X == 0.0).sum() / np.isfinite(X).sum())
    assert (report.weak_columns, report.weak_rows) == ((7,), 1)
    assert (report.n_rows, report.n_features, report.n_components) == (200, 30, 3)
    assert (report.method, report.gauge, report.noise) == ("censored_als", "centered", None)
    assert (report.component_errors, report.resumed) == ((), None)


def test_a_start_of_other_margins_is_not_used():
    _, cells = table()
    first = recover_matrix(cells, 3)
    assert recover_matrix(cells, 3, start=first.factors).report.iterations == 1
    _, fewer = table(n=150)
    for start in (first.factors, recover_matrix(fewer, 2).factors):
        again = recover_matrix(fewer, 3, start=start)
        assert again.report == recover_matrix(fewer, 3).report


def test_what_a_progress_raises_ends_the_work():
    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recover_matrix(table()[1], 3, progress=stop)


@pytest.mark.parametrize(
    ("request_of", "message"),
    [
        ({"n_components": "many"}, "n_components must be a whole number or 'auto', got 'many'"),
        ({"n_components": True}, "n_components must be a whole number"),
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
        ({"n_components": 30}, "n_components=30 is not below both n_samples = 200 and n_features = 30"),
        ({"n_components": 3, "gauge": "middle"}, "Unknown gauge 'middle'"),
        ({"n_components": 3, "tol": 0.0}, "tol must be a finite number above 0"),
        ({"n_components": 3, "max_iter": 0}, "max_iter must be a whole number of at least 1"),
    ],
)
def test_bad_requests(request_of, message):
    with pytest.raises(InvalidParameterError, match=message):
        unrelu.ReLUMatrixRecovery(**request_of).fit(table()[1].values)


@pytest.mark.filterwarnings("error")
def test_it_warns_of_nothing_by_itself():
    X = table(k=2, lift=20.0)[0].copy()
    X[0] = np.nan
    fit = recover_matrix(Cells(X), 3)
    with warns("weak-rows", match="1 of 200 rows"), warns("rank-deficient", match="1 of 3"):
        warn_of(fit, None)


def test_parts_of_different_fits_do_not_make_one():
    fit = recover_matrix(table()[1], 3)
    other = recover_matrix(table(n=150)[1], 3)
    noisy = recover_matrix(table()[1], 3, TobitEM())
    fewer = recover_matrix(table()[1], 2)
    for name, part in [
        ("conditions", other.conditions),
        ("report", other.report),
        ("errors", noisy.errors),
        ("latent_mean", fewer.latent_mean),
        ("filling", fewer.filling),
    ]:
        with pytest.raises(InvalidDataError, match="do not belong together"):
            MatrixFit(**{**vars(fit), name: part})
