"""Correlations, means and filled cells of a table: as the default call gives them, its own options, and its rivals.

Rivals get the limits, and work on logarithms where values are positive, as their users would; np.corrcoef and
Spearman's correlation (as that of a normal, 2 sin(pi r / 6)) take the table as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

import unrelu
from benchmarks.defaults.kinds import D, Drawn
from benchmarks.rivals import ros
from unrelu.contracts import FloatArray
from unrelu.errors import UnreluError

MARGINS, METHODS = ("normal", "log", "monotone", "auto"), ("one_pass", "full_likelihood")
OWN: dict[str, dict[str, Any]] = {
    f"{margin}, {method}": {"margins": margin, "method": method} for method in METHODS for margin in MARGINS
}
ROBUST: dict[str, dict[str, Any]] = {  # where rows or cells are bad
    f"auto, {method}": {"margins": "auto", "method": method} for method in ("robust", "robust_cells")
}
QUANTITIES = ("correlations", "means", "cells")
LARGEST = 10.0  # times the largest value seen: what is above is absurd
PREDICTED = 50  # rows
UPPER = np.triu_indices(D, 1)


@dataclass(frozen=True, eq=False)
class Answer:
    """Mean squared errors by quantity, NaN where a method gives none."""

    errors: tuple[float, float, float]

    @classmethod
    def of(cls, table: Drawn, correlation: FloatArray, mean: FloatArray | None, filled: FloatArray | None) -> Answer:
        off = float(np.mean((correlation - table.correlation)[UPPER] ** 2))
        mean_off = np.nan if mean is None else float(np.mean(((mean - table.mean) / table.sd) ** 2))
        return cls((off, mean_off, np.nan if filled is None else table.cell_errors(filled)))


REFUSED = Answer((np.inf, np.inf, np.inf))


@dataclass(frozen=True, eq=False)
class Default(Answer):
    """The default call's errors in standard errors, its warnings, and the number of absurd values."""

    z_means: FloatArray
    z_correlations: FloatArray
    warned: tuple[str, ...]
    absurd: int

    @property
    def off(self) -> bool:
        """Whether the means of a table, or its correlations, are off by more than two standard errors (rms)."""
        return bool(max(rms(self.z_means), rms(self.z_correlations)) > 2.0)


def rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def uncut(table: Drawn, model: unrelu.RectifiedGaussian) -> tuple[FloatArray, FloatArray]:
    """Means and deviations of the columns in the table's units before the floor; of counts, as the table shows them."""
    nothing = np.full((1, D), np.nan)
    mean, std = (each[0] for each in model.impute(nothing, return_std=True, below="latent"))
    if table.kind.name == "counts":
        mean = np.array([model.predict(nothing, j).mean[0] for j in range(D)])
    return mean, std


def own(table: Drawn, options: dict[str, Any]) -> Answer:
    """With options; one that refuses the table is as far off as can be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            imputer = unrelu.FloorImputer(**table.options, **options).fit(table.x)
            mean, _ = uncut(table, imputer.distribution_)
            return Answer.of(table, imputer.correlation_, mean, imputer.transform(table.x))
        except UnreluError:
            return REFUSED


def default(table: Drawn, random_state: int = 0) -> Default:
    """The default call: nothing but a floor that is not 0. A refusal counts as a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            imputer = unrelu.FloorImputer(**table.options).fit(table.x)
            filled = imputer.transform(table.x)
        except UnreluError as error:
            nothing = np.zeros(D)
            return Default(REFUSED.errors, nothing, nothing, (f"refused: {type(error).__name__}",), 0)
    warned = [kind for each in caught for kind in getattr(each.message, "kinds", ())]
    warned += [diagnostic.kind for diagnostic in imputer.report_.diagnostics]
    mean, std = uncut(table, imputer.distribution_)
    answer = Answer.of(table, imputer.correlation_, mean, filled)
    with np.errstate(divide="ignore", invalid="ignore"):
        z_means = (mean - table.mean) / (std * imputer.mean_stderr_ / imputer.std_)
        z_correlations = ((imputer.correlation_ - table.correlation) / imputer.correlation_stderr_)[UPPER]
    absurd = count_absurd(table, imputer, filled, random_state) if table.kind.positive else 0
    return Default(
        answer.errors, np.nan_to_num(z_means), np.nan_to_num(z_correlations), tuple(dict.fromkeys(warned)), absurd
    )


def count_absurd(table: Drawn, imputer: unrelu.FloorImputer, filled: FloatArray, seed: int) -> int:
    """Filled, drawn, predicted and sampled values below 0 or above ten times the largest seen."""
    largest, model = LARGEST * np.where(table.hidden, 0.0, table.x).max(axis=0), imputer.distribution_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        several = [filled, imputer.draw(table.x, random_state=seed)[0], imputer.sample(len(table.x), random_state=seed)]
        predictions = [model.predict(table.x[:PREDICTED], j, hidden=True) for j in range(D)]
    for j, each in enumerate(predictions):
        column = np.full((each.quantiles.size + len(each.mean), D), 1e-300)
        column[:, j] = np.concatenate([each.mean, each.quantiles.ravel()])
        several.append(column)
    return sum(int(np.count_nonzero(~((values >= 0.0) & (values <= largest)))) for values in several)


# --- rivals -----------------------------------------------------------------------------------------


def on_logs(table: Drawn, fill: Callable[[FloatArray, Drawn], FloatArray]) -> Answer:
    """Cells filled in, of logarithms where values are positive; correlations and means of the completed table."""
    if not table.kind.positive:
        filled = fill(table.x, table)
        return Answer.of(table, np.corrcoef(filled, rowvar=False), filled.mean(axis=0), filled)
    logs = fill(np.log(table.x), table)
    return Answer.of(table, np.corrcoef(logs, rowvar=False), np.exp(logs).mean(axis=0), np.exp(logs))


def half(values: FloatArray, table: Drawn) -> FloatArray:
    """The limit / 2; the zeros stay where the limit is 0."""
    return np.where(table.hidden, values - np.log(2.0), values) if table.kind.positive else values


def order_statistics(values: FloatArray, table: Drawn) -> FloatArray:
    columns = zip(values.T, table.hidden.T, strict=True)
    return np.column_stack([ros.fill(column, hidden) for column, hidden in columns])


def iterative(values: FloatArray, table: Drawn) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        imputer = IterativeImputer(random_state=0, keep_empty_features=True)
        return np.asarray(imputer.fit_transform(np.where(table.hidden, np.nan, values)))


def as_it_is(table: Drawn) -> Answer:
    return Answer.of(table, np.corrcoef(table.x, rowvar=False), None, None)


def spearman(table: Drawn) -> Answer:
    ranks = np.asarray(spearmanr(table.x).statistic)
    return Answer.of(table, 2.0 * np.sin(np.pi * ranks / 6.0), None, None)


RIVALS: dict[str, Callable[[Drawn], Answer]] = {
    "limit/2": lambda table: on_logs(table, half),
    "ROS": lambda table: on_logs(table, order_statistics),
    "np.corrcoef": as_it_is,
    "Spearman": spearman,
    "IterativeImputer": lambda table: on_logs(table, iterative),
}
