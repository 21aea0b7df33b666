"""Bad cells on one screen: a sample of the rows, rounds on it, all rows, one model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from unrelu.checks.findings import doubts_of, warn_of
from unrelu.checks.rows import look_at
from unrelu.contracts import (
    Assumptions,
    Block,
    BoolArray,
    Census,
    Evidence,
    FloatArray,
    LearningReport,
    Step,
    Watch,
    unwatched,
)
from unrelu.errors import HeavyTailsWarning, InvalidDataError, ManyBadCellsWarning, UnreluWarning
from unrelu.fit.one_pass import Learned, Names, learn_record, with_inverse
from unrelu.fit.robust_cells.law import CellLaw, Judged
from unrelu.fit.robust_cells.rounds import GENUINE, CellRoundQuestion, bad_counts, weighted_record
from unrelu.fit.robust_cells.shares import MOST_OF_A_COLUMN, left_columns, too_many, updated, with_outlier_rows
from unrelu.fit.robust_cells.starts import column_starts, near_middle, tails_for_bad
from unrelu.fit.robust_rows.components import GaussianComponent, Setting, gaussian_from
from unrelu.fit.robust_rows.table import check_table, often_repeated, sampled_table
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.passes.tiles import Subsample, tiles
from unrelu.posterior.density import Density
from unrelu.validation import label_columns, warn

JUDGING = "Judging cells"
_ROWS_PER_COLUMN = 5
_SHARE, _ROW_SHARE = 0.05, 0.02  # of bad cells and outlier rows, to start from
_OPEN_ROUNDS, _FEWEST_ROUNDS, _MOST_ROUNDS = 4, 7, 20
_SETTLED = 0.05  # standard errors
_FIFTH = 0.2  # outlier rows beyond which the model is in doubt, not they
_LOOKS = 3
_MOST_COPIES = 0.5  # of the rows that may be copies, and no draws of the model
_CLEAR = 0.2  # log density of a copy that it must gain to be one
_CLOSE = 0.25  # standard errors of all rows that the sample's error may leave


@dataclass(frozen=True)
class CellsReport(LearningReport):
    """How the learning went, and what became of the cells.

    ``share_bad``: cells that count less than half, those of outlier rows among them, and by column.
    ``share_downweighted``: rows that count less than half. ``strangest``: up to ten bad cells as (row, column, log odds
    of being genuine), both counted from 0.
    """

    rounds: int
    share_bad: float
    share_bad_by_column: tuple[float, ...]
    share_downweighted: float
    strangest: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, eq=False)
class CellsLearned(Learned):
    """The model of the genuine cells, and the law by which they are told from others.

    ``cell_weights`` (n x d) and ``row_weights``: probabilities of being genuine, 1 for a missing cell in a genuine row.
    ``doubtful``: columns of which more than a third would be bad.
    """

    row_weights: Annotated[FloatArray, "floats n"]
    cell_weights: Annotated[NDArray[np.float32], "floats n d"]
    law: CellLaw
    doubtful: tuple[int, ...] = ()


def learn_cells(evidence: Evidence, assumptions: Assumptions, seed: int, watch: Watch = unwatched) -> CellsLearned:
    """The model of the genuine cells of the genuine rows."""
    names = evidence.feature_names
    watch(Step(JUDGING, words="choosing rows to start on"))
    sample = sampled_table(evidence, assumptions, seed)
    _check(sample, assumptions, names)
    # Cells are judged by what fits them best; a rank or signs that the user assumes are for the result.
    free = replace(assumptions, n_components=None, nonnegative_bias=False, mirrored=(), shapes=())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # of fits on the way, not of the result
        left, rounds = np.zeros(len(assumptions.floor), dtype=np.bool_), 0
        while True:  # once more for every lot of columns that are left as they are
            with _among_genuine():
                law, more, doubtful = _on_sample(sample, free, left, watch)
            rounds += more
            look = law.look(sample.values)
            judged = law.weigh(look)
            beyond = _beyond(sample, judged, law)
            if not beyond.any():
                tails = tails_for_bad(law, sample.values, look, judged, sample.effective_weights)
                if _leaves_doubt(judged, sample):
                    watch(Step(JUDGING, words="all rows"))
                    record = evidence.collect(CellRoundQuestion(law, _question(free)), remember=False).record
                    law, rounds = _with(law, gaussian_from(record, Setting(free, None))), rounds + 1
                watch(Step(JUDGING, words="all rows, for the last time"))
                question = CellRoundQuestion(law, PairMomentsQuestion.under(free), telling=True)
                last, rounds = evidence.collect(question, remember=False), rounds + 1
                beyond = too_many(last.n_bad, np.stack([sample.observed, sample.above]))
                if not beyond.any():
                    break
            left = left | beyond
    with _among_genuine():
        stages = learn_record(last.record, assumptions, names)
    _warn(doubtful & ~left, left, tails, names)
    cells, rows = last.tables
    some = look_at(evidence, assumptions)
    if some is not None:
        bad = cells[some.rows] < GENUINE
        some = some.without_cells(bad).trimmed(rows[some.rows] > GENUINE, bool(bad.any()))
    doubts = doubts_of(last.record, stages.rows, assumptions, stages.pairs, stages.assembly, some)
    share_bad = (cells < GENUINE).mean(axis=0)
    report = CellsReport.of(
        "robust_cells",
        sample.n_rows,
        last.record.effective_rows,
        Census(sample.n_present, sample.observed, sample.above, last.record.count < 0.5),
        stages.assembly,
        rounds=rounds,
        share_bad=float(share_bad.mean()),
        share_bad_by_column=tuple(share_bad.tolist()),
        share_downweighted=float(np.mean(rows < GENUINE)),
        strangest=last.strangest,
        doubts=doubts,
        **assumptions.limits,
    )
    warn_of(report.doubts, names)
    model, report = with_inverse(stages, report, assumptions.n_components, last.record.weight)
    unsure = tuple(np.flatnonzero(doubtful | left).tolist())
    return CellsLearned(model, stages.rows, stages.pairs, stages.assembly, report, rows, cells, law, unsure)


def _beyond(sample: Subsample, judged: Judged, law: CellLaw) -> BoolArray:
    """Columns of which more than a third would be bad in the sample."""
    there = bad_counts(sample.values, np.zeros(sample.values.shape), law.floor)
    return too_many(bad_counts(sample.values, judged.genuine, law.floor), there)


def _leaves_doubt(judged: Judged, sample: Subsample) -> bool:
    """Whether cells of which it is not clear that they are bad, beside those that are, ask for a round of all rows."""
    if sample.n_present <= len(sample.rows):
        return False
    bad = 1.0 - judged.cells[~np.isnan(sample.values)]
    doubt = float(np.sum(bad * (1.0 - bad)) / max(float(bad.sum()), 1.0))  # what a round leaves of an error
    return bool(doubt * np.sqrt(sample.n_present / len(sample.rows)) > _CLOSE)


def _check(sample: Subsample, assumptions: Assumptions, names: Names) -> None:
    check_table(sample, assumptions, names)
    n, d = len(sample.rows), len(assumptions.floor)
    if n < _ROWS_PER_COLUMN * d:
        raise InvalidDataError(
            f"Only {n:,} rows for {d:,} columns: telling bad cells from genuine ones takes at least five rows a column."
            " Add rows, drop columns, or take a model that is not robust (one_pass)."
        )


def _question(assumptions: Assumptions) -> PairMomentsQuestion:
    return PairMomentsQuestion.under(assumptions, shapes=False)


def _on_sample(sample: Subsample, free: Assumptions, left: BoolArray, watch: Watch) -> tuple[CellLaw, int, BoolArray]:
    """(law, rounds taken, columns of which only the farthest cells were judged); of those ``left`` none are.

    Where a column's bad cells would be more than a third, its values are not those of a normal column with bad cells
    among them; all begins again, with the farthest cells alone for bad in such columns.
    """
    floor, values = np.array(free.censoring), sample.values
    middle, spread, judged = column_starts(values, floor)
    begun = CellLaw.starting(Density(middle, spread * judged, np.eye(len(floor))), spread, floor, _SHARE)
    begun = replace(begun, row_share=_ROW_SHARE, left=tuple(np.flatnonzero(left).tolist()))
    columns = begun.background.columns
    far = begun.background.far_bins(middle, spread)
    judged_here = judged & ~left
    bins, rows = judged_here[columns], bool(left.mean() <= 0.5)
    doubtful, rounds = np.zeros(len(floor), dtype=np.bool_), 0
    begin = near_middle(values, middle, spread, judged_here)
    for _ in range(_LOOKS):
        law, more = _likelier(begun, sample, begin, free, (bins, rows), watch)
        rounds += more
        beyond = (law.bad_by_column > MOST_OF_A_COLUMN) | _beyond(sample, law.judge(values), law)
        beyond &= ~doubtful & ~left
        if not beyond.any() and (law.row_share <= _FIFTH):
            break
        doubtful |= beyond
        bins = judged_here[columns] & (far | ~doubtful[columns])
        rows = rows and law.row_share <= _FIFTH
    return law, rounds, doubtful


def _likelier(
    begun: CellLaw, sample: Subsample, cells: FloatArray, free: Assumptions, may: tuple[BoolArray, bool], watch: Watch
) -> tuple[CellLaw, int]:
    """Where rows repeat, two starts: a model learned with copies, such as rows of zeros, explains them by correlations
    that it has from them. ``may``: bins in which cells may be bad, and whether rows may."""
    weights = sample.effective_weights
    everywhere, rounds = _settled(begun, sample, cells, weights, free, may, watch)
    copies = often_repeated(sample.values, begun.floor) & may[1]
    if not copies.any() or copies.mean() > _MOST_COPIES:
        return everywhere, rounds
    aside = with_outlier_rows(begun, sample.values, weights, copies)
    without, more = _settled(aside, sample, cells, weights * ~copies, free, may, watch)
    gain = without.log_likelihood(without.look(sample.values), weights)
    gain -= everywhere.log_likelihood(everywhere.look(sample.values), weights)
    numbers = 0.5 * np.log(weights.sum()) * len(begun.floor)  # as the BIC counts those of outlier rows
    # Densities of rows with many floored cells are known to some hundredths, all copies' to the same side.
    return (without if gain > numbers + _CLEAR * float(weights @ copies) else everywhere), rounds + more


def _settled(
    law: CellLaw,
    sample: Subsample,
    cells: FloatArray,
    rows: FloatArray,
    free: Assumptions,
    may: tuple[BoolArray, bool],
    watch: Watch,
) -> tuple[CellLaw, int]:
    """Rounds until the model stays: cells judged, shares of bad ones, and the model of the genuine ones. ``cells`` and
    ``rows``: their weights to begin with."""
    weights, setting, judged = sample.effective_weights, Setting(free, None), law.normal.varying
    before = gaussian_from(_sample_record(sample, cells, rows, free), setting)
    law = _with(law, before, judged)
    for rounds in range(1, _MOST_ROUNDS + 1):
        look = law.look(sample.values)
        law = updated(law, look, sample.values, weights, *may, choosing=rounds > _OPEN_ROUNDS)
        verdict = law.weigh(look)
        now = gaussian_from(_sample_record(sample, verdict.cells, weights * verdict.rows, free), setting)
        law = _with(law, now, judged)
        moved = _distance(before, now, float(weights.sum()))
        before = now
        words = f"{np.mean(law.bad_by_column):.1%} of the cells and {law.row_share:.1%} of the rows are bad"
        watch(Step(JUDGING, rounds, _MOST_ROUNDS, words))
        if rounds >= _FEWEST_ROUNDS and moved < _SETTLED:
            break
    return law, rounds


def _sample_record(sample: Subsample, cells: FloatArray, rows: FloatArray, free: Assumptions) -> PairMoments:
    block = Block(sample.values, 0, rows)
    parts = ((tile, cells[tile.first_row : tile.first_row + len(tile.values)]) for tile in tiles(block))
    return weighted_record(parts, _question(free), len(sample.values))


def _with(law: CellLaw, component: GaussianComponent, judged: BoolArray | None = None) -> CellLaw:
    """The law about another model; columns by which no cell can be judged stay so."""
    judged = law.normal.varying if judged is None else judged
    return replace(law, normal=Density(component.bias, component.scale * judged, component.correlation))


def _distance(one: GaussianComponent, other: GaussianComponent, n: float) -> float:
    """The largest change of a bias, norm or correlation, about in standard errors of a column without a floor."""
    scale = np.where(other.scale > 0.0, other.scale, 1.0)
    moved = np.abs(np.stack([one.bias - other.bias, one.scale - other.scale])) / scale
    return float(np.sqrt(n) * max(moved.max(), np.abs(one.correlation - other.correlation).max()))


@contextmanager
def _among_genuine() -> Iterator[None]:
    """Errors of fits say of which cells they speak."""
    try:
        yield
    except InvalidDataError as error:
        raise InvalidDataError(f"Among the cells that are taken for genuine: {error}") from error


def _warn(doubtful: BoolArray, left: BoolArray, tails: bool, names: Names) -> None:
    if tails:
        warn(
            "Cells that are taken for bad lie where the rest of their row says, only farther out, and no gap parts them"
            " from the others: the table may have heavier tails than a normal one, and no bad cells. shape='free'"
            " learns the tails of columns; method='one_pass' takes every cell for genuine.",
            HeavyTailsWarning,
        )
    if doubtful.any():
        warn(
            f"More than a third of the cells would be bad in {label_columns(doubtful, names)}: such a column is hardly"
            " a normal one with bad cells in it. Only cells far beyond all others were taken for bad there. If the"
            " column is skewed, give shape='auto'; if it is wrong as a whole, drop it.",
            ManyBadCellsWarning,
        )
    if left.any():
        warn(
            f"{left_columns(left, names)} They count as genuine in the fit. Another shape may fit the column; if it is"
            " wrong as a whole, drop it.",
            ManyBadCellsWarning,
        )
