"""Rows on a device, by a library that keeps to the array API standard and to nothing else: as on the host."""

import os
import pickle
import subprocess
import sys
from functools import partial

import array_api_strict as strict
import numpy as np
import pytest

import unrelu
from unrelu.errors import DeviceMemoryError, InvalidDataError, InvalidParameterError
from unrelu.fit import nearest as covariance
from unrelu.passes import device
from unrelu.passes.device import DeviceEngine, all_eigenvalues, brought_home, multiplier, place_of
from unrelu.passes.engine import LocalEngine
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables import ArraySamples
from unrelu.tables.device import DeviceSamples

D = 5
SUMS = ("count", "cross", "masked_sum", "masked_square")
OBSERVED = ("count", "squared_weight", "above", "total", "square")
learner = unrelu.RectifiedGaussianLearner
one_pass = partial(learner, "one_pass", margins="normal")


@pytest.fixture
def rows():
    return unrelu.synthetic.random_model(D, mean="signed", random_state=0).sample(9000, random_state=1) + 0.0


def question(level=0.0):
    return PairMomentsQuestion((level,) * D, (level,) * D)


def assert_same_records(found, true, rtol=1e-12):
    found = found._about(true.origin)
    for name in SUMS:
        np.testing.assert_allclose(getattr(found, name), getattr(true, name), rtol=rtol, atol=1e-9, err_msg=name)
    assert (found.observed is None) == (true.observed is None)
    for name in OBSERVED if true.observed is not None else ():
        np.testing.assert_allclose(getattr(found.observed, name), getattr(true.observed, name), rtol=rtol, atol=1e-9)
    np.testing.assert_allclose([found.weight, found.squared_weight], [true.weight, true.squared_weight])
    assert found.n_rows == true.n_rows
    margins = found.margins.about(true.margins.origin, true.margins.unit)
    for name in ("observed", "sums", "ends", "end_weights"):
        np.testing.assert_allclose(getattr(margins, name), getattr(true.margins, name), rtol=rtol, atol=1e-9)


@pytest.mark.parametrize("height", [10**9, 1000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("first_missing", [None, 0, 5000])
def test_sums_are_those_of_the_host(rows, first_missing, weighted, height, monkeypatch):
    rng = np.random.default_rng(0)
    if first_missing is not None:
        rows[first_missing:][rng.random(rows[first_missing:].shape) < 0.1] = np.nan
    weights = np.where(rng.random(len(rows)) < 0.1, 0.0, rng.random(len(rows))) if weighted else None
    monkeypatch.setattr(device, "_WORKING_BYTES", device._BYTES_PER_CELL * D * height)
    true = LocalEngine().collect(ArraySamples(rows, weights=weights, block_rows=len(rows)), question())
    assert_same_records(DeviceEngine().collect(DeviceSamples(strict.asarray(rows), weights), question()), true)


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8"])
def test_other_types_are_converted_by_the_block(rows, dtype):
    given = (10.0 * rows).astype(dtype)
    true = LocalEngine().collect(ArraySamples(given, block_rows=len(rows)), question())
    assert_same_records(DeviceEngine().collect(DeviceSamples(strict.asarray(given)), question()), true, rtol=1e-6)


def test_a_table_of_whole_numbers_is_learned(rows):
    given = np.round(10.0 * rows).astype(np.int32)
    with pytest.warns(unrelu.errors.UnreluWarning):
        here, there = one_pass().fit(given), one_pass().fit(strict.asarray(given))
    np.testing.assert_allclose(there.covariance_, here.covariance_, rtol=1e-10)


def test_ties_are_counted_as_on_the_host(rows):
    given = np.round(rows, 1)
    true = LocalEngine().collect(ArraySamples(given, block_rows=len(rows)), question()).margins
    found = DeviceEngine().collect(DeviceSamples(strict.asarray(given)), question()).margins
    for name in ("compared", "different", "step"):
        np.testing.assert_allclose(getattr(found, name), getattr(true, name), rtol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    "cells", [{(17, 2): np.inf}, {(17, 2): -3.0, (40, 2): -4.0}, {(8999, 0): -np.inf, (3, 1): -1.0}]
)
def test_bad_cells_are_named_as_on_the_host(rows, cells):
    for at, value in cells.items():
        rows[at] = value
    with pytest.raises(InvalidDataError) as here:
        learner().fit(rows)
    with pytest.raises(InvalidDataError) as there:
        learner().fit(strict.asarray(rows))
    assert str(there.value) == str(here.value)


def test_every_method_learns_the_same(rows):
    above = np.abs(rows) + 0.1 * (rows == 0.0)  # the papers' methods want what is mostly above its floor
    for given in (
        {},
        {"method": "robust"},
        {"method": "sgd"},
        {"stderr": "jackknife"},
        {"margins": "boxcox"},
        {"floor": "min"},
    ):
        x = (rows if given.get("method") == "robust" else above)[:800]
        here, there = learner(**given).fit(x), learner(**given).fit(strict.asarray(x))
        np.testing.assert_allclose(there.covariance_, here.covariance_, rtol=1e-9, atol=1e-9, err_msg=str(given))


def test_many_columns_are_solved_on_the_device(monkeypatch):
    x = unrelu.synthetic.random_model(120, random_state=0).sample(100, random_state=1)
    here = one_pass().fit(x)
    asked = []
    eigh = strict.linalg.eigh
    monkeypatch.setattr(strict.linalg, "eigh", lambda matrix: asked.append(matrix.shape) or eigh(matrix))
    monkeypatch.setattr(device, "_WORTH_MOVING", 100)
    monkeypatch.setattr(covariance, "_WORTH_A_DEVICE", 100)
    there = one_pass().partial_fit(strict.asarray(x[:50])).partial_fit(strict.asarray(x[50:]))
    np.testing.assert_allclose(there.correlation_stderr_, here.correlation_stderr_, atol=1e-8)
    pairs = [each._result().pairs.correlation for each in (there, here)]
    np.testing.assert_allclose(*pairs, atol=1e-8)
    # Made one semidefinite matrix to .005 of a typical error.
    np.testing.assert_allclose(there.correlation_, here.correlation_, atol=0.01 * np.median(here.correlation_stderr_))
    assert asked[0] == (120, 120)  # made semidefinite there as well
    np.testing.assert_allclose(there.scoring_covariance_, here.scoring_covariance_, atol=1e-3)


def test_algebra_is_that_of_the_host(monkeypatch):
    monkeypatch.setattr(device, "_WORTH_MOVING", 3)
    x = np.cov(np.random.default_rng(0).normal(size=(4, 10)))
    place = place_of(strict.asarray(x))
    np.testing.assert_allclose(all_eigenvalues(x.copy(), place), np.linalg.eigvalsh(x), atol=1e-12)
    np.testing.assert_allclose(multiplier(x, place)(np.ones(4)), x.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(multiplier(2.0 * x, place)(np.ones(4)), 2.0 * x.sum(axis=1), atol=1e-12)


class ShortOfMemory:
    """Sums that hold at most so many rows at a time, as a device's memory does."""

    class OutOfMemoryError(RuntimeError):
        pass

    def __init__(self, most):
        self.n_features, self.most, self.rows = 1, most, []

    def add(self, array, first_row, weights):
        if array.shape[0] > self.most:
            raise self.OutOfMemoryError
        self.rows += list(range(first_row, first_row + array.shape[0]))


def test_short_memory_takes_smaller_blocks_and_no_row_twice():
    samples = DeviceSamples(strict.zeros((5000, 1)))
    sums, told = ShortOfMemory(700), []
    height = device._add(sums, next(samples.whole()), 4096, samples.place, told.append)
    assert sums.rows == list(range(5000))
    assert height <= 700
    assert told[-1] == 5000
    with pytest.raises(DeviceMemoryError, match="too little memory left for 256 rows of 1 columns"):
        device._add(ShortOfMemory(10), next(samples.whole()), 4096, samples.place, told.append)


def test_weights_must_be_where_the_rows_are(rows):
    weights = np.random.default_rng(0).random(len(rows))
    here = one_pass().fit(rows, sample_weight=weights)
    there = one_pass().fit(strict.asarray(rows), sample_weight=strict.asarray(weights))
    np.testing.assert_allclose(there.covariance_, here.covariance_, rtol=1e-10)
    there = one_pass().fit(strict.asarray(rows), sample_weight=weights)
    np.testing.assert_allclose(there.covariance_, here.covariance_, rtol=1e-10)
    elsewhere = strict.asarray(weights, device=strict.Device("device1"))
    for table in (rows, strict.asarray(rows)):
        with pytest.raises(InvalidParameterError, match="put both on one device"):
            learner().fit(table, sample_weight=elsewhere)


def test_what_is_no_table_is_refused():
    with pytest.raises(InvalidDataError, match="2 dimensions"):
        learner().fit(strict.zeros((3, 3, 3)))
    with pytest.raises(InvalidDataError, match="Expected numbers"):
        learner().fit(strict.zeros((3, 3), dtype=strict.complex64))
    with pytest.raises(InvalidDataError, match="no rows"):
        DeviceEngine().collect(DeviceSamples(strict.zeros((0, D))), question())


def test_places():
    assert place_of(np.zeros(3)) is None
    assert place_of([1.0]) is None
    array = strict.zeros((2, 2))
    assert place_of(array) == place_of(strict.ones((3, 3)))
    assert brought_home(array) is array
    assert pickle.loads(pickle.dumps(place_of(array))) is None


def test_a_fitted_learner_can_be_pickled_and_saved(rows, tmp_path):
    learned = learner().fit(strict.asarray(rows))
    learned.save(tmp_path / "model.npz")
    for again in (pickle.loads(pickle.dumps(learned)), unrelu.load(tmp_path / "model.npz")):
        np.testing.assert_array_equal(again.covariance_, learned.covariance_)


def test_answers_are_on_the_device_where_scikit_learn_is_configured_so():
    code = (
        "import array_api_strict as strict, numpy as np, sklearn, unrelu\n"
        "x = unrelu.synthetic.random_model(3, random_state=0).sample(500, random_state=1)\n"
        "table = strict.asarray(x, device=strict.Device('device1'))\n"
        "with sklearn.config_context(array_api_dispatch=True):\n"
        "    learned = unrelu.RectifiedGaussianLearner().fit(table)\n"
        "print(learned.mean_.device, learned.covariance_.device, learned.correlation_stderr_.device)\n"
        "print(type(unrelu.RectifiedGaussianLearner().fit(table).mean_).__name__)\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split("\n")[:2] == [" ".join(["array_api_strict.Device('device1')"] * 3), "ndarray"]
