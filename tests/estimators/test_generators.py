"""Networks that widen, recovered down to their inputs: models that draw, invert and are saved; and what is refused."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import unrelu
from tests.references import generators as reference
from tests.references import layers
from tests.warned import warns
from unrelu import TwoLayerReLULearner
from unrelu.errors import CannotPeelError, InvalidDataError, InvalidParameterError, about
from unrelu.recovery.layers.peeling import with_inputs

FEW_ON = "rows have too few units on to determine their 3 inputs"


def seeded(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def net():
    """48 <- 8 <- 3, 900 rows; 46 of them do not determine their inputs."""
    return reference.draw(3, 48, 8, 3, 900)


@pytest.fixture(scope="module")
def peeled(net):
    with warns("doubtful-inputs", match=f"46 of 900 {FEW_ON}") as heard:
        found = unrelu.peel(net.X, [8], n_inputs=3)
    assert len(heard) == 1
    return found


@pytest.fixture(scope="module")
def fresh(net):
    """Other rows of the same network."""
    return replace(net, z=seeded(77).standard_normal((300, 3)))


def with_bias(net, unit, bias):
    b1 = net.b1.copy()
    b1[unit] = bias
    return replace(net, b1=b1)


def worst_sine(X, net):
    """Of a column that was found; 0 where the table is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = unrelu.peel(X, [8], n_inputs=3).layers[0]
        except CannotPeelError:
            return 0.0
    known = found.column_identifiable
    return reference.sines(found.weights[known], net.A2[known])[0].max()


# --- the whole network ----------------------------------------------------------------------------


def test_the_network_is_found(net, peeled):
    layer, inner = peeled.layers[0], peeled.inner
    known = layer.column_identifiable
    wrong, order = reference.sines(layer.weights[known], net.A2[known])
    assert wrong.max() < 1e-6
    lengths = np.linalg.norm(net.A2[known], axis=0)
    np.testing.assert_allclose(layer.bias[known], net.b2[known], atol=1e-6)
    np.testing.assert_allclose(peeled.hidden[:, order], net.h * lengths, atol=1e-6)
    seen = np.isfinite(peeled.inputs[:, 0])
    assert reference.affine_error(peeled.inputs[seen], net.z[seen]) < 1e-7
    assert inner.n_inputs == 3
    # The distribution of the inputs is known to 1/sqrt(900) of a standard deviation.
    truth = (net.A1 * lengths[:, None]) @ (net.A1 * lengths[:, None]).T
    found = peeled.hidden_distribution.covariance[np.ix_(order, order)]
    errors = np.sqrt((np.outer(np.diag(truth), np.diag(truth)) + truth**2) / 900)
    assert (np.abs(found - truth) / errors).max() < 5.0
    assert np.linalg.matrix_rank(found, tol=1e-8 * found.max()) == 3
    bias = peeled.hidden_distribution.mean[order]
    assert (np.abs(bias - net.b1 * lengths) / np.sqrt(np.diag(truth) / 900)).max() < 5.0
    assert layer.report.converged
    assert not peeled.outlier_rows.any()


def test_inputs_of_new_rows_and_back(fresh, peeled):
    known = peeled.layers[0].column_identifiable
    z = peeled.transform(fresh.X)
    seen = np.isfinite(z[:, 0])
    np.testing.assert_array_equal(seen, np.isfinite(z).all(axis=1))
    assert seen.mean() > 0.9
    assert reference.affine_error(z[seen], fresh.z[seen]) < 1e-7
    np.testing.assert_allclose(peeled.inverse_transform(z[seen])[:, known], fresh.X[np.ix_(seen, known)], atol=1e-6)
    assert np.isnan(peeled.inverse_transform(z[seen])[:, ~known]).all()
    assert peeled.transform(fresh.X[:0]).shape == (0, 3)


def test_the_error_is_that_of_rows_rebuilt(fresh, peeled):
    rows = replace(fresh, noise=0.05).X
    z = peeled.transform(rows)
    seen, known = np.isfinite(z[:, 0]), peeled.layers[0].column_identifiable
    left = rows[np.ix_(seen, known)] - peeled.inverse_transform(z[seen])[:, known]
    expected = np.sqrt((left**2).sum() / (rows[np.ix_(seen, known)] ** 2).sum())
    assert peeled.relative_error(rows) == pytest.approx(expected, rel=1e-9)
    assert 0.005 < expected < 0.1
    assert peeled.score(rows) == pytest.approx(1.0 - expected**2, rel=1e-9)
    assert peeled.relative_error(fresh.X) < 1e-8
    # Squares about 0: a table of another network is not explained.
    assert peeled.score(reference.draw(4, 48, 8, 3, 100).X) < 0.9


def test_samples_are_like_rows_of_the_network(net, peeled):
    known = peeled.layers[0].column_identifiable
    drawn = peeled.sample(2000, 5)
    assert drawn.shape == (2000, 48)
    other = replace(net, z=seeded(5).standard_normal((2000, 3))).X[:, known]
    both = np.sqrt((drawn[:, known].var(axis=0) + other.var(axis=0)) / 2000 + other.var(axis=0) / 900)
    assert (np.abs(drawn[:, known].mean(axis=0) - other.mean(axis=0)) < 5.0 * both).all()
    np.testing.assert_array_equal(peeled.sample(2000, 5), drawn)
    assert peeled.relative_error(np.where(known, drawn, 0.0)) < 1e-6
    assert peeled.sample(0).shape == (0, 48)
    with pytest.raises(InvalidParameterError, match="n_samples"):
        peeled.sample(-1)


def test_a_file_gives_the_network_back(peeled, fresh, tmp_path):
    peeled.save(tmp_path / "p.npz")
    again = unrelu.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(again.transform(fresh.X), peeled.transform(fresh.X))
    np.testing.assert_array_equal(again.sample(7, 1), peeled.sample(7, 1))
    np.testing.assert_array_equal(again.inner.weights, peeled.inner.weights)
    assert again.inner.choice == peeled.inner.choice
    assert again.inputs.shape == (0, 3)
    assert again.hidden.shape == (0, 8)
    assert again.relative_error(fresh.X) == peeled.relative_error(fresh.X)


def test_a_floor_moves_biases_alone(net, peeled, fresh):
    floor = seeded(5).standard_normal(48)
    with warns("doubtful-inputs"):
        moved = unrelu.peel(net.X + floor, [8], n_inputs=3, floor=floor)
    known = moved.layers[0].column_identifiable & peeled.layers[0].column_identifiable
    np.testing.assert_allclose(moved.layers[0].weights[known], peeled.layers[0].weights[known], atol=1e-6)
    np.testing.assert_allclose(moved.layers[0].bias[known], (peeled.layers[0].bias + floor)[known], atol=1e-6)
    assert moved.relative_error(fresh.X + floor) < 1e-8


def test_rows_that_are_none(peeled):
    with pytest.raises(InvalidDataError, match="Rows have 48 outputs"):
        peeled.transform(np.ones((3, 47)))
    with pytest.raises(InvalidDataError, match="There are 3 inputs"):
        peeled.inverse_transform(np.ones((3, 8)))
    with pytest.raises(InvalidDataError, match="NaN or infinity"):
        peeled.transform(np.full((3, 48), np.nan))


def test_the_number_of_inputs_is_found(net, peeled):
    with warns("doubtful-inputs", match=FEW_ON):
        found = unrelu.peel(net.X, [8], n_inputs="auto")
    assert found.inner.n_inputs == 3
    tried = dict(found.inner.choice)
    assert tried[3] < 1e-8 < 0.01 < tried[2]
    known = found.layers[0].column_identifiable & peeled.layers[0].column_identifiable
    assert reference.sines(found.layers[0].weights[known], peeled.layers[0].weights[known])[0].max() < 1e-6


def test_someone_hears_of_every_step(net):
    heard = []
    with warns("doubtful-inputs"):
        unrelu.peel(net.X, [8], n_inputs=3, progress=heard.append)
    stages = list(dict.fromkeys(step.stage for step in heard))
    assert stages == ["Layer 1: undoing the rectifier", "Layer 1: finding units"]
    assert all(step.total == 8 for step in heard if step.stage == "Layer 1: finding units")


# --- ends before the end --------------------------------------------------------------------------


def test_an_interrupt_leaves_the_units_found(net):
    def stop(step):
        if step.stage == "Layer 1: finding units" and step.done:
            raise KeyboardInterrupt

    said = r"Layer 1: The search was interrupted after \d of 8 hidden units were found"
    with warns("unfinished", match=said) as heard:
        found = unrelu.peel(net.X, [8], n_inputs=3, progress=stop)
    layer = found.layers[0]
    assert len(heard) == 1
    assert found.inner is None
    assert found.hidden_distribution is None
    assert 0 < found.hidden.shape[1] == layer.report.units_found < 8
    assert np.isnan(layer.weights).all()
    assert not layer.column_identifiable.any()
    with pytest.raises(InvalidDataError, match="nothing to sample"):
        found.sample(1)
    with pytest.raises(InvalidDataError, match="The inputs were not recovered"):
        found.transform(net.X)


def test_time_that_is_up_before_there_is_anything(net):
    with pytest.raises(CannotPeelError, match="the time was up before the rectifier was undone"):
        unrelu.peel(net.X, [8], n_inputs=3, max_seconds=1e-6)


@pytest.mark.parametrize("seconds", [0, -1.0, np.nan, "1", True])
def test_seconds_that_are_none(net, seconds):
    with pytest.raises(InvalidParameterError, match="max_seconds"):
        unrelu.peel(net.X, [8], n_inputs=3, max_seconds=seconds)


@pytest.mark.parametrize("q", [0, -1, 2.5, "three", True, [3]])
def test_inputs_that_are_no_number(net, q):
    with pytest.raises(InvalidParameterError, match="n_inputs must be a whole number of 1 or more, or 'auto'"):
        unrelu.peel(net.X, [8], n_inputs=q)
    with pytest.raises(InvalidParameterError, match="n_inputs must be"):
        TwoLayerReLULearner(8, n_inputs=q).fit(net.T)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [3, 7])
def test_as_many_inputs_as_units_are_the_old_way(q):
    X = layers.network(seeded(0), [3, 24], n=400)[0]
    old, new = unrelu.peel(X, [3]), unrelu.peel(X, [3], n_inputs=q)
    np.testing.assert_array_equal(new.layers[0].weights, old.layers[0].weights)
    assert new.inner is None
    assert new.layers[0].report.method == "facets"
    with pytest.raises(InvalidDataError, match="The inputs were not recovered: peel with n_inputs"):
        new.relative_error(X)


@pytest.mark.parametrize(
    ("q", "match"),
    [(2, r"n_inputs=2 leaves a relative residual of .*aise n_inputs"), (4, r"n_inputs=4 is too large|Too few of them")],
)
def test_another_number_of_inputs_is_refused(net, q, match):
    with pytest.raises(CannotPeelError, match=match) as refusal:
        unrelu.peel(net.X, [8], n_inputs=q)
    assert refusal.value.report.n_hidden == 8


def test_too_few_rows_are_refused(net):
    with pytest.raises(CannotPeelError, match="40 rows are too few for 8 hidden units; 48 are needed"):
        unrelu.peel(net.X[:40], [8], n_inputs=3)


def test_few_rows_are_refused(net):
    """Rows enough to undo the rectifier are too few to tell units."""
    with pytest.raises(CannotPeelError, match=r"Layer 1: \d of 8 hidden units were found"):
        unrelu.peel(net.X[:60], [8], n_inputs=3)


def test_a_unit_that_is_never_off_is_named_and_the_network_right(net):
    net = with_bias(net, 2, 30.0)
    with warns("doubtful-units", match=r"Layer 1: hidden units \d are never off"):
        found = unrelu.peel(net.X, [8], n_inputs=3)
    [doubtful] = found.layers[0].report.doubtful_units
    assert found.layers[0].report.rows_off[doubtful] == 0
    assert not found.outlier_rows.any()
    assert found.relative_error(net.X) < 1e-8


def test_a_unit_that_is_never_on_is_refused(net):
    with pytest.raises(CannotPeelError, match=r"fewer than the 8 hidden units.*lower the width"):
        unrelu.peel(with_bias(net, 2, -30.0).X, [8], n_inputs=3)


def test_too_few_outputs_are_refused(net):
    with pytest.raises(CannotPeelError, match="Layer 1"):
        unrelu.peel(net.X[:300, :12], [8], n_inputs=3)


def test_units_twice_are_refused(net):
    twice = replace(net, A1=np.vstack([net.A1[:7], 2.0 * net.A1[:1]]), b1=np.append(net.b1[:7], 2.0 * net.b1[0]))
    with pytest.raises(CannotPeelError, match="varies in 7 dimensions, fewer than the 8 hidden units"):
        unrelu.peel(twice.X, [8], n_inputs=3)


def test_outputs_that_do_not_vary_are_not_in_the_way(net, fresh):
    X, Y = net.X.copy(), fresh.X.copy()
    for rows in (X, Y):
        rows[:, 3], rows[:, 4] = 0.0, 2.5
    with warns("doubtful-inputs", match=FEW_ON):
        found = unrelu.peel(X, [8], n_inputs=3)
    layer = found.layers[0]
    assert not layer.column_identifiable[3]
    assert found.relative_error(Y) < 1e-8
    np.testing.assert_allclose(layer.weights[4], 0.0, atol=1e-8)


def test_values_that_are_no_numbers(net):
    X = net.X.copy()
    X[4, 5] = np.nan
    with pytest.raises(InvalidDataError, match="NaN in column 5"):
        unrelu.peel(X, [8], n_inputs=3)


@pytest.mark.slow  # some seconds
def test_single_precision_is_noise_of_its_own_size():
    net = reference.draw(0, 60, 12, 4, 1200)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", about("doubtful-inputs"))
        found = unrelu.peel(net.X.astype(np.float32), [12], n_inputs=4).layers[0]
    known = found.column_identifiable
    assert reference.sines(found.weights[known], net.A2[known])[0].max() < 1e-5  # 6e-8 times a condition below 100


def test_with_noise_outputs_are_fitted_again_from_their_inputs(net, peeled):
    """Weights of an output off by a tenth are mended; those of one that is on in 12 rows are NaN, and named."""
    layer, noise = peeled.layers[0], 0.01
    T, rare = replace(net, noise=noise).T, int(np.flatnonzero(layer.column_identifiable)[0])
    lower = np.sort(T[:, rare])[-12] * (np.arange(48) == rare)
    wrong, weights = int(np.flatnonzero(layer.column_identifiable)[9]), layer.weights.copy()
    weights[wrong] *= 1.0 + 0.1 * seeded(5).standard_normal(8)
    matrix = replace(layer.matrix_report, residual=noise / float(np.sqrt((net.T**2).mean())))
    report = replace(layer.report, noise=noise)
    noisy = replace(layer, weights=weights, bias=layer.bias - lower, matrix_report=matrix, report=report)
    with warns("weak-columns", match=f"Outputs {rare} are on in too few rows to determine their weights"):
        found = with_inputs(replace(peeled, layers=(noisy,)), peeled.inner, np.maximum(T - lower, 0.0), 0)
    outer = found.layers[0]
    known = outer.column_identifiable
    np.testing.assert_array_equal(known, layer.column_identifiable & (np.arange(48) != rare))
    assert np.isnan(outer.weights[rare]).all()
    np.testing.assert_allclose(np.linalg.norm(outer.weights[known], axis=0), 1.0)
    order, true = (
        reference.sines(outer.weights[known], net.A2[known])[1],
        net.A2 / np.linalg.norm(net.A2[known], axis=0),
    )
    before, after = (np.linalg.norm(A[wrong, order] - true[wrong]) for A in (weights, outer.weights))
    assert after < 0.2 * before


@pytest.mark.slow  # some seconds
def test_whole_numbers_too_coarse_to_tell_units_are_refused(net):
    """Rounding to whole numbers is noise of 1 % here."""
    with pytest.raises(CannotPeelError, match=r"Layer 1: \d of 8 hidden units were found"):
        unrelu.peel(np.round(10.0 * net.X).astype(int)[:400], [8], n_inputs=3)


# --- TwoLayerReLULearner --------------------------------------------------------------------------


def linear(output_bias):
    return reference.draw(3, 16, 8, 3, 800, output_bias=output_bias)


@pytest.fixture(scope="module", params=[False, True], ids=["no output bias", "output bias"])
def two(request):
    """(network without a rectifier, what was learned of it)."""
    net = linear(request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # 5 % of the rows and fewer do not determine their inputs
        return net, TwoLayerReLULearner(8, n_inputs=3, output_bias=request.param).fit(net.T)


def test_two_layers_down_to_the_inputs(two):
    net, learner = two
    wrong, order = reference.sines(learner.output_weights_, net.A2)
    assert wrong.max() < 1e-6
    lengths = np.linalg.norm(net.A2, axis=0)
    np.testing.assert_allclose(learner.output_bias_, net.b2, atol=1e-6)
    np.testing.assert_allclose(learner.hidden_units(net.T)[:, order], net.h * lengths, atol=1e-6)
    z = learner.transform(net.T)
    seen = np.isfinite(z[:, 0])
    assert z.shape == (800, 3)
    assert reference.affine_error(z[seen], net.z[seen]) < 1e-7
    np.testing.assert_allclose(learner.inverse_transform(z[seen]), net.T[seen], atol=1e-6)
    hidden = np.maximum(z[seen] @ learner.input_weights_.T + learner.input_bias_, 0.0)
    np.testing.assert_allclose(hidden, learner.hidden_units(net.T)[seen], atol=1e-6)
    np.testing.assert_allclose(
        learner.hidden_distribution_.covariance, learner.input_weights_ @ learner.input_weights_.T, atol=1e-9
    )
    assert (learner.n_inputs_, learner.n_hidden_, learner.report_.method) == (3, 8, "widening")
    assert learner.relative_error(net.T) < 1e-8


def test_the_error_of_two_layers_is_that_of_rows_rebuilt(two):
    net, learner = two
    rows = net.T[:100] + 0.1 * seeded(5).standard_normal((100, 16))
    z = learner.transform(rows)
    seen = np.isfinite(z[:, 0])
    left = rows[seen] - learner.inverse_transform(z[seen])
    assert learner.relative_error(rows) == pytest.approx(np.linalg.norm(left) / np.linalg.norm(rows[seen]), rel=1e-9)


def test_files_copies_and_names(two, tmp_path):
    net, learner = two
    learner.save(tmp_path / "model")
    for again in (TwoLayerReLULearner.load(tmp_path / "model"), pickle.loads(pickle.dumps(learner))):
        np.testing.assert_array_equal(again.transform(net.T), learner.transform(net.T))
        np.testing.assert_array_equal(again.input_weights_, learner.input_weights_)
        np.testing.assert_array_equal(again.sample(4, 0), learner.sample(4, 0))
        assert again.n_inputs == 3
    assert clone(learner).get_params() == learner.get_params()
    assert list(learner.get_feature_names_out()) == [f"twolayerrelulearner{i}" for i in range(3)]
    frame = clone(learner).set_output(transform="pandas")
    assert isinstance(frame.fit_transform(net.T), pd.DataFrame)


def test_inputs_that_are_none(two):
    _, learner = two
    with pytest.raises(InvalidDataError, match="There are 3 inputs"):
        learner.inverse_transform(np.ones((2, 8)))
    with pytest.raises(InvalidDataError, match="Inputs must be finite"):
        learner.inverse_transform(np.full((2, 3), np.nan))


def test_two_layers_have_samples(two):
    net, learner = two
    drawn = learner.sample(2000, 3)
    spread = net.T.std(axis=0) * np.sqrt(1 / 2000 + 1 / 800)
    assert (np.abs(drawn.mean(axis=0) - net.T.mean(axis=0)) < 5.0 * spread).all()
    assert learner.relative_error(drawn) < 1e-8
    np.testing.assert_array_equal(learner.sample(2000, 3), drawn)
    with pytest.raises(InvalidParameterError):
        learner.sample(-1)


def test_a_learner_with_a_floor_is_a_peeled_layer(net, peeled, fresh, tmp_path):
    with warns("doubtful-inputs", match=FEW_ON):
        learner = TwoLayerReLULearner(8, n_inputs=3, floor=0.0).fit(net.X)
    np.testing.assert_array_equal(learner.output_weights_, peeled.layers[0].weights)
    np.testing.assert_array_equal(learner.input_weights_, peeled.inner.weights)
    np.testing.assert_array_equal(learner.transform(fresh.X), peeled.transform(fresh.X))
    assert learner.relative_error(fresh.X) == pytest.approx(peeled.relative_error(fresh.X), abs=1e-12)
    learner.save(tmp_path / "model")
    again = unrelu.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(fresh.X), learner.transform(fresh.X))
    assert list(learner.get_feature_names_out()) == [f"twolayerrelulearner{i}" for i in range(3)]
    hidden = learner.hidden_units(fresh.X[:20])
    order = reference.sines(
        learner.output_weights_[learner.column_identifiable_], net.A2[learner.column_identifiable_]
    )[1]
    lengths = np.linalg.norm(net.A2[learner.column_identifiable_], axis=0)
    np.testing.assert_allclose(hidden[:, order], fresh.h[:20] * lengths, atol=1e-5)


def test_without_inputs_asked_for_there_are_none(net):
    learner = TwoLayerReLULearner(3).fit(layers.draw(seeded(5), 8, 3, 150)[0])
    assert not hasattr(learner, "input_weights_")
    with pytest.raises(InvalidParameterError, match="finds no inputs"):
        TwoLayerReLULearner(8, "separable", n_inputs=3).fit(net.X)


@pytest.mark.slow
def test_facets_that_do_not_tell_the_units_are_helped_by_inputs():
    """Fewer inputs than units, which nobody said: planes hold rows by coincidence, and some are no units."""
    net = reference.draw(1, 16, 8, 3, 1600, output_bias=False)
    with warns("doubtful-inputs", match="390 of 1,600 rows"):
        learner = TwoLayerReLULearner(8).fit(net.T)
    assert learner.report_.method == "widening"
    assert reference.sines(learner.output_weights_, net.A2)[0].max() < 1e-9
    assert np.linalg.matrix_rank(learner.hidden_distribution_.covariance, tol=1e-9) == 3
    assert learner.transform(net.T[:2]).shape == (2, 8)  # units, as without inputs asked for
    assert not hasattr(learner, "input_weights_")


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("q", [None, 2])
def test_a_table_without_a_network_is_told(q):
    X = np.maximum(seeded(3).standard_normal((600, 14)), 0.0)
    with pytest.raises(CannotPeelError, match=r"undone only up to a relative residual of 0\.\d.*no such network"):
        unrelu.peel(X, widths=[4], n_inputs=q)


@pytest.mark.slow  # the search itself is tested with it
def test_two_layers_of_another_number_are_refused():
    net = linear(True)
    with pytest.raises(InvalidDataError, match="n_inputs=2 leaves a relative residual of"):
        TwoLayerReLULearner(8, n_inputs=2, output_bias=True).fit(net.T)


def test_two_layers_in_no_time():
    net = linear(True)
    try:
        with warns("unfinished", match=r"The time was up after \d of 8 hidden units were found"):
            learner = TwoLayerReLULearner(8, n_inputs=3, output_bias=True, max_seconds=1e-6).fit(net.T)
    except InvalidDataError as error:
        pytest.fail(f"planes of the first look were found, but: {error}")
    assert np.isnan(learner.output_weights_).all()
    assert not hasattr(learner, "input_weights_")
    assert learner.transform(net.T).shape == (800, learner.report_.units_found)
    with pytest.raises(InvalidDataError, match="hidden units were found"):
        learner.sample(1)
