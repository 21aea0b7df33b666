"""Texts of the command line turned into what the library takes: lists of columns, floors, shared options."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated

import typer

from unrelu.errors import InvalidParameterError

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.", show_default=False)]
SeedOption = Annotated[
    int | None, typer.Option("--seed", min=0, help="Whole number that makes the random draws repeatable.")
]

FloorOption = Annotated[
    list[str],
    typer.Option(
        "--floor", metavar="FLOOR", help="The floor: a number, or floors of single columns such as As=0.5,Pb=1."
    ),
]
ColumnsOption = Annotated[
    list[str] | None, typer.Option("--columns", metavar="NAMES", help="Columns to use, as a,b,c; all by default.")
]
ToleranceOption = Annotated[
    float, typer.Option("--floor-tolerance", min=0.0, help="Values this close to the floor count as floored.")
]
DropOption = Annotated[
    list[str] | None, typer.Option("--drop", metavar="NAMES", help="Columns to leave out, as a,b,c.")
]


def listed_items(texts: Sequence[str] | None) -> list[str]:
    """The items of comma-separated lists; an item with a comma in it stands in double quotes.

    >>> listed_items(["As, Pb", '"Fe, total"'])
    ['As', 'Pb', 'Fe, total']
    """
    rows = csv.reader(texts or (), skipinitialspace=True)
    return [item.strip() for row in rows for item in row if item.strip()]


def floors(texts: Sequence[str], n_features: int, names: Sequence[str] | None) -> tuple[float, ...]:
    """One floor per column from a number, or from ``name=number`` items; a lone number is for all others.

    Columns without names go by their number, counted from 0.

    >>> floors(["As=0.5"], 2, ["As", "Pb"]), floors(["0.1,1=-2"], 3, None)
    ((0.5, 0.0), (0.1, -2.0, 0.1))
    """
    labels = [str(index) for index in range(n_features)] if names is None else list(names)
    others = 0.0
    own: dict[str, float] = {}
    for item in listed_items(texts):
        name, equals, number = item.rpartition("=")
        value = _number(number, item)
        if not equals:
            others = value
            continue
        own[_known(name.strip(), labels, numbered=names is None)] = value
    return tuple(own.get(label, others) for label in labels)


def _number(text: str, item: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidParameterError(
            f"--floor: {item!r} is not a finite number. Give one number, or name=number,name=number."
        )
    return value


def _known(name: str, labels: Sequence[str], *, numbered: bool) -> str:
    if name in labels:
        return name
    if numbered:
        raise InvalidParameterError(
            f"--floor: no column {name!r}. The columns have no names: use numbers, 0 to {len(labels) - 1}."
        )
    folded = {label.casefold(): label for label in labels}
    near = get_close_matches(name.casefold(), folded, n=1)
    hint = f"Did you mean {folded[near[0]]!r}?" if near else f"There are {', '.join(labels[:8])}."
    raise InvalidParameterError(f"--floor: no column {name!r}. {hint}")
