"""demo: end to end, with and without matplotlib."""

from __future__ import annotations

import json
import os
import sys

import pytest

import unrelu
from unrelu.report import trying as digits


def test_demo_end_to_end(run, folder):
    result = run("demo", "-o", "new/place", "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert sorted(os.listdir(folder / "new/place")) == ["demo.png", "model.npz"]
    assert (folder / "new/place/demo.png").read_bytes().startswith(b"\x89PNG")
    model = unrelu.RectifiedGaussian.load(answer["model"])
    assert model.n_features == answer["units"] == 32
    assert answer["training_accuracy"] > 0.9
    plain, ours, ideal = answer["errors"].values()
    for what in ("mean", "std", "correlation"):
        assert ideal[what] < ours[what] < 0.8 * plain[what]


@pytest.mark.slow  # twice the whole demo
def test_demo_says_what_it_did_and_repeats_itself(run, folder, monkeypatch):
    text = run("demo", "-o", "one").stdout
    for words in ("unrelu", "np.mean, np.cov", "not exactly normal", "Model written to one", "demo.png"):
        assert words in text
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # the model is the same without the picture
    run("demo", "-o", "two")
    assert (folder / "one/model.npz").read_bytes() == (folder / "two/model.npz").read_bytes()


def test_demo_without_matplotlib_leaves_the_picture_out(run, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("demo", "-o", "place")
    assert result.exit_code == 0, result.stderr
    assert 'The picture was left out. Pictures need matplotlib: pip install "unrelu[plot]".' in result.stdout
    assert os.listdir(folder / "place") == ["model.npz"]


def test_dead_and_constant_units_are_left_out_and_named(run, folder, monkeypatch):
    before, accuracy = digits.trained_layer(units=4)
    before[:, 1] = -1.0
    before[:, 3] = 2.5
    monkeypatch.setattr(digits, "trained_layer", lambda **_: (before, accuracy))
    result = run("demo", "-o", "place")
    assert result.exit_code == 0, result.stderr
    assert "constant: unit 1, unit 3." in result.stdout
    assert unrelu.RectifiedGaussian.load(folder / "place/model.npz").feature_names == ("unit 0", "unit 2")


def test_a_failing_demo_leaves_no_empty_folder(run, folder, monkeypatch):
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(digits, "trained_layer", interrupted)
    assert run("demo", "-o", "place").exit_code == 130
    assert os.listdir(folder) == []


@pytest.mark.parametrize("seed", [0, 1])
def test_the_layer_is_that_of_the_network(seed):
    before, accuracy = digits.trained_layer(units=8, seed=seed)
    assert before.shape == (1797, 8)
    assert 0.2 < (before <= 0.0).mean() < 0.7
    assert accuracy > 0.8
