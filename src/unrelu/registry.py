"""Methods that are defined above the core: by their names, and where their classes are.

:mod:`unrelu` says so in words when it is imported, and a class is loaded when it is first asked for. So
:mod:`unrelu.methods` finds them, and knows nothing of the packages above it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME: dict[str, tuple[str, str]] = {}


def offer(module: str, **classes: str) -> None:
    """Methods by name, each a class of ``module``.

    >>> offer("unrelu.papers.learners", sgd="TruncatedSGD")
    >>> find("sgd") is find("TruncatedSGD")
    True
    """
    _HOME.update({name: (module, called) for name, called in classes.items()})


def names() -> list[str]:
    """Of methods, in the order in which they were offered."""
    return list(_HOME)


def classes() -> list[str]:
    """The names of their classes."""
    return [called for _, called in _HOME.values()]


def find(name: str) -> Any:
    """The class of that name, or of the method of that name."""
    module, called = next(home for key, home in _HOME.items() if name in (key, home[1]))
    return getattr(import_module(module), called)
