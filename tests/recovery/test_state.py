"""Saved states of a recovery: whole or refused, of this run and no other, and worth going on from."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import scipy.sparse

import unrelu
from unrelu.errors import InvalidParameterError, ModelFileError, OutputError, UnreluWarning
from unrelu.recovery.matrix import state as module
from unrelu.recovery.matrix.cells import DenseCells, SparseCells
from unrelu.recovery.matrix.factors import Factors
from unrelu.recovery.matrix.state import FORMAT, Keeper, SavedState, fingerprint
from unrelu.storage import stated_format

N, D, K = 150, 15, 2


@pytest.fixture
def hidden():
    rng = np.random.default_rng(3)
    return rng.standard_normal((N, K)) @ rng.standard_normal((K, D)) + rng.uniform(-0.2, 0.8, D)


@pytest.fixture
def facts(hidden):
    return fingerprint(DenseCells(np.maximum(hidden, 0.0)), rank=K, method="censored_als", gauge="centered", floor=0.0)


def _factors(bias=True, seed=0):
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal
    return Factors(draw((N, K)), draw((D, K)), draw(D) if bias else None)


# --- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gauge", ["centered", "zero"])
def test_a_state_comes_back_as_it_was(tmp_path, facts, gauge):
    state = SavedState(_factors(gauge != "zero"), 7, 0.125, {**facts, "gauge": gauge}, ((1, 0.5), (2, 0.25)))
    state.save(tmp_path / "state.npz")
    back = SavedState.load(tmp_path / "state.npz")
    assert (back.iterations, back.residual, back.rank_errors) == (7, 0.125, ((1, 0.5), (2, 0.25)))
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
    factors = _factors()
    arrays = {"latent": factors.latent, "loadings": factors.loadings, "bias": factors.bias, **change}
    stated = {"iterations": 1, "residual": 0.5, "rank_errors": [], "facts": facts}
    FORMAT.write(tmp_path / "state.npz", stated, **arrays)
    with pytest.raises(ModelFileError, match=r"state\.npz is a damaged saved state"):
        SavedState.load(tmp_path / "state.npz")


@pytest.mark.parametrize("wrong", [{"facts": 7}, {"facts": {}}, {"iterations": "many"}, {"rank_errors": [1]}])
def test_headers_that_say_nothing_are_refused(tmp_path, facts, wrong):
    factors = _factors()
    stated = {"iterations": 1, "residual": 0.5, "rank_errors": [], "facts": facts, **wrong}
    FORMAT.write(tmp_path / "state.npz", stated, latent=factors.latent, loadings=factors.loadings, bias=factors.bias)
    with pytest.raises(ModelFileError, match=r"state\.npz is a damaged saved state"):
        SavedState.load(tmp_path / "state.npz")


def test_other_files_are_no_states(tmp_path, facts):
    with pytest.raises(ModelFileError, match="There is no saved state"):
        SavedState.load(tmp_path / "nothing.npz")
    unrelu.RectifiedGaussian([0.0], [[1.0]]).save(tmp_path / "model.npz")
    with pytest.raises(ModelFileError, match=r"model\.npz is not an unrelu saved state"):
        SavedState.load(tmp_path / "model.npz")
    SavedState(_factors(), 1, 0.5, facts).save(tmp_path / "state.npz")
    whole = (tmp_path / "state.npz").read_bytes()
    (tmp_path / "state.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelFileError, match="damaged"):
        SavedState.load(tmp_path / "state.npz")


# --- whose state it is ----------------------------------------------------------------------------


def test_every_cell_counts(hidden, facts):
    table = np.maximum(hidden, 0.0)
    for i, j in [(0, 0), (N - 1, D - 1), (70, 3)]:
        changed = table.copy()
        changed[i, j] = np.nextafter(table[i, j], 9.0)
        assert fingerprint(DenseCells(changed))["cells"] != facts["cells"]
    assert fingerprint(DenseCells(table[::-1]))["cells"] != facts["cells"]


def test_the_same_table_is_the_same_however_it_is_held(hidden, facts):
    table = np.maximum(hidden, 0.0)
    assert fingerprint(SparseCells(scipy.sparse.csr_array(table)))["cells"] == facts["cells"]
    assert fingerprint(DenseCells(np.asfortranarray(np.where(table == 0.0, -0.0, table))))["cells"] == facts["cells"]
    single = table.astype(np.float32)
    assert fingerprint(DenseCells(single)) == fingerprint(DenseCells(single.astype(np.float64)))


def test_missing_cells_are_alike():
    odd = np.array([[0x7FF8000000000001, 0]], dtype=np.uint64).view(np.float64)
    assert np.isnan(odd[0, 0])
    assert fingerprint(DenseCells(odd)) == fingerprint(DenseCells(np.array([[np.nan, 0.0]])))


def test_the_last_tile_counts():
    table = np.random.default_rng(0).random((3000, 100))
    whole = fingerprint(DenseCells(table))
    assert fingerprint(DenseCells(table.copy())) == whole
    table[-1, -1] += 1.0
    assert fingerprint(DenseCells(table)) != whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [N, D + 1]}, f"a table of {N} x {D}, not {N} x {D + 1}"),
        ({"cells": "0"}, "a table with other values"),
        ({"rank": 3}, "rank 2, not 3"),
        ({"rank": "auto", "seed": 0}, "rank 2, not auto; seed unset, not 0"),
        ({"method": "tobit_em"}, "method censored_als, not tobit_em"),
        ({"gauge": "zero"}, "gauge centered, not zero"),
        ({"floor": 0.5}, "floor 0, not 0.5"),
        ({"floor": [0.5] + [0.0] * (D - 1)}, "floor 0, not 0 to 0.5"),
    ],
)
def test_a_state_of_another_run_is_refused(facts, change, words):
    state = SavedState(_factors(), 1, 0.5, facts)
    with pytest.raises(InvalidParameterError) as refused:
        state.check_belongs({**facts, **change}, "state.npz")
    assert f"state.npz is the state of another run: {words}. Give" in str(refused.value)


def test_floors_survive_the_file(tmp_path, facts):
    """JSON knows no tuples, and one floor for all columns is the floor of each."""
    floors = tuple(np.linspace(0.0, 1.0, D).tolist())
    SavedState(_factors(), 1, 0.5, {**facts, "floor": floors}).save(tmp_path / "state.npz")
    back = SavedState.load(tmp_path / "state.npz")
    back.check_belongs({**facts, "floor": floors}, "state.npz")
    with pytest.raises(InvalidParameterError, match="floor another one for some columns"):
        back.check_belongs({**facts, "floor": floors[::-1]}, "state.npz")
    SavedState(_factors(), 1, 0.5, facts).check_belongs({**facts, "floor": (0.0,) * D}, "state.npz")


# --- the keeper -----------------------------------------------------------------------------------


def test_the_state_is_written_now_and_then(tmp_path, facts, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    path = tmp_path / "state.npz"
    seen = []
    with Keeper(path, facts, every=5.0) as keeper:
        for iteration in range(1, 13):
            clock[0] += 1.0
            keeper(iteration, 1.0 / iteration, _factors(seed=iteration))
            seen.append(SavedState.load(path).iterations if path.exists() else 0)
    assert seen == [0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10]
    assert SavedState.load(path).iterations == 12  # the last one at the end
    np.testing.assert_array_equal(SavedState.load(path).factors.latent, _factors(seed=12).latent)


def test_slow_disks_are_asked_less_often(tmp_path, facts, monkeypatch):
    clock, writes = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])

    def slow(state, path):
        writes.append(state.iterations)
        clock[0] += 2.0

    monkeypatch.setattr(SavedState, "save", slow)
    with Keeper(tmp_path / "state.npz", facts, every=5.0) as keeper:
        for iteration in range(1, 101):
            clock[0] += 1.0
            keeper(iteration, 0.5, _factors())
        # 2 seconds for every write: at most one in 40.
        assert writes == [5, 45, 85]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_however_it_ends_the_last_iteration_is_kept(tmp_path, facts, error):
    path = tmp_path / "state.npz"
    keeper = Keeper(path, facts)
    keeper(1, 0.5, _factors(seed=1))
    keeper(2, 0.25, _factors(seed=2))
    assert not path.exists()
    with pytest.raises(error), keeper:
        raise error
    back = SavedState.load(path)
    assert (back.iterations, back.residual) == (2, 0.25)
    assert "iteration 2 (relative residual 0.25), kept in" in keeper.how_to_go_on()
    assert str(path) in keeper.how_to_go_on()


def test_without_an_iteration_there_is_nothing_to_keep(tmp_path, facts):
    keeper = Keeper(tmp_path / "state.npz", facts)
    keeper.hear_rank(1, 0.5)
    with pytest.raises(KeyboardInterrupt), keeper:
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
    assert "nothing new" in keeper.how_to_go_on()


def test_the_keeper_keeps_a_copy(tmp_path, facts):
    factors = _factors()
    wanted = factors.matrix()
    with Keeper(tmp_path / "state.npz", facts) as keeper:
        keeper(1, 0.5, factors)
        for array in (factors.latent, factors.loadings, factors.bias):
            array[:] = 0.0
    np.testing.assert_array_equal(SavedState.load(tmp_path / "state.npz").factors.matrix(), wanted)


def test_going_on_counts_on_and_keeps_the_ranks_tried(tmp_path, facts):
    before = SavedState(_factors(), 20, 0.1, facts, ((1, 0.5), (2, 0.1)))
    with Keeper(tmp_path / "state.npz", facts, before) as keeper:
        keeper(1, 0.05, _factors())
    back = SavedState.load(tmp_path / "state.npz")
    assert (back.iterations, back.rank_errors) == (21, before.rank_errors)


def test_a_full_disk_does_not_end_the_run(tmp_path, facts, monkeypatch):
    def full(*_: object) -> None:
        raise OutputError("No space left while writing state.npz: nothing was written there.")

    monkeypatch.setattr(SavedState, "save", full)
    keeper = Keeper(tmp_path / "state.npz", facts, every=0.0)
    with pytest.warns(UnreluWarning, match=r"No space left .* The run goes on\."):
        keeper(1, 0.5, _factors())
    with pytest.raises(OutputError), keeper:
        pass


# --- going on -------------------------------------------------------------------------------------


class _Stop:
    """A watch that ends the run after some iterations."""

    def __init__(self, keeper, at):
        self.keeper, self.at = keeper, at

    def __call__(self, iteration, residual, factors):
        self.keeper(iteration, residual, factors)
        if iteration == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_a_killed_run_goes_on_where_it_was(tmp_path, hidden, scale):
    hidden = hidden * scale
    table = np.maximum(hidden, 0.0)
    path = tmp_path / "state.npz"
    facts = fingerprint(DenseCells(table), rank=K, gauge="centered")
    whole = unrelu.ReLUMatrixRecovery(K).fit(table)
    stop_at = whole.n_iter_ - 3
    with pytest.raises(KeyboardInterrupt), Keeper(path, facts) as keeper:
        unrelu.ReLUMatrixRecovery(K)._fit_from(table, None, _Stop(keeper, stop_at))
    state = SavedState.load(path)
    assert state.iterations == stop_at
    heard = []
    going_on = unrelu.ReLUMatrixRecovery(K)
    going_on._fit_from(table, state.factors, lambda iteration, residual, _: heard.append(residual))
    assert heard[0] <= state.residual * (1.0 + 1e-9)
    assert going_on.n_iter_ < whole.n_iter_
    assert going_on.report_.residual < 1e-10
    np.testing.assert_allclose(going_on.hidden(), hidden, atol=1e-8 * scale)


def test_facts_are_plain(facts):
    assert json.loads(json.dumps(facts)) == facts
