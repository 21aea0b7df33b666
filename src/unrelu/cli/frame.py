"""What every command shares: files checked before the long work, progress, files written, the answer, the end.

A command ends in an answer as text or JSON, in warnings, or in one clear line and an exit code.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import logging
import os
import shlex
import string
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from unrelu.cli import options
from unrelu.cli.options import Output
from unrelu.errors import AssumptionWarning, MissingDependencyError, OutputError, UnreluError, UnreluWarning
from unrelu.notebook import Table, plain

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from unrelu.contracts import Progress, Samples, Step

STDOUT = Path("-")
BAD_INPUT, INTERNAL, INTERRUPTED, BROKEN_PIPE = 2, 1, 130, 141

Answer: TypeAlias = tuple[Mapping[str, Any], Sequence[str | Table], int]
"""What a command found: facts for --json, lines and tables for people, and the exit code that says so."""
Words: TypeAlias = Callable[[object], str]


# --- the end ----------------------------------------------------------------------------------------


def command(body: Callable[..., Answer | None]) -> Callable[..., None]:
    """Make a body a command: it may return an answer or raise; exit code and output follow from that.

    A body with a parameter ``job`` gets one, which holds all other arguments.
    """
    signature = inspect.signature(body, eval_str=True)
    spelled, groups = options.spelled_out(signature)
    own = options_of(spelled.parameters)
    OPTIONS.update(own)

    def run(**arguments: Any) -> None:
        job: Job | None = None
        notes: list[str] = []
        code, line = 0, ""

        def words(what: object) -> str:
            return one_line(what, OPTIONS | own, getattr(job and job.table, "row_label", None))

        logging.getLogger("matplotlib").setLevel(logging.ERROR)  # messages about its font cache
        os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")  # messages about lost connections
        try:
            with _listening(notes, words):
                given, outputs = options.gathered(signature, groups, arguments)
                if "job" in signature.parameters:
                    given["job"] = job = Job(outputs, given, words)
                answer = body(**given)
                if answer is not None:
                    facts, shown, code = answer
                    _present(facts, shown, notes, arguments["as_json"])
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
        if code:
            raise typer.Exit(code)

    functools.update_wrapper(run, body)
    run.__signature__ = spelled  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in spelled.parameters.items()}
    return run


def _explain(error: Exception, words: Words) -> tuple[int, str]:
    if isinstance(error, UnreluError):
        return BAD_INPUT, " ".join(["Error:", words(error), *getattr(error, "__notes__", [])])
    if isinstance(error, MemoryError):
        return BAD_INPUT, f"Error: Not enough memory. {words(str(error))}".rstrip()
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename else ""
        return BAD_INPUT, f"Error: {words(f'{error.strerror or error}{place}')}"
    what = words(f"{type(error).__name__}: {error}").rstrip(".: ")
    return INTERNAL, f"Internal error: {what}; please report it; set UNRELU_DEBUG=1 for the traceback"


@contextmanager
def _listening(notes: list[str], words: Words) -> Iterator[None]:
    """Note our warnings, line by line; drop those of other libraries, which mean nothing to a user."""
    show = warnings.showwarning

    def note(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if isinstance(message, UnreluWarning):
            lines = str(message).splitlines() if len(message.kinds) > 1 else [message]
            notes.extend(dict.fromkeys(line for line in map(words, lines) if line not in notes))
        elif _debugging():
            show(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnreluWarning)
        warnings.showwarning = note
        yield


def _debugging() -> bool:
    return bool(os.environ.get("UNRELU_DEBUG"))


def _present(facts: Mapping[str, Any], shown: Sequence[str | Table], notes: list[str], as_json: bool) -> None:
    with standard_output():
        if as_json:
            typer.echo(json.dumps(plain({**facts, "warnings": notes}), allow_nan=False, indent=2))
            return
        from rich.console import Console

        # Names of columns and files are data, not markup.
        console = Console(highlight=False, markup=False, emoji=False)
        for item in shown:
            if isinstance(item, str):  # a terminal would break a line within a word
                console.print(item, soft_wrap=not console.is_terminal)
            else:
                console.print(item.on_terminal())


@contextmanager
def standard_output() -> Iterator[None]:
    """Wrap what writes to standard output: a full disk is an error now, not when the program ends."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _abandon_standard_output()
        raise OutputError(f"Cannot write to standard output: {error.strerror or error}.") from error


def _abandon_standard_output() -> None:
    """Drop what is still buffered: at its end Python would try to write it again, and complain."""
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


# --- files, checked before the long work and written after it --------------------------------------


class Job:
    """One run of a command. It is made before the long work, and refuses files that cannot be read or written.

    ``given`` are the command's arguments: ``paths`` or ``table`` are input tables and globs of them, ``model``,
    ``weights`` and ``files`` other inputs. ``table`` is the opened table, read by the options of ``reading``.
    """

    table: Samples | None = None

    def __init__(self, outputs: Mapping[str, Output], given: Mapping[str, Any] = {}, words: Words = str) -> None:
        self.words, self.given = words, given
        self.reading: options.TableOptions = given.get("reading", options.EVERYTHING)
        tables = given.get("paths", given.get("table") or [])
        self.paths: list[str] = [tables] if isinstance(tables, str) else tables
        self.model: Path | None = given.get("model")
        self._begin = time.perf_counter()
        self._outputs = {name: output for name, output in outputs.items() if output.path is not None}
        # Every output's path by its name; None where it is not wanted, or was left out.
        self.files = {name: output.path for name, output in outputs.items()}
        self._left_out: list[str] = []
        # Rows on standard output leave no room there for anything else.
        self.to_stdout = any(output.kind == "rows" and output.path == STDOUT for output in self._outputs.values())
        others = (self.model, given.get("weights"), *given.get("files", ()))
        inputs: list[str | Path] = [path for path in others if path is not None]
        if self.paths:
            from unrelu.tables.files import files_of

            inputs += files_of(self.paths)
        check_outputs(list(self._outputs.values()), inputs)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def by(self, itself: str = "a model fitted to the table") -> str:
        """The model in use, and how long the work took."""
        return f"{self.model or itself} in {self.seconds:.2f} s"

    def opened(self, floor: Sequence[str] | None = None, columns: list[str] | None = None) -> Samples:
        """Open the table, which messages and the answer name from then on; a model may choose its columns."""
        from unrelu import tables

        reading = self.reading.chosen(floor, columns, self.given.get("groups"))
        self.table = tables.open_samples(self.paths, **reading, checkpoint=self.given.get("checkpoint"))
        return self.table

    def expect(self, name: str, called: str, kind: str) -> None:
        """Give an output another name in the answer, and another kind."""
        self._outputs[name] = replace(self._outputs[name], called=called, kind=kind)
        check_outputs([self._outputs[name]])

    @contextmanager
    def progress(self, diagnostics: bool = True) -> Iterator[Progress]:
        """Show the steps of long work, on a terminal; without ``diagnostics`` leave these to the answer's table."""
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        from unrelu.contracts import no_progress
        from unrelu.kernels import report_compiling

        drawn = not self.to_stdout and sys.stderr.isatty()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"))
        bar = Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True, disable=not drawn)
        # Older versions of rich end a disabled one with an empty line.
        with bar if drawn else nullcontext(), warnings.catch_warnings():
            if not diagnostics:
                warnings.simplefilter("ignore", AssumptionWarning)
            shown = meter(bar)
            with report_compiling(shown if sys.stderr.isatty() else no_progress):
                yield shown

    def write(self, **contents: Any) -> None:
        """Write every requested file, whole or not at all.

        A content is a pair of rows and column names, written with the ids of the opened table; or parts of columns by
        name; or a function of the path, which writes. That of a picture returns the figure, and is called before
        anything is written.
        """
        pictures: dict[Path, bytes] = {}
        for name, output in list(self._outputs.items()):
            if output.path is not None and output.kind.endswith("picture"):
                from unrelu.report.pictures import rendered

                try:
                    pictures[output.path] = rendered(contents[name](), output.path.suffix)
                except MissingDependencyError as missing:
                    if output.kind == "picture":
                        raise
                    self.leave_out(name, f"The picture was left out. {missing}")
        for name, output in self._outputs.items():
            path = output.path
            if path is None or path in pictures or output.kind == "kept":
                continue
            content = contents[name]
            with standard_output() if path == STDOUT else nullcontext():
                if callable(content):
                    content(path)
                elif isinstance(content, tuple):
                    from unrelu.report.tables import write_rows

                    values, names = content
                    write_rows(path, values, names, {} if self.table is None else self.table.ids())
                else:
                    from unrelu.tables.write import write_columns

                    write_columns(path, content)
        for place, picture in pictures.items():
            from unrelu.report.pictures import write_picture

            write_picture(place, picture)

    def leave_out(self, name: str, why: str) -> bool:
        """Do not write an output, and give the reason in the answer; True if it was requested."""
        wanted = self._outputs.pop(name, None) is not None
        self.files[name] = None
        self._left_out += [why] * wanted
        return wanted

    def answer(
        self,
        facts: Mapping[str, Any],
        shown: Sequence[str | Table],
        last: Sequence[str] = (),
        fitted: Any = None,
        code: int = 0,
    ) -> Answer | None:
        """What was read, what was found, diagnostics, which files were written; None if rows went to standard output.

        ``fitted`` is an estimator, whose report has the diagnostics.
        """
        if self.to_stdout:
            return None
        from unrelu.validation import listed

        model = {"model": self.model} if "model" in self.given else {}
        every = {**self.files, "seconds": round(self.seconds, 3), **model, **facts}
        if self.table is not None and (skipped := self.table.skipped_files):
            every["skipped_files"] = skipped
        lines: list[str | Table] = list(shown)
        if self.table is not None and (notes := self.table.notes):
            every["text_cells"] = notes
            lines.insert(0, f"Text in cells: {listed(notes, most=8)}.")
        if fitted is not None:
            from unrelu.report.tables import diagnostic_rows, labels

            report = getattr(fitted, "report_", None)
            every["report"] = None if report is None else asdict(report)
            if report is not None:
                lines += diagnostic_rows(report.diagnostics, labels(fitted.distribution_), self.words)
        written = [f"{each.called} written to {each.path}" for each in self._outputs.values() if each.called]
        return every, [*lines, *written, *self._left_out, *last], code


def check_outputs(outputs: Sequence[Output], inputs: Sequence[str | Path] = ()) -> None:
    """Raise OutputError unless every output can be written, under its name and as its kind, and is no input."""
    from unrelu.storage import atomic_write  # brings NumPy, for which --help does not wait

    places = [os.path.abspath(output.path or "") for output in outputs]
    for output, place in zip(outputs, places, strict=True):
        path, kind = output.path or Path(), output.kind
        if places.count(place) > 1:
            raise OutputError(f"The same file {path} is named for two outputs: choose different names.")
        if path == STDOUT:
            if kind != "rows":
                raise OutputError("Only rows can go to standard output: give a file name.")
            continue
        if path.is_dir():
            raise OutputError(f"Cannot write {path}: it is a folder. Give a file name.")
        for source in inputs:
            if os.path.exists(source) and path.exists() and os.path.samefile(source, path):
                raise OutputError(f"{path} is also an input: choose another name for the output.")
        if path.is_file() or not path.exists():  # a pipe or device would notice the trial
            with suppress(EOFError), atomic_write(path):
                raise EOFError  # ends the trial before anything appears
        if kind in ("table", "columns", "rows"):
            from unrelu.tables.write import check_table

            check_table(path, columns=kind == "columns")
        elif kind == "edges":
            from unrelu.graph.learning import check_edges_file

            check_edges_file(path)
        elif kind == "picture":
            from unrelu.report.pictures import check_picture

            check_picture(path)


@contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """A folder to write into, created if missing, and removed again if the work fails with it still empty."""
    created = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise OutputError(f"Cannot write into {folder}: it is a file, not a folder.") from error
    except OSError as error:
        raise OutputError(f"Cannot create the folder {folder}: {error.strerror or error}.") from error
    try:
        yield
    except BaseException:
        if created:
            with suppress(OSError):
                folder.rmdir()
        raise


# --- progress -------------------------------------------------------------------------------------


def meter(bar: Bar) -> Progress:
    """A progress callback that shows each step on one line of the terminal: its stage, its share, words on it."""
    task, stage = bar.add_task("Starting", total=None, words=""), ""

    def show(step: Step) -> None:
        nonlocal stage
        if step.stage != stage:
            stage = step.stage
            bar.reset(task, description=stage, words="")
        # A stage without a known end has a bar that only moves.
        bar.update(task, completed=step.done, total=step.total, words=step.words)

    return show


# --- messages of the library about parameters and rows, turned into ones about options and lines -----

_RENAMED = {
    "k": "components",
    "n_components": "components",
    "n_draws": "draws",
    "n_hidden": "widths",
    "n_inputs": "inputs",
    "n_simulations": "simulations",
    "random_state": "seed",
}
_NAME = string.ascii_letters + string.digits + "_"
_ENDS = {"'": "'", '"': '"', "[": "]"}  # of values that are not one word
OPTIONS: dict[str, str] = {}
"""The options of all commands, by the library's names of these parameters."""


def options_of(names: Iterable[str]) -> dict[str, str]:
    """Of one command."""
    own = {name: f"--{name.replace('_', '-')}" for name in names}
    if "widths" in own:  # the components of a layer's outputs
        own["n_components"] = "--widths"
    return {**own, **{name: own[option] for name, option in _RENAMED.items() if option in own}}


def one_line(what: object, options: Mapping[str, str], row_label: Callable[[int], str] | None = None) -> str:
    """A message, or an error or warning, as one line of the terminal: options where the library names parameters.

    The library writes a parameter and its value as name=value. Bare names are the parameter at fault, and those that
    cannot be English. Rows are counted from 1; ``row_label`` names a single one with its line in the file.
    """
    text = " ".join(str(what).splitlines())
    parameter: str = getattr(what, "parameter", None) or ""
    if rows := getattr(what, "rows", ()):
        from unrelu.validation import listed, row_labels

        labels = {row_labels([row]): row_label(row) if row_label else f"row {row + 1:,}" for row in rows}
        if len(rows) > 1:
            labels[row_labels(rows)] = f"rows {listed(f'{row + 1:,}' for row in rows)}"
        for before, after in labels.items():
            for start in (str, str.capitalize):
                text = text.replace(start(before[0]) + before[1:], start(after[0]) + after[1:])
    if parameter in options:
        before, found, after = text.partition(f": {parameter} ")
        if text.startswith((f"{parameter} ", f"{parameter}:", f"Unknown {parameter} ")):
            text = text.replace(parameter, options[parameter], 1)
        elif found:
            text = f"{before}: {options[parameter]} {after}"
    line, rest = "", text
    while rest:
        before, equals, rest = rest.partition("=")
        first = before.rstrip(_NAME) if equals else before
        name = before[len(first) :]
        option = None if first.endswith((".", "-", "'", '"')) else options.get(name)
        line += " ".join(_bare(word, options) for word in first.split(" "))
        spelled, rest = (option and _with_value(option, rest)) or (name + equals, rest)
        line += spelled
    return line


def _bare(word: str, options: Mapping[str, str]) -> str:
    """An option for a parameter's name that cannot be English."""
    name = word.rpartition("(")[2].rstrip(".,;:)")
    return word.replace(name, options[name]) if "_" in name and name in options else word


def _with_value(option: str, rest: str) -> tuple[str, str] | None:
    """An option with the value that a text begins with, as a shell reads it, and the rest; None if that is no value."""
    if rest[:1] in _ENDS:
        values = [rest[:end] for end, letter in enumerate(rest, 1) if letter == _ENDS[rest[0]]]
    else:
        values = [rest[: len(rest) - len(rest.lstrip(_NAME + "+-."))].rstrip(".")]
        if not values[0] and rest[:1] in ("", *" .,;:)"):
            return option, rest
    for value in values:
        with suppress(SyntaxError, ValueError):
            read, left = ast.literal_eval(value), rest[len(value) :]
            if isinstance(read, bool):
                return option if read else option.replace("--", "--no-"), left
            if value[0] in _ENDS:
                items = read if isinstance(read, list) else [read]
                return f"{option} {shlex.quote(','.join(map(_item, items)))}", left
            if read is None:
                return (f"{option} none", left) if option in ("--floor", "--ceiling") else None
            return option + ("=" if value.startswith("-") else " ") + value, left
    return None


def _item(value: object) -> str:
    """An item of a list in which commas separate columns."""
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if "," in text or text.startswith('"') else text
