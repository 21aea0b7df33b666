"""Every warning and error has its entry, which its docstring names, and the example there provokes it."""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path

import pytest

from unrelu import errors

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()
NAMES = [
    name
    for name, thing in vars(errors).items()
    if inspect.isclass(thing) and thing.__module__ == errors.__name__ and not name.startswith("_")
]
ENTRIES = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE))
CODE = {name: code for name, text in ENTRIES.items() for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)}
# Bases, and what takes a full disk, a missing package or minutes to come about: tested where it is raised.
WITHOUT_EXAMPLE = {
    "CheckpointWarning",
    "DeadUnitsWarning",
    "DeviceMemoryError",
    "DoubtfulInputsWarning",
    "DoubtfulUnitsWarning",
    "MissingDependencyError",
    "UnfinishedWarning",
    "UnitsNotFoundWarning",
    "UnreluError",
    "UnreluWarning",
}


def test_every_name_has_one_entry_and_every_entry_a_name():
    assert sorted(re.findall(r"^### (\w+)", PAGE, re.MULTILINE)) == sorted(NAMES)
    assert set(CODE) == set(NAMES) - WITHOUT_EXAMPLE


def test_docstrings_lead_to_entries():
    for name in NAMES:
        assert getattr(errors, name).__doc__.endswith(f"docs/troubleshooting.md#{name.lower()}")
        assert len(ENTRIES[name].strip()) > 10, name


@pytest.mark.parametrize("name", sorted(CODE))
def test_the_example_provokes_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted, namespace = getattr(errors, name), {}
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], namespace)
    code = compile(CODE[name], name, "exec")
    if name.endswith("Error"):
        with pytest.raises(wanted) as raised:
            exec(code, namespace)
        assert raised.type is wanted
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        exec(code, namespace)
    kinds = {each.category for each in said}
    if name == "DoubtfulTableWarning":  # a base
        assert any(issubclass(kind, wanted) for kind in kinds)
    else:
        assert wanted in kinds, f"it says {sorted(kind.__name__ for kind in kinds)}"
