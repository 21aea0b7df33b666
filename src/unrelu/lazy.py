"""Public names that are imported on first use: a caller of one of them does not wait for the modules of the others."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from inspect import getsource
from typing import Any, TypeAlias

from unrelu.renamed import hint

_Get: TypeAlias = Callable[[str], Any]
_Dir: TypeAlias = Callable[[], list[str]]


def lazily(package: str) -> tuple[_Get, _Dir, list[str]]:
    """A package's ``__getattr__``, ``__dir__`` and ``__all__``: the names that it imports below ``if TYPE_CHECKING:``.

    Its other modules are imported on first use, too.

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
        if home.get(name, package) != package:
            value = getattr(import_module(home[name]), name)
        elif find_spec(f"{package}.{name}"):
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint(name, home)}")
        setattr(sys.modules[package], name, value)  # the next time it is found without a call of this
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *home}), sorted(home)
