"""Every error, and every warning by its kind, has its entry, and the example there provokes it."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

from tests.warned import kinds_of
from unrelu import errors
from unrelu.validation import warn, warn_together

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
CLASSES = [name for name in errors.__all__ if name.endswith("Warning")]
ERRORS = [name for name in errors.__all__ if name.endswith("Error")]
KINDS = [kind for kinds in errors.KINDS.values() for kind in kinds]
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
ENTRIES = dict(re.findall(r"^### ([\w-]+)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE))
CODE = {name: code for name, text in ENTRIES.items() for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)}
# Bases, and what takes a full disk, a missing package or minutes to come about: tested where it is raised.
WITHOUT_EXAMPLE = {
    "DeviceMemoryError",
    "MissingDependencyError",
    "UnreluError",
    "dead-units",
    "doubtful-inputs",
    "doubtful-units",
    "not-cleaned",
    "not-saved",
    "set-aside",
    "unfinished",
    "units-not-found",
}


def test_every_kind_and_every_error_has_one_entry_and_every_entry_is_of_one():
    assert sorted(re.findall(r"^### ([\w-]+)", PAGE, re.MULTILINE)) == sorted([*KINDS, *ERRORS])
    for name, kinds in errors.KINDS.items():
        assert re.findall(r"^### ([\w-]+)", SECTIONS[name], re.MULTILINE) == list(kinds)
    assert set(CODE) == {*KINDS, *ERRORS} - WITHOUT_EXAMPLE


def test_classes_of_warnings_are_few_and_kinds_distinct():
    assert len(CLASSES) <= 10
    assert {"UnreluWarning", *errors.KINDS} == set(CLASSES)
    assert len(set(KINDS)) == len(KINDS)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", kind) for kind in KINDS)


def test_every_kind_is_used():
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py") if path.name != "errors.py")
    assert [kind for kind in KINDS if f'"{kind}"' not in source] == []


def test_docstrings_lead_to_entries():
    for name in [*ERRORS, *CLASSES]:
        assert getattr(errors, name).__doc__.endswith(f"docs/troubleshooting.md#{name.lower()}")
        assert len({**SECTIONS, **ENTRIES}[name].strip()) > 10, name


def test_a_warning_has_its_kind_in_the_message_and_beside_it():
    with pytest.warns(errors.DataWarning, match=r"^Constant\. \[constant-column\]$") as said:
        warn("Constant.", "constant-column", rows=[3])
    assert (said[0].message.kind, said[0].message.rows) == ("constant-column", (3,))
    with pytest.warns(errors.AssumptionWarning) as said:
        warn_together([("One.", "skewed"), ("Two.", "ties")])
    assert str(said[0].message) == "One. [skewed]\nTwo. [ties]"
    assert said[0].message.kinds == ("skewed", "ties")
    with pytest.warns(ConvergenceWarning) as said:
        warn("Rounds ran out.", "not-converged")
    assert said[0].category is errors.ConvergenceWarning


def test_kinds_are_filtered():
    def heard(*kinds):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", errors.about("skewed", "few-rows"))
            warn_together([(f"{kind} [{kind}], it says.", kind) for kind in kinds])
        return kinds_of(said)

    assert heard("skewed") == heard("few-rows", "skewed") == []
    assert heard("skewed", "ties") == ["skewed", "ties"]  # there is something else to tell
    assert heard("ties", "skewed") == ["ties", "skewed"]


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("SkewedColumnsWarning", "AssumptionWarning of kind 'skewed'"),
        ("RepeatedLimitWarning", "AssumptionWarning of kind 'repeated-minimum'"),
        ("WeakRowsWarning", "RecoveryWarning of kind 'weak-rows'"),
        ("DoubtfulTableWarning", "it is AssumptionWarning now"),
        ("NotConvergedWarning", "ConvergenceWarning of kind 'not-converged'"),
    ],
)
def test_an_earlier_name_says_what_it_is_now(name, now):
    with pytest.raises(AttributeError, match=f"no attribute '{name}': .*{now}"):
        getattr(errors, name)
    assert not hasattr(errors, "NoSuchWarning")


def test_every_earlier_name_is_in_the_changelog_with_its_kind():
    table = dict(re.findall(r"^\s*\| `(\w+Warning)` \| (.*) \|$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE))
    assert len(table) == 44
    for name, now in table.items():
        classes, kinds = re.findall(r"`(\w+Warning)`", now), re.findall(r'"([a-z-]+)"', now)
        assert all(errors.warning_class(kind).__name__ in classes for kind in kinds)
        if name not in CLASSES:
            with pytest.raises(AttributeError, match=classes[0]):
                getattr(errors, name)


@pytest.mark.parametrize("name", sorted(CODE))
def test_the_example_provokes_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], namespace)
    code = compile(CODE[name], name, "exec")
    if name in ERRORS:
        with pytest.raises(getattr(errors, name)) as raised:
            exec(code, namespace)
        assert raised.type is getattr(errors, name)
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        exec(code, namespace)
    assert name in kinds_of(said)
