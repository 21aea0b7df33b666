"""How many components: one more as long as the BIC falls.

A new component is tried in several places, a few rounds of EM each; the most promising is run until its BIC is
settled, or until it is clear that it will not pay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from unrelu.contracts import Block, BoolArray, Evidence, FloatArray
from unrelu.posterior.row_scores import Values
from unrelu.robust.components import (
    Component,
    Gaussian,
    IndependentColumns,
    Setting,
    column_edges,
    gaussian_from,
)
from unrelu.robust.mixture import Mixture, Settled, settle, weighted_rows
from unrelu.robust.starts import standardized

_FIRST_ROUNDS = 6, 3  # up to _MANY_COLUMNS, and beyond: there a component costs so much that hopeless ones show early
_MANY_COLUMNS = 25
_WORST = 0.25  # the share of least likely rows on which a component is tried
_FEWEST_OPEN = 10  # rows
_SHARE = 0.1  # of the rows, to begin with
_WIDER = 3.0
_MOST_GAIN = 4.0  # log density a row, per standard deviation of the genuine rows' log density
_FAR = 20.0  # spreads, beyond which it does not matter how far


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows in memory on which components are tried, as values and as evidence."""

    values: Values
    weights: FloatArray
    evidence: Evidence


def grow(rows: Rows, settled: Settled, base: Mixture, setting: Setting, most: int, scattered: bool) -> Settled:
    """Add components to ``settled`` while that lowers the BIC, up to ``most`` Gaussian or scattered ones.

    The first is tried beside ``base`` instead: a fit to all rows may already have been drawn to the outliers.
    """
    while sum(component.n_parameters > 0 for component in settled.mixture.components) < most:
        grown = one_more(rows, base, setting, scattered, settled.bic)
        if grown is None:
            break
        settled, base = grown, grown.mixture
    return settled


def one_more(rows: Rows, mixture: Mixture, setting: Setting, scattered: bool, to_beat: float) -> Settled | None:
    """The best mixture with one more component, or None where none has a BIC below ``to_beat``.

    A race: all candidates run on until they can no longer catch up with the best of them.
    """
    first_rounds = _FIRST_ROUNDS[rows.values.shape[1] > _MANY_COLUMNS]
    racing = [
        settle(rows.evidence, mixture.with_component(component, _SHARE), first_rounds)
        for component in candidates(rows, mixture, setting, scattered)
    ]
    racing = [settled for settled in racing if has_genuine_majority(settled.mixture)]
    while racing:
        best = min(racing, key=lambda settled: settled.bic)
        bound = min(best.bic, to_beat)
        racing = [settled for settled in racing if settled is best or settled.hoped_bic < bound]
        if all(settled.is_settled or settled.hoped_bic >= to_beat for settled in racing):
            return best if best.bic < to_beat else None
        racing = [settled if settled.is_settled else settled.run_on(rows.evidence) for settled in racing]
        racing = [settled for settled in racing if has_genuine_majority(settled.mixture)]
    return None


def has_genuine_majority(mixture: Mixture) -> bool:
    """Scattered rows may be fewer than the genuine ones only: histograms fit any table that is not quite normal."""
    scattered = sum(
        float(share)
        for component, share in zip(mixture.components, mixture.shares, strict=True)
        if isinstance(component, IndependentColumns)
    )
    return scattered < float(mixture.shares[mixture.main])


def run_on(evidence: Evidence, settled: Settled) -> Settled:
    """EM until it settles."""
    while not settled.is_settled:
        settled = settled.run_on(evidence)
    return settled


def candidates(rows: Rows, mixture: Mixture, setting: Setting, scattered: bool) -> Iterator[Component]:
    """Components that may explain what ``mixture`` does not: rows of its main component, or of none."""
    share, density = mixture.posterior(rows.values)
    explained = [k for k, part in enumerate(mixture.components) if part.n_parameters > 0 and k != mixture.main]
    open_rows = share[:, explained].sum(axis=1) < 0.5
    if open_rows.sum() < _FEWEST_OPEN:
        return
    worst = open_rows & (density <= np.quantile(density[open_rows], _WORST))
    if not too_dear(mixture.main_component, rows):
        yield _gaussian_on(rows, worst, setting)
        yield mixture.main_component.widened(_WIDER)
        yield mixture.main_component.loosened()
        beyond = np.zeros(len(density), dtype=bool)
        beyond[open_rows] = split_column(rows.values[open_rows], setting.floor)
        yield _gaussian_on(rows, beyond, setting)
    if scattered and not any(isinstance(component, IndependentColumns) for component in mixture.components):
        edges = column_edges(rows.values, setting.floor)
        flat = IndependentColumns(edges, tuple(np.zeros(len(edge) + 1) for edge in edges))
        yield flat.refitted(flat.record(_weighted(rows, worst)))


def too_dear(component: Component, rows: Rows) -> bool:
    """Whether even half of the rows would have to gain more than overlapping groups ever do.

    Rows that gain more lie far from the genuine ones, and the component of the unexplained takes care of them.
    """
    n, d = rows.values.shape
    price_per_row = component.n_parameters * np.log(n) / n
    return bool(price_per_row > _MOST_GAIN * (1.0 + np.sqrt(d)))


def split_column(values: Values, floor: FloatArray) -> BoolArray:
    """The rows on the rarer side of the gap in the column that falls most clearly in two parts (Otsu 1979)."""
    z = np.clip(standardized(values, floor), -_FAR, _FAR)
    ordered = np.sort(z, axis=0)
    n = len(z)
    counts = np.arange(1, n)[:, None]
    total = np.cumsum(ordered, axis=0)
    low, high = total[:-1] / counts, (total[-1] - total[:-1]) / (n - counts)
    between = counts * (n - counts) / n**2 * (high - low) ** 2
    explained = between / np.maximum(z.var(axis=0), 1e-12)
    cut, column = np.unravel_index(int(np.argmax(explained)), explained.shape)
    beyond = z[:, column] > ordered[cut, column]
    return np.asarray(beyond if beyond.mean() <= 0.5 else ~beyond)


def _gaussian_on(rows: Rows, chosen: BoolArray, setting: Setting) -> Gaussian:
    return gaussian_from(setting.question(_weighted(rows, chosen)), setting)


def _weighted(rows: Rows, chosen: BoolArray) -> Block:
    return weighted_rows(rows.values, rows.weights * chosen)
