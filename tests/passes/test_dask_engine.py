"""A real cluster of processes on this machine: the same numbers as here, whatever the chunks, and through failures."""

from __future__ import annotations

import gc
import os
import signal
import socketserver
import threading
import time

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed", reason='the cluster tests need Dask: pip install "unrelu[dask]"')

import dask
import dask.array as da
import dask.dataframe as dd
from distributed import Client, LocalCluster
from sklearn.base import clone

import unrelu
from tests.passes.cluster_questions import (
    BesideQuestion,
    FailingOnce,
    Refusing,
    RowsQuestion,
    in_order,
    same,
    same_models,
)
from unrelu import RectifiedGaussianLearner
from unrelu.errors import ClusterError, InputFileError, InvalidDataError, InvalidParameterError
from unrelu.estimators import FloorImputer, FloorOutlierDetector, RectifiedGaussianMixture
from unrelu.passes import dask_engine
from unrelu.passes.dask_engine import DaskEngine
from unrelu.passes.engine import LocalEngine, engine_for
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables import ArraySamples
from unrelu.tables.dask_rows import DaskSamples
from unrelu.tables.groups import LabelledRows, row_labels
from unrelu.tables.prepared import Columns, PreparedRows

X = unrelu.synthetic.random_model(4, random_state=0).sample(3000, random_state=1)
QUESTION = PairMomentsQuestion((0.0,) * 4, (0.0,) * 4)


# --- passes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [3000, 1000, (1, 0, 2000, 998, 1)])
def test_arrays_in_any_chunks(client, chunks):
    rows = DaskSamples(da.from_array(X, chunks=(chunks, 4)))
    same(DaskEngine(client).collect(rows, QUESTION), LocalEngine().collect(ArraySamples(X), QUESTION))
    in_order(X, DaskEngine(client).collect(rows, RowsQuestion()))


def test_rows_in_memory_are_sent(client):
    steps = []
    in_order(X, DaskEngine(client, steps.append).collect(ArraySamples(X, block_rows=70), RowsQuestion()))
    assert steps[-1].done == steps[-1].total == 3000
    assert [step.done for step in steps] == sorted(step.done for step in steps)


def test_the_progress_callback_gets_finished_parts_and_may_end_the_work(client):
    rows, steps = DaskSamples(da.from_array(X, chunks=(250, 4))), []

    def stop(step):
        steps.append(step)
        if 0 < step.done < 3000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DaskEngine(client, stop).collect(rows, RowsQuestion(0.2))
    assert steps[-1].total == 3000
    in_order(X, DaskEngine(client).collect(rows, RowsQuestion()))  # the workers are free again


class Told(ArraySamples):
    """Rows in memory that workers could read."""

    def parts(self, ask):
        whole = DaskSamples(da.from_array(self._values, chunks=(700, 4)))
        return whole.parts(ask)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda rows: PreparedRows(rows, Columns(np.full(4, -np.inf), np.array([np.inf, 9.0, np.inf, 9.0])), "negated"),
        lambda rows: LabelledRows(rows, kept=X[:, 0] > 0.5),
        lambda rows: LabelledRows(rows, row_labels(np.arange(3000) % 7)),
        lambda rows: LabelledRows(rows, row_labels(np.arange(3000) % 7), X[:, 0] > 0.5),
    ],
    ids=["negated", "kept", "grouped", "both"],
)
def test_rows_read_in_another_way(client, wrap):
    """Wrapped rows are read by workers, with what stands beside them."""
    question = BesideQuestion()
    local = LocalEngine().collect(wrap(ArraySamples(X, block_rows=100)), question)
    assert DaskEngine(client).collect(wrap(Told(X)), question) == local


def test_labels_of_other_rows_are_refused(client):
    rows = DaskSamples(dd.from_pandas(pd.DataFrame(X), npartitions=3))
    with pytest.raises(InvalidParameterError, match="2,999 labels, the table 3,000 rows"):
        LabelledRows(rows, row_labels(np.arange(2999)))


# --- failures -------------------------------------------------------------------------------------


def test_a_worker_killed_in_mid_pass(client):
    rows = DaskSamples(da.from_array(X, chunks=(150, 4)))
    pids = client.run(os.getpid)
    began = threading.Event()

    def kill():
        began.wait(20.0)
        os.kill(next(iter(pids.values())), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    engine = DaskEngine(client, lambda step: began.set() if step.done else None)
    in_order(X, engine.collect(rows, RowsQuestion(0.15)))
    killer.join()
    assert set(client.run(os.getpid).values()) != set(pids.values())
    client.wait_for_workers(2, timeout=20)


def test_a_part_that_failed_is_read_again(client, tmp_path):
    rows = DaskSamples(da.from_array(X, chunks=(1000, 4)))
    in_order(X, DaskEngine(client).collect(rows, FailingOnce(str(tmp_path / "failed"))))
    assert (tmp_path / "failed").exists()


@pytest.mark.parametrize("error", [InvalidDataError, InputFileError, unrelu.errors.CannotPeelError])
def test_our_errors_come_back_as_they_are(client, error):
    with pytest.raises(error, match=r"^Row 0 is refused\.$"):
        DaskEngine(client).collect(ArraySamples(X, block_rows=3000), Refusing(error))


def test_rows_that_change_while_they_are_read(client):
    chunks = [dask.delayed(lambda: X[: np.random.default_rng().integers(1, 3000)], pure=False)()]
    rows = DaskSamples(da.concatenate([da.from_delayed(each, (np.nan, 4), float) for each in chunks]))
    with pytest.raises(InvalidDataError, match="changes while it is read"):
        DaskEngine(client).collect(rows, RowsQuestion())


def test_no_rows(client):
    with pytest.raises(InvalidDataError, match="no rows"):
        DaskEngine(client).collect(DaskSamples(da.from_array(X[:0], chunks=(1, 4))), RowsQuestion())


# --- the cluster ----------------------------------------------------------------------------------


def test_a_scheduler_that_does_not_answer(monkeypatch):
    assert dask_engine._CONNECT_SECONDS < 8.0  # told within 10 s, those that Python takes to start among them
    monkeypatch.setattr(dask_engine, "_CONNECT_SECONDS", 1.0)
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"No Dask scheduler answers at 'tcp://127.0.0.1:9'.*dask scheduler"):
        DaskEngine("tcp://127.0.0.1:9")
    assert time.monotonic() - began < 9.0


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_is_no_scheduler():
    """It answers with a page, of which Dask takes the first bytes for the length of a message."""

    class Page(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 4)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ClusterError, match="No Dask scheduler answers at 'tcp://127"):
            DaskEngine(f"tcp://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    gc.collect()


def test_no_client():
    with pytest.raises(ClusterError, match="No Dask client is active"):
        DaskEngine()
    with pytest.raises(ClusterError, match="Expected a Dask client"):
        DaskEngine(3)


def test_workers_without_unrelu_or_of_another_version(client, monkeypatch):
    monkeypatch.setattr(dask_engine, "__version__", "99.0")
    monkeypatch.setattr(dask_engine, "_trusted", set())
    with pytest.raises(ClusterError, match=r"lack unrelu 99\.0: tcp://127.*pip install unrelu==99\.0"):
        DaskEngine(client)


def test_no_workers(monkeypatch):
    monkeypatch.setattr(dask_engine, "_CONNECT_SECONDS", 0.3)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as idle,
        pytest.raises(ClusterError, match="has no workers"),
    ):
        DaskEngine(idle)


def test_the_active_client_is_used(client):
    rows = DaskSamples(da.from_array(X, chunks=(1000, 4)))
    assert isinstance(engine_for(rows), LocalEngine)
    with client.as_current():
        assert isinstance(engine_for(LabelledRows(rows, long=True)), DaskEngine)
        assert isinstance(engine_for(ArraySamples(X)), LocalEngine)


# --- estimators -----------------------------------------------------------------------------------

FEW = X[:400]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"method": "robust"},
        {"method": "sgd", "nonnegative_mean": True},
        {"method": "filtered_gradient"},
        {"method": "full_likelihood"},
        {"stderr": "jackknife"},
        {"method": "median"},
        {"margins": "auto"},
        {"margins": "log", "floor": None},
        {"margins": "boxcox"},
        {"margins": "monotone"},
        {"floor": "min"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_learners_learn_the_same(client, parameters):
    few = FEW + 0.5 if parameters.get("margins") == "log" else FEW
    parameters = {"method": "one_pass", **parameters}  # here the default would be another
    local = RectifiedGaussianLearner(**parameters).fit(few)
    with client.as_current():
        same_models(RectifiedGaussianLearner(**parameters).fit(da.from_array(few, chunks=(140, 3))), local)
        frame = dd.from_pandas(pd.DataFrame(few), npartitions=2)
        if parameters["method"] not in ("robust", "full_likelihood"):  # whose many passes take their time
            same_models(RectifiedGaussianLearner(**parameters).fit(frame), local)


def test_covariances_of_rank_k(client):
    """Their rounds stop where little moves, a hair apart for records that differ by rounding, here as anywhere."""
    local = RectifiedGaussianLearner(n_components=3).fit(FEW)
    with client.as_current():
        apart = RectifiedGaussianLearner(n_components=3).fit(da.from_array(FEW, chunks=(140, 3)))
    same(apart.record_, local.record_)
    np.testing.assert_allclose(apart.covariance_, local.covariance_, atol=1e-8)


def test_rows_are_scored_and_checked(client):
    learner, table = RectifiedGaussianLearner().fit(X), da.from_array(X, chunks=(700, 4))
    with client.as_current():
        np.testing.assert_allclose(learner.score_samples(table), learner.score_samples(X), rtol=1e-10)
        assert learner.check(table, n_simulations=39).fits


def test_weights_groups_and_parts(client):
    weights, days = np.random.default_rng(0).uniform(0.5, 2.0, len(X)), np.arange(len(X)) // 100
    table, lazy = da.from_array(X, chunks=(800, 4)), da.from_array(weights, chunks=500)
    local = RectifiedGaussianLearner("one_pass").fit(X, sample_weight=weights)
    with client.as_current():
        first = RectifiedGaussianLearner().fit(table, sample_weight=lazy)
        same_models(first, local)
        assert first.report_.chosen_because == "the rows are read block by block, or elsewhere"
        same_models(RectifiedGaussianLearner().fit(table, sample_weight=weights), local)
        learner = RectifiedGaussianLearner()
        for rows in (slice(0, 1100), slice(1100, None)):
            learner.partial_fit(table[rows], sample_weight=lazy[rows])
        same_models(learner, local)
        apart = RectifiedGaussianLearner(stderr="jackknife").fit(table, groups=da.from_array(days, chunks=99))
    other = RectifiedGaussianLearner(stderr="jackknife").fit(X, groups=days)
    np.testing.assert_allclose(apart.mean_stderr_, other.mean_stderr_, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_other_estimators(client):
    table, mixture = da.from_array(FEW, chunks=(200, 4)), RectifiedGaussianMixture(2, n_init=1, max_iter=5)
    with client.as_current():
        detector = FloorOutlierDetector("one_pass").fit(table)
        apart = clone(mixture).fit(table, sample_weight=da.ones(400, chunks=200))
        imputed = FloorImputer().fit(table).transform(da.from_array(FEW, chunks=(90, 4)))
        with pytest.raises(InvalidParameterError, match=r"ReLUMatrixRecovery needs all rows in memory.*compute"):
            unrelu.ReLUMatrixRecovery(1).fit(table)
    np.testing.assert_allclose(detector.offset_, FloorOutlierDetector("one_pass").fit(FEW).offset_, rtol=1e-10)
    np.testing.assert_allclose(imputed, FloorImputer("one_pass").fit(FEW).transform(FEW), rtol=1e-10, atol=1e-10)
    mixture.fit(FEW, sample_weight=np.ones(400))
    np.testing.assert_allclose(apart.weights_, mixture.weights_, rtol=1e-10)
