"""What every command shares: files checked before the long work, progress, files written, the answer."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrelu.cli.outcome import Answer, one_line, standard_output
from unrelu.errors import DoubtfulTableWarning, InvalidParameterError, MissingDependencyError, OutputError

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from unrelu.contracts import Samples, Step

STDOUT = Path("-")


@dataclass(frozen=True)
class Output:
    """A file that a command writes where it is wanted (has a path).

    ``name`` is its name among the facts, ``called`` what the answer calls it (not told if empty). ``kind``: "archive",
    "table", "columns" (numbers and text), "edges" (of a network), "rows" (a table that may go to standard output),
    "picture" "spare picture", which is left out where there is no matplotlib, or "kept", which the work writes by
    itself.
    """

    name: str
    path: Path | None
    called: str = ""
    kind: str = "archive"

    def check(self) -> None:
        """Raise unless such a file can be written under that name."""
        if self.path is None or self.path == STDOUT:
            return
        if self.kind in ("table", "columns", "rows"):
            from unrelu.tables.write import check_table

            check_table(self.path, columns=self.kind == "columns")
        elif self.kind == "edges":
            from unrelu.graph.learning import check_edges_file

            check_edges_file(self.path)
        elif self.kind == "picture":
            from unrelu.report.pictures import check_picture

            check_picture(self.path)


def rows_output(path: str, as_json: bool) -> Output:
    """The rows of ``sample`` and ``simulate``: a table, or standard output, which cannot hold --json as well."""
    if path == "-" and as_json:
        raise InvalidParameterError("--json needs --output: standard output cannot hold the rows as well.")
    return Output("output", Path(path), kind="rows")


class Job:
    """One run of a command. Made before the long work, as it checks all files that can be refused by then.

    ``tables`` are paths and globs of input tables, ``files`` other inputs.
    """

    def __init__(self, *outputs: Output, tables: Sequence[str] = (), files: Iterable[Path | None] = ()) -> None:
        self._begin = time.perf_counter()
        self._outputs = {output.name: output for output in outputs if output.path is not None}
        self._names = [output.name for output in outputs]
        self._left_out: list[str] = []
        self._table: Samples | None = None
        inputs: list[str | Path] = [path for path in files if path is not None]
        if tables:
            from unrelu.tables.files import files_of

            inputs += files_of(list(tables))
        chosen = [output.path for output in self._outputs.values() if output.path is not None]
        check_outputs([path for path in chosen if not (self.to_stdout and path == STDOUT)], inputs)
        for output in self._outputs.values():
            output.check()

    @property
    def to_stdout(self) -> bool:
        """Whether rows go to standard output, which then has room for nothing else."""
        return any(output.kind == "rows" and output.path == STDOUT for output in self._outputs.values())

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._begin

    @property
    def written(self) -> list[Path]:
        """The files that are wanted and can be written."""
        return [path for path in self.files.values() if path is not None]

    @property
    def files(self) -> dict[str, Path | None]:
        """Every output's path by its name; None where it is not wanted, or was left out."""
        return {name: self._outputs[name].path if name in self._outputs else None for name in self._names}

    def reads(self, table: Samples) -> Samples:
        """The table itself; the answer tells what its text cells were read as."""
        self._table = table
        return table

    @contextmanager
    def watch(self) -> Iterator[Meter]:
        """Around long work: a watch that shows its steps."""
        with meter(hidden=self.to_stdout) as shown:
            yield shown

    @contextmanager
    def fitting(self) -> Iterator[Meter]:
        """Around a fit: the same, and its doubts are no warnings, as the answer has them in one table."""
        with self.watch() as shown, warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtfulTableWarning)
            yield shown

    def write(self, **contents: Callable[..., Any]) -> None:
        """Write the files that are wanted, each whole or not at all.

        A content is given the path to write; that of a picture returns the figure, and is drawn before anything is
        written.
        """
        pictures = {name: output for name, output in self._outputs.items() if output.kind.endswith("picture")}
        drawn = {name: self._drawn(output, contents[name]) for name, output in pictures.items()}
        for name, output in list(self._outputs.items()):
            if name not in drawn and output.kind != "kept":
                with standard_output() if output.path == STDOUT else nullcontext():
                    contents[name](output.path)
        for name, picture in drawn.items():
            if picture is None:
                del self._outputs[name]
                continue
            from unrelu.report.pictures import write_picture

            write_picture(pictures[name].path or "", picture)

    def leave_out(self, name: str, why: str) -> bool:
        """Write an output not after all, and say why in the answer; whether it was wanted."""
        wanted = self._outputs.pop(name, None) is not None
        self._left_out += [why] * wanted
        return wanted

    def _drawn(self, output: Output, draw: Callable[[], Any]) -> bytes | None:
        from unrelu.report.pictures import rendered

        assert output.path is not None, "only what is wanted is drawn"
        try:
            return rendered(draw(), output.path.suffix)
        except MissingDependencyError as missing:
            if output.kind == "picture":
                raise
            self._left_out.append(f"The picture was left out. {missing}")
            return None

    def answer(
        self, facts: Mapping[str, Any], shown: Sequence[str | Table], last: Sequence[str] = (), fitted: Any = None
    ) -> Answer | None:
        """The answer: what was found, and which files were written; nothing if rows went to standard output.

        ``fitted`` is an estimator: its report, if it has one, is told as well, the doubts after the first line.
        """
        if self.to_stdout:
            return None
        from unrelu.validation import listed

        every = {**self.files, "seconds": round(self.seconds, 3), **facts}
        if self._table is not None and (skipped := self._table.skipped_files):
            every["skipped_files"] = skipped
        told: list[str | Table] = list(shown[:1])
        if self._table is not None and (notes := self._table.notes):
            every["text_cells"] = notes
            told.append(f"Text in cells: {listed(notes, most=8)}.")
        if fitted is not None:
            from unrelu.report.model import labels
            from unrelu.report.tables import doubts_shown

            report = getattr(fitted, "report_", None)
            every["report"] = None if report is None else asdict(report)
            told += doubts_shown(report, labels(fitted.distribution_), one_line)
        written = [f"{each.called} written to {each.path}" for each in self._outputs.values() if each.called]
        return Answer(every, [*told, *shown[1:], *written, *self._left_out, *last])


# --- files, checked before the long work and written after it --------------------------------------


class _Tried(Exception):
    """Ends a trial write before anything appears."""


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[str | Path] = ()) -> None:
    """Raise OutputError unless every output (None: not wanted) can be written and is no input."""
    from unrelu.storage import atomic_write  # brings NumPy, for which --help does not wait

    chosen = [output for output in outputs if output is not None]
    places = [os.path.abspath(output) for output in chosen]
    for output, place in zip(chosen, places, strict=True):
        if places.count(place) > 1:
            raise OutputError(f"The same file {output} is named for two outputs: choose different names.")
    inputs = list(inputs)
    for output in chosen:
        if str(output) == "-":
            raise OutputError("Only rows can go to standard output: give a file name.")
        if output.is_dir():
            raise OutputError(f"Cannot write {output}: it is a folder. Give a file name.")
        for source in inputs:
            if os.path.exists(source) and os.path.exists(output) and os.path.samefile(source, output):
                raise OutputError(f"{output} is also an input: choose another name for the output.")
        if output.is_file() or not output.exists():  # a pipe or device would notice the trial
            with suppress(_Tried), atomic_write(output):
                raise _Tried


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


class Meter:
    """A watch that shows every step on one line of the terminal: the stage, how far it is, and words on it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("Starting (the first run also compiles)", total=None, words="")
        self._stage = ""

    def __call__(self, step: Step) -> None:
        if step.stage != self._stage:
            self._stage = step.stage
            self._progress.reset(self._task, description=step.stage, words="")
        # A stage without a known end has a bar that only moves.
        self._progress.update(self._task, completed=step.done, total=step.total, words=step.words)


@contextmanager
def meter(*, hidden: bool = False) -> Iterator[Meter]:
    """A meter that is drawn only on a terminal, and cleared at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    drawn = not hidden and sys.stderr.isatty()
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[words]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not drawn,
    )
    with progress if drawn else nullcontext():  # older versions of rich end a disabled one with an empty line
        yield Meter(progress)
