"""The frame of all commands: the same options in the same order, outputs checked first and written last."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import typer

from unrelu.cli.app import app
from unrelu.cli.frame import Job
from unrelu.cli.options import Output
from unrelu.errors import OutputError
from unrelu.report.tables import write_rows

COMMANDS = typer.main.get_command(app).commands
ORDER = [
    *(["floor"], ["ceiling"], ["margins"], ["floor_tolerance"], ["columns"], ["drop"], ["id"], ["header"], ["decimal"]),
    *(["limits"], ["nondetect"], ["sheet"], ["where"], ["skip_bad_files"], ["scheduler"], ["checkpoint"], ["output"]),
    *(["record", "saved"], ["round_counts"]),
    *(
        ["hidden", "latent", "outliers", "truth", "state", "std", "mask", "changes"],
        ["picture"],
        ["path_picture"],
        ["seed"],
    ),
    ["as_json"],
]


@pytest.mark.parametrize("name", COMMANDS)
def test_options_stand_in_one_order(name):
    place = {option: rank for rank, options in enumerate(ORDER) for option in options}
    if name == "simulate":  # its --columns and --outliers are what is asked for
        place = {option: rank for option, rank in place.items() if option not in ("columns", "outliers")}
    options = [param.name for param in COMMANDS[name].params]
    known = [place[option] for option in options if option in place]
    assert known == sorted(known)
    assert options[-1] == "as_json"
    first = min(options.index(option) for option in options if option in place)
    assert all(option in place for option in options[first:])  # options of the command come before


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"info", "merge", "read"}))  # merge and read draw nothing
def test_every_command_writes_to_output_and_takes_a_seed(name):
    options = {option for param in COMMANDS[name].params for option in param.opts}
    assert {"--output", "-o", "--seed", "--json"} <= options
    writes_pictures = name in (
        "check",
        "clean",
        "fit",
        "impute",
        "graph",
        "score",
        "factor",
        "recover",
        "peel",
    )  # others always draw, or have nothing to
    assert ("--picture" in options) == writes_pictures


def test_a_picture_is_drawn_before_anything_is_written(folder):
    job = Job({"model": Output(Path("model.npz"), "Model"), "picture": Output(Path("p.png"), "Picture", "picture")})

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        job.write(model=lambda path: path.write_text("x"), picture=fails)
    assert os.listdir(folder) == []


def test_only_requested_files_are_written_and_named(folder):
    outputs = {"model": Output(Path("m.txt"), "Model"), "extra": Output(None, "Extra"), "quiet": Output(Path("q.txt"))}
    job = Job(outputs)
    job.write(model=lambda path: path.write_text("m"), extra=lambda _: pytest.fail("not wanted"), quiet=Path.touch)
    facts, shown, code = job.answer({"n": 3}, ["found"], ["last"])
    assert (shown, code) == (["found", "Model written to m.txt", "last"], 0)
    assert facts.pop("seconds") >= 0.0
    assert facts == {"model": Path("m.txt"), "extra": None, "quiet": Path("q.txt"), "n": 3}


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ([Output(Path("x.npz")), Output(Path("./x.npz"))], "two outputs"),
        ([Output(Path("rows.csv"))], "also an input"),
        ([Output(Path("x.cvs"), kind="table")], "Did you mean '.csv'?"),
        ([Output(Path("x.npy"), kind="columns")], "unknown kind of file"),
        ([Output(Path("x.pgn"), kind="picture")], "unknown kind of picture. Did you mean '.png'?"),
        ([Output(Path("-"))], "give a file name"),
    ],
)
def test_outputs_are_refused_before_the_work(folder, outputs, words):
    (folder / "rows.csv").write_text("a\n1\n")
    with pytest.raises(OutputError) as refusal:
        Job(dict(enumerate(outputs)), {"paths": ["r*.csv"]})  # a glob finds it, too
    assert words in str(refusal.value)
    assert os.listdir(folder) == ["rows.csv"]


def test_rows_are_written_with_their_ids_block_by_block(folder):
    blocks = [np.array([[0.5, np.nan]]), np.array([[1.5, 2.0], [3.0, 4.0]])]
    write_rows(Path("x.csv"), iter(blocks), ["a", "b"], {"site": ["u", "v, w", ""]})
    assert Path("x.csv").read_text() == 'site,a,b\n"u",0.5,\n"v, w",1.5,2\n"",3,4\n'
    write_rows(Path("y.csv"), blocks[1], None, {})
    assert Path("y.csv").read_text() == "x0,x1\n1.5,2\n3,4\n"


def test_rows_on_standard_output_leave_no_room(run, model):
    refused = run("sample", model, "--json")
    assert refused.exit_code == 2
    assert "--json needs --output" in refused.stderr
    job = Job({"output": Output(Path("-"), kind="rows")})
    assert job.to_stdout
    assert job.answer({}, ["not shown"]) is None
