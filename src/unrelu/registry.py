"""What is defined above the core and found by its name: methods, what files hold, who makes a fitted learner's page.

:mod:`unrelu` says so in words when it is imported, and a module is loaded when it is first asked for. So the core
knows nothing of the packages above it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_METHODS: dict[str, tuple[str, str]] = {}
_PAGES: list[tuple[str, str]] = []
_SAVED: dict[str, tuple[str, str]] = {}
PARAMETER = "parameter"


def offer(module: str, **classes: str) -> None:
    """Methods by name, each a class of ``module``.

    >>> offer("unrelu.papers.learners", sgd="TruncatedSGD")
    >>> find("sgd") is find("TruncatedSGD")
    True
    """
    _METHODS.update({name: (module, called) for name, called in classes.items()})


def offer_page(module: str, called: str) -> None:
    """The function that writes the page of a fitted learner."""
    _PAGES[:] = [(module, called)]


def names() -> list[str]:
    """Of methods, in the order in which they were offered."""
    return list(_METHODS)


def classes() -> list[str]:
    """The names of their classes."""
    return [called for _, called in _METHODS.values()]


def find(name: str) -> Any:
    """The class of that name, or of the method of that name."""
    module, called = next(home for key, home in _METHODS.items() if name in (key, home[1]))
    return getattr(import_module(module), called)


def page_writer() -> Any:
    """What was offered to :func:`offer_page`."""
    module, called = _PAGES[0]
    return getattr(import_module(module), called)


def offer_saved(module: str, **called: str) -> None:
    """Classes of ``module`` that files hold, and what messages call such a file; PARAMETER: what estimators take."""
    _SAVED.update({name: (module, words) for name, words in called.items()})


def saved() -> dict[str, str]:
    """The names of the classes that files are of, and what these are called."""
    return {name: words for name, (_, words) in _SAVED.items() if words != PARAMETER}


def parameters() -> list[str]:
    """The names of the classes that are parameters of estimators in files."""
    return [name for name, (_, words) in _SAVED.items() if words == PARAMETER]


def saved_class(name: str) -> Any:
    """The class of that name."""
    return getattr(import_module(_SAVED[name][0]), name)
