"""Public names that are imported on first use: who needs one of them does not wait for the modules of the others."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import getsource
from typing import Any, TypeAlias

_Get: TypeAlias = Callable[[str], Any]
_Dir: TypeAlias = Callable[[], list[str]]


def lazily(package: str) -> tuple[_Get, _Dir, list[str]]:
    """A package's ``__getattr__``, ``__dir__`` and ``__all__``: the names that it imports below ``if TYPE_CHECKING:``.

    >>> import unrelu.storage
    >>> get, _, offered = lazily("unrelu.storage")
    >>> "atomic_write" in offered, get("atomic_write").__module__
    (True, 'unrelu.storage.files')
    """
    home: dict[str, str] = {}
    for block in ast.parse(getsource(sys.modules[package])).body:
        for line in block.body if isinstance(block, ast.If) else ():
            if isinstance(line, ast.ImportFrom):
                home |= dict.fromkeys((each.name for each in line.names), str(line.module))

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = None if home[name] == package else getattr(import_module(home[name]), name, None)
        if value is None:
            value = import_module(f"{home[name]}.{name}")
        setattr(sys.modules[package], name, value)  # the next time it is found without asking here
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *home}), sorted(home)
