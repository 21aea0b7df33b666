"""Passes that are interrupted and go on: the same digits, no block twice, and refused where anything is different."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unrelu
from tests.references.commands import invoke
from tests.warned import warns
from unrelu.errors import InvalidParameterError, ModelFileError
from unrelu.passes import checkpoints
from unrelu.passes import rows as blocks
from unrelu.tables import open_samples, write_table

X = unrelu.synthetic.random_model(3, random_state=0).sample(4000, random_state=1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    return tmp_path


def write_files(extension: str = "parquet") -> None:
    for number in range(4):
        write_table(f"{number}.{extension}", X[1000 * number : 1000 * (number + 1)], ["a", "b", "c"])


def fitted(pattern: str = "*.parquet", checkpoint: str | None = "ck", progress=None, groups=None, **asked):
    stderr = {"stderr": "jackknife"} if groups is not None else {}
    learner = unrelu.RectifiedGaussianLearner("one_pass", floor=asked.pop("floor", 0.0), margins="normal", **stderr)
    if progress is not None:
        learner.with_progress(progress)
    rows = open_samples(pattern, checkpoint=checkpoint, block_rows=asked.pop("block_rows", 300), **asked)
    return learner.fit(rows, groups=groups)


def stop_after(rows: int, stop: type[BaseException] = KeyboardInterrupt):
    def progress(step):
        if step.done >= rows:
            raise stop

    return progress


def interrupted(rows: int = 1500, **asked) -> BaseException:
    with pytest.raises(KeyboardInterrupt) as caught:
        fitted(progress=stop_after(rows), **asked)
    return caught.value


def same(one, other) -> None:
    for name in ("count", "cross", "masked_sum", "masked_square", "origin", "n_rows", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.margins.sums, other.margins.sums)
    np.testing.assert_array_equal(one.margins.ends, other.margins.ends)


@pytest.mark.parametrize("extension", ["parquet", "csv", "npy"])
@pytest.mark.parametrize("rows", [1, 1500, 3999])
def test_an_interrupted_pass_ends_with_the_same_digits(extension, rows):
    write_files(extension)
    plain = fitted(f"*.{extension}", None)
    stopped = interrupted(rows, pattern=f"*.{extension}")
    reached = unrelu.load("ck").n_rows
    assert rows <= reached <= 4000
    assert stopped.__notes__ == [f"Row {reached:,} was reached: do the same again to go on from ck."]
    first = []
    learner = fitted(f"*.{extension}", progress=lambda step: first.append(step.done))
    assert first[0] == reached
    same(learner.record_, plain.record_)
    np.testing.assert_array_equal(learner.covariance_, plain.covariance_)


def test_several_interrupts_and_a_pass_that_is_over():
    write_files()
    for rows in (400, 1000, 2900):
        interrupted(rows)
    plain = fitted(checkpoint=None)
    same(fitted().record_, plain.record_)
    steps = []
    same(fitted(progress=lambda step: steps.append(step.done)).record_, plain.record_)
    assert steps[0] == 4000  # nothing was read


def test_groups_of_rows_go_on_as_well(monkeypatch):
    monkeypatch.setattr("unrelu.tables.groups._LONG_ROWS", 700)
    write_files()
    labels = np.arange(4000) % 7
    plain = fitted(checkpoint=None, groups=labels)
    interrupted(1500, groups=labels)
    learner = fitted(groups=labels)
    for one, other in zip(learner.record_.parts, plain.record_.parts, strict=True):
        same(one, other)
    interrupted_again = pytest.raises(InvalidParameterError, match="settings")
    with interrupted_again:
        fitted(groups=labels[::-1].copy())


@pytest.mark.parametrize(
    ("change", "asked", "said"),
    [
        (lambda: os.utime("2.parquet", ns=(1, 1)), {}, "2.parquet has changed since"),
        (lambda: os.remove("3.parquet"), {}, "it is of other files"),
        (None, {"drop": "b"}, r"it is of other columns \(a, b, c\)"),
        (None, {"floor": -1.0}, "settings"),
        (None, {"block_rows": 200}, "settings"),
        (None, {"limits": "missing"}, "settings"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(change, asked, said):
    write_files()
    interrupted()
    before = Path("ck").read_bytes()
    if change is not None:
        change()
    with pytest.raises(InvalidParameterError, match=f"Cannot go on from the checkpoint ck: .*{said}.* Remove it"):
        fitted(**asked)
    assert Path("ck").read_bytes() == before


def test_a_file_that_is_no_checkpoint_is_never_written_over():
    write_files()
    fitted(checkpoint=None).save("learner.npz")
    before = Path("learner.npz").read_bytes()
    with pytest.raises(ModelFileError, match="not an unrelu checkpoint"):
        fitted(checkpoint="learner.npz")
    assert Path("learner.npz").read_bytes() == before


def test_no_space_for_the_checkpoint(monkeypatch):
    write_files()
    interrupted(900)
    before = Path("ck").read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("unrelu.storage.files.os.fsync", full)
        with warns("not-saved", match="No space left while writing") as noted:
            learner = fitted()
    assert len(noted) == 1
    assert Path("ck").read_bytes() == before
    same(learner.record_, fitted(checkpoint=None).record_)
    assert os.listdir().count("ck") == 1
    assert not [name for name in os.listdir() if name.endswith(".part")]


def test_other_passes_and_other_sources(tmp_path):
    write_files()
    learner = fitted()
    rows = open_samples("*.parquet", checkpoint="ck")
    assert len(learner.score_samples(rows)) == 4000
    for paths, more in (("-", {}), ("*.parquet", {"scheduler": "tcp://127.0.0.1:1"})):
        with pytest.raises(InvalidParameterError, match="checkpoint="):
            open_samples(paths, checkpoint="ck", **more)


SLOWED = """
import os, sys, time
from unrelu.passes import checkpoints, engine, rows
checkpoints.SECONDS, rows.NARROW_CELLS = 0.0, 1
plain = engine.pace
def slow(*given):
    if os.path.exists("ck"):  # in the pass that is saved: the columns' margins were looked at before
        print("block", flush=True)
        time.sleep(0.05)
    return plain(*given)
engine.pace = slow
from unrelu.cli import main
main()
"""


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_ended_in_mid_pass(kind, monkeypatch):
    monkeypatch.setattr(blocks, "NARROW_CELLS", 1)  # as there: several blocks
    for number in range(4):
        write_table(f"{number}.csv", np.tile(X, (6, 1)), ["a", "b", "c"])
    command = ["fit", "*.csv", "--checkpoint", "ck", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOWED, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(5):
        assert process.stdout.readline() == "block\n"
    process.send_signal(kind)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if kind == signal.SIGINT else -signal.SIGKILL), said
    reached = unrelu.load("ck").n_rows
    assert 0 < reached < 96_000
    if kind == signal.SIGINT:
        assert f"Row {reached:,} was reached: do the same again to go on from ck." in said
    for options in (["-o", "whole.npz", "--method", "one_pass"], ["--checkpoint", "ck"]):
        done = invoke("fit", "*.csv", "--json", *options)
        assert (done.exit_code, json.loads(done.stdout)["report"]["n_rows"]) == (0, 96_000)
    whole, model = (unrelu.RectifiedGaussian.load(name) for name in ("whole.npz", "model.npz"))
    np.testing.assert_array_equal(model.covariance, whole.covariance)
    assert not Path("ck").exists()
