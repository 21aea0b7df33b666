"""Archives of our own: NumPy archives without pickle.

Named arrays, and ``header``, UTF-8 JSON as bytes that states the format, its version, and facts about the content.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from unrelu._version import __version__
from unrelu.errors import InvalidParameterError, ModelFileError
from unrelu.storage.files import FilePath, atomic_write

T = TypeVar("T")


@dataclass(frozen=True)
class ArchiveFormat:
    """One kind of archive: what its header calls it, the newest version known, and what messages call such a file."""

    name: str
    version: int
    called: str = "model file"
    oldest: int = 1  # version that is still read

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
        if version < self.oldest:
            raise ModelFileError(
                f"{name} was written by unrelu {header.get('unrelu_version')} in format {version}, which did not hold"
                f" all that a {self.called} holds now; this version reads format {self.oldest}: make the file again."
            )
        if version > self.version:
            raise ModelFileError(
                f"{name} was written by a newer unrelu (format {version}); "
                f"this one reads up to {self.version}: upgrade unrelu."
            )
        return header

    def arrays(self, path: FilePath, *names: str) -> list[Any]:
        """The named arrays."""
        return self._picked(path, lambda file: [file[name] for name in names])

    def every_array(self, path: FilePath) -> dict[str, Any]:
        """All arrays, by name."""
        return self._picked(path, lambda file: {name: file[name] for name in file.files if name != "header"})

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


def damaged(path: FilePath, why: object) -> ModelFileError:
    """The error for a file whose content contradicts itself."""
    return ModelFileError(f"{os.fspath(path)} is damaged: {str(why).rstrip('.')}.")


def stated_header(path: FilePath) -> dict[str, Any]:
    """What an archive of ours states about itself, unchecked; nothing for any other file."""
    with suppress(Exception), open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes().decode())
        return header if isinstance(header, dict) else {}
    return {}


def stated_format(path: FilePath) -> str | None:
    """The format that an archive's header names, or None for any other file."""
    name = stated_header(path).get("format")
    return name if isinstance(name, str) else None


def _plain(value: object) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not one")
