"""What is defined above the core and found by its name: methods, what files hold, who makes a fitted learner's page.

:mod:`unrelu` says so in words when it is imported, and a module is loaded when it is first asked for. So the core
knows nothing of the packages above it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_OFFERED: dict[str, dict[str, tuple[str, str]]] = {}


def offer(kind: str, module: str, **names: str) -> None:
    """Names of ``module``, and what is said of each: of a "method" its own name, of a "file" what messages call it.

    >>> offer("method", "unrelu.papers.learners", TruncatedSGD="sgd")
    >>> offered("method")["TruncatedSGD"], find("method", "TruncatedSGD").__name__
    ('sgd', 'TruncatedSGD')
    """
    _OFFERED.setdefault(kind, {}).update({name: (module, words) for name, words in names.items()})


def offered(kind: str) -> dict[str, str]:
    """The names, in the order in which they were offered, and what was said of them."""
    return {name: words for name, (_, words) in _OFFERED[kind].items()}


def find(kind: str, name: str) -> Any:
    """What has that name."""
    return getattr(import_module(_OFFERED[kind][name][0]), name)
