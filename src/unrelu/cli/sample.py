"""``unrelu sample``: rows drawn from a model, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrelu.cli.options import JsonOption, SeedOption
from unrelu.cli.outcome import Answer, counted, standard_output

if TYPE_CHECKING:
    import numpy as np

    from unrelu.contracts import FloatArray
    from unrelu.distribution import RectifiedGaussian


def sample(
    model: Annotated[Path, typer.Argument(help="A model file.", metavar="MODEL")],
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Number of rows to draw.")] = 1000,
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="The table to write, its kind by extension; - is csv on stdout."),
    ] = "-",
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> Answer | None:
    """Draw rows from a model, with exact zeros (floors) where a value falls below its floor."""
    from unrelu.cli.outputs import check_outputs, goes_to_stdout
    from unrelu.cli.progress import meter
    from unrelu.distribution import RectifiedGaussian, generator
    from unrelu.samples import write_table

    to_stdout = goes_to_stdout(output, as_json)
    if not to_stdout:
        check_outputs([Path(output)], [model])
    law = RectifiedGaussian.load(model)
    with meter(hidden=to_stdout) as shown:
        shown.stage("Drawing rows", rows)
        blocks = drawn_blocks(law, rows, generator(seed), shown.advance)
        if to_stdout:
            with standard_output():
                write_table("-", blocks, law.feature_names)
            return None
        write_table(output, blocks, law.feature_names)
    facts = {"model": model, "output": output, "rows": rows, "columns": law.n_features, "seed": seed}
    return Answer(facts, [f"{counted(rows, 'row')} of {counted(law.n_features, 'column')} written to {output}"])


def drawn_blocks(
    law: RectifiedGaussian, rows: int, rng: np.random.Generator, progress: Callable[[int], None]
) -> Iterator[FloatArray]:
    """Rows in blocks; one generator runs through them, so that their size does not change the rows."""
    from unrelu.samples import rows_per_block

    size = rows_per_block(None, law.n_features)
    for first in range(0, rows, size):
        block = law.sample(min(size, rows - first), rng)
        progress(len(block))
        yield block
