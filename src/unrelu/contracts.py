"""Every interface and every record that crosses a stage, on one page.

    samples --blocks--> engine(question) --record--> evidence --> marginals, correlations --> model

A *question* turns a block of rows into a record; records of disjoint rows merge, wherever the rows live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InvalidParameterError
from unrelu.notebook import Shown

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Censoring = NDArray[np.int8]  # what Block.beyond says of cells


# --- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowLabels:
    """The group of every row: row i belongs to ``labels[index[i]]``."""

    index: NDArray[np.integer[Any]]
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Block:
    """A run of consecutive rows. ``values`` is n x d (float32 or float64), NaN where missing.

    ``censoring`` is n x d: -1 where a cell only says "at most its number", 1 where it says "at least", 0 where the
    number was seen, or is missing. None: the cells at their column's floor are at most it, and the others were seen.
    """

    values: NDArray[np.floating[Any]]
    first_row: int = 0
    weights: FloatArray | None = None
    groups: RowLabels | None = None
    censoring: Censoring | None = None

    @property
    def n_rows(self) -> int:
        """How many rows these are, told without making sparse ones dense or bringing those of a device here."""
        return len(self.values)

    def some_rows(self, chosen: NDArray[np.intp]) -> NDArray[np.floating[Any]]:
        """Values of some rows, in order; no others are made dense or brought here."""
        return self.values[chosen]


@dataclass(frozen=True)
class CellLimits:
    """Limits that cells of a table state themselves, "<0.25" or ">100": (position of the column, limit), one a column.

    Such cells hold the limit itself, and no value of the column is beyond it.
    """

    floor: tuple[tuple[int, float], ...] = ()
    ceiling: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Part:
    """Some neighbouring rows. ``read(*needs)``, which can be pickled, gives their blocks, counted from 0.

    ``needs`` are arrays, or what the engine computes before.
    """

    read: Callable[..., Iterable[Block]]
    n_rows: int
    needs: tuple[Any, ...] = ()


Ask = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""``ask(function, items)``: have workers find out what is needed before the rows are cut into parts."""


class Samples:
    """Rows that can be read again and again, block by block, in a fixed order, and all that can be asked of them.

    Every kind of rows derives from this class and says what differs; here are the plain answers. A class of your own
    needs ``n_features``, ``feature_names`` (or None), ``n_rows`` (or None) and ``blocks()``: derive it from this one
    and give what differs beside these four, or derive it from nothing, and estimators wrap it
    (:func:`unrelu.passes.rows.as_rows`).
    """

    n_features: int
    feature_names: tuple[str, ...] | None = None
    limits: CellLimits | None = None
    """Limits that cells of the table state themselves, if some do."""
    limits_by_cell: tuple[int, ...] = ()
    """Columns whose cells have limits of their own, marked in ``Block.censoring``; they have no floor and no
    ceiling."""
    engine: Callable[..., Engine] | None = None
    """``engine(progress, stage)``: who reads the rows (of the ``source``), if not this process."""
    place: Any = None
    """The device (:class:`unrelu.passes.device.Place`) that the rows are on, if on one."""
    in_memory: bool = False
    """Whether reading ahead would gain nothing."""
    read_once: bool = False
    """Whether they can be read only once."""
    stored_as: Any = None
    """The type of the numbers, or a function of levels to levels as stored there."""
    matrix: Any = None
    """A sparse matrix of the rows, if they are of one."""
    skipped_files: Mapping[str, str] = MappingProxyType({})
    """Files that were bad and are left out, and why."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, or None where only a full read can tell."""
        return None

    @property
    def notes(self) -> list[str]:
        """What cells that are no plain numbers were read as, a line a column."""
        return []

    def blocks(self) -> Iterator[Block]:
        raise NotImplementedError

    def blocks_from(self, row: int) -> Iterator[Block]:
        """The blocks of the rows from this one on, counted from 0."""
        for block in self.blocks():
            if block.first_row >= row:
                yield replace(block, first_row=block.first_row - row)

    def whole(self) -> Iterator[Block]:
        """The blocks, as large as they can be: whoever asks cuts them."""
        return self.blocks()

    @property
    def source(self) -> Samples:
        """The rows as they are where they live, before anything was told in another way."""
        return self

    def over(self, source: Samples) -> Samples:
        """Other rows told as these are."""
        return source

    def parts(self, ask: Ask) -> list[Part] | None:  # noqa: ARG002 - for rows that know how
        """The rows as parts that another process reads; None where none can."""
        return None

    def provenance(self) -> dict[str, Any] | None:
        """Which files these are and how they are read, where an interrupted pass could go on."""
        return None

    def ids(self) -> dict[str, list[str]]:
        """Columns that are kept as text, by name."""
        return {}

    def row_label(self, row: int) -> str:
        """What a user calls a row that is counted from 0: counted from 1, with its file and line if it has any."""
        return f"row {row + 1:,}"

    def log_slopes(self) -> Any:
        """One number per row: what its log density gains in the user's units; 0 for rows that are in these."""
        return 0.0

    def weighted(self, weights: Any) -> Samples:  # noqa: ARG002
        """The same rows with a weight each."""
        raise InvalidParameterError("sample_weight goes with a table in memory, not with rows read in blocks.")

    def split_column(self, name: str | int) -> tuple[Samples, NDArray[Any]]:
        """The rows without a column, and the cells of that column as they stand."""
        raise InvalidParameterError(
            f"groups={name!r} names a column, which only data frames and files have: give one label per row."
        )


# --- questions ----------------------------------------------------------------------------------


class Record(Protocol):
    """An answer about some rows. ``merge`` joins the answers of disjoint rows."""

    def merge(self, other: Self) -> Self: ...


R = TypeVar("R", bound=Record)
R_co = TypeVar("R_co", bound=Record, covariant=True)


class Question(Protocol[R_co]):
    """A picklable, hashable callable: block of rows -> record."""

    def __call__(self, block: Block) -> R_co: ...

    def __hash__(self) -> int: ...


class Engine(Protocol):
    """Runs one pass: asks ``question`` of every block and merges the records in block order."""

    def collect(self, samples: Samples, question: Question[R]) -> R: ...


class Evidence:
    """What learners may know of the data: answers to questions, each found by one pass of the engine and remembered.

    Without samples only what was answered before is known: a saved record then stands in for the rows.
    """

    def __init__(
        self,
        samples: Samples | None,
        engine: Engine | None = None,
        *,
        answers: Mapping[Any, Any] | None = None,
        feature_names: tuple[str, ...] | None = None,
        place: Any = None,
    ) -> None:
        self.samples: Any = samples
        self.engine, self.answers = engine, dict(answers or {})
        self.feature_names = feature_names if samples is None else samples.feature_names
        self.place = place if samples is None else samples.source.place
        """The device that the rows are on, if on one: what is solved from them may use it."""

    def collect(self, question: Question[R], remember: bool = True) -> R:
        """The record of all rows. Raises what the question raises; nothing is remembered then."""
        if question in self.answers:
            known: R = self.answers[question]
            return known
        if self.engine is None:
            raise LookupError(f"Only answers to {list(self.answers)} were kept; {question} needs the rows again.")
        record = self.engine.collect(self.samples, question)
        if remember:
            self.answers[question] = record
        return record


# --- long work ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """How far long work has come: the stage, how much of it is done, and words on what was found.

    ``total`` is None where it is not known. ``state`` is what could be kept to go on from here, if anything.
    """

    stage: str
    done: int = 0
    total: int | None = None
    words: str = ""
    state: Any = None


Progress = Callable[[Step], None]
"""Hears of every step. What it raises ends the work, with nothing half done."""


def no_progress(step: Step) -> None:
    """Nobody watches."""


# --- what the stages hand on --------------------------------------------------------------------


@dataclass(frozen=True)
class Assumptions:
    """What the user says about the model, whatever the method.

    ``floor``: one number per column, -inf where there is none. ``nonnegative_mean``: every mean is at or above its
    floor, as Wu et al. 2019 and Bulusu et al. 2022 assume. ``n_components``: the number k of latent inputs z, so that S
    = W W' has rank k (None: any rank), but for noise where a method has it; ``auto_components``: k is to be found.
    ``floor_tolerance``: noise after the floor; values within it of the floor count as floored, so that a value is only
    taken for what it is from floor + tolerance on. ``negated``: columns with a ceiling, whose values are shown upside
    down, so that the ceiling is a floor; none where empty. A column whose cells have limits of their own has the floor
    -inf, so that draws of its model are not cut off. ``margins`` (:mod:`unrelu.margins`): what turned the user's values
    into those that are learned from; none where empty.
    """

    floor: tuple[float, ...]
    nonnegative_mean: bool = False
    n_components: int | None = None
    floor_tolerance: float = 0.0
    negated: tuple[bool, ...] = ()
    margins: tuple[Any, ...] = field(default=(), compare=False, metadata={"in files": False})
    auto_components: bool = False

    @property
    def limits(self) -> dict[str, Any]:
        """Floors and ceilings as a user knows them and reports give them, None where there is none."""
        both = tuple(zip(self.floor, (self.sign < 0.0).tolist(), strict=True))
        floors = tuple(None if turned or level == -np.inf else level for level, turned in both)
        return {"floor": floors, "ceiling": tuple(-level if turned else None for level, turned in both)}

    @property
    def sign(self) -> FloatArray:
        """-1 for columns that are negated, 1 for the others."""
        return np.where(self.negated or (False,) * len(self.floor), -1.0, 1.0)

    @property
    def censored_at(self) -> tuple[float, ...]:
        """The value at or below which a cell only says "not above": floor + tolerance."""
        return tuple(floor + self.floor_tolerance for floor in self.floor)

    @property
    def lowest(self) -> tuple[float, ...]:
        """The least value a cell may have: floor - tolerance."""
        return tuple(floor - self.floor_tolerance for floor in self.floor)


@dataclass(frozen=True, eq=False)
class RowParameters:
    """Bias b_i and scale s_i = |W(i,:)| of every coordinate, measured from zero (not from the floor).

    ``floor`` is where values are censored (floor + tolerance). ``mean_std_covariance`` is d x 2 x 2: the sampling
    covariance of (b_i, s_i), NaN from a method that gives none. ``influence`` is d x 2 x 3: how a row's statistics (p,
    v, v^2) of :mod:`unrelu.kernels.pair_solver` move (b_i, s_i), in units of s_i; standard errors of what is estimated
    next account for the marginals with it. ``std`` is 0 for a constant column, whose errors are 0.
    """

    mean: Annotated[FloatArray, "floats d"]
    std: Annotated[FloatArray, "floats d"]
    floor: Annotated[FloatArray, "unbounded floats d"]
    mean_std_covariance: Annotated[FloatArray, "unbounded floats d 2 2"]
    influence: Annotated[FloatArray, "unbounded floats d 2 3"]

    @property
    def mean_stderr(self) -> FloatArray:
        return np.sqrt(self.mean_std_covariance[:, 0, 0])

    @property
    def std_stderr(self) -> FloatArray:
        return np.sqrt(self.mean_std_covariance[:, 1, 1])


@dataclass(frozen=True, eq=False)
class PairCorrelations:
    """Latent correlations r_ij (unit diagonal, perhaps indefinite) and their standard errors."""

    correlation: Annotated[FloatArray, "unbounded floats d d"]
    stderr: Annotated[FloatArray, "unbounded floats d d"]
    perfect_pairs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class NearestCovariance:
    """How the correlations were made one semidefinite matrix (of rank ``n_components``, if asked).

    ``smallest_eigenvalue`` is that of the estimated correlations before; ``shift_max`` and ``shift_rms`` say how
    far the off-diagonal correlations moved.
    """

    smallest_eigenvalue: float
    shift_max: float = 0.0
    shift_rms: float = 0.0
    rounds: int = 0
    converged: bool = True


@dataclass(frozen=True)
class Shrinkage:
    """How the correlations were made invertible for scores: mixed with a model of ``target_rank`` factors and noise.

    ``amount``: the weight of that model; 0 where rows are scored by the estimate itself. ``smallest_eigenvalue`` is
    that of what rows are scored by.
    """

    amount: float
    target_rank: int
    smallest_eigenvalue: float


@dataclass(frozen=True)
class ColumnCounts:
    """How many cells there were: per column those observed and those above the floor, of ``rows`` rows.

    Numbers of cells, or their weights. ``apart`` is d x d: pairs of columns that are never above both floors; None
    where nobody asked.
    """

    rows: float
    observed: NDArray[Any]
    above: NDArray[Any]
    apart: BoolArray | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What reports say of the cells."""
        return {
            "n_features": len(self.observed),
            "share_floored": 1.0 - float(self.above.sum() / self.observed.sum()),
            "share_floored_by_column": tuple((1.0 - self.above / self.observed).tolist()),
            "share_missing": 1.0 - float(self.observed.sum()) / (self.rows * len(self.observed)),
        }


@dataclass(frozen=True)
class Diagnostic:
    """What a table shows and the model does not expect: a kind of AssumptionWarning, the columns, words, a remedy.

    ``values``: one number per column where the words say of what.
    """

    kind: str
    columns: tuple[int, ...]
    words: str
    remedy: str
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class LearningReport(Shown):
    """How the learning went, in plain numbers.

    ``floor`` and ``ceiling``: those that were used, one per column, None where there is none. ``diagnostics``: what the
    table shows and the model does not expect. ``stderr``: which standard errors these are, "model" or "jackknife", the
    latter with ``stderr_degrees`` of freedom (groups less one). ``chosen_because``: why this method was taken, where
    that was left open.
    """

    method: str
    n_rows: int
    n_features: Annotated[int, "size d"]
    effective_rows: float
    share_floored: float
    share_floored_by_column: Annotated[tuple[float, ...], "d"]
    share_missing: float
    pairs_never_above_together: int
    nearest: NearestCovariance
    _: KW_ONLY
    floor: tuple[float | None, ...] = ()
    ceiling: tuple[float | None, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    shrinkage: Shrinkage | None = None
    stderr: str = "model"
    stderr_degrees: int | None = None
    chosen_because: str = ""

    @property
    def converged(self) -> bool:
        """Whether the pairs became one semidefinite matrix as exactly as asked for."""
        return self.nearest.converged

    @classmethod
    def of(
        cls,
        method: str,
        n_rows: int,
        effective_rows: float,
        counts: ColumnCounts,
        nearest: NearestCovariance,
        **more: Any,
    ) -> Self:
        """The report of a fit to rows with that census; ``more`` are the fields that a subclass adds."""
        apart = 0 if counts.apart is None else int(np.count_nonzero(np.triu(counts.apart, 1)))
        return cls(
            method=method,
            n_rows=n_rows,
            effective_rows=effective_rows,
            pairs_never_above_together=apart,
            nearest=nearest,
            **counts.facts,
            **more,
        )


@dataclass(frozen=True)
class RowGroup:
    """Rows that the robust method explains alike. ``kind``: "gaussian", "independent" (scattered, columns unrelated),
    "repeated row", or "unexplained"."""

    kind: str
    share: float


@dataclass(frozen=True)
class RobustReport(LearningReport):
    """The same, and what became of the rows.

    ``groups``: the inlier rows first. ``share_downweighted``: rows that count less than half. ``cut_p_value``: rows
    that no group explains lose their weight from this p-value on; 0 where there were none. ``starts_disagreed``:
    another start led to other rows.
    """

    rounds: int
    share_downweighted: float
    groups: tuple[RowGroup, ...]
    cut_p_value: float
    starts_disagreed: bool


@dataclass(frozen=True)
class MixtureReport(Shown):
    """How the fit of a mixture went.

    ``shares``: of the groups, from the largest down. ``rounds``: of EM, those of its start included. ``weight``: of all
    rows, their number where they have no weights. ``log_likelihood``: of all rows, weighted as they are.
    """

    n_rows: int
    n_features: Annotated[int, "size d"]
    share_floored: float
    share_floored_by_column: Annotated[tuple[float, ...], "d"]
    share_missing: float
    shares: tuple[float, ...]
    rounds: int
    converged: bool
    weight: float
    log_likelihood: float
    floor: tuple[float | None, ...] = ()
    ceiling: tuple[float | None, ...] = ()

    @property
    def n_components(self) -> int:
        return len(self.shares)
