"""How many components: one more as long as the BIC falls, from the best start and any other that leads elsewhere.

A new component is tried in several places, a few rounds of EM each; the most promising is run until its BIC has
converged, or until it is clear that it will not pay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from unrelu.contracts import Block, BoolArray, Evidence, FloatArray, Progress, Step, no_progress
from unrelu.fit.robust_rows.mixture import (
    TO_GAIN,
    Component,
    EMState,
    GaussianComponent,
    IndependentComponent,
    Mixture,
    NoiseComponent,
    RepeatedRowComponent,
    Setting,
    column_edges,
    gaussian_from,
    run_em,
    weighted_rows,
)
from unrelu.fit.robust_rows.table import Start, standardized
from unrelu.fit.shrinkage import enough_factors
from unrelu.passes.engine import LocalEngine, map_in_threads
from unrelu.posterior.cells import Values
from unrelu.posterior.density import rows_from_normals
from unrelu.tables import ArraySamples

CHOOSING = "Choosing groups of rows"

_FIRST_ROUNDS = 6, 3  # up to _MANY_COLUMNS, and beyond: there a component costs so much that hopeless ones show early
_MANY_COLUMNS = 25
_WORST = 0.25  # the share of least likely rows on which a component is tried
_FEWEST_OPEN = 10  # rows
_SHARE = 0.1  # of the rows, to begin with
_WIDER = 3.0
_MOST_GAIN = 4.0  # log density a row, per standard deviation of the inlier rows' log density
_FAR = 20.0  # spreads, beyond which it does not matter how far
_CALIBRATION_ROWS = 4000
_ROUNDS_OF_ONE = 10
_SAME_ROWS = 0.95  # kept or left out alike
_WIDE, _MOST_FACTORS = 100, 20  # columns, beyond which so few factors make densities far cheaper
_ROUNDS_FOR_FACTORS = 3
_NEAR = 1.0  # log-likelihood to be gained by rounds that a choice need not wait for


@dataclass(frozen=True, eq=False)
class SampledRows:
    """The rows in memory on which components are tried, as values and as evidence. ``progress`` gets the rounds
    of EM on them."""

    values: Values
    weights: FloatArray
    evidence: Evidence
    progress: Progress = no_progress

    @classmethod
    def of(cls, values: Values, weights: FloatArray, progress: Progress = no_progress) -> Self:
        samples = ArraySamples(values, weights=weights, block_rows=max(len(values), 1))
        return cls(values, weights, Evidence(samples, LocalEngine()), progress)

    def run_em(self, mixture: Mixture, most_rounds: int) -> EMState:
        return run_em(self.evidence, mixture, most_rounds, self._naming_groups(mixture))

    def run_on(self, state: EMState) -> EMState:
        """EM until hardly anything is to be gained."""
        while not state.is_within(TO_GAIN):
            state = state.run_on(self.evidence, self._naming_groups(state.mixture))
        return state

    def _naming_groups(self, mixture: Mixture) -> Progress:
        tried = f"{len(mixture.components)} groups"
        return lambda step: self.progress(Step(CHOOSING, words=f"{tried}, {step.words}"))

    def weighted(self, shares: FloatArray | BoolArray) -> Block:
        """The rows by such shares of their weights."""
        return weighted_rows(self.values, self.weights * shares)

    def gaussian_on(self, chosen: BoolArray, setting: Setting) -> GaussianComponent:
        return gaussian_from(setting.question(self.weighted(chosen)), setting)


def choose_mixture(
    rows: SampledRows,
    starts: list[Start],
    repeats: list[RepeatedRowComponent],
    setting: Setting,
    most: int,
    rng: np.random.Generator,
) -> EMState:
    """The mixture of lowest BIC, from the best start and any other that leads to other rows."""
    normals = rng.standard_normal((_CALIBRATION_ROWS, rows.values.shape[1]))
    noise = noise_below(starts[0].component, normals)

    def with_side_components(component: GaussianComponent) -> Mixture:
        shares = np.array([1.0] + [0.05] * (len(repeats) + 1))
        return Mixture((component, *repeats, noise), shares / shares.sum())

    setting = with_factors(rows, with_side_components(starts[0].component), setting)
    found: list[EMState] = []
    kept_by: list[BoolArray] = []
    for k, start in enumerate(starts):
        rows.progress(Step(CHOOSING, k, len(starts), f"from start {k + 1}"))
        component = replace(start.component, setting=setting)
        one = rows.run_em(with_side_components(component), _ROUNDS_OF_ONE)
        if not found:  # the level of the first goes for all, so that their likelihoods compare
            noise = noise_below(one.mixture.main_component, normals)
        parts = tuple(noise if isinstance(part, NoiseComponent) else part for part in one.mixture.components)
        one = rows.run_em(Mixture(parts, one.mixture.shares), _ROUNDS_OF_ONE)
        kept = one.mixture.posterior(rows.values)[0][:, one.mixture.main] > 0.5
        if any(np.mean(kept == other) > _SAME_ROWS for other in kept_by):
            continue
        kept_by.append(kept)
        base = with_side_components(component)
        for row in repeats:  # those that the model does not explain are kept: they lower the BIC
            fewer = rows.run_em(one.mixture.without(one.mixture.components.index(row)), _ROUNDS_OF_ONE)
            if fewer.hoped_bic <= one.hoped_bic:
                one, base = fewer, base.without(base.components.index(row))
        found.append(grow(rows, rows.run_on(one), base, setting, most))
    return min(found, key=lambda state: state.bic)


def with_factors(rows: SampledRows, mixture: Mixture, setting: Setting) -> Setting:
    """The setting of a wide table whose inlier rows are as likely by a few factors as by all correlations.

    Chosen once: EM of a component that went from one to the other would never converge.
    """
    if rows.values.shape[1] <= _WIDE:
        return setting
    mixture = rows.run_em(mixture, _ROUNDS_FOR_FACTORS).mixture
    inlier = mixture.posterior(rows.values)[0][:, mixture.main]
    _, pairs, n = setting.fit(setting.question(rows.weighted(inlier)))
    return replace(setting, factors=enough_factors(pairs, n, _MOST_FACTORS))


def noise_below(component: GaussianComponent, normals: FloatArray) -> NoiseComponent:
    """Density of the unexplained: that of the inlier rows twice as far out as their lowest percent."""
    distribution, floor = component.density, np.array(component.setting.assumptions.floor)
    rows = rows_from_normals(normals, distribution.mean, distribution.scale, distribution.correlation, floor)
    scores = distribution.score(rows, converged=False)
    level = 2.0 * float(np.quantile(scores, 0.01)) - float(np.median(scores))
    return NoiseComponent(level, distribution.log_cell_unit, component.setting.floor)


def grow(rows: SampledRows, state: EMState, base: Mixture, setting: Setting, most: int) -> EMState:
    """Add components to ``state`` while that lowers the BIC, up to ``most`` Gaussian or scattered ones.

    The first is tried beside ``base`` instead: a fit to all rows may already have been drawn to the outliers.
    """
    while sum(component.n_parameters > 0 for component in state.mixture.components) < most:
        grown = one_more(rows, base, setting, state.bic)
        if grown is None:
            break
        rows.progress(Step(CHOOSING, words=f"{len(grown.mixture.components)} groups lower the BIC to {grown.bic:,.0f}"))
        state, base = grown, grown.mixture
    return rows.run_on(state)


def one_more(rows: SampledRows, mixture: Mixture, setting: Setting, to_beat: float) -> EMState | None:
    """The best mixture with one more component, or None where none has a BIC below ``to_beat``.

    A race: all candidates run on until they can no longer catch up with the best of them.
    """

    def run_on(state: EMState) -> EMState:
        return state if state.is_within(_NEAR) else state.run_on(rows.evidence)

    def has_inlier_majority(state: EMState) -> bool:
        """Scattered rows may be fewer than the inlier ones only: histograms fit any table that is not quite normal."""
        found = state.mixture
        scattered = [isinstance(component, IndependentComponent) for component in found.components]
        return bool(found.shares[scattered].sum() < found.shares[found.main])

    first_rounds = _FIRST_ROUNDS[rows.values.shape[1] > _MANY_COLUMNS]
    tried: list[Component] = list(candidates(rows, mixture, setting))
    if (background := scattered_candidate(rows, mixture, setting)) is not None:
        tried.append(background)
    racing = map_in_threads(
        lambda component: run_em(rows.evidence, mixture.with_component(component, _SHARE), first_rounds), tried
    )
    racing = list(filter(has_inlier_majority, racing))
    while racing:
        best = min(racing, key=lambda state: state.bic)
        bound = min(best.bic, to_beat)
        racing = [state for state in racing if state is best or state.hoped_bic < bound]
        if all(state.is_within(_NEAR) or state.hoped_bic >= to_beat for state in racing):
            return best if best.bic < to_beat else None
        rows.progress(Step(CHOOSING, words=f"{len(racing)} ways to add a group, the best with BIC {best.bic:,.0f}"))
        racing = list(filter(has_inlier_majority, map_in_threads(run_on, racing)))
    return None


def candidates(rows: SampledRows, mixture: Mixture, setting: Setting) -> Iterator[GaussianComponent]:
    """Gaussians that may explain what ``mixture`` does not: rows of its main component, or of none."""
    found = _badly_explained(rows, mixture)
    main, (n, d) = mixture.main_component, rows.values.shape
    # Rows that gain more than overlapping groups ever do lie far from the inliers, and the component of the
    # unexplained takes care of them: no group is worth trying where even half of the rows would have to gain so much.
    if found is None or main.n_parameters * np.log(n) / n > _MOST_GAIN * (1.0 + np.sqrt(d)):
        return
    open_rows, worst = found
    yield rows.gaussian_on(worst, setting)
    yield main.widened(_WIDER)
    yield replace(  # the same columns, but independent
        main, correlation=np.eye(d), loadings=None if main.loadings is None else np.zeros((d, 0))
    )
    rarer = np.zeros(n, dtype=bool)
    rarer[open_rows] = split_column(rows.values[open_rows], setting.floor)
    yield rows.gaussian_on(rarer, setting)


def scattered_candidate(rows: SampledRows, mixture: Mixture, setting: Setting) -> IndependentComponent | None:
    """A background for rows that no group explains, unless there is one."""
    found = _badly_explained(rows, mixture)
    if found is None or any(isinstance(component, IndependentComponent) for component in mixture.components):
        return None
    flat = IndependentComponent.flat(column_edges(rows.values, setting.floor))
    return flat.refitted(flat.record(rows.weighted(found[1])))


def _badly_explained(rows: SampledRows, mixture: Mixture) -> tuple[BoolArray, BoolArray] | None:
    """(rows of the main component or of none, the least likely of these); None where they are too few."""
    share, density = mixture.posterior(rows.values)
    explained = [k for k, part in enumerate(mixture.components) if part.n_parameters > 0 and k != mixture.main]
    open_rows = share[:, explained].sum(axis=1) < 0.5
    if open_rows.sum() < _FEWEST_OPEN:
        return None
    return open_rows, open_rows & (density <= np.quantile(density[open_rows], _WORST))


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
    above = z[:, column] > ordered[cut, column]
    return np.asarray(above if above.mean() <= 0.5 else ~above)
