"""peel: exact where a layer can be peeled, NaN where outputs are not identified, a reason where it cannot."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

import unrelu
from tests.references import layers as reference
from tests.warned import refuse, warns
from unrelu.errors import CannotPeelError, InvalidDataError, InvalidParameterError
from unrelu.recovery.layers.decoding import LayerReport
from unrelu.tables import ArraySamples


def seeded(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def net():
    """(X, A, b, h) of one layer with 4 units and 30 outputs."""
    X, [(A, b)], h = reference.network(seeded(0), [4, 30], n=600)
    return X, A, b, h


@pytest.fixture(scope="module")
def peeled(net):
    return unrelu.peel(net[0], [4])


def compare(layer, A, b):
    """(errors of weights by output, of biases by output): columns in best order, scaled over outputs identified."""
    identified = layer.column_identifiable
    lengths = np.linalg.norm(A[identified], axis=0)
    order = reference.matched(layer.weights[identified], A[identified])
    return np.abs(layer.weights[:, order] - A / lengths).max(axis=1), np.abs(layer.bias - b), order, lengths


# --- one layer ------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 4, 6])
def test_one_layer_exactly(p):
    X, [(A, b)], h = reference.network(seeded(p), [p, 40], n=800)
    peeled = unrelu.peel(X, [p])
    layer = peeled.layers[0]
    weights, biases, order, lengths = compare(layer, A, b)
    identified = layer.column_identifiable
    # Matrix recovery stops at 1e-11 of T; an output that is on in p + 2 rows may lose some digits more.
    assert weights[identified].max() < 1e-6
    assert biases[identified].max() < 1e-6
    np.testing.assert_allclose(peeled.hidden[:, order], (h * lengths)[~peeled.outlier_rows], atol=1e-5)
    assert layer.report.converged


def test_the_distribution_of_the_units_is_learned(net, peeled):
    _, A, b, h = net
    *_, order, lengths = compare(peeled.layers[0], A, b)
    learner = unrelu.RectifiedGaussianLearner("one_pass", margins="normal")
    expected = learner.fit((h * lengths)[~peeled.outlier_rows]).distribution_
    np.testing.assert_allclose(peeled.hidden_distribution.mean[order], expected.mean, atol=1e-5)
    np.testing.assert_allclose(
        peeled.hidden_distribution.covariance[np.ix_(order, order)], expected.covariance, atol=1e-4
    )


def test_outputs_that_are_not_identified_are_nan(net, peeled):
    X = net[0]
    layer = peeled.layers[0]
    identified = layer.column_identifiable
    assert 20 < np.count_nonzero(identified) < 30
    assert identified[(X > 0.0).mean(axis=0) > 0.2].all()
    assert np.isnan(layer.weights[~identified]).all()
    assert np.isnan(layer.bias[~identified]).all()
    assert np.isfinite(layer.weights[identified]).all()
    np.testing.assert_allclose(
        peeled.output(peeled.hidden)[:, identified], X[~peeled.outlier_rows][:, identified], atol=1e-6
    )


def test_samples_come_from_the_network(net, peeled):
    identified = peeled.layers[0].column_identifiable
    sample = peeled.sample(600, random_state=1)[:, identified]
    X = net[0][:, identified]
    assert sample.shape == X.shape
    assert (sample >= 0.0).all()
    assert (np.abs(sample.mean(axis=0) - X.mean(axis=0)) < 5 * X.std(axis=0) * np.sqrt(2 / 600)).all()
    np.testing.assert_array_equal(peeled.sample(3, 7), peeled.sample(3, 7))


def test_auto_a_seed_and_units_of_measurement(net, peeled):
    layer = peeled.layers[0]
    np.testing.assert_array_equal(unrelu.peel(net[0], [4]).layers[0].weights, layer.weights)
    X, *_ = reference.network(seeded(1), [2, 12], n=300)
    found, given = (unrelu.peel(X, widths).layers[0] for widths in (["auto"], [2]))
    np.testing.assert_allclose(found.weights, given.weights, atol=1e-7)
    for unit in (1e-8, 1e8):
        other = unrelu.peel(net[0] * unit, np.array([4])).layers[0]
        np.testing.assert_allclose(other.weights, layer.weights, atol=1e-7)
        np.testing.assert_allclose(other.bias, unit * layer.bias, rtol=1e-5, atol=1e-7 * unit)


def test_rows_and_columns_of_zeros(net):
    X, A, b, _ = net
    X = X.copy()
    X[:, 3] = 0.0
    X[:7] = 0.0
    peeled = unrelu.peel(X, [4])
    layer = peeled.layers[0]
    assert not layer.column_identifiable[3]
    assert peeled.outlier_rows[:7].all()
    assert not peeled.outlier_rows[7:].any()
    weights, *_ = compare(layer, A, b)
    assert weights[layer.column_identifiable].max() < 1e-6


def test_little_noise_is_reported_and_does_little(net):
    _, A, b, h = net
    noise = 1e-4
    X = np.maximum(h @ A.T + b + noise * seeded(1).standard_normal((len(h), 30)), 0.0)
    layer = unrelu.peel(X, [4]).layers[0]
    # The noise of T is that of x, larger where rows have fewer outputs on: between once and twice.
    assert noise / 2 < layer.report.noise < 2 * noise
    weights, *_ = compare(layer, A, b)
    often = layer.column_identifiable & ((X > 0.0).sum(axis=0) > 100)
    assert np.nanmax(weights[often]) < 20 * noise


# --- floors, kinds of tables, and progress --------------------------------------------------------


@pytest.mark.parametrize("per_column", [False, True])
def test_a_floor_moves_the_biases_and_nothing_else(net, peeled, per_column):
    floor = seeded(5).standard_normal(30) if per_column else -1.5
    moved = unrelu.peel(net[0] + floor, [4], floor=floor)
    before, layer = peeled.layers[0], moved.layers[0]
    np.testing.assert_array_equal(layer.column_identifiable, before.column_identifiable)
    # Adding the floor rounds to 1e-16 of values of about 10; equations amplify that by less than 1e4.
    np.testing.assert_allclose(layer.weights, before.weights, atol=1e-7)
    np.testing.assert_allclose(layer.bias, before.bias + floor, atol=1e-6)
    np.testing.assert_allclose(moved.hidden, peeled.hidden, atol=1e-6)
    identified = layer.column_identifiable
    np.testing.assert_allclose(moved.output(moved.hidden)[:, identified], (net[0] + floor)[:, identified], atol=1e-6)
    np.testing.assert_array_equal(layer.floor, np.full(30, 1.0) * floor)


def test_values_within_the_tolerance_of_the_floor_count_as_floored(net, peeled):
    X = net[0]
    noisy = np.where(X == 0.0, 1e-3 * seeded(6).uniform(-1.0, 1.0, X.shape), X)
    with pytest.raises(InvalidDataError, match="Negative values"):
        unrelu.peel(noisy, [4])
    layer = unrelu.peel(noisy, [4], floor_tolerance=1e-3).layers[0]
    # Values of X below the tolerance are censored; those above are still exact.
    np.testing.assert_allclose(layer.weights, peeled.layers[0].weights, atol=1e-6)
    np.testing.assert_allclose(layer.bias, peeled.layers[0].bias, atol=1e-6)
    with pytest.raises(InvalidParameterError, match="floor_tolerance"):
        unrelu.peel(X, [4], floor_tolerance=-1.0)
    with pytest.raises(InvalidParameterError, match="floor must be"):
        unrelu.peel(X, [4], floor=[0.0, 1.0])


def test_frames_and_rows_read_in_blocks_keep_their_names(net, peeled):
    names = tuple(f"unit {i}" for i in range(30))
    for table in (pd.DataFrame(net[0], columns=list(names)), ArraySamples(net[0], feature_names=names, block_rows=100)):
        found = unrelu.peel(table, [4])
        assert found.feature_names == names
        np.testing.assert_array_equal(found.layers[0].weights, peeled.layers[0].weights)
    assert peeled.feature_names is None
    with pytest.raises(InvalidDataError, match="unit 3"):
        unrelu.peel(pd.DataFrame(net[0] - np.eye(30)[3], columns=list(names)), [4])


def test_someone_hears_of_every_step(net):
    reported = []
    unrelu.peel(net[0], [4], progress=reported.append)
    stages = list(dict.fromkeys(step.stage for step in reported))
    assert stages == [
        "Layer 1: undoing the rectifier",
        "Layer 1: finding units",
        "Learning the distribution of the units",
    ]
    found = [step for step in reported if step.stage == "Layer 1: finding units"]
    assert (found[-1].done, found[-1].total, found[-1].words) == (4, 4, "4 of 4 units found")


def test_who_watches_can_end_the_work(net):
    def stop(step):
        if step.stage == "Layer 1: finding units":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unrelu.peel(net[0], [4], progress=stop)


def test_a_generator_moves_on_and_a_seed_does_not(net, peeled):
    rng = seeded(0)
    unrelu.peel(net[0], [4], random_state=rng)
    assert rng.bit_generator.state != seeded(0).bit_generator.state
    with pytest.raises(InvalidParameterError, match="random_state"):
        unrelu.peel(net[0], [4], random_state="a")
    with pytest.raises(InvalidParameterError, match="Did you mean 'robust'"):
        unrelu.peel(net[0], [4], hidden_method="robst")


# --- refusals -------------------------------------------------------------------------------------


def test_a_unit_without_a_rectifier_cannot_be_peeled(net):
    _, A, b, h = net
    h = np.column_stack([seeded(3).standard_normal(len(h)), h[:, 1:]])
    X = np.maximum(h @ A.T + b, 0.0)
    with pytest.raises(CannotPeelError, match=r"Layer 1: \d of 4 hidden units were found") as refusal:
        unrelu.peel(X, [4])
    assert isinstance(refusal.value, InvalidDataError)
    assert refusal.value.peeled.layers == ()
    assert isinstance(refusal.value.report, LayerReport)
    assert refusal.value.report.units_found == 3
    with pytest.raises(InvalidDataError, match="nothing to sample"):
        refusal.value.peeled.sample(1)


def test_a_second_layer_that_cannot_be_peeled_leaves_the_first(net, peeled):
    with pytest.raises(CannotPeelError, match="Layer 2") as refusal:
        unrelu.peel(net[0], [4, 4])
    first = refusal.value.peeled
    assert len(first.layers) == 1
    np.testing.assert_array_equal(first.layers[0].weights, peeled.layers[0].weights)
    np.testing.assert_array_equal(first.hidden, peeled.hidden)
    np.testing.assert_array_equal(first.output(first.hidden), peeled.output(peeled.hidden))


@pytest.mark.parametrize("widths", [[], (), 4, "auto", "4", [0], [-1], [True], [2.5], ["four"], [None], None, {4}])
def test_widths_that_are_none(net, widths):
    with pytest.raises(InvalidParameterError, match=r"[Ww]idth"):
        unrelu.peel(net[0], widths)


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (-np.ones((50, 5)), "Negative"),
        (np.full((50, 5), np.nan), "NaN"),
        (np.full((50, 5), np.inf), "infinite"),
        (np.ones(5), "table"),
        (np.ones((0, 5)), "table"),
        ([["a", "b"]], "row 0 .*'a'.* hold no numbers"),
        (scipy.sparse.csr_array(np.ones((50, 5))), "table.*[Ss]parse"),
        (np.zeros((100, 8)), "Layer 1: Too few"),
    ],
)
def test_tables_that_are_none(X, match):
    with pytest.raises(InvalidDataError, match=match):
        unrelu.peel(X, [2])


def test_too_few_outputs_and_too_few_rows(net):
    with pytest.raises(CannotPeelError, match="4 hidden units behind 4 outputs"):
        unrelu.peel(net[0][:, :4], [4])
    with pytest.raises(CannotPeelError, match="Layer 1"):
        unrelu.peel(net[0][:15], [4])


def test_a_table_that_no_layer_made_is_refused():
    with pytest.raises(CannotPeelError):
        unrelu.peel(np.maximum(seeded().standard_normal((200, 10)), 0.0), [3])


# --- errors and warnings --------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3])
def test_too_small_a_width_is_refused(net, width):
    with warns("doubtful-units", match="Layer 1: the rectifier could be undone only up to"):
        unrelu.peel(net[0], [width])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
def test_outlier_rows_are_refused(net):
    X = net[0].copy()
    X[::20] = 5.0 * np.abs(seeded(1).standard_normal((30, 30)))
    with pytest.raises(CannotPeelError, match="Layer 1: 1 of 4 hidden units were found"):
        unrelu.peel(X, [4])


def test_too_large_a_width_is_refused():
    X, *_ = reference.network(seeded(0), [2, 15], n=200)
    with pytest.raises(CannotPeelError, match="fewer than the 3 hidden units"):
        unrelu.peel(X, [3])


def test_a_constant_table_is_refused():
    with pytest.raises(CannotPeelError):
        unrelu.peel(np.ones((100, 8)), [2])


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_units_beyond_squares_are_refused(net, unit):
    with pytest.raises(CannotPeelError, match="leave the range of squares: rescale the table"):
        unrelu.peel(net[0] * unit, [4])


def test_units_unlike_rectified_gaussians_are_named(net):
    _, A, b, _ = net
    h = np.maximum(seeded(1).standard_t(1.5, (1000, 4)) + 0.3, 0.0)
    with warns("doubtful-units", match="Layer 1: hidden units 0, 1, 2, 3 do not look like"):
        unrelu.peel(np.maximum(h @ A.T + b, 0.0), [4])


# --- noise and single precision -------------------------------------------------------------------


def test_outputs_that_noise_hides_are_nan(net):
    _, A, b, h = net
    X = np.maximum(h @ A.T + b + 0.01 * seeded(1).standard_normal((len(h), 30)), 0.0)
    layer = unrelu.peel(X, [4]).layers[0]
    weights, *_ = compare(layer, A, b)
    assert np.nanmax(weights) < 0.1


def test_single_precision():
    X, *_ = reference.network(seeded(0), [4, 30], n=1000)
    assert unrelu.peel(X.astype(np.float32), [4]).layers[0].report.converged


def test_as_many_inputs_as_units_are_seen(peeled):
    assert not peeled.layers[0].report.thin


@pytest.mark.slow
def test_outer_layers_come_with_a_warning(net):
    with (
        warns("doubtful-units", match="Layer 1: it has more units than inputs"),
        pytest.raises(CannotPeelError, match="Layer 2") as refusal,
    ):
        unrelu.peel(net[0], [4, 2])
    assert len(refusal.value.peeled.layers) == 1


def test_a_single_layer_comes_without_one(net):
    with warnings.catch_warnings():
        refuse("doubtful-units")
        assert unrelu.peel(net[0], [4]).layers[0].report.converged


def test_the_walk_of_peel_is_short():
    """Peeling loads neither estimators other than the base nor what only other work needs."""
    code = """
import sys
import numpy as np
import unrelu
rng = np.random.default_rng(0)
h = np.maximum(rng.standard_normal((500, 2)), 0.0)
unrelu.peel(np.maximum(h @ rng.standard_normal((2, 12)) + 0.3, 0.0), [2])
print(*(name for name, module in sys.modules.items() if name.startswith("unrelu.") and not hasattr(module, "__path__")))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "unrelu.estimators.learner" not in loaded
    assert not [name for name in loaded if "experimental" in name]
    assert len(loaded) <= 68, sorted(loaded)


@pytest.mark.parametrize("name", ["one_pass", "auto", "full_likelihood", "robust"])
def test_the_distribution_of_the_innermost_units_is_that_of_the_method(name):
    rng = np.random.default_rng(3)
    hidden = np.maximum(rng.standard_normal((1000, 3)) @ rng.standard_normal((3, 3)) + 0.2, 0.0)
    peeled = unrelu.peel(np.maximum(hidden @ rng.standard_normal((3, 12)) + 0.5, 0.0), [3], hidden_method=name)
    floor = peeled.layers[0].report.noise  # below it a unit is off
    method = "one_pass" if name == "auto" else name  # units are in memory, and take one pass
    learner = unrelu.RectifiedGaussianLearner(method, floor=0.0, margins="normal", floor_tolerance=10.0 * floor)
    learner.fit(peeled.hidden)
    assert_allclose(peeled.hidden_distribution.mean, learner.mean_, atol=1e-4)
    assert_allclose(peeled.hidden_distribution.covariance, learner.covariance_, atol=1e-4)
