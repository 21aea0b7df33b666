"""Options that commands share, and texts of the command line turned into what the library takes."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from unrelu.errors import InvalidParameterError


def tables(what: str = "Tables", more: str = "") -> Any:
    """The argument that names tables."""
    kinds = "csv, tsv, parquet, feather, npy, npz, scipy's sparse npz"
    return typer.Argument(help=f"{what} ({kinds}), globs of them, or - for csv on stdin.{more}", metavar="PATHS")


def output_option(help_text: str) -> Any:
    """The main file, or the folder, that a command writes."""
    return typer.Option("--output", "-o", help=help_text)


def seed_option(what: str, most: int | None = None) -> Any:
    """The seed of what a command draws."""
    return typer.Option("--seed", min=0, max=most, help=what)


def floor_option(help_text: str = "The floor: a number") -> Any:
    """One floor, or floors of single columns."""
    return typer.Option(
        "--floor", metavar="FLOOR", help=f"{help_text}, or floors of single columns such as As=0.5,Pb=1."
    )


def columns_option(default: str = "all") -> Any:
    """The columns to use."""
    return typer.Option("--columns", metavar="NAMES", help=f"Columns to use, as a,b,c; {default} by default.")


def picture_option(what: str) -> Any:
    """A picture of what a command finds."""
    return typer.Option("--picture", help=f"Also draw {what}: a png, svg or pdf file.")


Tables = Annotated[list[str], tables()]
RowsOption = Annotated[str, output_option("The table to write, its kind by extension; - is csv on stdout.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.", show_default=False)]
SeedOption = Annotated[int | None, seed_option("Whole number that makes the random draws repeatable.")]
FloorOption = Annotated[list[str], floor_option()]
ToleranceOption = Annotated[
    float, typer.Option("--floor-tolerance", min=0.0, help="Values this close to the floor count as floored.")
]
ColumnsOption = Annotated[list[str] | None, columns_option()]
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
    from unrelu.validation import suggestion

    if name in labels:
        return name
    if numbered:
        raise InvalidParameterError(
            f"--floor: no column {name!r}. The columns have no names: use numbers, 0 to {len(labels) - 1}."
        )
    raise InvalidParameterError(f"--floor: no column {name!r}. {suggestion(name, labels, most=8)}")


def number_or_auto(option: str, text: str) -> int | str:
    """A whole number of at least 1, or auto.

    >>> number_or_auto("--components", "3"), number_or_auto("--components", "auto")
    (3, 'auto')
    """
    if text == "auto":
        return text
    if not (text.isascii() and text.isdecimal() and int(text) >= 1):
        raise InvalidParameterError(f"{option} must be a whole number of at least 1, or auto; got {text!r}.")
    return int(text)
