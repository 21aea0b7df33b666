"""Records too large for a worker: passes over groups of columns, and the same record in the end."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

pytest.importorskip("distributed", reason='the cluster tests need Dask: pip install "unrelu[dask]"')

import dask.array as da
from distributed import Client, LocalCluster

import unrelu
from tests.passes.cluster_questions import RowsQuestion, in_order, same, same_models
from unrelu import RectifiedGaussianLearner
from unrelu.passes.dask_engine import DaskEngine
from unrelu.passes.engine import LocalEngine, engine_for
from unrelu.passes.pair_moments import GroupedMomentsQuestion, PairMomentsQuestion
from unrelu.tables import ArraySamples, open_samples
from unrelu.tables.dask_rows import DaskSamples
from unrelu.tables.prepared import Columns, PreparedRows
from unrelu.tables.write import write_table

D = 10
X = unrelu.synthetic.random_model(D, random_state=2).sample(2000, random_state=3)
QUESTION = PairMomentsQuestion((0.0,) * D, (0.0,) * D)
FOR_SIX = QUESTION.bytes_held(6)


def watched(asked):
    """An engine that says how many columns each of its passes is about."""

    class Watched(DaskEngine):
        def _collected(self, parts, samples, *others):
            asked.append(samples.n_features)
            return super()._collected(parts, samples, *others)

    return Watched


def test_columns_at_a_time(client):
    asked, steps = [], []
    engine = watched(asked)(client, steps.append, task_bytes=FOR_SIX)
    same(engine.collect(ArraySamples(X), QUESTION), LocalEngine().collect(ArraySamples(X), QUESTION))
    assert asked == [5, 5, 4, 6, 5, 5]
    done = [step.done for step in steps]
    assert done == sorted(done)
    assert {(2000 * k) // 6 for k in range(7)} <= set(done)
    assert steps[-1].words == "columns in groups, 6 of 6: 2,000 rows"
    in_order(X, watched(asked)(client, task_bytes=0).collect(ArraySamples(X), RowsQuestion()))
    assert asked[6:] == [D]  # what is not about pairs is asked at once


@pytest.mark.parametrize("missing", [False, True])
def test_workers_that_hold_six_columns(client, missing):
    table = np.where(np.random.default_rng(0).random(X.shape) < 0.1 * missing, np.nan, X)
    table[:, :5] = X[:, :5]  # some groups have no missing cell
    rows, steps = DaskSamples(da.from_array(table, chunks=(300, D))), []
    found = DaskEngine(client, steps.append, task_bytes=FOR_SIX).collect(rows, QUESTION)
    local = LocalEngine().collect(ArraySamples(table), QUESTION)
    same(found, local)
    assert (found.observed is not None) == missing
    if missing:
        np.testing.assert_allclose(found.observed.above, local.observed.above, rtol=1e-12)
    assert {step.words.split(":")[0] for step in steps} >= {f"columns in groups, {k} of 6" for k in range(1, 7)}
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[-1].done == 2000


def test_rows_sent_and_rows_read_in_another_way(client):
    engine = DaskEngine(client, task_bytes=FOR_SIX)
    columns = Columns(np.full(D, -np.inf), np.where(np.arange(D) % 3 == 0, 1e9, np.inf))
    question = PairMomentsQuestion((-2.0,) * D, (-np.inf,) * D)
    local = LocalEngine().collect(PreparedRows(ArraySamples(X), columns, "negated"), question)
    for rows in (ArraySamples(X, block_rows=400), DaskSamples(da.from_array(X, chunks=(700, D)))):
        same(engine.collect(PreparedRows(rows, columns, "negated"), question), local)


@pytest.mark.parametrize("parameters", [{}, {"stderr": "jackknife"}, {"margins": "boxcox"}], ids=str)
def test_learners_learn_the_same(client, tmp_path, parameters):
    write_table(tmp_path / "x.parquet", X, [f"c{k}" for k in range(D)])
    rows = open_samples(tmp_path / "x.parquet", scheduler=client)
    asked = []
    held = GroupedMomentsQuestion(QUESTION).bytes_held(5) if "stderr" in parameters else FOR_SIX
    rows.engine = partial(watched(asked), client, task_bytes=held)
    apart, local = (RectifiedGaussianLearner("one_pass", **parameters).fit(each) for each in (rows, X))
    same_models(apart, local)
    np.testing.assert_allclose(apart.mean_stderr_, local.mean_stderr_, rtol=1e-8)
    assert sum(columns < D for columns in asked) >= 4  # a look at some rows takes all columns at once


def test_what_a_worker_has_for_a_thread_decides():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, memory_limit="1GiB", dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as found,
    ):
        assert DaskEngine(found)._most_bytes() == (2**30 - 2**28) / 4
        with (
            LocalCluster(n_workers=1, processes=False, memory_limit=0, dashboard_address=":0") as endless,
            Client(endless, set_as_default=False) as other,
        ):
            assert DaskEngine(other)._most_bytes() == np.inf


def test_names_of_faults_are_those_of_all_columns(client):
    table = X.copy()
    table[1500, 7] = -1.0
    rows = DaskSamples(da.from_array(table, chunks=(300, D)))
    record = DaskEngine(client, task_bytes=FOR_SIX).collect(rows, QUESTION)
    assert record.screening.below_first_row.tolist() == [-1] * 7 + [1500] + [-1] * 2
    assert engine_for(rows).collect(rows, QUESTION).screening.below_count.tolist() == [0] * 7 + [1] + [0] * 2
