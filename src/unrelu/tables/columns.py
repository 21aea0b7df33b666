"""Which columns of a file to read: kept, left out, and matched by name from file to file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from unrelu.errors import InputFileError
from unrelu.validation import suggestion

ColumnKey = str | int
"""A column's name, or its number counted from 0 (also as text, where columns have no names)."""


ColumnKeys = ColumnKey | Sequence[ColumnKey] | None


class Columns(Protocol):
    """What a file says of its columns, and what messages call it."""

    @property
    def name(self) -> str: ...

    @property
    def column_names(self) -> tuple[str, ...] | None: ...

    @property
    def n_columns(self) -> int: ...


@dataclass(frozen=True)
class ColumnChoice:
    """The columns asked for, in the order asked for (all by default), less those to leave out or to keep as text."""

    keep: tuple[ColumnKey, ...] = ()
    drop: tuple[ColumnKey, ...] = ()
    ids: tuple[ColumnKey, ...] = ()

    @classmethod
    def of(cls, columns: ColumnKeys, drop: ColumnKeys, ids: ColumnKeys = None) -> ColumnChoice:
        return cls(_keys(columns), _keys(drop), _keys(ids))


def match_columns(tables: Sequence[Columns], choice: ColumnChoice) -> list[list[int]]:
    """Positions of the chosen columns in every file, so that all files give the same columns.

    The first file says which columns there are and in which order; the others are matched by name.
    """
    first = tables[0]
    places = [_places(table) for table in tables]
    everywhere = set().union(*places)
    keep = [_label(first, key, places[0]) for key in choice.keep] or [
        label for label in places[0] if label not in _labels(first)
    ]
    ids = {_label(first, key, places[0]) for key in choice.ids}
    for label in [label for label in keep if choice.keep and label in ids]:
        raise InputFileError(
            f"{first.name}: {column_phrase(first.column_names, places[0][label])} is asked for both as a number and as"
            " text: leave it out of columns= or of id=."
        )
    drop = {_label(first, key, everywhere) for key in choice.drop} | ids
    wanted = [label for label in dict.fromkeys(keep) if label not in drop]
    if not wanted:
        raise InputFileError(f"{first.name}: no column is left to read. Drop fewer columns.")
    for table, place in zip(tables[1:], places[1:], strict=True):
        extra = (
            [] if choice.keep else [label for label in place if label not in places[0].keys() | drop | _labels(table)]
        )
        _refuse_other_columns(first, table, [label for label in wanted if label not in place], extra)
    return [[place[label] for label in wanted] for place in places]


def match_ids(tables: Sequence[Columns], choice: ColumnChoice) -> list[dict[str, int]]:
    """Positions, in every file, of the columns that are kept as text, by what they are called."""
    first, places = tables[0], [_places(table) for table in tables]
    labels = list(dict.fromkeys(_label(first, key, places[0]) for key in choice.ids))
    for table, place in zip(tables[1:], places[1:], strict=True):
        _refuse_other_columns(first, table, [label for label in labels if label not in place], [])
    prefix = "id" if first.column_names is None else ""
    return [{f"{prefix}{label}": place[label] for label in labels} for place in places]


def column_phrase(names: Sequence[str] | None, position: int) -> str:
    """How messages call a column: by name, or by its number.

    >>> column_phrase(["As", "Pb"], 1), column_phrase(None, 1)
    ("column 'Pb'", 'column number 1 (the first is 0)')
    """
    return f"column number {position} (the first is 0)" if names is None else f"column {names[position]!r}"


def without(names: Sequence[str] | None, positions: int | Iterable[int], parameter: str = "drop") -> str:
    """The parameter of open_samples that leaves columns out (or another one that names columns).

    >>> without(["site name"], 0), without(None, 3), without(["site", "day"], [0, 1], "id")
    ("drop='site name'", 'drop=3', "id=['site', 'day']")
    """
    every = [positions] if isinstance(positions, int) else list(positions)
    keys: list[Any] = every if names is None else [names[position] for position in every]
    return f"{parameter}={(keys[0] if len(keys) == 1 else keys)!r}"


def names_or_numbers(names: Sequence[str] | None, n_columns: int) -> tuple[str, ...]:
    """What tables that are shown or written call their columns: x0, x1, ... where they have no names.

    >>> names_or_numbers(None, 2), names_or_numbers(["As"], 1)
    (('x0', 'x1'), ('As',))
    """
    return tuple(f"x{index}" for index in range(n_columns)) if names is None else tuple(map(str, names))


def _keys(keys: ColumnKey | Sequence[ColumnKey] | None) -> tuple[ColumnKey, ...]:
    if keys is None:
        return ()
    return (keys,) if isinstance(keys, str | int) else tuple(keys)


def _places(table: Columns) -> dict[str, int]:
    """Label -> position, where columns without names are labelled by their number."""
    if table.column_names is None:
        return {str(position): position for position in range(table.n_columns)}
    places: dict[str, int] = {}
    for position, name in enumerate(table.column_names):
        if places.setdefault(name, position) != position:
            raise InputFileError(
                f"{table.name}: the column name {name!r} occurs twice "
                f"(columns {places[name] + 1} and {position + 1} from the left). Rename one of them."
            )
    return places


def _labels(table: Columns) -> frozenset[str]:
    """Columns that say where rows belong, such as the keys of folders: no features unless they are asked for."""
    found: frozenset[str] = getattr(table, "labels", frozenset())
    return found


def _label(table: Columns, key: ColumnKey, known: set[str] | dict[str, int]) -> str:
    """The label that ``key`` stands for; a number means that column of the first file."""
    if isinstance(key, str) and key in known:
        return key
    if isinstance(key, int) and 0 <= key < table.n_columns:
        return str(key) if table.column_names is None else table.column_names[key]
    raise InputFileError(_unknown(table, key))


def _unknown(table: Columns, key: ColumnKey) -> str:
    names = table.column_names
    if isinstance(key, int) or names is None:
        return f"{table.name}: no column number {key}; it has {table.n_columns}, counted from 0."
    return f"{table.name}: no column {key!r}. {suggestion(key, names, 'Its columns are', most=8)}"


def _refuse_other_columns(first: Columns, table: Columns, absent: list[str], extra: list[str]) -> None:
    if (table.column_names is None) != (first.column_names is None):
        bare, named = (table, first) if table.column_names is None else (first, table)
        raise InputFileError(
            f"{bare.name}: has no column names, but {named.name} has. Give all files the same columns."
        )
    if absent:
        position = _places(first)[absent[0]]
        raise InputFileError(
            f"{table.name}: has no {column_phrase(first.column_names, position)}, but {first.name} has. "
            f"Add it, or leave it out everywhere with {without(first.column_names, position)}."
        )
    if extra:
        position = _places(table)[extra[0]]
        raise InputFileError(
            f"{table.name}: has {column_phrase(table.column_names, position)}, but {first.name} has not. "
            f"Leave it out with {without(table.column_names, position)}."
        )
