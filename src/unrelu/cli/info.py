"""``unrelu info``: what is in a file that unrelu wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.outcome import Answer, command
from unrelu.errors import InvalidParameterError


@command()
def info(
    file: Annotated[
        Path,
        typer.Argument(
            help="Any file that unrelu wrote: a model, factors, layers, a state, an estimator.", metavar="FILE"
        ),
    ],
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="PATHS",
            help="Also the log-likelihood, AIC and BIC of a model on the rows of this table: compare models by them.",
        ),
    ] = None,
    reading: options.TableOptions = options.EVERYTHING,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer:
    """Show what is in a file: of a model its columns, bias, norms, correlations, and how it was learned.

    Of a factors file: the components, and how they were recovered. Of a saved state: how far it has come. Of a file of
    layers: how each was found, and the innermost units. Of any other: its parameters and its report.
    """
    if reading != options.EVERYTHING and not table:
        raise InvalidParameterError("How to read a table is said, but there is none: give it with --table.")
    from unrelu import storage
    from unrelu.report.contents import contents
    from unrelu.report.likelihood import likelihood_words

    content, header = storage.load(file), storage.stated_header(file)
    facts, shown = contents(content, header, file)
    if not table:
        return Answer(facts, shown)
    found = _likelihood(content, header, file, table, reading)
    words = f"Log-likelihood of {', '.join(table)}: {likelihood_words(found)}."
    return Answer({**facts, "table": table, "likelihood": found}, [*shown, words])


def _likelihood(
    content: Any, header: Any, file: Path, paths: list[str], reading: options.TableOptions
) -> dict[str, Any]:
    """Of the rows of a table under the law in a file, or under its mixture of laws."""
    from unrelu.cli.inputs import knowing, law_in, matched_table
    from unrelu.estimators import RectifiedGaussianMixture
    from unrelu.report.likelihood import density_facts

    if isinstance(content, RectifiedGaussianMixture):
        names = getattr(content, "feature_names_in_", None)
        named = None if names is None else names.tolist()
        rows, _ = matched_table(file, named, content.n_features_in_, paths, reading)
        return density_facts(content.score_samples(rows), content.n_parameters_)
    law, details = law_in(file), header.get("details")
    rows, at = matched_table(file, law.feature_names, law.n_features, paths, reading)
    details = details if isinstance(details, dict) else {}
    report = getattr(content, "report_", details.get("report"))
    found = report.get("n_components") if isinstance(report, dict) else getattr(report, "n_components", None)
    rank = found or getattr(content, "n_components", details.get("n_components"))
    model = knowing(law.marginal(at), rows, getattr(content, "floor_tolerance", 0.0))
    if isinstance(rank, int) and rank <= len(at):
        model.set_params(n_components=rank)
    return density_facts(model.score_samples(rows), model.n_parameters_)
