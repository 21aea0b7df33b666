"""recover_latent, ReLULatentRecovery and denoise: batches, floors, models, memory, and every bad input."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import unrelu
from tests.archives import rewrite
from tests.references import latent as reference
from tests.warned import warns
from unrelu import ReLULatentRecovery, denoise, recover_latent
from unrelu.errors import InvalidDataError, InvalidParameterError, ModelFileError, about
from unrelu.recovery import GaussianPrior, LatentLasso, RobustLatent
from unrelu.tables import ArraySamples

METHODS = pytest.mark.parametrize("method", ["robust", "lasso"])


def table(seed=0, n=6, d=60, k=3, noise=0.02, share=0.2):
    """(A, b, C, X, V): outputs X of latent vectors C, and V with outliers and noise."""
    rng = np.random.default_rng(seed)
    A, b, C = rng.standard_normal((d, k)), rng.standard_normal(d), rng.standard_normal((n, k))
    X = np.maximum(C @ A.T + b, 0.0)
    V = X + noise * rng.standard_normal(X.shape)
    return A, b, C, X, np.where(rng.random(X.shape) < share, 9.0, V)


@METHODS
def test_a_batch_is_its_rows(method):
    A, b, _, _, V = table()
    V[2, :9] = np.nan
    recovery = ReLULatentRecovery(A, b, method)
    together, results, rows = recovery.transform(V), recovery.recover(V), recovery.recover_rows(V)
    for i, v in enumerate(V):
        alone = recover_latent(A, b, v, method)
        assert np.array_equal(alone.latent, together[i])
        assert np.array_equal(alone.inliers, results[i].inliers)
        assert np.array_equal(~alone.inliers & ~np.isnan(v), rows.flagged[i])
        assert np.array_equal(alone.covariance, results[i].covariance)
    assert np.array_equal(recovery.transform(V), together)
    assert np.array_equal(recovery.transform(V[::-1])[::-1], together)


def test_latent_vectors_and_clean_outputs():
    A, b, C, X, V = table()
    recovery = ReLULatentRecovery(A, b).fit()
    assert np.abs(recovery.transform(V) - C).max() < 0.05
    assert np.abs(recovery.denoise(V) - X).max() < 0.1
    assert np.allclose(recovery.inverse_transform(C), X)
    outliers = recovery.recover_rows(V).flagged
    assert outliers[np.abs(V - X) > 1.0].all()
    assert outliers[np.abs(V - X) < 0.04].mean() < 0.01


@pytest.mark.parametrize("floor", [1.5, -2.0, "each"])
def test_other_floors(floor):
    A, b, C, X, V = table(noise=0.0)
    floor = np.linspace(-1.0, 1.0, 60) if floor == "each" else floor
    recovery = ReLULatentRecovery(A, b + floor, floor=floor)
    assert np.abs(recovery.transform(V + floor) - C).max() < 1e-6
    assert np.abs(recovery.denoise(V + floor) - (X + floor)).max() < 1e-6
    assert np.allclose(recovery.inverse_transform(C), X + floor)
    assert np.abs(recover_latent(A, b + floor, (V + floor)[0], floor=floor).latent - C[0]).max() < 1e-6


def test_clean_signals_stand_on_their_floor():
    A, b, _, X, V = table(noise=0.0)
    result = recover_latent(A, b + 1.5, V[0] + 1.5, floor=1.5)
    assert np.abs(result.clean - (X[0] + 1.5)).max() < 1e-6
    assert np.abs(result.clean + result.outliers - (V[0] + 1.5)).max() < 1e-6


def test_from_a_rectified_gaussian():
    rng = np.random.default_rng(1)
    W, bias = rng.standard_normal((30, 3)), 0.5 + 0.2 * rng.standard_normal(30)
    model = unrelu.RectifiedGaussian.from_weights(W, bias)
    X = np.maximum(rng.standard_normal((5, 3)) @ W.T + bias, 0.0)
    V = X.copy()
    V[:, :5] = 7.0
    recovery = ReLULatentRecovery.from_model(model, n_components=3)
    assert recovery.weights.shape == (30, 3)
    assert np.abs(recovery.denoise(V) - X).max() < 0.01
    assert np.abs(denoise(model, V, n_components=3) - X).max() < 0.01
    V[:, :5] = np.nan
    assert np.abs(denoise(model, V, n_components=3) - X).max() < 0.01


def test_from_a_fitted_learner():
    rng = np.random.default_rng(2)
    W, bias = rng.standard_normal((20, 2)), 0.5 + 0.2 * rng.standard_normal(20)
    X = np.maximum(rng.standard_normal((4000, 2)) @ W.T + bias, 0.0)
    learner = unrelu.RectifiedGaussianLearner().fit(X)
    V = X[:20].copy()
    V[:, :3] = 9.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", about("ambiguous-optimum"))
        repaired = denoise(learner, V, n_components=2)
    assert ReLULatentRecovery.from_model(learner, n_components=2).weights.shape == (20, 2)
    assert np.median(np.abs(repaired - X[:20])) < 0.05
    assert np.median(np.abs(repaired - X[:20])[:, :3]) < 0.15


@pytest.mark.parametrize("floor", [0.0, 1.5])
def test_memory_of_a_matrix(floor):
    rng = np.random.default_rng(3)
    A, b = rng.standard_normal((3, 40)), 0.3 * rng.standard_normal(40)
    X = np.maximum(rng.standard_normal((200, 3)) @ A + b, 0.0) + floor
    memory = unrelu.ReLUMatrixRecovery(3, floor=floor).fit(X[:190])
    V = np.where(rng.random((10, 40)) < 0.2, 8.0, X[190:])
    V[0, :8] = np.nan
    assert np.abs(denoise(memory, V) - X[190:]).max() < 0.01
    recovery = ReLULatentRecovery.from_model(memory)
    assert np.allclose(recovery.inverse_transform(recovery.transform(V)), recovery.denoise(V))


def test_doubtful_rows_are_named():
    rng = np.random.default_rng(0)
    A, b, c = rng.standard_normal((40, 3)), rng.standard_normal(40), np.array([0.6, -0.4, -0.7])
    v = np.concatenate([np.maximum(A @ c + b, 0.0), np.maximum(b - A @ c, 0.0)]) + 0.02 * rng.standard_normal(80)
    sure = np.tile(np.maximum(A @ c + b, 0.0), 2)
    recovery = ReLULatentRecovery(np.vstack([A, A]), np.tile(b, 2))
    with warns("ambiguous-optimum", match=r" row 1 \(the first is 0\) ") as caught:
        results = recovery.recover(np.stack([sure, v, sure]))
    assert caught[0].filename == __file__
    assert [result.unambiguous for result in results] == [True, False, True]
    assert results[1].rival is not None


def test_scikit_learn_manners():
    A, b, C, _, V = table()
    recovery = ReLULatentRecovery(A, b, RobustLatent(GaussianPrior(2.0)), random_state=3)
    again = pickle.loads(pickle.dumps(clone(recovery)))
    assert np.array_equal(again.fit_transform(V), recovery.transform(V))
    assert np.array_equal(recovery.transform(pd.DataFrame(V)), recovery.transform(V))
    assert np.array_equal(recovery.transform(V.tolist()), recovery.transform(V))
    before = V.copy()
    recovery.denoise(V)
    assert np.array_equal(V, before)
    assert np.abs(ReLULatentRecovery(A, b, random_state=np.random.default_rng(0)).transform(V) - C).max() < 0.05


@METHODS
def test_nothing_but_fit_changes_it(method):
    A, b, C, _, V = table()
    frame = pd.DataFrame(V, columns=[f"c{j}" for j in range(60)])
    for recovery in (ReLULatentRecovery(A, b, method), ReLULatentRecovery(A, b, method).fit(frame)):
        columns = vars(recovery).get("_columns")  # a frozen record: the same one afterwards
        before = {name: copy.deepcopy(value) for name, value in vars(recovery).items() if name != "_columns"}
        for use in (recovery.transform, recovery.denoise, recovery.recover, recovery.recover_rows):
            use(frame)
            use(ArraySamples(V))
        recovery.inverse_transform(C)
        after = {name: value for name, value in vars(recovery).items() if name != "_columns"}
        assert after.keys() == before.keys()
        assert vars(recovery).get("_columns") is columns
        for name, value in after.items():
            np.testing.assert_equal(value, before[name])


def test_a_layer_that_is_not_given_is_learned():
    rng = np.random.default_rng(4)
    A, b = rng.standard_normal((40, 3)), 0.3 * rng.standard_normal(40) + 1.0
    X = np.maximum(rng.standard_normal((300, 3)) @ A.T + b, 1.0)
    V = np.where(rng.random((10, 40)) < 0.2, 8.0, X[290:])
    recovery = ReLULatentRecovery(n_components=3, floor=1.0, prior="gaussian")
    with pytest.raises(NotFittedError):
        recovery.transform(V)
    recovery.fit(pd.DataFrame(X[:290], columns=[f"c{j}" for j in range(40)]))
    matrix = unrelu.ReLUMatrixRecovery(3, floor=1.0).fit(X[:290])
    np.testing.assert_allclose(recovery.weights_, matrix.components_.T, atol=1e-9)
    np.testing.assert_allclose(recovery.bias_, matrix.bias_, atol=1e-9)
    assert recovery.weights is None
    assert recovery.feature_names_in_[1] == "c1"
    np.testing.assert_allclose(recovery.denoise(V), denoise(matrix, V), atol=1e-6)
    assert np.abs(recovery.denoise(V) - X[290:]).max() < 0.01
    assert ReLULatentRecovery(floor=1.0).fit(X[:290]).weights_.shape == (40, 3)


def test_a_learned_layer_is_saved(tmp_path):
    _, _, _, X, V = table(n=100, noise=0.0)
    recovery = ReLULatentRecovery(n_components=3).fit(X)
    recovery.save(tmp_path / "layer.npz")
    again = unrelu.load(tmp_path / "layer.npz")
    np.testing.assert_array_equal(again.transform(V), recovery.transform(V))
    assert again.weights is None


# --- rows that have no answer, reports, files -----------------------------------------------------


@pytest.fixture
def with_bad_rows():
    """Rows 1, 4 and 40 determine nothing, row 5 too little without a prior."""
    A, b, _, _, V = table(n=70)
    V[1], V[4], V[40] = np.nan, -1.0, np.inf
    V[5] = np.where(np.arange(60) < 2, 5.0, 0.0)
    return A, b, V


@METHODS
def test_bad_rows_are_skipped_where_that_is_wanted(with_bad_rows, method):
    A, b, V = with_bad_rows
    recovery = ReLULatentRecovery(A, b, method)
    with pytest.raises(
        InvalidDataError, match=r"of 70 rows cannot .* Row 1 \(the first is 0\) is missing .* skip_bad_rows=True"
    ):
        recovery.recover(V)
    rows = recovery.recover_rows(V, skip_bad_rows=True)
    report, results = rows.report, rows.results()
    bad = [1, 4, 5, 40] if method == "robust" else [1, 4, 40]
    assert [i for i, result in enumerate(results) if result is None] == bad
    assert [row for row, _ in report.bad_rows] == bad
    reasons = dict(report.bad_rows)
    for row, word in ((1, "missing"), (4, "no positive"), (40, "infinite")):
        assert word in reasons[row]
    assert not report.converged
    good = np.delete(np.arange(70), bad)
    np.testing.assert_array_equal(rows.done, np.isin(np.arange(70), good))
    np.testing.assert_array_equal(recovery.transform(V, skip_bad_rows=True)[good], recovery.transform(V[good]))
    assert np.isnan(recovery.denoise(V, skip_bad_rows=True)[bad]).all()
    assert not rows.flagged[bad].any()


def test_rows_that_turn_out_to_be_undetermined_are_skipped_too(with_bad_rows):
    """Seven rows of the layer are the same row: an output that is seen there alone does not determine three numbers."""
    A, b, V = with_bad_rows
    A[:7], b[:7] = A[0], b[0]
    V = np.delete(V, [1, 4, 5, 40], axis=0)
    V[3, :7], V[3, 7:] = 5.0, np.nan
    recovery = ReLULatentRecovery(A, b)
    with pytest.raises(
        InvalidDataError, match=r"1 of (the first \d+|66) rows cannot .* Row 3 \(the first is 0\) is not determined"
    ):
        recovery.recover(V)
    assert recovery.recover(V, skip_bad_rows=True)[3] is None
    assert recovery.recover_rows(V, skip_bad_rows=True).done.sum() == len(V) - 1


def test_a_table_of_bad_rows_only_is_refused(with_bad_rows):
    A, b, V = with_bad_rows
    with pytest.raises(InvalidDataError, match="2 of 2 rows cannot be recovered"):
        ReLULatentRecovery(A, b).recover(V[[1, 4]], skip_bad_rows=True)


def test_reports():
    A, b, _, _, V = table(n=6)
    V[2, :9] = np.nan
    recovery = ReLULatentRecovery(A, b, prior="gaussian")
    assert recovery.fit().report_.n_rows == 0
    assert (recovery.fit(V).report_.n_rows, recovery.report_.share_missing) == (6, pytest.approx(9 / 360))
    rows = recovery.recover_rows(V)
    report = rows.report
    assert (report.method, report.prior) == ("robust", "gaussian")
    assert (report.n_rows, report.n_features, report.n_components) == (6, 60, 3)
    assert report.share_missing == pytest.approx(9 / 360)
    assert report.share_outliers == pytest.approx(rows.flagged.sum() / 351)
    assert report.share_outliers == pytest.approx(0.2, abs=0.08)
    assert report.noise_scale == pytest.approx(np.median([one.noise_scale for one in rows.results()]))
    assert (report.ambiguous_rows, report.bad_rows, report.converged) == ((), (), True)


def test_whoever_watches_hears_of_the_rows():
    A, b, _, _, V = table(n=70)
    reported = []
    ReLULatentRecovery(A, b).with_progress(reported.append).transform(V)
    assert {(step.stage, step.total) for step in reported} == {("Recovering rows", 70)}
    done = [step.done for step in reported]
    assert (done[0], done[-1]) == (0, 70)
    assert done == sorted(set(done))


def test_rows_read_in_blocks():
    A, b, _, _, V = table()
    recovery = ReLULatentRecovery(A, b)
    np.testing.assert_array_equal(recovery.transform(ArraySamples(V, block_rows=2)), recovery.transform(V))


def test_a_floor_tolerance_makes_small_entries_floored():
    A, b, _, X, _ = table(noise=0.0)
    near = np.where(X == 0.0, 1e-3 * np.where(np.arange(60) % 2, 1.0, -1.0), X)
    tolerant = ReLULatentRecovery(A, b, floor_tolerance=2e-3)
    heights = np.where(np.abs(near) <= 2e-3, 0.0, near)
    np.testing.assert_array_equal(tolerant.transform(near), ReLULatentRecovery(A, b).transform(heights))


@pytest.mark.filterwarnings("ignore::unrelu.errors.RecoveryWarning")
@pytest.mark.parametrize(
    "method", ["robust", "lasso", RobustLatent(GaussianPrior(2.0), 0.1), LatentLasso(intercept=True)]
)
def test_files(tmp_path, with_bad_rows, method):
    A, b, V = with_bad_rows
    recovery = ReLULatentRecovery(A, b, method, floor=0.0)
    latent = recovery.transform(V, skip_bad_rows=True)
    recovery.fit(V[6:]).save(tmp_path / "layer.npz")
    again = unrelu.load(tmp_path / "layer.npz")
    assert again.report_ == recovery.report_
    assert again.method == method
    np.testing.assert_array_equal(again.weights_, A)
    np.testing.assert_array_equal(again.bias_, b)
    np.testing.assert_array_equal(again.transform(V, skip_bad_rows=True), latent)
    ReLULatentRecovery(A, b).save(tmp_path / "layer.npz")
    np.testing.assert_array_equal(ReLULatentRecovery.load(tmp_path / "layer.npz").weights, A)


@pytest.mark.parametrize(
    ("arrays", "facts"),
    [
        ({"parameters.weights": np.ones((60, 2))}, {}),
        ({"parameters.weights": np.full((60, 3), np.nan)}, {}),
        ({"parameters.bias": np.ones(59)}, {}),
        ({"weights": np.ones((60, 2))}, {}),
        ({"weights": np.full((60, 3), np.nan)}, {}),
        ({"bias": np.ones(59)}, {}),
        ({}, {"report/n_rows": "6"}),
        ({}, {"parameters/floor": "low"}),
    ],
)
def test_damaged_files(tmp_path, arrays, facts):
    A, b, _, _, V = table()
    ReLULatentRecovery(A, b).fit(V).save(tmp_path / "layer.npz")
    rewrite(tmp_path / "layer.npz", arrays, facts)
    with pytest.raises(ModelFileError, match=r"layer\.npz is damaged"):
        ReLULatentRecovery.load(tmp_path / "layer.npz")


# --- bad input ------------------------------------------------------------------------------------

A, B, _, _, TABLE = table()


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (InvalidDataError, "60 entries", lambda: recover_latent(A, B, TABLE[0, :-1])),
        (InvalidDataError, "one vector", lambda: recover_latent(A, B, TABLE)),
        (InvalidDataError, "60 entries", lambda: ReLULatentRecovery(A, B).transform(TABLE[0])),
        (InvalidDataError, "v must be an array of numbers", lambda: recover_latent(A, B, ["a"] * 60)),
        (
            InvalidDataError,
            r"Row 1 \(the first is 0\) is missing",
            lambda: ReLULatentRecovery(A, B).transform([TABLE[0], np.full(60, np.nan)]),
        ),
        (
            InvalidDataError,
            r"Row 0 \(the first is 0\) has no positive",
            lambda: ReLULatentRecovery(A, B).transform(-np.ones((2, 60))),
        ),
        (InvalidDataError, "no positive", lambda: recover_latent(A, B, np.ones(60), floor=1.0)),
        (InvalidParameterError, "d x k", lambda: recover_latent(A[:, 0], B, TABLE[0])),
        (InvalidParameterError, "d x k", lambda: recover_latent(A[:, :0], B, TABLE[0])),
        (InvalidParameterError, "one number per row", lambda: recover_latent(A, B[:-1], TABLE[0])),
        (InvalidParameterError, "one number per row", lambda: recover_latent(A, 0.0, TABLE[0])),
        (InvalidParameterError, "give both, or neither", lambda: ReLULatentRecovery(A).fit()),
        (InvalidDataError, "No layer to check", lambda: ReLULatentRecovery().fit()),
        (
            InvalidParameterError,
            "weights must be finite",
            lambda: recover_latent(np.where(A > 2, np.nan, A), B, TABLE[0]),
        ),
        (InvalidParameterError, "bias must be finite", lambda: recover_latent(A, np.full(60, np.inf), TABLE[0])),
        (InvalidParameterError, "floor", lambda: recover_latent(A, B, TABLE[0], floor=np.nan)),
        (InvalidParameterError, "floor", lambda: recover_latent(A, B, TABLE[0], floor=[0.0, 1.0])),
        (InvalidParameterError, "Did you mean 'lasso'", lambda: recover_latent(A, B, TABLE[0], "laso")),
        (InvalidParameterError, "method", lambda: recover_latent(A, B, TABLE[0], None)),
        (InvalidParameterError, "random_state", lambda: recover_latent(A, B, TABLE[0], random_state="x")),
        (InvalidParameterError, "No layer in int", lambda: ReLULatentRecovery.from_model(3)),
        (InvalidParameterError, "fitted", lambda: denoise(unrelu.RectifiedGaussianLearner(), TABLE)),
        (Exception, "not fitted", lambda: denoise(unrelu.ReLUMatrixRecovery(), TABLE)),
        (InvalidParameterError, "Unknown method", lambda: ReLULatentRecovery(A, B, "none").fit()),
    ],
)
def test_bad_input(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_a_table_without_rows():
    with pytest.raises(InvalidDataError, match="60 entries; got an array of shape"):
        ReLULatentRecovery(A, B).transform(np.empty((0, 60)))


@pytest.mark.parametrize("method", [RobustLatent(), LatentLasso()])
def test_a_prior_beside_a_method_object(method):
    with pytest.raises(InvalidParameterError, match="prior"):
        recover_latent(A, B, TABLE[0], method, prior="gaussian")


def test_a_class_is_no_method():
    with pytest.raises(InvalidParameterError, match="method"):
        recover_latent(A, B, TABLE[0], RobustLatent)


def test_fit_checks_the_layer():
    with pytest.raises(InvalidParameterError, match="rank"):
        ReLULatentRecovery(np.ones((5, 3)), np.ones(5)).fit()


def test_inverse_transform_of_wrong_lengths():
    with pytest.raises(InvalidDataError, match="have 3 entries; got shape"):
        ReLULatentRecovery(A, B).inverse_transform(np.ones((2, 5)))


def test_reference_draws_are_not_the_code_under_test():
    A_, b_, c_, v_, bad = reference.draw(np.random.default_rng(0), 50, 2, share=0.2)
    assert bad.sum() == 10
    assert np.array_equal(v_[~bad], np.maximum(A_ @ c_ + b_, 0.0)[~bad])
