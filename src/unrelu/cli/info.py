"""``unrelu info``: what is in a file that unrelu wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrelu.cli.options import JsonOption
from unrelu.cli.outcome import Answer, command


@command()
def info(
    file: Annotated[
        Path,
        typer.Argument(
            help="Any file that unrelu wrote: a model, factors, layers, a state, an estimator.", metavar="FILE"
        ),
    ],
    as_json: JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer:
    """Show what is in a file: of a model its columns, bias, norms, correlations, and how it was learned.

    Of a factors file: the components, and how they were recovered. Of a saved state: how far it has come. Of a file of
    layers: how each was found, and the innermost units. Of any other: its parameters and its report.
    """
    from unrelu import storage
    from unrelu.report.contents import contents

    content = storage.load(file)
    facts, shown = contents(content, storage.stated_header(file), file)
    return Answer(facts, shown)
