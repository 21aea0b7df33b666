"""peel --inputs: a network down to its inputs; its file sampled from; what is found when time is up, or interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unrelu
from tests.references.commands import invoke, rows_in
from unrelu.tables import open_samples, write_table

N, D, P, Q = 1500, 24, 6, 2
RNG = np.random.default_rng(3)
Z, A1, A2 = (RNG.standard_normal(margins) for margins in ((N, Q), (P, Q), (D, P)))
HIDDEN = np.maximum(Z @ A1.T + 0.3, 0.0)
LINEAR = HIDDEN @ A2.T
RECTIFIED = np.maximum(LINEAR + 0.2, 0.0)
NAMES = [f"s{j}" for j in range(D)]
GOLDEN = Path(__file__).parents[1] / "golden" / "version5"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A generator peeled once: its folder, and the answer."""
    folder = tmp_path_factory.mktemp("peeled")
    write_table(folder / "X.parquet", RECTIFIED, NAMES)
    files = {"-o": "layers.npz", "--hidden": "h.npy", "--latent": "z.csv", "--picture": "p.png"}
    given = [part for option, name in files.items() for part in (option, str(folder / name))]
    options = ["--widths", "6", "--inputs", "2", "--max-seconds", "500", "--json"]
    result = invoke("peel", folder / "X.parquet", *options, *given)
    assert result.exit_code == 0, result.stderr
    return folder, json.loads(result.stdout)


@pytest.fixture
def linear(folder):
    write_table(folder / "L.npy", LINEAR)
    return folder / "L.npy"


def _left_by_the_best_map(found, true):
    """Largest distance of rows that are known from the nearest affine image of the true ones."""
    known = np.isfinite(found).all(axis=1)
    assert known.mean() > 0.9
    extended = np.column_stack([true[known], np.ones(known.sum())])
    return np.abs(extended @ np.linalg.lstsq(extended, found[known])[0] - found[known]).max()


# --- what comes out -------------------------------------------------------------------------------


def test_inputs_of_every_row_are_written(done):
    folder, answer = done
    assert open_samples(folder / "z.csv").feature_names == ("z0", "z1")
    z = rows_in(folder / "z.csv")
    assert z.shape == (N, Q)
    assert _left_by_the_best_map(z, Z) < 1e-6
    assert answer["inner"]["rows_without_inputs"] == np.isnan(z[:, 0]).sum() - answer["layers"][0]["outlier_rows"]
    units = np.load(folder / "h.npy")
    explained = np.isfinite(units).all(axis=1)
    found, true = (each[explained] / np.linalg.norm(each[explained], axis=0) for each in (units, HIDDEN))
    np.testing.assert_allclose((found.T @ true).max(axis=0), 1.0, atol=1e-9)
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")


def test_facts_of_the_inner_layer_are_those_of_the_file(done, run):
    folder, answer = done
    inner = unrelu.Peeled.load(folder / "layers.npz").inner
    facts = answer["inner"]
    assert facts["n_inputs"] == 2
    np.testing.assert_array_equal(facts["weights"], inner.weights)
    np.testing.assert_array_equal(facts["bias"], inner.bias)
    assert facts["choice"] == [list(pair) for pair in inner.choice]
    assert dict(inner.choice)[2] < 1e-8 < 1e-2 < dict(inner.choice)[1]
    assert (answer["latent"], answer["warnings"]) == (str(folder / "z.csv"), [])
    assert answer["layers"][0]["ended"] is None
    again = json.loads(run("info", folder / "layers.npz", "--json").stdout)
    assert again["inner"] == {**facts, "rows_without_inputs": None}  # files do not hold the rows' inputs
    text = run("info", folder / "layers.npz").stdout
    assert "1 leaves 0." in text
    assert "weights of inputs" in text
    assert f"{inner.weights[5, 1]:.4g}" in text


def test_rows_are_drawn_from_its_file(done, run):
    folder, answer = done
    drawn = unrelu.Peeled.load(folder / "layers.npz").sample(9000, random_state=3)
    result = run("sample", folder / "layers.npz", "-n", 9000, "--seed", 3, "-o", "rows.parquet", "--json")
    facts = json.loads(result.stdout)
    assert (facts["rows"], facts["columns"]) == (9000, D)
    np.testing.assert_array_equal(rows_in("rows.parquet"), drawn)  # also where there are several blocks
    assert open_samples("rows.parquet").feature_names == tuple(NAMES)
    undetermined = answer["layers"][0]["undetermined"]
    assert np.isnan(drawn).all(axis=0).sum() == len(undetermined) > 0
    (warning,) = facts["warnings"]
    assert undetermined[0] in warning
    assert warning.endswith("are not determined: empty in all rows. [weak-columns]")


def test_a_linear_generator(run, linear):
    options = ["--widths", 6, "--inputs", "auto", "--latent", "z.npy", "-o", "out.npz"]
    result = run("peel", linear, "--linear", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    for words in ("weights of inputs", "Inputs written to z.npy", "rows without inputs"):
        assert words in result.stdout
    assert _left_by_the_best_map(np.load("z.npy"), Z) < 1e-6
    learner = unrelu.TwoLayerReLULearner.load("out.npz")
    assert (learner.n_inputs, learner.n_inputs_) == ("auto", 2)
    assert run("sample", "out.npz", "-n", 9000, "--seed", 3, "-o", "rows.npy").stderr == ""
    np.testing.assert_array_equal(np.load("rows.npy"), learner.sample(9000, 3))
    assert "weights of inputs" in run("info", "out.npz").stdout


def test_as_many_inputs_as_units_is_peeling_as_ever(run, folder):
    rng = np.random.default_rng(0)
    h = np.maximum(rng.standard_normal((500, 2)) + 0.2, 0.0)
    write_table("L.npy", h @ rng.standard_normal((2, 6)))
    answer = json.loads(run("peel", "L.npy", "--linear", "--widths", 2, "--inputs", 2, "--json").stdout)
    assert (answer["inner"], answer["layers"][0]["units_found"]) == (None, 2)
    assert (
        run("sample", "layers.npz", "-n", 5, "-o", "rows.csv").exit_code == 0
    )  # of hidden units that have a distribution
    result = run("peel", "L.npy", "--linear", "--inputs", 2, "--latent", "z.csv", "-o", "out.npz")
    assert result.exit_code == 2  # the requested table is not there
    assert "The inputs were not found: no table of them is written." in result.stdout
    assert not (folder / "z.csv").exists()


# --- not everything found -------------------------------------------------------------------------


def _unfinished(result, code, words):
    assert result.exit_code == code
    answer = json.loads(result.stdout)
    (layer,), (warning,) = answer["layers"], answer["warnings"]
    assert 0 < layer["units_found"] < P
    assert layer["ended"] == words
    assert warning.startswith(f"{words} after {layer['units_found']} of 6 hidden units were found.")
    assert (answer["inner"], answer["latent"]) == (None, None)
    assert len(open_samples("h.csv").feature_names) == layer["units_found"]
    learner = unrelu.TwoLayerReLULearner.load("out.npz")
    assert (learner.report_.ended, learner.report_.converged) == (words, False)
    assert words in run_info(learner)
    return warning


def run_info(learner):
    learner.save("again.npz")
    return invoke("info", "again.npz").stdout


UNFINISHED = ["--linear", "--widths", 6, "--inputs", 2, "--latent", "z.csv", "--hidden", "h.csv", "-o", "out.npz"]


@pytest.mark.slow
def test_what_was_found_when_time_was_up_is_written(run, folder, linear):
    result = run("peel", linear, *UNFINISHED, "--max-seconds", "1e-6", "--picture", "p.svg", "--json")
    assert "Raise --max-seconds. [" in _unfinished(result, 2, "The time was up")
    assert (folder / "p.svg").exists()
    assert not (folder / "z.csv").exists()
    line = run("sample", "out.npz", "-o", "rows.csv").stderr
    assert line.startswith("Error: Only ")
    plain = run("peel", linear, "--linear", "--widths", 6, "--inputs", 2, "--max-seconds", "1e-6", "-o", "out.npz")
    assert plain.exit_code == 2  # also where no inputs are to be written
    assert plain.stdout.startswith("The time was up: ")


def test_time_that_is_up_before_anything_was_found(run, refused, folder, linear, monkeypatch):
    write_table("X.npy", RECTIFIED)
    line = refused(run("peel", "X.npy", "--widths", 6, "--inputs", 2, "--max-seconds", "1e-6", "-o", "out.npz"))
    assert line.endswith("before the rectifier was undone. Raise --max-seconds, or use fewer rows.")
    monkeypatch.setattr("unrelu.recovery.layers.planes.PlaneSearch.planes", lambda *_: [])
    line = refused(run("peel", linear, *UNFINISHED, "--max-seconds", "1e-6"))
    assert line == "Error: The time was up before a hidden unit was found. Raise --max-seconds."


def test_an_interrupt_of_the_search_writes_what_was_found(run, linear, monkeypatch):
    def interrupted(step):
        if step.stage == "Finding planes":
            raise KeyboardInterrupt

    monkeypatch.setattr("unrelu.cli.frame.meter", lambda _: interrupted)
    result = run("peel", linear, *UNFINISHED, "--json")
    assert "--max-seconds" not in _unfinished(result, 130, "The search was interrupted")


def test_an_interrupt_before_anything_was_found_leaves_nothing(run, folder, linear, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("unrelu.recovery.layers.planes.PlaneSearch.planes", interrupted)
    result = run("peel", linear, *UNFINISHED)
    assert (result.exit_code, result.stderr) == (130, "Interrupted: nothing half-written is left.\n")
    assert os.listdir(folder) == ["L.npy"]


@pytest.mark.slow
def test_a_signal_in_the_search(linear):
    script = (
        "import time, unrelu.cli.frame as progress\n"
        "def tell(step):\n"
        "    if step.stage == 'Finding planes':\n"
        "        print('searching', flush=True)\n"
        "        time.sleep(60.0)\n"
        "progress.meter = lambda _: tell\n"
        "from unrelu.cli import main; main()\n"
    )
    command = [sys.executable, "-c", script, "peel", linear.name, *map(str, UNFINISHED)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "searching\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out.startswith("The search was interrupted: ")
    assert "Layers written to out.npz" in out
    assert err.startswith("Warning: The search was interrupted after ")
    assert not unrelu.TwoLayerReLULearner.load("out.npz").report_.converged


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--inputs", "0"], "--inputs must be a whole number of at least 1, or auto; got '0'"),
        (["--inputs", "x"], "got 'x'"),
        (["--inputs", "1.5"], "got '1.5'"),
        (["--inputs", ""], "got ''"),
        (["--max-seconds", "0"], "--max-seconds must be"),
        (["--max-seconds", "-1"], "--max-seconds must be"),
        (["--max-seconds", "nan"], "--max-seconds must be"),
        (["--latent", "z.csv"], "--latent writes the inputs: say how many there are, with --inputs"),
        (["--inputs", "6", "--latent", "z.csv"], "6 inputs behind 6 units are not looked for"),
        (["--inputs", "2", "--latent", "out.npz"], "two outputs"),
        (["--inputs", "2", "--latent", "z.doc"], "z.doc: unknown kind of file"),
        (["--inputs", "2", "--method", "separable"], "--method separable finds no --inputs"),
    ],
)
def test_unusable_arguments_are_refused_before_anything_is_read(run, refused, linear, monkeypatch, arguments, words):
    monkeypatch.setattr("unrelu.tables.files.FileSamples.blocks", lambda _: pytest.fail("read before checking"))
    assert words in refused(run("peel", linear, "--linear", "--widths", 6, *arguments, "-o", "out.npz"))


def test_a_wrong_number_of_inputs_is_an_error_in_the_words_of_the_command(run, refused, linear):
    line = refused(run("peel", linear, "--linear", "--widths", 6, "--inputs", 3, "-o", "out.npz"))
    assert line.startswith("Error: --inputs 3 is too large: 2 inputs explain ")
    assert line.endswith("Lower --inputs, or let 'auto' find it.")


def test_damaged_files_are_refused(done, run, refused, folder):
    shown = {"f.npz": "inner.weights has shape (5, 2) instead of (6, 2)", "g.npz": "has 5 units, not 6"}
    for name, source in (("f.npz", done[0] / "layers.npz"), ("g.npz", GOLDEN / "linear_generator.npz")):
        with np.load(source) as archive:
            arrays = {key: archive[key] for key in archive.files}
        (inner,) = (key.removesuffix("weights") for key in arrays if key.endswith("inner.weights"))
        shorter = {f"{inner}{part}": arrays[f"{inner}{part}"][:-1] for part in ("weights", "bias")}
        np.savez(name, **{**arrays, **shorter})
        assert shown[name] in refused(run("sample", name))
