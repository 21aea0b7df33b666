"""Names that are defined above the core, found as texts: methods, classes of files, the maker of the report page.

:mod:`unrelu` offers them when it is imported, and a module is loaded when one of its names is first needed. So the core
imports nothing of the packages above it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_OFFERED: dict[str, dict[str, tuple[str, str]]] = {}


def offer(kind: str, module: str, **names: str) -> None:
    """Offer names of ``module``, each with words: a "method" with its name as an option, a "file" with its noun.

    >>> offer("method", "unrelu.papers.learners", TruncatedSGD="sgd")
    >>> offered("method")["TruncatedSGD"], find("method", "TruncatedSGD").__name__
    ('sgd', 'TruncatedSGD')
    """
    _OFFERED.setdefault(kind, {}).update({name: (module, words) for name, words in names.items()})


def offered(kind: str) -> dict[str, str]:
    """The names of a kind in the order in which they were offered, and their words."""
    return {name: words for name, (_, words) in _OFFERED[kind].items()}


def find(kind: str, name: str) -> Any:
    """The object of that name."""
    return getattr(import_module(_OFFERED[kind][name][0]), name)
