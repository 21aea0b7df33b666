"""Tiny versions of every experiment end to end; interruption, resumption, and results of other settings."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from unrelu.errors import InputFileError, InvalidParameterError
from unrelu.papers import runner
from unrelu.papers.experiments import EXPERIMENTS, find_experiment
from unrelu.papers.runner import Journal, reproduce
from unrelu.papers.study import BIAS, ROWS, SECONDS, Study


class Stop(Exception):
    pass


def stop_after(fits):
    """Raises before the fit of that number."""
    seen = []

    def progress(step):
        if len(seen) == fits:
            raise Stop
        seen.append(step)

    progress.seen = seen
    return progress


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_end_to_end(tiny, tmp_path, name):
    study = tiny(name)
    progress, journal = stop_after(None), Journal(study, tmp_path)
    _, readings = reproduce(study, journal, progress)
    trials, curves = list(study.trials()), study.experiment.curves
    with open(journal.csv_path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(trials) * len(curves) == len(progress.seen)
    for measure in study.experiment.measures:
        values = np.array([float(row[measure.name]) for row in rows])
        assert not np.isnan(values).any()
        assert (values >= 0.0).all()
    shares = [step.done / step.total for step in progress.seen]
    assert shares == sorted(shares)
    assert 0.0 == shares[0] < shares[-1] < 1.0
    assert [reading.says for reading in readings] == [reading.says for reading in study.experiment.readings]
    page = journal.checklist_path.read_text("utf-8")
    for claims in zip(*(reading.claims for reading in readings), strict=True):
        words = " | ".join(claim.word for claim in claims)
        assert f"| {claims[0].says} | {claims[0].where} | {words} |" in page
        assert all(claim.otherwise in page for claim in claims if not claim.held)
    for reading in readings:
        assert f"**{reading.summary}.** {reading.says}" in page
    for curve in curves:
        assert f"`{curve.method!r}`" in page


def reproduced(study, folder, *progress):
    """The journal, the results and the tested readings of a finished run."""
    journal = Journal(study, folder)
    return journal, *reproduce(study, journal, *progress)


def test_results_are_those_in_the_file_and_repeat_themselves(tiny, tmp_path):
    (tmp_path / "two").mkdir()
    study = tiny("wu2019-figure1")
    one, results, _ = reproduced(study, tmp_path)
    two, *_ = reproduced(study, tmp_path / "two")
    assert one.csv_path.read_bytes() == two.csv_path.read_bytes()
    reread = Journal(study, tmp_path).results()
    for curve in study.experiment.curves:
        for measure in study.experiment.measures:
            expected = results(ROWS, curve, measure)
            np.testing.assert_array_equal(reread(ROWS, curve, measure).values, expected.values)
    other = tiny("wu2019-figure1", seed=1)
    three, *_ = reproduced(other, tmp_path / "two")
    assert one.csv_path.read_bytes() != three.csv_path.read_bytes()


@pytest.mark.parametrize("fits", [0, 20])
def test_an_interrupted_run_goes_on_where_it_stopped(tiny, tmp_path, fits):
    (tmp_path / "whole").mkdir()
    study = tiny("outliers-figure1", rows=300)
    whole, *_ = reproduced(study, tmp_path / "whole")
    with pytest.raises(Stop):
        reproduce(study, Journal(study, tmp_path), stop_after(fits))
    finished = fits // len(study.experiment.curves)
    assert (tmp_path / whole.csv_path.name).exists() == (finished > 0)
    journal, progress = Journal(study, tmp_path), stop_after(None)
    assert journal.found == finished
    assert journal.set_aside is None
    reproduce(study, journal, progress)
    trials = list(study.trials())
    assert [step.state for step in progress.seen[:: len(study.experiment.curves)]] == trials[finished:]
    assert journal.csv_path.read_bytes() == whole.csv_path.read_bytes()
    assert journal.checklist_path.read_bytes() == whole.checklist_path.read_bytes()


def test_a_finished_run_computes_nothing(tiny, tmp_path, monkeypatch):
    study = tiny("outliers-table1")
    first, _, tested = reproduced(study, tmp_path)
    before = first.csv_path.read_bytes()
    monkeypatch.setattr(runner, "draw", lambda *_: pytest.fail("drew rows again"))
    again, _, readings = reproduced(study, tmp_path)
    assert again.csv_path.read_bytes() == before
    assert readings == tested


def test_finished_trials_reach_the_file_while_the_run_goes_on(tiny, tmp_path):
    study = tiny("wu2019-figure1")
    journal = Journal(study, tmp_path)
    lines = []

    def progress(step):
        lines.append(journal.csv_path.read_text().count("\n") if journal.csv_path.exists() else 0)

    reproduce(study, journal, progress)
    assert lines[:6] == [0, 0, 3, 3, 5, 5]


def test_results_of_another_seed_are_set_aside(tiny, tmp_path):
    study, other = tiny("wu2019-figure1"), tiny("wu2019-figure1", seed=5)
    old = reproduced(study, tmp_path)[0].csv_path.read_bytes()
    journal = Journal(other, tmp_path)
    assert journal.found == 0
    assert "other settings (seed 0, now 5): starting over" in journal.set_aside
    assert (tmp_path / "wu2019-figure1-quick-earlier.csv").read_bytes() == old
    reproduce(other, journal)
    assert Journal(other, tmp_path).found == len(list(other.trials()))


def test_other_plans_and_unknown_settings_are_set_aside(tiny, tmp_path):
    study = tiny("wu2019-figure1")
    settings = reproduced(study, tmp_path)[0].settings_path
    panels = tuple(replace(panel, runs=3) for panel in study.panels)
    more = replace(study, experiment=replace(study.experiment, quick=panels))
    assert "(runs 2, now 3)" in Journal(more, tmp_path).set_aside
    reproduce(study, Journal(study, tmp_path))
    changed = json.loads(settings.read_text("utf-8"))
    changed["curves"]["one pass (ours)"] = "OnePass(older)"
    settings.write_text(json.dumps(changed))
    assert "(other curves)" in Journal(study, tmp_path).set_aside
    reproduce(study, Journal(study, tmp_path))
    settings.unlink()
    assert "(unknown)" in Journal(study, tmp_path).set_aside


def test_quick_and_full_do_not_meet(tiny, tmp_path):
    study = tiny("wu2019-figure1")
    reproduce(study, Journal(study, tmp_path))
    full = replace(study, quick=False)
    assert full.panels is study.experiment.full
    journal = Journal(full, tmp_path)
    assert (journal.found, journal.set_aside) == (0, None)


@pytest.mark.parametrize(
    "damage", ["rows,300", "rows,0,300,2,1,1,0,truncated SGD (paper),0.1,x,0.2", "made,up,0,0,0,0,0,0"]
)
def test_a_damaged_file_is_named(tiny, tmp_path, damage):
    study = tiny("wu2019-figure1")
    path = reproduced(study, tmp_path)[0].csv_path
    path.write_text(path.read_text() + damage + "\n")
    with pytest.raises(InputFileError, match=r"is damaged .* delete it to start over"):
        Journal(study, tmp_path)


def test_a_trial_that_lacks_a_curve_is_run_again(tiny, tmp_path):
    study = tiny("wu2019-figure1")
    path = reproduced(study, tmp_path)[0].csv_path
    whole = path.read_text()
    path.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    journal = Journal(study, tmp_path)
    assert journal.found == len(list(study.trials())) - 1
    reproduce(study, journal)
    assert path.read_text() == whole


def test_only_timed_experiments_warm_up(tiny, tmp_path, monkeypatch):
    drawn = []
    original = runner.draw
    monkeypatch.setattr(runner, "draw", lambda *given: drawn.append(given) or original(*given))
    for name in ("wu2019-figure1", "outliers-table1"):
        drawn.clear()
        study = tiny(name)
        reproduce(study, Journal(study, tmp_path))
        assert len(drawn) - len(list(study.trials())) == int(SECONDS in study.experiment.measures)


def test_every_trial_has_its_own_streams(tiny, tmp_path, monkeypatch):
    entropies, original = [], runner.draw
    monkeypatch.setattr(
        runner, "draw", lambda setting, entropy: entropies.append(entropy) or original(setting, entropy)
    )
    study = tiny("wu2019-figure1", seed=7)
    reproduce(study, Journal(study, tmp_path))
    assert {entropy[0] for entropy in entropies} == {7}
    assert len(set(entropies)) == len(entropies) == len(list(study.trials()))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_plans_cover_the_paper(name):
    experiment = EXPERIMENTS[name]
    assert [p.axis for p in experiment.quick] == [p.axis for p in experiment.full]
    brief, full = (Study(experiment, quick) for quick in (True, False))
    for study in (brief, full):
        assert study.runs_in_words.startswith(str(study.runs))
    assert brief.runs <= full.runs
    assert any(curve.ours for curve in experiment.curves)
    assert len({curve.name for curve in experiment.curves}) == len(experiment.curves)


def test_an_unknown_name_is_met_with_the_nearest_and_all_names():
    with pytest.raises(InvalidParameterError, match="Did you mean 'outliers-figure2'") as caught:
        find_experiment("outlier-figure2")
    assert all(name in str(caught.value) for name in EXPERIMENTS)


def test_a_panel_may_have_more_runs(tiny, tmp_path):
    study = tiny("wu2019-figure1")
    first, *others = study.panels
    panels = (replace(first, runs=5), *others)
    study = replace(study, experiment=replace(study.experiment, quick=panels))
    journal, results, _ = reproduced(study, tmp_path)
    for panel, runs in zip(panels, (5, 2, 2), strict=True):
        assert results(panel.axis, study.experiment.curves[0], BIAS).values.shape[1] == runs
    assert study.runs_in_words == "2 (5 along n)"
    assert "2 (5 along n) runs a point" in journal.checklist_path.read_text("utf-8")
