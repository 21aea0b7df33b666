"""Files of our own: written aside, then renamed, so that a reader sees the old file or the whole new one.

Models and saved states are NumPy archives without pickle: named arrays, and ``header``, UTF-8 JSON as bytes that states
the format, its version, and facts about the content.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

import numpy as np

from unrelu._version import __version__
from unrelu.errors import InvalidParameterError, ModelFileError, OutputError

T = TypeVar("T")
FilePath: TypeAlias = str | os.PathLike[str]


@contextmanager
def atomic_write(path: FilePath) -> Iterator[IO[bytes]]:
    """Open a binary file that appears at ``path`` only if the block ends without an exception.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with atomic_write(target) as stream:
    ...     _ = stream.write(b"whole")
    >>> target.read_text()
    'whole'
    """
    given = Path(path)
    if not _is_replaceable(given):
        with _explained(given), open(given, "wb") as stream:
            yield stream
        return
    target = Path(os.path.realpath(given))  # through a link, to the file it stands for
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with _explained(target, aside), open(aside, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            os.replace(aside, target)
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def _is_replaceable(target: Path) -> bool:
    """False for a pipe or device, which must be written to and never renamed over."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return True  # nothing there yet, or out of reach: opening it will say
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


@contextmanager
def _explained(target: Path, *own: Path) -> Iterator[None]:
    """Turn what goes wrong with writing into one clear line; other files' errors pass through."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        if error.filename is not None and Path(os.fsdecode(error.filename)) not in (target, *own):
            raise
        raise OutputError(_reason(error, target)) from error


def _reason(error: OSError, target: Path) -> str:
    folder = target.parent
    if error.errno is None:  # NumPy's short write
        return f"Cannot write all of {target} ({error}): is the disk full? Nothing was written there."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"No space left while writing {target}: nothing was written there. Free some space and run again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"Cannot write {target}: the folder {folder} is not writable. Choose another place."
    if error.errno == errno.ENOENT:
        return f"Cannot write {target}: the folder {folder} does not exist. Create it first."
    if error.errno == errno.EISDIR:
        return f"Cannot write {target}: it is a folder. Give a file name."
    return f"Cannot write {target}: {error.strerror or error}."


@dataclass(frozen=True)
class ArchiveFormat:
    """One kind of archive: what its header calls it, the newest version known, and what messages call such a file."""

    name: str
    version: int
    called: str = "model file"

    def write(self, path: FilePath, facts: Mapping[str, Any], **arrays: Any) -> None:
        """Write arrays and facts to ``path``, exactly that name."""
        stated = {"format": self.name, "format_version": self.version, "unrelu_version": __version__, **facts}
        try:
            header = np.frombuffer(json.dumps(stated, default=_plain).encode(), dtype=np.uint8)
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(f"details must be plain JSON values: {error}.") from error
        with atomic_write(path) as stream:
            np.savez(stream, header=header, **arrays)

    def header(self, path: FilePath) -> dict[str, Any]:
        """The facts the file states about itself."""
        header = self._picked(path, lambda file: json.loads(file["header"].tobytes().decode()))
        name = os.fspath(path)
        if not isinstance(header, dict) or header.get("format") != self.name:
            raise ModelFileError(f"{name} is not an unrelu {self.called}.")
        version = header.get("format_version")
        if not isinstance(version, int) or version < 1:
            raise ModelFileError(f"{name} is damaged: it states no format version.")
        if version > self.version:
            raise ModelFileError(
                f"{name} was written by a newer unrelu (format {version}); "
                f"this one reads up to {self.version}: upgrade unrelu."
            )
        return header

    def arrays(self, path: FilePath, *names: str) -> list[Any]:
        """The named arrays."""
        return self._picked(path, lambda file: [file[name] for name in names])

    def _picked(self, path: FilePath, pick: Callable[[Any], T]) -> T:
        return _picked(path, pick, self.called, f"an unrelu {self.called}")


def foreign_arrays(path: FilePath, names: Sequence[str], called: str) -> dict[str, Any]:
    """Those of the named arrays that are in an archive of somebody's own, which messages call a ``called``."""
    return _picked(path, lambda file: {name: file[name] for name in names if name in file.files}, called, f"a {called}")


def _picked(path: FilePath, pick: Callable[[Any], T], called: str, expected: str) -> T:
    """What ``pick`` takes from the archive at ``path``; every way this can fail has its one line."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return pick(archive)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelFileError(f"There is no {called} {name}.") from error
    except IsADirectoryError as error:
        raise ModelFileError(f"{name} is a folder, not a {called}.") from error
    except PermissionError as error:
        raise ModelFileError(f"{name} may not be read: {error.strerror}.") from error
    except Exception as error:  # the zip and array readers meet foreign bytes with a dozen exception types
        raise ModelFileError(f"{name} is not {expected}, or is damaged.") from error


def stated_format(path: FilePath) -> str | None:
    """The format that an archive's header names, or None for any other file."""
    with suppress(Exception), open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
        name = json.loads(archive["header"].tobytes().decode())["format"]
        return name if isinstance(name, str) else None
    return None


def _plain(value: object) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not one")
