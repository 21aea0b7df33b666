"""Files of records and checkpoints: what comes back, and what a damaged or hostile file is told."""

from __future__ import annotations

import json
import time
import zipfile
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import pytest

import unrelu
from tests.archives import members, rewrite
from unrelu import storage
from unrelu.contracts import (
    Diagnostic,
    LearningReport,
    MixtureReport,
    NearestCovariance,
    PairCorrelations,
    RobustReport,
    RowGroup,
    Shrinkage,
)
from unrelu.errors import InvalidDataError, InvalidParameterError, ModelFileError
from unrelu.margins import Log, Normal, Seen
from unrelu.passes.checkpoints import Checkpoint
from unrelu.passes.pair_moments import GroupedMoments, PairMoments

FACTS = {"version": "0.1.0", "files": [["/a.csv", 5, 7]], "columns": ["a", "b", "c"], "settings": "abc"}


def learned(**parameters):
    x = unrelu.synthetic.random_model(3, random_state=0).sample(300, random_state=1)
    x[::7, 1] = np.nan
    return unrelu.RectifiedGaussianLearner("one_pass", floor=0.0, margins="normal", **parameters).fit(x).record_


RECORD = learned()
GROUPS = learned(stderr="jackknife")


def assert_equal(one, other):
    assert type(one) is type(other)
    for name, value in vars(one).items():
        its = vars(other)[name]
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, its)
            assert value.dtype == its.dtype
        elif isinstance(value, tuple) and value and hasattr(value[0], "__dict__"):
            assert len(value) == len(its)
            for part, its_part in zip(value, its, strict=True):
                assert_equal(part, its_part)
        elif hasattr(value, "__dict__"):
            assert_equal(value, its)
        else:
            assert (value, type(value)) == (its, type(its))


@pytest.mark.parametrize(
    "value",
    [RECORD, RECORD.rounded(20), GROUPS, Checkpoint(RECORD, 300, True, FACTS), Checkpoint(GROUPS, 200, False, FACTS)],
    ids=["record", "rounded", "groups", "checkpoint", "checkpoint of groups"],
)
def test_what_is_written_comes_back(tmp_path, value):
    storage.write(tmp_path / "f", value, {"site": "north"})
    assert_equal(unrelu.load(tmp_path / "f"), value)
    assert members(tmp_path / "f")["header"]["details"] == {"site": "north"}


def test_names_in_a_file_mean_something_without_our_code(tmp_path):
    storage.write(tmp_path / "f", RECORD)
    held = members(tmp_path / "f")
    assert {"count", "cross", "masked_sum", "origin", "observed.count", "screening.below_count"} <= set(held)
    assert (held["header"]["n_rows"], held["header"]["observed"]["count"]) == (300, None)
    assert "PairMoments" not in json.dumps({**held["header"], "format": ""})


@pytest.mark.parametrize(
    ("value", "arrays", "facts", "said"),
    [
        (RECORD, {"count": None}, {}, "it lacks its array count"),
        (RECORD, {"cross": np.zeros((3, 2))}, {}, r"cross has shape \(3, 2\) instead of \(3, 3\)"),
        (RECORD, {"cross": np.zeros((3, 3), dtype=int)}, {}, "cross holds int64 values"),
        (RECORD, {"cross": np.full((3, 3), np.nan)}, {}, "cross holds values that are not finite"),
        (RECORD, {"observed.count": np.zeros((2, 2))}, {}, r"observed.count has shape \(2, 2\) instead of \(3, 3\)"),
        (RECORD, {"screening.below_count": np.zeros(3)}, {}, "screening.below_count holds float64 values"),
        (RECORD, {}, {"n_rows": "many"}, "n_rows is 'many', not of type int"),
        (RECORD, {}, {"weight": float("inf")}, "weight is inf"),
        (RECORD, {}, {"n_rows": ...}, "its header lacks 'n_rows'"),
        (RECORD, {}, {"screening": 7}, "there is no place for its array screening.below_count"),
        (RECORD, {}, {"margins": ...}, "there is no place for its array margins.observed"),
        (GROUPS, {}, {"labels": [1, 2]}, "parts has 20 items instead of 2"),
        (GROUPS, {}, {"labels": [1.5] * 20}, "labels.0 is 1.5, not of type int or text"),
        (GROUPS, {"parts.0.floor": np.zeros(4)}, {}, r"parts.0.origin has shape \(3,\) instead of \(4,\)"),
        (GROUPS, {"parts.5.cross": np.zeros((2, 2))}, {}, r"parts.5.cross has shape \(2, 2\) instead of \(3, 3\)"),
        (GROUPS, {}, {"by_label": 1}, "by_label is 1, not of type bool"),
        (Checkpoint(RECORD, 300, True, FACTS), {}, {"facts/files": 3}, "facts.files is no list"),
        (Checkpoint(RECORD, 300, True, FACTS), {}, {"whole": None}, "whole is None, not of type bool"),
        (Checkpoint(RECORD, 300, True, FACTS), {}, {"record/n_rows": ...}, "its header lacks 'n_rows'"),
        (Checkpoint(RECORD, 300, True, FACTS), {}, {"facts/files": [3]}, "facts.files.0 is no list"),
        (Checkpoint(RECORD, 300, True, FACTS), {}, {"facts/settings": ...}, "its header lacks 'settings'"),
    ],
)
def test_what_is_wrong_is_refused_by_name(tmp_path, value, arrays, facts, said):
    storage.write(tmp_path / "f", value)
    rewrite(tmp_path / "f", arrays, facts)
    with pytest.raises(ModelFileError, match=f"f is damaged: {said}"):
        unrelu.load(tmp_path / "f")


@pytest.mark.parametrize("number", range(6))
def test_hostile_files_are_refused_at_once(tmp_path, number):
    storage.write(tmp_path / "f", RECORD)
    held = members(tmp_path / "f")
    header = held.pop("header")
    texts = [
        json.dumps({**header, "n_rows": 1}).replace('"n_rows": 1', '"n_rows": ' + "[" * 50_000 + "]" * 50_000),
        json.dumps({**header, "observed": {"observed": {}}}),
        json.dumps({**header, "format": "unrelu.os"}),
        json.dumps({**header, "format": "unrelu.__builtins__"}),
        json.dumps({**header, **{f"x{k}": k for k in range(20_000)}}),
        json.dumps({**header, "n_rows": 10**4000}),
    ]
    with open(tmp_path / "f", "wb") as stream:
        np.savez(stream, header=np.frombuffer(texts[number].encode(), dtype=np.uint8), **held)
    began = time.perf_counter()
    if number < 5:
        with pytest.raises(ModelFileError):
            unrelu.load(tmp_path / "f")
    else:  # a huge number of rows is one: it is not looked at before records are joined
        assert unrelu.load(tmp_path / "f").n_rows == 10**4000
    assert time.perf_counter() - began < 1.0


def test_an_array_that_states_a_size_it_does_not_have_is_refused_at_once(tmp_path):
    storage.write(tmp_path / "f", RECORD)
    with zipfile.ZipFile(tmp_path / "f") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["cross.npy"] = entries["cross.npy"].replace(b"(3, 3)", b"(3, 9000000000000)", 1)
    with zipfile.ZipFile(tmp_path / "f", "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    began = time.perf_counter()
    with pytest.raises(ModelFileError, match="is not an unrelu record, or is damaged"):
        unrelu.load(tmp_path / "f")
    assert time.perf_counter() - began < 1.0


def test_a_file_of_another_kind_is_refused(tmp_path):
    storage.write(tmp_path / "f", RECORD)
    with pytest.raises(ModelFileError, match="f is not an unrelu checkpoint"):
        storage.read(tmp_path / "f", Checkpoint)
    with pytest.raises(ModelFileError, match="f is not an unrelu record"):
        storage.read(tmp_path / "f", GroupedMoments)
    assert storage.read(tmp_path / "f", PairMoments).n_rows == 300


def test_what_cannot_be_written_says_so_and_leaves_no_file(tmp_path):
    class Own:
        kind, n_parameters, seen = "own", 0, Seen()
        to_latent = from_latent = log_slope = staticmethod(lambda x: x)

    model = unrelu.RectifiedGaussian([0.0, 0.0], np.eye(2), margins=[Own(), Normal()], floor=-np.inf)
    with pytest.raises(InvalidParameterError, match=r"Only margins of unrelu\.margins can be saved"):
        model.save(tmp_path / "f")
    assert not (tmp_path / "f").exists()


@dataclass
class Item:
    y: Annotated[np.ndarray, "ints m"]


@dataclass
class Whole:
    n: Annotated[int, "size n"]
    x: Annotated[np.ndarray, "floats n"] | None
    each: tuple[Item, ...]
    kind: str
    left_out: int = field(default=7, metadata={"in files": False})


def test_types_say_what_is_there():
    whole = Whole(2, np.ones(2), tuple(Item(np.ones(k, int)) for k in (1, 5)), "a", 8)
    good = storage.state_of(whole)
    again = storage.made_of(Whole, good)
    assert (again.n, again.kind, again.left_out, len(again.each)) == (2, "a", 7, 2)
    assert again.x is whole.x
    del good["x"]
    assert storage.made_of(Whole, good).x is None
    for name, wrong in {"n": -1, "each": {}, "kind": 3, "left_out": 1}.items():
        with pytest.raises(InvalidDataError, match=name):
            storage.made_of(Whole, {**good, name: wrong})
    with pytest.raises(InvalidDataError, match=r"x has shape \(3,\) instead of \(2,\)"):
        storage.made_of(Whole, {**good, "x": np.ones(3)})
    with pytest.raises(InvalidDataError, match=r"n is 1000.*, not of type float"):
        storage.made_of(float, 10**400, "n")


def test_groups_are_of_the_same_columns(tmp_path):
    x = unrelu.synthetic.random_model(2, random_state=0).sample(50, random_state=1)
    x[3, 1] = np.nan
    narrow = unrelu.RectifiedGaussianLearner("one_pass", floor=0.0, margins="normal").fit(x).record_
    storage.write(tmp_path / "f", GROUPS)
    storage.write(tmp_path / "narrow", narrow)
    taken = {f"parts.0.{name}": value for name, value in members(tmp_path / "narrow").items() if name != "header"}
    rewrite(tmp_path / "f", {name: taken.get(name) for name in members(tmp_path / "f") if name.startswith("parts.0.")})
    with pytest.raises(ModelFileError, match="f is damaged: its groups are not all of the same columns"):
        unrelu.load(tmp_path / "f")


def test_margins_in_files_are_plain():
    assert storage.state_of(Log(Seen(0.5, 2.0))) == {"margin": "log", "seen": {"low": 0.5, "high": 2.0, "step": 0.0}}


REPORTS = [
    LearningReport(
        "one_pass", 5, 2, 4.5, 0.3, (0.2, 0.4), 0.0, 1, NearestCovariance(-0.1), floor=(0.0, None), ceiling=(None, 2.0)
    ),
    RobustReport(
        *("robust", 5, 2, 4.5, 0.3, (0.2, 0.4), 0.0, 1, NearestCovariance(0.1, rounds=3, converged=False)),
        *(7, 0.25, (RowGroup("gaussian", 0.75), RowGroup("unexplained", 0.25)), 0.01, False),
        diagnostics=(Diagnostic("ties", (1,), "so many", "less", (0.5,)),),
        shrinkage=Shrinkage(0.1, 2, 0.01),
    ),
    MixtureReport(5, 2, 0.3, (0.2, 0.4), 0.0, (0.6, 0.4), 12, True, 5.0, -3.5, (0.0, None)),
]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: type(report).__name__)
def test_reports_are_plain_names_and_back(report):
    state = json.loads(json.dumps(storage.state_of(report)))
    assert storage.made_of(type(report), state) == report
    with pytest.raises(InvalidDataError, match=r"share_floored_by_column\.1 is 'x', not of type float"):
        storage.made_of(type(report), {**state, "share_floored_by_column": [0.2, "x"]})
    with pytest.raises(InvalidDataError, match="its header lacks 'share_missing'"):
        storage.made_of(type(report), {name: value for name, value in state.items() if name != "share_missing"})


def test_pairs_are_lists_of_two():
    pairs = PairCorrelations(np.eye(2), np.eye(2), ((0, 1),))
    again = storage.made_of(PairCorrelations, storage.state_of(pairs))
    assert again.perfect_pairs == ((0, 1),)
    for wrong in ([[0]], [[0, 1, 2]], [[0, "a"]], [3], {}):
        with pytest.raises(InvalidDataError):
            storage.made_of(PairCorrelations, {**storage.state_of(pairs), "perfect_pairs": wrong})
    with pytest.raises(NotImplementedError, match="needs an annotation"):
        storage.made_of(np.ndarray, np.eye(2), "covariance")
