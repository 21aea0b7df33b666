"""Write aside, then rename: a reader sees the old file or the whole new one, never half of one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from unrelu.errors import OutputError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that appears at ``path`` only if the block ends without an exception.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with atomic_write(target) as stream:
    ...     _ = stream.write(b"whole")
    >>> target.read_text()
    'whole'
    """
    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(aside, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, target)
    except OSError as error:
        raise OutputError(_explain(error, target)) from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def _explain(error: OSError, target: Path) -> str:
    folder = target.parent
    if error.errno == errno.ENOSPC:
        return f"No space left while writing {target}: nothing was written there. Free some space and run again."
    if not folder.exists():
        return f"Cannot write {target}: the folder {folder} does not exist. Create it first."
    if target.is_dir():
        return f"Cannot write {target}: it is a folder. Give a file name."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"Cannot write {target}: the folder {folder} is not writable. Choose another place."
    return f"Cannot write {target}: {error.strerror or error}."
