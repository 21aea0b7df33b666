"""A recovery that can be stopped and gone on with: its state in a file, and the table and request it belongs to."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np

from unrelu.engines.local import map_in_threads
from unrelu.errors import InvalidParameterError, ModelFileError, OutputError, UnreluWarning
from unrelu.recovery.matrix.cells import Cells, tiles
from unrelu.recovery.matrix.factors import Factors
from unrelu.storage import ArchiveFormat, FilePath
from unrelu.validation import warn

FORMAT = ArchiveFormat("unrelu.MatrixState", 1, "saved state")

_EVERY = 5.0  # seconds
_PATIENCE = 20.0  # a state is written for at most about a twentieth of the time


def fingerprint(cells: Cells, **request: Any) -> dict[str, Any]:
    """What a state belongs to: the table (its shape, and a hash of its cells) and what is asked of it.

    >>> from unrelu.recovery.matrix.cells import DenseCells
    >>> fingerprint(DenseCells(np.array([[0.0, 1.0]])), rank=1) == fingerprint(
    ...     DenseCells(np.array([[-0.0, 1.0]])), rank=1
    ... )
    True
    """
    return {"shape": list(cells.shape), "cells": _digest(cells), **request}


def _digest(cells: Cells) -> str:
    """A hash of the cells as 64-bit floats; every zero and every missing cell is the same."""

    def of_tile(rows: slice) -> bytes:
        values = cells.rows(rows.start, rows.stop).astype("<f8") + 0.0
        values[np.isnan(values)] = np.nan
        return hashlib.blake2b(values.tobytes(), digest_size=16).digest()

    whole = hashlib.blake2b(b"".join(map_in_threads(of_tile, tiles(cells.shape))), digest_size=16)
    return whole.hexdigest()


@dataclass(frozen=True)
class SavedState:
    """Factors on their way, after how many iterations and with which relative residual.

    ``facts`` are the :func:`fingerprint` of the run. ``rank_errors`` are those of a rank that was chosen: going on, it
    is not chosen again.
    """

    factors: Factors
    iterations: int
    residual: float
    facts: Mapping[str, Any]
    rank_errors: tuple[tuple[int, float], ...] = ()

    def save(self, path: FilePath) -> None:
        """Write the state to ``path``, whole or not at all."""
        stated = {
            "iterations": self.iterations,
            "residual": self.residual,
            "rank_errors": self.rank_errors,
            "facts": dict(self.facts),
        }
        bias = {} if self.factors.bias is None else {"bias": self.factors.bias}
        FORMAT.write(path, stated, latent=self.factors.latent, loadings=self.factors.loadings, **bias)

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read what :meth:`save` wrote."""
        header = FORMAT.header(path)
        try:
            names = ("latent", "loadings") if header["facts"]["gauge"] == "zero" else ("latent", "loadings", "bias")
            latent, loadings, *bias = FORMAT.arrays(path, *names)
            factors = Factors(latent, loadings, bias[0] if bias else None)
            errors = tuple((int(rank), float(error)) for rank, error in header["rank_errors"])
            state = cls(factors, int(header["iterations"]), float(header["residual"]), header["facts"], errors)
            whole = _is_whole(factors, state.facts["shape"])
        except ModelFileError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"{os.fspath(path)} is a damaged saved state: {error}.") from error
        if not whole:
            raise ModelFileError(f"{os.fspath(path)} is a damaged saved state: its factors do not fit its table.")
        return state

    def check_belongs(self, facts: Mapping[str, Any], path: FilePath) -> None:
        """Raise InvalidParameterError unless this is a state of the table and the request of ``facts``."""
        differing = _differences(self.facts, facts)
        if differing:
            raise InvalidParameterError(
                f"{os.fspath(path)} is the state of another run: {'; '.join(differing)}. Give the table and the options"
                " of that run again, or name another file."
            )


def _is_whole(factors: Factors, shape: list[int]) -> bool:
    n, d = shape
    k = factors.rank
    arrays = [factors.latent, factors.loadings, *([] if factors.bias is None else [factors.bias])]
    expected = [(n, k), (d, k), (d,)]
    return all(
        array.dtype == np.float64 and array.shape == wanted and bool(np.isfinite(array).all())
        for array, wanted in zip(arrays, expected, strict=False)
    )


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """What is not the same, in words; the cells of tables of different shapes need no word.

    >>> _differences({"shape": [5, 4], "cells": "a", "rank": 3}, {"shape": [6, 4], "cells": "b", "rank": 2})
    ['a table of 5 x 4, not 6 x 4', 'rank 3, not 2']
    """
    found = []
    if list(theirs["shape"]) != list(ours["shape"]):
        (n, d), (rows, columns) = theirs["shape"], ours["shape"]
        found.append(f"a table of {n:,} x {d:,}, not {rows:,} x {columns:,}")
    elif theirs.get("cells") != ours.get("cells"):
        found.append("a table with other values")
    names = [name for name in {**ours, **theirs} if name not in ("shape", "cells")]
    for name in names:
        old, new = _in_words(theirs.get(name)), _in_words(ours.get(name))
        if _plain(theirs.get(name)) != _plain(ours.get(name)):
            words = f"{old}, not {new}" if old != new else "another one for some columns"
            found.append(f"{name.replace('_', ' ')} {words}")
    return found


def _plain(value: Any) -> Any:
    """As JSON gives it back; a list of equal numbers is that number."""
    if isinstance(value, list | tuple):
        items = list(value)
        return items[0] if items and all(item == items[0] for item in items) else items
    return value


def _in_words(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, list):
        return f"{min(plain):g} to {max(plain):g}"
    return f"{plain:g}" if isinstance(plain, float) else "unset" if plain is None else str(plain)


class Keeper:
    """A watch that writes the state to a file, at most every few seconds, and once more when its block is left.

    It is left at the end, by an error or by Ctrl-C: the file then holds the last iteration that was finished.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "state.npz"
    >>> with Keeper(path, {"shape": [3, 2], "gauge": "zero"}) as keeper:
    ...     keeper(1, 0.5, Factors(np.ones((3, 1)), np.ones((2, 1)), None))
    >>> SavedState.load(path).residual
    0.5
    """

    def __init__(
        self, path: FilePath, facts: Mapping[str, Any], before: SavedState | None = None, every: float = _EVERY
    ) -> None:
        self._path, self._facts, self._every = path, facts, every
        self._before = 0 if before is None else before.iterations
        self._rank_errors = () if before is None else before.rank_errors
        self._written: SavedState | None = None
        self._due = time.monotonic() + every
        self.latest: SavedState | None = None

    def hear_rank(self, rank: int, error: float) -> None:
        """A rank that was tried, and its error on held-out cells."""
        self._rank_errors = (*self._rank_errors, (rank, error))

    def __call__(self, iteration: int, residual: float, factors: Factors) -> None:
        bias = None if factors.bias is None else factors.bias.copy()
        own = Factors(factors.latent.copy(), factors.loadings.copy(), bias)  # methods may use their arrays again
        self.latest = SavedState(own, self._before + iteration, residual, self._facts, self._rank_errors)
        if time.monotonic() >= self._due:
            try:
                self._write()
            except OutputError as error:  # a full disk must not end what may have run for hours
                warn(f"{error} The run goes on.", UnreluWarning)
                self._due = time.monotonic() + self._every

    def how_to_go_on(self) -> str:
        """One line for whoever has stopped the run."""
        if self.latest is None:
            return "Stopped before the first iteration: there is nothing new to keep."
        at = f"iteration {self.latest.iterations:,} (relative residual {self.latest.residual:.3g})"
        return f"Stopped at {at}, kept in {os.fspath(self._path)}. To go on, run the same command again."

    def _write(self) -> None:
        if self.latest is None or self.latest is self._written:
            return
        start = time.monotonic()
        self.latest.save(self._path)
        end = time.monotonic()
        self._written, self._due = self.latest, end + max(self._every, _PATIENCE * (end - start))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write()
