"""From the limits that cells state, "<0.25" or ">100", to one floor and one ceiling a column, or to marks of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import CellLimits
from unrelu.errors import InvalidDataError, NondetectWarning
from unrelu.passes.rows import Floats
from unrelu.tables.columns import column_phrase
from unrelu.tables.reading import Reading
from unrelu.tables.text_columns import NOT_DETECTED, Seen
from unrelu.validation import counted, listed, warn


class SeveralLimits(InvalidDataError):
    """A column has no single limit."""


def resolved(seen: Mapping[int, Seen], names: Sequence[str] | None, reading: Reading) -> CellLimits | None:
    """One limit a column, or None where no cell states any. Raises InvalidDataError where a column has no single one.

    With limits="highest" a column's floor is its highest limit, and its ceiling its lowest one. What was not detected
    is at the column's limit where that is wanted, or at the value given for it, or else at its smallest number.

    >>> from collections import Counter
    >>> cells = Seen(below=Counter({0.1: 4, 0.25: 2}), smallest=0.3)
    >>> resolved({1: cells}, ["Pb", "As"], Reading(limits="highest"))
    CellLimits(floor=((1, 0.25),), ceiling=())
    """
    floor, ceiling = {}, {}
    for position, cells in sorted(seen.items()) if reading.limits != "cell" else ():
        name = None if names is None else names[position]
        where = column_phrase(names, position)
        low = set() if reading.limits == "missing" else set(cells.below)
        high = set() if reading.limits == "missing" else set(cells.above)
        if reading.floors_nondetects and cells.n_not_detected:
            low |= _of_nondetects(cells, reading.nondetect_floor(name, position, bool(low)), bool(low), where)
        if low:
            floor[position] = max(low)
            _refuse_several(where, "<", low, max(low), cells.smallest, cells.smallest < max(low), reading)
        if high:
            ceiling[position] = min(high)
            _refuse_several(where, ">", high, min(high), cells.largest, cells.largest > min(high), reading)
        if low and high and max(low) >= min(high):
            raise InvalidDataError(
                f"{where}: its limits <{max(low):g} and >{min(high):g} contradict each other. Correct the cells, or"
                " read them as missing with limits='missing'."
            )
    return CellLimits(tuple(floor.items()), tuple(ceiling.items())) if floor or ceiling else None


def own_limits(seen: Mapping[int, Seen], names: Sequence[str] | None, reading: Reading) -> dict[int, float]:
    """With limits="cell", the columns with cells that have a limit, and where cells that were not detected are.

    That is the value given for them, or the smallest limit that the column states, or else its smallest number.

    >>> from collections import Counter
    >>> own_limits({1: Seen(below=Counter({0.1: 4, 0.25: 2}), smallest=0.3)}, ["Pb", "As"], Reading(limits="cell"))
    {1: 0.1}
    """
    found = {}
    for position, cells in sorted(seen.items()) if reading.limits == "cell" else ():
        floored = bool(reading.floors_nondetects and cells.n_not_detected)
        if cells.below or cells.above or floored:
            given = reading.nondetect_floor(None if names is None else names[position], position, bool(cells.below))
            low = set(cells.below) if given is None else set()
            if floored and not low:
                low = _of_nondetects(cells, given, False, column_phrase(names, position))
            found[position] = min(low, default=np.nan)
    return found


def put_own(values: Floats, beyond: NDArray[np.int8], limits: Mapping[int, float]) -> None:
    """Cells that were not detected are at most their column's limit, in place."""
    for position, limit in limits.items():
        values[(beyond[:, position] < 0) & (values[:, position] == NOT_DETECTED), position] = limit


def cut(values: Floats, limits: CellLimits | None) -> None:
    """Values beyond their column's limit become the limit, in place; what is missing stays so."""
    if limits is not None:
        for position, limit in limits.floor:
            np.maximum(values[:, position], limit, out=values[:, position])
        for position, limit in limits.ceiling:
            np.minimum(values[:, position], limit, out=values[:, position])


def told(
    seen: Mapping[int, Seen],
    names: Sequence[str],
    limits: CellLimits | None,
    reading: Reading,
    own: Mapping[int, float] = MappingProxyType({}),
) -> list[str]:
    """What text cells were read as, one line a column; ``own`` are those of :func:`own_limits`.

    >>> from collections import Counter
    >>> told({0: Seen(words=Counter({("nondetect", "ND"): 12}))}, ["As"], None, Reading())
    ["As: 12 cells 'ND' read as missing"]
    """
    floor, ceiling = (dict(limits.floor), dict(limits.ceiling)) if limits else ({}, {})
    lines = []
    for position, cells in sorted(seen.items()):
        said = []
        for sign, counts, limit in (
            ("<", cells.below, floor.get(position)),
            (">", cells.above, ceiling.get(position)),
        ):
            if counts:
                side = "floor" if sign == "<" else "ceiling"
                became = "read as missing" if limit is None else f"put at the {side} {limit:g}"
                became = "kept as limits of single cells" if position in own else became
                stated = listed((f"{sign}{value:g}" for value in sorted(counts)), most=3)
                said.append(f"{counted(counts.total(), 'cell')} {stated} {became}")
        meant = {
            "missing": "read as missing",
            "nondetect": "read as missing",
            "grouped": "read with thousands separators",
        }
        if position in floor and reading.floors_nondetects:
            meant["nondetect"] = f"put at the floor {floor[position]:g}"
        if position in own and reading.floors_nondetects:
            meant["nondetect"] = f"kept with the floor {own[position]:g}"
        for kind, words in groupby(sorted(cells.words.items()), key=lambda item: item[0][0]):
            each = list(words)
            texts = listed((repr(text) for (_, text), _ in each), most=3)
            said.append(f"{counted(sum(count for _, count in each), 'cell')} {texts} {meant[kind]}")
        if said:
            lines.append(f"{names[position]}: {', '.join(said)}")
    return lines


def warn_of_nondetects(seen: Mapping[int, Seen], names: Sequence[str], reading: Reading) -> None:
    """Warn of low values that are taken for missing, unless that was asked for."""
    columns = [f"{names[j]!r} ({cells.n_not_detected:,})" for j, cells in sorted(seen.items()) if cells.n_not_detected]
    if columns and reading.nondetect is None:
        warn(
            f"Cells that were not detected are low, but were read as missing: column {listed(columns)}."
            " nondetect='floor' puts them at the floor; nondetect='missing' says that missing is right.",
            NondetectWarning,
        )


def _of_nondetects(cells: Seen, given: float | None, has_limit: bool, where: str) -> set[float]:
    if given is not None:
        return {given}
    if has_limit:
        return set()
    if not np.isfinite(cells.smallest):
        raise InvalidDataError(
            f"{where}: not detected anywhere, and no number says where its floor is. Give it, as nondetect=, or leave"
            " the column out."
        )
    return {cells.smallest}


def _refuse_several(
    where: str, sign: str, stated: set[float], chosen: float, extreme: float, beyond: bool, reading: Reading
) -> None:
    if reading.limits == "highest" or (len(stated) == 1 and not beyond):
        return
    one, side, limit = ("floor", "below", "highest") if sign == "<" else ("ceiling", "above", "lowest")
    shown = listed(f"{sign}{value:g}" for value in sorted(stated))
    what = f"{len(stated)} different limits, {shown}" if len(stated) > 1 else f"{shown} beside {extreme:g}"
    raise SeveralLimits(
        f"{where}: {what}, but limits='one' means one {one} a column. limits='cell' keeps every cell's own limit;"
        f" limits='highest' cuts the column at its {limit} limit: every value {side} {chosen:g} becomes {chosen:g};"
        " limits='missing' reads such cells as missing."
    )
