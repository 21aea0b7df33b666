"""Files of this and earlier versions: they load to what they held, or the message says exactly why not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import unrelu
from tests.golden.make import fingerprint, saved
from unrelu.storage.kinds import KINDS

HERE = Path(__file__).parent
FOLDERS = [HERE / "version4"]
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


def test_what_is_saved_now_keeps_its_parameters(tmp_path):
    X = unrelu.load(EXPECTED["model"][0]).sample(60, random_state=0)
    for given in ({"shape": "auto", "below": "auto"}, {"shape": "normal", "below": "floor"}):
        unrelu.FloorImputer("one_pass", floor=[0.0, 0.25, 0.0], **given).fit(X).save(tmp_path / "imputer.npz")
        loaded = unrelu.load(tmp_path / "imputer.npz").get_params()
        assert {name: loaded[name] for name in given} == given


def test_every_kind_that_can_be_saved_is_kept_here():
    savable = {name for name in KINDS if hasattr(getattr(unrelu, name, None), "save")} | {"PairMoments", "MatrixState"}
    assert {held["kind"] for _, held in EXPECTED.values()} == savable


def test_the_files_are_those_that_are_made():
    assert set(EXPECTED) == set(saved())
