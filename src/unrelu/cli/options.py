"""Options that commands share, and texts of the command line turned into what the library takes."""

from __future__ import annotations

import csv
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from unrelu.errors import InvalidParameterError

OTHERS = "*"  # columns that are not named


def tables(what: str = "Tables", more: str = "") -> Any:
    """The argument that names tables."""
    kinds = "csv, tsv, also as gz, bz2, zst or zip; xlsx, parquet, feather, npy, npz, scipy's sparse npz"
    return typer.Argument(
        help=f"{what} ({kinds}), globs or folders of them, or - for csv on stdin.{more}", metavar="PATHS"
    )


def output_option(help_text: str) -> Any:
    """The main file, or the folder, that a command writes."""
    return typer.Option("--output", "-o", help=help_text)


def seed_option(what: str, most: int | None = None) -> Any:
    """The seed of what a command draws."""
    return typer.Option("--seed", min=0, max=most, help=what)


def floor_option(help_text: str = "The floor: a number") -> Any:
    """One floor, or floors of single columns."""
    return typer.Option(
        "--floor",
        metavar="FLOOR",
        help=f"{help_text}, min for each column's smallest value where it repeats, none, or floors of single columns"
        " such as As=0.5,Pb=none.",
    )


def ceiling_option() -> Any:
    """One upper limit, or those of single columns."""
    return typer.Option(
        "--ceiling",
        metavar="CEILING",
        help="Upper limits, the mirror image of floors: a number, max, or As=90,Pb=max. A column has one of both.",
    )


def shape_option(usual: str = "auto") -> Any:
    """One shape, or those of single columns."""
    return typer.Option(
        "--shape",
        metavar="SHAPE",
        help="What columns are like: auto (log for positive columns, normal for others, power or free where a column"
        " clearly rejects that), normal, log, power, free (any increasing curve), or for single columns As=log,*=auto"
        f" ({usual} by default). Floors stay in the table's units.",
    )


def picture_option(what: str) -> Any:
    """A picture of what a command finds."""
    return typer.Option("--picture", help=f"Also draw {what}: a png, svg or pdf file.")


Tables = Annotated[list[str], tables()]
RowsOption = Annotated[str, output_option("The table to write, its kind by extension; - is csv on stdout.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.", show_default=False)]
SeedOption = Annotated[int | None, seed_option("Whole number that makes the random draws repeatable.")]
FloorOption = Annotated[list[str], floor_option()]
CeilingOption = Annotated[list[str] | None, ceiling_option()]
ShapeOption = Annotated[list[str] | None, shape_option()]
NormalShapeOption = Annotated[list[str] | None, shape_option("normal")]
ComponentsOption = Annotated[
    str | None,
    typer.Option(
        "--components",
        metavar="INTEGER|auto",
        help="Number of latent inputs: the rank of the covariance (without noise); auto with --method full_likelihood.",
    ),
]
MethodOption = Annotated[str | None, typer.Option("--method", help="How to learn, as in unrelu fit.")]
OtherFloorOption = Annotated[list[str] | None, floor_option("The floor: a number (0 by default)")]
ModelOption = Annotated[
    Path | None,
    typer.Option("--model", help="Ask this file, a model or a saved learner; by default the table is learned."),
]
ToleranceOption = Annotated[
    float, typer.Option("--floor-tolerance", min=0.0, help="Values this close to the floor count as floored.")
]


@dataclass(frozen=True)
class TableOptions:
    """How tables are read. A command that has a parameter ``reading`` has all of these options, each once."""

    columns: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    id: list[str] = field(default_factory=list)
    header: bool | None = None
    decimal: str | None = None
    limits: str | None = None
    nondetect: str | None = None
    sheet: str | None = None
    where: str | None = None
    skip_bad_files: bool | None = None
    scheduler: str | None = None

    @property
    def table_kind(self) -> str:
        """The kind of a table that is written: one with ids holds text as well."""
        return "columns" if self.id else "table"

    def chosen(self, floor: Sequence[str] | None = None, columns: list[str] | None = None) -> dict[str, Any]:
        """The parameters of open_samples; columns may be chosen by what is in a model."""
        keep = {"columns": columns} if columns is not None else {"columns": self.columns, "drop": self.drop}
        return {
            **keep,
            "id": self.id,
            "header": self.header,
            "decimal": self.decimal,
            "limits": self.limits,
            "nondetect": _nondetect(self.nondetect, floor),
            "sheet": self.sheet,
            "where": self.where,
            "skip_bad_files": bool(self.skip_bad_files),
            "scheduler": self.scheduler,
        }


@dataclass(frozen=True)
class Fitting:
    """The options of a fit, None where they are not given, of a command that takes a model from a file instead."""

    method: str | None
    components: str | None
    floor: list[str] | None
    ceiling: list[str] | None
    shape: list[str] | None
    floor_tolerance: float
    seed: int

    def refuse_with(self, model: Path) -> None:
        """Raise if one of them is given although there is a model."""
        given: dict[str, Any] = {"--method": self.method, "--components": self.components}
        given |= {"--floor": self.floor, "--ceiling": self.ceiling, "--shape": self.shape}
        for option in [name for name, value in given.items() if value is not None]:
            raise InvalidParameterError(f"{option} belongs to a fit, and {model} has its own: leave one of them out.")

    def parameters(self) -> dict[str, Any]:
        """Those of a learner."""
        return {
            "method": self.method or "auto",
            "floor": limits("--floor", self.floor or ["0.0"]),
            "ceiling": limits("--ceiling", self.ceiling or ()),
            "shape": shapes(self.shape),
            "n_components": components_of(self.components),
            "floor_tolerance": self.floor_tolerance,
            "random_state": self.seed,
        }


EVERYTHING = TableOptions()
_READING: dict[str, Any] = {
    "columns": Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="NAMES", help="Columns to use, as a,b,c; all (or the model's) by default."),
    ],
    "drop": Annotated[
        list[str] | None, typer.Option("--drop", metavar="NAMES", help="Columns to leave out, as a,b,c.")
    ],
    "id": Annotated[
        list[str] | None,
        typer.Option("--id", metavar="NAMES", help="Columns to keep as text (names, dates): they go into every table."),
    ],
    "header": Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first line names the columns; told from the file."),
    ],
    "decimal": Annotated[
        str | None, typer.Option("--decimal", metavar=".|,", help="The decimal mark of text; told from the file.")
    ],
    "limits": Annotated[
        str | None,
        typer.Option(
            "--limits",
            metavar="one|highest|missing|cell",
            help="Cells such as <0.25 or >100: one: a column's one limit is its floor (or ceiling); cell: each keeps"
            " its own, as they do by default where a column has several; highest: the column is cut at its highest;"
            " missing: such cells are missing.",
        ),
    ],
    "nondetect": Annotated[
        str | None,
        typer.Option(
            "--nondetect",
            metavar="missing|floor",
            help="Cells such as ND, n.d., BDL or <LOD: missing, or at the column's floor (its limit, that of --floor,"
            " or its smallest number).",
        ),
    ],
    "sheet": Annotated[str | None, typer.Option("--sheet", help="The sheet of an Excel file; the first by default.")],
    "where": Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Only rows that meet comparisons such as \"site == 'A' and (dose > 3 or year in [2023, 2024])\".",
        ),
    ],
    "skip_bad_files": Annotated[
        bool | None,
        typer.Option(
            "--skip-bad-files",
            help="Leave out files that cannot be read, each wholly, and name them; all are read once more for that.",
            show_default=False,
        ),
    ],
    "scheduler": Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="A Dask scheduler, such as tcp://10.0.0.1:8786, whose workers read the tables.",
        ),
    ],
}


def spelled_out(signature: inspect.Signature) -> inspect.Signature:
    """The signature of a command, with the options that its parameter ``reading`` stands for."""
    parameters = []
    for each in signature.parameters.values():
        if each.name != "reading":
            parameters.append(each)
            continue
        for name, option in _READING.items():
            parameters.append(each.replace(name=name, annotation=option, default=None))
    return signature.replace(parameters=parameters)


def gathered(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a command that has a parameter ``reading``."""
    given = {name: arguments[name] for name in _READING}
    lists = {name: listed_items(given[name]) for name in ("columns", "drop", "id")}
    others = {name: value for name, value in arguments.items() if name not in _READING}
    return {**others, "reading": TableOptions(**{**given, **lists})}


def _nondetect(text: str | None, floor: Sequence[str] | None) -> Any:
    """With --nondetect floor, cells that were not detected are at the floors that --floor gives, if it gives any."""
    items = listed_items(floor) if text == "floor" else []
    own = dict(item.rpartition("=")[::2] for item in items if "=" in item)
    numbers = {name.strip(): float(value) for name, value in own.items() if _is_number(value)}
    others = [float(item) for item in items if "=" not in item and _is_number(item)]
    return numbers or (others[0] if others else text)


def listed_items(texts: Sequence[str] | None) -> list[str]:
    """The items of comma-separated lists; an item with a comma in it stands in double quotes.

    >>> listed_items(["As, Pb", '"Fe, total"'])
    ['As', 'Pb', 'Fe, total']
    """
    rows = csv.reader(texts or (), skipinitialspace=True)
    return [item.strip() for row in rows for item in row if item.strip()]


def limits(option: str, texts: Sequence[str]) -> Any:
    """Floors or ceilings from a number, from ``name=number`` items, or both; a lone number is for all others.

    ``none`` is for columns without one, and ``min`` (``max``) for the smallest (largest) value where it repeats.
    Columns without names go by their number, counted from 0.

    >>> limits("--floor", ["As=0.5,Pb=none"]), limits("--floor", ["0.1"]), limits("--ceiling", ["max", "1=-2"])
    ({'As': 0.5, 'Pb': None}, 0.1, {'1': -2.0, '*': 'max'})
    """
    own: dict[str, float | str | None] = {}
    others: list[float | str | None] = []
    for item in listed_items(texts):
        name, equals, text = item.rpartition("=")
        value = _limit(option, text.strip(), item)
        if equals:
            own[name.strip()] = value
        else:
            others = [value]
    if not own:
        return others[0] if others else None
    return {**own, OTHERS: others[0]} if others else own


def shapes(texts: Sequence[str] | None, usual: str = "auto") -> Any:
    """Shapes from a word, from ``name=word`` items, or both; a lone word, or that of ``*``, is for all others.

    >>> shapes(["As=log", "*=auto"]), shapes(["free"]), shapes(["As=log,auto"]), shapes(None)
    ({'As': 'log', '*': 'auto'}, 'free', {'As': 'log', '*': 'auto'}, 'auto')
    """
    parts = [item.rpartition("=") for item in listed_items(texts)]
    given = {(name.strip() if equals else OTHERS): word.strip() for name, equals, word in parts}
    return given if set(given) - {OTHERS} else given.get(OTHERS, usual)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _limit(option: str, text: str, item: str) -> float | str | None:
    word = "min" if option == "--floor" else "max"
    if text.casefold() in ("none", word):
        return None if text.casefold() == "none" else word
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidParameterError(
            f"{option}: {item!r} is not a finite number, none or {word}. Give one of them, or name=number,name=number."
        )
    return value


def levels(option: str, texts: Sequence[str] | None) -> tuple[float, ...]:
    """Levels of quantiles, from small to large.

    >>> levels("--quantile", [".95, 0.05"])
    (0.05, 0.95)
    """
    found = set()
    for item in listed_items(texts):
        if not (_is_number(item) and 0.0 < float(item) < 1.0):
            raise InvalidParameterError(f"{option}: {item!r} is no number between 0 and 1. Give one, or .05,.5,.95.")
        found.add(float(item))
    return tuple(sorted(found))


def components_of(text: str | None) -> int | str | None:
    """What --components asks for.

    >>> components_of(None), components_of("2")
    (None, 2)
    """
    return None if text is None else number_or_auto("--components", text)


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
