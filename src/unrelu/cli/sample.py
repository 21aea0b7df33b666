"""``unrelu sample``: rows drawn from a model, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrelu.cli.frame import Job, rows_output
from unrelu.cli.options import JsonOption, RowsOption, SeedOption
from unrelu.cli.outcome import Answer, command

if TYPE_CHECKING:
    import numpy as np

    from unrelu.cli.inputs import RowSource
    from unrelu.contracts import FloatArray, Watch


@command()
def sample(
    model: Annotated[
        Path, typer.Argument(help="A model file, layers of unrelu peel, or a saved learner.", metavar="MODEL")
    ],
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Number of rows to draw.")] = 1000,
    beyond_range: Annotated[
        bool,
        typer.Option(
            "--beyond-range",
            help="With columns that have a shape: let values leave the range of the table learned from, and whole"
            " numbers have fractions.",
        ),
    ] = False,
    output: RowsOption = "-",
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> Answer | None:
    """Draw rows from a model, with exact zeros (floors) where a value falls below its floor.

    A model that was fitted with --shape gives a synthetic table: the same margins, zeros and dependence. Values stay in
    the range seen, and whole numbers whole. Of a file of layers: rows of the network; columns whose weights its table
    did not determine are empty.
    """
    job = Job(rows_output(output, as_json), files=[model])
    from unrelu.cli.inputs import source_in
    from unrelu.parameters import generator
    from unrelu.samples import write_table
    from unrelu.validation import counted

    source = source_in(model, as_seen=not beyond_range)
    source.warn_of_unknown()
    with job.watch() as watch:
        blocks = drawn_blocks(source, rows, generator(seed), watch)
        job.write(output=lambda path: write_table(path, blocks, source.feature_names))
    facts = {"model": model, "rows": rows, "columns": source.n_features, "seed": seed}
    return job.answer(facts, [f"{counted(rows, 'row')} of {counted(source.n_features, 'column')} written to {output}"])


def drawn_blocks(source: RowSource, rows: int, rng: np.random.Generator, watch: Watch) -> Iterator[FloatArray]:
    """Rows in blocks; one generator runs through them, so that their size does not change the rows."""
    from unrelu.contracts import Step
    from unrelu.samples import rows_per_block

    size = rows_per_block(None, source.n_features)
    for first in range(0, rows, size):
        watch(Step("Drawing rows", first, rows, f"{first:,} rows"))
        yield source.draw(min(size, rows - first), rng)
