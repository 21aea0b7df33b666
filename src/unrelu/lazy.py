"""Public names that are imported on first use: who needs one of them does not wait for the modules of the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias

_Get: TypeAlias = Callable[[str], Any]
_Dir: TypeAlias = Callable[[], list[str]]


def lazily(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[_Get, _Dir, list[str]]:
    """A package's ``__getattr__``, ``__dir__`` and ``__all__``: ``homes`` are modules with the names that they offer.

    A module itself is offered where it has no names.

    >>> get, _, offered = lazily("unrelu", {"unrelu.storage.files": ["atomic_write"], "unrelu.metrics": []})
    >>> offered, get("metrics").__name__, get("atomic_write").__module__
    (['atomic_write', 'metrics'], 'unrelu.metrics', 'unrelu.storage.files')
    """
    home = {name: module for module, names in homes.items() for name in names}
    modules = {module.rpartition(".")[2]: module for module, names in homes.items() if not names}

    def get(name: str) -> Any:
        if name in modules:
            return import_module(modules[name])
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)  # the next time it is found without asking here
        return value

    every = sorted([*home, *modules])
    return get, lambda: sorted({*vars(sys.modules[package]), *every}), every
