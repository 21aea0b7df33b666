"""``unrelu network``: which columns of a table are tied directly."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import DoubtfulTableWarning, InvalidParameterError

if TYPE_CHECKING:
    from unrelu.contracts import Watch
    from unrelu.estimators import RectifiedGaussianNetwork


@command({"selection must be": "--selection must be"})
def network(
    paths: Annotated[
        list[str],
        options.tables(
            "Tables", " Or one file of unrelu fit --record --stderr jackknife, or of unrelu merge --record."
        ),
    ],
    selection: Annotated[
        str,
        typer.Option(
            "--selection",
            metavar="WAY|NUMBER",
            help="Which edges to take: likely (pairs more likely tied than not), ebic (least extended BIC), auto (that"
            " one of these which halves of the rows agree on), stars (those that subsets of the rows agree on), fdr"
            " (false discovery rate of 10 %, for many more rows than columns), or a penalty from 0 to 1.",
        ),
    ] = "auto",
    method: options.MethodOption = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", metavar="COLUMN", help="The column of labels whose rows belong together."),
    ] = None,
    floor: options.OtherFloorOption = None,
    ceiling: options.CeilingOption = None,
    shape: options.ShapeOption = None,
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[
        Path,
        options.output_option(
            "One line per edge: csv, tsv (also gzipped), parquet, feather or arrow; or a .graphml file."
        ),
    ] = Path("edges.csv"),
    saved: Annotated[
        Path | None, typer.Option("--save", help="Also save all that was learned: unrelu.load reads it.")
    ] = None,
    picture: Annotated[Path | None, options.picture_option("the network")] = None,
    path_picture: Annotated[
        Path | None, typer.Option("--path-picture", help="Also draw how it was chosen: a png, svg or pdf file.")
    ] = None,
    seed: Annotated[int, options.seed_option("Seed of the subsets of the rows, and of the methods that draw.")] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Find which columns are tied directly: partial correlations, given all other columns, behind the floor.

    The graph is chosen without cross-validation, refitted without a penalty, and written with standard errors.
    """
    job = Job(
        Output("output", output, "Edges", "edges"),
        Output("network", saved, "Network"),
        Output("picture", picture, "Picture", "picture"),
        Output("path_picture", path_picture, "Picture of the path", "picture"),
        tables=paths,
    )
    wanted = _selection(selection)
    if path_picture is not None and wanted == "fdr":
        raise InvalidParameterError("path_picture= has nothing to draw: selection='fdr' takes no path.")
    if picture is not None:
        from unrelu.networks.exporting import networkx_module

        networkx_module()
    fitting = options.Fitting(method, None, floor, ceiling, shape, floor_tolerance, seed)
    with job.watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # the answer has them in one table
        found = _of_record(paths, wanted, seed, fitting, watch)
        if found is None:
            given = {name: value for name, value in fitting.parameters().items() if name != "n_components"}
            found = _of_tables(job, paths, (reading, floor, groups), {"selection": wanted, **given}, watch)
    return _answer(job, found)


def _answer(job: Job, found: RectifiedGaussianNetwork) -> Answer | None:
    from unrelu.cli.wording import one_line
    from unrelu.networks.exporting import write_edges
    from unrelu.report.network_picture import network_picture, path_picture
    from unrelu.report.network_summary import labelled_edges, network_facts, network_shown
    from unrelu.report.tables import doubts_shown

    edges, names = labelled_edges(found)
    path = found.path_
    job.write(
        output=lambda target: write_edges(target, edges, names),
        network=found.save,
        picture=lambda: network_picture(edges, names),
        path_picture=lambda: path_picture(path) if path is not None else None,
    )
    first, *others = network_shown(found, job.seconds)
    return job.answer(network_facts(found), [first, *doubts_shown(found.report_, names, one_line), *others])


def _selection(text: str) -> str | float:
    """A word, or a number."""
    try:
        return float(text)
    except ValueError:
        return text


def _of_record(
    paths: list[str], selection: str | float, seed: int, fitting: options.Fitting, watch: Watch
) -> RectifiedGaussianNetwork | None:
    """The network of a file that holds a learner; None where the files are tables."""
    from unrelu.storage import load
    from unrelu.storage.archives import stated_format

    if len(paths) != 1 or not Path(paths[0]).is_file() or not (stated_format(paths[0]) or "").startswith("unrelu."):
        return None
    from unrelu.estimators import RectifiedGaussianLearner, RectifiedGaussianNetwork

    fitting.refuse_with(Path(paths[0]))
    content = load(paths[0])
    if not isinstance(content, RectifiedGaussianLearner):
        raise InvalidParameterError(
            f"{paths[0]} holds a {type(content).__name__}, which knows no errors: give a table, or what unrelu fit"
            " --record wrote."
        )
    return RectifiedGaussianNetwork.from_learned(content.watched_by(watch), selection, random_state=seed)


def _of_tables(
    job: Job, paths: list[str], table: tuple[Any, ...], parameters: dict[str, Any], watch: Watch
) -> RectifiedGaussianNetwork:
    from dataclasses import replace

    from unrelu.cli.inputs import opened
    from unrelu.estimators import RectifiedGaussianNetwork

    reading, floor, groups = table
    # A column of labels may be text, which no table of features holds.
    labels = [groups] if groups is not None and groups not in reading.columns else []
    rows = job.reads(opened(paths, replace(reading, drop=[*reading.drop, *labels]), floor))
    return RectifiedGaussianNetwork(**parameters).watched_by(watch).fit(rows, groups=groups)
