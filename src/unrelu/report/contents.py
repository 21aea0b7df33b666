"""What is in a file of ours, in plain numbers and tables: one function for each kind, a plain list for the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from unrelu.contracts import Doubt, FloatArray
from unrelu.model import RectifiedGaussian
from unrelu.report.model import (
    ColumnSummary,
    CorrelationSummary,
    column_summaries,
    column_table,
    correlation_table,
    fit_details,
    kept_likelihood,
    labels,
    likelihood_words,
    reported_likelihood,
    shape_facts,
    shape_tables,
    strongest_correlations,
    variance_shares,
)
from unrelu.report.tables import doubt_table, fact_table
from unrelu.validation import counted

if TYPE_CHECKING:
    from unrelu.estimators import (
        RectifiedGaussianLearner,
        RectifiedGaussianMixture,
        ReLUMatrixRecovery,
        TwoLayerReLULearner,
    )
    from unrelu.recovery.layers.peeled import Peeled
    from unrelu.recovery.matrix.state import MatrixState
    from unrelu.report.layers import Network

Facts = dict[str, Any]
Header = Mapping[str, Any]
Contents = tuple[Facts, Sequence[Table]]


def contents(content: Any, header: Header, path: Path) -> Contents:
    """Facts for JSON, and tables for people."""
    for kind in type(content).__mro__:
        if kind.__name__ in _KINDS:
            return _KINDS[kind.__name__](content, header, path)
    return _of_anything(content, header, path)


# --- models ---------------------------------------------------------------------------------------


def _of_model(model: RectifiedGaussian, header: Header, path: Path) -> Contents:
    details = header.get("details")
    details = details if isinstance(details, dict) else {}
    # Details are the writer's own: of lists with one number per column, and of errors, whatever is there is taken.
    lists = details.get("columns")
    lists = lists if isinstance(lists, dict) else {}
    known = {"shares": "share_floored", "bias_stderr": "bias_stderr", "norm_stderr": "norm_stderr"}
    found = {name: lists.get(key) for name, key in known.items()}
    per_column = {name: v for name, v in found.items() if isinstance(v, list) and len(v) == model.n_features}
    pairs = details.get("strongest_correlations")
    errors = {
        (pair.get("first"), pair.get("second")): pair.get("stderr")
        for pair in (pairs if isinstance(pairs, list) else ())
        if isinstance(pair, dict)
    }
    columns = column_summaries(model, **per_column)
    strongest = [replace(each, stderr=errors.get((each.first, each.second))) for each in strongest_correlations(model)]
    shares, likelihood = variance_shares(model), kept_likelihood(details)
    facts = {
        "model": path,
        **_stated(header),
        "n_features": model.n_features,
        "variance_shares": shares,
        "columns": [asdict(column) for column in columns],
        "strongest_correlations": [asdict(pair) for pair in strongest],
        **shape_facts(model),
        "likelihood": likelihood,
        "details": details,
    }
    described = {**_written(header), **_described(model, shares)}
    if likelihood is not None:
        described["log-likelihood"] = likelihood_words(likelihood)
    first, *others = _model_tables(model, {**described, **_flat(details)}, columns, strongest)
    doubts = _doubts(details.get("report"))
    return facts, [first, *([doubt_table(doubts, labels(model), str)] if doubts else []), *others]


def _of_learner(learner: RectifiedGaussianLearner, header: Header, path: Path) -> Contents:
    """What a model file would say of it, and its parameters."""
    if not hasattr(learner, "report_"):  # made from a model
        return _of_anything(learner, header, path)
    told = {"parameters": _parameters(learner), "likelihood": reported_likelihood(learner)}
    details = {**told, **fit_details(learner)}
    return _of_model(learner.distribution_, {**header, "details": details}, path)


def _of_mixture(mixture: RectifiedGaussianMixture, header: Header, path: Path) -> Contents:
    """Parameters and report, and every group's columns."""
    facts, tables = _of_anything(mixture, header, path)
    told, shown = [], []
    for number, (law, share) in enumerate(zip(mixture.distributions_, mixture.weights_.tolist(), strict=True), start=1):
        columns = column_summaries(law)
        told.append({"share": share, "columns": [asdict(column) for column in columns], **shape_facts(law)})
        shown += [column_table(columns, f"group {number}: {share:.1%} of the rows"), *shape_tables(law)]
    return {**facts, "groups": told}, [*tables, *shown]


def _model_tables(
    model: RectifiedGaussian,
    described: dict[str, str],
    columns: Sequence[ColumnSummary],
    strongest: Sequence[CorrelationSummary],
) -> list[Table]:
    pairs = [correlation_table(strongest)] if strongest else []
    return [fact_table(described), column_table(columns), *shape_tables(model), *pairs]


def _described(model: RectifiedGaussian, shares: list[float]) -> dict[str, str]:
    """Columns, limits, shapes where one is not normal, and the spread of the numbers."""
    limits = {}
    for name, levels in (("floor", model.floor), ("ceiling", model.ceiling)):
        known = levels[np.isfinite(levels)]
        if len(known):
            others = f"; none in {counted(len(levels) - len(known), 'column')}" if len(known) < len(levels) else ""
            limits[name] = f"{_range(known)}{others}"
    shapes = {}
    if model.shapes is not None:
        counts = Counter(shape.kind for shape in model.shapes).most_common()
        shapes["shapes"] = ", ".join(f"{kind} ({counted(number, 'column')})" for kind, number in counts)
    return {
        "columns": f"{model.n_features:,}{'' if model.feature_names is not None else ' (without names)'}",
        **(limits or {"floor": "none"}),
        **shapes,
        "latent mean (bias)": _range(model.bias),
        "latent sd (norm)": _range(model.row_norms),
        "variance in the first components": ", ".join(f"{share:.1%}" for share in shares) + " (columns standardized)",
    }


# --- matrices and layers --------------------------------------------------------------------------


def _of_factors(recovery: ReLUMatrixRecovery, header: Header, path: Path) -> Contents:
    from unrelu.report.factor import factor_facts, factor_tables

    own = {"floor": recovery.floor_.tolist(), "floor_tolerance": recovery.floor_tolerance}
    facts = {"factors": path, **_stated(header), **own, **factor_facts(recovery)}
    return facts, factor_tables(recovery, {**_written(header), "floor": _range(recovery.floor_)})


def _of_state(state: MatrixState, header: Header, path: Path) -> Contents:
    run = {name: value for name, value in state.facts.items() if name not in ("shape", "cells", "floor")}
    n, d = state.facts["shape"]
    facts = {
        "state": path,
        **_stated(header),
        "iterations": state.iterations,
        "residual": state.residual,
        "shape": state.facts["shape"],
        **run,
    }
    described = {
        **_written(header),
        "table": f"{n:,} x {d:,}",
        "iterations": f"{state.iterations:,}",
        "relative residual": f"{state.residual:.3g}",
        **_flat(run),
        "to go on": f"unrelu factor --state {path}, with the same table and options",
    }
    return facts, [fact_table(described)]


def _of_peeled(peeled: Peeled, header: Header, path: Path) -> Contents:
    from unrelu.report.layers import Network

    report = peeled.report
    used = f"{report.n_rows - report.n_outlier_rows:,} of {report.n_rows:,}"
    law = {} if report.learned else {"innermost units": "their law was not learned"}
    return _of_network(Network.of_peeled(peeled), header, path, {"rows explained": used, **law})


def _of_two_layers(learner: TwoLayerReLULearner, header: Header, path: Path) -> Contents:
    from unrelu.report.layers import Network

    model = "x = A h + a" if learner.output_bias else "x = A h"
    outputs = f"{model}, not rectified" if learner.floor is None else "x = max(A h + a, floor)"
    return _of_network(Network.of_learner(learner), header, path, {"outputs": outputs, "method": learner.method})


def _of_network(network: Network, header: Header, path: Path, described: dict[str, str]) -> Contents:
    from unrelu.report.layers import network_facts, network_tables

    facts = {"layers_file": path, **_stated(header), **network_facts(network)}
    return facts, [fact_table({**_written(header), **described}), *network_tables(network)]


# --- anything else --------------------------------------------------------------------------------


def _of_anything(content: Any, header: Header, path: Path) -> Contents:
    """Parameters and report of an estimator, plain fields of a record; arrays by their shapes."""
    if is_dataclass(content):
        own = {field.name: getattr(content, field.name) for field in fields(content)}
    else:
        report = getattr(content, "report_", None)
        own = {**_parameters(content), **(asdict(report) if is_dataclass(report) else {})}  # type: ignore[arg-type]
    facts = {"file": path, **_stated(header), **{name: _plain(value) for name, value in own.items()}}
    law = getattr(content, "distribution_", None)
    tables = [
        fact_table({**_written(header), **{name.replace("_", " "): in_words(_plain(v)) for name, v in own.items()}})
    ]
    if isinstance(law, RectifiedGaussian):
        columns, strongest = column_summaries(law), strongest_correlations(law)
        facts |= {"columns": [asdict(c) for c in columns], "strongest_correlations": [asdict(p) for p in strongest]}
        facts |= shape_facts(law)
        tables += _model_tables(law, _described(law, variance_shares(law)), columns, strongest)
    return facts, tables


def _parameters(estimator: Any) -> Facts:
    parameters: Facts = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    return {name: _plain(value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    """What JSON can hold: a large array by its shape, a record by its fields."""
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


# --- words ----------------------------------------------------------------------------------------


def _stated(header: Header) -> Facts:
    return {name: header.get(name) for name in ("format", "format_version", "unrelu_version")}


def _written(header: Header) -> dict[str, str]:
    version = header.get("unrelu_version", "of unknown version")
    return {"format": f"{header.get('format')} {header.get('format_version')}, written by unrelu {version}"}


def _flat(details: Mapping[str, Any]) -> dict[str, str]:
    """The report and other single facts, under the names the file gives them; what tables show is left to them."""
    report = details.get("report")
    flat = {**(report if isinstance(report, dict) else {}), **{k: v for k, v in details.items() if k != "report"}}
    return {name.replace("_", " "): _fact(name, value) for name, value in flat.items() if name not in _IN_TABLES}


def _fact(name: str, value: Any) -> str:
    if name == "assembly" and isinstance(value, dict):
        value = {_ASSEMBLY.get(key, key): item for key, item in value.items()}
    return in_words(_plain(value))


def _doubts(report: Any) -> list[Doubt]:
    """The doubts in a report as a file has it; none where it is not one of ours."""
    try:
        return [
            Doubt(d["kind"], tuple(d["columns"]), d["words"], d["remedy"], tuple(d["values"])) for d in report["doubts"]
        ]
    except (KeyError, TypeError):
        return []


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


def _range(values: FloatArray) -> str:
    low, high = values.min(), values.max()
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


_IN_TABLES = {
    "columns",
    "likelihood",
    "strongest_correlations",
    "share_floored_by_column",
    "n_features",
    "floor",
    "ceiling",
    "doubts",
}
# Assembly: pairs of columns are learned one by one, and then made one matrix that can be a covariance.
_ASSEMBLY = {
    "smallest_eigenvalue": "of the pairs to one matrix: smallest eigenvalue before",
    "shift_max": "correlations moved by at most",
    "shift_rms": "by a root mean square of",
}

# Found by the class's name, so that a model file is read without the modules of all other kinds.
_KINDS: dict[str, Callable[[Any, Header, Path], Contents]] = {
    "RectifiedGaussian": _of_model,
    "RectifiedGaussianLearner": _of_learner,
    "RectifiedGaussianMixture": _of_mixture,
    "ReLUMatrixRecovery": _of_factors,
    "MatrixState": _of_state,
    "Peeled": _of_peeled,
    "TwoLayerReLULearner": _of_two_layers,
}
