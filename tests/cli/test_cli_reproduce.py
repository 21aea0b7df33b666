"""reproduce: tiny versions of the experiments through the command line."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from dataclasses import replace

import pytest

from unrelu.cli.trying import NAMES
from unrelu.papers import experiments, runner


@pytest.fixture
def tiny(monkeypatch):
    """Two points a panel, two runs, a few hundred rows."""
    small = {}
    for name, experiment in experiments.EXPERIMENTS.items():
        panels = tuple(
            replace(panel, settings=tuple(replace(s, rows=300, columns=3) for s in panel.settings[-2:]), runs=2)
            for panel in experiment.quick
        )
        small[name] = replace(experiment, quick=panels, repeats=1)
    monkeypatch.setattr(experiments, "EXPERIMENTS", small)
    return small


@pytest.fixture
def no_picture(monkeypatch):
    """As without matplotlib: drawing takes longer than the tiny experiments."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


@pytest.mark.parametrize(
    "name",
    [
        name if name.startswith("wu2019") else pytest.param(name, marks=pytest.mark.slow)
        for name in experiments.EXPERIMENTS
    ],
)
def test_reproduce_end_to_end(run, folder, tiny, name):
    result = run("reproduce", name, "--quick", "--output", "new/place", "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    stem = f"{name}-quick"
    files = [f"{stem}-checklist.md", f"{stem}-settings.json", f"{stem}.csv", f"{stem}.png"]
    assert sorted(os.listdir(folder / "new/place")) == files
    assert (folder / "new/place" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    for shown, reading in zip(answer["readings"], tiny[name].readings, strict=True):
        assert [claim["claim"] for claim in shown["claims"]] == [claim.says for claim in reading.claims]
        assert shown["claims_held"] == sum(claim["held"] for claim in shown["claims"])
        assert shown["name"] == reading.name
    assert answer["trials_found"] == 0


def test_the_checklist_is_printed_and_the_second_run_only_reads(run, folder, tiny, no_picture):
    first = run("reproduce", "wu2019-figure1", "--quick")
    assert first.exit_code == 0, first.stderr
    assert first.stdout.count("held") >= len(tiny["wu2019-figure1"].readings[0].claims)
    for words in ("KL divergence grows", "Results written to unrelu-reproduce/wu2019-figure1-quick.csv", "Checklist"):
        assert words in first.stdout
    second = run("reproduce", "wu2019-figure1", "--quick")
    trials = sum(len(panel.settings) for panel in tiny["wu2019-figure1"].quick) * 2
    assert re.search(rf"0 trials in \d+ s, {trials} more were finished before\.", second.stdout)


def test_an_interruption_says_how_to_go_on(run, folder, tiny, no_picture, monkeypatch):
    whole = run("reproduce", "outliers-table1", "--quick", "--seed", "3", "--output", "whole")
    assert whole.exit_code == 0
    original, drawn = runner.draw, []

    def interrupted(setting, entropy):
        if len(drawn) == 2:  # the warm-up and a trial
            raise KeyboardInterrupt
        drawn.append(entropy)
        return original(setting, entropy)

    monkeypatch.setattr(runner, "draw", interrupted)
    result = run("reproduce", "outliers-table1", "--quick", "--seed", "3", "--output", "a place")
    assert result.exit_code == 130
    hint, last = result.stderr.splitlines()
    table = os.path.join("a place", "outliers-table1-quick.csv")
    assert hint == (
        f"1 of 2 trials are finished and kept in {table}."
        " To go on: unrelu reproduce outliers-table1 --quick --seed 3 --output 'a place'"
    )
    assert last.startswith("Interrupted")
    assert "Traceback" not in result.stderr
    monkeypatch.setattr(runner, "draw", original)
    resumed = run("reproduce", "outliers-table1", "--quick", "--seed", "3", "--output", "a place", "--json")
    assert json.loads(resumed.stdout)["trials_found"] == 1
    texts = [(folder / place / "outliers-table1-quick.csv").read_text() for place in ("whole", "a place")]
    # All but the seconds, which no seed can fix.
    one, two = ([row[:8] + row[9:] for row in csv.reader(text.splitlines())] for text in texts)
    assert one == two


def test_an_interruption_before_the_first_trial_leaves_nothing(run, folder, tiny, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "draw", interrupted)
    result = run("reproduce", "wu2019-figure1", "--quick", "--output", "place")
    assert result.exit_code == 130
    assert result.stderr.startswith("0 of ")
    assert os.listdir(folder) == []


def test_other_settings_start_over_with_a_warning(run, folder, tiny, no_picture):
    assert run("reproduce", "wu2019-figure1", "--quick", "--output", "place").exit_code == 0
    result = run("reproduce", "wu2019-figure1", "--quick", "--output", "place", "--seed", "1")
    assert result.exit_code == 0
    assert "Warning: " in result.stderr
    assert "other settings (seed 0, now 1): starting over" in result.stderr
    assert "wu2019-figure1-quick-earlier.csv" in os.listdir(folder / "place")


@pytest.mark.parametrize(
    ("name", "hint"), [("outliers-figure3", "Did you mean 'outliers-figure"), ("x", "There are: ")]
)
def test_unknown_names_are_refused(run, refused, folder, name, hint):
    line = refused(run("reproduce", name))
    assert hint in line
    assert NAMES in line
    assert os.listdir(folder) == []


def test_the_help_names_every_reproduction(run):
    assert NAMES.split(", ") == list(experiments.EXPERIMENTS)


def test_a_damaged_csv_is_refused(run, refused, folder, tiny, no_picture):
    run("reproduce", "wu2019-figure1", "--quick", "--output", "place")
    path = folder / "place" / "wu2019-figure1-quick.csv"
    path.write_text(path.read_text() + "rows,1\n")
    assert "is damaged" in refused(run("reproduce", "wu2019-figure1", "--quick", "--output", "place"))


def test_a_folder_that_is_a_file_is_refused(run, refused, folder, tiny):
    (folder / "taken").write_text("")
    assert "it is a file" in refused(run("reproduce", "wu2019-figure1", "--quick", "--output", "taken"))


def test_without_matplotlib_the_picture_is_left_out(run, folder, tiny, no_picture):
    result = run("reproduce", "wu2019-figure1", "--quick", "--output", "place")
    assert result.exit_code == 0, result.stderr
    assert 'The picture was left out. Pictures need matplotlib: pip install "unrelu[plot]".' in result.stdout
    assert "wu2019-figure1-quick.png" not in os.listdir(folder / "place")
