"""Matrix recovery that can be stopped and continued: its state in a file, with the table and options it belongs to."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from unrelu import storage
from unrelu.contracts import FloatArray, Progress, Step, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError, OutputError
from unrelu.recovery.matrix.descent import Iterate, MatrixMethod, method_name
from unrelu.recovery.matrix.factors import Cells, Factors, tile_by_tile
from unrelu.recovery.matrix.matrix import CHOOSING, MatrixFit, recover_matrix
from unrelu.storage import FilePath
from unrelu.validation import warn

_EVERY = 5.0  # seconds
_PATIENCE = 20.0  # a state is written for at most about a twentieth of the time


def recover_with_state(
    path: FilePath,
    facts: Mapping[str, Any],
    cells: Cells,
    n_components: int | str,
    method: MatrixMethod,
    gauge: str,
    *,
    seed: int,
    progress: Progress,
    **limits: Any,
) -> MatrixFit:
    """:func:`recover_matrix` with its state kept in a file, and gone on from where there is such a file.

    ``facts`` say more of what the state belongs to, such as the floor: a file of another table or request is refused.
    An interrupt carries a note on how to go on. The file stays in any case.
    """
    own = {"n_components": n_components, "method": method_name(method), "gauge": gauge}
    drawn = {"seed": seed} if n_components == "auto" else {}
    stated = fingerprint(cells, **facts, **own, **drawn)
    before, start = MatrixState.load(path) if os.path.exists(path) else None, None
    if before is not None:
        before.check_belongs(stated, path)
        n_components, start = before.factors.rank, before.factors
    keeper = Keeper(path, stated, before, progress)
    try:
        with keeper:
            fit = recover_matrix(cells, n_components, method, gauge, seed=seed, start=start, progress=keeper, **limits)
    except KeyboardInterrupt as stop:
        stop.add_note(keeper.how_to_go_on())
        raise
    if before is None:
        return fit
    report = replace(
        fit.report,
        iterations=before.iterations + fit.report.iterations,
        component_errors=before.component_errors,
        resumed=(before.iterations, before.residual),
    )
    return replace(fit, report=report)


def fingerprint(cells: Cells, **request: Any) -> dict[str, Any]:
    """The facts that a state belongs to: the table (its shape, and a hash of its cells) and the options."""

    def digest(values: FloatArray, _: slice) -> bytes:  # every zero and every missing cell is the same
        doubles = values.astype("<f8") + 0.0
        doubles[np.isnan(doubles)] = np.nan
        return hashlib.blake2b(doubles.tobytes(), digest_size=16).digest()

    whole = hashlib.blake2b(b"".join(tile_by_tile(cells, digest)), digest_size=16).hexdigest()
    return {"shape": list(cells.shape), "cells": whole, **request}


@dataclass(frozen=True)
class MatrixState:
    """Factors on their way, after how many iterations and with which relative residual.

    ``facts`` are the :func:`fingerprint` of the run. ``component_errors`` are those of a number of components that was
    chosen: going on, it is not chosen again.
    """

    factors: Factors
    iterations: int
    residual: float
    facts: Mapping[str, Any]
    component_errors: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        """Refuse factors of another table, as a damaged file may hold them."""
        if not (isinstance(self.facts, Mapping) and {"shape", "gauge"} <= set(self.facts)):
            raise InvalidDataError("it does not say of which table it is")
        factors, (n, d) = self.factors, self.facts["shape"]
        arrays = [array for array in (factors.latent, factors.loadings, factors.bias) if array is not None]
        expected = [(n, factors.rank), (d, factors.rank), *([(d,)] if self.facts["gauge"] != "zero" else [])]
        if [array.shape for array in arrays] != expected or any(array.dtype != np.float64 for array in arrays):
            raise InvalidDataError("its factors do not fit its table")
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in self.component_errors):
            raise InvalidDataError("its component_errors are no pairs")

    def save(self, path: FilePath) -> None:
        """Write the state to ``path``, whole or not at all."""
        storage.write(path, self)

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read what :meth:`save` wrote."""
        return storage.read(path, cls)

    def check_belongs(self, facts: Mapping[str, Any], path: FilePath) -> None:
        """Raise InvalidParameterError unless this is a state of the table and the request of ``facts``."""
        differing = _differences(self.facts, facts)
        if differing:
            raise InvalidParameterError(
                f"{os.fspath(path)} is the state of another run: {'; '.join(differing)}. Give the table and the options"
                " of that run again, or name another file."
            )


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """The differences in words; cells of tables of different sizes or floors are not compared."""

    def in_words(value: Any) -> str:
        if isinstance(value, list):
            return f"{min(value):g} to {max(value):g}"
        return f"{value:g}" if isinstance(value, float) else "unset" if value is None else str(value)

    found = []
    same_floor = all(_plain(theirs.get(name)) == _plain(ours.get(name)) for name in ("floor", "floor_tolerance"))
    if list(theirs["shape"]) != list(ours["shape"]):
        (n, d), (rows, columns) = theirs["shape"], ours["shape"]
        found.append(f"a table of {n:,} x {d:,}, not {rows:,} x {columns:,}")
    elif theirs.get("cells") != ours.get("cells") and same_floor:
        found.append("a table with other values")
    for name in [name for name in {**ours, **theirs} if name not in ("shape", "cells")]:
        before, now = _plain(theirs.get(name)), _plain(ours.get(name))
        if before != now:
            old, new = in_words(before), in_words(now)
            found.append(f"{name} {old}, not {new}" if old != new else f"{name} another one for some columns")
    return found


def _plain(value: Any) -> Any:
    """As JSON gives it back; a list of equal numbers is that number."""
    if isinstance(value, list | tuple):
        items = list(value)
        return items[0] if items and all(item == items[0] for item in items) else items
    return value


class Keeper:
    """A progress callback that writes the state to a file, at most every few seconds, and when its block ends.

    The block ends at the end of the run, by an error or by Ctrl-C: the file then holds the last finished iteration.
    ``progress`` is called with the same steps, whose iterations include those of the earlier state ``before``.
    """

    def __init__(
        self,
        path: FilePath,
        facts: Mapping[str, Any],
        before: MatrixState | None = None,
        progress: Progress = no_progress,
        every: float = _EVERY,
    ) -> None:
        self._path, self._facts, self._progress, self._every = path, facts, progress, every
        self._before = 0 if before is None else before.iterations
        self._errors = () if before is None else before.component_errors
        self._written: MatrixState | None = None
        self._due = time.monotonic() + every
        self.latest: MatrixState | None = None

    def __call__(self, step: Step) -> None:
        if step.stage == CHOOSING and step.state is not None:
            self._errors = (*self._errors, step.state)
        elif isinstance(step.state, Iterate):
            iterate = replace(step.state, iterations=self._before + step.state.iterations)
            own = deepcopy(iterate.factors)  # methods may use their arrays again
            self.latest = MatrixState(own, iterate.iterations, iterate.residual, self._facts, self._errors)
            if time.monotonic() >= self._due:
                try:
                    self._write()
                except OutputError as error:  # a full disk must not end what may have run for hours
                    warn(f"{error} The run goes on.", "not-saved")
                    self._due = time.monotonic() + self._every
            step = iterate.step()
        self._progress(step)

    def how_to_go_on(self) -> str:
        """One line for the user after an interrupt."""
        if self.latest is None:
            return "Stopped before the first iteration: there is nothing new to keep."
        at = f"iteration {self.latest.iterations:,} (relative residual {self.latest.residual:.3g})"
        return f"Stopped at {at}, kept in {os.fspath(self._path)}. To go on, run the same again."

    def _write(self) -> None:
        if self.latest is None or self.latest is self._written:
            return
        start = time.monotonic()
        self.latest.save(self._path)
        end = time.monotonic()
        self._written, self._due = self.latest, end + max(self._every, _PATIENCE * (end - start))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()
