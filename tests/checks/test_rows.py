"""The look at some rows: the same however a table is cut, of neighbours, and without a pass of its own."""

import array_api_strict
import numpy as np
from scipy.sparse import csr_matrix

from unrelu.checks.misfit import RowSampleQuestion, sample_rows
from unrelu.contracts import Assumptions, Block, Evidence
from unrelu.passes.engine import LocalEngine, ask_at_once
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables import ArraySamples
from unrelu.tables.device import DeviceSamples
from unrelu.tables.numpy_files import SparseSamples

TABLE = np.maximum(np.random.default_rng(0).normal(size=(20_000, 3)), 0.0)
QUESTION = RowSampleQuestion((0.0,) * 3)


def collected(samples, question=QUESTION):
    return LocalEngine().collect(samples, question)


def same(one, other):
    for name in ("rows", "values", "censoring", "weights"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_the_same_rows_however_the_table_is_cut():
    whole = QUESTION(Block(TABLE))
    parts = [QUESTION(Block(TABLE[a:b], a)) for a, b in ((0, 7000), (7000, 7010), (7010, 20_000))]
    same(parts[0].merge(parts[1]).merge(parts[2]), whole)
    same(parts[2].merge(parts[0]).merge(parts[1]), whole)
    assert len(whole.rows) == 4096
    assert np.mean(np.diff(whole.rows) == 1) > 0.95  # neighbours
    assert whole.rows.max() > 19_000  # from all over the table
    np.testing.assert_array_equal(whole.values, TABLE[whole.rows])
    np.testing.assert_array_equal(whole.censoring, -(TABLE[whole.rows] == 0.0).astype(int))


def test_sparse_rows_and_those_of_a_device():
    for samples in (SparseSamples(csr_matrix(TABLE)), DeviceSamples(array_api_strict.asarray(TABLE))):
        same(collected(samples), QUESTION(Block(TABLE)))


def test_short_tables_are_kept_whole_but_for_rows_without_weight():
    weights = np.ones(100)
    weights[10] = 0.0
    found = QUESTION(Block(TABLE[:100], 0, weights))
    np.testing.assert_array_equal(found.rows, np.delete(np.arange(100), 10))


def test_rows_are_read_once_for_both_questions():
    class Counted(ArraySamples):
        passes = 0

        def blocks(self):
            Counted.passes += 1
            return super().blocks()

    assumptions = Assumptions((0.0,) * 3)
    question = PairMomentsQuestion.under(assumptions)
    evidence = Evidence(Counted(TABLE), LocalEngine())
    ask_at_once(evidence, question, RowSampleQuestion(assumptions.censored_at))
    record, look = evidence.collect(question), sample_rows(evidence, assumptions)
    assert Counted.passes == 1
    same(look, QUESTION(Block(TABLE)))
    np.testing.assert_array_equal(record.count, collected(ArraySamples(TABLE), question).count)
    kept = Evidence(None, answers={question: record})
    ask_at_once(kept, question, RowSampleQuestion(assumptions.censored_at))
    assert sample_rows(kept, assumptions) is None
