"""Whatever the table: a finite answer or an error with a name, never a warning from below, never a silent NaN.

A NaN is only where the documentation has one: standard errors of constant columns, residuals of missing cells, weights
that a layer's outputs do not determine.
"""

import warnings

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import unrelu
from tests.warned import kinds_of
from unrelu.errors import RecoveryWarning, UnreluError, UnreluWarning

# --- tables ---------------------------------------------------------------------------------------

UNITS = [1.0, 1.0, 1.0, 1e-8, 1e8]
FAR_UNITS = [*UNITS, 1e-200, 1e-150, 1e-100, 1e100, 1e150, 1e200]


@st.composite
def columns(draw, n):
    """Counts, measurements, few distinct values, one value, values of all sizes, or hardly any value at all."""
    kind = draw(st.sampled_from(["counts", "measured", "ties", "constant", "sizes", "rare"]))
    if kind == "constant":
        return np.full(n, draw(st.sampled_from([0.0, 1.0, 3.0])))
    if kind == "rare":
        return np.where(np.arange(n) == draw(st.integers(0, n - 1)), 1.0, 0.0)
    cells = {
        "counts": st.integers(0, 4),
        "measured": st.floats(0.0, 4.0, width=16),
        "ties": st.sampled_from([0.0, 0.5, 1.25]),
        "sizes": st.sampled_from([0.0, 1e-8, 1e-3, 1.0, 1e3, 1e8]),
    }[kind]
    return np.array(draw(st.lists(cells, min_size=n, max_size=n)), dtype=float)


@st.composite
def products(draw, n, d):
    """What one unit makes of small numbers: rows and columns of zeros, ties, and a rank of one but for a mean."""
    whole = st.integers(-1, 3)
    rows, loadings = (np.array(draw(st.lists(whole, min_size=size, max_size=size))) for size in (n, d))
    mean = np.array(draw(st.lists(whole, min_size=d, max_size=d))) if draw(st.booleans()) else 0.0
    return np.maximum(np.outer(rows, loadings) + mean, 0.0)


SHAPES = st.one_of(
    st.tuples(st.integers(1, 12), st.integers(1, 5)),
    st.tuples(st.integers(3, 10), st.just(1)),
    st.tuples(st.integers(8, 14), st.integers(4, 6)),
)


@st.composite
def tables(draw, units):
    """Few rows and columns, each of its kind, or products; perhaps a column twice, a row twice, cells missing."""
    n, d = draw(SHAPES)
    unit = draw(st.sampled_from(units))
    if draw(st.sampled_from([True, True, False])):
        x = np.column_stack([draw(columns(n)) for _ in range(d)]) * unit
    else:
        x = draw(products(n, d)) * unit
    change = draw(st.sampled_from(["none", "none", "unit", "column twice", "row twice", "missing", "negative"]))
    i, j = draw(st.integers(0, n - 1)), draw(st.integers(0, d - 1))
    if change == "unit":
        with np.errstate(all="ignore"):  # infinite values are a kind, too
            x[:, j] *= draw(st.sampled_from(units))
    elif change == "column twice":
        x[:, 0] = 2.0 * x[:, j]
    elif change == "row twice":
        x[i] = x[0]
    elif change == "missing":
        x[draw(st.lists(st.booleans(), min_size=n, max_size=n)), j] = np.nan
    elif change == "negative":
        x[i, j] = -unit
    return x


# --- what is learned from them --------------------------------------------------------------------


def learner(method, margins="normal"):
    def learn(x):
        fit = unrelu.RectifiedGaussianLearner(method, margins=margins).fit(x)
        answer = {
            "mean": fit.mean_,
            "covariance": fit.covariance_,
            "correlation": fit.correlation_,
            "stds": fit.std_,
            "sample": fit.distribution_.sample(2, random_state=0),
        }
        if margins != "normal":
            answer["scores"] = fit.score_samples(x)
            summary = fit.distribution_.column_summary()
            answer["summary"] = [[row["mean"], row["median"], row["share_floored"]] for row in summary]
        if method in ("one_pass", "robust"):  # the others give no standard errors
            varying = fit.std_ > 0.0  # the correlations of a constant are undefined
            answer |= {"mean error": fit.mean_stderr_, "norm error": fit.std_stderr_}
            answer["correlation error"] = fit.correlation_stderr_[np.ix_(varying, varying)]
        if method == "robust":
            answer["weights"] = fit.row_weights_
        return answer

    return learn


def detector(method, margins="normal"):
    def detect(x):
        fit = unrelu.FloorOutlierDetector(method, margins=margins).fit(x)
        constant = fit.distribution_.std == 0.0
        residuals = fit.cell_residuals(x)
        return {
            "offset": fit.offset_,
            "scores": fit.score_samples(x),
            "p-values": fit.p_values(x),
            "residuals": residuals[~(np.isnan(x) | constant)],
        }

    return detect


def mixture(groups):
    def learn(x):
        fit = unrelu.RectifiedGaussianMixture(groups, n_init=1, random_state=0).fit(x)
        return {
            "weights": fit.weights_,
            "means": fit.means_,
            "covariances": fit.covariances_,
            "scores": fit.score_samples(x),
            "probabilities": fit.predict_proba(x),
        }

    return learn


def matrix(rank, method):
    def recover(x):
        fit = unrelu.ReLUMatrixRecovery(rank, method, max_iter=100).fit(x)
        answer = {"components": fit.components_, "bias": fit.bias_, "latent": fit.latent_, "hidden": fit.hidden()}
        return answer | {"transformed": fit.transform(x), "score": fit.score(x)}

    return recover


def latent(method, prior=None):
    """Rows as corrupted outputs of a layer of one or two inputs."""

    def recover(x):
        d = x.shape[1]
        rng = np.random.default_rng(d)
        weights, mean = rng.standard_normal((d, min(d, 2))), rng.standard_normal(d)
        fit = unrelu.ReLULatentRecovery(weights, mean, method, prior=prior)
        return {"latent": fit.transform(x), "clean": fit.denoise(x)}

    return recover


def latent_of_layer(method, prior=None):
    """The table as the weights of the layer."""

    def recover(x):
        return {"latent": unrelu.ReLULatentRecovery(x, x[:, 0], method, prior=prior).transform(x.sum(axis=1)[None])}

    return recover


def two_layers(units, method="facets"):
    def learn(x):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("always", RecoveryWarning)
            fit = unrelu.TwoLayerReLULearner(units, method).fit(x)
        if "units-not-found" in kinds_of(heard):
            return {}  # the weights are NaN then, as documented
        return {"weights": fit.output_weights_, "hidden": fit.transform(x)}

    return learn


def peel(width):
    def learn(x):
        peeled = unrelu.peel(x, [width])
        layer = peeled.layers[0]
        known = layer.column_identifiable
        return {"weights": layer.weights[known], "mean": layer.bias[known], "hidden": peeled.hidden}

    return learn


# --- the distribution --------------------------------------------------------------------------------------


def raised_on_purpose(error):
    """By us, or by scikit-learn's checks of its input; numpy's errors are ValueErrors, too, and nobody meant them."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return isinstance(error, UnreluError) or trace.tb_frame.f_globals["__name__"].startswith("sklearn.")


def obey(task, x):
    """Answer in finite numbers, or refuse in words."""
    given_ = x.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for kind in (UnreluWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", kind)
        try:
            answer = task(x)
        except ValueError as error:
            if raised_on_purpose(error) and len(str(error)) > 20:
                return "refused"
            raise
    np.testing.assert_array_equal(x, given_)
    silent = [name for name, values in answer.items() if not np.isfinite(values).all()]
    assert silent == []
    return "answered"


METHODS = ["one_pass", "robust", "sgd", "filtered_gradient", "median"]
TASKS = {
    **{f"learner, {method}": learner(method) for method in METHODS},
    "learner, auto": learner("one_pass", "auto"),
    "learner, free": learner("one_pass", "monotone"),
    "detector, free": detector("one_pass", "monotone"),
    "detector, robust": detector("robust"),
    "detector, one pass": detector("one_pass"),
    "mixture of 1": mixture(1),
    "mixture of 2": mixture(2),
    "matrix of rank 1": matrix(1, "censored_als"),
    "matrix of rank 2": matrix(2, "censored_als"),
    "matrix of any rank": matrix("auto", "censored_als"),
    "matrix and noise": matrix(1, "tobit_em"),
    "latent": latent("robust"),
    "latent, gaussian": latent("robust", "gaussian"),
    "latent, nonnegative": latent("robust", "nonnegative"),
    "latent, lasso": latent("lasso"),
    "layer": latent_of_layer("robust"),
    "layer, gaussian": latent_of_layer("robust", "gaussian"),
    "layer, lasso": latent_of_layer("lasso"),
    "two layers of 1": two_layers(1),
    "two layers of any width": two_layers("auto"),
    "two layers, separable": two_layers(1, "separable"),
    "peel 1": peel(1),
    "peel any width": peel("auto"),
}
ONE_COLUMN = np.array([[0.3], [1.2], [2.5], [0.7], [1.9]])


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("learner, one_pass", [[0.4, 1e-201], [1.5, 1.3e-200], [1.2, 1.3e-200]]),
        ("learner, one_pass", [[1e103, 1.2e100], [1e108, 3.5e100], [1e92, 1.3e100], [0.0, 2e100], [0.0, 9.7e99]]),
        ("learner, free", [[1e-147], [1e-147], [1e-158], [1e-142], [0.0]]),
        ("mixture of 1", [[0.4, 1e-201], [1.5, 1.3e-200], [1.2, 1.3e-200]]),
        ("learner, robust", [[2e100], [1e100], [3e100], [4e100], [2e100], [1e100]]),
        ("two layers of any width", [[0.0, 2.0, 0.0], [0.0, 2.0, 0.0]]),
        (
            "two layers of 1",
            [[3e8, 0.0, 3e8, 0.0], [3e8, 0.0, 3e8, 0.0], [3e8, 1e8, 3e8, 0.0], *[[3e8, 0.0, 3e8, 0.0]] * 5],
        ),
        ("latent, gaussian", [[1.25e-200]]),
        ("latent, lasso", [[0.0, 1e200]]),
        ("layer", [[1.25e-200]]),
        ("layer", [[1e200], [0.0], [-1e200]]),
    ],
)
def test_tables_that_were_found(name, x):
    """Each has once led to a warning from below, or to a silent mistake."""
    obey(TASKS[name], np.array(x))


# Without shrinking, as the tables are small.
few = settings(derandomize=True, deadline=None, max_examples=7, phases=[Phase.explicit, Phase.generate])
many = settings(few, max_examples=200)


@pytest.mark.parametrize("name", TASKS)
@few
@given(x=tables(UNITS))
@example(ONE_COLUMN[:3])
@example(ONE_COLUMN)
@example(np.outer([1.0, 2.0, 2.0, 2.0, 1.0], [1.0, 2.0, 3.0, 0.0, 3.0]))
def test_an_answer_or_a_reason(name, x):
    obey(TASKS[name], x)


@pytest.mark.parametrize("name", TASKS)
@few
@given(x=tables(FAR_UNITS))
def test_values_near_the_ends_of_double_precision(name, x):
    obey(TASKS[name], x)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
@many
@given(x=tables(UNITS))
def test_an_answer_or_a_reason_many_times(name, x):
    obey(TASKS[name], x)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
@many
@given(x=tables(FAR_UNITS))
def test_values_near_the_ends_of_double_precision_many_times(name, x):
    obey(TASKS[name], x)


@pytest.mark.parametrize("name", TASKS)
def test_tables_that_fit_are_answered(name):
    """Or the distributions above would hold for an estimator that refuses everything."""
    rng = np.random.default_rng(3)
    if name.startswith("layer"):
        assert obey(TASKS[name], np.abs(rng.standard_normal((30, 2)))) == "answered"
        return
    h = np.maximum(rng.standard_normal((60, 1)) + 0.2, 0.0)
    x = np.maximum(h * [1.0, 2.0, 0.5, 1.5, 0.7] + [0.0, 0.2, 0.4, 0.1, 0.3], 0.0)
    assert obey(TASKS[name], x) == "answered"
