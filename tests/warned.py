"""Warnings by kind: expected, refused and listed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import pytest

from unrelu.errors import UnreluWarning


def warns(kind: str, match: str = "") -> Any:
    """As pytest.warns: a warning with a line of that kind, which matches; its class is that of its first line."""
    return pytest.warns(UnreluWarning, match=rf"(?m)(?:{match}).*\[{kind}\]$")


def refuse(kind: str) -> None:
    """Make an error of every warning with a line of that kind."""
    warnings.filterwarnings("error", rf"(?s).*\[{kind}\]")


def kinds_of(caught: Iterable[Any]) -> list[str]:
    """The kinds of our warnings among those that were recorded."""
    return [kind for each in caught for kind in getattr(each.message, "kinds", ())]


def lines_of(caught: Iterable[Any], kind: str) -> list[str]:
    """What recorded warnings say of that kind."""
    lines = [line for each in caught for line in str(each.message).splitlines()]
    return [line.removesuffix(f" [{kind}]") for line in lines if line.endswith(f"[{kind}]")]
