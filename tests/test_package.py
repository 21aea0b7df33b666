"""The package as a whole: what it exports, what importing it costs, and that every docstring example is true."""

import doctest
import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unrelu

MODULES = [module.name for module in pkgutil.walk_packages(unrelu.__path__, "unrelu.")]


WITH_EXAMPLES = [name for name in MODULES if ">>>" in Path(importlib.util.find_spec(name).origin).read_text()]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
    assert result.attempted > 0


def test_every_module_can_be_imported():
    for name in MODULES:
        importlib.import_module(name)


def test_public_names():
    assert set(unrelu.__all__) <= set(dir(unrelu))
    for name in unrelu.__all__:
        assert getattr(unrelu, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = unrelu.nothing


def test_importing_is_lazy():
    heavy = ("numpy", "numba", "sklearn", "scipy", "pyarrow")
    code = f"import sys, unrelu; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_modules_are_there_at_once():
    """Each by itself: an import of one must not define another, so that the package is forgotten in between."""
    api = (Path(__file__).parent.parent / "docs" / "api.rst").read_text()
    documented = set(re.findall(r"module:: (unrelu\.\S+)", api))
    own = {name for name in MODULES if name.count(".") == 1 and not name.startswith("unrelu._")}
    assert {"unrelu.errors", "unrelu.model", "unrelu.tables", "unrelu.contracts"} <= own
    names = sorted(documented | own)
    code = (
        "import sys\n"
        f"for name in {names}:\n"
        "    for known in [known for known in sys.modules if known.partition('.')[0] == 'unrelu']:\n"
        "        del sys.modules[known]\n"
        "    import unrelu\n"
        "    assert eval(name) is sys.modules[name]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
