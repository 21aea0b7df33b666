"""Every way in which a real table gave a wrong answer without a warning, simulated so that the truth is known.

Before: the plain fit that the user tried, its root mean squared error in standard errors, and its diagnostics. After:
the remedy that these name, its root mean squared error in standard errors. A case is silent if it is wrong (beyond two
standard errors, root mean square over columns and repetitions) without a diagnostic.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

import unrelu
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

REPEATS, ROWS, COLUMNS = 8, 1000, 4
NAMES = ("As", "Cd", "Pb", "Zn")
CORRELATION = 0.5 + 0.5 * np.eye(COLUMNS)
Options = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """``table`` of latent normal z; the user's ``options``; the ``diagnostic`` expected; the remedy and its mean."""

    name: str
    table: Callable[[FloatArray], Any]
    truth: float | tuple[float, ...]
    options: Options = field(default_factory=dict)
    diagnostic: str = ""
    right_table: Callable[[FloatArray], Any] | None = None
    right: Options = field(default_factory=dict)
    right_truth: float | tuple[float, ...] | None = None


def lognormal(spread: float, hidden: float) -> Callable[[FloatArray], FloatArray]:
    return lambda z: np.maximum(np.exp(spread * z), np.exp(spread * ndtri(hidden)))


def logs(spread: float, hidden: float) -> Callable[[FloatArray], FloatArray]:
    return lambda z: np.log(lognormal(spread, hidden)(z))


def skewed_case(hidden: float, spread: float = 0.8) -> Case:
    level = float(np.exp(spread * ndtri(hidden)))
    return Case(
        f"raw lognormal columns (s={spread:g}), floor hides {hidden:.0%}",
        lognormal(spread, hidden),
        float(np.exp(spread**2 / 2.0)),
        {"floor": level},
        "skewed",
        logs(spread, hidden),
        {"floor": float(np.log(level))},
        0.0,
    )


def with_names(table: FloatArray) -> pd.DataFrame:
    return pd.DataFrame(table, columns=list(NAMES))


def with_two_floors(z: FloatArray) -> pd.DataFrame:
    table = z.copy()
    table[:, :2] = np.maximum(z[:, :2], [-0.5, 0.25])
    return with_names(table)


CASES = (
    skewed_case(0.3),
    skewed_case(0.5),
    skewed_case(0.7),
    skewed_case(0.9),
    skewed_case(0.6, 1.0),
    Case(
        "floor left at 0, 70 % equal the limit .25",
        lambda z: np.maximum(z - 0.274, 0.25),
        -0.274,
        {},
        "repeated-minimum",
        right={"floor": "min"},
    ),
    Case(
        "zeros that mean <.8",
        lambda z: np.where(z + 0.5 < 0.8, 0.0, z + 0.5),
        0.5,
        {},
        "empty-gap",
        right={"floor": 0.8},
    ),
    Case(
        "logged limit typed with four digits",
        lambda z: np.maximum(z, np.log(0.3)),
        0.0,
        {"floor": -1.2040},
    ),
    Case(
        "float16 table, floor log(.3)",
        lambda z: np.maximum(z, np.log(0.3)).astype(np.float16),
        0.0,
        {"floor": float(np.log(0.3))},
    ),
    Case(
        "only two of four columns have a floor",
        with_two_floors,
        0.0,
        {"floor": {"As": -0.5, "Cd": 0.25, "*": None}},
    ),
    Case(
        "floors as a Series in another order",
        with_two_floors,
        0.0,
        {"floor": pd.Series({"Zn": -np.inf, "Cd": 0.25, "As": -0.5, "Pb": -np.inf})},
    ),
    Case(
        "an instrument that saturates at 1.5",
        lambda z: np.clip(z, 0.0, 1.5),
        0.0,
        {},
        "repeated-maximum",
        lambda z: np.minimum(z, 1.5),
        {"ceiling": 1.5},
    ),
)


def fit(
    table: Callable[[FloatArray], Any], options: Options, truth: float | tuple[float, ...]
) -> tuple[float, set[str]]:
    """Root mean squared error of the latent means in standard errors; the kinds of diagnostics in every repetition."""
    errors, diagnostics = [], []
    for seed in range(REPEATS):
        z = np.random.default_rng(seed).multivariate_normal(np.zeros(COLUMNS), CORRELATION, size=ROWS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner = unrelu.RectifiedGaussianLearner(**{"method": "one_pass", "margins": "normal", **options}).fit(
                table(z)
            )
        errors.append((learner.mean_ - np.asarray(truth)) / learner.mean_stderr_)
        diagnostics.append({diagnostic.kind for diagnostic in learner.report_.diagnostics})
    return float(np.sqrt(np.mean(np.square(errors)))), set.intersection(*diagnostics)


def run() -> list[Claim]:
    claims, silent = [], 0
    for case in CASES:
        before, found = fit(case.table, case.options, case.truth)
        silent += before > 2.0 and not found
        kinds = ", ".join(sorted(found)) or "none"
        claims.append(Claim(f"{case.name}: rms z as tried", before, note=f"diagnostics: {kinds}"))
        if case.diagnostic:
            claims.append(
                Claim(
                    f"  diagnostic {case.diagnostic!r} in each of {REPEATS}", float(case.diagnostic in found), least=1.0
                )
            )
        truth = case.truth if case.right_truth is None else case.right_truth
        if not case.diagnostic:
            claims.append(Claim("  right", before, most=1.6))
        else:
            after, left_over = fit(case.right_table or case.table, case.right, truth)
            left = ", ".join(sorted(left_over)) or "none"
            claims.append(Claim("  rms z with the remedy", after, most=1.6, note=f"diagnostics: {left}"))
    return [*claims, Claim("wrong answers without a diagnostic", silent, most=0.0)]
