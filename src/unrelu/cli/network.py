"""``unrelu network``: which columns of a table are tied directly."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import InvalidParameterError

if TYPE_CHECKING:
    from unrelu.contracts import Watch
    from unrelu.estimators import RectifiedGaussianNetwork


@command()
def network(
    paths: Annotated[
        list[str],
        options.tables(
            "Tables", " Or one file of unrelu fit --record --stderr jackknife, or of unrelu merge --record."
        ),
    ],
    selection: Annotated[
        str,
        "Which edges to take: likely (pairs more likely tied than not), ebic (least extended BIC), auto (that"
        " one of these which halves of the rows agree on), stars (those that subsets of the rows agree on), fdr"
        " (false discovery rate of 10 %, for many more rows than columns), or a penalty from 0 to 1.",
        {"metavar": "WAY|NUMBER"},
    ] = "auto",
    groups: Annotated[str | None, "The column of labels whose rows belong together.", {"metavar": "COLUMN"}] = None,
    fitting: options.FittingWithoutComponents = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[
        Path,
        options.output("One line per edge: csv, tsv (also gzipped), parquet, feather or arrow; or a .graphml file."),
    ] = Path("edges.csv"),
    saved: Annotated[
        Path | None, options.option("Also save all that was learned: unrelu.load reads it.", "--save")
    ] = None,
    picture: Annotated[Path | None, options.picture("the network")] = None,
    path_picture: Annotated[Path | None, options.picture("how it was chosen")] = None,
    seed: Annotated[int, "Seed of the subsets of the rows, and of the methods that draw.", {"min": 0}] = 0,
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
    wanted: str | float = selection
    with suppress(ValueError):
        wanted = float(selection)
    if path_picture is not None and wanted == "fdr":
        raise InvalidParameterError("--path-picture has nothing to draw: --selection fdr takes no path.")
    from unrelu.cli.inputs import opened
    from unrelu.estimators import RectifiedGaussianNetwork
    from unrelu.graph.exporting import networkx_module, write_edges
    from unrelu.report import network as drawing

    if picture is not None:
        networkx_module()
    with job.fitting() as watch:
        found = _of_record(paths, wanted, seed, fitting, watch)
        if found is None:
            parameters = fitting.parameters(seed)
            del parameters["n_components"]
            rows = job.reads(opened(paths, reading.without(groups), fitting.floor))
            found = RectifiedGaussianNetwork(wanted, **parameters).watched_by(watch).fit(rows, groups=groups)
    edges, names = drawing.labelled_edges(found)
    path = found.path_
    job.write(
        output=lambda target: write_edges(target, edges, names),
        network=found.save,
        picture=lambda: drawing.network_picture(edges, names),
        path_picture=lambda: drawing.path_picture(path) if path is not None else None,
    )
    return job.answer(drawing.network_facts(found), drawing.network_shown(found, job.seconds), fitted=found)


def _of_record(
    paths: list[str], selection: str | float, seed: int, fitting: options.FitOptions, watch: Watch
) -> RectifiedGaussianNetwork | None:
    """The network of a file that holds a learner; None where the files are tables."""
    from unrelu.storage import load
    from unrelu.storage.archives import stated_format

    if len(paths) != 1 or not Path(paths[0]).is_file() or not (stated_format(paths[0]) or "").startswith("unrelu."):
        return None
    from unrelu.estimators import RectifiedGaussianNetwork
    from unrelu.estimators.fitted import FittedModel

    fitting.refuse_with(Path(paths[0]))
    content = load(paths[0])
    if not isinstance(content, FittedModel):
        raise InvalidParameterError(
            f"{paths[0]} holds a {type(content).__name__}, which knows no errors: give a table, or what unrelu fit"
            " --record wrote."
        )
    return RectifiedGaussianNetwork.from_learned(content.watched_by(watch), selection, random_state=seed)
