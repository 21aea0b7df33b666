"""Every entry of every file of this format, damaged: it is refused by name, or was not needed for any answer."""

from __future__ import annotations

import json
import re
from itertools import count

import numpy as np
import pytest

import unrelu
from tests.archives import members
from tests.golden.make import FOLDER, fingerprint
from unrelu.errors import ModelFileError, UnreluError

DEEP: list = []
for _ in range(600):
    DEEP = [DEEP]
HOSTILE = {"object": "OnePass", "parameters": [["floor", {"object": ["os"], "parameters": 3}]]}
GONE = object()
# Plain facts: left out, of another type, or of no size that anything has.
FACTS = [GONE, None, True, -1, 10**400, float("nan"), 2.5, "x", [], {}, [[]], DEEP, HOSTILE, {"unsaved": 1}]
# Arrays that are not there or of another type, of another margin, or of numbers that no fit can have given.
TYPES = [
    lambda a: GONE,
    lambda a: a.astype(str),
    lambda a: a.astype(complex),
    lambda a: a.astype(float if a.dtype == bool else bool),
    lambda a: a[None],
    lambda a: np.array(1.0),
]
SHAPES = [lambda a: a[:-1], lambda a: a[..., :-1], lambda a: a[:0], lambda a: np.concatenate([a, a])]
NUMBERS = [
    lambda a, number=number: np.full(a.shape, number).astype(a.dtype) for number in (np.nan, np.inf, 1e300, -1.0)
]


def held(name):
    """The header and the arrays of a golden file, with two groups of rows where there are many."""
    arrays = members(FOLDER / f"{name}.npz")
    header = arrays.pop("header")
    for record in (header, header.get("record"), header.get("learner", {}).get("record")):
        if record and "parts" in record:
            del record["parts"][2:], record["labels"][2:]
    arrays = {path: value for path, value in arrays.items() if not re.search(r"parts\.([2-9]|\d\d)", path)}
    return {**header, "arrays": list(arrays)}, {path: value[:2000] for path, value in arrays.items()}


def paths(node, way=()):
    for step, item in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*way, step)
        yield from paths(item, (*way, step))


def alike(path):
    """What tells an entry from those of other items, and of other files that hold the same."""
    return re.sub(r"\d+", "#", "/".join(map(str, path)))


def equal(one, other):
    return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")


class Damage:
    """One file, damaged again and again."""

    def __init__(self, name, path):
        (self.header, self.arrays), self.path = held(name), path
        self.answers = self.answer(self.header, self.arrays)

    def answer(self, header, arrays):
        with open(self.path, "wb") as stream:
            np.savez(stream, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
        return fingerprint(unrelu.load(self.path))["values"]

    def is_harmless(self, header, arrays, same):
        """Refuse the file, or give answers, those of before if they must be the ``same``."""
        with np.errstate(all="ignore"):
            try:
                found = self.answer(header, arrays)
            except ModelFileError as error:
                return str(self.path) in str(error) and len(str(error)) < 1000
            except UnreluError:
                return not same
        return not same or all(map(equal, found, self.answers))

    def of_fact(self, place, value):
        header = json.loads(json.dumps(self.header))
        node = header
        for step in place[:-1]:
            node = node[step]
        was = node[place[-1]]
        if value is GONE:
            del node[place[-1]]
        else:
            node[place[-1]] = value
        another = any(isinstance(was, kind) and isinstance(value, kind) for kind in (int | float, str))
        return self.is_harmless(header, self.arrays, not another and "parameters" not in place)

    def of_array(self, name, value, same):
        arrays = {path: each for path, each in {**self.arrays, name: value}.items() if each is not GONE}
        return self.is_harmless(self.header, arrays, same and "parameters" not in name)


NAMES = sorted(path.stem for path in FOLDER.glob("*.npz"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_every_damage_is_refused_or_harmless(name, tmp_path):
    """Another number or text may give other answers, and other margins that fit together; nothing else may."""
    damage, turn, known = Damage(name, tmp_path / "f.npz"), count(NAMES.index(name)), set()
    for place in paths(damage.header):
        if alike(place) not in known and place[0] not in ("arrays", "details"):
            known.add(alike(place))
            value = FACTS[next(turn) % len(FACTS)]
            assert damage.of_fact(place, value), (place, value)
    for path, array in damage.arrays.items():
        if alike(path.split(".")) not in known:
            known.add(alike(path.split(".")))
            at = next(turn)
            for ways in (TYPES, SHAPES, NUMBERS):
                changed = ways[at % len(ways)](array)
                assert damage.of_array(path, changed, same=ways is TYPES), (path, changed)


def method(name, **parameters):
    return {"object": name, "parameters": list(map(list, parameters.items()))}


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("n_features_in", 2, r"columns.floor has shape \(3,\) instead of \(2,\)"),
        ("n_features_in", None, "it does not say how many columns it has"),
        ("learner/n_features_in", 4, "learner.n_features_in is 4, which does not fit its arrays"),
        ("learner/learned/distribution/n_features", 10**30, "n_features is 10+, which does not fit its arrays"),
        ("learner/learned/report/n_features", 4, "report.n_features is 4, which does not fit its arrays"),
        ("learner/learned/report/floor", [0.0, "low", None], "floor.1 is 'low', not of type float"),
        ("feature_names_in", ["As", "Pb", 3], "feature_names_in.2 is 3, not of type text"),
        ("parameters/spell", 1, "parameters has 'spell', which this version cannot read"),
        ("parameters/floor_tolerance", "much", "floor_tolerance must be a number of 0 or more, got 'much'"),
        ("parameters/method", method("Popen", args="ls"), "it holds a 'Popen', which this version cannot read"),
        ("parameters/method", method("FloorImputer"), "it holds a 'FloorImputer', which this version cannot read"),
        ("parameters/method", method("Robust", spell=1), "Robust has 'spell', which this version cannot read"),
        ("parameters/method", method("Robust", max_groups="many"), "Robust.max_groups is 'many', not of type int"),
        ("parameters/method", DEEP[0][0], "nested too deep|or is damaged"),
        ("columns/tolerance", float("nan"), "floor_tolerance must be a number of 0 or more, got nan"),
        ("learner", None, "there is no place for its array learner"),
        ("learned", {}, "it has 'learned', which this version cannot read"),
        ("format", "unrelu.OnePass", "holds a 'OnePass', which this version cannot read"),
        ("format", "unrelu.os.system", "holds a 'os.system', which this version cannot read"),
    ],
)
def test_hostile_headers_are_refused_by_name(place, value, said, tmp_path):
    header, arrays = held("imputer")
    *way, last = place.split("/")
    node = header
    for step in way:
        node = node[step]
    node[last] = value
    np.savez(tmp_path / "f.npz", header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
    with pytest.raises(ModelFileError, match=said):
        unrelu.load(tmp_path / "f.npz")


def test_files_that_were_packed_to_fill_the_memory_are_refused_unread(tmp_path):
    header, arrays = held("record")
    arrays["cross"] = np.zeros((4000, 4000))
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez_compressed(tmp_path / "f.npz", header=text, **arrays)
    with pytest.raises(ModelFileError, match=r"is not an unrelu (model file|record), or is damaged"):
        unrelu.load(tmp_path / "f.npz")
