"""``unrelu simulate``: a random true model and rows of it, with or without outliers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli.frame import Job, Output, rows_output
from unrelu.cli.options import JsonOption, RowsOption, SeedOption
from unrelu.cli.outcome import Answer, command
from unrelu.cli.sample import drawn_blocks

if TYPE_CHECKING:
    import numpy as np

    from unrelu.synthetic import Floats


class Bias(StrEnum):
    signed = "signed"
    nonnegative = "nonnegative"


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
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Number of rows.")],
    columns: Annotated[int, typer.Option("--columns", "-d", min=1, help="Number of columns.")],
    components: Annotated[
        int | None,
        typer.Option("--components", "-k", min=1, help="Latent inputs; as many as columns by default."),
    ] = None,
    condition_number: Annotated[
        float | None,
        typer.Option("--condition-number", min=1.0, help="Of the covariance; 10 by default, 1 with one component."),
    ] = None,
    bias: Annotated[Bias, typer.Option("--bias", help="Signs of the biases.")] = Bias.nonnegative,
    outliers: Annotated[
        float,
        typer.Option("--outliers", min=0.0, max=0.999, help="Share of rows replaced by outliers around 5."),
    ] = 0.0,
    output: RowsOption,
    truth: Annotated[Path | None, typer.Option("--truth", help="Also write the true model to this file.")] = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> Answer | None:
    """Write rows of a random model x = ReLU(W z + b), and on request the true model beside them."""
    job = Job(rows_output(output, as_json), Output("truth", truth, "True model"))
    from unrelu.cli.inputs import RowSource
    from unrelu.samples import write_table
    from unrelu.synthetic import random_model
    from unrelu.validation import counted

    model_rng, rows_rng, outliers_rng = _streams(seed)
    if condition_number is None:
        condition_number = 1.0 if 1 in (columns, components) else 10.0
    law = random_model(columns, components, condition_number, bias.value, model_rng)
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
        blocks = contaminated(drawn_blocks(RowSource.of_law(law), rows, rows_rng, watch), outliers, outliers_rng)
        job.write(
            output=lambda path: write_table(path, blocks), truth=lambda path: law.save(path, {"simulated": facts})
        )
    dirty = f", {facts['outlier_rows']:,} of them outliers," if facts["outlier_rows"] else ""
    return job.answer(facts, [f"{counted(rows, 'row')}{dirty} of {counted(columns, 'column')} written to {output}"])


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


def _streams(seed: int | None) -> list[np.random.Generator]:
    """Independent streams for model, rows and outliers: more outliers do not change the other rows."""
    import numpy as np

    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3)]
