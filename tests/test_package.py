"""The package as a whole: what it exports, what importing it costs, and that every docstring example is true."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import unrelu

MODULES = [module.name for module in pkgutil.walk_packages(unrelu.__path__, "unrelu.")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is_for(name):
    assert name.endswith("_version") or importlib.import_module(name).__doc__


def public_callables():
    for name in unrelu.__all__:
        thing = getattr(unrelu, name)
        if inspect.ismodule(thing):
            members = getattr(thing, "__all__", None) or [m for m in vars(thing) if not m.startswith("_")]
            for member in members:
                value = getattr(thing, member)
                if inspect.isroutine(value) and value.__module__ == thing.__name__:
                    yield f"{name}.{member}", value
        elif callable(thing):
            yield name, thing


@pytest.mark.parametrize(("name", "thing"), list(public_callables()))
def test_public_callables_have_a_runnable_example(name, thing):
    assert ">>>" in (inspect.getdoc(thing) or "")


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


def test_fitting_an_array_imports_neither_files_nor_pictures():
    """scikit-learn may bring pyarrow by way of pandas; we must not ask for it."""
    code = (
        "import sys; sys.modules['pyarrow'] = None;"  # any import of it now fails
        "import numpy as np, unrelu;"
        "unrelu.RectifiedGaussianLearner().fit(np.abs(np.random.default_rng(0).normal(size=(50, 2))));"
        "print([m for m in ('matplotlib', 'typer', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
