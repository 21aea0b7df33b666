"""``unrelu reproduce``: a figure or table of the papers run again, with a checklist of what the paper says of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli.options import JsonOption
from unrelu.cli.outcome import Answer
from unrelu.errors import MissingDependencyError

if TYPE_CHECKING:
    from rich.table import Table

    from unrelu.papers.experiments.claims import Verdict
    from unrelu.papers.experiments.experiment import Study
    from unrelu.papers.experiments.journal import Journal
    from unrelu.papers.experiments.runner import Reproduction, Watch

# Written out here as well, so that --help need not load the experiments.
NAMES = "wu2019-figure1, outliers-figure1, outliers-figure2, outliers-table1"


def reproduce(
    name: Annotated[str, typer.Argument(help=f"Which: {NAMES}.", metavar="NAME")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer runs and points: under two minutes instead of under thirty.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write to, created if missing.")] = Path(
        "unrelu-reproduce"
    ),
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of all random draws.")] = 0,
    as_json: JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer:
    """Run an experiment of the papers again and check what they say of it.

    Writes a CSV of every run, a picture laid out like the paper's with our method beside, and a checklist of the
    paper's claims, each held or not held. If interrupted, the same command goes on where it stopped.
    """
    from unrelu.cli.outputs import check_outputs, output_folder
    from unrelu.papers.experiments.catalogue import experiment_named
    from unrelu.papers.experiments.experiment import Study
    from unrelu.papers.experiments.journal import Journal

    study = Study(experiment_named(name), quick, seed)
    picture_path = out / f"{study.stem}.png"
    with output_folder(out):
        check_outputs([out / f"{study.stem}.csv", out / f"{study.stem}-checklist.md", picture_path])
        start = time.perf_counter()
        journal = Journal(study, out)
        if journal.set_aside is not None:
            typer.echo(f"Warning: {journal.set_aside}", err=True)
        done = _run(study, journal, out)
        left_out = _draw(done, picture_path)
    seconds = time.perf_counter() - start
    facts = _facts(done, journal, None if left_out else picture_path, seconds)
    return Answer(facts, _shown(facts, done.verdicts, left_out))


def _run(study: Study, journal: Journal, out: Path) -> Reproduction:
    """Run with progress; an interruption says how to go on."""
    from unrelu.papers.experiments.runner import reproduce as run

    try:
        with _progress(study) as watch:
            return run(study, journal, watch)
    except KeyboardInterrupt:
        kept = f"{len(journal)} of {sum(1 for _ in study.trials())} trials are finished"
        where = f" and kept in {journal.csv_path}" if len(journal) else ""
        typer.echo(f"{kept}{where}. To go on: {_command(study, out)}", err=True)
        raise


def _command(study: Study, out: Path) -> str:
    from shlex import quote

    options = ["--quick"] * study.quick + [f"--seed {study.seed}"] * bool(study.seed)
    return " ".join(["unrelu reproduce", study.experiment.name, *options, "--out", quote(str(out))])


@contextmanager
def _progress(study: Study) -> Iterator[Watch]:
    """What is being learned, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from unrelu.papers.experiments.runner import Step

    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with progress:
        task = progress.add_task("Starting (the first run also compiles)", total=1.0)

        def watch(step: Step) -> None:
            point = step.trial.axis.text(step.trial.setting)
            run = f"run {step.trial.run + 1} of {study.plan.runs}"
            progress.update(task, completed=step.share_done, description=f"{point}, {run}: {step.curve.name}")

        yield watch


def _draw(done: Reproduction, path: Path) -> str | None:
    """Write the picture, or say why there is none: the numbers do not need matplotlib."""
    from unrelu.report.pictures import rendered, write_picture
    from unrelu.report.reproduction_picture import reproduction_picture

    try:
        write_picture(path, rendered(reproduction_picture(done.study, done.results)))
    except MissingDependencyError as missing:
        return str(missing)
    return None


def _facts(done: Reproduction, journal: Journal, picture: Path | None, seconds: float) -> dict[str, Any]:
    study = done.study
    return {
        "name": study.experiment.name,
        "quick": study.quick,
        "seed": study.seed,
        "csv": done.csv_path,
        "checklist": done.checklist_path,
        "picture": picture,
        "settings": journal.settings_path,
        "runs": study.plan.runs,
        "trials": len(journal),
        "trials_found": journal.found,
        "seconds": round(seconds, 3),
        "claims_held": sum(verdict.held for verdict in done.verdicts),
        "claims": [_fact(verdict) for verdict in done.verdicts],
    }


def _fact(verdict: Verdict) -> dict[str, Any]:
    claim, finding = verdict.claim, verdict.finding
    numbers = [{"held": part.held, "numbers": part.text} for part in finding.parts]
    return {"claim": claim.says, "where": claim.where, "held": verdict.held, "rule": claim.check.rule, "parts": numbers}


def _shown(facts: dict[str, Any], verdicts: tuple[Verdict, ...], left_out: str | None) -> list[str | Table]:
    ran = facts["trials"] - facts["trials_found"]
    resumed = f", {facts['trials_found']} more were finished before" if facts["trials_found"] else ""
    return [
        f"{facts['name']}: {ran} trials in {facts['seconds']:.0f} s{resumed}.",
        _checklist_table(verdicts),
        f"{facts['claims_held']} of {len(verdicts)} claims held in this run; the checklist has the rules and numbers.",
        f"Results written to {facts['csv']}",
        f"Checklist written to {facts['checklist']}",
        f"Picture written to {facts['picture']}" if left_out is None else f"The picture was left out. {left_out}",
    ]


def _checklist_table(verdicts: tuple[Verdict, ...]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("the paper's claim, in our words", overflow="fold")
    table.add_column("comparisons", justify="right", no_wrap=True)
    for verdict in verdicts:
        parts = verdict.finding.parts
        met = f"{len(parts) - len(verdict.finding.failed)} of {len(parts)}"
        word = Text(verdict.word, style="green" if verdict.held else "bold red")
        table.add_row(word, Text(verdict.claim.says), met)
    return table
