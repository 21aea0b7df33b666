"""What is doubtful about a fit, from its record alone, with what to do about it.

Every rule compares what was counted with what the fitted model expects, so that a table that fits is left alone: the
chance of a finding on such a table is about one in a hundred, whatever the number of its columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from unrelu.contracts import Assembly, Assumptions, BoolArray, Doubt, FloatArray, PairCorrelations, RowParameters
from unrelu.doubts.skewness import skewness_of
from unrelu.errors import (
    DoubtfulTableWarning,
    EmptyGapWarning,
    FewRowsWarning,
    NothingFlooredWarning,
    RepeatedLimitWarning,
    SingularCovarianceWarning,
    SkewedColumnsWarning,
    TiedValuesWarning,
    UnstableEdgesWarning,
)
from unrelu.statistics.column_shapes import ColumnShapes
from unrelu.statistics.pair_moments import PairMoments
from unrelu.validation import column_label, listed, warn

_ALARM = 0.002  # chance of a finding of one kind on a table that fits
_REPEATED_SHARE, _REPEATED_COUNT = 0.005, 3.0  # of the rows, and of equal values, from which an end repeats
_BY_ROUNDING = 5.0  # times what a step of the table's numbers would explain
_NEAR = 1e-3  # of the size of a floor, or of a scale: rounding of whoever typed the floor
_TIED_SHARE, _COARSE = 0.5, 0.1  # values that are copies, and their step in standard deviations
_SKEWED, _SHIFTED = 0.3, 0.05  # skewness and shift of the mean (in standard deviations) that matter
_SINGULAR = 1e-6  # smallest eigenvalue of the correlations
_MOVED = 0.25  # standard errors by which the correlations had to be moved to fit together
_ROWS_A_COLUMN = 5.0

WARNINGS: dict[str, type[DoubtfulTableWarning]] = {
    "repeated minimum": RepeatedLimitWarning,
    "repeated maximum": RepeatedLimitWarning,
    "near the floor": RepeatedLimitWarning,
    "empty gap": EmptyGapWarning,
    "nothing floored": NothingFlooredWarning,
    "skewed": SkewedColumnsWarning,
    "ties": TiedValuesWarning,
    "no inverse": SingularCovarianceWarning,
    "few rows": FewRowsWarning,
    "unstable edges": UnstableEdgesWarning,
}


@dataclass(frozen=True, eq=False)
class _Table:
    """A fit, seen column by column. Numbers are those of the rows looked at, and as the learner saw them: latent, some
    columns upside down. Who is told of them wants the values of the table."""

    shapes: ColumnShapes
    rows: RowParameters
    assumptions: Assumptions

    @property
    def varying(self) -> BoolArray:
        return np.asarray(self.rows.scale > 0.0)

    @property
    def mirrored(self) -> BoolArray:
        return np.asarray(self.assumptions.mirrored or (False,) * len(self.rows.scale), dtype=np.bool_)

    def probability(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Of a value between the two, under the fitted model; 0 where they are not in order."""
        scale = np.where(self.varying, self.rows.scale, 1.0)
        below, above = ((level - self.rows.bias) / scale for level in (low, high))
        # From the nearer tail, where the difference of two numbers near 1 would lose all digits.
        upper = below > 0.0
        difference = np.where(upper, ndtr(-below) - ndtr(-above), ndtr(above) - ndtr(below))
        return np.asarray(self.varying * np.maximum(difference, 0.0))

    @property
    def sign(self) -> FloatArray:
        return np.where(self.mirrored, -1.0, 1.0)

    @property
    def curved(self) -> list[int]:
        """Columns that were learned as latent values."""
        return [j for j, shape in enumerate(self.assumptions.shapes) if shape.kind != "normal"]

    def of_kind(self, *kinds: str) -> BoolArray:
        shapes = self.assumptions.shapes
        return np.array([shape.kind in kinds for shape in shapes] if shapes else ["normal" in kinds] * len(self.sign))

    def told(self, learned: FloatArray) -> FloatArray:
        """Learned values as the user's table has them."""
        x = self.sign * learned
        for j in self.curved:
            x[j] = self.assumptions.shapes[j].from_latent(x[j])
        return x

    def learned(self, told: FloatArray) -> FloatArray:
        """Values of the user's table as the learner saw them."""
        y = told.copy()
        for j in self.curved:
            y[j] = self.assumptions.shapes[j].to_latent(y[j])
        return self.sign * y

    def at_end(self, end: int) -> FloatArray:
        """The smallest (0) or largest (1) values as the user's table has them."""
        return self.told(self.shapes.ends[end])

    @property
    def step(self) -> FloatArray:
        """Between two values of the user's table; 0 where it is not known."""
        step = np.where(np.isfinite(self.shapes.step), self.shapes.step, 0.0)
        for j in self.curved:
            step[j] = self.assumptions.shapes[j].seen.step
        return step

    def cell_of(self, told: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Learned values half a step below and above those of the user's table, in order."""
        ends = [self.learned(told + half * self.step) for half in (-0.5, 0.5)]
        return np.minimum(*ends), np.maximum(*ends)


def doubts_of(
    record: PairMoments, rows: RowParameters, assumptions: Assumptions, pairs: PairCorrelations, assembly: Assembly
) -> tuple[Doubt, ...]:
    """Everything doubtful about a fit to a record."""
    if record.shapes is None:
        return ()
    table = _Table(record.shapes, rows, assumptions)
    repeated = _repeated_end(table, 0)
    found = [*_repeated(table, repeated), *_gaps(table, repeated), *_nothing_floored(table, repeated)]
    explained = np.zeros(len(rows.scale), dtype=bool)
    explained[[column for doubt in found for column in doubt.columns if doubt.kind != "nothing floored"]] = True
    found += [*_skewed(table, explained), *_tied(table)]
    found += _matrix(record, int(np.count_nonzero(table.varying)), assumptions, pairs, assembly)
    return tuple(found)


def warn_of(doubts: Iterable[Doubt], names: tuple[str, ...] | None) -> None:
    """One warning for each kind of doubt."""
    for doubt in doubts:
        labels = [column_label(j, names) for j in doubt.columns]
        if doubt.values:
            digits = ".12g" if doubt.kind == "near the floor" else ".4g"  # of a number that is to be typed in
            labels = [f"{label}: {value:{digits}}" for label, value in zip(labels, doubt.values, strict=True)]
        where = f" In {listed(labels, most=6)}." if labels else ""
        warn(f"{doubt.words[0].upper()}{doubt.words[1:]}{where} {doubt.remedy}", WARNINGS[doubt.kind])


def _doubt(kind: str, which: BoolArray, words: str, remedy: str, values: FloatArray | None = None) -> list[Doubt]:
    columns = tuple(np.flatnonzero(which).tolist())
    if not columns:
        return []
    return [Doubt(kind, columns, words, remedy, () if values is None else tuple(values[list(columns)].tolist()))]


# --- single columns -------------------------------------------------------------------------------


def _repeated_end(table: _Table, end: int) -> BoolArray:
    """Columns whose smallest (0) or largest (1) value above the floor occurs too often for rounding to explain."""
    shapes = table.shapes
    weight = shapes.end_weights[end]
    with np.errstate(invalid="ignore"):  # levels of columns without values
        by_rounding = shapes.observed * table.probability(*table.cell_of(table.at_end(end)))
    often = weight >= np.maximum(_REPEATED_COUNT, _REPEATED_SHARE * shapes.observed)
    return np.asarray(often & (weight > _BY_ROUNDING * by_rounding + 2.0) & table.varying)


def _repeated(table: _Table, repeated: BoolArray) -> list[Doubt]:
    """Ends that repeat: the one at the floor may be the floor itself but for rounding."""
    shapes, floor = table.shapes, np.array(table.assumptions.floor)
    size = np.maximum(np.abs(np.where(np.isfinite(floor), floor, 0.0)), table.rows.scale)
    near = repeated & (shapes.ends[0] - floor <= _NEAR * size)
    found = _doubt(
        "near the floor",
        near,
        "many values lie within rounding of the floor, and none of them counts as floored.",
        "Give the floor as the table has it, or floor='min' (ceiling='max'), or a floor_tolerance.",
        table.at_end(0),
    )
    for end, columns in ((0, repeated & ~near), (1, _repeated_end(table, 1))):
        for mirrored in (False, True):
            low = (end == 0) != mirrored
            kind, extreme, limit, word = (
                ("repeated minimum", "smallest", "floor", "min")
                if low
                else ("repeated maximum", "largest", "ceiling", "max")
            )
            found += _doubt(
                kind,
                columns & (table.mirrored == mirrored),
                f"the {extreme} value repeats as a {limit} does, but is not named as one.",
                f"If it stands for all values beyond it, pass it as {limit}=, or say {limit}={word!r}.",
                table.at_end(end),
            )
    return found


def _gaps(table: _Table, repeated: BoolArray) -> list[Doubt]:
    """Nobody between the floor and the smallest value above it, where the model expects many (Poisson)."""
    shapes, floor = table.shapes, table.rows.floor
    floored = shapes.observed - shapes.sums[0] > 0.5
    expected = shapes.observed * table.probability(floor, shapes.ends[0])
    gap = floored & ~repeated & (expected > -np.log(_ALARM / len(floor))) & np.isfinite(floor)
    # A gap that is a step of the table's own numbers is no gap.
    with np.errstate(invalid="ignore"):
        gap &= np.abs(table.at_end(0) - table.told(floor)) > 1.5 * table.step
    return _doubt(
        "empty gap", gap,
        "no value between the floor and the smallest one above it, where the model expects many: what is at the floor"
        " may mean \"less than that value\".",
        "If so, pass that value as floor= (ceiling=); an exact 0 below a floor counts as floored.",
        table.at_end(0),
    )  # fmt: skip


def _nothing_floored(table: _Table, repeated: BoolArray) -> list[Doubt]:
    """No value at the floor, where the model expects many."""
    shapes, floor = table.shapes, table.rows.floor
    none = (shapes.observed - shapes.sums[0] < 0.5) & np.isfinite(floor) & ~repeated
    expected = shapes.observed * table.probability(np.full_like(floor, -np.inf), floor)
    return _doubt(
        "nothing floored", none & (expected > -np.log(_ALARM / len(floor))),
        "no value is at the floor, where a normal law with the column's mean and spread would have many.",
        "If the column has no floor there, say floor=None or name its own; if it is skewed, give it shape='auto'.",
    )  # fmt: skip


def _skewed(table: _Table, explained: BoolArray) -> list[Doubt]:
    """Values above the floor that are not the upper part of a normal, so far that it matters.

    A floor that nobody named bends a column as well: where one was found it is the explanation. Of free shapes there is
    nothing to say: their latent values are normal by construction.
    """
    test = skewness_of(table.shapes, table.rows)
    sure = (np.abs(test.z) > -ndtri(0.5 * _ALARM / len(test.z))) & ~explained
    matters = (np.abs(test.skewness) > _SKEWED) | (np.abs(test.shift) > _SHIFTED)
    sign, found = table.sign, []
    others = "'free'" if table.assumptions.shapes else "'log' or 'power'"
    for kinds, beyond, remedy in (
        (("normal",), "beyond what a normal law allows", f"Give these columns shape='auto', or {others}."),
        (("log", "power"), "even after their shape", "Give these columns shape='free', or 'auto'."),
    ):
        for right, words in ((True, "to the right"), (False, "to the left")):
            found += _doubt(
                "skewed", sure & matters & ((sign * test.skewness > 0.0) == right) & table.of_kind(*kinds),
                f"skewed {words} {beyond}: latent means, norms and correlations may be off by more than their standard"
                " errors (values: how far latent means are off, roughly, in norms).",
                remedy,
                sign * test.shift,
            )  # fmt: skip
    return found


def _many_ties(shapes: ColumnShapes) -> BoolArray:
    return np.asarray(shapes.different < (1.0 - _TIED_SHARE) * shapes.compared)


def _tied(table: _Table) -> list[Doubt]:
    """Few different values, far apart: counts, or numbers rounded coarsely."""
    size = table.shapes.step.copy()  # of a step, where most values are
    if table.curved:
        low, high = table.cell_of(table.told(np.maximum(table.rows.bias, table.shapes.ends[0])))
        size[table.curved] = (high - low)[table.curved]
    coarse = size > _COARSE * table.rows.scale
    return _doubt(
        "ties", _many_ties(table.shapes) & coarse & table.varying,
        "few different values (counts, or rounded coarsely), which the model takes for continuous ones (values: the"
        " step between them).",
        "Errors are then too small and densities mean little; use more digits, or a model for counts.",
        np.where(table.step > 0.0, table.step, table.shapes.step),
    )  # fmt: skip


# --- the matrix -----------------------------------------------------------------------------------


def _matrix(
    record: PairMoments, varying: int, assumptions: Assumptions, pairs: PairCorrelations, assembly: Assembly
) -> list[Doubt]:
    """Correlations without an inverse, by more than their errors or exactly; too few rows for that many columns."""
    found = []
    noise = np.sqrt(np.nanmean(pairs.stderr[np.triu_indices(len(pairs.stderr), 1)] ** 2)) if varying > 1 else 0.0
    lowest = assembly.smallest_eigenvalue
    singular = abs(lowest) < _SINGULAR or (lowest < 0.0 and assembly.shift_rms > _MOVED * noise)
    if varying > 1 and singular and assumptions.n_components is None and not pairs.perfect_pairs:
        found.append(
            Doubt(
                "no inverse",
                (),
                "the correlations have no inverse: some combination of the columns has no spread left.",
                "Scores and recovered values rest on shrunken correlations. Add rows, leave out columns that others"
                " determine, or give n_components.",
            )
        )
    if varying <= record.n_rows and record.effective_rows < _ROWS_A_COLUMN * varying:
        found.append(
            Doubt(
                "few rows",
                (),
                f"only {record.effective_rows / varying:.1f} rows a column: each correlation is learned by itself, and"
                " all of them together are less certain than each.",
                "Add rows, drop columns, or give n_components.",
            )
        )
    return found
