"""Names from before the first release: gone from what is offered, and refused with the new one."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import numpy as np
import pytest

import unrelu
from unrelu.renamed import COMMANDS, NAMES, OPTIONS

X = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 0.0], [1.5, 1.0], [0.5, 0.7], [0.0, 0.0]] * 20)
KEPT = {  # papers' symbols, and words that are old in another place only
    "ReLUMatrixRecovery": {"bias_"},
    "TwoLayerReLULearner": set(),
    "ReLULatentRecovery": {"bias", "bias_"},
    "Peeled": {"report"},
}


@pytest.mark.parametrize("name", ["RectifiedGaussianNetwork", "activations", "recall", "shapes"])
def test_functions_and_classes(name):
    assert name not in dir(unrelu)
    with pytest.raises(AttributeError, match=f"it is {NAMES[name]} now"):
        getattr(unrelu, name)
    assert hasattr(unrelu, NAMES[name])


@pytest.mark.parametrize("name", sorted(set(unrelu.__all__) - {"errors", "methods", "papers", "recovery", "tables"}))
def test_old_names_are_gone_from_what_is_offered(name):
    offered = getattr(unrelu, name)
    if isinstance(offered, type):
        kept = KEPT.get(name, set())
        assert {each for each in dir(offered) if each in NAMES} <= kept


def test_attributes():
    learner = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(X)
    for old in ("bias_", "row_norms_", "bias_stderr_", "row_norms_stderr_", "shapes_", "watched_by", "report"):
        with pytest.raises(AttributeError, match=f"it is {NAMES[old]} now"):
            getattr(learner, old)
        assert hasattr(learner, NAMES[old])
    for old in ("bias", "row_norms", "shapes", "score_rows", "score_cells", "reflected", "shaped"):
        with pytest.raises(AttributeError, match=f"it is {NAMES[old]} now"):
            getattr(learner.distribution_, old)
        assert hasattr(learner.distribution_, NAMES[old])
    assert learner.location_ is learner.mean_


def test_parameters():
    with pytest.raises(TypeError, match="RectifiedGaussianLearner has no parameter 'shape': it is margins now"):
        unrelu.RectifiedGaussianLearner(shape="log")
    with pytest.raises(TypeError, match="'nonnegative_bias': it is nonnegative_mean now"):
        unrelu.RectifiedGaussianLearner(nonnegative_bias=True)
    with pytest.raises(TypeError, match=r"^RectifiedGaussian has no parameter 'bias': it is mean now\.$"):
        unrelu.RectifiedGaussian(bias=[0.0], covariance=[[1.0]])
    with pytest.raises(TypeError, match="'shapes': it is margins now"):
        unrelu.RectifiedGaussian([0.0], [[1.0]], shapes=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        unrelu.RectifiedGaussianLearner(colour="log")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: unrelu.synthetic.random_model(3, bias="signed"), "random_model has no parameter 'bias': it is mean"),
        (lambda: unrelu.check_model(None, X, watch=print), "check_model has no parameter 'watch': it is progress"),
        (lambda: unrelu.peel(X, widths=[1], watch=print), "peel has no parameter 'watch': it is progress"),
        (
            lambda: unrelu.RectifiedGaussian.from_weights(np.eye(2), bias=[0.0, 0.0]),
            r"RectifiedGaussian.from_weights has no parameter 'bias': it is mean",
        ),
    ],
)
def test_parameters_of_functions(call, said):
    with pytest.raises(TypeError, match=f"^{said} now\\.$"):
        call()


def test_what_was_never_a_parameter_is_refused_by_python():
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        unrelu.synthetic.random_model(3, colour="red")
    with pytest.raises(TypeError, match="unexpected keyword argument 'shape'"):  # old, but of another function
        unrelu.synthetic.random_model(3, shape="log")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "rows.csv", "--shape", "log"], f"--shape is now {OPTIONS['--shape']}"),
        (["simulate", "--bias=signed"], f"--bias is now {OPTIONS['--bias']}"),
        (["network", "rows.csv"], f"network is now {COMMANDS['network']}"),
    ],
)
def test_commands_and_options(arguments, said):
    run = [sys.executable, "-m", "unrelu", *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {said}.\n")


@pytest.mark.parametrize("name", [name for name in unrelu.__all__ if isinstance(getattr(unrelu, name), type)])
def test_documented_parameters_are_those_of_the_signature(name):
    offered, documented = getattr(unrelu, name), inspect.getdoc(getattr(unrelu, name)) or ""
    if "Parameters\n----------\n" in documented:
        block = re.split(r"\n\n[A-Z]\w+\n-{3,}\n", documented.split("Parameters\n----------\n")[1])[0]
        heads = [line.split(" : ")[0] for line in block.splitlines() if line and not line.startswith(" ")]
        told = {each for head in heads for each in re.split(r", ", head)}
        assert told == set(inspect.signature(offered).parameters)
