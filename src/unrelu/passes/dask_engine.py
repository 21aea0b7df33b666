"""A Dask cluster: a question goes to every part of the rows where it is, and the records merge there, neighbours first.

    part 1 --record--+
    part 2 --record--+--merged--+
                                +--> the record of all rows: it alone comes back
    part 3 --record--+--merged--+
    part 4 --record--+

The tree depends on the parts alone, so that neither the number of workers nor their speed shows in the answer. A
question is a node of the graph: it is sent once, and workers hand it on. The scheduler can have every node made again
from where the rows live, so that a worker may be lost at any time. This is the one file that imports Dask.
"""

from __future__ import annotations

import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial, reduce
from itertools import islice
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np

from unrelu._version import __version__
from unrelu.contracts import Block, Engine, Part, Progress, Question, R, Samples, Step, no_progress
from unrelu.errors import ClusterError, InvalidDataError, MissingDependencyError
from unrelu.passes.engine import LocalEngine, in_this_thread, one_blas_thread
from unrelu.passes.pair_moments import Columns, GroupedMomentsQuestion, PairMomentsQuestion
from unrelu.passes.rows import PartRows, SomeColumns
from unrelu.validation import listed

_CONNECT_SECONDS, _NO_WORKER_SECONDS, _ANSWER_SECONDS = 5.0, 60.0, 30.0  # the last: that a busy scheduler may take
_POLL_SECONDS, _ROLL_CALL_SECONDS = 0.25, 10.0  # between two polls of how far workers are, and whether any is there
_OWN_BYTES = 2**28  # of a worker's process without any rows
_WIDE, _FEW, _MANY = 300, 2, 8  # columns from which on records are large, and records that merge at once
_RETRIES = 1  # of a part that could not be read: disks of other machines do fail


class DaskEngine:
    """Asks the workers of a Dask cluster; ``progress`` gets the rows read, as steps of ``stage``.

    Rows of files and of Dask's own arrays and frames are read by the workers; others are read here and sent.

    Parameters
    ----------
    client : distributed.Client, address of a scheduler, or None
        The cluster; None for the client that is active. Raises ClusterError where there is none, or its workers lack
        unrelu or have another version of it.
    task_bytes : int, optional
        Memory that a task may take; by default half of what the least worker has for each of its threads, beside
        that of its process. Larger records of pairs of columns are made by groups of columns, one after the other.
    """

    def __init__(
        self,
        client: Any = None,
        progress: Progress = no_progress,
        stage: str = "Reading rows",
        task_bytes: float | None = None,
    ) -> None:
        self._client, self._progress, self._stage, self._task_bytes = connected(client), progress, stage, task_bytes

    def collect(self, samples: Samples, question: Question[R]) -> R:
        parts, by_groups = samples.source.parts(self._map), cast(Any, question)
        groups = [np.arange(samples.n_features)]
        if isinstance(question, PairMomentsQuestion | GroupedMomentsQuestion):
            most = self._most_bytes()
            groups = column_groups(samples.n_features, lambda columns: by_groups.bytes_held(columns) <= most)
        if len(groups) == 1:
            return self._collected(parts, samples, question)
        records = (
            self._collected(parts, SomeColumns(samples, columns), by_groups.of_columns(columns), number, len(groups))
            for number, columns in enumerate(groups)
        )
        record: R = by_groups.put_together(zip(groups, records, strict=True))
        return record

    def _most_bytes(self) -> float:
        if self._task_bytes is not None:
            return self._task_bytes
        _workers(self._client)
        with _naming_loss(self._client):
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [(each["memory_limit"], each["nthreads"]) for each in workers if each.get("memory_limit")]
        shares = (max(limit - _OWN_BYTES, limit / 4) / threads for limit, threads in limits)
        return min(shares, default=np.inf) / 2.0  # the rest is for rows, and for records that wait

    def _collected(
        self, parts: list[Part] | None, samples: Samples, question: Question[R], number: int = 0, of: int = 1
    ) -> R:
        """The record of all rows, in one pass, which is that ``number`` ``of`` several where columns are in groups."""
        if parts is None:
            rows_of: Samples = PartRows(samples, samples.n_rows)
            batches = self._sent(samples)
        else:
            rows_of = samples.over(PartRows(samples.source, sum(part.n_rows for part in parts)))
            batches = iter([parts])
        total = rows_of.n_rows

        def report(rows: int) -> None:
            words, done = f"{rows:,} rows" if rows else "", rows
            if of > 1:
                words = f"columns in groups, {number + 1} of {of}: {rows:,} rows"
                done = rows if total is None else (number * total + rows) // of
            self._progress(Step(self._stage, done, total, words))

        report(0)
        merged: R | None = None
        first_row = 0
        for batch in batches:
            record = self._answer(question, rows_of, [part for part in batch if part.n_rows], first_row, report)
            if record is not None:
                merged = record if merged is None else merged.merge(record)
            first_row += sum(part.n_rows for part in batch)
        if merged is None:
            raise InvalidDataError("There are no rows to learn from.")
        return merged

    def _answer(
        self, question: Any, rows_of: Samples, parts: Sequence[Part], first_row: int, report: Callable[[int], None]
    ) -> Any:
        """The record of some neighbouring parts; None where there are none."""
        from dask import delayed

        if not parts:
            return None
        ask, merge, name = delayed(_ask, pure=False), delayed(_merged, pure=False), uuid4().hex
        shared = delayed((question, rows_of, _topic(self._client), name), traverse=False, pure=False)
        records, done = [], first_row
        for number, part in enumerate(parts):
            records.append(ask(shared, part.read, done, part.n_rows, number, *part.needs))
            done += part.n_rows
        at_once = _FEW if rows_of.n_features >= _WIDE else _MANY
        while len(records) > 1:
            neighbours = [records[k : k + at_once] for k in range(0, len(records), at_once)]
            records = [merge(*some) if len(some) > 1 else some[0] for some in neighbours]
        with _finished_parts(self._client, name) as finished:

            def poll() -> None:
                report(first_row + sum(parts[k].n_rows for k in finished.copy()))

            record = _computed(self._client, records[0], poll)
        report(done)
        return record

    def _map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """``[function(item) for item in items]`` by the workers."""
        from dask import delayed

        call = delayed(_quietly, pure=False)
        return list(_computed(self._client, delayed([call(function, item) for item in items]), lambda: None))

    def _sent(self, samples: Samples) -> Iterator[list[Part]]:
        """Blocks read here, as many at a time as keep the workers busy."""
        blocks = iter(samples.blocks())
        several = 2 * max(sum(_workers(self._client).values()), 1)
        while batch := list(islice(blocks, several)):
            yield [Part(partial(list, [replace(block, first_row=0)]), len(block.values)) for block in batch]


# --- groups of columns ----------------------------------------------------------------------------
# Where a record of all pairs of columns would be too large, pairs are summed group by group, one pass each. Every
# two columns are together in one group: the columns are cut into p x p blocks (x, y), p prime, and the groups are the
# lines of the plane of integers modulo p,
#
#     y = m x + c      and      x = c,
#
# of which any two points have exactly one in common: p (p + 1) groups of d/p columns each. Together they have 1 + 1/p
# times the pairs of all columns, and every column is in p + 1 of them; pairs of blocks of half the size would have
# twice the pairs, and every column in 2p of them.


def column_groups(n_features: int, fits: Callable[[int], bool]) -> list[Columns]:
    """The fewest groups whose numbers of columns ``fits`` accepts; all columns at once where they fit.

    Where nothing fits, groups are as small as they get.
    """
    if fits(n_features):
        return [np.arange(n_features)]
    orders = [p for p in range(2, n_features) if p * p <= n_features and all(p % q for q in range(2, p))]
    if not orders:
        return [np.arange(n_features)]
    p = next((p for p in orders if fits(p * -(-n_features // (p * p)))), orders[-1])
    ends = np.arange(p * p + 1) * n_features // (p * p)

    def group(points: list[tuple[int, int]]) -> Columns:
        blocks = (p * x + y for x, y in points)
        return np.sort(np.concatenate([np.arange(ends[k], ends[k + 1]) for k in blocks]))

    vertical = [group([(c, y) for y in range(p)]) for c in range(p)]
    slanted = [group([(x, (m * x + c) % p) for x in range(p)]) for m in range(p) for c in range(p)]
    return vertical + slanted


# --- what workers do ------------------------------------------------------------------------------


def _ask(
    shared: tuple[Any, ...], read: Callable[..., Iterable[Block]], first: int, n: int, number: int, *needs: Any
) -> Any:
    """The record of the n rows of one part, from the ``first`` of the table on, and a message that it is finished.

    In this thread: a worker runs as many tasks as it may use cores.
    """
    from distributed import get_worker

    question, rows_of, topic, name = shared
    source = rows_of.source
    rows = rows_of.over(PartRows(source, source.n_rows, first, read(*needs)))
    merged, found = None, 0
    with in_this_thread(), one_blas_thread():
        for block in rows.blocks():
            record = question(block)
            merged = record if merged is None else merged.merge(record)
            found += len(block.values)
    if found != n:
        raise InvalidDataError(
            f"A part of the table has {found:,} rows, and had {n:,} before: it changes while it is read."
            " Write it to files, or keep it with persist(), and learn from that."
        )
    get_worker().log_event(topic, [name, number])
    return merged


def _merged(*records: Any) -> Any:
    return _quietly(partial(reduce, lambda one, other: one.merge(other)), records)


def _quietly(function: Callable[[Any], Any], item: Any) -> Any:
    with in_this_thread(), one_blas_thread():
        return function(item)


# --- the cluster ----------------------------------------------------------------------------------


def connected(where: Any = None) -> Any:
    """The client of a cluster that is there and has our version: itself, that of an address, or the active one."""
    try:
        import distributed
    except ImportError as error:
        raise MissingDependencyError('A cluster needs Dask: pip install "unrelu[dask]".') from error
    client = _client_at(where) if isinstance(where, str) else active_client() if where is None else where
    if client is None:
        raise ClusterError("No Dask client is active: make one, distributed.Client(ADDRESS), or name the scheduler.")
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise ClusterError(f"Expected a Dask client that is not asynchronous, got {type(client).__name__}.")
    if client not in _trusted:
        _check_workers(client)
        _trusted[client] = client.scheduler.address
    return client


_trusted: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # clients, and where their schedulers are, or were
_clients: dict[str, Any] = {}


def _client_at(address: str) -> Any:
    """A client of that scheduler: one for all engines."""
    from distributed import Client

    if address not in _clients or _clients[address].status != "running":
        client = Client.__new__(Client)
        try:
            # Dask would try again until its time is up where no scheduler listens, and wait for ever for a silent one.
            place = urlsplit(address if "://" in address else f"tcp://{address}")
            if place.scheme in ("tcp", "tls") and place.hostname and place.port:
                with socket.create_connection((place.hostname, place.port), timeout=_CONNECT_SECONDS) as line:
                    if place.scheme == "tcp" and not line.recv(1):  # a scheduler speaks first
                        raise ConnectionError("hung up")
            client.__init__(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # what is not a scheduler answers in many ways
            client.status = "closed"  # nothing is left to be closed, which would take its time and fail
            raise ClusterError(
                f"No Dask scheduler answers at {address!r}. Start one with 'dask scheduler' and workers with 'dask"
                " worker ADDRESS', and give the address that the scheduler prints, such as tcp://10.0.0.1:8786."
            ) from error
        _clients[address] = client
    return _clients[address]


def active_client() -> Any:
    """The client that Dask computes by; None where there is none."""
    distributed: Any = sys.modules.get("distributed")
    if distributed is None:
        return None
    with suppress(ValueError):
        return distributed.default_client()
    return None


def active_engine(progress: Progress = no_progress, stage: str = "Reading rows") -> Engine:
    """The workers of the active client; this process where there is none."""
    client = active_client()
    return LocalEngine(progress, stage) if client is None else DaskEngine(client, progress, stage)


def _check_workers(client: Any) -> None:
    """Raise ClusterError unless there are workers, and all processes have our version."""

    def version() -> str | None:  # sent by value, as a worker may have nothing to import it from
        try:
            from unrelu._version import __version__ as found
        except ImportError:
            return None
        return found

    where = client.scheduler.address
    with _naming_loss(client):
        try:
            client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except TimeoutError as error:
            raise ClusterError(
                f"The Dask scheduler at {where} has no workers. Start some with 'dask worker {where}'."
            ) from error
        every = client.run(version) | {"the scheduler": client.run_on_scheduler(version)}  # which unpacks questions
    others = {process: found for process, found in every.items() if found != __version__}
    if others:
        shown = listed(f"{process} ({'none' if found is None else found})" for process, found in others.items())
        raise ClusterError(
            f"Processes of the Dask cluster at {where} lack unrelu {__version__}: {shown}. Install that version where"
            f" they run (pip install unrelu=={__version__}) and start them again."
        )


def _computed(client: Any, lazy: Any, report: Callable[[], None]) -> Any:
    """What the workers make of a graph; ``report`` is called while they work, and what it raises ends the work."""
    from distributed import KilledWorker, wait

    with warnings.catch_warnings(), _naming_loss(client):
        warnings.filterwarnings("ignore", "Sending large graph")
        future = client.compute(lazy, retries=_RETRIES)
    seen = checked = time.monotonic()
    try:
        while True:
            with client.as_current(), suppress(TimeoutError):
                wait(future, timeout=_POLL_SECONDS)
            if future.done():
                return future.result()
            report()
            if (now := time.monotonic()) - checked < min(_ROLL_CALL_SECONDS, _NO_WORKER_SECONDS):
                continue
            checked, seen = now, now if _workers(client) else seen
            if now - seen >= _NO_WORKER_SECONDS:
                raise ClusterError(
                    f"The Dask scheduler{_place(client)} has lost all of its workers, and none came back. Their logs"
                    " say why; start some with 'dask worker ADDRESS', and fit again."
                )
    except KilledWorker as error:
        raise ClusterError(
            "Workers of the Dask cluster ended several times while they read the same part of the table: they may"
            " have too little memory for it. Give them more, or smaller chunks; their logs say why."
        ) from error
    except CancelledError as error:
        raise _lost(client) from error
    finally:
        with suppress(Exception):  # it may be the scheduler that is gone
            future.cancel()


def _place(client: Any) -> str:
    return f" at {_trusted[client]}" if client in _trusted else ""


def _lost(client: Any) -> ClusterError:
    return ClusterError(
        f"The Dask scheduler{_place(client)} is gone, does not answer, or has dropped the work. Start it and its"
        " workers again, and fit again."
    )


@contextmanager
def _naming_loss(client: Any) -> Iterator[None]:
    """Raise one ClusterError for all that Dask raises where the scheduler is gone."""
    from distributed.client import ClosedClientError

    try:
        yield
    except ClusterError:
        raise
    except (OSError, RuntimeError, CancelledError, ClosedClientError) as error:
        raise _lost(client) from error


def _workers(client: Any) -> dict[str, int]:
    """The threads of every worker; a scheduler that does not answer in time is as good as gone."""
    with _naming_loss(client):
        return cast("dict[str, int]", client.sync(client.scheduler.ncores, callback_timeout=_ANSWER_SECONDS))


def _topic(client: Any) -> str:
    return f"unrelu-{client.id}"


@contextmanager
def _finished_parts(client: Any, name: str) -> Iterator[set[int]]:
    """The numbers of the parts of one pass that are finished; one that was done twice counts once."""
    finished: set[int] = set()

    def add(event: Any) -> None:
        pass_name, number = event[1]
        if pass_name == name:
            finished.add(number)

    with _naming_loss(client):
        client.subscribe_topic(_topic(client), add)
    try:
        yield finished
    finally:
        with suppress(Exception):
            client.unsubscribe_topic(_topic(client))


# --- Dask's own collections -----------------------------------------------------------------------


def computed_values(lazy: Sequence[Any]) -> list[Any]:
    """What Dask's lazy values are, all at once, by the active client or Dask's default."""
    import dask

    client = active_client()
    if client is None:
        return list(dask.compute(*lazy))
    return list(_computed(client, dask.delayed(list(lazy)), lambda: None))


def lazily(function: Callable[..., Any], *values: Any) -> Any:
    """``function(*values)``, where some of the values are lazy."""
    from dask import delayed

    return delayed(function, pure=True)(*values)
