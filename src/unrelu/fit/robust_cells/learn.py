"""Bad cells on one screen: a sample of the rows, rounds on it, all rows, one model.

Where to start: middle and spread of every column from two quantiles, which a tenth of bad cells hardly moves. Of a
column in two parts, far from each other, from quantiles of the larger one.

At the end: are cells taken for bad ones, or only the tails of a table that is heavier than a normal one? A bad cell
is independent of its row, or stands clearly apart from what the row predicts. The far cells of heavy tails do neither:
they lie where the row predicts, only farther out, and no gap says where they begin. So two numbers decide, over the
cells above their floor with the weights 1 - w of being bad, u their values in standard units and m what the rest of the
row predicts:

    r = corr(u, m),          unsure = sum w (1 - w) / sum (1 - w).

Of cells replaced by N(0, 9), shifted by 6 and 4, or of other rows, r is -.1 to .2 or unsure below .12; of t
distributions with 3 and 5 degrees of freedom r is .3 to .8 and unsure .16 to .36 (docs/research/034).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from unrelu.checks.findings import diagnostics_of
from unrelu.checks.misfit import sample_rows
from unrelu.contracts import (
    Assumptions,
    Block,
    BoolArray,
    ColumnCounts,
    Diagnostic,
    Evidence,
    FloatArray,
    LearningReport,
    Progress,
    Step,
    no_progress,
)
from unrelu.errors import InvalidDataError, UnreluWarning
from unrelu.fit.one_pass import Learned, learn_record
from unrelu.fit.robust_cells.cell_model import (
    MOST_OF_A_COLUMN,
    CellDensities,
    CellModel,
    CellProbabilities,
    too_many,
    update_shares,
    with_outlier_rows,
)
from unrelu.fit.robust_rows.mixture import GaussianComponent, Setting, gaussian_from
from unrelu.fit.robust_rows.table import check_table, middle_and_spread, often_repeated, sampled_table, spreads
from unrelu.passes.engine import one_blas_thread
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.passes.pair_sums import CellSums, Frame, tile_height
from unrelu.passes.tiles import Subsample, seen_above, tiles
from unrelu.posterior.cells import Values
from unrelu.posterior.density import Density

WEIGHING = "Weighing cells"
_ROWS_PER_COLUMN = 5
_SHARE, _ROW_SHARE = 0.05, 0.02  # of bad cells and outlier rows, to start from
_OPEN_ROUNDS, _FEWEST_ROUNDS, _MOST_ROUNDS = 4, 7, 20
_CONVERGED = 0.05  # standard errors
_MOST_OUTLIERS = 0.2  # share of outlier rows beyond which the model does not fit, rather than the rows
_TRIES = 3
_MOST_COPIES = 0.5  # of the rows that may be copies, and no draws of the model
_CLEAR = 0.2  # log density of a copy that it must gain to be one
_CLOSE = 0.25  # standard errors of all rows that the sample's error may leave
MOST_LISTED = 10
INLIER = 0.5  # from which weight on a cell is
_MOST_ROWS = 4096  # whose probabilities are computed at a time
# Of starts
_LOW, _HIGH = 0.25, 0.75  # quantiles, where both are above the floor
_ABOVE = 0.02  # the lower one is so much above the share at the floor
_PART = 0.45  # of what is above the lower one lies below the higher one, in a column that is mostly floored
_NEAR = 3.0
_PART_OF_TWO = 0.2
# Of heavy tails
_LEAST_CORRELATION, _LEAST_UNSURE = 0.25, 0.15
_SURE = 4.0  # standard errors of the correlation
_FARTHEST = 10.0  # standard units: one cell farther out must not speak for all


@dataclass(frozen=True)
class CellsReport(LearningReport):
    """How the learning went, and what became of the cells.

    ``share_bad``: cells that count less than half, those of outlier rows among them, and by column.
    ``share_downweighted``: rows that count less than half. ``most_outlying``: up to ten bad cells as (row, column,
    log odds of being an inlier), both counted from 0.
    """

    rounds: int
    share_bad: float
    share_bad_by_column: tuple[float, ...]
    share_downweighted: float
    most_outlying: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, eq=False)
class CellsLearned(Learned):
    """The model of the inlier cells, and the distribution that separates them from bad ones.

    ``cell_weights`` (n x d) and ``row_weights``: probabilities of being inliers, 1 for a missing cell in an inlier row.
    ``doubtful``: columns of which more than a third would be bad.
    """

    row_weights: Annotated[FloatArray, "floats n"]
    cell_weights: Annotated[NDArray[np.float32], "floats n d"]
    cell_model: CellModel
    doubtful: tuple[int, ...] = ()


def learn_cells(
    evidence: Evidence, assumptions: Assumptions, seed: int, progress: Progress = no_progress
) -> CellsLearned:
    """The model of the inlier cells of the inlier rows."""
    names = evidence.feature_names
    progress(Step(WEIGHING, words="choosing rows to start on"))
    sample = sampled_table(evidence, assumptions, seed)
    check_table(sample, assumptions, names)
    n, d = len(sample.rows), len(assumptions.floor)
    if n < _ROWS_PER_COLUMN * d:
        raise InvalidDataError(
            f"Only {n:,} rows for {d:,} columns: separating bad cells from inliers takes at least five rows a column."
            " Add rows, drop columns, or take a model that is not robust (one_pass)."
        )
    # Cells are compared with what fits them best; a rank or signs that the user assumes are for the result.
    free = replace(assumptions, n_components=None, nonnegative_mean=False, negated=(), margins=())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # of fits on the way, not of the result
        last, model, rounds, doubtful, left, tails = _learn_all_cells(evidence, sample, free, progress)
    with _errors_of_inliers():
        stages = learn_record(last.record, assumptions, names)
    cells, rows = last.tables
    some = sample_rows(evidence, assumptions)
    if some is not None:
        bad = cells[some.rows] < INLIER
        some = some.without_cells(bad).trimmed(rows[some.rows] > INLIER, bool(bad.any()))
    own = _own_diagnostics(doubtful & ~left, left, tails)
    diagnostics = diagnostics_of(last.record, stages.rows, assumptions, stages.pairs, stages.nearest, some)
    share_bad = (cells < INLIER).mean(axis=0)
    report = CellsReport.of(
        "robust_cells",
        sample.n_rows,
        last.record.effective_rows,
        ColumnCounts(sample.n_present, sample.observed, sample.above, last.record.count < 0.5),
        stages.nearest,
        rounds=rounds,
        share_bad=float(share_bad.mean()),
        share_bad_by_column=tuple(share_bad.tolist()),
        share_downweighted=float(np.mean(rows < INLIER)),
        most_outlying=last.most_outlying,
        diagnostics=(*own, *diagnostics),
        **assumptions.limits,
    )
    unsure = tuple(np.flatnonzero(doubtful | left).tolist())
    more = {"row_weights": rows, "cell_weights": cells, "cell_model": model, "doubtful": unsure}
    return CellsLearned.of(stages, report, assumptions.n_components, last.record.weight, **more)


def _learn_all_cells(
    evidence: Evidence, sample: Subsample, free: Assumptions, progress: Progress
) -> tuple[CellRound, CellModel, int, BoolArray, BoolArray, bool]:
    """(the record and weights of all cells, the distribution that gave them, rounds taken, doubtful columns, those left
    as they are, whether bad cells are rather heavy tails)."""
    left, rounds = np.zeros(len(free.floor), dtype=np.bool_), 0
    while True:  # once more for every lot of columns that are left as they are
        with _errors_of_inliers():
            model, more, doubtful = _on_sample(sample, free, left, progress)
        rounds += more
        densities = model.densities(sample.values)
        found = model.probabilities_of(densities)
        bad_columns = _bad_columns(sample, found, model)
        if not bad_columns.any():
            tails = tails_for_bad(model, sample.values, densities, found, sample.effective_weights)
            bad = 1.0 - found.cells[~np.isnan(sample.values)]
            unsure = float(np.sum(bad * (1.0 - bad)) / max(float(bad.sum()), 1.0))  # what a round leaves of an error
            more_rows = sample.n_present / len(sample.rows)
            if more_rows > 1.0 and unsure * np.sqrt(more_rows) > _CLOSE:
                progress(Step(WEIGHING, words="all rows"))
                question = partial(sum_cells, model, PairMomentsQuestion.under(free, margins=False), False)
                record = evidence.collect(question, remember=False).record
                model = _with(model, gaussian_from(record, Setting(free, None)), model.normal.varying)
                rounds += 1
            progress(Step(WEIGHING, words="all rows, for the last time"))
            question = partial(sum_cells, model, PairMomentsQuestion.under(free), True)
            last, rounds = evidence.collect(question, remember=False), rounds + 1
            bad_columns = too_many(last.n_bad, np.stack([sample.observed, sample.above]))
            if not bad_columns.any():
                return last, model, rounds, doubtful, left, tails
        left = left | bad_columns


def _bad_columns(sample: Subsample, found: CellProbabilities, model: CellModel) -> BoolArray:
    """Columns of which more than a third would be bad in the sample."""
    there = bad_counts(sample.values, np.zeros(sample.values.shape), model.floor)
    return too_many(bad_counts(sample.values, found.inlier, model.floor), there)


def _on_sample(
    sample: Subsample, free: Assumptions, left: BoolArray, progress: Progress
) -> tuple[CellModel, int, BoolArray]:
    """(distribution, rounds taken, columns of which only the farthest cells may be bad); of those ``left`` none may.

    Where a column's bad cells would be more than a third, its values are not those of a normal column with bad cells
    among them; all begins again, with the farthest cells alone for bad in such columns.
    """
    floor, values = np.array(free.censored_at), sample.values
    middle, spread, spreads_out = column_starts(values, floor)
    begun = CellModel.starting(Density(middle, spread * spreads_out, np.eye(len(floor))), spread, floor, _SHARE)
    begun = replace(begun, row_share=_ROW_SHARE, left=tuple(np.flatnonzero(left).tolist()))
    columns = begun.background.columns
    far = begun.background.far_bins(middle, spread)
    open_columns = spreads_out & ~left
    bins, rows = open_columns[columns], bool(left.mean() <= 0.5)
    doubtful, rounds = np.zeros(len(floor), dtype=np.bool_), 0
    begin = near_middle(values, middle, spread, open_columns)
    for _ in range(_TRIES):
        model, more = _likelier(begun, sample, begin, free, (bins, rows), progress)
        rounds += more
        bad_columns = (model.bad_by_column > MOST_OF_A_COLUMN) | _bad_columns(
            sample, model.probabilities(values), model
        )
        bad_columns &= ~doubtful & ~left
        if not bad_columns.any() and (model.row_share <= _MOST_OUTLIERS):
            break
        doubtful |= bad_columns
        bins = open_columns[columns] & (far | ~doubtful[columns])
        rows = rows and model.row_share <= _MOST_OUTLIERS
    return model, rounds, doubtful


def _likelier(
    begun: CellModel,
    sample: Subsample,
    cells: FloatArray,
    free: Assumptions,
    may: tuple[BoolArray, bool],
    progress: Progress,
) -> tuple[CellModel, int]:
    """Where rows repeat, two starts: a model learned with copies, such as rows of zeros, explains them by correlations
    that it has from them. ``may``: bins in which cells may be bad, and whether rows may."""
    weights = sample.effective_weights
    everywhere, rounds = _iterate(begun, sample, cells, weights, free, may, progress)
    copies = often_repeated(sample.values, begun.floor) & may[1]
    if not copies.any() or copies.mean() > _MOST_COPIES:
        return everywhere, rounds
    aside = with_outlier_rows(begun, sample.values, weights, copies)
    without, more = _iterate(aside, sample, cells, weights * ~copies, free, may, progress)
    gain = float(weights @ without.log_densities(without.densities(sample.values)))
    gain -= float(weights @ everywhere.log_densities(everywhere.densities(sample.values)))
    numbers = 0.5 * np.log(weights.sum()) * len(begun.floor)  # as the BIC counts those of outlier rows
    # Densities of rows with many floored cells are right to some hundredths, all copies' to the same side.
    return (without if gain > numbers + _CLEAR * float(weights @ copies) else everywhere), rounds + more


def _iterate(
    model: CellModel,
    sample: Subsample,
    cells: FloatArray,
    rows: FloatArray,
    free: Assumptions,
    may: tuple[BoolArray, bool],
    progress: Progress,
) -> tuple[CellModel, int]:
    """Rounds until the model stays: probabilities of cells, shares of bad ones, and the model of the inliers. ``cells``
    and ``rows``: their weights to begin with."""
    weights, varying = sample.effective_weights, model.normal.varying

    def fitted(cells: FloatArray, rows: FloatArray) -> GaussianComponent:
        at_a_time = tiles(Block(sample.values, 0, rows))
        parts = ((tile, cells[tile.first_row : tile.first_row + len(tile.values)]) for tile in at_a_time)
        record = weighted_record(parts, PairMomentsQuestion.under(free, margins=False), len(sample.values))
        return gaussian_from(record, Setting(free, None))

    before = fitted(cells, rows)
    model = _with(model, before, varying)
    for rounds in range(1, _MOST_ROUNDS + 1):
        densities = model.densities(sample.values)
        model = update_shares(model, densities, sample.values, weights, *may, choosing=rounds > _OPEN_ROUNDS)
        found = model.probabilities_of(densities)
        now = fitted(found.cells, weights * found.rows)
        model = _with(model, now, varying)
        words = f"{np.mean(model.bad_by_column):.1%} of the cells and {model.row_share:.1%} of the rows are bad"
        progress(Step(WEIGHING, rounds, _MOST_ROUNDS, words))
        # The largest change of a mean, standard deviation or correlation, about in standard errors of a column
        # without a floor.
        std = np.where(now.std > 0.0, now.std, 1.0)
        change = np.abs(np.stack([before.mean - now.mean, before.std - now.std])) / std
        moved = np.sqrt(weights.sum()) * max(change.max(), np.abs(before.correlation - now.correlation).max())
        before = now
        if rounds >= _FEWEST_ROUNDS and moved < _CONVERGED:
            break
    return model, rounds


def _with(model: CellModel, component: GaussianComponent, varying: BoolArray) -> CellModel:
    """The distribution about another model, in which columns that do not vary are constant."""
    return replace(model, normal=Density(component.mean, component.std * varying, component.correlation))


@contextmanager
def _errors_of_inliers() -> Iterator[None]:
    """Errors of fits name the cells that they are of."""
    try:
        yield
    except InvalidDataError as error:
        raise InvalidDataError(f"Among the cells that are taken for inliers: {error}") from error


def _own_diagnostics(doubtful: BoolArray, left: BoolArray, tails: bool) -> list[Diagnostic]:
    """Diagnostics of the cells, besides those of any fit."""
    found = []
    if tails:
        words = (
            "cells that are taken for bad lie where the rest of their row says, only farther out, and no gap parts them"
            " from the others: the table may have heavier tails than a normal one, and no bad cells."
        )
        remedy = "margins='monotone' learns the tails of columns; method='one_pass' takes every cell for an inlier."
        found.append(Diagnostic("tails-not-outliers", (), words, remedy))
    if doubtful.any():
        words = (
            "more than a third of the cells would be bad: such a column is hardly a normal one with bad cells in it,"
            " and only cells far beyond all others were taken for bad there."
        )
        remedy = "If the column is skewed, give margins='auto'; if it is wrong as a whole, drop it."
        found.append(Diagnostic("many-bad-cells", tuple(np.flatnonzero(doubtful).tolist()), words, remedy))
    if left.any():
        words = (
            "more than a third of the cells, or of those off their limit, would be bad: it is likelier that the column"
            " has another margin than that so many cells are bad, and all of them are left as they are, as inliers."
        )
        remedy = "Another margin may fit the column; if it is wrong as a whole, drop it."
        found.append(Diagnostic("many-bad-cells", tuple(np.flatnonzero(left).tolist()), words, remedy))
    return found


# --- one pass over the rows -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CellRound:
    """One pass: the record of the inlier cells; and, where it was the last, the probabilities of every cell.

    ``parts``, by first row: probabilities of being inliers, of a row's cells (single precision) and of itself;
    ``most_outlying``: the cells with the lowest log odds, as (row, column, log odds); ``n_bad``: numbers of cells that
    count less than half (2 x d: of all, of those above their floor).
    """

    record: PairMoments
    parts: tuple[tuple[int, NDArray[np.float32], FloatArray], ...]
    most_outlying: tuple[tuple[int, int, float], ...]
    n_bad: NDArray[np.int64]

    def merge(self, other: Self) -> Self:
        joined = _most_outlying(self.most_outlying + other.most_outlying)
        return type(self)(self.record.merge(other.record), self.parts + other.parts, joined, self.n_bad + other.n_bad)

    @property
    def tables(self) -> tuple[NDArray[np.float32], FloatArray]:
        """(n x d, n), in table order."""
        parts = sorted(self.parts, key=lambda part: part[0])
        return np.concatenate([cells for _, cells, _ in parts]), np.concatenate([rows for _, _, rows in parts])


def _most_outlying(cells: tuple[tuple[int, int, float], ...]) -> tuple[tuple[int, int, float], ...]:
    return tuple(sorted(cells, key=lambda cell: (cell[2], cell[0], cell[1]))[:MOST_LISTED])


def sum_cells(model: CellModel, question: PairMomentsQuestion, final: bool, block: Block) -> CellRound:
    """A question: sum the inlier cells of a block; ``final``: by the density that users see, and with the probabilities
    of every cell."""
    d = block.values.shape[1]
    parts: list[tuple[int, NDArray[np.float32], FloatArray]] = []
    most_outlying: list[tuple[int, int, float]] = []
    n_bad = np.zeros((2, d), dtype=np.int64)

    def weighted() -> Iterator[tuple[Block, FloatArray]]:
        for tile in tiles(block, min(tile_height(d), _MOST_ROWS)):
            found = model.probabilities(tile.values, final)
            if final:
                cells = np.where(np.isnan(tile.values), 1.0, found.inlier).astype(np.float32)
                parts.append((tile.first_row, cells, found.rows))
                rows, columns = np.nonzero(found.log_odds < 0.0)
                odds = found.log_odds[rows, columns]
                first = np.argsort(odds, kind="stable")[:MOST_LISTED]
                at = (rows[first] + tile.first_row).tolist(), columns[first].tolist(), odds[first].tolist()
                most_outlying.extend(zip(*at, strict=True))
                n_bad[:] += bad_counts(tile.values, cells, model.floor)
            weights = found.rows if tile.weights is None else found.rows * tile.weights
            yield Block(tile.values, tile.first_row, weights), found.cells

    record = weighted_record(weighted(), question, len(block.values))
    return CellRound(record, tuple(parts), _most_outlying(tuple(most_outlying)), n_bad)


def bad_counts(values: Values, inlier: NDArray[Any], floor: FloatArray) -> NDArray[np.int64]:
    """Numbers of cells that count less than half, 2 x d: of all, of those above their floor."""
    bad = (inlier < INLIER) & ~np.isnan(values)
    above = bad & (values > seen_above(floor, values))
    return np.stack([np.count_nonzero(bad, axis=0), np.count_nonzero(above, axis=0)])


def weighted_record(
    weighted: Iterator[tuple[Block, FloatArray]], question: PairMomentsQuestion, n_rows: int
) -> PairMoments:
    """The record of tiles whose cells have weights."""
    floor, lowest = np.array(question.floor), np.array(question.lowest)
    sums: CellSums | None = None
    with one_blas_thread():
        for tile, cells in weighted:
            if sums is None:
                bulk = np.where(cells > 0.0, tile.values, tile.values.dtype.type(np.nan))
                frame = Frame(Block(bulk, tile.first_row, tile.weights), floor, lowest, question.margins)
                sums = CellSums(frame)
            sums.add_weighted(tile, cells)
    assert sums is not None, "a block has at least one row"
    return PairMoments.of_sums(floor, n_rows, frame, sums.finished())


# --- where to start, and tails ----------------------------------------------------------------------


def column_starts(values: Values, floor: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """(middle, spread, whether the column spreads out at all), one each per column."""
    d = values.shape[1]
    middle, spread, spreads_out = np.empty(d), np.ones(d), np.zeros(d, dtype=np.bool_)
    for j in range(d):
        x = values[:, j].astype(np.float64)
        x = np.maximum(x[~np.isnan(x)], floor[j])
        middle[j] = float(np.median(x)) if len(x) else 0.0
        if len(x) and spreads(x, floor[j]):
            spreads_out[j], part = True, _main_part(x, floor[j])
            middle[j], spread[j] = middle_and_spread(x, floor[j])
            # Of the normal with two quantiles of what is seen, x_q = middle + spread z_q.
            low = max(float(np.mean(part <= floor[j])) + _ABOVE, _LOW)
            if low <= 0.95:
                both = [low, max(_HIGH, low + _PART * (1.0 - low))]
                at, z = np.quantile(part, both), ndtri(both)
                if at[1] > at[0]:
                    spread[j] = (at[1] - at[0]) / (z[1] - z[0])
                    middle[j] = at[0] - spread[j] * z[0]
    return middle, spread, spreads_out


def _main_part(x: FloatArray, floor: float) -> FloatArray:
    """The larger part of a column in two, each of a fifth of the values at least, with a gap between them that is wider
    than the larger one: quantiles of both together would be those of neither."""
    ordered = np.sort(x)
    fewest = int(_PART_OF_TWO * len(x))
    gaps = np.diff(ordered)[fewest : len(x) - fewest]
    if fewest == 0 or len(gaps) == 0:
        return x
    widest = int(np.argmax(gaps))
    end = fewest + widest + 1
    main = ordered[:end] if 2 * end >= len(x) else ordered[end:]
    low, high = np.quantile(main, [0.05, 0.95])
    apart = ordered[end - 1] > floor and 0.0 < high - low < gaps[widest]  # zeros below a gap are a matter of the floor
    return main if apart else x


def near_middle(values: Values, middle: FloatArray, spread: FloatArray, open_columns: BoolArray) -> FloatArray:
    """Weights of cells to begin with: 1 within three spreads of the middle, 0 beyond and where missing."""
    near = np.abs(values - middle) <= _NEAR * spread
    return np.where(np.isnan(values), 0.0, near | ~open_columns)


def tails_for_bad(
    model: CellModel, values: Values, densities: CellDensities, found: CellProbabilities, weights: FloatArray
) -> bool:
    """Whether cells that are taken for bad follow their rows as those of heavy tails do."""
    std = np.where(model.normal.varying, model.normal.scale, 1.0)
    counted = (values > seen_above(model.floor, values)) & model.normal.varying
    bad = np.where(counted, (1.0 - found.inlier) * weights[:, None], 0.0)
    total = float(bad.sum())
    if total < _SURE**2:
        return False
    unsure = float(np.sum(bad * found.inlier)) / total
    u = np.clip(np.where(counted, (values - model.normal.mean) / std, 0.0), -_FARTHEST, _FARTHEST)
    m = np.clip(densities.predicted[0], -_FARTHEST, _FARTHEST)
    u, m = u - np.sum(bad * u) / total, m - np.sum(bad * m) / total
    of_both = math.sqrt(float(np.sum(bad * u * u)) * float(np.sum(bad * m * m)))
    r = float(np.sum(bad * u * m)) / of_both if of_both > 0.0 else 0.0
    return unsure > _LEAST_UNSURE and r > max(_LEAST_CORRELATION, _SURE / math.sqrt(total))
