"""What --help and --help-all show: examples, and the layout of both in lines of at most 80 columns.

--help fits one screen: of each common option the first sentence. --help-all has every option, with its whole text.
"""

from __future__ import annotations

import os
from inspect import cleandoc
from itertools import groupby
from textwrap import fill
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_ALL = "unrelu.help_all"  # in a context: whether --help-all was given
_WIDEST = 20  # columns of an option's name before its help begins on a line of its own

EXAMPLES = """
fit samples.csv --id site
fit samples.csv --id site --method robust
fit samples.csv --id site --margins log -o model.npz --picture fit.png
report samples.csv --id site -o report.html
check samples.csv --id site
check samples.csv model.npz --id site -o columns.csv
info model.npz
info model.npz --table samples.csv
merge north.npz south.npz -o model.npz
impute samples.csv --id site -o completed.csv
impute samples.csv --id site --std std.csv --mask filled.csv
impute samples.csv --id site --draws 20 -o draws.csv
predict samples.csv --id site --column Pb -o predicted.csv
predict new.csv --model model.npz --column Pb --quantiles .1,.9
score samples.csv --id site
score samples.csv --id site --cells --top 20 -o cells.csv
clean samples.csv --id site --impute --changes changes.csv
sample model.npz -n 1000 -o synthetic.csv
factor outputs.csv --components 2 --hidden matrix.csv
graph samples.csv --id site --picture graph.png
graph samples.csv --id site --margins monotone --selection stars
recover factors.npz corrupted.csv -o clean.csv
recover model.npz corrupted.csv --components 2 --outliers outliers.csv
peel outputs.csv --widths 2 --hidden units.csv
peel outputs.csv --widths 30 --inputs 6 --max-seconds 300
read samples.csv
read samples.csv -o tidy.csv
demo
simulate -n 1000 -d 4 --seed 1 -o rows.csv --truth truth.npz
reproduce wu2019-figure1 --quick
"""


class Command(TyperCommand):
    """One command; an option with a panel of its own is rare, and stands in --help-all alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_ALL] = "--help-all" in args
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the one screen, or all of it."""
        whole, params, name = ctx.meta.get(_ALL, False), self.get_params(ctx), self.name or ""
        needed = [each for each in params if each.required or each.param_type_name == "argument"]
        pieces = [_term(each).split(", ")[-1] if each.required else f"[{_term(each)}]" for each in needed]
        examples = "\n".join(f"  unrelu {line}" for line in EXAMPLES.splitlines() if line.split(" ")[0] == name)
        parts = [_paragraphs(self.help, formatter.width), *([f"{_head('Examples')}\n{examples}"] if examples else [])]
        for panel, some in groupby(sorted(params, key=_panel), key=_panel):
            rows = [_row(param, whole) for param in some if whole or "--help" not in param.opts]
            if whole or not panel:
                parts.append(_section(panel or "Options", rows, formatter.width))
        more = [] if whole else [f"More: {ctx.command_path} --help-all"]
        usage = " ".join(["Usage:", ctx.command_path, *pieces, "[OPTIONS]"])
        formatter.write("\n\n".join([usage, *parts, *more]))


class Commands(TyperGroup):
    """All commands, by task."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write a line for every command."""
        parts = [f"Usage: {ctx.command_path} COMMAND ...", _paragraphs(self.help, formatter.width)]
        commands: list[Any] = [self.commands[name] for name in self.list_commands(ctx)]
        for task, some in groupby(commands, key=lambda each: each.rich_help_panel):
            rows = [(str(each.name), (each.help or "").partition("\n")[0]) for each in some]
            parts.append(_section(str(task), rows, formatter.width))
        parts.append(_section("Options", [_row(param, False) for param in self.get_params(ctx)], formatter.width))
        formatter.write("\n\n".join([*parts, f"More: {ctx.command_path} COMMAND --help"]))


def _head(text: str) -> str:
    return f"{text}:" if os.environ.get("NO_COLOR") else typer.style(f"{text}:", bold=True)


def _panel(param: Any) -> str:
    return getattr(param, "rich_help_panel", None) or ""


def _term(param: Any) -> str:
    """What stands at the left: "-o, --output FILE"."""
    if param.param_type_name == "argument":
        return f"{param.metavar}{'...' * (param.nargs == -1)}"
    names = [", ".join(sorted(each, key=len)) for each in (param.opts, param.secondary_opts) if each]
    return "/".join(names) + (f" {param.metavar}" if param.metavar else "")


def _row(param: Any, whole: bool) -> tuple[str, str]:
    text = (param.help or "") if whole else (param.help or "").partition(". ")[0].rstrip(".")
    default = param.default
    shown = isinstance(default, str | int | float | os.PathLike) and not isinstance(default, bool)
    if shown and "default" not in text and getattr(param, "show_default", False):
        text += f" [default: {default}]"
    return _term(param), text


def _paragraphs(text: str | None, width: int) -> str:
    # A line must not end within an option's name.
    return "\n\n".join(fill(part, width, break_on_hyphens=False) for part in cleandoc(text or "").split("\n\n"))


def _section(name: str, rows: list[tuple[str, str]], width: int) -> str:
    """A heading and lines of two cells; a long first cell has a line of its own."""
    wide = min(max(len(term) for term, _ in rows), _WIDEST)
    lines = [_head(name)]
    for term, text in rows:
        indent = " " * (wide + 4)
        start = f"  {term}\n{indent}" if len(term) > wide else f"  {term:{wide}}  "
        lines.append(
            start
            + fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)[wide + 4 :]
        )
    return "\n".join(lines)
