"""Try it out: ``unrelu demo``, a layer learned and compared with the truth; ``unrelu reproduce``, a paper's figure."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrelu.cli import options
from unrelu.cli.frame import Answer, Job, command, output_folder
from unrelu.cli.options import Output

if TYPE_CHECKING:
    from unrelu.notebook import Table
    from unrelu.papers.runner import Journal
    from unrelu.papers.study import Reading, Study

_INPUTS = ["hidden ReLU activations of a network on scikit-learn's digits"]
# Written out here as well, so that --help need not load the experiments.
NAMES = "wu2019-figure1, outliers-figure1, outliers-figure2, outliers-table1"


@command
def demo(
    output: Annotated[Path, options.output("The folder to write to, created if missing.")] = Path("unrelu-demo"),
    seed: Annotated[int, "Seed of the network's training.", {"min": 0, "max": 2**32 - 1}] = 0,
) -> Answer | None:
    """Learn a hidden layer from its ReLU activations; needs no file.

    The network is trained on scikit-learn's digits, and what is learned of its layer is compared with the truth.
    Writes model.npz and demo.png.
    """
    model_path = output / "model.npz"
    with output_folder(output):
        picture = Output(output / "demo.png", "Picture", "spare picture")
        job = Job({"model": Output(model_path, "Model"), "picture": picture})
        import numpy as np

        from unrelu.contracts import Step

        with job.progress(diagnostics=False) as progress:  # the text below has the diagnostics in one line
            progress(Step("Training a network on images of digits"))
            from unrelu.report import trying as digits
            from unrelu.report.model import fit_details

            before, accuracy = digits.trained_layer(seed=seed)
            # Nothing can be learned of units that are never above 0, or constant.
            learnable = np.ptp(np.maximum(before, 0.0), axis=0) > 0.0
            names = tuple(f"unit {unit}" for unit in np.flatnonzero(learnable))
            dropped = [f"unit {unit}" for unit in np.flatnonzero(~learnable)]
            kept = before[:, learnable]
            progress(Step("Learning its hidden layer"))
            learner, true, naive, errors, seconds = digits.learned_layer(kept, names, seed)
            distribution = learner.distribution_
            progress(Step("Drawing"))
            job.write(
                model=lambda path: distribution.save(path, {"inputs": _INPUTS, **fit_details(learner)}),
                picture=lambda: digits.layer_picture(kept, names, (true, naive, distribution), learner.mean_stderr_),
            )
    share, skewness = float((kept <= 0.0).mean()), digits.mean_absolute_skewness(kept)
    warned = len({column for diagnostic in learner.report_.diagnostics for column in diagnostic.columns})
    facts = {
        "rows": len(before),
        "units": len(names),
        "units_dropped": dropped,
        "training_accuracy": accuracy,
        "share_floored": share,
        "mean_absolute_skewness": skewness,
        "units_with_warnings": warned,
        "errors": errors,
        "seconds": {name: round(value, 6) for name, value in seconds.items()},
        "seed": seed,
    }
    shown: list[str | Table] = [
        f"A network with one hidden layer was trained on {len(before):,} images of digits"
        f" (training accuracy {accuracy:.1%}).",
        f"Seen: the ReLU activations of {len(names)} units, {share:.1%} of them 0.",
        *([f"Left out, as never above 0 or constant: {', '.join(dropped)}."] if dropped else []),
        "Estimated: the moments of the pre-activations. Those of the pre-activations themselves are the truth here.",
        digits.comparison_table(errors, seconds),
        "Errors of mean and std are in units of each unit's true standard deviation.",
        f"The pre-activations are not exactly normal (mean absolute skewness {skewness:.2f}).",
        *([f"unrelu fit warns of it ({warned} units)."] if warned else []),
    ]
    return job.answer(facts, shown, [f"Next: unrelu info {model_path}"])


@command
def reproduce(
    name: Annotated[str, typer.Argument(help=f"{NAMES}.", metavar="NAME")],
    quick: Annotated[bool, "Fewer runs and points: two minutes instead of thirty."] = False,
    output: Annotated[Path, options.output("The folder to write to, created if missing.")] = Path("unrelu-reproduce"),
    seed: Annotated[int, "Seed of all random draws.", {"min": 0, "max": 2**63 - 1}] = 0,
) -> Answer | None:
    """Run an experiment of the papers again, and check its claims.

    Writes a csv file of every run, a picture laid out like the paper's with our method beside, and a checklist of the
    paper's claims, each held or not held under every reading of what the paper leaves open. If interrupted, the same
    command goes on where it stopped.
    """
    from unrelu.papers.experiments import find_experiment
    from unrelu.papers.runner import Journal
    from unrelu.papers.runner import reproduce as run
    from unrelu.papers.study import Study
    from unrelu.report.trying import reproduction_picture
    from unrelu.validation import warn

    study = Study(find_experiment(name), quick, seed)
    outputs = {
        "csv": Output(output / f"{study.stem}.csv", "Results", "kept"),
        "checklist": Output(output / f"{study.stem}-checklist.md", "Checklist", "kept"),
        "picture": Output(output / f"{study.stem}.png", "Picture", "spare picture"),
    }
    with output_folder(output):
        job = Job(outputs)
        journal = Journal(study, output)
        if journal.set_aside is not None:
            warn(journal.set_aside, "set-aside")
        try:
            with job.progress() as progress:
                results, readings = run(study, journal, progress)
        except KeyboardInterrupt as stop:
            kept = f"{len(journal)} of {sum(1 for _ in study.trials())} trials are finished"
            where = f" and kept in {journal.csv_path}" if len(journal) else ""
            given = ["--quick"] * quick + (["--seed", str(seed)] if seed else [])
            again = shlex.join(["unrelu", "reproduce", study.experiment.name, *given, "--output", str(output)])
            stop.add_note(f"{kept}{where}. To go on: {again}")
            raise
        job.write(picture=lambda: reproduction_picture(study, results))
    return _answer(job, study, readings, journal)


def _answer(job: Job, study: Study, readings: tuple[Reading, ...], journal: Journal) -> Answer | None:
    from unrelu.notebook import Table

    found = []
    for reading in readings:
        claims = [
            {
                "claim": claim.says,
                "where": claim.where,
                "held": claim.held,
                "why": None if claim.held else claim.otherwise or None,
                "rule": claim.rule,
                "parts": [{"held": held, "numbers": numbers} for held, numbers in claim.parts],
            }
            for claim in reading.claims
        ]
        found.append({"name": reading.name, "says": reading.says, "claims_held": reading.held, "claims": claims})
    facts = {
        "name": study.experiment.name,
        "quick": study.quick,
        "seed": study.seed,
        "settings": journal.settings_path,
        "runs": study.runs,
        "trials": len(journal),
        "trials_found": journal.found,
        "readings": found,
    }
    resumed = f", {journal.found} more were finished before" if journal.found else ""
    lines = [
        (claims[0].says, *(claim.word for claim in claims))
        for claims in zip(*(reading.claims for reading in readings), strict=True)
    ]
    shown: list[str | Table] = [
        f"{study.experiment.name}: {len(journal) - journal.found} trials in {job.seconds:.0f} s{resumed}.",
        Table(("the paper's claim, in our words", *(reading.name for reading in readings)), lines),
        *(f"{reading.summary}. {reading.says}" for reading in readings),
        "The checklist has the rules and numbers, and why claims do not hold.",
    ]
    return job.answer(facts, shown)
