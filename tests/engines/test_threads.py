"""Threads that stay: order, nesting, exceptions, and processes that were forked."""

import os
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from unrelu.engines import local
from unrelu.engines.local import available_cores, map_in_threads

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
