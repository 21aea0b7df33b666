"""How every command ends: an answer as text or JSON, warnings, or one clear line and an exit code, in its own words."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import logging
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from unrelu.cli import options
from unrelu.errors import OutputError, UnreluError, UnreluWarning
from unrelu.notebook import plain

if TYPE_CHECKING:
    from rich.table import Table

Words = Callable[[str], str]

BAD_INPUT, INTERNAL, INTERRUPTED, BROKEN_PIPE = 2, 1, 130, 141


@dataclass(frozen=True)
class Answer:
    """What a command found: ``facts`` for --json, lines and tables for people, and the exit code that says so."""

    facts: Mapping[str, Any]
    shown: Sequence[str | Table]
    code: int = 0


def command(says: Mapping[str, str] | None = None) -> Callable[[Callable[..., Answer | None]], Callable[..., None]]:
    """Make a body a command: it may return an answer or raise; exit code and output follow from that.

    ``says`` are the command's own words for what the library says, besides the options of :data:`OPTIONS`.
    """

    def decorated(body: Callable[..., Answer | None]) -> Callable[..., None]:
        signature = inspect.signature(body, eval_str=True)

        @functools.wraps(body)
        def run(**arguments: Any) -> None:
            def work() -> Answer | None:
                return body(**options.gathered(signature, arguments))

            code = _conduct(work, arguments["as_json"], lambda text: one_line(text, says))
            if code:
                raise typer.Exit(code)

        run.__signature__ = options.spelled_out(signature)  # type: ignore[attr-defined]
        return run

    return decorated


def _conduct(body: Callable[[], Answer | None], as_json: bool, words: Words) -> int:
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of its font cache
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")  # it tells of lost connections, with tracebacks
    ROW_LABEL.set(None)
    notes: list[str] = []
    code, line = 0, ""
    try:
        with _listening(notes, words):
            answer = body()
            if answer is not None:
                _present(answer, notes, as_json)
                code = answer.code
    except KeyboardInterrupt as stop:
        how_to_go_on = [words(note) for note in getattr(stop, "__notes__", [])]
        code, line = INTERRUPTED, "\n".join([*how_to_go_on, "Interrupted: nothing half-written is left."])
    except BrokenPipeError:  # the reader has seen enough, as in `unrelu sample ... | head`
        _abandon_standard_output()
        code = BROKEN_PIPE
    except Exception as error:
        code, line = _explain(error, words)
        if _debugging():
            traceback.print_exc()
    for note in notes:
        typer.echo(f"Warning: {note}", err=True)
    if line:
        typer.echo(line, err=True)
    return code


def _explain(error: Exception, words: Words) -> tuple[int, str]:
    """(exit code, one line)."""
    if isinstance(error, UnreluError):
        return BAD_INPUT, f"Error: {words(str(error))}"
    if isinstance(error, MemoryError):
        return BAD_INPUT, f"Error: Not enough memory. {words(str(error))}".rstrip()
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename else ""
        return BAD_INPUT, f"Error: {words(f'{error.strerror or error}{place}')}"
    what = words(f"{type(error).__name__}: {error}").rstrip(".: ")
    return INTERNAL, f"Internal error: {what}; please report it; set UNRELU_DEBUG=1 for the traceback"


@contextmanager
def _listening(notes: list[str], words: Words) -> Iterator[None]:
    """Our warnings are noted; those of other libraries tell a user nothing and are dropped.

    ConvergenceWarning is scikit-learn's, and what our estimators warn with, as it asks.
    """
    show = warnings.showwarning

    def note(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        text = words(str(message))
        if issubclass(category, UnreluWarning) or category.__name__ == "ConvergenceWarning":
            if text not in notes:
                notes.append(text)
        elif _debugging():
            show(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)  # both are
        warnings.showwarning = note
        yield


def _debugging() -> bool:
    return bool(os.environ.get("UNRELU_DEBUG"))


def _present(answer: Answer, notes: list[str], as_json: bool) -> None:
    with standard_output():
        if as_json:
            typer.echo(json.dumps(plain({**answer.facts, "warnings": notes}), allow_nan=False, indent=2))
            return
        from rich.console import Console

        # Names of columns and files are data, not markup.
        console = Console(highlight=False, markup=False, emoji=False)
        for item in answer.shown:
            console.print(item, soft_wrap=isinstance(item, str))


@contextmanager
def standard_output() -> Iterator[None]:
    """Around what writes to standard output: a full disk is reported, not raised when the program ends."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _abandon_standard_output()
        raise OutputError(f"Cannot write to standard output: {error.strerror or error}.") from error


def _abandon_standard_output() -> None:
    """Let what is still buffered go nowhere: at its end Python would try again, and complain."""
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


# --- what the library says of its parameters, said of options -------------------------------------

_SAME = """below ceiling checkpoint columns decimal drop false_alarm_rate fill floor floor_tolerance gauge groups header
    hidden_method id intercept limits max_iter max_seconds method noise_scale nondetect nonnegative_bias output_bias
    parameters penalty prior record round_counts scheduler selection shape sheet skip_bad_files skip_bad_rows stderr
    tol where widths"""
OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in _SAME.split()},
    "n_components": "--components",
    "n_draws": "--draws",
    "n_hidden": "--widths",
    "n_inputs": "--inputs",
    "n_simulations": "--simulations",
    "random_state": "--seed",
}

_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_VALUE = rf"{_TEXT}|True|False|{_NUMBER}|\[(?:{_TEXT}|{_NUMBER}|,\s*)+\]"


def one_line(message: str, says: Mapping[str, str] | None = None) -> str:
    """A message for one line of the terminal, naming options where the library names parameters.

    ``says`` are a command's own words for phrases of the library, and its own options for parameters.

    >>> one_line("If the floor is lower,\\npass it as floor= (say floor=-1).")
    'If the floor is lower, pass it as --floor (say --floor=-1).'
    >>> print(one_line("Leave it out with drop='Fe, total', or use method='facets'."))
    Leave it out with --drop '"Fe, total"', or use --method facets.
    >>> print(one_line("Leave them out with drop=['site', 'Fe, total']."))
    Leave them out with --drop 'site,"Fe, total"'.
    >>> one_line("Add rows, or wait.", {"or wait": "or give --model"}), one_line("k is 3", {"k": "--components"})
    ('Add rows, or give --model.', '--components is 3')
    """
    text = " ".join(message.splitlines()).replace("must be None or between", "must be between")
    own = dict(says or {})
    for phrase in [phrase for phrase in own if not phrase.isidentifier()]:
        text = text.replace(phrase, own.pop(phrase))
    options = {**OPTIONS, **own}
    return _ROWS.sub(_counted_from_one, _pattern(options).sub(lambda match: _option(options, match), text))


ROW_LABEL: ContextVar[Callable[[int], str] | None] = ContextVar("ROW_LABEL", default=None)
"""What the table that a command reads calls a row that is counted from 0."""
_ROWS = re.compile(r"([Rr])ows? (\d[\d,]*(?:, \d[\d,]*)*)( and \d+ more)? \(the first is 0\)")


def _counted_from_one(match: re.Match[str]) -> str:
    """Rows on the command line are counted from 1; a single one also has its line in the file."""
    rows = [int(row.replace(",", "")) for row in match[2].split(", ")]
    label = ROW_LABEL.get()
    if len(rows) > 1 or match[3]:
        return f"{match[1]}ows {', '.join(f'{row + 1:,}' for row in rows)}{match[3] or ''}"
    return match[1] + (f"row {rows[0] + 1:,}" if label is None else label(rows[0]))[1:]


def _pattern(options: Mapping[str, str]) -> re.Pattern[str]:
    """Parameters before an equals sign; elsewhere a word is one if it cannot be English, or where a message starts."""
    every = "|".join(options)
    certain = "|".join(name for name in options if "_" in name)
    return re.compile(
        rf"(?<![\w.'\"-])(?:(?P<name>{every})=(?:(?P<value>{_VALUE})|(?=[\s.,;:)]|$))"
        rf"|(?P<certain>{certain})\b(?![('\"=])"
        rf"|(?:(?<=^)|(?<=: ))(?P<first>{every})(?=:| of column\b| (?:must|is)\b))"
    )


def _option(options: Mapping[str, str], match: re.Match[str]) -> str:
    option = options[match["name"] or match["certain"] or match["first"]]
    value = match["value"]
    if value is None or value == "True":
        return option
    if value == "False":
        return option.replace("--", "--no-")
    if value[0] in "'\"[":
        read = ast.literal_eval(value)
        return f"{option} " + shlex.quote(",".join(map(_item, read if isinstance(read, list) else [read])))
    return option + ("=" if value.startswith("-") else " ") + value


def _item(value: object) -> str:
    """An item of a list in which commas separate columns."""
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if "," in text or text.startswith('"') else text
