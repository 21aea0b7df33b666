"""What every command shares: files checked before the long work, progress, files written, the answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrelu.cli.outcome import Answer, standard_output
from unrelu.cli.outputs import check_outputs
from unrelu.errors import InvalidParameterError, MissingDependencyError

if TYPE_CHECKING:
    from rich.table import Table

    from unrelu.cli.progress import Meter
    from unrelu.contracts import Samples

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
            from unrelu.samples.tables import check_table

            check_table(self.path, columns=self.kind == "columns")
        elif self.kind == "edges":
            from unrelu.networks.exporting import check_edges_file

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
            from unrelu.samples.finding import files_of

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

    @property
    def _notes(self) -> list[str]:
        return list(getattr(self._table, "notes", ()))

    @contextmanager
    def watch(self) -> Iterator[Meter]:
        """Around long work: a watch that shows its steps."""
        from unrelu.cli.progress import meter

        with meter(hidden=self.to_stdout) as shown:
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

    def answer(self, facts: Mapping[str, Any], shown: Sequence[str | Table], last: Sequence[str] = ()) -> Answer | None:
        """The answer: what was found, and which files were written; nothing if rows went to standard output."""
        if self.to_stdout:
            return None
        from unrelu.validation import listed

        told = [f"{each.called} written to {each.path}" for each in self._outputs.values() if each.called]
        every = {**self.files, "seconds": round(self.seconds, 3), **facts}
        if skipped := getattr(self._table, "skipped_files", {}):
            every["skipped_files"] = skipped
        if not self._notes:
            return Answer(every, [*shown, *told, *self._left_out, *last])
        read = f"Text in cells: {listed(self._notes, most=8)}."
        return Answer(
            {**every, "text_cells": self._notes}, [*shown[:1], read, *shown[1:], *told, *self._left_out, *last]
        )
