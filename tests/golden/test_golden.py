"""Files of this and earlier versions: they load to what they held, or the message says exactly why not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import unrelu
from tests.golden.make import FOLDER, fingerprint, saved
from unrelu.errors import ModelFileError
from unrelu.registry import offered

EXPECTED = json.loads((FOLDER / "expected.json").read_text())
BEFORE = sorted((Path(__file__).parent / "before").glob("*.npz"))


@pytest.mark.parametrize("name", EXPECTED)
def test_files_of_this_format_load_to_what_they_held(name):
    found, held = fingerprint(unrelu.load(FOLDER / f"{name}.npz")), EXPECTED[name]
    assert found["kind"] == held["kind"]
    for value, expected in zip(found["values"], held["values"], strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-9)  # other machines round otherwise


def test_what_is_saved_now_keeps_its_parameters(tmp_path):
    X = unrelu.load(FOLDER / "model.npz").sample(60, random_state=0)
    for given in ({"margins": "auto", "below": "auto"}, {"margins": "normal", "below": "floor"}):
        unrelu.FloorImputer("one_pass", floor=[0.0, 0.25, 0.0], **given).fit(X).save(tmp_path / "imputer.npz")
        loaded = unrelu.load(tmp_path / "imputer.npz").get_params()
        assert {name: loaded[name] for name in given} == given


def test_every_kind_that_can_be_saved_is_kept_here():
    assert {held["kind"] for held in EXPECTED.values()} == set(offered("file")) - {
        "Checkpoint"
    }  # which tests/passes keep


def test_the_files_are_those_that_are_made():
    assert set(EXPECTED) == set(saved())


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: path.stem)
def test_files_from_before_the_first_release_say_so(path):
    with pytest.raises(ModelFileError, match=rf"{path.name} is from before the first release .* make the file again"):
        unrelu.load(path)
