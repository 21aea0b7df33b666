"""See how a table is understood: ``unrelu read``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from unrelu.cli import options
from unrelu.cli.frame import Answer, Job, command
from unrelu.errors import InvalidParameterError

_READING = ("columns", "drop", "header", "decimal", "limits", "nondetect", "sheet")


@command
def read(
    job: Job,
    paths: options.Tables,
    flags: Annotated[
        list[str] | None,
        "Codes of flags, as K=censored,L=above. Of codes that are not known: censored, above, seen or missing.",
        {"metavar": "CODES"},
    ] = None,
    duplicates: Annotated[
        str | None,
        "Two values of one sample and analyte: mean or first. Or the column that tells replicates apart.",
        {"metavar": "HOW"},
    ] = None,
    sample: Annotated[
        list[str] | None, "Columns that name the sample, in a table with a row for each value.", {"metavar": "NAMES"}
    ] = None,
    reading: Annotated[options.TableOptions, _READING] = options.EVERYTHING,
    output: Annotated[Path | None, options.output("Also write a clean table.", "Clean table", "columns")] = None,
) -> Answer | None:
    """Show how a table was understood: columns, limits, flags, and the share of censored cells.

    Flags beside the values, columns of limits, ends of intervals, a row for each value, units below the header, titles
    above it and half-limits are recognized. A clean table has a row for each sample, and "<0.5" for a value below 0.5.
    """
    from unrelu.tables import read_table

    pairs = [item.rpartition("=") for item in options.listed_items(flags)]
    if wrong := [word for code, _, word in pairs if not code]:
        raise InvalidParameterError(f"--flags: {wrong[0]!r} says of no code what it means. Write K=censored.")
    given = {name: getattr(reading, name) for name in _READING}
    table = read_table(
        job.paths,
        flags={code: word for code, _, word in pairs},
        duplicates=duplicates,
        sample=options.listed_items(sample),
        **given,
    )
    facts = table.facts
    job.write(output=table.write)
    columns = [
        {
            "name": each.name,
            "limits": sorted(each.below),
            "upper_limits": sorted(each.above),
            "censored": each.share_censored,
            "missing": each.n_missing,
        }
        for each in facts
    ]
    found = {"rows": facts[0].n_rows, "columns": columns, "labels": list(table.labels), "notes": table.notes}
    return job.answer(found, [table.headline(facts[0].n_rows), *table.notes, table.table()])
