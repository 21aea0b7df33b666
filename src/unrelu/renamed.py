"""Old names, of before the first release: they are refused with the new one, for one release."""

from __future__ import annotations

from collections.abc import Iterable

NAMES = {
    "RectifiedGaussianNetwork": "RectifiedGaussianGraph",
    "activations": "learn_layer",
    "bias": "mean",
    "bias_": "mean_",
    "bias_stderr": "mean_stderr",
    "bias_stderr_": "mean_stderr_",
    "doubts": "diagnostics",
    "nonnegative_bias": "nonnegative_mean",
    "recall": "denoise",
    "reflected": "negated",
    "report": "write_html",
    "row_norms": "std",
    "row_norms_": "std_",
    "row_norms_stderr_": "std_stderr_",
    "score_cells": "cell_outlier_score",
    "score_rows": "outlier_score",
    "shape": "margins",
    "shaped": "with_margins",
    "shapes": "margins",
    "shapes_": "margins_",
    "strangeness": "outlier_score",
    "watch": "progress",
    "watched_by": "with_progress",
}
OPTIONS = {"--shape": "--margins", "--nonnegative-bias": "--nonnegative-mean", "--bias": "--mean"}
COMMANDS = {"network": "graph"}


def hint(name: str, offered: Iterable[str]) -> str:
    """What is said of a name that is not there: the new one, if there is one and it is offered.

    >>> hint("shapes_", ["margins_"]), hint("shapes_", ["mean_"])
    (': it is margins_ now', '')
    """
    new = NAMES.get(name)
    return f": it is {new} now" if new in set(offered) else ""


def refuse(called: str, given: Iterable[str], parameters: Iterable[str]) -> None:
    """Raise TypeError for a parameter of an old name."""
    for name in given:
        if name not in parameters and (said := hint(name, parameters)):
            raise TypeError(f"{called} has no parameter {name!r}{said}.")
