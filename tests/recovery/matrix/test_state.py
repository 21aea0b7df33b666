"""Saved states of a recovery: whole or refused, of this run and no other, and worth going on from."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import scipy.sparse

import unrelu
from tests.archives import rewrite
from unrelu.contracts import Step
from unrelu.errors import InvalidParameterError, ModelFileError, OutputError, UnreluWarning
from unrelu.recovery.matrix import state as module
from unrelu.recovery.matrix.descent import Iterate
from unrelu.recovery.matrix.factors import Cells, Factors
from unrelu.recovery.matrix.state import Keeper, MatrixState, fingerprint
from unrelu.storage import stated_format

N, D, K = 150, 15, 2


@pytest.fixture
def hidden():
    rng = np.random.default_rng(3)
    return rng.standard_normal((N, K)) @ rng.standard_normal((K, D)) + rng.uniform(-0.2, 0.8, D)


@pytest.fixture
def facts(hidden):
    return fingerprint(
        Cells(np.maximum(hidden, 0.0)), n_components=K, method="censored_als", gauge="centered", floor=0.0
    )


def _factors(bias=True, seed=0):
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal
    return Factors(draw((N, K)), draw((D, K)), draw(D) if bias else None)


def _heard(iteration, residual=0.5, factors=None):
    return Iterate(iteration, residual, factors or _factors()).step()


# --- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gauge", ["centered", "zero"])
def test_a_state_comes_back_as_it_was(tmp_path, facts, gauge):
    state = MatrixState(_factors(gauge != "zero"), 7, 0.125, {**facts, "gauge": gauge}, ((1, 0.5), (2, 0.25)))
    state.save(tmp_path / "state.npz")
    back = MatrixState.load(tmp_path / "state.npz")
    assert (back.iterations, back.residual, back.component_errors) == (7, 0.125, ((1, 0.5), (2, 0.25)))
    np.testing.assert_array_equal(back.factors.latent, state.factors.latent)
    np.testing.assert_array_equal(back.factors.loadings, state.factors.loadings)
    np.testing.assert_array_equal(back.factors.extended, state.factors.extended)
    back.check_belongs(state.facts, "state.npz")
    assert stated_format(tmp_path / "state.npz") == "unrelu.MatrixState"
    assert os.listdir(tmp_path) == ["state.npz"]


@pytest.mark.parametrize(
    "change",
    [
        {"latent": np.zeros((N - 1, K))},
        {"loadings": np.zeros((D, K + 1))},
        {"bias": np.zeros(D + 1)},
        {"bias": np.full(D, np.nan)},
        {"latent": np.zeros((N, K), dtype=np.float32)},
        {"latent": np.zeros(N)},
    ],
)
def test_factors_that_do_not_fit_are_refused(tmp_path, facts, change):
    MatrixState(_factors(), 1, 0.5, facts).save(tmp_path / "state.npz")
    rewrite(tmp_path / "state.npz", {f"factors.{name}": value for name, value in change.items()})
    with pytest.raises(ModelFileError, match=r"state\.npz is damaged"):
        MatrixState.load(tmp_path / "state.npz")


@pytest.mark.parametrize("wrong", [{"facts": 7}, {"facts": {}}, {"iterations": "many"}, {"component_errors": [1]}])
def test_headers_that_say_nothing_are_refused(tmp_path, facts, wrong):
    MatrixState(_factors(), 1, 0.5, facts).save(tmp_path / "state.npz")
    rewrite(tmp_path / "state.npz", facts=wrong)
    with pytest.raises(ModelFileError, match=r"state\.npz is damaged"):
        MatrixState.load(tmp_path / "state.npz")


def test_states_of_the_first_format_are_refused_with_the_reason(tmp_path, facts):
    MatrixState(_factors(), 1, 0.5, facts).save(tmp_path / "state.npz")
    rewrite(tmp_path / "state.npz", facts={"format_version": 1})
    with pytest.raises(
        ModelFileError, match=r"state\.npz is from before the first release and cannot be read: make the file again"
    ):
        MatrixState.load(tmp_path / "state.npz")


def test_other_files_are_no_states(tmp_path, facts):
    with pytest.raises(ModelFileError, match="There is no saved state"):
        MatrixState.load(tmp_path / "nothing.npz")
    unrelu.RectifiedGaussian([0.0], [[1.0]]).save(tmp_path / "model.npz")
    with pytest.raises(ModelFileError, match=r"model\.npz is not an unrelu saved state"):
        MatrixState.load(tmp_path / "model.npz")
    MatrixState(_factors(), 1, 0.5, facts).save(tmp_path / "state.npz")
    whole = (tmp_path / "state.npz").read_bytes()
    (tmp_path / "state.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelFileError, match="damaged"):
        MatrixState.load(tmp_path / "state.npz")


# --- whose state it is ----------------------------------------------------------------------------


def test_every_cell_counts(hidden, facts):
    table = np.maximum(hidden, 0.0)
    for i, j in [(0, 0), (N - 1, D - 1), (70, 3)]:
        changed = table.copy()
        changed[i, j] = np.nextafter(table[i, j], 9.0)
        assert fingerprint(Cells(changed))["cells"] != facts["cells"]
    assert fingerprint(Cells(table[::-1]))["cells"] != facts["cells"]


def test_the_same_table_is_the_same_however_it_is_held(hidden, facts):
    table = np.maximum(hidden, 0.0)
    assert fingerprint(Cells(scipy.sparse.csr_array(table)))["cells"] == facts["cells"]
    assert fingerprint(Cells(np.asfortranarray(np.where(table == 0.0, -0.0, table))))["cells"] == facts["cells"]
    single = table.astype(np.float32)
    assert fingerprint(Cells(single)) == fingerprint(Cells(single.astype(np.float64)))


def test_missing_cells_are_alike():
    other_nan = np.array([[0x7FF8000000000001, 0]], dtype=np.uint64).view(np.float64)
    assert np.isnan(other_nan[0, 0])
    assert fingerprint(Cells(other_nan)) == fingerprint(Cells(np.array([[np.nan, 0.0]])))


def test_the_last_tile_counts():
    table = np.random.default_rng(0).random((3000, 100))
    whole = fingerprint(Cells(table))
    assert fingerprint(Cells(table.copy())) == whole
    table[-1, -1] += 1.0
    assert fingerprint(Cells(table)) != whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [N, D + 1]}, f"a table of {N} x {D}, not {N} x {D + 1}"),
        ({"cells": "0"}, "a table with other values"),
        ({"n_components": 3}, "n_components 2, not 3"),
        ({"n_components": "auto", "seed": 0}, "n_components 2, not auto; seed unset, not 0"),
        ({"method": "tobit_em"}, "method censored_als, not tobit_em"),
        ({"gauge": "zero"}, "gauge centered, not zero"),
        ({"floor": 0.5}, "floor 0, not 0.5"),
        ({"floor": 0.5, "cells": "0"}, "floor 0, not 0.5"),  # other heights, of course
        ({"floor": [0.5] + [0.0] * (D - 1)}, "floor 0, not 0 to 0.5"),
    ],
)
def test_a_state_of_another_run_is_refused(facts, change, words):
    state = MatrixState(_factors(), 1, 0.5, facts)
    with pytest.raises(InvalidParameterError) as refused:
        state.check_belongs({**facts, **change}, "state.npz")
    assert f"state.npz is the state of another run: {words}. Give" in str(refused.value)


def test_floors_survive_the_file(tmp_path, facts):
    """JSON has no tuples, and one floor for all columns is the floor of each."""
    floors = tuple(np.linspace(0.0, 1.0, D).tolist())
    MatrixState(_factors(), 1, 0.5, {**facts, "floor": floors}).save(tmp_path / "state.npz")
    back = MatrixState.load(tmp_path / "state.npz")
    back.check_belongs({**facts, "floor": floors}, "state.npz")
    with pytest.raises(InvalidParameterError, match="floor another one for some columns"):
        back.check_belongs({**facts, "floor": floors[::-1]}, "state.npz")
    MatrixState(_factors(), 1, 0.5, facts).check_belongs({**facts, "floor": (0.0,) * D}, "state.npz")


# --- the keeper -----------------------------------------------------------------------------------


def test_the_state_is_written_now_and_then(tmp_path, facts, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    path = tmp_path / "state.npz"
    seen = []
    with Keeper(path, facts, every=5.0) as keeper:
        for iteration in range(1, 13):
            clock[0] += 1.0
            keeper(_heard(iteration, 1.0 / iteration, _factors(seed=iteration)))
            seen.append(MatrixState.load(path).iterations if path.exists() else 0)
    assert seen == [0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10]
    assert MatrixState.load(path).iterations == 12  # the last one at the end
    np.testing.assert_array_equal(MatrixState.load(path).factors.latent, _factors(seed=12).latent)


def test_slow_disks_are_written_to_less_often(tmp_path, facts, monkeypatch):
    clock, writes = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])

    def slow(state, path):
        writes.append(state.iterations)
        clock[0] += 2.0

    monkeypatch.setattr(MatrixState, "save", slow)
    with Keeper(tmp_path / "state.npz", facts, every=5.0) as keeper:
        for iteration in range(1, 101):
            clock[0] += 1.0
            keeper(_heard(iteration))
        # 2 seconds for every write: at most one in 40.
        assert writes == [5, 45, 85]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_however_it_ends_the_last_iteration_is_kept(tmp_path, facts, error):
    path = tmp_path / "state.npz"
    keeper = Keeper(path, facts)
    keeper(_heard(1, 0.5, _factors(seed=1)))
    keeper(_heard(2, 0.25, _factors(seed=2)))
    assert not path.exists()
    with pytest.raises(error), keeper:
        raise error
    back = MatrixState.load(path)
    assert (back.iterations, back.residual) == (2, 0.25)
    assert "iteration 2 (relative residual 0.25), kept in" in keeper.how_to_go_on()
    assert str(path) in keeper.how_to_go_on()


def test_without_an_iteration_there_is_nothing_to_keep(tmp_path, facts):
    keeper = Keeper(tmp_path / "state.npz", facts)
    keeper(Step("Choosing the number of components", 1, state=(1, 0.5)))
    with pytest.raises(KeyboardInterrupt), keeper:
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
    assert "nothing new" in keeper.how_to_go_on()


def test_the_keeper_keeps_a_copy(tmp_path, facts):
    factors = _factors()
    wanted = factors.matrix()
    with Keeper(tmp_path / "state.npz", facts) as keeper:
        keeper(_heard(1, 0.5, factors))
        for array in (factors.latent, factors.loadings, factors.bias):
            array[:] = 0.0
    np.testing.assert_array_equal(MatrixState.load(tmp_path / "state.npz").factors.matrix(), wanted)


def test_the_keeper_keeps_the_numbers_tried(tmp_path, facts):
    with Keeper(tmp_path / "state.npz", facts) as keeper:
        for pair in [(1, 0.5), (2, 0.1)]:
            keeper(Step("Choosing the number of components", pair[0], state=pair))
        keeper(_heard(1))
    assert MatrixState.load(tmp_path / "state.npz").component_errors == ((1, 0.5), (2, 0.1))


def test_going_on_counts_on_and_keeps_the_numbers_tried(tmp_path, facts):
    before = MatrixState(_factors(), 20, 0.1, facts, ((1, 0.5), (2, 0.1)))
    reported = []
    with Keeper(tmp_path / "state.npz", facts, before, reported.append) as keeper:
        keeper(_heard(1, 0.05))
    back = MatrixState.load(tmp_path / "state.npz")
    assert (back.iterations, back.component_errors) == (21, before.component_errors)
    assert [(step.done, step.words) for step in reported] == [(21, "iteration 21, residual 5.0e-02")]


def test_a_full_disk_does_not_end_the_run(tmp_path, facts, monkeypatch):
    def full(*_: object) -> None:
        raise OutputError("No space left while writing state.npz: nothing was written there.")

    monkeypatch.setattr(MatrixState, "save", full)
    keeper = Keeper(tmp_path / "state.npz", facts, every=0.0)
    with pytest.warns(UnreluWarning, match=r"No space left .* The run goes on\."):
        keeper(_heard(1))
    with pytest.raises(OutputError), keeper:
        pass


# --- going on -------------------------------------------------------------------------------------


def _stop_at(iteration):
    """A progress callback that ends the run after some iterations."""

    def progress(step):
        if step.stage == "Recovering" and step.done == iteration:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("scale", [1.0, 1e-9])
@pytest.mark.parametrize("n_components", [K, "auto"])
def test_a_killed_run_goes_on_where_it_was(tmp_path, hidden, scale, n_components):
    hidden = hidden * scale
    table = np.maximum(hidden, 0.0)
    path = tmp_path / "state.npz"
    whole = unrelu.ReLUMatrixRecovery(n_components).fit(table)
    stop_at = whole.n_iter_ - 3
    with pytest.raises(KeyboardInterrupt) as stopped:
        unrelu.ReLUMatrixRecovery(n_components).with_progress(_stop_at(stop_at)).fit(table, state=path)
    state = MatrixState.load(path)
    assert stopped.value.__notes__ == [
        f"Stopped at iteration {stop_at} (relative residual {state.residual:.3g}), kept in {path}. To go on, run the"
        " same again."
    ]
    assert state.iterations == stop_at
    reported = []
    going_on = unrelu.ReLUMatrixRecovery(n_components).with_progress(reported.append).fit(table, state=path)
    assert {step.stage for step in reported} == {"Recovering"}
    assert reported[0].done == stop_at + 1
    assert reported[0].state.residual <= state.residual * (1.0 + 1e-9)
    assert going_on.n_iter_ == going_on.report_.iterations == reported[-1].done
    assert going_on.n_iter_ - stop_at < whole.n_iter_
    assert going_on.report_.resumed == (stop_at, state.residual)
    assert going_on.report_.component_errors == whole.report_.component_errors
    assert going_on.report_.residual < 1e-10
    np.testing.assert_allclose(going_on.hidden(), hidden, atol=1e-8 * scale)
    assert MatrixState.load(path).iterations == going_on.n_iter_


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"floor": -1.0}, "floor 0, not -1"),
        ({"floor_tolerance": 0.1}, "floor_tolerance 0, not 0.1"),
        ({"method": "tobit_em"}, "method censored_als, not tobit_em"),
        ({"gauge": "bayes"}, "gauge centered, not bayes"),
        ({"n_components": 1}, "n_components auto, not 1; seed 0, not unset"),
        ({"random_state": 1}, "seed 0, not 1"),
    ],
)
def test_a_fit_goes_on_with_its_own_state_only(tmp_path, hidden, options, words):
    table, path = np.maximum(hidden, 0.0), tmp_path / "state.npz"
    unrelu.ReLUMatrixRecovery().fit(table, state=path)
    before = path.read_bytes()
    with pytest.raises(InvalidParameterError) as refused:
        unrelu.ReLUMatrixRecovery(**options).fit(table, state=path)
    assert f"state.npz is the state of another run: {words}. Give" in str(refused.value)
    with pytest.raises(InvalidParameterError, match="a table with other values"):
        unrelu.ReLUMatrixRecovery().fit(2.0 * table, state=path)
    assert path.read_bytes() == before


def test_facts_are_plain(facts):
    assert json.loads(json.dumps(facts)) == facts
