"""``unrelu info``: what is in a model file, a factors file, a file of layers or a saved state."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli.options import JsonOption
from unrelu.cli.outcome import Answer, plain

if TYPE_CHECKING:
    from unrelu.distribution import RectifiedGaussian
    from unrelu.report.peel_summary import Network
    from unrelu.report.summaries import CorrelationSummary


def info(
    model: Annotated[
        Path,
        typer.Argument(
            help="A model file, or what unrelu factor (factors or a state) or unrelu peel wrote.", metavar="FILE"
        ),
    ],
    as_json: JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer:
    """Show what is in a model file: columns, bias, norms, correlations, and how it was learned.

    Of a factors file: the components, and how they were recovered. Of a saved state: how far it has come. Of a file of
    layers: how each was found, and the innermost units.
    """
    from unrelu.storage import stated_format

    kinds = {
        "unrelu.ReLUMatrixRecovery": _info_of_factors,
        "unrelu.MatrixState": _info_of_state,
        "unrelu.Peeled": _info_of_peeled,
        "unrelu.TwoLayerReLULearner": _info_of_two_layers,
    }
    return kinds.get(stated_format(model) or "", _info_of_model)(model)


def _info_of_model(model: Path) -> Answer:
    from unrelu.distribution import RectifiedGaussian, read_header
    from unrelu.report.summaries import column_summaries, strongest_correlations, variance_shares
    from unrelu.report.tables import column_table, correlation_table, fact_table

    header = read_header(model)
    learned = RectifiedGaussian.load(model)
    details = header.get("details")
    details = details if isinstance(details, dict) else {}
    columns = column_summaries(learned, **_known_per_column(details, learned.n_features))
    strongest = [replace(pair, stderr=_known_stderr(details, pair)) for pair in strongest_correlations(learned)]
    components = variance_shares(learned)
    facts = {
        "model": model,
        **_stated(header),
        "n_features": learned.n_features,
        "variance_shares": components,
        "columns": [asdict(column) for column in columns],
        "strongest_correlations": [asdict(pair) for pair in strongest],
        "details": details,
    }
    shown = [
        fact_table({**_described(learned, header, components), **_described_fit(details)}),
        column_table(columns),
        *([correlation_table(strongest)] if strongest else []),
    ]
    return Answer(facts, shown)


def _info_of_factors(path: Path) -> Answer:
    import numpy as np

    from unrelu.estimators.matrix import ReLUMatrixRecovery
    from unrelu.estimators.matrix_file import FORMAT
    from unrelu.report.factor_summary import (
        column_labels,
        component_summaries,
        component_table,
        rank_table,
        recovery_facts,
    )
    from unrelu.report.tables import fact_table

    header, recovery = FORMAT.header(path), ReLUMatrixRecovery.load(path)
    report, names = recovery.report_, column_labels(recovery)
    components, floor = component_summaries(recovery), np.asarray(recovery.floor)
    facts = {
        "factors": path,
        **_stated(header),
        "floor": floor,
        "floor_tolerance": recovery.floor_tolerance,
        "report": asdict(report),
        "weak_columns": [names[j] for j in report.weak_columns],
        "components": [asdict(component) for component in components],
    }
    described = {**_written(header), "floor": _range(floor.min(), floor.max()), **recovery_facts(report, names)}
    shown = [
        fact_table(described),
        *([rank_table(report)] if report.rank_errors else []),
        component_table(components),
    ]
    return Answer(facts, shown)


def _info_of_state(path: Path) -> Answer:
    from unrelu.recovery.matrix.state import FORMAT, SavedState
    from unrelu.report.tables import fact_table

    header, state = FORMAT.header(path), SavedState.load(path)
    run = {name: value for name, value in state.facts.items() if name not in ("shape", "cells", "floor")}
    facts = {
        "state": path,
        **_stated(header),
        "iterations": state.iterations,
        "residual": state.residual,
        "shape": state.facts["shape"],
        **run,
    }
    n, d = state.facts["shape"]
    described = {
        **_written(header),
        "table": f"{n:,} x {d:,}",
        "iterations": f"{state.iterations:,}",
        "relative residual": f"{state.residual:.3g}",
        **{name.replace("_", " "): _in_words(plain(value)) for name, value in run.items()},
        "to go on": f"unrelu factor --state {path}, with the same table and options",
    }
    return Answer(facts, [fact_table(described)])


def _info_of_peeled(path: Path) -> Answer:
    from unrelu.estimators.peeled_file import FORMAT
    from unrelu.estimators.peeling import Peeled
    from unrelu.report.peel_summary import Network

    header, peeled = FORMAT.header(path), Peeled.load(path)
    details = header.get("details")
    names = details.get("feature_names") if isinstance(details, dict) else None
    named = isinstance(names, list) and len(names) == len(peeled.layers[0].bias)  # details are the writer's own
    network = Network.of_peeled(peeled, names if named else None)
    used = f"{int(peeled.rows.sum()):,} of {len(peeled.rows):,}"
    law = {} if peeled.hidden_distribution is not None else {"innermost units": "their law was not learned"}
    return _info_of_network(path, header, network, {"rows explained": used, **law})


def _info_of_two_layers(path: Path) -> Answer:
    from unrelu.estimators.two_layer import TwoLayerReLULearner
    from unrelu.estimators.two_layer_file import FORMAT
    from unrelu.report.peel_summary import Network

    learner = TwoLayerReLULearner.load(path)
    model = "x = A h + a" if learner.output_bias else "x = A h"
    described = {"outputs": f"{model}, not rectified", "method": learner.method}
    return _info_of_network(path, FORMAT.header(path), Network.of_learner(learner), described)


def _info_of_network(path: Path, header: dict[str, Any], network: Network, described: dict[str, str]) -> Answer:
    from unrelu.report.peel_summary import network_facts, network_tables
    from unrelu.report.tables import fact_table

    facts = {"layers_file": path, **_stated(header), **network_facts(network)}
    return Answer(facts, [fact_table({**_written(header), **described}), *network_tables(network)])


def _stated(header: dict[str, Any]) -> dict[str, Any]:
    return {name: header.get(name) for name in ("format", "format_version", "unrelu_version")}


def _written(header: dict[str, Any]) -> dict[str, str]:
    version = header.get("unrelu_version", "of unknown version")
    return {"format": f"{header['format']} {header['format_version']}, written by unrelu {version}"}


def _known_per_column(details: dict[str, Any], n_features: int) -> dict[str, list[float]]:
    """Lists of one number per column, as far as the file holds them: details are the writer's own."""
    lists = details.get("columns")
    if not isinstance(lists, dict):
        return {}
    known = {"shares": "share_floored", "bias_stderr": "bias_stderr", "norm_stderr": "norm_stderr"}
    found = {name: lists.get(key) for name, key in known.items()}
    return {name: v for name, v in found.items() if isinstance(v, list) and len(v) == n_features}


def _known_stderr(details: dict[str, Any], pair: CorrelationSummary) -> float | None:
    listed = details.get("strongest_correlations")
    for known in listed if isinstance(listed, list) else ():
        if isinstance(known, dict) and (known.get("first"), known.get("second")) == (pair.first, pair.second):
            return known.get("stderr")
    return None


def _described(learned: RectifiedGaussian, header: dict[str, Any], components: list[float]) -> dict[str, str]:
    named = "" if learned.feature_names is not None else " (without names)"
    return {
        **_written(header),
        "columns": f"{learned.n_features:,}{named}",
        "floor": _range(learned.floor.min(), learned.floor.max()),
        "bias": _range(learned.bias.min(), learned.bias.max()),
        "norm": _range(learned.row_norms.min(), learned.row_norms.max()),
        "variance in the first components": ", ".join(f"{share:.1%}" for share in components)
        + " (columns standardized)",
    }


def _described_fit(details: dict[str, Any]) -> dict[str, str]:
    """The report and other single facts, under the names the file gives them."""
    report = details.get("report")
    flat = {
        **(report if isinstance(report, dict) else {}),
        **{k: v for k, v in details.items() if k != "report"},
    }
    per_model = {k: v for k, v in flat.items() if k not in ("columns", "strongest_correlations")}
    return {name.replace("_", " "): _in_words(plain(value)) for name, value in per_model.items()}


def _in_words(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "not set", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_in_words(item)}" for name, item in value.items())
    if isinstance(value, list):
        more = f" and {len(value) - 5:,} more" if len(value) > 5 else ""
        return ", ".join(_in_words(item) for item in value[:5]) + more
    return str(value)


def _range(low: float, high: float) -> str:
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
