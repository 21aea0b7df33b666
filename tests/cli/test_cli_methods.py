"""Help lists every method that a command takes, one line each, and no other."""

from __future__ import annotations

import numpy as np
import pytest

from unrelu.cli.options import METHODS, methods_in_words
from unrelu.errors import InvalidParameterError
from unrelu.methods import method_named
from unrelu.recovery.latent_methods import latent_method
from unrelu.recovery.matrix.descent import matrix_method
from unrelu.recovery.two_layer_estimator import TwoLayerReLULearner


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        ("fit", lambda: method_named("?")),
        ("factor", lambda: matrix_method("?")),
        ("recover", lambda: latent_method("?", None)),
        ("peel", lambda: TwoLayerReLULearner(2, "?").fit(np.eye(3))),
    ],
)
def test_the_methods_are_those_that_the_library_takes(command, ask):
    with pytest.raises(InvalidParameterError) as refused:
        ask()
    there_are = str(refused.value).split("There are: ")[1].rstrip(".").split(", ")
    in_python_only = ["likelihood"] if command == "factor" else []  # it needs a density
    assert there_are == [*METHODS[command], *in_python_only]


@pytest.mark.parametrize("command", METHODS)
def test_help_lists_them(run, command):
    lines = [line.strip() for line in run(command, "--help").stdout.splitlines()]
    for name, words in METHODS[command].items():
        assert f"{name}: {words}" in lines  # on one line


def test_other_commands_have_none():
    assert methods_in_words("sample") is None
