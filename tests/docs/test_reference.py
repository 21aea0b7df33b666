"""The reference lists every public name, and every one has a docstring with an example that runs.

tests/test_package.py runs the examples of docstrings; those of errors and warnings are in docs/troubleshooting.md.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import unrelu

PAGE = (Path(__file__).parents[2] / "docs" / "api.rst").read_text()
SECTION = re.compile(r"^\.\. currentmodule:: (\S+)\n(.*?)(?=^\.\. currentmodule|\Z)", re.DOTALL | re.MULTILINE)
MODULES = [name for name in unrelu.__all__ if inspect.ismodule(getattr(unrelu, name))]
ROOMS = ["unrelu", "unrelu.errors", *(f"unrelu.{name}" for name in MODULES)]


def module_of(room: str) -> object:
    return unrelu.guarantees if room == "unrelu.guarantees" else importlib.import_module(room)


def public(room: str) -> list[str]:
    """What a room offers: its __all__, or what it defines itself; not rooms, versions and names of types."""
    module = module_of(room)
    own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", None) or [name for name in own if not name.startswith("_")]
    return [name for name in names if callable(getattr(module, name))]


def listed(room: str) -> list[str]:
    texts = [text for of, text in SECTION.findall(PAGE) if of == module_of(room).__name__]
    return [name for text in texts for name in re.findall(r"^   (\w+)$", text, re.MULTILINE)]


NAMES = [(room, name) for room in ROOMS for name in public(room)]


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_lists_every_public_name_once(room):
    assert sorted(listed(room)) == sorted(public(room))


@pytest.mark.parametrize(("room", "name"), [each for each in NAMES if each[0] != "unrelu.errors"])
def test_every_public_name_has_an_example(room, name):
    assert ">>>" in (getattr(module_of(room), name).__doc__ or "")


def test_the_names_are_counted():
    """If none were found, every test above would pass."""
    assert len(NAMES) >= 120


@pytest.mark.parametrize("name", [name for name in public("unrelu") if inspect.isclass(getattr(unrelu, name))])
def test_methods_of_estimators_and_models_have_docstrings(name):
    """Those that are ours and offered; attributes are told in the class's own docstring."""
    thing = getattr(unrelu, name)
    members = inspect.getmembers(thing, inspect.isfunction)
    ours = [of for of, body in members if not of.startswith("_") and body.__module__.startswith("unrelu")]
    assert [of for of in ours if not inspect.getdoc(getattr(thing, of))] == []
