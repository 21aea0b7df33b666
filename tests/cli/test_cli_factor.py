"""factor: the matrix behind a table, exactly; states to go on from; every bad input one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse

import unrelu
from tests.references.commands import answer_of, rows_in
from unrelu.recovery.matrix.state import Keeper, MatrixState
from unrelu.tables import open_samples, write_table

N, D, K = 150, 15, 2
NAMES = [f"s{j}" for j in range(D - 1)] + ["Fe, total"]


@pytest.fixture
def hidden():
    """T, of rank 2 but for its mean, with about 40 % of it below 0."""
    rng = np.random.default_rng(3)
    return rng.standard_normal((N, K)) @ rng.standard_normal((K, D)) + rng.uniform(-0.2, 0.8, D)


@pytest.fixture
def rectified(folder, hidden):
    write_table(folder / "X.csv", np.maximum(hidden, 0.0), NAMES)
    return folder / "X.csv"


# --- what comes out -------------------------------------------------------------------------------


def test_the_table_comes_back_below_the_floor_as_well(run, folder, hidden, rectified):
    result = run(
        "factor", rectified, "--components", 2, "--hidden", "hidden.csv", "--latent", "latent.csv", "-o", "out.npz"
    )
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    assert np.mean(hidden < 0.0) > 0.3
    np.testing.assert_allclose(rows_in("hidden.csv"), hidden, atol=1e-8)
    assert open_samples("hidden.csv").feature_names == tuple(NAMES)
    assert open_samples("latent.csv").feature_names == ("c0", "c1")
    recovery = unrelu.ReLUMatrixRecovery.load("out.npz")
    np.testing.assert_allclose(recovery.hidden(), hidden, atol=1e-8)
    np.testing.assert_allclose(rows_in("latent.csv") @ recovery.components_ + recovery.bias_, hidden, atol=1e-8)
    assert list(recovery.feature_names_in_) == NAMES
    same = unrelu.ReLUMatrixRecovery(2).fit(np.maximum(hidden, 0.0))
    np.testing.assert_allclose(recovery.components_, same.components_, atol=1e-12)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "feather", "npy", "npz"])
def test_kinds_of_tables(run, folder, hidden, kind):
    write_table(f"X.{kind}", np.maximum(hidden, 0.0))
    result = run("factor", f"X.{kind}", "--components", 2, "--hidden", f"T.{kind}", "-o", "out.npz")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(rows_in(f"T.{kind}"), hidden, atol=1e-8)


def test_the_terminal_tells_what_was_found(run, rectified):
    text = run("factor", rectified, "-o", "out.npz").stdout
    for words in (
        "150 x 15",
        "2, chosen of 2 by held-out cells",
        "censored_als",
        "centered (latent vectors",
        "iterations",
    ):
        assert words in text
    assert "error on held-out cells" in text
    assert [line.split()[0] for line in text.splitlines() if line.endswith("chosen ")] == ["2"]
    assert "Factors written to out.npz" in text
    recovery = unrelu.ReLUMatrixRecovery.load("out.npz")
    strongest = NAMES[int(np.argmax(np.abs(recovery.components_[0])))]
    line = next(line for line in text.splitlines() if line.split()[:1] == ["c0"])
    assert f"  {strongest} " in line


def test_json_has_the_same_facts(run, folder, rectified, hidden):
    answer = answer_of(run("factor", rectified, "-o", "out.npz", "--hidden", "T.npy", "--json"))
    recovery = unrelu.ReLUMatrixRecovery.load("out.npz")
    assert answer["report"]["n_components"] == 2
    assert answer["report"]["residual"] < 1e-11
    assert answer["report"]["share_floored"] == pytest.approx(np.mean(hidden <= 0.0))
    assert [rank for rank, _ in answer["report"]["component_errors"]] == [1, 2]
    assert (answer["factors"], answer["hidden"], answer["latent"]) == ("out.npz", "T.npy", None)
    assert (answer["warnings"], answer["resumed"], answer["weak_columns"]) == ([], None, [])
    low_rank = recovery.hidden() - recovery.bias_
    for index, component in enumerate(answer["components"]):
        part = np.outer(recovery.latent_[:, index], recovery.components_[index])
        assert component["share"] == pytest.approx(part.var(axis=0).sum() / low_rank.var(axis=0).sum())
        assert len(component["strongest"]) == 3
        top = component["strongest"][0]
        assert abs(top["loading"]) == pytest.approx(np.abs(recovery.components_[index]).max())
    assert sum(component["share"] for component in answer["components"]) == pytest.approx(1.0)


def test_shares_of_variance_without_a_bias(run, folder):
    """The latent vectors then have a mean, and no unit variance."""
    rng = np.random.default_rng(0)
    hidden = (rng.standard_normal((N, K)) + np.array([2.0, 0.0])) @ rng.standard_normal((K, D))
    write_table("X.npy", np.maximum(hidden, 0.0))
    answer = answer_of(run("factor", "X.npy", "--components", 2, "--gauge", "zero", "-o", "out.npz", "--json"))
    recovery = unrelu.ReLUMatrixRecovery.load("out.npz")
    np.testing.assert_allclose(recovery.hidden(), hidden, atol=1e-8)
    parts = [np.outer(recovery.latent_[:, m], recovery.components_[m]).var(axis=0).sum() for m in range(K)]
    shares = [component["share"] for component in answer["components"]]
    np.testing.assert_allclose(shares, np.array(parts) / hidden.var(axis=0).sum(), rtol=1e-6)


def test_floors_columns_and_gauge(run, folder, hidden):
    floors = np.linspace(-1.0, 1.0, D)
    write_table("X.csv", np.maximum(hidden + floors, floors), NAMES)
    listed = ",".join(f"{name}={level!r}" for name, level in zip(NAMES[:-1], floors.tolist(), strict=False))
    options = ["--floor", f"1.0,{listed}", "--gauge", "orthogonal", "--drop", '"Fe, total"', "--components", 2]
    result = run("factor", "X.csv", *options, "--hidden", "T.npy", "-o", "out.npz")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(np.load("T.npy"), (hidden + floors)[:, :-1], atol=1e-8)
    recovery = unrelu.ReLUMatrixRecovery.load("out.npz")
    assert recovery.gauge == "orthogonal"
    assert np.abs(recovery.components_ @ (recovery.bias_ - floors[:-1])).max() < 1e-8


def test_noise_after_the_floor_is_tolerated(run, folder, hidden):
    rng = np.random.default_rng(0)
    table = np.maximum(hidden, 0.0)
    table[table == 0.0] = rng.uniform(-1e-9, 1e-9, int((table == 0.0).sum()))
    write_table("X.npy", table)
    assert "below the floor" in run("factor", "X.npy", "--components", 2).stderr
    result = run(
        "factor", "X.npy", "--components", 2, "--floor-tolerance", "1e-8", "--hidden", "T.npy", "-o", "out.npz"
    )
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(np.load("T.npy"), hidden, atol=1e-6)


def test_missing_cells_are_filled_in(run, folder, hidden):
    table = np.maximum(hidden, 0.0)
    table[::7, 3] = np.nan
    write_table("X.csv", table, NAMES)
    result = run("factor", "X.csv", "--components", 2, "--hidden", "T.csv", "-o", "out.npz")
    assert "of the cells missing" in result.stdout
    np.testing.assert_allclose(rows_in("T.csv"), hidden, atol=1e-8)


@pytest.mark.parametrize("method", ["censored_als", "tobit_em"])
def test_every_method_can_be_named(run, rectified, hidden, method):
    result = run(
        "factor", rectified, "--components", 2, "--method", method, "--hidden", "T.npy", "-o", "out.npz", "--json"
    )
    answer = answer_of(result)
    assert answer["report"]["method"] == method
    # The published algorithms are still on their way after 500 iterations; values range from -8 to 10.
    assert np.abs(np.load("T.npy") - hidden).max() < 0.05


def test_noise_is_estimated(run, folder, hidden):
    noisy = np.maximum(hidden + 0.1 * np.random.default_rng(0).standard_normal(hidden.shape), 0.0)
    write_table("X.npy", noisy)
    result = run("factor", "X.npy", "--components", 2, "--method", "tobit_em", "-o", "out.npz", "--json")
    assert answer_of(result)["report"]["noise"] == pytest.approx(0.1, rel=0.15)
    assert "standard deviation inside the rectifier" in run("info", "out.npz").stdout


def test_weak_columns_are_named_and_weak_rows_counted(run, folder, hidden):
    hidden[:, 4] -= 20.0
    hidden[7] = -3.0
    write_table("X.csv", np.maximum(hidden, 0.0), NAMES)
    result = run("factor", "X.csv", "--components", 2, "-o", "out.npz")
    assert result.exit_code == 0
    columns, rows = result.stderr.splitlines()
    assert columns.startswith("Warning: Not determined by their values above the floor: column 4 ('s4').")
    assert "--drop" in columns
    assert rows.startswith("Warning: 1 of 150 rows ")
    assert not any(word in result.stderr for word in ("hidden()", "components_", "row_identifiable_"))
    shown = [" ".join(line.split()) for line in result.stdout.splitlines() if line.startswith("weak")]
    assert [line[: line.index("(") + 11] for line in shown] == [
        "weak columns s4 (too seldom",
        "weak rows 1 (too seldom",
    ]
    answer = answer_of(run("factor", "X.csv", "--components", 2, "-o", "out.npz", "--json"))
    assert (answer["weak_columns"], answer["report"]["weak_rows"]) == (["s4"], 1)
    assert len(answer["warnings"]) == 2


def test_too_high_a_rank_is_a_warning(run, folder, hidden):
    write_table("X.npy", hidden + 20.0)  # all values are seen
    result = run("factor", "X.npy", "--components", 4, "-o", "out.npz")
    assert result.exit_code == 0
    assert "the table needs no more than 2. Lower --components." in result.stderr


def test_a_picture(run, folder, rectified):
    result = run("factor", rectified, "-o", "out.npz", "--picture", "p.png")
    assert result.exit_code == 0, result.stderr
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "Picture written to p.png" in result.stdout


# --- sparse tables --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_tables_are_read(run, folder, hidden, form):
    table = np.maximum(hidden, 0.0)
    scipy.sparse.save_npz("X.npz", scipy.sparse.csr_array(table).asformat(form))
    write_table("X.npy", table)
    picture = ["--picture", "p.png"] if form == "csr" else []  # drawn from what was read, whatever its form
    assert run("factor", "X.npz", "--components", 2, *picture, "-o", "sparse.npz").exit_code == 0
    assert run("factor", "X.npy", "--components", 2, "-o", "dense.npz").exit_code == 0
    one, two = (unrelu.ReLUMatrixRecovery.load(name) for name in ("sparse.npz", "dense.npz"))
    np.testing.assert_allclose(one.hidden(), two.hidden(), atol=1e-9)
    np.testing.assert_allclose(one.hidden(), hidden, atol=1e-8)


def test_sparse_files_are_joined_and_their_columns_chosen(run, folder, hidden):
    table = np.maximum(hidden, 0.0)
    for name, part in (("1.npz", table[:70]), ("2.npz", table[70:])):
        scipy.sparse.save_npz(name, scipy.sparse.csr_array(part))
    result = run("factor", "[12].npz", "--components", 2, "--drop", "3,14", "--hidden", "T.npy", "-o", "out.npz")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(np.load("T.npy"), np.delete(hidden, [3, 14], axis=1), atol=1e-8)


def test_unusable_sparse_tables_are_refused(run, refused, folder, hidden, rectified):
    table = scipy.sparse.csr_array(np.maximum(hidden, 0.0))
    scipy.sparse.save_npz("X.npz", table)
    assert "no column number 15" in refused(run("factor", "X.npz", "--drop", "15", "-o", "out.npz"))
    assert "give files of one kind" in refused(run("factor", "X.npz", rectified, "-o", "out.npz"))
    assert "--floor 0" in refused(run("factor", "X.npz", "--floor", 1, "--components", 2, "-o", "out.npz"))
    scipy.sparse.save_npz("narrow.npz", table[:, :4])
    assert "narrow.npz: has no column number 4 (the first is 0), but X.npz has" in refused(
        run("factor", "X.npz", "narrow.npz", "-o", "out.npz")
    )
    negative = table.copy()
    negative.data[5] = -2.0
    scipy.sparse.save_npz("negative.npz", negative)
    line = refused(run("factor", "negative.npz", "--components", 2, "-o", "out.npz"))
    assert "Stored values of the sparse table (1) are negative" in line
    assert "-2" in line
    np.savez("damaged.npz", format=np.array(b"csr"), shape=np.array([2, 2]), data=np.ones(3))
    assert "not a whole file of scipy.sparse" in refused(run("factor", "damaged.npz", "-o", "out.npz"))
    scipy.sparse.save_npz("complex.npz", scipy.sparse.csr_array(np.eye(3) * 1j))
    assert "complex128, not numbers" in refused(run("factor", "complex.npz", "-o", "out.npz"))


# --- states ---------------------------------------------------------------------------------------


def test_a_run_cut_short_goes_on_from_its_state(run, folder, rectified, hidden):
    options = [
        "factor",
        rectified,
        "--components",
        2,
        "--state",
        "s.npz",
        "--hidden",
        "T.npy",
        "-o",
        "out.npz",
        "--json",
    ]
    scratch = answer_of(run("factor", rectified, "--components", 2, "-o", "scratch.npz", "--json"))["report"][
        "iterations"
    ]
    first = answer_of(run(*options, "--max-iter", scratch - 3))
    assert not first["report"]["converged"]
    assert first["state"] == "s.npz"
    assert "raise --max-iter, or go on from it (warm_start; --state keeps it in a file)" in first["warnings"][0]
    state = MatrixState.load("s.npz")
    second = answer_of(run(*options))
    assert second["resumed"] == {"iteration": scratch - 3, "residual": state.residual}
    assert second["report"]["residual"] < 1e-11
    assert 0 < second["report"]["iterations"] - state.iterations < scratch
    assert unrelu.ReLUMatrixRecovery.load("out.npz").n_iter_ == second["report"]["iterations"]
    assert (second["state"], second["warnings"]) == (None, [])
    np.testing.assert_allclose(np.load("T.npy"), hidden, atol=1e-8)
    assert not (folder / "s.npz").exists()


def test_the_terminal_tells_of_the_state(run, folder, rectified):
    options = ["factor", rectified, "--components", 2, "--state", "s.npz", "-o", "out.npz"]
    first = run(*options, "--max-iter", 5)
    assert "State kept in s.npz: run the same command again to go on." in first.stdout
    state = MatrixState.load("s.npz")
    second = run(*options)
    assert f"Resumed at iteration 5, residual {state.residual:.3g}." in second.stdout
    assert "State s.npz removed" in second.stdout
    assert second.stderr == ""


def test_an_interruption_keeps_the_state_and_says_how_to_go_on(run, folder, rectified, monkeypatch):
    original = Keeper.__call__

    def interrupted(keeper, step):
        original(keeper, step)
        if step.words.startswith("iteration 6,"):
            raise KeyboardInterrupt

    monkeypatch.setattr(Keeper, "__call__", interrupted)
    options = ["factor", rectified, "--state", "s.npz", "-o", "out.npz"]
    result = run(*options)
    assert result.exit_code == 130
    hint, last = result.stderr.splitlines()
    state = MatrixState.load("s.npz")
    assert hint == (
        f"Stopped at iteration 6 (relative residual {state.residual:.3g}), kept in s.npz. To go on, run the same again."
    )
    assert last == "Interrupted: nothing half-written is left."
    assert sorted(os.listdir(folder)) == ["X.csv", "s.npz"]
    monkeypatch.setattr(Keeper, "__call__", original)
    # The rank is not chosen again, and what was tried is not forgotten.
    monkeypatch.setattr("unrelu.recovery.matrix.matrix.choose_components", lambda *_: pytest.fail("the rank is known"))
    answer = answer_of(run(*options, "--json"))
    assert answer["resumed"]["iteration"] == 6
    assert [rank for rank, _ in answer["report"]["component_errors"]] == [1, 2]
    assert answer["report"]["residual"] < 1e-11


def test_an_interruption_while_the_rank_is_chosen_leaves_nothing(run, folder, rectified, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unrelu.recovery.matrix.matrix.choose_components", interrupted)
    result = run("factor", rectified, "--state", "s.npz", "-o", "out.npz")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[0].startswith("Stopped before the first iteration")
    assert os.listdir(folder) == ["X.csv"]
    assert run("factor", rectified, "-o", "out.npz").stderr == "Interrupted: nothing half-written is left.\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_ends_the_program_and_keeps_the_state(run, folder, hidden, number, code):
    noise = 0.3 * np.random.default_rng(4).standard_normal(hidden.shape)  # with it EM takes about twenty iterations
    rectified = folder / "X.csv"
    write_table(rectified, np.maximum(hidden + noise, 0.0), NAMES)
    script = (
        "import unrelu.recovery.matrix.state as state\n"
        "state.Keeper.__init__.__defaults__ = (None, 0.05)\n"  # every .05 seconds, so that the test need not wait
        "import time; hear = state.Keeper.__call__\n"  # iterations that take long, however small the table
        "state.Keeper.__call__ = lambda *heard: (hear(*heard), time.sleep(0.5))\n"
        "from unrelu.cli import main; main()\n"
    )
    options = [
        "factor",
        str(rectified),
        "--components",
        "2",
        "--method",
        "tobit_em",
        "--state",
        "s.npz",
        "-o",
        "out.npz",
    ]
    command = [sys.executable, "-c", script, *options, "--tol", "1e-300", "--max-iter", "100000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (folder / "s.npz").exists():
        assert time.monotonic() < deadline, "no state is being written"
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert out == ""
    assert "Traceback" not in err
    assert sorted(os.listdir(folder)) == ["X.csv", "s.npz"]
    state = MatrixState.load("s.npz")
    if number == signal.SIGINT:
        assert f"Stopped at iteration {state.iterations:,} " in err
    answer = answer_of(run(*options, "--max-iter", 3, "--json"))
    assert answer["resumed"]["iteration"] == state.iterations
    assert state.iterations < answer["report"]["iterations"] <= state.iterations + 3
    scratch = answer_of(run(*options[:-4], "--max-iter", 3, "-o", "new.npz", "--json"))
    # EM's noise rises from that of least squares: who went on is farther up.
    assert answer["report"]["residual"] > scratch["report"]["residual"]


def test_a_state_of_another_run_is_refused(run, refused, folder, rectified, hidden):
    assert (
        run("factor", rectified, "--components", 2, "--max-iter", 3, "--state", "s.npz", "-o", "ours.npz").exit_code
        == 0
    )
    before = (folder / "s.npz").read_bytes()
    other = np.maximum(hidden, 0.0)
    other[0, 0] += 1.0
    write_table("other.csv", other, NAMES)
    line = refused(run("factor", "other.csv", "--components", 2, "--state", "s.npz", "-o", "out.npz"))
    assert "s.npz is the state of another run: a table with other values." in line
    line = refused(run("factor", rectified, "--components", 3, "--state", "s.npz", "-o", "out.npz"))
    assert "--components 2, not 3" in line
    line = refused(run("factor", rectified, "--drop", "s3", "--gauge", "bayes", "--state", "s.npz", "-o", "out.npz"))
    assert "a table of 150 x 15, not 150 x 14; " in line
    assert "gauge centered, not bayes" in line
    assert (folder / "s.npz").read_bytes() == before


def test_only_a_state_is_taken_for_one(run, refused, folder, rectified):
    for content in (b"", b"my thesis"):
        (folder / "s.npz").write_bytes(content)
        line = refused(run("factor", rectified, "--components", 2, "--state", "s.npz", "-o", "out.npz"))
        assert "s.npz is not an unrelu saved state" in line
        assert (folder / "s.npz").read_bytes() == content


def test_the_state_stays_until_all_is_written(run, refused, folder, rectified, monkeypatch):
    def full(*_: object) -> None:
        raise unrelu.errors.OutputError("No space left while writing T.csv.")

    monkeypatch.setattr("unrelu.report.tables.write_table", full)
    options = ["factor", rectified, "--components", 2, "--state", "s.npz", "--hidden", "T.csv", "-o", "first.npz"]
    assert "No space left" in refused(run(*options))
    assert MatrixState.load("s.npz").residual < 1e-11
    monkeypatch.undo()
    os.chdir(folder)
    assert answer_of(run(*options, "--json"))["resumed"]["residual"] < 1e-11


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--components", "0"], "--components must be a whole number of at least 1, or auto; got '0'"),
        (["--components", "two"], "got 'two'"),
        (["--components", "15"], "--components 15 is not below both n_samples = 150 and n_features = 15"),
        (["--method", "censored_asl"], "Did you mean 'censored_als'?"),
        (["--method", "likelihood"], "--method likelihood needs the bias's density, a Python object"),
        (["--gauge", "centred"], "Did you mean 'centered'?"),
        (["--tol", "0"], "--tol must be a finite number above 0"),
        (["--floor", "half"], "'half' is not a finite number"),
        (["--floor", "0.5"], "say which with --floor"),
        (["--columns", "S1"], "Did you mean 's1'?"),
        (["--columns", "s1"], "--components 2 is not below both"),
        (["--hidden", "T.xlsx"], "T.xlsx: unknown kind of file. Known are .csv"),
        (["--latent", "T"], "unknown kind of file"),
        (["--picture", "p.doc"], "unknown kind of picture"),
        (["--hidden", "nowhere/T.csv"], "nowhere does not exist"),
        (["--state", "nowhere/s.npz"], "nowhere does not exist"),
        (["--state", "./out.npz"], "two outputs"),
        (["--hidden", "X.csv"], "also an input"),
    ],
)
def test_unusable_arguments_are_refused(run, refused, rectified, arguments, words):
    given = [] if "--components" in arguments else ["--components", 2]
    before = rectified.read_bytes()
    assert words in refused(run("factor", rectified, *given, *arguments, "-o", "out.npz"))
    assert rectified.read_bytes() == before


@pytest.mark.parametrize("arguments", [["factor"], ["factor", "X.csv", "--max-iter", "0"], ["factor", "X.csv", "--no"]])
def test_wrong_usage_is_explained_by_typer(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage" in result.stderr


@pytest.mark.parametrize("rank", ["auto", "1"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n", "1 row"),
        ("a,b,c\n0,0,0\n0,0,0\n0,0,0\n", "oo few values above the floor"),
        ("a,b,c\n,,\n,,\n,,\n", "oo few values above the floor"),
        ("a\n1\n2\n3\n", ""),
        ("a,b\n1,x\n2,3\n", "row 1 (line 2), column 'b': 'x' is not a number"),
        ("a,b\n1,-2\n2,3\n3,4\n", "column 1 ('b')"),
        ("a,b\n1,inf\n2,3\n3,4\n", "column 1 ('b')"),
    ],
)
def test_unusable_tables_are_refused(run, refused, folder, text, words, rank):
    (folder / "bad.csv").write_text(text)
    line = refused(run("factor", "bad.csv", "--components", rank, "-o", "out.npz"))
    assert words in line


def test_unreadable_files_are_refused(run, refused, folder):
    assert "no such file" in refused(run("factor", "nowhere.csv", "-o", "out.npz"))
    assert "no file matches" in refused(run("factor", "no*.npz", "-o", "out.npz"))
    assert "is a folder" in refused(run("factor", ".", "-o", "out.npz"))
    for name in ("X.npz", "X.npy", "X.parquet"):
        (folder / name).write_bytes(b"nonsense, and more of it")
        assert f"{name}: " in refused(run("factor", name, "-o", "out.npz"))


def test_everything_is_checked_before_anything_is_read(run, refused, rectified, monkeypatch):
    monkeypatch.setattr("unrelu.tables.files.FileSamples.blocks", lambda _: pytest.fail("read before checking"))
    for arguments in (
        ["-o", "nowhere/out.npz"],
        ["--hidden", "T.xlsx"],
        ["--picture", "p.doc"],
        ["--components", "0"],
        ["--method", "x"],
        ["--gauge", "x"],
        ["--tol", "-1"],
    ):
        refused(run("factor", rectified, *arguments))


# --- on the terminal ------------------------------------------------------------------------------


def test_progress_is_drawn_on_a_terminal_only(run, on_terminal, rectified):
    command = ("factor", rectified, "--components", 2, "-o", "out.npz")
    assert run(*command).stderr == ""
    drawn, printed = on_terminal(*command)
    assert "Recovering" in drawn
    assert "iteration" in drawn
    assert "Recovering" not in printed


def test_progress_shows_iterations_and_ranks(rectified, run, monkeypatch):
    shown = []
    monkeypatch.setattr("unrelu.cli.frame.meter", lambda _: lambda step: shown.append(step.words))
    assert run("factor", rectified, "-o", "out.npz").exit_code == 0
    choosing = [words for words in shown if words.startswith("held-out error by number 1: 0.")]
    assert ", 2: " in choosing[1]
    assert next(words for words in shown if words.startswith("iteration")).startswith("iteration 1, residual ")
    report = unrelu.ReLUMatrixRecovery.load("out.npz").report_
    assert shown[-1] == f"iteration {report.iterations}, residual {report.residual:.1e}"


def test_help_imports_nothing_heavy(folder):
    script = (
        "import sys\nfrom unrelu.cli import main\nsys.argv = ['unrelu', 'factor', '--help']\n"
        "try:\n    main()\nfinally:\n    sys.stderr.write(' '.join(sys.modules))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "--components" in result.stdout
    assert not {"numpy", "scipy", "sklearn", "matplotlib", "pyarrow"} & set(result.stderr.split())


# --- info -----------------------------------------------------------------------------------------


def test_info_of_a_factors_file(run, rectified):
    fitted = answer_of(run("factor", rectified, "-o", "out.npz", "--json"))
    result = run("info", "out.npz")
    assert result.exit_code == 0
    for words in ("unrelu.ReLUMatrixRecovery 5", unrelu.__version__, "150 x 15", "error on held-out cells", "c1"):
        assert words in result.stdout
    answer = answer_of(run("info", "out.npz", "--json"))
    assert answer["report"] == fitted["report"]
    assert answer["components"] == fitted["components"]
    assert answer["floor"] == [0.0] * D


def test_info_of_a_state(run, rectified):
    run("factor", rectified, "--components", 2, "--max-iter", 3, "--state", "s.npz", "-o", "out.npz")
    result = run("info", "s.npz")
    assert result.exit_code == 0
    for words in ("unrelu.MatrixState 5", "150 x 15", "censored_als", "--state s.npz"):
        assert words in result.stdout
    answer = answer_of(run("info", "s.npz", "--json"))
    assert (answer["iterations"], answer["n_components"], answer["shape"]) == (3, 2, [N, D])


def test_a_damaged_factors_file_is_refused(run, refused, folder, rectified):
    run("factor", rectified, "--components", 2, "-o", "f.npz")
    with np.load("f.npz") as archive:
        arrays = {name: archive[name] for name in archive.files if not name.endswith("loadings")}
        assert len(arrays) < len(archive.files)
    np.savez("f.npz", **arrays)
    assert "f.npz" in refused(run("info", "f.npz"))


def test_margins_and_the_hidden_table_in_the_users_units(run, folder):
    rng = np.random.default_rng(0)
    true = np.exp(0.8 * rng.standard_normal((150, 1)) @ rng.uniform(0.5, 1.5, (1, 5)))
    write_table(folder / "rows.csv", np.maximum(true, 0.7), list("abcde"))
    options = ("--floor", "0.7", "--margins", "log", "--components", 1, "--hidden", "hidden.csv", "--picture", "f.png")
    result = run("factor", "rows.csv", "-o", "out.npz", *options)
    assert result.exit_code == 0, result.stderr
    hidden = np.loadtxt(folder / "hidden.csv", delimiter=",", skiprows=1)
    recovery = unrelu.load(folder / "out.npz")
    known = recovery.row_identifiable_
    assert known.mean() > 0.6
    np.testing.assert_allclose(hidden[known], true[known], rtol=1e-6)
    np.testing.assert_allclose(recovery.floor_, 0.7)
    np.testing.assert_allclose(recovery.inverse_transform(recovery.latent_), np.maximum(hidden, 0.7), rtol=1e-9)
    assert "a log, b log" in " ".join(run("info", "out.npz").stdout.split())


def test_a_monotone_margin_goes_on_below_a_floor_above_zero_alone(run, skewed, skewed_rows):
    options = ("--components", 1, "--method", "tobit_em", "--hidden", "h.csv")
    result = run("factor", skewed, "--floor", "As=0.5", "--margins", "monotone", *options)
    assert result.exit_code == 0
    assert len(result.stderr.splitlines()) == 1  # rows with too few values
    assert "too few values above the floor" in result.stderr
    arsenic, *others = np.loadtxt("h.csv", delimiter=",", skiprows=1).T
    hidden = arsenic[skewed_rows[:, 0] == 0.5]
    assert (hidden > 0.0).all()
    assert (hidden <= 0.5).all()
    assert (hidden < 0.5).mean() > 0.5
    for of, x in zip(others, skewed_rows[:, 1:].T, strict=True):
        assert (of[x == 0.0] == 0.0).all()


def test_margins_need_dense_tables(run, refused, folder):
    scipy.sparse.save_npz(folder / "rows.npz", scipy.sparse.csr_array(np.eye(20)))
    line = refused(run("factor", "rows.npz", "--margins", "monotone", "-o", "out.npz"))
    assert "--margins goes with dense tables: write it as one." in line
