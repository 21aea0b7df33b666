"""Options that commands share, annotations of files, and texts of the command line turned into values."""

from __future__ import annotations

import csv
import inspect
import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from unrelu.errors import InvalidParameterError

OTHERS = "*"  # columns that are not named
_LISTS = ("columns", "drop", "id")  # options that are lists of columns
_KINDS = {"columns": " csv, tsv (also gzipped), parquet, feather or arrow, by its extension."}  # of files to write
_KINDS |= dict.fromkeys(
    ("table", "rows"), " csv, tsv (also gzipped), parquet, feather, arrow, npy or npz, by extension."
)


MARGINS = "auto|normal|log|boxcox|monotone"
_VALUES = {int: "N", float: "NUMBER", Path: "FILE", str: "TEXT"}  # what stands for a value in help
RARE: dict[str, Any] = {"rare": True}


def option(help_text: str, *names: str, rare: bool = False, **more: Any) -> Any:
    """An option; without names it has that of its parameter. --help shows the first sentence, of rare ones nothing.

    A parameter may be annotated with the help text alone, or with it and a dictionary of ``more``.
    """
    ends = {"min": "At least", "max": "At most"}
    help_text += "".join(f" {words} {more[end]}." for end, words in ends.items() if end in more)
    return typer.Option(*names, help=help_text, rich_help_panel="Other options" if rare else None, **more)


@dataclass(frozen=True)
class Output:
    """A file that a command writes where it has a path; in an annotation, the option for it.

    ``called`` is its name in the answer, which leaves it out if that is empty. ``kind``: "archive", "table" (with ids
    among its columns, if there are any), "columns" (numbers and text), "edges" (of a graph), "rows" (a table that may
    go to standard output), "picture", "spare picture" (left out without matplotlib), or "kept", which the work itself
    writes. ``fact`` is its name among the facts, if that is not the parameter's.
    """

    path: Path | None
    called: str = ""
    kind: str = "archive"
    help_text: str = ""
    fact: str = ""
    names: tuple[str, ...] = ()


def also(help_text: str, called: str = "", kind: str = "archive", fact: str = "", *names: str) -> Output:
    """A file that is written on request."""
    return Output(None, called, kind, help_text + _KINDS.get(kind, ""), fact, names)


def output(help_text: str, called: str = "", kind: str = "archive", fact: str = "") -> Any:
    """The main file, or (a text alone) the folder, that a command writes."""
    names = ("--output", "-o")
    return also(help_text, called, kind, fact, *names) if called or kind == "rows" else option(help_text, *names)


def picture(what: str, called: str = "Picture") -> Output:
    """A picture of what a command finds."""
    return also(f"Draw {what}. As png, svg or pdf.", called, "picture")


def tables(what: str = "Tables", more: str = "") -> Any:
    """The argument that names tables."""
    return typer.Argument(
        help=f"{what}: csv, xlsx, parquet, npy, folders. Also tsv; csv and tsv packed as gz, bz2, zst or zip; feather;"
        f" npz, scipy's sparse npz too; globs; and - for csv on standard input.{more}",
        metavar="PATHS",
    )


def floor(help_text: str = "Detection limits: 0.5, or As=0.5,Pb=0.2; 0 by default") -> Any:
    """One floor, or floors of single columns."""
    return option(
        f"{help_text}. Also min, for each column's smallest value where it repeats, and none. Cells such as <0.25 state"
        " theirs themselves.",
        metavar="FLOOR",
    )


def _margins(usual: str = "auto") -> Any:
    return option(
        f"Distribution of the columns; {usual} by default. auto is log for positive columns, normal for others, and"
        " boxcox (a power) or monotone (any increasing curve) where a column clearly rejects that. Single columns:"
        " As=log,*=auto. Floors stay in the table's units.",
        metavar=MARGINS,
    )


Tables = Annotated[list[str], tables()]
Rows = Annotated[str, output("The table to write; - for csv on stdout.", kind="rows")]
Json = Annotated[bool, option("Print the answer as JSON.", "--json", show_default=False)]
Seed = Annotated[int | None, "Makes the random draws repeatable.", {"min": 0}]
Floor = Annotated[list[str] | None, floor()]
Ceiling = Annotated[
    list[str] | None,
    "Upper limits: a number, max, or As=90,Pb=max. A column has a floor or a ceiling, not both.",
    {"metavar": "CEILING", **RARE},
]
Margin = Annotated[list[str] | None, _margins()]
NormalMargin = Annotated[list[str] | None, _margins("normal")]
Components = Annotated[
    str | None,
    "Number of factors: the rank of the covariance (without noise). auto with --method full_likelihood.",
    {"metavar": "N|auto", **RARE},
]
Model = Annotated[Path | None, "Use this model file, not a fit of the table. Or a saved learner or detector."]
Tolerance = Annotated[float, "Values this close to the floor count as floored.", {"min": 0.0, **RARE}]


# A command that has a parameter of one of the two types below has their options, each once.


@dataclass(frozen=True)
class TableOptions:
    """How tables are read."""

    columns: Annotated[
        list[str], "Columns to use, as As,Pb. All (or the model's) by default.", {"metavar": "NAMES"}
    ] = field(default_factory=list)
    drop: Annotated[list[str], "Columns to leave out, as As,Pb.", {"metavar": "NAMES"}] = field(default_factory=list)
    id: Annotated[
        list[str], "Columns of text, such as site or date. They are kept in every table written.", {"metavar": "NAMES"}
    ] = field(default_factory=list)
    header: Annotated[
        bool | None,
        option("Whether the first line names the columns. Detected by default.", "--header/--no-header", rare=True),
    ] = None
    decimal: Annotated[str | None, "The decimal mark of text. Detected by default.", {"metavar": ".|,", **RARE}] = None
    limits: Annotated[
        str | None,
        "Cells such as <0.25 or >100. one: a column's one limit is its floor (or ceiling); cell: each keeps its own, as"
        " they do by default where a column has several; highest: the column is censored at its highest limit; missing:"
        " such cells are missing.",
        {"metavar": "one|highest|missing|cell", **RARE},
    ] = None
    nondetect: Annotated[
        str | None,
        "Cells such as ND or BDL: missing, or at the floor. The floor is the column's limit, that"
        " of --floor, or its smallest number.",
        {"metavar": "missing|floor"},
    ] = None
    sheet: Annotated[str | None, "The sheet of an Excel file. The first by default.", RARE] = None
    where: Annotated[
        str | None,
        "Only rows that meet comparisons such as \"site == 'A' and (dose > 3 or year in [2023, 2024])\".",
        {"metavar": "CONDITION", **RARE},
    ] = None
    skip_bad_files: Annotated[
        bool | None,
        "Leave out files that cannot be read, each wholly, and name them. All are read once more for that.",
        {"show_default": False, **RARE},
    ] = None
    scheduler: Annotated[
        str | None,
        "A Dask scheduler, such as tcp://10.0.0.1:8786, whose workers read the tables.",
        {"metavar": "ADDRESS", **RARE},
    ] = None

    def chosen(
        self, floor: Sequence[str] | None = None, columns: list[str] | None = None, label: str | None = None
    ) -> dict[str, Any]:
        """The parameters of open_samples; columns may be chosen by what is in a model.

        A column of labels may be text, and is dropped; one that --columns names stays, and is refused.
        """
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        if columns is not None:
            given |= {"columns": columns, "drop": []}
        elif label is not None and label not in self.columns:
            given["drop"] = [*self.drop, label]
        if self.nondetect == "floor":  # such cells are at the floors that --floor gives, if it gives any
            floors = limits("--floor", [item for item in listed_items(floor) if _number(item.rpartition("=")[2])])
            one = floors.pop(OTHERS, None) if isinstance(floors, dict) else floors
            given["nondetect"] = (floors if isinstance(floors, dict) else None) or (
                self.nondetect if one is None else one
            )
        return {**given, "skip_bad_files": bool(self.skip_bad_files)}


@dataclass(frozen=True)
class FitOptions:
    """The options of a fit; None where they are not given."""

    components: Components = None
    method: Annotated[
        str | None,
        "How to fit; robust, robust_cells against outliers. auto: by default, full_likelihood where that is quick or"
        " limits vary, else one_pass; one_pass: censored likelihoods and weighted moments, for large tables; robust:"
        " the same while up to nearly half of the rows are outliers; robust_cells: the same while single cells are bad,"
        " and rows beside them; full_likelihood: all cells of a row together, factors plus noise, slower; sgd: Wu et"
        " al. 2019, stochastic gradients, latent means above the floor; filtered_gradient: Bulusu et al. 2022, filtered"
        " batches, the same; median: Wu et al. 2019, footnote 4, medians as means, the same.",
        {"metavar": "METHOD"},
    ] = None
    floor: Floor = None
    ceiling: Ceiling = None
    margins: Margin = None
    floor_tolerance: Tolerance = 0.0

    def refuse_with(self, model: Path) -> None:
        """Raise if an option of a fit is given beside a model."""
        for name in ("method", "components", "floor", "ceiling", "margins"):
            if getattr(self, name) is not None:
                raise InvalidParameterError(
                    f"--{name} belongs to a fit, and {model} has its own: leave one of them out."
                )

    def parameters(self, seed: int, method: str = "auto") -> dict[str, Any]:
        """The parameters of a learner; ``method`` is the command's own, unless the option names one."""
        rank = None if self.components is None else number_or_auto("--components", self.components)
        return {
            "method": self.method or method,
            "floor": limits("--floor", self.floor or ["0.0"]),
            "ceiling": limits("--ceiling", self.ceiling or ()),
            "margins": margins(self.margins),
            **({} if rank is None else {"n_components": rank}),
            "floor_tolerance": self.floor_tolerance,
            "random_state": seed,
        }


_LIMITS = ("floor", "ceiling", "margins", "floor_tolerance")
FittingWithoutComponents = Annotated[FitOptions, ("method", *_LIMITS)]
FittingByOneMethod = Annotated[FitOptions, _LIMITS]
EVERYTHING, USUAL = TableOptions(), FitOptions()
_PANELS: dict[Any, str] = {TableOptions: "How tables are read", FitOptions: "How a model is fitted"}  # of rare options


def spelled_out(signature: inspect.Signature) -> tuple[inspect.Signature, dict[str, list[str]]]:
    """The signature of a command as typer reads it: every option with its name, shared ones and --json included.

    Also, by name, the options of each parameter that stands for several.
    """
    parameters, groups = [], {}
    for each in signature.parameters.values():
        kind = getattr(each.annotation, "__origin__", each.annotation)
        wanted = {each.name: each.annotation}
        if kind in (TableOptions, FitOptions):
            every = get_type_hints(kind, include_extras=True)
            wanted = {name: every[name] for name in getattr(each.annotation, "__metadata__", [every])[0]}
            groups[each.name] = list(wanted)
        for name, annotation in wanted.items() if each.name != "job" else ():
            default = each.default
            if each.name in groups:
                default = None if name in _LISTS else getattr(each.default, name)
            value, (given, *more) = annotation.__origin__, annotation.__metadata__
            words, names = (given.help_text, given.names) if isinstance(given, Output) else (given, ())
            made = option(words, *names, **(more[0] if more else {})) if isinstance(words, str) else copy(given)
            if isinstance(made, OptionInfo):
                if made.default is ...:  # typer keeps the first name there
                    made.default = f"--{name.replace('_', '-')}"
                made.rich_help_panel = made.rich_help_panel and _PANELS.get(kind, made.rich_help_panel)
                types = [each for each in get_args(value) or (value,) if each in _VALUES]
                made.metavar = made.metavar or next((_VALUES[each] for each in types), None)
            parameters.append(each.replace(name=name, annotation=Annotated[value, made], default=default))
    last = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, annotation=Json, default=False)
    return signature.replace(parameters=[*parameters, last]), groups


def gathered(
    signature: inspect.Signature, groups: Mapping[str, Sequence[str]], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Output]]:
    """The arguments of a command, options that share a parameter as one; and its outputs, with their paths."""
    found = {name: given[name] for name in signature.parameters if name not in groups and name != "job"}
    for name, options in groups.items():
        own = {each: listed_items(given[each]) if each in _LISTS else given[each] for each in options}
        found[name] = replace(signature.parameters[name].default, **own)
    outputs = {}
    for name, parameter in signature.parameters.items():
        spec = next(iter(getattr(parameter.annotation, "__metadata__", ())), None)
        if isinstance(spec, Output):
            path = found[name]
            if spec.kind == "rows" and path == "-" and given["as_json"]:
                raise InvalidParameterError("--json needs --output: standard output cannot hold the rows as well.")
            kind = "columns" if spec.kind == "table" and found["reading"].id else spec.kind
            outputs[spec.fact or name] = replace(spec, path=None if path is None else Path(path), kind=kind)
    return found, outputs


# --- texts of the command line ----------------------------------------------------------------------


def listed_items(texts: Sequence[str] | None) -> list[str]:
    """The items of comma-separated lists; an item with a comma in it stands in double quotes."""
    rows = csv.reader(texts or (), skipinitialspace=True)
    return [item.strip() for row in rows for item in row if item.strip()]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def limits(option: str, texts: Sequence[str]) -> Any:
    """Floors or ceilings from a number, from ``name=number`` items, or both; a lone number is for all others.

    ``none`` is for columns without one, and ``min`` (``max``) for the smallest (largest) value where it repeats.
    Columns without names go by their number, counted from 0.

    >>> limits("--floor", ["As=0.5,Pb=none"]), limits("--floor", ["0.1"]), limits("--ceiling", ["max", "1=-2"])
    ({'As': 0.5, 'Pb': None}, 0.1, {'1': -2.0, '*': 'max'})
    """
    own: dict[str, float | str | None] = {}
    word = "min" if option == "--floor" else "max"
    for item in listed_items(texts):
        name, equals, text = item.rpartition("=")
        value: float | str | None = _number(text)
        if text.strip().casefold() == word:
            value = word
        elif value is None and text.strip().casefold() != "none":
            raise InvalidParameterError(
                f"{option}: {item!r} is not a finite number, none or {word}."
                " Give one of them, or name=number,name=number."
            )
        own[name.strip() if equals else OTHERS] = value
    if set(own) - {OTHERS}:  # the one for all others comes last
        return {**{name: own[name] for name in own if name != OTHERS}, **{k: own[k] for k in own if k == OTHERS}}
    return own.get(OTHERS)


def margins(texts: Sequence[str] | None, usual: str = "auto") -> Any:
    """Margins from a word, from ``name=word`` items, or both; a lone word, or that of ``*``, is for all others."""
    parts = [item.rpartition("=") for item in listed_items(texts)]
    given = {(name.strip() if equals else OTHERS): word.strip() for name, equals, word in parts}
    return given if set(given) - {OTHERS} else given.get(OTHERS, usual)


def levels(option: str, texts: Sequence[str] | None) -> tuple[float, ...]:
    """Levels of quantiles, from small to large."""
    found = set()
    for item in listed_items(texts):
        level = _number(item)
        if level is None or not 0.0 < level < 1.0:
            raise InvalidParameterError(f"{option}: {item!r} is no number between 0 and 1. Give one, or .05,.5,.95.")
        found.add(level)
    return tuple(sorted(found))


def number_or_auto(option: str, text: str) -> int | str:
    """A whole number of at least 1, or auto."""
    if text == "auto":
        return text
    if not (text.isascii() and text.isdecimal() and int(text) >= 1):
        raise InvalidParameterError(f"{option} must be a whole number of at least 1, or auto; got {text!r}.")
    return int(text)
