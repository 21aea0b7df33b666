"""peel: the layers behind a table, exactly; what was peeled before a failure is kept; every bad input one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

import unrelu
from tests.references.commands import answer_of, rows_in
from unrelu.recovery.two_layer_estimator import Peeled
from unrelu.tables import open_samples, write_table

N, D, P = 500, 12, 3
NAMES = [f"s{j}" for j in range(D - 1)] + ["Fe, total"]
RNG = np.random.default_rng(0)
HIDDEN = np.maximum(RNG.standard_normal((N, P)) @ RNG.standard_normal((P, P)).T + 0.2, 0.0)
A = RNG.standard_normal((D, P))
RECTIFIED, LINEAR = np.maximum(HIDDEN @ A.T + 0.4, 0.0), HIDDEN @ A.T


@pytest.fixture
def rectified(folder):
    write_table(folder / "X.csv", RECTIFIED, NAMES)
    return folder / "X.csv"


@pytest.fixture
def linear(folder):
    write_table(folder / "L.npy", LINEAR)
    return folder / "L.npy"


def _cosines(weights):
    """Of every true column of A, the best match's, in outputs that are determined."""
    known = ~np.isnan(weights).any(axis=1)
    assert known.sum() > P
    found, true = (each[known] / np.linalg.norm(each[known], axis=0) for each in (weights, A))
    return np.abs(found.T @ true).max(axis=0)


def _matches(units):
    """Whether units are the true ones, but for order and scale."""
    margins = [each / each.max(axis=0) for each in (units, HIDDEN)]
    order = [int(np.argmin(np.abs(margins[0][:, [i]] - margins[1]).max(axis=0))) for i in range(P)]
    return sorted(order) == list(range(P)) and np.allclose(margins[0], margins[1][:, order], atol=1e-6)


# --- what comes out -------------------------------------------------------------------------------


def test_a_rectified_layer_comes_off(run, rectified):
    result = run("peel", rectified, "--widths", 3, "-o", "out.npz", "--hidden", "h.csv", "--picture", "p.png")
    assert (result.exit_code, result.stderr) == (0, "")
    peeled = Peeled.load("out.npz")
    np.testing.assert_allclose(_cosines(peeled.layers[0].weights), 1.0, atol=1e-9)
    assert open_samples("h.csv").feature_names == ("h0", "h1", "h2")
    assert _matches(rows_in("h.csv"))
    same = unrelu.peel(RECTIFIED, [3])
    np.testing.assert_allclose(peeled.layers[0].weights, same.layers[0].weights, rtol=1e-9)
    with open("p.png", "rb") as picture:
        assert picture.read().startswith(b"\x89PNG")
    for words in ("1 layer from 500 x 12", "3 of 3", "Layers written to out.npz", "Hidden units written to h.csv"):
        assert words in result.stdout


def test_the_facts_are_those_of_the_report(run, rectified):
    answer = answer_of(run("peel", rectified, "--drop", "s1", "--widths", "auto", "-o", "out.npz", "--json"))
    peeled = Peeled.load("out.npz")
    (layer,), report = answer["layers"], peeled.layers[0].report
    assert (layer["n_rows"], layer["n_outputs"], layer["n_hidden"], layer["units_found"]) == (N, D - 1, P, P)
    assert layer["share_off"] == [count / N for count in report.rows_off]
    assert (layer["noise"], layer["residual"], layer["outlier_rows"]) == (report.noise, report.residual, 0)
    names = np.delete(NAMES, 1)
    assert layer["undetermined"] == names[~peeled.layers[0].column_identifiable].tolist()
    distribution = peeled.hidden_distribution
    assert [unit["mean"] for unit in answer["units"]] == distribution.mean.tolist()
    assert [unit["std"] for unit in answer["units"]] == distribution.std.tolist()
    assert (answer["layers_file"], answer["hidden"], answer["warnings"]) == ("out.npz", None, [])
    again = answer_of(run("info", "out.npz", "--json"))
    assert (again["layers"], again["units"], again["format"]) == (answer["layers"], answer["units"], "unrelu.Peeled")


def test_undetermined_outputs_are_named(run, folder):
    table = RECTIFIED.copy()
    table[:, 4] = 0.0
    write_table("X.csv", table, NAMES)
    text = run("peel", "X.csv", "--widths", 3, "-o", "out.npz").stdout
    line = next(line for line in text.splitlines() if "outputs not determined" in line)
    assert "s4" in line
    info = run("info", "out.npz")
    assert "s4" in info.stdout
    assert "500 of 500" in info.stdout


def test_floors_of_outputs(run, refused, folder):
    floor = np.linspace(-1.0, 1.0, D)
    table = RECTIFIED + floor
    at = table == floor
    table[at] += np.random.default_rng(0).uniform(-1e-10, 1e-10, int(at.sum()))
    write_table("X.csv", table, NAMES)
    levels = ",".join(f'"{name}={level!r}"' for name, level in zip(NAMES, floor.tolist(), strict=True))
    assert "below their column's floor" in refused(
        run("peel", "X.csv", "--widths", 3, "--floor", levels, "-o", "out.npz")
    )
    options = ["--floor", levels, "--floor-tolerance", "1e-9", "-o", "out.npz"]
    assert run("peel", "X.csv", "--widths", 3, *options).exit_code == 0
    layer = Peeled.load("out.npz").layers[0]
    np.testing.assert_allclose(layer.floor, floor)
    np.testing.assert_allclose(_cosines(layer.weights), 1.0, atol=1e-6)
    (folder / "out.npz").unlink()
    for option in ("--floor", "--floor-tolerance"):
        line = refused(run("peel", "X.csv", "--linear", option, "1", "-o", "out.npz"))
        assert f"{option} is for outputs that are rectified" in line


def test_a_linear_layer(run, linear):
    result = run("peel", linear, "--linear", "-o", "out.npz", "--hidden", "h.npy", "--picture", "p.svg")
    assert (result.exit_code, result.stderr) == (0, "")
    learner = unrelu.TwoLayerReLULearner.load("out.npz")
    np.testing.assert_allclose(_cosines(learner.output_weights_), 1.0, atol=1e-9)
    assert _matches(np.load("h.npy"))
    info = run("info", "out.npz")
    for words in ("unrelu.TwoLayerReLULearner 5", "x = A h, not rectified", "facets", "3 of 3", "h2"):
        assert words in info.stdout


def test_a_linear_layer_with_a_bias(run, folder):
    offset = np.linspace(-1.0, 1.0, D)
    write_table("X.csv", LINEAR + offset, NAMES)
    answer = answer_of(run("peel", "X.csv", "--linear", "--output-bias", "--widths", 3, "-o", "out.npz", "--json"))
    learner = unrelu.TwoLayerReLULearner.load("out.npz")
    np.testing.assert_allclose(learner.output_bias_, offset, atol=1e-8)
    assert learner.feature_names_in_.tolist() == NAMES
    assert answer_of(run("info", "out.npz", "--json"))["layers"] == answer["layers"]
    assert "x = A h + a" in run("info", "out.npz").stdout


def test_separable_weights(run, folder):
    write_table("X.npy", HIDDEN @ np.abs(A).T)
    assert run("peel", "X.npy", "--linear", "--method", "separable", "-o", "out.npz").exit_code == 0
    learner = unrelu.TwoLayerReLULearner.load("out.npz")
    assert learner.method == "separable"
    cosines = learner.output_weights_.T @ np.abs(A) / np.linalg.norm(A, axis=0)
    np.testing.assert_allclose(cosines.max(axis=0), 1.0, atol=1e-9)


def test_rows_of_zeros_are_allowed(run, folder):
    for name, table, options in (("X.npy", RECTIFIED, []), ("L.npy", LINEAR, ["--linear"])):
        zeros = table.copy()
        zeros[::9] = 0.0
        write_table(name, zeros)
        answer = answer_of(run("peel", name, *options, "--widths", 3, "--hidden", "h.npy", "-o", "out.npz", "--json"))
        assert answer["layers"][0]["units_found"] == 3
        units, rest = np.load("h.npy"), np.arange(N) % 9 > 0
        assert not np.isnan(units[rest]).any()
        # Behind a rectifier, rows of zeros do not tell the units; else all units are off.
        assert np.isnan(units[~rest]).all() if not options else not units[~rest].any()
        assert answer["layers"][0]["outlier_rows"] == (0 if options else (~rest).sum())


def test_rows_not_explained_are_left_empty(run, folder):
    noisy = LINEAR.copy()
    noisy[7] = RNG.standard_normal(D) * 30.0
    write_table("L.csv", noisy)
    assert run("peel", "L.csv", "--linear", "--widths", 3, "--hidden", "h.csv", "-o", "out.npz").exit_code == 0
    with open("h.csv") as lines:
        assert [number for number, line in enumerate(lines) if line == ",,\n"] == [8]


def test_tables_of_many_kinds(run, folder, rectified):
    scipy.sparse.save_npz("sparse.npz", scipy.sparse.csr_array(RECTIFIED))
    write_table("1.parquet", RECTIFIED[:200], NAMES)
    write_table("2.parquet", RECTIFIED[200:], NAMES)
    assert run("peel", rectified, "--widths", 3, "-o", "a.npz").exit_code == 0
    for path in (["sparse.npz"], ["?.parquet"], ["-"]):
        given = {"input": rectified.read_bytes()} if path == ["-"] else {}
        result = run("peel", *path, "--widths", 3, "-o", "b.npz", **given)
        assert result.exit_code == 0, result.stderr
        one, two = (Peeled.load(name).layers[0].weights for name in ("a.npz", "b.npz"))
        np.testing.assert_allclose(one, two, rtol=1e-9)


def test_the_same_table_twice_is_twice_the_rows(run, rectified):
    answer = answer_of(run("peel", rectified, rectified, "--widths", 3, "-o", "out.npz", "--json"))
    assert answer["layers"][0]["n_rows"] == 2 * N
    np.testing.assert_allclose(_cosines(Peeled.load("out.npz").layers[0].weights), 1.0, atol=1e-9)


def test_a_seed_makes_it_repeatable(run, rectified):
    for name in ("a.npz", "b.npz"):
        assert run("peel", rectified, "--widths", 3, "--seed", 7, "-o", name).exit_code == 0
    with open("a.npz", "rb") as one, open("b.npz", "rb") as two:
        assert one.read() == two.read()


# --- not everything found -------------------------------------------------------------------------


def test_layers_above_a_failure_are_kept(run, refused, rectified):
    result = run("peel", rectified, "--widths", "3,3", "-o", "out.npz", "--hidden", "h.npy", "--picture", "p.svg")
    line = refused(result, {"out.npz"})
    assert line.startswith("Error: Layer 2: 3 hidden units behind 3 outputs.")
    assert line.endswith("The layer above it was written to out.npz, h.npy, p.svg.")
    peeled = Peeled.load("out.npz")
    assert peeled.hidden_distribution is None
    np.testing.assert_allclose(_cosines(peeled.layers[0].weights), 1.0, atol=1e-9)
    assert _matches(np.load("h.npy"))
    assert "their distribution was not learned" in run("info", "out.npz").stdout
    assert answer_of(run("info", "out.npz", "--json"))["units"] == []


def test_an_incomplete_linear_layer_is_written_with_a_warning(run, folder):
    units = HIDDEN + np.array([3.0, 0.0, 0.0])  # the first is never off
    write_table("L.npy", units @ A.T)
    options = ["--linear", "--widths", 3, "--hidden", "h.csv", "--picture", "p.svg", "-o", "out.npz"]
    result = run("peel", "L.npy", *options)
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("Warning: 2 of 3 hidden units were found")
    assert "--output-bias" in line
    assert open_samples("h.csv").feature_names == ("h0", "h1")
    assert np.isnan(unrelu.TwoLayerReLULearner.load("out.npz").output_weights_).all()
    assert "2 of 3" in run("info", "out.npz").stdout


def test_doubtful_units_are_named(run, linear, monkeypatch):
    monkeypatch.setattr("unrelu.recovery.layers.decoding.MISFIT", 0.0)  # now every unit is
    result = run("peel", linear, "--linear", "--widths", 3, "-o", "out.npz")
    (line,) = result.stderr.splitlines()
    assert line.startswith("Warning: hidden units 0, 1, 2 do not look like rectified Gaussians.")
    assert result.stdout.count(" doubtful ") == 4  # three units, and the layer's line


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--widths", "8,x"], "--widths must be whole numbers of at least 1, or auto, outermost layer first"),
        (["--widths", ""], "got ''"),
        (["--widths", "0"], "got '0'"),
        (["--widths", "3,"], "got '3,'"),
        (["--widths", "1.5"], "got '1.5'"),
        (["--widths", "13"], "Layer 1: 13 hidden units behind 12 outputs"),
        (["--widths", "13", "--linear"], "--widths is 13, but rows have 12 columns"),
        (["--widths", "3,2", "--linear"], "--linear learns one layer, and --widths names 2"),
        (["--output-bias"], "add --linear"),
        (["--method", "facets"], "add --linear"),
        (["--method", "facet", "--linear"], "Did you mean 'facets'?"),
        (["--method", "separable", "--linear", "--output-bias"], "--method separable finds no --output-bias"),
        (["--hidden-method", "one_pas"], "Did you mean 'one_pass'?"),
        (["--columns", "S1"], "Did you mean 's1'?"),
        (["--hidden", "h.xlsx"], "h.xlsx: unknown kind of file"),
        (["--hidden", "out.npz"], "two outputs"),
        (["--hidden", "X.csv"], "also an input"),
        (["--picture", "p.doc"], "unknown kind of picture"),
        (["--picture", "nowhere/p.png"], "nowhere does not exist"),
    ],
)
def test_unusable_arguments_are_refused(run, refused, rectified, arguments, words):
    before = rectified.read_bytes()
    assert words in refused(run("peel", rectified, *arguments, "-o", "out.npz"))
    assert rectified.read_bytes() == before


def _with(table, value):
    changed = table.copy()
    changed[3, 4] = value
    return changed


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (_with(RECTIFIED, np.nan), [], "X holds NaN in column 4 ('s4')"),
        (_with(LINEAR, np.nan), ["--linear"], "column 4 ('s4')"),
        (_with(LINEAR, np.inf), ["--linear"], "column 4 ('s4')"),
        (_with(LINEAR, 1e250), ["--linear"], "Values as large as 1e+250"),
        (_with(RECTIFIED, -1.0), [], "below the floor 0, in column 4 ('s4')"),
        (_with(RECTIFIED, -1.0), [], "add --linear"),
        (0.0 * RECTIFIED, [], "too few values above the floor"),
        (0.0 * RECTIFIED, ["--linear"], "The table does not vary"),
        (RECTIFIED[:1], [], "The table has 1 row"),
        (RECTIFIED[:15], ["--widths", "3"], "Layer 1: "),
        (RECTIFIED[:3], ["--widths", "3"], "Layer 1: 3 rows are too few for 3 hidden units; 18 are needed"),
        (LINEAR[:15], ["--linear", "--widths", "3"], "15 rows are too few for 3 hidden units"),
        (LINEAR, ["--linear", "--widths", "4"], "The rows vary in 3 dimensions, fewer than the 4"),
        (LINEAR, ["--linear", "--widths", "4"], "Ask for --widths 3."),
        (HIDDEN * [1, 1, 0] @ A.T, ["--linear", "--widths", "3"], "units are never on. Ask for --widths 2."),
        (HIDDEN[:, [0, 1, 0]] @ A.T, ["--linear", "--widths", "3"], "Ask for --widths 2."),
        (LINEAR, ["--linear", "--method", "separable"], "Use --method facets."),
        (LINEAR + 50.0, ["--linear", "--widths", "1"], "there is an output bias (--output-bias)"),
    ],
)
def test_unusable_tables_are_refused(run, refused, folder, table, options, words):
    write_table("bad.csv", table, NAMES)
    assert words in refused(run("peel", "bad.csv", *options, "-o", "out.npz"))


@pytest.mark.parametrize(
    "table",
    [
        np.maximum(HIDDEN * [1, 1, 0] @ A.T + 0.4, 0.0),  # a unit that is never on
        np.maximum(HIDDEN[:, [0, 1, 0]] @ A.T + 0.4, 0.0),  # weights of rank 2
        np.ones((100, 5)),
    ],
)
def test_fewer_dimensions_than_the_width_are_refused(run, refused, folder, table):
    write_table("bad.npy", table)
    assert "Layer 1: " in refused(run("peel", "bad.npy", "--widths", 3, "-o", "out.npz"))


def test_unreadable_files_are_refused(run, refused, folder):
    assert "no such file" in refused(run("peel", "nowhere.csv", "-o", "out.npz"))
    assert "no file matches" in refused(run("peel", "no*.npz", "-o", "out.npz"))
    (folder / "X.npy").write_bytes(b"nonsense, and more of it")
    assert "X.npy: " in refused(run("peel", "X.npy", "-o", "out.npz"))


def test_everything_is_checked_before_anything_is_read(run, refused, rectified, monkeypatch):
    monkeypatch.setattr("unrelu.tables.files.FileSamples.blocks", lambda _: pytest.fail("read before checking"))
    for arguments in (["-o", "nowhere/out.npz"], ["--hidden", "T.xlsx"], ["--widths", "x"], ["--hidden-method", "x"]):
        refused(run("peel", rectified, *arguments))


def test_damaged_files_of_layers_are_refused(run, refused, rectified):
    assert run("peel", rectified, "--widths", 3, "-o", "f.npz").exit_code == 0
    with np.load("f.npz") as archive:
        arrays = {name: archive[name] for name in archive.files if name != "layers.0.weights"}
        assert len(arrays) < len(archive.files)
    np.savez("f.npz", **arrays)
    assert "f.npz" in refused(run("info", "f.npz"))


# --- on the terminal ------------------------------------------------------------------------------


def test_the_meter_tells_layers_and_units(run, rectified, linear, monkeypatch):
    shown = []
    monkeypatch.setattr("unrelu.cli.frame.meter", lambda _: lambda step: shown.append(f"{step.stage}, {step.words}"))
    assert run("peel", rectified, "--widths", "3,3", "-o", "a.npz").exit_code == 2
    assert shown[0].startswith("Layer 1: undoing the rectifier, iteration 1, residual")
    finding = [words for words in shown if words.startswith("Layer 1: finding units")]
    assert finding[-1] == shown[-1] == "Layer 1: finding units, 3 of 3 units found"


def test_an_interruption_leaves_nothing(run, folder, rectified, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unrelu.cli.frame.meter", lambda _: interrupted)
    result = run("peel", rectified, "--widths", 3, "-o", "out.npz", "--hidden", "h.csv")
    assert result.exit_code == 130
    assert result.stderr == "Interrupted: nothing half-written is left.\n"
    assert os.listdir(folder) == ["X.csv"]


def test_a_signal_in_the_search_leaves_nothing(folder):
    write_table(
        "L.npy", RNG.standard_normal((1500, 10)) @ RNG.standard_normal((10, 15))
    )  # no unit is ever off: the search takes long
    script = (
        "import unrelu.cli.frame as progress, sys\n"
        "progress.meter = lambda _: lambda _: print('searching', flush=True)\n"
        "from unrelu.cli import main; main()\n"
    )
    command = [sys.executable, "-c", script, "peel", "L.npy", "--linear", "--widths", "10", "-o", "out.npz"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "searching\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "Interrupted: nothing half-written is left.\n"
    assert os.listdir(folder) == ["L.npy"]


def test_help_imports_nothing_heavy(run):
    script = (
        "import sys\nfrom unrelu.cli import main\nsys.argv = ['unrelu', 'peel', '--help']\n"
        "try:\n    main()\nfinally:\n    sys.stderr.write(' '.join(sys.modules))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "--widths" in result.stdout
    assert not {"numpy", "scipy", "sklearn", "matplotlib", "pyarrow"} & set(result.stderr.split())
