"""Schedulers and workers that are lost for good: one clear error within a bounded time, and never a hang."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("distributed", reason='the cluster tests need Dask: pip install "unrelu[dask]"')

import dask.array as da
from distributed import Client

from tests.passes.cluster_by_hand import by_hand
from tests.passes.cluster_questions import RowsQuestion, in_order
from unrelu.errors import ClusterError
from unrelu.passes import dask_engine
from unrelu.passes.dask_engine import DaskEngine
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables import ArraySamples
from unrelu.tables.dask_rows import DaskSamples

X = np.random.default_rng(0).random((2000, 3))
ROWS = DaskSamples(da.from_array(X, chunks=(100, 3)))
PAIRS = PairMomentsQuestion((0.0,) * 3, (0.0,) * 3)
GONE = r"The Dask scheduler at tcp://127.* is gone, does not answer, or has dropped the work.*fit again\."

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(dask_engine, "_NO_WORKER_SECONDS", 3.0)
    monkeypatch.setattr(dask_engine, "_ROLL_CALL_SECONDS", 0.5)
    monkeypatch.setattr(dask_engine, "_ANSWER_SECONDS", 2.0)
    with by_hand(tmp_path, workers=2) as found:
        yield found


def after_the_first_part(engine_of, action):
    """The error of a pass during which, once some rows are read, something happens; and how long it took to tell."""
    began, happened = threading.Event(), []

    def act():
        began.wait(30.0)
        happened.append(time.monotonic())
        action()

    thread = threading.Thread(target=act)
    thread.start()
    engine = engine_of(lambda step: began.set() if step.done else None)
    try:
        with pytest.raises(ClusterError) as caught:
            engine.collect(ROWS, RowsQuestion(0.2))
        return str(caught.value), time.monotonic() - happened[0]
    finally:
        began.set()
        thread.join()


@pytest.mark.parametrize(("how", "seconds"), [(signal.SIGKILL, 5.0), (signal.SIGSTOP, 8.0)], ids=["killed", "stopped"])
def test_a_scheduler_lost_in_mid_pass(cluster, how, seconds):
    """One that is stopped, as on a machine that hangs, still has its connections open."""
    said, waited = after_the_first_part(
        lambda progress: DaskEngine(cluster.address, progress), lambda: cluster.scheduler.send_signal(how)
    )
    assert "is gone, does not answer, or has dropped the work" in said
    assert cluster.address in said
    assert waited < seconds


def test_all_workers_lost_in_mid_pass(cluster):
    said, waited = after_the_first_part(
        lambda progress: DaskEngine(cluster.address, progress), lambda: [worker.kill() for worker in cluster.workers]
    )
    assert f"The Dask scheduler at {cluster.address} has lost all of its workers, and none came back." in said
    assert 2.0 < waited < 10.0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("later", [0.0, 1.0])
def test_a_scheduler_lost_between_two_passes(cluster, how, later):
    engine = DaskEngine(cluster.address)
    in_order(X, engine.collect(ROWS, RowsQuestion()))
    cluster.scheduler.send_signal(how)
    time.sleep(later)
    for rows, question in ((ROWS, RowsQuestion()), (ROWS, PAIRS), (ArraySamples(X, block_rows=500), RowsQuestion())):
        began = time.monotonic()
        with pytest.raises(ClusterError, match=GONE):
            engine.collect(rows, question)
        assert time.monotonic() - began < 12.0


def test_a_scheduler_lost_before_chunks_are_counted(cluster):
    with Client(cluster.address) as client:
        client.wait_for_workers(1)
        cluster.scheduler.kill()
        table = da.from_array(X, chunks=(100, 3))
        with pytest.raises(ClusterError, match="is gone, does not answer"):
            DaskSamples(table[table[:, 0] > 0.5])


def test_a_worker_that_comes_back_is_waited_for(cluster, monkeypatch):
    """A roll call at which nobody is there is not yet the end."""
    monkeypatch.setattr(dask_engine, "_NO_WORKER_SECONDS", 30.0)
    absent = iter([{}, {}, {}])
    asked = dask_engine._workers
    monkeypatch.setattr(dask_engine, "_workers", lambda client: next(absent, None) or asked(client))
    in_order(X, DaskEngine(cluster.address).collect(ROWS, RowsQuestion(0.3)))
    assert next(absent, None) is None
