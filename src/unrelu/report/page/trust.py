"""Can the model be trusted: the check of its fit in a sentence, where it fits worst, and what was doubtful."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from unrelu.checks.fit_check import Simulations
from unrelu.checks.result import FitCheck
from unrelu.contracts import LearningReport
from unrelu.errors import UnreluError
from unrelu.report.check_summary import check_facts
from unrelu.validation import listed

MOST_COLUMNS = 500  # a check learns every simulated table anew
_WORST = 6
_SIMULATIONS = ((40, 99), (150, 39), (MOST_COLUMNS, 19))  # tables that are simulated for so many columns


def simulations(n_features: int, wanted: int | None) -> int:
    """How many tables to simulate: fewer for wide ones, none for those that would take minutes.

    >>> simulations(20, None), simulations(400, None), simulations(2000, None), simulations(2000, 39)
    (99, 19, 0, 39)
    """
    if wanted is not None:
        if wanted != 0:
            Simulations(wanted)  # which refuses what is too few
        return wanted
    return next((number for most, number in _SIMULATIONS if n_features <= most), 0)


def check_told(check: Callable[[], FitCheck], words: Callable[[str], str]) -> dict[str, Any]:
    """The check's verdict and its worst columns and pairs, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the check says it in its own way
            found = check()
    except UnreluError as reason:
        return {"verdict": words(f"Whether the model fits was not checked: {reason}"), "fits": None}
    facts = check_facts(found)
    columns = {found.names[j]: facts["columns"][j] for j in found.worst_columns(_WORST)}
    return {
        "verdict": words(found.verdict),
        "fits": found.fits,
        "p_value": found.p_value,
        "n_simulations": found.n_simulations,
        "n_looked_at": found.n_looked_at,
        "column_adjusted_p_values": found.column_adjusted,
        "worst_columns": list(columns.values()),
        "worst_pairs": facts["worst_pairs"][:_WORST],
    }


def doubt_facts(
    report: LearningReport | None, names: Sequence[str], words: Callable[[str], str]
) -> list[dict[str, str]]:
    """The doubts of a fit: kind, columns, and what to do."""
    found = []
    for doubt in () if report is None else report.doubts:
        text = words(f"{doubt.words[0].upper()}{doubt.words[1:]} {doubt.remedy}")
        found.append({"kind": doubt.kind, "columns": listed([names[j][:60] for j in doubt.columns], 8), "text": text})
    return found
