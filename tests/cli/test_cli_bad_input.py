"""Every bad input at the command line: exit 2, one clear line, no traceback, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from unrelu.cli.app import app
from unrelu.cli.frame import check_outputs
from unrelu.cli.options import Output

HEAD = "As,Pb\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        (HEAD, "no rows"),
        (HEAD + "1,2\n", "at least two"),
        (HEAD + "1,2\n3,abc\n", "row 2 (line 3), column 'Pb': 'abc' is not a number"),
        (HEAD + "1,<0.5\n3,<0.1\n", "Every cell is cut off at a limit in column 1 ('Pb')"),
        (HEAD + "1,\n2,\n3,\n", "No value at all in column 1 ('Pb')"),
        (HEAD + "1,2\ninf,3\n0,1\n", "infinite"),
        (HEAD + "1,2\n-1.5,3\n0,1\n", "or take --floor min"),
        (HEAD + "1,0\n2,0\n0,0\n", "Never above its floor in 3 rows: column 1 ('Pb')"),
        (HEAD + "1,2\n3\n", "row 2 (line 3) has 1 cell"),
        ("As,As\n1,2\n3,4\n", "occurs twice"),
    ],
)
def test_unusable_tables_are_refused(run, refused, folder, text, words):
    (folder / "bad.csv").write_text(text)
    assert words in refused(run("fit", "bad.csv", "-o", "out.npz"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.csv"], "no such file"),
        (["nowhere-*.csv"], "no file matches"),
        (["empty"], "is a folder without tables"),
        (["rows.csv", "--where", "As >"], "--where"),
        (["rows.csv", "--where", "Zn > 1"], "no column 'Zn', which --where compares"),
        (["rows.csv", "--where", "As < 0"], "No row meets --where"),
        (["rows.csv", "--checkpoint", "c", "--method", "robust"], "use --method one_pass"),
        (["-", "--checkpoint", "c"], "--checkpoint is for files"),
        (["rows.csv", "--method", "one_pas"], "Did you mean 'one_pass'?"),
        (["rows.csv", "--components", "4"], "--components must be between 1 and 3"),
        (["rows.csv", "--floor", "half"], "'half' is not a finite number"),
        (["rows.csv", "--floor", "nan"], "'nan' is not a finite number"),
        (["rows.csv", "--floor", "as=0.5"], "Did you mean 'As'?"),
        (["rows.csv", "--columns", "As,Zn"], "no column 'Zn'"),
        (["rows.csv", "--drop", "As,Pb,Fe"], "no column is left"),
        (["rows.csv", "--picture", "picture.doc"], "unknown kind of picture"),
        (["rows.csv", "--picture", "./out.npz"], "two outputs"),
    ],
)
def test_unusable_arguments_are_refused(run, refused, table, folder, arguments, words):
    (folder / "empty").mkdir()
    assert words in refused(run("fit", *arguments, "-o", "out.npz"))


def test_an_unknown_kind_of_file_is_refused(run, refused, folder):
    (folder / "rows.sqlite").write_text("x")
    assert "unknown kind of file" in refused(run("fit", "rows.sqlite", "-o", "out.npz"))


@pytest.mark.parametrize("arguments", [["fit"], ["fit", "rows.csv", "--seed", "x"], ["sample"], ["fly"]])
def test_wrong_usage_is_explained_by_typer(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    assert "Usage" in result.stderr


# --- outputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("nowhere/out.npz", "nowhere does not exist"),
        (".", "is a folder"),
        ("-", "give a file name"),
        ("rows.csv", "also an input"),
    ],
)
def test_outputs_are_checked_before_anything_is_read(run, refused, table, monkeypatch, output, words):
    monkeypatch.setattr("unrelu.tables.open_samples", lambda *_, **__: pytest.fail("read before checking"))
    before = table.read_bytes()
    assert words in refused(run("fit", table, "-o", output))
    assert table.read_bytes() == before


def test_checking_does_not_disturb_a_pipe(folder):
    os.mkfifo(folder / "pipe")
    check_outputs([Output(folder / "pipe")])  # opening it would wait for a reader
    assert os.listdir(folder) == ["pipe"]


def test_an_output_in_a_folder_without_permission_is_refused(run, refused, folder, table):
    closed = Path("/sys") if os.geteuid() == 0 else folder / "closed"  # permissions do not bind root
    if closed.name == "closed":
        closed.mkdir(mode=0o555)
    elif not closed.exists():
        pytest.skip("no folder here refuses root")
    line = refused(run("fit", table, "-o", closed / "out.npz"))
    assert ("Cannot write" if closed == Path("/sys") else "not writable") in line


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rows.csv", "rows.csv: File too large"),
        pytest.param("rows.csv.gz", "rows.csv.gz: File too large", marks=pytest.mark.slow),
        ("rows.parquet", "rows.parquet: File too large"),
        pytest.param("rows.feather", "rows.feather: File too large", marks=pytest.mark.slow),
        ("rows.npy", "is the disk full?"),  # numpy says no more than that it wrote too little
    ],
)
def test_a_full_disk_leaves_nothing_of_a_table(run, refused, folder, model, name, words):
    with small_files_only():
        result = run("sample", model, "-n", 2000, "-o", name)
    line = refused(result)
    assert "Cannot write" in line
    assert name in line
    assert words in line
    assert os.listdir(folder) == [model.name]


def test_a_full_disk_leaves_the_old_model_as_it_was(run, refused, folder, table):
    (folder / "out.npz").write_bytes(b"old")
    run(
        "fit", table, "--method", "one_pass", "-o", "warm.npz"
    )  # compiled code is kept on disk, which a full one would refuse
    with small_files_only():
        result = run("fit", table, "--method", "one_pass", "-o", "out.npz")
    assert "out.npz" in refused(result, allowed={"out.npz"})
    assert (folder / "out.npz").read_bytes() == b"old"


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
NO_SPACE = "Error: Cannot write to standard output: No space left on device.\n"


@FULL
def test_a_full_standard_output_is_reported_by_the_program(program, model):
    with open("/dev/full", "w") as full:
        result = program("info", model, stdout=full)
    assert result.returncode == 2
    assert result.stderr == NO_SPACE


@FULL
@pytest.mark.parametrize("arguments", [["info", "--json"], ["sample"], ["sample", "-n", "100000"]])
def test_a_full_standard_output_is_reported(folder, model, monkeypatch, capsys, arguments):
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as end:
            app([arguments[0], str(model), *arguments[1:]])
    assert end.value.code == 2
    assert capsys.readouterr().err == NO_SPACE


@contextlib.contextmanager
def small_files_only() -> Iterator[None]:
    """As on a full disk: no file of this process may grow beyond 1,000 bytes; Python writes none of its own."""
    limits, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        sys.dont_write_bytecode = compiled


# --- model files ----------------------------------------------------------------------------------


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def _corrupted(path: Path) -> None:
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("covariance.npy").header_offset + 170
    data[start : start + 16] = bytes(16)
    path.write_bytes(data)


def _newer(path: Path) -> None:
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    header["format_version"] += 10
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


def _foreign(path: Path) -> None:
    np.savez(path, X=np.ones((3, 2)))


@pytest.mark.parametrize("command", [["info"], ["info", "--json"], ["sample"], ["sample", "-o", "rows.csv"]])
@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_truncated, "damaged"),
        (_corrupted, "damaged"),
        (_newer, "newer unrelu"),
        (_foreign, "not an unrelu model file"),
        (Path.unlink, "There is no model file"),
        (lambda path: path.write_bytes(b""), "damaged"),
    ],
)
def test_a_harmed_model_file_is_refused(run, refused, folder, model, command, harm, words):
    harm(model)
    assert words in refused(run(command[0], model, *command[1:]))
    assert not (folder / "rows.csv").exists()


def test_a_folder_is_no_model_file(run, refused, folder):
    assert "is a folder" in refused(run("info", folder))


# --- the other commands ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "rows.xlsx"], "unknown kind of file"),
        (["-o", "nowhere/rows.csv"], "does not exist"),
        (["-o", "truth.npz"], "also an input"),
        (["--json"], "--json needs --output"),
    ],
)
def test_sample_refuses(run, refused, model, arguments, words):
    before = model.read_bytes()
    assert words in refused(run("sample", model, *arguments))
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-d", "3", "-k", "4", "-o", "rows.csv"], "--components must be at most d = 3"),
        (["-d", "3", "-k", "1", "--condition-number", "2", "-o", "rows.csv"], "--condition-number 1: leave it out"),
        (["-d", "3", "-o", "rows.doc"], "unknown kind of file"),
        (["-d", "3", "-o", "rows.csv", "--truth", "nowhere/truth.npz"], "does not exist"),
        (["-d", "3", "-o", "same.npz", "--truth", "same.npz"], "two outputs"),
        (["-d", "3", "-o", "-", "--json"], "--json needs --output"),
    ],
)
def test_simulate_refuses(run, refused, folder, arguments, words):
    assert words in refused(run("simulate", "-n", "10", *arguments))
    assert os.listdir(folder) == []


def test_demo_refuses_a_file_in_place_of_its_folder(run, refused, folder):
    (folder / "taken").write_text("x")
    assert "it is a file" in refused(run("demo", "-o", "taken"))
    assert "taken" in refused(run("demo", "-o", "taken/below"))
