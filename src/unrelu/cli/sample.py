"""``unrelu sample`` and ``unrelu simulate``: rows drawn from a model, or from a random one, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output, rows_output
from unrelu.cli.outcome import Answer, command

if TYPE_CHECKING:
    import numpy as np

    from unrelu.cli.inputs import RowSource
    from unrelu.contracts import FloatArray, Watch
    from unrelu.synthetic import Floats


class Bias(StrEnum):
    signed = "signed"
    nonnegative = "nonnegative"


@command()
def sample(
    model: Annotated[
        Path, typer.Argument(help="A model file, layers of unrelu peel, or a saved learner.", metavar="MODEL")
    ],
    rows: Annotated[int, options.option("Number of rows to draw.", "--rows", "-n", min=1)] = 1000,
    beyond_range: Annotated[
        bool,
        "With columns that have a shape: let values leave the range of the table learned from, and whole"
        " numbers have fractions.",
    ] = False,
    output: options.Rows = "-",
    seed: options.Seed = None,
    as_json: options.Json = False,
) -> Answer | None:
    """Draw rows from a model, with exact zeros (floors) where a value falls below its floor.

    A model that was fitted with --shape gives a synthetic table: the same margins, zeros and dependence. Values stay in
    the range seen, and whole numbers whole. Of a file of layers: rows of the network; columns whose weights its table
    did not determine are empty.
    """
    job = Job(rows_output(output, as_json), files=[model])
    from unrelu.cli.inputs import source_in
    from unrelu.parameters import generator
    from unrelu.tables import write_table
    from unrelu.validation import counted

    source = source_in(model, as_seen=not beyond_range)
    source.warn_of_unknown()
    with job.watch() as watch:
        blocks = _drawn_blocks(source, rows, generator(seed), watch)
        job.write(output=lambda path: write_table(path, blocks, source.feature_names))
    facts = {"model": model, "rows": rows, "columns": source.n_features, "seed": seed}
    return job.answer(facts, [f"{counted(rows, 'row')} of {counted(source.n_features, 'column')} written to {output}"])


@command(
    {
        "k": "--components",
        "condition_number": "--condition-number",
        "at most d = ": "at most ",
        "use k > 1": "ask for more --components",
    }
)
def simulate(
    *,
    rows: Annotated[int, options.option("Number of rows.", "--rows", "-n", min=1)],
    columns: Annotated[int, options.option("Number of columns.", "--columns", "-d", min=1)],
    components: Annotated[
        int | None, options.option("Latent inputs; as many as columns by default.", "--components", "-k", min=1)
    ] = None,
    condition_number: Annotated[
        float | None, "Of the covariance; 10 by default, 1 with one component.", {"min": 1.0}
    ] = None,
    bias: Annotated[Bias, "Signs of the biases."] = Bias.nonnegative,
    outliers: Annotated[float, "Share of rows replaced by outliers around 5.", {"min": 0.0, "max": 0.999}] = 0.0,
    output: options.Rows,
    truth: Annotated[Path | None, "Also write the true model to this file."] = None,
    seed: options.Seed = None,
    as_json: options.Json = False,
) -> Answer | None:
    """Write rows of a random model x = ReLU(W z + b), and on request the true model beside them."""
    job = Job(rows_output(output, as_json), Output("truth", truth, "True model"))
    import numpy as np

    from unrelu.cli.inputs import RowSource
    from unrelu.synthetic import random_model
    from unrelu.tables import write_table
    from unrelu.validation import counted

    # Independent streams for model, rows and outliers: more outliers do not change the other rows.
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3)]
    if condition_number is None:
        condition_number = 1.0 if 1 in (columns, components) else 10.0
    law = random_model(columns, components, condition_number, bias.value, streams[0])
    facts: dict[str, Any] = {
        "rows": rows,
        "columns": columns,
        "components": columns if components is None else components,
        "condition_number": condition_number,
        "bias": bias.value,
        "outlier_rows": round(outliers * rows),
        "seed": seed,
    }
    with job.watch() as watch:
        blocks = contaminated(_drawn_blocks(RowSource.of_law(law), rows, streams[1], watch), outliers, streams[2])
        job.write(
            output=lambda path: write_table(path, blocks), truth=lambda path: law.save(path, {"simulated": facts})
        )
    dirty = f", {facts['outlier_rows']:,} of them outliers," if facts["outlier_rows"] else ""
    return job.answer(facts, [f"{counted(rows, 'row')}{dirty} of {counted(columns, 'column')} written to {output}"])


def _drawn_blocks(source: RowSource, rows: int, rng: np.random.Generator, watch: Watch) -> Iterator[FloatArray]:
    """Rows in blocks; one generator runs through them, so that their size does not change the rows."""
    from unrelu.contracts import Step
    from unrelu.tables import rows_per_block

    size = rows_per_block(None, source.n_features)
    for first in range(0, rows, size):
        watch(Step("Drawing rows", first, rows, f"{first:,} rows"))
        yield source.draw(min(size, rows - first), rng)


def contaminated(blocks: Iterable[Floats], fraction: float, rng: np.random.Generator) -> Iterator[Floats]:
    """The blocks with ``round(fraction * n)`` of all n rows replaced by N(5, 1) outliers, at least 0."""
    import numpy as np

    from unrelu.synthetic import contaminate

    def outliers(count: int, draws: np.random.Generator) -> Floats:
        return np.maximum(draws.normal(5.0, 1.0, (count, width)), 0.0)  # never below the floor

    done = replaced = 0
    for block in blocks:
        width = block.shape[1]
        done += len(block)
        # The total is rounded, not each block: a small fraction of many blocks must not vanish.
        count = round(fraction * done) - replaced
        replaced += count
        yield contaminate(block, count / len(block), outliers, rng, fixed=True)[0] if count else block
