"""A recovered matrix in plain numbers and tables: its components, the numbers tried, how the recovery went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from unrelu.contracts import FloatArray
from unrelu.estimators.matrix import ReLUMatrixRecovery
from unrelu.recovery.matrix.matrix import MatrixReport
from unrelu.report.summaries import shape_words
from unrelu.report.tables import fact_table, new_table
from unrelu.samples.columns import names_or_numbers
from unrelu.validation import listed

_MOST_COMPONENTS = 20
# T = C A' + 1 b' tells C, A and b only up to a shift of C that b takes back: the gauge says which of them is meant.
_GAUGES = {
    "centered": "latent vectors have mean 0, the bias is T's column mean",
    "orthogonal": "the bias is orthogonal to the components",
    "bayes": "between centered and orthogonal",
    "zero": "there is no bias",
}
_WEAK = "too seldom above the floor to be determined: filled in, a guess"


@dataclass(frozen=True)
class Loading:
    """A column's part in a component."""

    column: str
    loading: float


@dataclass(frozen=True)
class ComponentSummary:
    """One component: the share of the variance of T that is its own, and the columns it moves most."""

    name: str
    share: float
    strongest: tuple[Loading, ...]


def column_labels(recovery: ReLUMatrixRecovery) -> tuple[str, ...]:
    """The columns' names; x0, x1, ... where they have none, as in tables written."""
    return names_or_numbers(getattr(recovery, "feature_names_in_", None), recovery.n_features_in_)


def component_names(count: int) -> tuple[str, ...]:
    """What tables call the components.

    >>> component_names(2)
    ('c0', 'c1')
    """
    return tuple(f"c{index}" for index in range(count))


def variance_shares(recovery: ReLUMatrixRecovery) -> FloatArray:
    """Per component, the share of the variance of T's columns: as A'A is diagonal, they add up to 1."""
    variance = recovery.latent_.var(axis=0) * (recovery.components_**2).sum(axis=1)
    total = float(variance.sum())
    shares: FloatArray = variance / total if total > 0.0 else np.zeros(len(variance))
    return shares


def component_summaries(recovery: ReLUMatrixRecovery, most: int = 3) -> list[ComponentSummary]:
    """One summary per component, the strongest first."""
    names = column_labels(recovery)
    found = []
    for name, share, row in zip(
        component_names(recovery.n_components_), variance_shares(recovery), recovery.components_, strict=True
    ):
        strongest = np.argsort(-np.abs(row), kind="stable")[:most]
        loadings = tuple(Loading(names[j], float(row[j])) for j in strongest.tolist())
        found.append(ComponentSummary(name, float(share), loadings))
    return found


def component_table(components: Sequence[ComponentSummary], most: int = _MOST_COMPONENTS) -> Table:
    """Share and strongest columns of the first components."""
    table = new_table()
    table.add_column("component", no_wrap=True)
    table.add_column("variance", justify="right", no_wrap=True)
    table.add_column("strongest columns, and their loadings", overflow="fold")
    for component in components[:most]:
        strongest = ", ".join(f"{item.column} {item.loading:+.3g}" for item in component.strongest)
        table.add_row(component.name, f"{component.share:.1%}", Text(strongest))
    if len(components) > most:
        table.add_row(Text(f"... and {len(components) - most:,} more"))
    return table


def choice_table(report: MatrixReport) -> Table:
    """Every number of components tried and its relative error on the cells it had not seen."""
    table = new_table()
    table.add_column("components", justify="right", no_wrap=True)
    table.add_column("error on held-out cells", justify="right", no_wrap=True)
    table.add_column("")
    for count, error in report.component_errors:
        table.add_row(f"{count}", f"{error:.3g}", "chosen" if count == report.n_components else "")
    return table


def recovery_facts(report: MatrixReport, names: Sequence[str]) -> dict[str, str]:
    """How the recovery went, name by name."""
    chosen = f", chosen of {len(report.component_errors)} by held-out cells" if report.component_errors else ""
    missing = f"; {report.share_missing:.1%} of the cells missing" if report.share_missing else ""
    ended = "" if report.converged else ", not converged"
    weak = [names[j] for j in report.weak_columns]
    return {
        "table": f"{report.n_rows:,} x {report.n_features:,}",
        "components": f"{report.n_components:,}{chosen}",
        "method": report.method,
        "gauge": f"{report.gauge} ({_GAUGES[report.gauge]})" if report.gauge in _GAUGES else report.gauge,
        "iterations": f"{report.iterations:,}",
        "relative residual": f"{report.residual:.3g}{ended}",
        "at the floor": f"{report.share_floored:.1%} of the values{missing}",
        **({} if report.noise is None else {"noise": f"{report.noise:.4g} (standard deviation inside the rectifier)"}),
        **({"weak columns": f"{listed(weak, most=8)} ({_WEAK})"} if weak else {}),
        **({"weak rows": f"{report.weak_rows:,} ({_WEAK})"} if report.weak_rows else {}),
    }


def _shapes(recovery: ReLUMatrixRecovery) -> dict[str, str]:
    if recovery.shapes_ is None:
        return {}
    told = zip(column_labels(recovery), map(shape_words, recovery.shapes_), strict=True)
    shapes = listed([f"{name} {words}" for name, words in told], most=8)
    return {"shapes": f"{shapes} (components and bias are of latent values)"}


def factor_facts(recovery: ReLUMatrixRecovery) -> dict[str, Any]:
    """All of it, for JSON."""
    report, names = recovery.report_, column_labels(recovery)
    return {
        "report": asdict(report),
        "weak_columns": [names[j] for j in report.weak_columns],
        "components": [asdict(component) for component in component_summaries(recovery)],
        **({} if recovery.shapes_ is None else {"shapes": [shape_words(shape) for shape in recovery.shapes_]}),
    }


def factor_tables(recovery: ReLUMatrixRecovery, more: Mapping[str, str] | None = None) -> list[Table]:
    """All of it, for the terminal; ``more`` are facts to begin with."""
    report = recovery.report_
    return [
        fact_table({**(more or {}), **recovery_facts(report, column_labels(recovery)), **_shapes(recovery)}),
        *([choice_table(report)] if report.component_errors else []),
        component_table(component_summaries(recovery)),
    ]
