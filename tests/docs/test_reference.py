"""The reference lists every public name, and every one has a docstring with an example that runs.

tests/test_package.py runs the examples of docstrings; those of errors and warnings are in docs/troubleshooting.md.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

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


def test_the_reference_lists_every_public_name_once():
    for room in ROOMS:
        assert sorted(listed(room)) == sorted(public(room)), room


def test_every_public_name_has_an_example():
    explained = [(room, name) for room, name in NAMES if room != "unrelu.errors"]
    assert [each for each in explained if ">>>" not in (getattr(module_of(each[0]), each[1]).__doc__ or "")] == []


def test_the_names_are_counted():
    """If none were found, every test above would pass."""
    assert len(NAMES) >= 120


def test_methods_of_estimators_and_models_have_docstrings():
    """Those that are ours and offered; attributes are told in the class's own docstring."""
    without = []
    for name in public("unrelu"):
        thing = getattr(unrelu, name)
        members = inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else []
        ours = [of for of, body in members if not of.startswith("_") and body.__module__.startswith("unrelu")]
        without += [f"{name}.{of}" for of in ours if not inspect.getdoc(getattr(thing, of))]
    assert without == []
