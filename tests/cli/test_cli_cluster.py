"""``--scheduler``: a scheduler and workers started by hand, as docs/scale.md has it, and a fit against them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("distributed", reason='the cluster tests need Dask: pip install "unrelu[dask]"')

import unrelu
from tests.passes.cluster_by_hand import by_hand
from unrelu.passes import dask_engine
from unrelu.tables.write import write_table

SHORT_PATIENCE = """
import sys
from unrelu.cli.app import app
from unrelu.passes import dask_engine
dask_engine._NO_WORKER_SECONDS = 3.0
app(sys.argv[1:])
"""
X = unrelu.synthetic.random_model(3, random_state=0).sample(2000, random_state=1)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """The address of a scheduler with two workers."""
    with by_hand(tmp_path_factory.mktemp("cluster"), workers=2) as cluster:
        yield cluster.address


def test_a_fit_by_workers_started_by_hand(scheduler, folder, run):
    for k in range(4):
        write_table(folder / f"{k}.parquet", X[500 * k : 500 * (k + 1)], ["As", "Pb", "Zn"])
    given = ("fit", "*.parquet", "--json", "--method", "one_pass")
    answer = run(*given, "-o", "here.npz")
    command = [sys.executable, "-m", "unrelu", *given, "-o", "apart.npz", "--scheduler", scheduler]
    by_workers = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (answer.stderr, by_workers.stderr) == ("", "")
    found = {"here": json.loads(answer.stdout), "apart": json.loads(by_workers.stdout)}
    here, apart = (unrelu.load(f"{name}.npz") for name in ("here", "apart"))
    np.testing.assert_allclose(apart.covariance, here.covariance, rtol=1e-10)
    np.testing.assert_allclose(apart.mean, here.mean, rtol=1e-10)
    assert found["apart"]["report"]["n_rows"] == found["here"]["report"]["n_rows"] == 2000


def test_a_cell_below_the_floor_is_named_with_its_line(scheduler, tmp_path, run):
    path = tmp_path / "x.csv"
    path.write_text("As,Pb\n" + "1,2\n3,0\n" * 20 + "1,-5\n")
    result = run("fit", path, "-o", tmp_path / "m.npz", "--scheduler", scheduler)
    assert result.exit_code == 2
    assert "(1, first in row 41 (line 42))" in result.stderr


def test_commands_that_need_all_rows_say_so(scheduler, tmp_path, run):
    write_table(tmp_path / "x.npy", X)
    result = run("factor", tmp_path / "x.npy", "--components", "1", "--scheduler", scheduler)
    assert result.exit_code == 2
    assert "needs all rows in memory" in result.stderr
    assert "without --scheduler" in result.stderr


def test_no_scheduler_there(tmp_path, run, monkeypatch):
    monkeypatch.setattr(dask_engine, "_CONNECT_SECONDS", 0.5)
    write_table(tmp_path / "x.npy", X)
    result = run("fit", tmp_path / "x.npy", "-o", tmp_path / "m.npz", "--scheduler", "127.0.0.1:9")
    assert result.exit_code == 2
    assert "No Dask scheduler answers at '127.0.0.1:9'. Start one with 'dask scheduler'" in result.stderr
    assert not os.path.exists(tmp_path / "m.npz")


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["scheduler", "workers"])
def test_a_cluster_lost_in_mid_fit_is_one_line(tmp_path, lost):
    """Many short passes: some of the losses are met between two of them."""
    write_table(tmp_path / "x.npy", X[:600])
    out = ("-o", "m.npz", "--method", "robust", "--scheduler")
    with by_hand(tmp_path, workers=1) as cluster:
        command = [sys.executable, "-c", SHORT_PATIENCE, "fit", "x.npy", *out, cluster.address]
        fit = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        cluster.wait_for_work()
        began = time.monotonic()
        (cluster.scheduler if lost == "scheduler" else cluster.workers[0]).send_signal(signal.SIGKILL)
        stdout, stderr = fit.communicate(timeout=60)
    assert time.monotonic() - began < 30.0
    assert fit.returncode == 2
    assert stdout == ""
    assert "Traceback" not in stderr
    assert f"The Dask scheduler at {cluster.address} " in stderr
    assert {"scheduler": "is gone", "workers": "has lost all of its workers"}[lost] in stderr
    assert "and fit again" in stderr
    assert not os.path.exists(tmp_path / "m.npz")
