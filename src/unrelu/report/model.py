"""A learned model in plain numbers and tables, the same for the terminal, JSON and model files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import eigsh

from unrelu.contracts import FloatArray
from unrelu.model import RectifiedGaussian
from unrelu.report.tables import rows, with_error
from unrelu.shapes import Power, Shape
from unrelu.tables.columns import names_or_numbers

if TYPE_CHECKING:
    from unrelu.estimators import RectifiedGaussianLearner
    from unrelu.estimators.fitted import FittedModel

_MOST_COLUMNS = 20  # in a table
_POWER = ("exponent", "exponent_stderr", "origin", "unit")
_DENSE = 500  # beyond so many columns a few eigenvalues come sooner by Lanczos' method


@dataclass(frozen=True)
class ColumnSummary:
    """One column: what the model says of the latent y, and how sure it is (None where the file does not tell)."""

    name: str
    floor: float | None
    ceiling: float | None
    bias: float
    norm: float
    share_floored: float | None = None
    bias_stderr: float | None = None
    norm_stderr: float | None = None

    @property
    def limit(self) -> str:
        """The floor, the ceiling, or neither, in a word."""
        if self.ceiling is not None:
            return f"at most {self.ceiling:g}"
        return "none" if self.floor is None else f"{self.floor:g}"


@dataclass(frozen=True)
class CorrelationSummary:
    """One pair of columns, by name."""

    first: str
    second: str
    correlation: float
    stderr: float | None = None


def labels(model: RectifiedGaussian) -> tuple[str, ...]:
    """The columns' names; x0, x1, ... where they have none, as in tables written from the model.

    >>> labels(RectifiedGaussian([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]]))
    ('x0', 'x1')
    """
    return names_or_numbers(model.feature_names, model.n_features)


def column_summaries(
    model: RectifiedGaussian,
    shares: Sequence[float] | FloatArray | None = None,
    bias_stderr: Sequence[float] | FloatArray | None = None,
    norm_stderr: Sequence[float] | FloatArray | None = None,
) -> list[ColumnSummary]:
    """One summary per column, in order."""
    d = model.n_features
    nothing = [None] * d
    columns = zip(
        labels(model),
        *(
            [level if np.isfinite(level) else None for level in limits.tolist()]
            for limits in (model.floor, model.ceiling)
        ),
        model.bias.tolist(),
        model.row_norms.tolist(),
        *(nothing if known is None else np.asarray(known).tolist() for known in (shares, bias_stderr, norm_stderr)),
        strict=True,
    )
    return [ColumnSummary(*values) for values in columns]


def shape_words(shape: Shape) -> str:
    """A shape's name, and the exponent of a power.

    >>> from unrelu.shapes import Log, Power
    >>> shape_words(Log()), shape_words(Power(0.3333))
    ('log', 'power 0.33')
    """
    return f"power {shape.exponent:.2f}" if isinstance(shape, Power) else shape.kind


def shape_facts(model: RectifiedGaussian) -> dict[str, Any]:
    """For JSON: every column's shape, and the columns in the user's units; nothing where all are normal."""
    if model.shapes is None:
        return {}
    shapes = [
        {"kind": shape.kind, **{name: getattr(shape, name) for name in _POWER if hasattr(shape, name)}}
        for shape in model.shapes
    ]
    return {"shapes": shapes, "column_summary": model.column_summary()}


def strongest_correlations(
    model: RectifiedGaussian, stderr: FloatArray | None = None, most: int = 5
) -> list[CorrelationSummary]:
    """The pairs with the largest latent correlations in size, strongest first.

    >>> model = RectifiedGaussian([0.0] * 3, [[1.0, 0.2, 0.0], [0.2, 1.0, -0.5], [0.0, -0.5, 1.0]])
    >>> [(pair.first, pair.second, pair.correlation) for pair in strongest_correlations(model, most=2)]
    [('x1', 'x2', -0.5), ('x0', 'x1', 0.2)]
    """
    names, r = labels(model), model.correlation
    return [
        CorrelationSummary(names[i], names[j], float(r[i, j]), None if stderr is None else float(stderr[i, j]))
        for i, j in strongest_pairs(r, most)
    ]


def strongest_pairs(r: FloatArray, most: int) -> list[tuple[int, int]]:
    """The columns of the largest correlations in size, strongest first."""
    first, second = np.triu_indices(len(r), 1)
    size = np.abs(r[first, second])
    few = np.argpartition(-size, most)[:most] if len(size) > most else np.arange(len(size))
    few = few[np.lexsort((few, -size[few]))]
    return list(zip(first[few].tolist(), second[few].tolist(), strict=True))


def variance_shares(model: RectifiedGaussian, most: int = 5) -> list[float]:
    """Shares of the latent variance in the first principal components, columns standardized.

    >>> variance_shares(RectifiedGaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]]))
    [0.75, 0.25]
    """
    r = model.correlation
    d = len(r)
    k = min(most, d)
    if d <= _DENSE:
        values = eigvalsh(r, subset_by_index=[d - k, d - 1])
    else:
        values = np.sort(eigsh(r, k, return_eigenvectors=False, v0=np.ones(d)))
    return [round(float(value), 12) for value in np.maximum(values[::-1], 0.0) / d]


def learned_columns(learner: RectifiedGaussianLearner) -> list[ColumnSummary]:
    """One summary per column of a fitted learner."""
    shares = learner.report_.share_floored_by_column
    return column_summaries(learner.distribution_, shares, learner.bias_stderr_, learner.row_norms_stderr_)


def fit_details(learner: RectifiedGaussianLearner) -> dict[str, Any]:
    """What a model file keeps of its fit. No times: the same rows give the same bytes."""
    strongest = strongest_correlations(learner.distribution_, learner.correlation_stderr_, most=20)
    return {
        "report": asdict(learner.report_),
        "columns": {
            "share_floored": list(learner.report_.share_floored_by_column),
            "bias_stderr": learner.bias_stderr_.tolist(),
            "norm_stderr": learner.row_norms_stderr_.tolist(),
        },
        "strongest_correlations": [asdict(pair) for pair in strongest],
    }


# --- tables ---------------------------------------------------------------------------------------


def column_table(columns: Sequence[ColumnSummary], title: str = "") -> Table:
    """Bias and norm of the first columns, and how many more there are: the mean and the sd of y, before the floor."""
    known = any(column.share_floored is not None for column in columns)
    floors_differ = len({column.limit for column in columns}) > 1
    lines = []
    for column in columns:
        share = "" if column.share_floored is None else f"{column.share_floored:.1%}"
        bias, norm = with_error(column.bias, column.bias_stderr), with_error(column.norm, column.norm_stderr)
        lines.append((column.name, *[share] * known, bias, norm, *[column.limit] * floors_differ))
    heads = ("column", *[">floored"] * known, ">latent mean (bias)", ">latent sd (norm)", *[">floor"] * floors_differ)
    return rows(heads, lines, _MOST_COLUMNS, title)


def shape_tables(model: RectifiedGaussian) -> list[Table]:
    """Where columns have shapes, what the model says in the units of the user's table: one table for each law."""
    if model.shapes is None:
        return []
    told, tables = ("mean", "lower_quartile", "median", "upper_quartile"), []
    columns = list(zip(labels(model), model.shapes, model.column_summary(), strict=True))
    for law in dict.fromkeys(column["law"] for *_, column in columns):
        lines = []
        for name, shape, column in [each for each in columns if each[2]["law"] == law]:
            error = getattr(shape, "exponent_stderr", math.nan)
            words = shape_words(shape) + (f" ± {error:.1g}" if math.isfinite(error) else "")
            lines.append((name, words, f"{column['share_floored']:.1%}", *(f"{column[key]:.4g}" for key in told)))
        heads = ("column", ">shape", ">floored", ">mean", ">25 %", ">median", ">75 %")
        tables.append(rows(heads, lines, _MOST_COLUMNS, f"in the units of the table, {law}:"))
    return tables


def correlation_table(pairs: Sequence[CorrelationSummary]) -> Table:
    """Pairs of columns with their correlations."""
    lines = [(f"{pair.first} – {pair.second}", with_error(pair.correlation, pair.stderr)) for pair in pairs]
    return rows(("strongest correlations", ">"), lines)


# --- how probable a model makes rows, so that models compare --------------------------------------


def likelihood_facts(log_likelihood: float, n_parameters: int, n_rows: float) -> dict[str, Any]:
    """AIC and BIC as scikit-learn has them: lower is better.

    >>> likelihood_facts(-10.0, 2, 100)["aic"]
    24.0
    """
    return {
        "log_likelihood": log_likelihood,
        "n_parameters": n_parameters,
        "rows": n_rows,
        "aic": -2.0 * log_likelihood + 2.0 * n_parameters,
        "bic": float(-2.0 * log_likelihood + n_parameters * np.log(n_rows)),
    }


def density_facts(densities: FloatArray, n_parameters: int) -> dict[str, Any]:
    """The same from log densities of rows."""
    return likelihood_facts(float(densities.sum()), n_parameters, len(densities))


def reported_likelihood(learner: FittedModel) -> dict[str, Any] | None:
    """What a fit by likelihood has told already; None of other fits."""
    found = getattr(learner.report_, "log_likelihood", None)
    return None if found is None else likelihood_facts(found, learner.n_parameters_, learner.report_.n_rows)


def kept_likelihood(details: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a model file holds of it; None where it is not one of ours."""
    found = details.get("likelihood")
    known = isinstance(found, dict) and all(
        isinstance(found.get(name), int | float) for name in ("log_likelihood", "n_parameters", "rows", "aic", "bic")
    )
    return found if known else None


def likelihood_words(facts: Mapping[str, Any]) -> str:
    """In a line.

    >>> likelihood_words(likelihood_facts(-1234.56, 9, 1000))
    '-1,234.6 of 1,000 rows with 9 parameters: AIC 2,487.1, BIC 2,531.3'
    """
    return (
        f"{facts['log_likelihood']:,.1f} of {facts['rows']:,.0f} rows with {facts['n_parameters']:,} parameters:"
        f" AIC {facts['aic']:,.1f}, BIC {facts['bic']:,.1f}"
    )
