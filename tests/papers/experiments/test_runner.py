"""Tiny versions of every experiment end to end; interruption, resumption, and results of other settings."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from unrelu.errors import InputFileError, InvalidParameterError
from unrelu.papers.experiments import EXPERIMENTS, experiment_named, runner
from unrelu.papers.experiments.design import BIAS, ROWS, SECONDS
from unrelu.papers.experiments.runner import Journal, reproduce


class Stop(Exception):
    pass


def stop_after(fits):
    """Raises before the fit of that number."""
    seen = []

    def watch(step):
        if len(seen) == fits:
            raise Stop
        seen.append(step)

    watch.seen = seen
    return watch


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_end_to_end(tiny, tmp_path, name):
    study = tiny(name)
    watch = stop_after(None)
    done = reproduce(study, Journal(study, tmp_path), watch)
    trials, curves = list(study.trials()), study.experiment.curves
    with open(done.csv_path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(trials) * len(curves) == len(watch.seen)
    for measure in study.experiment.measures:
        values = np.array([float(row[measure.name]) for row in rows])
        assert not np.isnan(values).any()
        assert (values >= 0.0).all()
    shares = [step.done / step.total for step in watch.seen]
    assert shares == sorted(shares)
    assert 0.0 == shares[0] < shares[-1] < 1.0
    assert [judgement.reading for judgement in done.judgements] == list(study.experiment.readings)
    page = done.checklist_path.read_text("utf-8")
    for verdicts in zip(*(judgement.verdicts for judgement in done.judgements), strict=True):
        claim, words = verdicts[0].claim, " | ".join(verdict.word for verdict in verdicts)
        assert f"| {claim.says} | {claim.where} | {words} |" in page
        assert all((v.claim.otherwise in page) for v in verdicts if not v.held)
    for judgement in done.judgements:
        assert f"**{judgement.summary}.** {judgement.reading.says}" in page
    for curve in curves:
        assert f"`{curve.method!r}`" in page


def test_results_are_those_in_the_file_and_repeat_themselves(tiny, tmp_path):
    (tmp_path / "two").mkdir()
    study = tiny("wu2019-figure1")
    one = reproduce(study, Journal(study, tmp_path))
    two = reproduce(study, Journal(study, tmp_path / "two"))
    assert one.csv_path.read_bytes() == two.csv_path.read_bytes()
    reread = Journal(study, tmp_path).results()
    for curve in study.experiment.curves:
        for measure in study.experiment.measures:
            expected = one.results.series(ROWS, curve, measure)
            np.testing.assert_array_equal(reread.series(ROWS, curve, measure).values, expected.values)
    other = tiny("wu2019-figure1", seed=1)
    three = reproduce(other, Journal(other, tmp_path / "two"))
    assert one.csv_path.read_bytes() != three.csv_path.read_bytes()


@pytest.mark.parametrize("fits", [0, 20])
def test_an_interrupted_run_goes_on_where_it_stopped(tiny, tmp_path, fits):
    (tmp_path / "whole").mkdir()
    study = tiny("outliers-figure1", rows=300)
    whole = reproduce(study, Journal(study, tmp_path / "whole"))
    with pytest.raises(Stop):
        reproduce(study, Journal(study, tmp_path), stop_after(fits))
    finished = fits // len(study.experiment.curves)
    assert (tmp_path / whole.csv_path.name).exists() == (finished > 0)
    journal, watch = Journal(study, tmp_path), stop_after(None)
    assert journal.found == finished
    assert journal.set_aside is None
    done = reproduce(study, journal, watch)
    trials = list(study.trials())
    assert [step.state for step in watch.seen[:: len(study.experiment.curves)]] == trials[finished:]
    assert done.csv_path.read_bytes() == whole.csv_path.read_bytes()
    assert done.checklist_path.read_bytes() == whole.checklist_path.read_bytes()


def test_a_finished_run_computes_nothing(tiny, tmp_path, monkeypatch):
    study = tiny("outliers-table1")
    first = reproduce(study, Journal(study, tmp_path))
    before = first.csv_path.read_bytes()
    monkeypatch.setattr(runner, "draw", lambda *_: pytest.fail("drew rows again"))
    again = reproduce(study, Journal(study, tmp_path))
    assert again.csv_path.read_bytes() == before
    assert [judgement.held for judgement in again.judgements] == [judgement.held for judgement in first.judgements]


def test_finished_trials_reach_the_file_while_the_run_goes_on(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("unrelu.papers.experiments.runner._SECONDS_BETWEEN_WRITES", 0.0)
    study = tiny("wu2019-figure1")
    journal = Journal(study, tmp_path)
    lines = []

    def watch(step):
        lines.append(journal.csv_path.read_text().count("\n") if journal.csv_path.exists() else 0)

    reproduce(study, journal, watch)
    assert lines[:6] == [0, 0, 3, 3, 5, 5]


def test_results_of_another_seed_are_set_aside(tiny, tmp_path):
    study, other = tiny("wu2019-figure1"), tiny("wu2019-figure1", seed=5)
    old = reproduce(study, Journal(study, tmp_path)).csv_path.read_bytes()
    journal = Journal(other, tmp_path)
    assert journal.found == 0
    assert "other settings (seed 0, now 5): starting over" in journal.set_aside
    assert (tmp_path / "wu2019-figure1-quick-earlier.csv").read_bytes() == old
    reproduce(other, journal)
    assert Journal(other, tmp_path).found == len(list(other.trials()))


def test_other_plans_and_unknown_settings_are_set_aside(tiny, tmp_path):
    study = tiny("wu2019-figure1")
    settings = reproduce(study, Journal(study, tmp_path)).csv_path.with_name("wu2019-figure1-quick-settings.json")
    more = replace(study, experiment=replace(study.experiment, quick=replace(study.plan, runs=3)))
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
    assert full.plan is study.experiment.full
    journal = Journal(full, tmp_path)
    assert (journal.found, journal.set_aside) == (0, None)


@pytest.mark.parametrize(
    "damage", ["rows,300", "rows,0,300,2,1,1,0,truncated SGD (paper),0.1,x,0.2", "made,up,0,0,0,0,0,0"]
)
def test_a_damaged_file_is_named(tiny, tmp_path, damage):
    study = tiny("wu2019-figure1")
    path = reproduce(study, Journal(study, tmp_path)).csv_path
    path.write_text(path.read_text() + damage + "\n")
    with pytest.raises(InputFileError, match=r"is damaged .* delete it to start over"):
        Journal(study, tmp_path)


def test_a_trial_that_lacks_a_curve_is_run_again(tiny, tmp_path):
    study = tiny("wu2019-figure1")
    path = reproduce(study, Journal(study, tmp_path)).csv_path
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


def test_every_trial_has_its_own_streams(tiny):
    study = tiny("outliers-figure2")
    entropies = [study.entropy(trial) for trial in study.trials()]
    assert len(set(entropies)) == len(entropies)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_plans_cover_the_paper(name):
    experiment = EXPERIMENTS[name]
    assert [p.axis for p in experiment.quick.panels] == [p.axis for p in experiment.full.panels]
    for plan in (experiment.quick, experiment.full):
        assert plan.runs_in_words.startswith(str(plan.runs))
    assert experiment.quick.runs <= experiment.full.runs
    assert any(curve.ours for curve in experiment.curves)
    assert len({curve.name for curve in experiment.curves}) == len(experiment.curves)


def test_an_unknown_name_is_met_with_the_nearest_and_all_names():
    with pytest.raises(InvalidParameterError, match="Did you mean 'outliers-figure2'") as caught:
        experiment_named("outlier-figure2")
    assert all(name in str(caught.value) for name in EXPERIMENTS)


def test_a_panel_may_have_more_runs(tiny, tmp_path):
    study = tiny("wu2019-figure1")
    first, *others = study.plan.panels
    plan = replace(study.plan, panels=(replace(first, runs=5), *others))
    study = replace(study, experiment=replace(study.experiment, quick=plan))
    done = reproduce(study, Journal(study, tmp_path))
    for panel, runs in zip(plan.panels, (5, 2, 2), strict=True):
        assert done.results.series(panel.axis, study.experiment.curves[0], BIAS).values.shape[1] == runs
    assert plan.runs_in_words == "2 (5 along n)"
    assert "2 (5 along n) runs a point" in done.checklist_path.read_text("utf-8")
