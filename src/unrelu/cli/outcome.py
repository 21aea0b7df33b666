"""How every command ends: an answer as text or JSON, warnings, or one clear line and an exit code."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, cast

import typer

from unrelu.cli import options
from unrelu.cli.wording import ROW_LABEL, one_line
from unrelu.errors import OutputError, UnreluError, UnreluWarning

if TYPE_CHECKING:
    from rich.table import Table

P = ParamSpec("P")
Words = Callable[[str], str]

BAD_INPUT, INTERNAL, INTERRUPTED, BROKEN_PIPE = 2, 1, 130, 141


@dataclass(frozen=True)
class Answer:
    """What a command found: ``facts`` for --json, lines and tables for people, and the exit code that says so."""

    facts: Mapping[str, Any]
    shown: Sequence[str | Table]
    code: int = 0


def command(says: Mapping[str, str] | None = None) -> Callable[[Callable[P, Answer | None]], Callable[P, None]]:
    """Make a body a command: it may return an answer or raise; exit code and output follow from that.

    ``says`` are the command's own words for what the library says, besides the options of :mod:`unrelu.cli.wording`.
    """
    words = partial(one_line, says=says)

    def decorated(body: Callable[P, Answer | None]) -> Callable[P, None]:
        @functools.wraps(body)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            given: dict[str, Any] = options.gathered(kwargs) if reads_tables else kwargs
            code = _conduct(lambda: cast(Any, body)(*args, **given), bool(kwargs.get("as_json", False)), words)
            if code:
                raise typer.Exit(code)

        signature = inspect.signature(body, eval_str=True)
        reads_tables = "reading" in signature.parameters
        cast(Any, run).__signature__ = options.spelled_out(signature)
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
        else:
            _print(answer.shown)


def _print(shown: Sequence[str | Table]) -> None:
    from rich.console import Console

    # Names of columns and files are data, not markup.
    console = Console(highlight=False, markup=False, emoji=False)
    for item in shown:
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


def plain(value: Any) -> Any:
    """What JSON can hold: lists for arrays and tuples, null for numbers that are not finite.

    >>> plain({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str | int) or value is None:
        return value
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers, without importing it
        return plain(value.tolist())
    return str(value)
