"""Threads that stay: order, nesting, exceptions, processes that were forked; and the one that reads ahead."""

import os
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from unrelu.contracts import Block, Samples
from unrelu.errors import InputFileError
from unrelu.passes import engine as local
from unrelu.passes.engine import LocalEngine, available_cores, joined_in_threads, map_in_threads

# Workers of the suite may use all cores, as users may: only BLAS is held to one thread there (tests/conftest.py).
several_cores = pytest.mark.skipif(available_cores() < 2, reason="with one core everything runs in the caller")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="only where the suite has workers")
def test_workers_share_the_cores():
    assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {1}


def test_results_come_in_the_order_of_the_items():
    def slow_first(k):
        time.sleep(0.02 if k == 0 else 0.0)
        return k * k

    assert map_in_threads(slow_first, list(range(50))) == [k * k for k in range(50)]


@pytest.mark.parametrize("items", [[], [3]])
def test_nothing_or_one_thing_to_do(items):
    assert map_in_threads(str, items) == [str(item) for item in items]


@several_cores
def test_tasks_run_beside_each_other():
    """Two tasks that wait for each other only end if both run."""
    meet = threading.Barrier(2, timeout=20.0)
    map_in_threads(lambda _: meet.wait(), [0, 1])
    assert not meet.broken


@several_cores
def test_threads_stay():
    """The second call finds the threads of the first."""
    names = [set(map_in_threads(lambda _: threading.current_thread().name, range(20))) for _ in range(2)]
    assert len(names[0] | names[1]) <= available_cores()
    assert threading.current_thread().name not in names[0] | names[1]


def in_a_child(body):
    """Whether ``body()`` is true in a forked process; a child that hangs is ended, so that the tests go on."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if body() else 1)
        finally:
            os._exit(2)
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the process hangs")


def nested():
    """For every outer task: the numbers its inner tasks gave, and whether they ran in its own thread."""

    def outer(k):
        here = threading.get_ident()

        def inner(i):
            time.sleep(0.001)
            return threading.get_ident() == here, 10 * k + i

        return map_in_threads(inner, range(5))

    return map_in_threads(outer, range(4 * available_cores()))


@forks
def test_a_task_may_ask_for_threads_itself():
    """Its inner tasks run in its own thread: waiting for a free one could take forever."""
    expected = [[(True, 10 * k + i) for i in range(5)] for k in range(4 * available_cores())]
    assert in_a_child(lambda: nested() == expected)


def test_several_callers_at_once():
    found = {}

    def call(name):
        found[name] = map_in_threads(lambda k: (name, k), range(200))

    callers = [threading.Thread(target=call, args=(name,), daemon=True) for name in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=30.0)
    assert found == {name: [(name, k) for k in range(200)] for name in range(6)}


def test_exceptions_come_through_and_leave_the_threads_usable():
    def fail(k):
        if k == 7:
            raise KeyError("seven")
        return k

    for _ in range(3):
        with pytest.raises(KeyError, match="seven"):
            map_in_threads(fail, range(20))
    assert map_in_threads(abs, [-1, -2, -3]) == [1, 2, 3]


def test_arrays_are_filled_in_place():
    out = np.zeros(1000)
    parts = np.array_split(np.arange(1000), 7)

    def fill(part):
        out[part] = part

    map_in_threads(fill, parts)
    np.testing.assert_array_equal(out, np.arange(1000))


@forks
def test_a_forked_process_gets_threads_of_its_own():
    """It inherits the pool but none of its threads: using that pool would wait forever."""
    map_in_threads(abs, range(10))  # so that there is a pool to inherit
    assert in_a_child(lambda: map_in_threads(abs, [-1, -2, -3]) == [1, 2, 3])


@several_cores
def test_one_pool_per_process():
    assert local._pool(os.getpid()) is local._pool(os.getpid())
    assert local._pool(os.getpid())._max_workers == available_cores()


# --- results joined in order ----------------------------------------------------------------------


@several_cores
def test_results_are_joined_in_order_and_few_of_them_wait():
    made = joined = most = 0
    lock = threading.Lock()

    def task(k):
        nonlocal made, most
        time.sleep(0.01 if k % 5 == 0 else 0.0)
        with lock:
            made += 1
            most = max(most, made - joined)
        return [k]

    def join(whole, part):
        nonlocal joined
        joined += 1
        whole += part

    assert joined_in_threads(task, range(60), join) == list(range(60))
    assert most <= available_cores() + 2


def test_an_error_in_a_joined_task_comes_through():
    def fail(k):
        if k == 7:
            raise KeyError("seven")
        return [k]

    with pytest.raises(KeyError, match="seven"):
        joined_in_threads(fail, range(50), list.extend)


# --- reading ahead --------------------------------------------------------------------------------


class Read:
    """A record of first rows."""

    def __init__(self, rows):
        self.rows = rows

    def merge(self, other):
        return Read(self.rows + other.rows)


class Files(Samples):
    """Blocks of two rows; reading one that is not there raises."""

    n_features, n_rows, feature_names = 1, None, None

    def __init__(self, n_blocks, fails_at=None):
        self._n, self._fails_at = n_blocks, fails_at
        self.started, self.closed, self.threads = [], False, set()
        self.reading = [threading.Event() for _ in range(n_blocks + 1)]

    def blocks(self):
        try:
            for k in range(self._n):
                self.threads.add(threading.current_thread().name)
                self.started.append(k)
                self.reading[k].set()
                if k == self._fails_at:
                    raise InputFileError("the third file is cut off")
                yield Block(np.zeros((2, 1)), 2 * k)
        finally:
            self.closed = True


def readers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("unrelu-reader")]


def test_the_next_block_is_read_while_one_is_worked_on_and_no_more():
    files = Files(5)

    def question(block):
        k = block.first_row // 2
        if 0 < k < 4:
            assert files.reading[k + 1].wait(10.0)
        assert max(files.started) <= k + 1
        return Read([block.first_row])

    assert LocalEngine().collect(files, question).rows == [0, 2, 4, 6, 8]
    assert any(name.startswith("unrelu-reader") for name in files.threads)
    assert readers() == []


def test_what_reading_raises_comes_through_after_the_blocks_before_it():
    seen = []

    def question(block):
        seen.append(block.first_row)
        return Read([block.first_row])

    with pytest.raises(InputFileError, match="the third file is cut off"):
        LocalEngine().collect(Files(5, fails_at=2), question)
    assert seen == [0, 2]
    assert readers() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_ends_the_reader_too(error):
    files = Files(50)

    def question(block):
        if block.first_row == 4:
            raise error
        return Read([block.first_row])

    with pytest.raises(error):
        LocalEngine().collect(files, question)
    assert readers() == []
    assert max(files.started) <= 3


def test_a_long_pass_tells_its_pace(monkeypatch):
    clock = iter(np.arange(0.0, 100.0, 2.0))
    monkeypatch.setattr(local, "monotonic", lambda: next(clock))
    files, steps = Files(3), []
    files.n_rows = 6
    LocalEngine(steps.append).collect(files, lambda block: Read([block.first_row]))
    assert [step.words for step in steps] == [
        "",
        "2 rows, 1 rows/s, 4 s left",
        "4 rows, 1 rows/s, 2 s left",
        "6 rows, 1 rows/s, 0 s left",
    ]
