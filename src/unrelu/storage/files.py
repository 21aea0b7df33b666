"""Files written aside, then renamed, so that a reader sees the old file or the whole new one."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeAlias

from unrelu.errors import OutputError

FilePath: TypeAlias = str | os.PathLike[str]


@contextmanager
def atomic_write(path: FilePath) -> Iterator[IO[bytes]]:
    """Open a binary file that appears at ``path`` only if the block ends without an exception."""
    given = Path(path)
    mode = stat.S_IFREG
    with suppress(OSError):  # nothing there yet, or out of reach: opening it raises the error
        mode = stat.S_IFMT(given.stat().st_mode)
    if mode not in (stat.S_IFREG, stat.S_IFDIR):  # a pipe or device is written to, and never renamed over
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


@contextmanager
def _explained(target: Path, *own: Path) -> Iterator[None]:
    """Turn errors of writing into one clear line; errors of other files pass."""
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
