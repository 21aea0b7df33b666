"""What a check of a model against a table gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.notebook import Shown, facts_html, plain_fields
from unrelu.validation import counted, listed


@dataclass(frozen=True)
class Remedy:
    """Something that was tried where a model does not fit.

    ``gain``: by how much the log density of rows that the fit has not seen is larger, on average, than by the model in
    force. ``helps``: that is more than chance, and less fails, or the model then ``fits``; ``note``: what is better, or
    why the remedy is none.

    >>> Remedy("shape='auto'", 0.61, helps=True, fits=True, note="the model then fits").helps
    True
    """

    name: str
    gain: float
    helps: bool = False
    fits: bool = False
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class FitCheck(Shown):
    """Does the model fit? All arrays are plain; those of columns have d numbers, those of pairs d x d (NaN diagonal).

    ``p_value``: of the whole table, right however many columns there are; ``columns_p_value`` and ``pairs_p_value`` of
    all columns and of all pairs together. ``column_p_value`` and ``pair_p_value`` are of each by itself, the
    ``adjusted`` ones allow for there being many. NaN where nothing can be tested: columns ``left_out`` (with the
    reason), and columns with a free shape, whose margin fits always. ``coarse`` columns have few different values.

    ``column_distance``: the largest difference of the distribution functions of table and model, a share of the rows.
    ``quantiles``: 4 x points x d, in the table's units: of the table, of the model, and where the table's would be 99
    times out of 100. ``observed`` and ``expected``: counts of rows, 2 x 2 x 2 x d x d: at two thresholds (the model's
    median and 80 % quantile of what is seen of a column), first column above it, second column above it.

    ``n_looked_at`` of ``n_rows`` rows were looked at; ``n_outlier_rows`` more were left out by the robust method.
    ``refitted``: the model was fitted to them, and so were the simulated tables; else it was taken as given.
    ``tried``: remedies that were tried because it does not fit, those that help first.
    """

    names: tuple[str, ...]
    shapes: tuple[str, ...]
    left_out: tuple[tuple[int, str], ...]
    coarse: tuple[bool, ...]
    n_rows: int
    n_looked_at: int
    n_outlier_rows: int
    n_simulations: int
    refitted: bool
    n_components: int | None
    level: float
    p_value: float
    columns_p_value: float
    pairs_p_value: float
    column_statistic: FloatArray
    column_p_value: FloatArray
    column_adjusted: FloatArray
    column_distance: FloatArray
    share_at_limit: FloatArray
    expected_share_at_limit: FloatArray
    pair_statistic: FloatArray
    pair_p_value: FloatArray
    pair_adjusted: FloatArray
    observed: FloatArray
    expected: FloatArray
    quantiles: FloatArray
    tried: tuple[Remedy, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the table is no stranger than tables of the model: its p-value is above the level."""
        return not self.p_value <= self.level

    def worst_columns(self, most: int = 10) -> list[int]:
        """Columns that were tested, those that fit worst first."""
        order = np.lexsort((-self.column_statistic, self.column_p_value, self.column_adjusted))
        return [int(j) for j in order if not np.isnan(self.column_p_value[j])][:most]

    def worst_pairs(self, most: int = 10) -> list[tuple[int, int]]:
        """Pairs of columns that were tested, those that fit worst first."""
        first, second = np.triu_indices(len(self.names), 1)
        keys = (-self.pair_statistic, self.pair_p_value, self.pair_adjusted)
        order = np.lexsort([key[first, second] for key in keys])
        pairs = [(int(first[k]), int(second[k])) for k in order]
        return [pair for pair in pairs if not np.isnan(self.pair_p_value[pair])][:most]

    @property
    def misfits(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Columns and pairs that do not fit, allowing for their number; none where the model fits.

        A column that does not fit spoils its pairs, which are then not named.
        """
        if self.fits:
            return [], []
        columns = [j for j in self.worst_columns(len(self.names)) if self.column_adjusted[j] <= self.level]
        pairs = [pair for pair in self.worst_pairs(len(self.names) ** 2) if self.pair_adjusted[pair] <= self.level]
        return columns, [pair for pair in pairs if not {*pair} & {*columns}]

    @property
    def verdict(self) -> str:
        """One sentence: fits or not, which columns, what to do."""
        who = "The model" if self.refitted else "The given model"
        rows = f"{counted(self.n_looked_at, 'row')}, {counted(self.n_simulations, 'simulated table')}"
        seen = f"p = {self.p_value:.3g}; {rows}"
        if self.fits:
            return f"{who} fits: nothing in the table is further from it than chance has it ({seen})."
        columns, pairs = self.misfits
        said = []
        if columns:
            shapes = listed(sorted({self.shapes[j] for j in columns}))
            counts = ", of few different values" if any(self.coarse[j] for j in columns) else ""
            said.append(f"not {shapes}{counts}: {listed(self.names[j] for j in columns)}")
        if pairs:
            told = listed(f"{self.names[i]} and {self.names[j]}" for i, j in pairs)
            said.append(f"not related as in the model: {told}")
        what = "; ".join(said) or "no single column or pair is to blame"
        if not self.refitted:
            return f"{who} does not fit ({seen}): {what}; fit a model to this table, and check that one."
        return f"{who} does not fit ({seen}): {what}. {self.advice}".rstrip()

    @property
    def advice(self) -> str:
        """What helps of all that was tried, and by how much; nothing where the model fits."""
        if not self.tried:
            return ""
        best = self.tried[0]
        if best.helps:
            likelier = f" (log density of rows held out: {best.gain:+.2g} each)" if best.gain > 0.0 else ""
            return f"{best.name} was tried and helps: {best.note}{likelier}."
        names = listed((remedy.name for remedy in self.tried), len(self.tried))
        whys = "; ".join(dict.fromkeys(remedy.note for remedy in self.tried if remedy.note))
        return f"Nothing that was tried helps ({names}){f': {whys}' if whys else ''}."

    def _repr_html_(self) -> str:
        return facts_html("FitCheck", {"verdict": self.verdict, **plain_fields(self)})

    def __repr__(self) -> str:
        return f"FitCheck({self.verdict})"
