"""``unrelu reproduce``: a figure or table of the papers run again, with a checklist of what the paper says of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output, output_folder
from unrelu.cli.outcome import Answer, command
from unrelu.errors import UnreluWarning

if TYPE_CHECKING:
    from rich.table import Table

    from unrelu.papers.runner import Journal
    from unrelu.papers.study import Claim, Reading, Results, Study

# Written out here as well, so that --help need not load the experiments.
NAMES = "wu2019-figure1, outliers-figure1, outliers-figure2, outliers-table1"


@command()
def reproduce(
    name: Annotated[str, typer.Argument(help=f"Which: {NAMES}.", metavar="NAME")],
    quick: Annotated[bool, "Fewer runs and points: under two minutes instead of under thirty."] = False,
    output: Annotated[Path, options.output("The folder to write to, created if missing.")] = Path("unrelu-reproduce"),
    seed: Annotated[int, "Seed of all random draws.", {"min": 0, "max": 2**63 - 1}] = 0,
) -> Answer | None:
    """Run an experiment of the papers again and check what they say of it.

    Writes a CSV of every run, a picture laid out like the paper's with our method beside, and a checklist of the
    paper's claims, each held or not held under every reading of what the paper leaves open. If interrupted, the same
    command goes on where it stopped.
    """
    from unrelu.papers.experiments import experiment_named
    from unrelu.papers.runner import Journal
    from unrelu.papers.study import Study
    from unrelu.report.reproduction import reproduction_picture
    from unrelu.validation import warn

    study = Study(experiment_named(name), quick, seed)
    with output_folder(output):
        job = Job(
            Output("csv", output / f"{study.stem}.csv", "Results", "kept"),
            Output("checklist", output / f"{study.stem}-checklist.md", "Checklist", "kept"),
            Output("picture", output / f"{study.stem}.png", "Picture", "spare picture"),
        )
        journal = Journal(study, output)
        if journal.set_aside is not None:
            warn(journal.set_aside, UnreluWarning)
        results, readings = _run(study, journal, job, output)
        job.write(picture=lambda: reproduction_picture(study, results))
    return _answer(job, study, readings, journal)


def _run(study: Study, journal: Journal, job: Job, folder: Path) -> tuple[Results, tuple[Reading, ...]]:
    """Run with progress; an interruption says how to go on."""
    from unrelu.papers.runner import reproduce as run

    try:
        with job.watch() as watch:
            return run(study, journal, watch)
    except KeyboardInterrupt as stop:
        kept = f"{len(journal)} of {sum(1 for _ in study.trials())} trials are finished"
        where = f" and kept in {journal.csv_path}" if len(journal) else ""
        given = ["--quick"] * study.quick + (["--seed", str(study.seed)] if study.seed else [])
        again = shlex.join(["unrelu", "reproduce", study.experiment.name, *given, "--output", str(folder)])
        stop.add_note(f"{kept}{where}. To go on: {again}")
        raise


def _answer(job: Job, study: Study, readings: tuple[Reading, ...], journal: Journal) -> Answer | None:
    facts = {
        "name": study.experiment.name,
        "quick": study.quick,
        "seed": study.seed,
        "settings": journal.settings_path,
        "runs": study.runs,
        "trials": len(journal),
        "trials_found": journal.found,
        "readings": [
            {
                "name": reading.name,
                "says": reading.says,
                "claims_held": reading.held,
                "claims": [_told(claim) for claim in reading.claims],
            }
            for reading in readings
        ],
    }
    resumed = f", {journal.found} more were finished before" if journal.found else ""
    shown: list[str | Table] = [
        f"{study.experiment.name}: {len(journal) - journal.found} trials in {job.seconds:.0f} s{resumed}.",
        _checklist_table(readings),
        *(f"{reading.summary}. {reading.says}" for reading in readings),
        "The checklist has the rules and numbers, and why claims do not hold.",
    ]
    return job.answer(facts, shown)


def _told(claim: Claim) -> dict[str, Any]:
    return {
        "claim": claim.says,
        "where": claim.where,
        "held": claim.held,
        "why": None if claim.held else claim.otherwise or None,
        "rule": claim.rule,
        "parts": [{"held": held, "numbers": numbers} for held, numbers in claim.parts],
    }


def _checklist_table(readings: tuple[Reading, ...]) -> Table:
    """A row a claim, a column a reading."""
    from rich.text import Text

    from unrelu.report.tables import rows

    lines = [
        (claims[0].says, *(Text(c.word, style="green" if c.held else "bold red") for c in claims))
        for claims in zip(*(reading.claims for reading in readings), strict=True)
    ]
    return rows(("the paper's claim, in our words", *(reading.name for reading in readings)), lines)
