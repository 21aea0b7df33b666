"""A fitted model in plain numbers and tables, for the terminal, JSON and model files; the content of any file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import Diagnostic, FloatArray
from unrelu.fit.nearest import largest_eigenpairs
from unrelu.model import RectifiedGaussian
from unrelu.notebook import Table, fact_table
from unrelu.report.tables import Facts, Rows, diagnostic_rows, facts, labels, rows, table_of, with_error
from unrelu.validation import counted

if TYPE_CHECKING:
    from unrelu.estimators import RectifiedGaussianLearner, RectifiedGaussianMixture, ReLUMatrixRecovery
    from unrelu.recovery.matrix.state import MatrixState

_MOST_COLUMNS = 20  # in a table


@facts.register
def _(
    model: RectifiedGaussian,
    share_floored: ArrayLike | None = None,
    mean_stderr: ArrayLike | None = None,
    std_stderr: ArrayLike | None = None,
    correlation_stderr: FloatArray | None = None,
) -> Facts:
    """Latent means and sds with errors (None without); strongest pairs; margins, and columns in the user's units."""
    numbers: dict[str, Any] = {
        "floor": [level if math.isfinite(level) else None for level in model.floor.tolist()],
        "ceiling": [level if math.isfinite(level) else None for level in model.ceiling.tolist()],
        "mean": model.mean,
        "std": model.std,
        "share_floored": share_floored,
        "mean_stderr": mean_stderr,
        "std_stderr": std_stderr,
    }
    d = model.n_features
    lists = {key: [None] * d if each is None else np.asarray(each).tolist() for key, each in numbers.items()}
    columns = [{"name": name, **{key: each[j] for key, each in lists.items()}} for j, name in enumerate(labels(model))]
    found = {"columns": columns, "strongest_correlations": strongest_correlations(model, correlation_stderr)}
    if model.margins is None:
        return found
    parts = ("kind", "exponent", "exponent_stderr", "origin", "unit")
    margins = [{key: getattr(margin, key) for key in parts if hasattr(margin, key)} for margin in model.margins]
    return {**found, "margins": margins, "column_summary": model.column_summary()}


def strongest_pairs(r: FloatArray, most: int) -> list[tuple[int, int]]:
    """The columns of the largest correlations in size, strongest first."""
    first, second = np.triu_indices(len(r), 1)
    size = np.abs(r[first, second])
    few = np.argpartition(-size, most)[:most] if len(size) > most else np.arange(len(size))
    few = few[np.lexsort((few, -size[few]))]
    return list(zip(first[few].tolist(), second[few].tolist(), strict=True))


def strongest_correlations(model: RectifiedGaussian, stderr: FloatArray | None = None, most: int = 5) -> list[Facts]:
    """The pairs with the largest latent correlations in size, strongest first."""
    names, r, found = labels(model), model.correlation, []
    for i, j in strongest_pairs(r, most):
        error = None if stderr is None else float(stderr[i, j])
        found.append({"first": names[i], "second": names[j], "correlation": float(r[i, j]), "stderr": error})
    return found


def variance_shares(model: RectifiedGaussian) -> list[float]:
    """Shares of the latent variance in the first principal components, columns standardized."""
    d = model.n_features
    values, _ = largest_eigenpairs(model.correlation, min(5, d))
    return [round(float(value), 12) for value in np.maximum(values[::-1], 0.0) / d]


def fit_details(learner: RectifiedGaussianLearner) -> Facts:
    """The details of a fit that its model file keeps. No times: the same rows give the same bytes."""
    return {
        "report": asdict(learner.report_),
        "columns": {
            "share_floored": list(learner.report_.share_floored_by_column),
            "mean_stderr": learner.mean_stderr_.tolist(),
            "std_stderr": learner.std_stderr_.tolist(),
        },
        "strongest_correlations": strongest_correlations(learner.distribution_, learner.correlation_stderr_, most=20),
    }


# --- tables ---------------------------------------------------------------------------------------


def model_tables(entries: Facts, title: str = "") -> list[Table]:
    """Tables of a model's facts: columns; with margins, the columns in the units of the user's table; correlations."""
    columns, lines = entries["columns"], []
    for column in columns:
        share = math.nan if column["share_floored"] is None else column["share_floored"]
        mean, std = (with_error(column[key], column[f"{key}_stderr"]) for key in ("mean", "std"))
        floor = "none" if column["floor"] is None else f"{column['floor']:g}"
        limit = floor if column["ceiling"] is None else f"at most {column['ceiling']:g}"
        lines.append({"name": column["name"], "share": share, "mean": mean, "std": std, "limit": limit})
    shares = [(">floored", "{share:.1%}")] * any(column["share_floored"] is not None for column in columns)
    moments = (">latent mean", "{mean}"), (">latent sd", "{std}")
    limits = [(">floor", "{limit}")] * (len({line["limit"] for line in lines}) > 1)
    scale = "on the scale on which a column is normal:" if entries.get("margins") and not title else title
    tables = [table_of(lines, ("column", "{name}"), *shares, *moments, *limits, title=scale, most=_MOST_COLUMNS)]
    by_distribution: dict[str, list[Facts]] = {}
    for line, margin, column in zip(lines, entries.get("margins", ()), entries.get("column_summary", ()), strict=False):
        error = margin.get("exponent_stderr", math.nan)
        words = margin["kind"] + (f" {margin['exponent']:.2f}" if "exponent" in margin else "")
        words += f" ± {error:.1g}" if math.isfinite(error) else ""
        by_distribution.setdefault(column["distribution"], []).append({**column, "name": line["name"], "margin": words})
    heads = [("column", "{name}"), (">margin", "{margin}"), (">mean", "{mean:.4g}")]
    heads += [(">25 %", "{lower_quartile:.4g}"), (">median", "{median:.4g}"), (">75 %", "{upper_quartile:.4g}")]
    for distribution, of_columns in by_distribution.items():
        title = f"in the units of the table, {distribution}:"
        tables.append(table_of(of_columns, *heads, title=title, most=_MOST_COLUMNS))
    if strongest := entries.get("strongest_correlations"):
        pairs = [{**pair, "r": with_error(pair["correlation"], pair["stderr"])} for pair in strongest]
        tables.append(table_of(pairs, ("strongest correlations", "{first} – {second}"), (">", "{r}")))
    return tables


# --- the likelihood of rows, by which models compare ----------------------------------------------


def likelihood_facts(log_likelihood: float, n_parameters: int, n_rows: float) -> Facts:
    """AIC and BIC as scikit-learn has them: lower is better."""
    return {
        "log_likelihood": log_likelihood,
        "n_parameters": n_parameters,
        "rows": n_rows,
        "aic": -2.0 * log_likelihood + 2.0 * n_parameters,
        "bic": float(-2.0 * log_likelihood + n_parameters * np.log(n_rows)),
    }


def likelihood_words(facts: Facts) -> str:
    return (
        f"{facts['log_likelihood']:,.1f} of {facts['rows']:,.0f} rows with {facts['n_parameters']:,} parameters:"
        f" AIC {facts['aic']:,.1f}, BIC {facts['bic']:,.1f}"
    )


# --- the content of a file ------------------------------------------------------------------------

Contents: TypeAlias = tuple[Facts, Rows]
Words: TypeAlias = dict[str, str]  # line by line


def contents(content: Any, header: Mapping[str, Any], path: Path) -> Contents:
    """Facts and rows of any file of ours."""
    kind = next((each.__name__ for each in type(content).__mro__ if each.__name__ in _KINDS), "")
    if kind == "RectifiedGaussianLearner" and not hasattr(content, "report_"):  # made from a model
        kind = ""
    name, of_kind = _KINDS.get(kind, ("file", _of_anything))
    stated = {key: header.get(key) for key in ("format", "format_version", "unrelu_version")}
    version = header.get("unrelu_version", "of unknown version")
    written = {"format": f"{header.get('format')} {header.get('format_version')}, written by unrelu {version}"}
    entries, shown = of_kind(content, written, header, path)
    return {name: path, **stated, **entries}, shown


def _of_model(model: RectifiedGaussian, written: Words, header: Mapping[str, Any], _: Path) -> Contents:
    # Details are the writer's own: entries of ours have a place, all others are shown as they are.
    details = _dictionary(header.get("details"))
    report = _dictionary(details.get("report"))
    lists = _dictionary(details.get("columns"))
    numbers: Any = {key: lists.get(key) for key in ("share_floored", "mean_stderr", "std_stderr")}
    numbers = {key: each for key, each in numbers.items() if isinstance(each, list) and len(each) == model.n_features}
    distribution = facts(model, **numbers)
    pairs = details.get("strongest_correlations")
    errors = {
        (pair.get("first"), pair.get("second")): pair.get("stderr")
        for pair in map(_dictionary, pairs if isinstance(pairs, list) else ())
    }
    for pair in distribution["strongest_correlations"]:
        pair["stderr"] = errors.get((pair["first"], pair["second"]))
    shares, likelihood = variance_shares(model), _dictionary(details.get("likelihood"))
    described = {**written, **_described(model, shares)}
    if all(isinstance(likelihood.get(name), int | float) for name in _LIKELIHOOD):
        described["log-likelihood"] = likelihood_words(likelihood)
    else:
        likelihood = {}
    for name, value in {**report, **{k: v for k, v in details.items() if k != "report"}}.items():
        if name not in _LEFT_TO_JSON and value is not None:
            share = name.startswith("share_") and isinstance(value, float)
            described[name.replace("_", " ")] = f"{value:.1%}" if share else in_words(_plain(value))
    entries = {
        "n_features": model.n_features,
        "variance_shares": shares,
        **distribution,
        "likelihood": likelihood or None,
        "details": details,
    }
    shown: Rows = [fact_table(described)]
    with suppress(KeyError, TypeError):  # none, or none of ours
        if diagnostics := [
            Diagnostic(d["kind"], tuple(d["columns"]), d["words"], d["remedy"], tuple(d["values"]))
            for d in report["diagnostics"]
        ]:
            shown += diagnostic_rows(diagnostics, labels(model), str)
    return entries, [shown[0], *model_tables(distribution), *shown[1:]]


def _dictionary(value: Any) -> Facts:
    return value if isinstance(value, dict) else {}


def _of_learner(learner: RectifiedGaussianLearner, written: Words, header: Mapping[str, Any], path: Path) -> Contents:
    """Parameters, and the content that a model file would have."""
    found = getattr(learner.report_, "log_likelihood", None)
    likelihood = None if found is None else likelihood_facts(found, learner.n_parameters_, learner.report_.n_rows)
    entries = {"parameters": _plain(learner.get_params(deep=False)), "likelihood": likelihood}
    details = {**entries, **fit_details(learner)}
    return _of_model(learner.distribution_, written, {**header, "details": details}, path)


def _of_mixture(mixture: RectifiedGaussianMixture, written: Words, header: Mapping[str, Any], path: Path) -> Contents:
    entries, shown = _of_anything(mixture, written, header, path)
    entries["groups"] = []
    for number, (distribution, share) in enumerate(
        zip(mixture.distributions_, mixture.weights_.tolist(), strict=True), start=1
    ):
        own = facts(distribution)
        del own["strongest_correlations"]
        entries["groups"].append({"share": share, **own})
        shown += model_tables(own, f"group {number}: {share:.1%} of the rows")
    return entries, shown


def _of_factors(recovery: ReLUMatrixRecovery, written: Words, _: Mapping[str, Any], __: Path) -> Contents:
    import_module("unrelu.report.recovery")  # its registered functions
    own = {"floor": recovery.floor_.tolist(), "floor_tolerance": recovery.floor_tolerance}
    return {**own, **facts(recovery)}, rows(recovery, {**written, "floor": _range(recovery.floor_)})


def _of_state(state: MatrixState, written: Words, _: Mapping[str, Any], path: Path) -> Contents:
    run = {name: value for name, value in state.facts.items() if name not in ("shape", "cells", "floor")}
    n, d = state.facts["shape"]
    described = {
        **written,
        "table": f"{n:,} x {d:,}",
        "iterations": f"{state.iterations:,}",
        "relative residual": f"{state.residual:.3g}",
        **{name.replace("_", " "): in_words(_plain(value)) for name, value in run.items()},
        "to go on": f"unrelu factor --state {path}, with the same table and options",
    }
    own = {"iterations": state.iterations, "residual": state.residual, "shape": state.facts["shape"]}
    return {**own, **run}, [fact_table(described)]


def _of_layers(content: Any, written: Words, _: Mapping[str, Any], __: Path) -> Contents:
    from unrelu.report.layers import Network

    network, report = Network.of(content), content.report if type(content).__name__ == "Peeled" else None
    if report is None:
        model = "x = A h + a" if content.output_bias else "x = A h"
        outputs = f"{model}, not rectified" if content.floor is None else "x = max(A h + a, floor)"
        described = {"outputs": outputs, "method": content.method}
    else:
        described = {"rows explained": f"{report.n_rows - report.n_outlier_rows:,} of {report.n_rows:,}"}
        if not report.learned:
            described["innermost units"] = "their distribution was not learned"
    return facts(network), [fact_table({**written, **described}), *rows(network)]


def _of_anything(content: Any, written: Words, _: Mapping[str, Any], __: Path) -> Contents:
    """Parameters and report of an estimator, plain fields of a record; arrays by their shapes."""
    if is_dataclass(content):
        own = {field.name: getattr(content, field.name) for field in fields(content)}
    else:
        report = getattr(content, "report_", None)
        own = content.get_params(deep=False) | (asdict(report) if is_dataclass(report) else {})  # type: ignore[arg-type]
    entries = {name: _plain(value) for name, value in own.items()}
    described = {name.replace("_", " "): in_words(value) for name, value in entries.items()}
    distribution = getattr(content, "distribution_", None)
    shown: Rows = [fact_table({**written, **described})]
    if isinstance(distribution, RectifiedGaussian):
        of_distribution = facts(distribution)
        entries |= of_distribution
        shown += [fact_table(_described(distribution, variance_shares(distribution))), *model_tables(of_distribution)]
    return entries, shown


# Found by the class's name, so that a model file is read without the modules of all other kinds.
_KINDS: dict[str, tuple[str, Callable[[Any, Words, Mapping[str, Any], Path], Contents]]] = {
    "RectifiedGaussian": ("model", _of_model),
    "RectifiedGaussianLearner": ("model", _of_learner),
    "RectifiedGaussianMixture": ("file", _of_mixture),
    "ReLUMatrixRecovery": ("factors", _of_factors),
    "MatrixState": ("state", _of_state),
    "Peeled": ("layers_file", _of_layers),
    "TwoLayerReLULearner": ("layers_file", _of_layers),
}


def _described(model: RectifiedGaussian, shares: list[float]) -> dict[str, str]:
    limits = {}
    for name, levels in (("floor", model.floor), ("ceiling", model.ceiling)):
        finite = levels[np.isfinite(levels)]
        if len(finite):
            others = f"; none in {counted(len(levels) - len(finite), 'column')}" if len(finite) < len(levels) else ""
            limits[name] = f"{_range(finite)}{others}"
    kinds = Counter(margin.kind for margin in model.margins or ()).most_common()
    margins = {"margins": ", ".join(f"{kind} ({counted(number, 'column')})" for kind, number in kinds)} if kinds else {}
    return {
        "columns": f"{model.n_features:,}{'' if model.feature_names is not None else ' (without names)'}",
        **(limits or {"floor": "none"}),
        **margins,
        "variance by component": ", ".join(f"{share:.1%}" for share in shares),
    }


def _range(values: FloatArray) -> str:
    low, high = values.min(), values.max()
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: a large array by its shape, a record by its fields."""
    if isinstance(value, np.ndarray):
        shape = " x ".join(f"{size:,}" for size in value.shape)
        return value.tolist() if value.size <= 20 and value.ndim <= 1 else f"{shape} numbers"
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **{f.name: _plain(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def in_words(value: Any) -> str:
    """A plain value for people.

    >>> in_words(None), in_words(0.123456), in_words([1000, 2]), in_words({"share_off": True})
    ('not set', '0.1235', '1,000, 2', 'share off yes')
    """
    if value is None or isinstance(value, bool):
        return {None: "not set", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {in_words(item)}" for name, item in value.items())
    if isinstance(value, list):
        if not value:
            return "none"
        more = f" and {len(value) - 5:,} more" if len(value) > 5 else ""
        return ", ".join(in_words(item) for item in value[:5]) + more
    return str(value)


_LIKELIHOOD = ("log_likelihood", "n_parameters", "rows", "aic", "bic")
# Entries that other lines and tables show, and numbers of the methods, which --json alone has.
_LEFT_TO_JSON = {"columns", "likelihood", "strongest_correlations", "share_floored_by_column", "n_features", "floor"}
_LEFT_TO_JSON |= {"ceiling", "diagnostics", "log_likelihood", "n_parameters", "nearest", "shrinkage"}
_LEFT_TO_JSON |= {"pairs_never_above_together", "nonnegative_mean", "effective_rows", "rounds", "settled"}
