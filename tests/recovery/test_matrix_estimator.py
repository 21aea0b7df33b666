"""ReLUMatrixRecovery: scikit-learn's distributions, exact recovery through its door, files, and every bad input."""

import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info, threadpool_limits

import unrelu
from tests.archives import rewrite
from tests.warned import warns
from unrelu import ReLUMatrixRecovery, recovery
from unrelu.errors import InvalidDataError, InvalidParameterError, ModelFileError, about
from unrelu.metrics import subspace_distance
from unrelu.tables import ArraySamples, SparseSamples

METHOD_NAMES = ("censored_als", "tobit_em")
METHODS = pytest.mark.parametrize("method", METHOD_NAMES)


@parametrize_with_checks([ReLUMatrixRecovery(), ReLUMatrixRecovery(1), ReLUMatrixRecovery(1, "tobit_em")])
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def hidden_table(seed=0, n=200, d=30, k=3, lift=0.0):
    """T with enough positive cells in every row and column."""
    rng = np.random.default_rng(seed)
    while True:
        T = rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + 0.5 * rng.standard_normal(d) + lift
        if min((T > 0.0).sum(axis=0).min(), (T > 0.0).sum(axis=1).min()) > k + 2:
            return T


def with_noise(T, noise, seed=1):
    return np.maximum(T + noise * np.random.default_rng(seed).standard_normal(T.shape), 0.0)


@pytest.fixture(scope="module")
def T():
    return hidden_table()


@pytest.fixture(scope="module")
def X(T):
    return np.maximum(T, 0.0)


@pytest.fixture(scope="module")
def noisy(T):
    return with_noise(T, 0.3)


@pytest.fixture(scope="module")
def fitted(X):
    return ReLUMatrixRecovery(3).fit(X)


@pytest.fixture(scope="module")
def noisy_fit(noisy):
    return ReLUMatrixRecovery(3, "tobit_em").fit(noisy)


# --- recovery -------------------------------------------------------------------------------------


def test_attributes_are_the_factors(fitted, T):
    assert fitted.components_.shape == (3, 30)
    assert fitted.latent_.shape == (200, 3)
    np.testing.assert_allclose(fitted.latent_ @ fitted.components_ + fitted.bias_, T, atol=1e-8)
    np.testing.assert_array_equal(fitted.hidden(), fitted.latent_ @ fitted.components_ + fitted.bias_)
    np.testing.assert_allclose(fitted.bias_, T.mean(axis=0), atol=1e-8)
    assert subspace_distance(fitted.column_space_, np.linalg.svd(T - T.mean(axis=0))[2][:3].T) < 1e-8
    np.testing.assert_allclose(fitted.column_space_.T @ fitted.column_space_, np.eye(3), atol=1e-12)
    assert fitted.n_components_ == fitted.report_.n_components == 3
    assert fitted.n_iter_ == fitted.report_.iterations
    assert not hasattr(fitted, "noise_")


@pytest.mark.parametrize("floor", [-3.0, 2.5, "per column"])
def test_floors(T, floor):
    floor = np.linspace(-2.0, 2.0, 30) if isinstance(floor, str) else floor
    lifted = T + floor
    found = ReLUMatrixRecovery(3, floor=floor).fit(np.maximum(lifted, floor))
    np.testing.assert_allclose(found.hidden(), lifted, atol=1e-8)
    np.testing.assert_allclose(found.inverse_transform(found.latent_), np.maximum(lifted, floor), atol=1e-8)
    np.testing.assert_allclose(found.transform(np.maximum(lifted, floor)), found.latent_, atol=1e-8)
    assert found.score(np.maximum(lifted, floor)) == pytest.approx(1.0)


def test_a_floor_that_single_precision_rounds(T):
    """0.1 is not 0.1 there: cells at the floor are still at the floor."""
    table = np.maximum(T + 0.1, 0.1).astype(np.float32)
    found = ReLUMatrixRecovery(3, floor=0.1).fit(table)
    assert found.report_.share_floored == pytest.approx(np.mean(T <= 0.0))
    np.testing.assert_allclose(found.hidden(), T + 0.1, atol=1e-4)


def test_noise_after_the_floor(T):
    rng = np.random.default_rng(3)
    X = np.where(T > 0.1, T, 0.05 * rng.standard_normal(T.shape).clip(-1.0, 1.0))
    with pytest.raises(InvalidDataError, match="below the floor 0"):
        ReLUMatrixRecovery(3).fit(X)
    found = ReLUMatrixRecovery(3, floor_tolerance=0.1).fit(X)
    np.testing.assert_allclose(found.hidden()[T > 0.1], T[T > 0.1], atol=0.1)
    exact = ReLUMatrixRecovery(3, floor_tolerance=1e-6).fit(np.where(T > 1e-6, T, 1e-7))
    np.testing.assert_allclose(exact.hidden(), T, atol=1e-4)


KINDS = ["csr_array", "csc_array", "coo_array", "csr_matrix", "csc_matrix", "coo_matrix", "lil_array"]


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_tables_are_dense_ones(X, fitted, kind):
    table = getattr(scipy.sparse, kind)(X)
    found = ReLUMatrixRecovery(3).fit(table)
    np.testing.assert_array_equal(found.hidden(), fitted.hidden())
    np.testing.assert_array_equal(found.transform(table), fitted.transform(X))
    assert found.score(table) == fitted.score(X)
    assert found.report_ == fitted.report_


def test_rows_read_in_blocks(X, fitted):
    names = [f"c{j}" for j in range(30)]
    for samples in (
        ArraySamples(X, feature_names=names, block_rows=7),
        SparseSamples(scipy.sparse.csr_array(X), names),
    ):
        found = ReLUMatrixRecovery(3).fit(samples)
        np.testing.assert_array_equal(found.hidden(), fitted.hidden())
        np.testing.assert_array_equal(found.transform(samples), fitted.transform(X))
        assert found.report_ == fitted.report_
        assert list(found.feature_names_in_) == names
        with pytest.raises(InvalidDataError, match="columns"):
            found.transform(ArraySamples(X, feature_names=names[::-1]))
        with pytest.raises(InvalidDataError, match="columns"):
            found.transform(SparseSamples(scipy.sparse.csr_array(X), names[::-1]))


def test_sparse_details(X, fitted):
    """NaN is stored; zeros may be; copies add up; values within the tolerance are the floor; the input stays."""
    gaps = X.copy()
    gaps[::7, ::5] = np.nan
    by_sparse = ReLUMatrixRecovery(3).fit(scipy.sparse.csr_array(gaps))
    np.testing.assert_array_equal(by_sparse.hidden(), ReLUMatrixRecovery(3).fit(gaps).hidden())
    row, column = np.nonzero(np.ones_like(X))
    doubled = (np.tile(X.ravel() / 2.0, 2), (np.tile(row, 2), np.tile(column, 2)))
    stored = scipy.sparse.coo_array(doubled, shape=X.shape)
    np.testing.assert_allclose(ReLUMatrixRecovery(3).fit(stored).hidden(), fitted.hidden(), atol=1e-9)
    around = scipy.sparse.csr_array(np.where(X > 0.0, X, 1e-9 * np.where(np.arange(30) % 2, 1.0, -1.0)))
    before = around.data.copy()
    np.testing.assert_array_equal(ReLUMatrixRecovery(3, floor_tolerance=1e-8).fit(around).hidden(), fitted.hidden())
    np.testing.assert_array_equal(around.data, before)


def test_the_table_is_not_written_to(X):
    before = X.copy()
    found = ReLUMatrixRecovery(3, floor_tolerance=0.05).fit(X)
    found.transform(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("kind", [np.float32, np.int64, bool, list, object])
def test_kinds_of_numbers(X, kind):
    table = X.tolist() if kind is list else X.astype(kind)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", about("weak-rows"))
        found = ReLUMatrixRecovery(1).fit(table)
        wanted = ReLUMatrixRecovery(1).fit(np.asarray(table, dtype=np.float64))
    np.testing.assert_array_equal(found.hidden(), wanted.hidden())


def test_gauges(X, T, fitted):
    for gauge in ("centered", "orthogonal", "bayes"):
        found = ReLUMatrixRecovery(3, gauge=gauge).fit(X)
        np.testing.assert_allclose(found.hidden(), T, atol=1e-8)
        np.testing.assert_allclose(found.transform(X), found.latent_, atol=1e-8)
        assert found.report_.gauge == gauge
    orthogonal = ReLUMatrixRecovery(3, gauge="orthogonal").fit(X)
    np.testing.assert_allclose(orthogonal.components_ @ orthogonal.bias_, 0.0, atol=1e-10)
    low = hidden_table(2) - hidden_table(2).mean(axis=0)
    rank_3 = np.linalg.svd(low, full_matrices=False)
    low = (rank_3[0][:, :3] * rank_3[1][:3]) @ rank_3[2][:3]
    zero = ReLUMatrixRecovery(3, gauge="zero").fit(np.maximum(low, 0.0))
    np.testing.assert_array_equal(zero.bias_, 0.0)
    np.testing.assert_allclose(zero.hidden(), low, atol=1e-8)


def test_a_gauge_with_a_bias_errs_less_than_none():
    """Relative error of M = C A' for C, A, b ~ N(0, 1); test_factors.py compares the gauges."""
    rng = np.random.default_rng(0)
    C, A, b = rng.standard_normal((400, 3)), rng.standard_normal((60, 3)), rng.standard_normal(60)
    error = {}
    for gauge in ("bayes", "centered", "orthogonal", "zero"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ReLUMatrixRecovery(3, gauge=gauge, max_iter=60).fit(np.maximum(C @ A.T + b, 0.0))
        left = (found.latent_ @ found.components_ - C @ A.T)[:, found.column_identifiable_]
        error[gauge] = np.linalg.norm(left) / np.linalg.norm(C @ A.T)
    assert error["bayes"] < max(error["centered"], error["orthogonal"]) < 0.2 < error["zero"]


@METHODS
def test_transform_of_the_rows_fitted_is_their_latent_vectors(noisy, method):
    found = ReLUMatrixRecovery(3, method).fit(noisy)
    assert found.row_identifiable_.all()
    np.testing.assert_allclose(found.transform(noisy), found.latent_, atol=1e-3)
    np.testing.assert_array_equal(clone(found).fit_transform(noisy), found.latent_)


@pytest.mark.parametrize("gauge", ["centered", "orthogonal", "bayes"])
def test_new_rows(gauge):
    T = hidden_table(4, n=260, lift=0.5)
    found = ReLUMatrixRecovery(3, gauge=gauge).fit(np.maximum(T[:200], 0.0))
    new = np.maximum(T[200:], 0.0)
    new[::3, ::4] = np.nan
    np.testing.assert_allclose(found.hidden(new), T[200:], atol=1e-7)
    np.testing.assert_allclose(found.inverse_transform(found.transform(new)), np.maximum(T[200:], 0.0), atol=1e-7)


def test_score_is_the_share_of_variance_explained(noisy_fit, noisy):
    left = noisy - noisy_fit.inverse_transform(noisy_fit.transform(noisy))
    share = 1.0 - np.sum(left**2) / np.sum((noisy - noisy.mean(axis=0)) ** 2)
    assert noisy_fit.score(noisy) == pytest.approx(share, rel=1e-12)
    assert 0.8 < share < 1.0
    gaps = noisy.copy()
    gaps[::5, ::3] = np.nan
    seen = ~np.isnan(gaps)
    left = (gaps - noisy_fit.inverse_transform(noisy_fit.transform(gaps)))[seen]
    total = (gaps - np.nanmean(gaps, axis=0))[seen]
    assert noisy_fit.score(gaps) == pytest.approx(1.0 - np.sum(left**2) / np.sum(total**2), rel=1e-12)


def test_noise_attributes(noisy_fit):
    assert noisy_fit.noise_ == noisy_fit.report_.noise == pytest.approx(0.3, rel=0.06)
    assert noisy_fit.components_stderr_.shape == (3, 30)
    assert noisy_fit.mean_stderr_.shape == (30,)
    assert noisy_fit.latent_stderr_.shape == (200, 3)


def test_a_refit_without_noise_forgets_the_noise(noisy):
    found = ReLUMatrixRecovery(3, "tobit_em").fit(noisy)
    found.set_params(method="censored_als").fit(noisy)
    for name in ("noise_", "components_stderr_", "mean_stderr_", "latent_stderr_"):
        assert not hasattr(found, name)


@pytest.mark.parametrize(
    ("noise", "seed", "k"),
    [
        (0.0, 0, 2),
        (0.0, 1, 3),
        (0.3, 0, 2),
        *(pytest.param(0.3, seed, k, marks=pytest.mark.slow) for seed, k in ((0, 3), (1, 2), (1, 3))),
    ],
)
def test_the_rank_is_found(noise, seed, k):
    found = ReLUMatrixRecovery(random_state=seed).fit(with_noise(hidden_table(seed, k=k, d=40), noise))
    assert found.n_components_ == k
    assert [rank for rank, _ in found.report_.component_errors] == list(
        range(1, len(found.report_.component_errors) + 1)
    )


def test_the_seed_chooses_the_cells_that_are_held_out(X):
    errors = [ReLUMatrixRecovery(random_state=seed).fit(X).report_.component_errors for seed in (0, 1, 1)]
    assert errors[0] != errors[1] == errors[2]


@pytest.mark.parametrize("unit", [2.0**-400, 2.0**400])
def test_units_do_not_matter_to_the_number_of_components(X, unit):
    """Squares of held-out errors would leave double precision."""
    usual, scaled = ReLUMatrixRecovery().fit(X), ReLUMatrixRecovery().fit(X * unit)
    assert scaled.n_components_ == usual.n_components_ == 3
    np.testing.assert_allclose(scaled.report_.component_errors[:2], usual.report_.component_errors[:2], rtol=1e-3)


def test_the_rank_of_a_sparse_table(X):
    dense, sparse = ReLUMatrixRecovery().fit(X), ReLUMatrixRecovery().fit(scipy.sparse.csr_array(X))
    assert dense.report_.component_errors == sparse.report_.component_errors
    assert sparse.n_components_ == 3


# --- warnings -------------------------------------------------------------------------------------


def test_weak_columns_are_named():
    T = hidden_table(5)
    frame = pd.DataFrame(np.maximum(T, 0.0), columns=[f"c{j}" for j in range(30)])
    frame["c7"] = 0.0
    frame.loc[3:, "c9"] = 0.0
    with warns("weak-columns", match=r"column 7 \('c7'\), column 9 \('c9'\)\. Their loadings") as caught:
        found = ReLUMatrixRecovery(3).fit(frame)
    assert [w.filename for w in caught] == [__file__]
    assert found.report_.weak_columns == (7, 9)
    np.testing.assert_array_equal(np.flatnonzero(~found.column_identifiable_), [7, 9])
    np.testing.assert_array_equal(found.column_condition_ > 1e4, ~found.column_identifiable_)
    ok = found.column_identifiable_
    np.testing.assert_allclose(found.hidden()[:, ok], T[:, ok], atol=1e-8)
    seen = frame["c9"].to_numpy()[:3] > 0.0
    assert found.hidden()[:, 7].max() < 1e-6
    assert np.isfinite(found.hidden()[:3, 9][seen]).all()


def test_weak_columns_do_not_count_in_transform():
    """The loadings filled in for column 7 do not count."""
    X = np.maximum(hidden_table(5), 0.0)
    seen = np.flatnonzero(X[:, 7])[:3]
    X[np.setdiff1d(np.arange(200), seen), 7] = np.nan
    with warns("weak-columns", match="column 7"):
        found = ReLUMatrixRecovery(3).fit(X)
    assert np.abs(found.components_[:, 7]).max() > 1e-3
    X[:, 7] = 1e3
    np.testing.assert_allclose(found.transform(X), found.latent_, atol=1e-8)


def test_weak_rows_are_counted():
    T = hidden_table(6)
    X = np.maximum(T, 0.0)
    X[11], X[12] = 0.0, np.nan
    with warns("weak-rows", match="2 of 200 rows have too few values above the floor"):
        found = ReLUMatrixRecovery(3).fit(X)
    np.testing.assert_array_equal(np.flatnonzero(~found.row_identifiable_), [11, 12])
    np.testing.assert_allclose(np.delete(found.hidden(), [11, 12], axis=0), np.delete(T, [11, 12], axis=0), atol=1e-8)
    assert found.report_.weak_rows == 2


def test_rank_deficient_tables():
    T = hidden_table(7, k=2, lift=20.0)
    with warns("rank-deficient", match="2 of 4 components are zero: the table needs no more than 2"):
        found = ReLUMatrixRecovery(4).fit(T)
    np.testing.assert_allclose(found.hidden(), T, atol=1e-9)
    with warns("rank-deficient"):
        found = ReLUMatrixRecovery(1).fit(np.full((20, 5), 2.0))
    np.testing.assert_allclose(found.hidden(), 2.0)
    np.testing.assert_allclose(found.inverse_transform(found.transform(np.full((3, 5), 2.0))), 2.0)


def test_iterations_that_end_too_early_say_so(X):
    with pytest.warns(
        ConvergenceWarning, match=r"Not converged after 1 iterations: relative residual 0\.\d+.* raise max_iter"
    ):
        found = ReLUMatrixRecovery(3, max_iter=1).fit(X)
    assert (found.n_iter_, found.report_.converged) == (1, False)
    fitted = found.latent_ @ found.components_ + found.bias_
    residual = np.where(X > 0.0, X - fitted, np.maximum(fitted, 0.0))
    assert found.report_.residual == pytest.approx(np.linalg.norm(residual) / np.linalg.norm(X), rel=1e-9)
    found.set_params(max_iter=500, warm_start=True).fit(X)
    assert found.report_.converged


def test_the_warning_of_iterations_points_at_the_caller(X):
    with pytest.warns(ConvergenceWarning) as caught:
        ReLUMatrixRecovery(3, max_iter=1).fit(X)
    assert [w.filename for w in caught] == [__file__]


def test_plain_fits_do_not_warn(X, noisy):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ReLUMatrixRecovery(3).fit(X)
        ReLUMatrixRecovery(3, "tobit_em").fit(noisy)


# --- parameters and state -------------------------------------------------------------------------


def test_warm_start_goes_on(X, T):
    found = ReLUMatrixRecovery(3, warm_start=True).fit(X)
    first = found.n_iter_
    assert found.fit(X).n_iter_ == 1 < first
    np.testing.assert_allclose(found.hidden(), T, atol=1e-8)
    assert found.fit(X[:150]).n_iter_ > 1  # other rows: from the beginning
    assert ReLUMatrixRecovery(3).fit(X).fit(X).n_iter_ == first


def test_parameters_and_copies(X, fitted):
    found = ReLUMatrixRecovery(2, recovery.TobitEM(), "bayes", floor=1.0, tol=1e-6, max_iter=7, random_state=3)
    assert clone(found).get_params() == found.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.hidden(), fitted.hidden())
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    by_object = ReLUMatrixRecovery(3, recovery.CensoredALS()).fit(X)
    np.testing.assert_array_equal(by_object.hidden(), fitted.hidden())
    assert by_object.report_ == fitted.report_


def test_names_and_frames(X):
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(30)])
    found = ReLUMatrixRecovery(3).set_output(transform="pandas").fit(frame)
    assert list(found.get_feature_names_out()) == [f"relumatrixrecovery{m}" for m in range(3)]
    out = found.transform(frame)
    assert list(out.columns) == list(found.get_feature_names_out())
    np.testing.assert_allclose(out.to_numpy(), found.latent_, atol=1e-8)
    assert isinstance(found.fit_transform(frame), pd.DataFrame)
    with pytest.raises(ValueError, match="feature names"):
        found.transform(frame[frame.columns[::-1]])


@pytest.mark.slow  # several fits
def test_the_same_twice_and_in_threads(X, noisy):
    """Bit by bit, also with several fits at once."""
    alone = [ReLUMatrixRecovery(3, method).fit(table).hidden() for method in METHOD_NAMES for table in (X, noisy)]
    with ThreadPoolExecutor(4) as pool:
        tasks = [(method, table) for method in METHOD_NAMES for table in (X, noisy)]
        together = list(pool.map(lambda task: ReLUMatrixRecovery(3, task[0]).fit(task[1]).hidden(), tasks * 2))
    for m, values in enumerate(together):
        np.testing.assert_array_equal(values, alone[m % 4])


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def several_blas_threads():
    """Two, also where the suite's workers have one each: otherwise there is nothing to limit or to restore."""
    before = max(blas_threads(), default=1)
    threadpool_limits(2, user_api="blas")
    if max(blas_threads(), default=1) != 2:
        pytest.skip("this BLAS has one thread")
    yield
    threadpool_limits(before, user_api="blas")


@pytest.mark.usefixtures("several_blas_threads")
@pytest.mark.parametrize("main_first", [False, True])
def test_fits_in_threads_leave_blas_as_it_was(noisy, main_first):
    """The second fit begins within the first, and ends after it."""
    before = blas_threads()
    first_began, second_began, first_ended = threading.Event(), threading.Event(), threading.Event()

    def first():
        def progress(*_):
            first_began.set()
            second_began.wait(20.0)

        ReLUMatrixRecovery(3).with_progress(progress).fit(noisy)
        first_ended.set()

    def second():
        def progress(*_):
            second_began.set()
            first_ended.wait(20.0)

        first_began.wait(20.0)
        ReLUMatrixRecovery(3).with_progress(progress).fit(noisy)

    here, there = (first, second) if main_first else (second, first)
    thread = threading.Thread(target=there)
    thread.start()
    here()
    thread.join()
    assert blas_threads() == before


@pytest.mark.usefixtures("several_blas_threads")
def test_fits_in_threads_take_one_blas_thread_too(noisy):
    """Also after a fit in the main thread: products on more threads round differently."""
    seen = set()
    ReLUMatrixRecovery(3).with_progress(lambda _: seen.update(blas_threads())).fit(noisy)
    assert seen == {1}
    seen.clear()
    recovery = ReLUMatrixRecovery(3).with_progress(lambda _: seen.update(blas_threads()))
    thread = threading.Thread(target=recovery.fit, args=(noisy,))
    thread.start()
    thread.join()
    assert seen == {1}


# --- files ----------------------------------------------------------------------------------------


@METHODS
@pytest.mark.parametrize("gauge", ["orthogonal", "zero"])
def test_files(tmp_path, method, gauge):
    frame = pd.DataFrame(with_noise(hidden_table(8), 0.2) - 1.0, columns=[f"c{j}" for j in range(30)])
    frame.loc[:, "c4"] = -1.0
    with warns("weak-columns"):
        found = ReLUMatrixRecovery(3, method, gauge, floor=-1.0, floor_tolerance=1e-9).fit(frame)
    path = tmp_path / "factors.npz"
    found.save(path)
    again = ReLUMatrixRecovery.load(path)
    for name in ("components_", "bias_", "latent_", "column_condition_", "row_condition_", "column_space_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert (again.n_components_, again.n_iter_, again.report_) == (found.n_components_, found.n_iter_, found.report_)
    assert list(again.feature_names_in_) == list(found.feature_names_in_)
    np.testing.assert_allclose(again.transform(frame), found.transform(frame), atol=1e-12)
    np.testing.assert_allclose(again.hidden(frame), found.hidden(frame), atol=1e-12)
    np.testing.assert_array_equal(again.inverse_transform(found.latent_), found.inverse_transform(found.latent_))
    assert again.score(frame) == pytest.approx(found.score(frame), rel=1e-12)
    assert hasattr(again, "noise_") == (method == "tobit_em")
    if method == "tobit_em":
        assert again.noise_ == found.noise_
        for name in ("components_stderr_", "mean_stderr_", "latent_stderr_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    again.save(tmp_path / "again.npz")
    np.testing.assert_array_equal(ReLUMatrixRecovery.load(tmp_path / "again.npz").hidden(), found.hidden())


def test_files_keep_units(tmp_path, X, fitted):
    found = ReLUMatrixRecovery(3).fit(X * 1e30)
    found.save(tmp_path / "huge.npz")
    again = ReLUMatrixRecovery.load(tmp_path / "huge.npz")
    np.testing.assert_allclose(again.transform(X * 1e30), fitted.transform(X), atol=1e-6)


@pytest.fixture
def saved(fitted, tmp_path):
    path = tmp_path / "factors.npz"
    fitted.save(path)
    return path


PARTS = ["factors.latent", "factors.loadings", "factors.bias", "conditions.rows", "filling.row_ridge", "latent_mean"]


@pytest.mark.parametrize("name", ["columns.floor", *(f"fit.{part}" for part in PARTS)])
def test_files_that_lack_an_array(saved, name):
    rewrite(saved, {name: None})
    with pytest.raises(ModelFileError, match=r"factors\.npz is damaged"):
        ReLUMatrixRecovery.load(saved)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("fit", ...),
        ("fit", None),
        ("n_features_in", ...),
        ("n_features_in", 29),
        ("parameters", ...),
        ("parameters/gauge", ...),
        ("parameters", [1, 2]),
        ("parameters", {"n_components": 3, "spells": 1}),
        ("fit/report", ...),
        ("fit/report", {}),
        ("fit/report", 3),
        ("fit/report", None),
        ("fit/report/gauge", ...),
        ("fit/report/n_components", 2),
        ("fit/factors", None),
    ],
)
def test_files_whose_header_is_damaged(saved, place, value):
    rewrite(saved, facts={place: value})
    with pytest.raises(ModelFileError, match=r"factors\.npz is damaged"):
        ReLUMatrixRecovery.load(saved)


@pytest.mark.parametrize(
    "arrays",
    [
        pytest.param({"factors.loadings": np.zeros((7, 2))}, id="margins"),
        pytest.param({"factors.latent": np.zeros(5)}, id="dimension"),
        pytest.param({"factors.bias": np.full(30, np.nan)}, id="nan"),
        pytest.param({"filling.row_ridge": np.zeros(9)}, id="ridge"),
        pytest.param({"factors.loadings": np.full((30, 3), "a")}, id="letters"),
        pytest.param({"factors.bias": np.full(30, 1j)}, id="complex"),
        pytest.param({"conditions.columns": np.ones(30, dtype=bool)}, id="booleans"),
        pytest.param({"conditions.rows": np.ones(199)}, id="rows"),
    ],
)
def test_files_whose_arrays_do_not_fit_together(saved, arrays):
    rewrite(saved, {f"fit.{name}": values for name, values in arrays.items()})
    with pytest.raises(ModelFileError, match=r"factors\.npz is damaged"):
        ReLUMatrixRecovery.load(saved)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("parameters/gauge", "nope"),
        ("parameters/floor_tolerance", -1.0),
        ("feature_names_in", ["a"]),
        ("fit/filling/unit", 0.0),
        ("fit/report/n_components", "3"),
        ("fit/report/noise", 0.5),
    ],
)
def test_files_whose_facts_do_not_fit_together(saved, X, place, value):
    named = pd.DataFrame(X, columns=[f"c{j}" for j in range(30)])
    ReLUMatrixRecovery(3).fit(named).save(saved)
    rewrite(saved, facts={place: value})
    with pytest.raises(ModelFileError, match=r"factors\.npz is damaged"):
        ReLUMatrixRecovery.load(saved)


def test_files_of_methods_that_no_file_can_hold(X, tmp_path):
    """What was recovered is there; what is needed to fit again is not."""

    class Own:
        def recover(self, task):
            return recovery.CensoredALS().recover(task)

    found = ReLUMatrixRecovery(3, Own()).fit(X)
    found.save(tmp_path / "own.npz")
    again = unrelu.load(tmp_path / "own.npz")
    np.testing.assert_array_equal(again.transform(X), found.transform(X))
    with pytest.raises(InvalidParameterError, match="method"):
        again.fit(X)


def test_other_files(saved, tmp_path, fitted):
    with pytest.raises(ModelFileError, match="There is no model file"):
        ReLUMatrixRecovery.load(tmp_path / "nowhere.npz")
    saved.write_bytes(saved.read_bytes()[:500])
    with pytest.raises(ModelFileError, match="is not an unrelu model file, or is damaged"):
        ReLUMatrixRecovery.load(saved)
    fitted.save(saved)
    rewrite(saved, facts={"format": "unrelu.Something"})
    with pytest.raises(ModelFileError, match="is not an unrelu model file"):
        ReLUMatrixRecovery.load(saved)
    fitted.save(saved)
    rewrite(saved, facts={"format_version": 99})
    with pytest.raises(ModelFileError, match="written by a newer unrelu"):
        ReLUMatrixRecovery.load(saved)
    rewrite(saved, facts={"format_version": 1})
    with pytest.raises(ModelFileError, match="is from before the first release"):
        ReLUMatrixRecovery.load(saved)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [30, 200, 1000])
def test_ranks_that_any_table_has(X, rank):
    with pytest.raises(
        InvalidParameterError, match=f"n_components={rank} is not below both n_samples = 200 and n_features = 30"
    ):
        ReLUMatrixRecovery(rank).fit(X)


@pytest.mark.parametrize("rank", [0, -2])
def test_ranks_below_one(X, rank):
    with pytest.raises(InvalidParameterError, match=f"n_components must be at least 1, got {rank}"):
        ReLUMatrixRecovery(rank).fit(X)


@pytest.mark.parametrize("rank", [2.0, 2.5, "two", None, True, np.nan])
def test_ranks_that_are_no_numbers(X, rank):
    with pytest.raises(InvalidParameterError, match="n_components must be a whole number or 'auto', got"):
        ReLUMatrixRecovery(rank).fit(X)


@pytest.mark.parametrize("tol", [0.0, -1e-3, np.nan, np.inf, "small", None])
def test_bad_tolerances(X, tol):
    with pytest.raises(InvalidParameterError, match="tol must be a finite number above 0"):
        ReLUMatrixRecovery(3, tol=tol).fit(X)


@pytest.mark.parametrize("most", [0, -1, 2.5, "many", None])
def test_bad_numbers_of_iterations(X, most):
    with pytest.raises(InvalidParameterError, match="max_iter must be a whole number of at least 1"):
        ReLUMatrixRecovery(3, max_iter=most).fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gauge": "centred"}, r"Unknown gauge 'centred'\. Did you mean 'centered'\?"),
        ({"gauge": None}, "Unknown gauge None"),
        ({"method": "censored"}, r"Unknown method 'censored'\. Did you mean 'censored_als'\?"),
        ({"method": 3}, "method must be a name or an object of unrelu.recovery, got 3"),
        ({"method": "likelihood"}, "needs the bias's density"),
        ({"floor": np.nan}, "floor of column 0 must be a number"),
        ({"floor": [1.0, 2.0]}, r"30 columns, floor has shape \(2,\)"),
        ({"floor_tolerance": -1.0}, "floor_tolerance must be a number of 0 or more"),
        ({"n_components": "auto", "random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_parameters(X, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        ReLUMatrixRecovery(**{"n_components": 3, **options}).fit(X)


@pytest.mark.parametrize(
    ("value", "message"), [(-1.0, "(Negative|negative)"), (np.inf, "infinite"), (-np.inf, "(infinite|negative)")]
)
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_bad_values(X, fitted, value, message, kind):
    bad = X.copy()
    bad[5, 8] = value
    with pytest.raises(InvalidDataError, match=message) as caught:
        ReLUMatrixRecovery(3).fit(kind(bad))
    assert "column 8" in str(caught.value)
    assert "row 5" in str(caught.value)
    with pytest.raises(InvalidDataError, match=message):
        fitted.transform(kind(bad))
    with pytest.raises(InvalidDataError, match=message):
        fitted.score(kind(bad))


def test_huge_values_of_sparse_tables(X):
    with pytest.raises(InvalidDataError, match="beyond 1e\\+140"):
        ReLUMatrixRecovery(3).fit(scipy.sparse.csr_array(X * 1e200))


def test_sparse_tables_need_a_floor_of_zero(X):
    with pytest.raises(InvalidParameterError, match="A sparse table needs floor=0"):
        ReLUMatrixRecovery(3, floor=-1.0).fit(scipy.sparse.csr_array(X))


@pytest.mark.parametrize("table", [np.zeros((30, 8)), np.full((30, 8), np.nan), np.eye(30)])
def test_tables_with_too_few_values(table):
    with pytest.raises(
        InvalidDataError, match=r"Too few values above the floor for n_components=2: .* Lower n_components"
    ):
        ReLUMatrixRecovery(2).fit(table)
    with pytest.raises(InvalidDataError, match="too few values above the floor"):
        ReLUMatrixRecovery().fit(table)


def test_a_column_that_was_never_observed(T):
    X = np.maximum(T, 0.0)
    X[:, 4] = np.nan
    with warns("weak-columns", match="column 4"):
        found = ReLUMatrixRecovery(3).fit(X)
    np.testing.assert_allclose(np.delete(found.hidden(), 4, axis=1), np.delete(T, 4, axis=1), atol=1e-8)
    assert np.isinf(found.column_condition_[4])
    with warns("weak-columns", match="column 4"):
        found = ReLUMatrixRecovery(3, "tobit_em").fit(X)
    assert np.isinf(found.components_stderr_[:, 4]).all()


def test_latent_vectors_of_another_rank(fitted):
    for wrong in (np.zeros((5, 2)), np.zeros(3), np.zeros((1, 1, 3))):
        with pytest.raises(InvalidDataError, match="Latent vectors have 3 columns; got an array of shape"):
            fitted.inverse_transform(wrong)


def test_before_fit_and_after_a_failed_one(X):
    found = ReLUMatrixRecovery(3)
    for use in (found.hidden, lambda: found.column_space_, lambda: found.transform(X), lambda: found.save("x.npz")):
        with pytest.raises(NotFittedError):
            use()
    found.fit(X)
    with pytest.raises(InvalidDataError):
        found.fit(np.zeros((20, 30)))
    with pytest.raises(NotFittedError):
        found.transform(X)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_transform_of_huge_numbers(X, fitted):
    found = ReLUMatrixRecovery(3).fit(X * 1e30)
    np.testing.assert_allclose(found.transform(X * 1e30), fitted.transform(X), atol=1e-6)


def test_a_dominating_column_does_not_cost_the_others_their_digits(X, T):
    scale = np.where(np.arange(30) == 3, 1e6, 1.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", about("weak-rows"))
        found = ReLUMatrixRecovery(3).fit(X * scale)
    np.testing.assert_allclose(found.hidden() / scale, T, atol=1e-8)


@pytest.mark.parametrize("method", ["censored_als", "tobit_em"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_hidden_never_puts_a_floored_cell_above_its_floor(method, kind, tmp_path):
    rng = np.random.default_rng(3)
    T = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 12)) + 0.2
    X = np.maximum(T + 0.4 * rng.standard_normal(T.shape), 0.0)
    table = scipy.sparse.csr_array(X) if kind == "sparse" else X
    recovery = ReLUMatrixRecovery(2, method).fit(table)
    free, floored = recovery.latent_ @ recovery.components_ + recovery.bias_, X == 0.0
    assert (free[floored] > 0.0).any()  # else the bound below would do nothing
    np.testing.assert_allclose(recovery.hidden(), np.where(floored, np.minimum(free, 0.0), free), atol=1e-12)
    np.testing.assert_array_equal(recovery.hidden_rows(40, 90), recovery.hidden()[40:90])
    assert (recovery.hidden(table[:20])[floored[:20]] <= 0.0).all()
    recovery.save(tmp_path / "r.unrelu")
    np.testing.assert_array_equal(unrelu.load(tmp_path / "r.unrelu").hidden(), recovery.hidden())
