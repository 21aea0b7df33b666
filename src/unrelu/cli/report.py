"""``unrelu report``: one page about a table, for a browser."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import DoubtfulTableWarning, OutputError

if TYPE_CHECKING:
    from unrelu.contracts import Samples, Watch
    from unrelu.report.page.making import Asked

_KINDS = (".html", ".htm")


@command({"must be None or between": "must be between"})
def report(
    paths: options.Tables,
    model: options.ModelOption = None,
    components: options.ComponentsOption = None,
    method: options.MethodOption = None,
    simulations: Annotated[
        int | None,
        typer.Option(
            "--simulations",
            min=0,
            help="Tables simulated to check the fit, 19 or more, 0 for no check; by default as many as the number"
            " of columns allows.",
        ),
    ] = None,
    floor: options.OtherFloorOption = None,
    ceiling: options.CeilingOption = None,
    shape: options.ShapeOption = None,
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output_option("The page to write.")] = Path("report.html"),
    seed: Annotated[
        int, options.seed_option("Seed of the fit, of the rows looked at and of the simulated tables.")
    ] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Make one page about a table: what is under its floor, whether the model fits, which rows are odd.

    The page is one file for a browser, works without a network, and holds names, numbers and a sample of rows. Needs
    the extra: pip install "unrelu[report]".
    """
    if output.suffix.lower() not in _KINDS:
        raise OutputError(f"{output}: a report is a page for a browser: give a name that ends in .html.")
    job = Job(Output("output", output, "Report"), tables=paths, files=[model])
    from unrelu.report.page.writing import check_report

    check_report()
    fitting = options.Fitting(method, components, floor, ceiling, shape, floor_tolerance, seed)
    from unrelu.cli.inputs import ids_of
    from unrelu.cli.wording import one_line
    from unrelu.report.page.making import Order
    from unrelu.report.page.writing import write_report

    made: dict[str, Any] = {}
    with job.watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # the page has them
        asked, table = _asked(paths, model, reading, fitting, watch)
        order = Order(
            title=Path(paths[0]).name if len(paths) == 1 else f"{Path(paths[0]).name} and {len(paths) - 1} more",
            command=shlex.join(["unrelu", *sys.argv[1:]]),
            n_simulations=simulations,
            seed=seed,
            ids=ids_of(job.reads(table)),
            words=one_line,
            watch=watch,
        )
        job.write(output=lambda path: made.update(write_report(path, asked, order)))
    return job.answer({"model": model, **_facts(made, output)}, _shown(made, output, job.seconds))


def _asked(
    paths: list[str], model: Path | None, reading: options.TableOptions, fitting: options.Fitting, watch: Watch
) -> tuple[Asked, Samples]:
    """Who answers for the page, a fit to the table or a model from a file, and the table."""
    from unrelu.cli.inputs import asked, opened
    from unrelu.estimators import RectifiedGaussianLearner
    from unrelu.report.page.making import Asked

    if model is None:
        table = opened(paths, reading, fitting.floor)
        learner = RectifiedGaussianLearner(**fitting.parameters()).watched_by(watch).fit(table)
        return Asked.of(learner, table), table
    imputer, table = asked(paths, model, reading, fitting, watch)
    return Asked(imputer.distribution_, None, table, fitting.floor_tolerance, imputer), table


def _facts(made: dict[str, Any], output: Path) -> dict[str, Any]:
    """What --json tells: the page has the rest."""
    check, odd = made["check"] or {}, made["odd"] or {}
    return {
        "bytes": output.stat().st_size,
        "table": made["table"],
        "fits": check.get("fits"),
        "verdict": check.get("verdict"),
        "flagged_rows": odd.get("flagged"),
        "doubts": made["doubts"],
        "left_out": made["left_out"],
    }


def _shown(made: dict[str, Any], output: Path, seconds: float) -> list[str]:
    from unrelu.report.page.writing import percent
    from unrelu.validation import counted

    table, check, odd = made["table"], made["check"], made["odd"]
    left_out = [f"Left out: {'; '.join(made['left_out'])}."] if made["left_out"] else []
    doubts = [f"Doubtful: {', '.join(doubt['kind'] for doubt in made['doubts'])}."] if made["doubts"] else []
    return [
        f"A page of {output.stat().st_size / 1e6:.1f} MB about {counted(table['n_rows'], 'row')} of"
        f" {counted(table['n_columns'], 'column')}, {percent(table['share_floored'])} of the cells at their floor, in"
        f" {seconds:.2f} s.",
        *([check["verdict"]] if check else []),
        *doubts,
        *([f"Flagged {counted(odd['flagged'], 'row')} as strange."] if odd else []),
        *left_out,
    ]
