"""Outputs of a network's layer as rows; torch is not among what the other tests need (``make test-torch``)."""

import numpy as np
import pytest

import unrelu
from tests.warned import warns
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.tables.device import DeviceSamples, LayerSamples

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")


@pytest.fixture
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(16, 4))


@pytest.fixture
def batches():
    torch.manual_seed(1)
    return [torch.randn(500, 8) for _ in range(6)]


def rows_of(network, batches, layers):
    with torch.no_grad():
        return torch.cat([network[:layers](batch) for batch in batches]).numpy()


def test_activations_are_learned_as_if_they_had_been_stored(network, batches):
    learned = unrelu.learn_layer(network, "1", batches)
    stored = rows_of(network, batches, 2).astype(np.float64)
    true = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(stored)
    np.testing.assert_allclose(learned.covariance_, true.covariance_, atol=1e-6)
    assert learned.feature_names_in_[3] == "1[3]"
    assert learned.floor == 0.0
    assert learned.record_.n_rows == 3000


def test_outputs_before_the_rectifier_have_no_floor(network, batches):
    learned = unrelu.learn_layer(network, network[0], batches)
    np.testing.assert_allclose(learned.mean_, rows_of(network, batches, 1).mean(axis=0), atol=1e-5)


def test_the_network_is_left_as_it_was(network, batches):
    network.train()
    network[2].eval()
    unrelu.learn_layer(network, "3", batches)
    assert [module.training for module in network] == [True, True, False, True]
    assert not network[3]._forward_hooks


def test_a_loader_that_can_be_read_once_loses_no_batch(network, batches):
    learned = unrelu.learn_layer(network, "1", ((batch, 0) for batch in batches))
    assert learned.record_.n_rows == 3000
    whole = unrelu.RectifiedGaussianLearner(floor=0.0).partial_fit(LayerSamples(network, "1", iter(batches)))
    np.testing.assert_allclose(whole.mean_, learned.mean_, rtol=1e-6)
    rows = LayerSamples(network, "1", iter(batches))
    assert sum(len(block.values) for block in rows.blocks()) == 3000
    with pytest.raises(InvalidDataError, match="no more batches"):
        list(rows.blocks())


def test_positions_of_convolutions():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.ReLU())
    images = [torch.randn(20, 3, 10, 10) for _ in range(5)]
    with torch.no_grad():
        maps = torch.cat([network(batch) for batch in images]).numpy()
    every = np.concatenate([block.values for block in LayerSamples(network, "1", images).blocks()])
    np.testing.assert_allclose(every, maps.transpose(0, 2, 3, 1).reshape(-1, 6), atol=1e-6)
    mean = np.concatenate([block.values for block in LayerSamples(network, "1", images, "mean", units=[4, 1]).blocks()])
    np.testing.assert_allclose(mean, maps.mean(axis=(2, 3))[:, [4, 1]], atol=1e-6)
    other = LayerSamples(network, "1", images, channel_axis=3)
    assert (other.n_features, other.feature_names[0]) == (8, "1[0]")


def test_units_that_are_never_on_are_left_out(network, batches):
    with torch.no_grad():
        network[0].bias[3] = -100.0
    with warns("dead-units", match=r"Never on in 3,000 rows, and left out: 1\[3\]"):
        learned = unrelu.learn_layer(network, "1", batches)
    assert learned.covariance_.shape == (15, 15)
    assert "1[3]" not in learned.feature_names_in_
    alive = [unit for unit in range(16) if unit != 3]
    named = unrelu.learn_layer(network, "1", batches, units=alive)
    # Single precision: sums over 15 and 16 columns are taken in another order.
    np.testing.assert_allclose(learned.covariance_, named.covariance_, atol=float(np.finfo(np.float32).eps))
    with torch.no_grad():
        network[0].bias[:] = -100.0
    with pytest.raises(InvalidDataError, match="No unit of layer '1' is ever on"):
        unrelu.learn_layer(network, "1", batches)


def test_a_learner_goes_on(network, batches):
    learner = unrelu.RectifiedGaussianLearner(floor=0.0)
    unrelu.learn_layer(network, "1", batches[:3], learner=learner)
    unrelu.learn_layer(network, "1", batches[3:], learner=learner)
    np.testing.assert_allclose(learner.mean_, unrelu.learn_layer(network, "1", batches).mean_, rtol=1e-6)


class Unused(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = torch.nn.Linear(8, 4), torch.nn.ReLU()

    def forward(self, x):
        return self.used(x)


def test_bad_input(network, batches):
    for given, message in (
        ((network, "4", batches), "no layer '4'"),
        ((network, torch.nn.ReLU(), batches), "a module of the network"),
        ((3, "1", batches), "must be a torch module, got int"),
        ((Unused(), "unused", batches), "did not run in the first batch"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            unrelu.learn_layer(*given)
    with pytest.raises(InvalidDataError, match="no batches"):
        unrelu.learn_layer(network, "1", [])
    with pytest.raises(InvalidParameterError, match="positions"):
        unrelu.learn_layer(network, "1", batches, positions="none")
    with pytest.raises(InvalidParameterError, match="learner must be"):
        unrelu.learn_layer(network, "1", batches, learner=3)


@pytest.mark.parametrize("kind", ["float64", "float32", "bfloat16", "int32"])
def test_tensors_are_tables(network, batches, kind):
    x = torch.tensor(10.0 * rows_of(network, batches, 2)).to(getattr(torch, kind))
    here = unrelu.RectifiedGaussianLearner().fit(x.to(torch.float64).numpy())
    for given in (x, DeviceSamples(x), x.T.contiguous().T):
        np.testing.assert_allclose(
            unrelu.RectifiedGaussianLearner().fit(given).covariance_, here.covariance_, rtol=1e-4
        )
    if x.is_floating_point():
        unrelu.RectifiedGaussianLearner().fit(x.clone().requires_grad_())
    drawn = here.distribution_.sample(20_000, random_state=0, like=torch.zeros(1))
    error = np.abs(drawn.numpy().mean(axis=0) - x.double().numpy().mean(axis=0)) / x.double().numpy().std(axis=0)
    assert error.max() < 4.0 * np.sqrt(1 / 20_000 + 1 / 3000)
