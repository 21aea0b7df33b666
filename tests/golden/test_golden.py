"""Files of this and earlier versions: they load to what they held, or the message says exactly why not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import unrelu
from tests.golden.make import fingerprint, saved
from unrelu.errors import ModelFileError
from unrelu.storage.kinds import KINDS

HERE = Path(__file__).parent
FOLDERS = [HERE / "version2", HERE / "version3"]  # the latter: what has shapes
EXPECTED = {
    name: (folder / f"{name}.npz", values)
    for folder in FOLDERS
    for name, values in json.loads((folder / "expected.json").read_text()).items()
}


@pytest.mark.parametrize("name", EXPECTED)
def test_files_of_this_format_load_to_what_they_held(name):
    path, held = EXPECTED[name]
    found = fingerprint(unrelu.load(path))
    assert found["kind"] == held["kind"]
    for value, expected in zip(found["values"], held["values"], strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-9)  # other machines round otherwise


def test_every_kind_that_can_be_saved_is_kept_here():
    savable = {name for name in KINDS if hasattr(getattr(unrelu, name, None), "save")} | {"PairMoments", "MatrixState"}
    assert {held["kind"] for _, held in EXPECTED.values()} == savable


def test_the_files_are_those_that_are_made():
    assert set(EXPECTED) == set(saved())


def test_a_model_of_format_1_loads():
    model = unrelu.load(HERE / "version1" / "model.npz")
    assert model == unrelu.RectifiedGaussian([0.5, -1.0], [[4.0, 1.0], [1.0, 1.0]], [0.0, 0.25], ["As", "Pb"])


@pytest.mark.parametrize("name", ["factors", "state", "two_layer", "peeled"])
def test_other_files_of_format_1_say_why_not(name):
    with pytest.raises(
        ModelFileError, match=r"unrelu 0\.1\.0 in format 1, which did not hold all .* make the file again"
    ):
        unrelu.load(HERE / "version1" / f"{name}.npz")
