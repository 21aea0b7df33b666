"""The interfaces between packages, and the records that cross them, in one module.

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
Censoring = NDArray[np.int8]  # of cells: -1 left-censored, 0 seen or missing, 1 right-censored, 2 between two numbers


# --- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowLabels:
    """The group of every row: row i belongs to ``labels[index[i]]``."""

    index: NDArray[np.integer[Any]]
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Block:
    """A run of consecutive rows. ``values`` is n x d (float32 or float64), NaN where missing.

    ``censoring`` is n x d: -1 where the value is at most the cell's number, 1 where it is at least that, 2 where it
    is between that and ``upper`` (which one pass alone can use), 0 where the number was seen, or is missing. None:
    cells at their column's floor are left-censored, and the others were seen.
    """

    values: NDArray[np.floating[Any]]
    first_row: int = 0
    weights: FloatArray | None = None
    groups: RowLabels | None = None
    censoring: Censoring | None = None
    upper: FloatArray | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows; sparse rows stay sparse, and rows of a device stay there."""
        return len(self.values)

    def some_rows(self, chosen: NDArray[np.intp]) -> NDArray[np.floating[Any]]:
        """Values of some rows, in order; no other rows are made dense or brought here."""
        return self.values[chosen]


@dataclass(frozen=True)
class CellLimits:
    """Limits that cells of a table state, "<0.25" or ">100": (position of the column, limit), one a column.

    Such cells hold the limit, and no value of the column is beyond it.
    """

    floor: tuple[tuple[int, float], ...] = ()
    ceiling: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Part:
    """Some neighbouring rows. ``read(*needs)``, which can be pickled, gives their blocks, with rows counted from 0.

    ``needs`` are arrays, or tasks whose results the engine computes before.
    """

    read: Callable[..., Iterable[Block]]
    n_rows: int
    needs: tuple[Any, ...] = ()


Ask = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""``ask(function, items)``: the results of workers, needed before the rows are cut into parts."""


class Samples:
    """Rows that can be read again and again, block by block, in a fixed order, and all of their properties.

    Every kind of rows derives from this class and overrides what differs; here are the defaults. A class of your own
    needs ``n_features``, ``feature_names`` (or None), ``n_rows`` (or None) and ``blocks()``. Derive it from this class
    to override more, or from nothing: estimators then wrap it (:func:`unrelu.passes.rows.as_rows`).
    """

    n_features: int
    feature_names: tuple[str, ...] | None = None
    limits: CellLimits | None = None
    """Limits that cells of the table state, if some do."""
    limits_by_cell: tuple[int, ...] = ()
    """Columns whose cells have limits of their own, in ``Block.censoring``; they have no floor and no ceiling."""
    engine: Callable[..., Engine] | None = None
    """``engine(progress, stage)``: the engine that reads the rows (of the ``source``), if not this process does."""
    place: Any = None
    """The device (:class:`unrelu.passes.device.Place`) that holds the rows, if one does."""
    in_memory: bool = False
    """Whether the rows are in memory, so that reading ahead would gain nothing."""
    read_once: bool = False
    """Whether the rows can be read only once."""
    stored_as: Any = None
    """The type of the numbers, or a function of levels to levels as stored on a device."""
    matrix: Any = None
    """The sparse matrix that holds the rows, if one does."""
    skipped_files: Mapping[str, str] = MappingProxyType({})
    """Files that cannot be read and are left out, and why."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, or None where only a full read can find it."""
        return None

    @property
    def notes(self) -> list[str]:
        """A line for each column with cells that are no plain numbers: what they were read as."""
        return []

    def blocks(self) -> Iterator[Block]:
        raise NotImplementedError

    def blocks_from(self, row: int) -> Iterator[Block]:
        """The blocks of the rows from this one on, counted from 0."""
        for block in self.blocks():
            if block.first_row >= row:
                yield replace(block, first_row=block.first_row - row)

    def whole(self) -> Iterator[Block]:
        """The blocks, as large as they can be."""
        return self.blocks()

    @property
    def source(self) -> Samples:
        """The rows where they live, without the changes that wrappers make."""
        return self

    def over(self, source: Samples) -> Samples:
        """Other rows, with the changes that wrappers make of these."""
        return source

    def parts(self, ask: Ask) -> list[Part] | None:  # noqa: ARG002 - for rows that know how
        """The rows as parts that other processes can read; None where they cannot."""
        return None

    def provenance(self) -> dict[str, Any] | None:
        """The files of the rows and how they are read, where an interrupted pass could go on."""
        return None

    def ids(self) -> dict[str, list[str]]:
        """Columns that are kept as text, by name."""
        return {}

    def row_label(self, row: int) -> str:
        """The label of a row that is counted from 0: counted from 1, with its file and line if it has any."""
        return f"row {row + 1:,}"

    def log_slopes(self) -> Any:
        """What the log density of each row gains in the user's units; 0 for rows that are in these."""
        return 0.0

    def weighted(self, weights: Any) -> Samples:  # noqa: ARG002
        """The same rows with a weight each."""
        raise InvalidParameterError("sample_weight goes with a table in memory, not with rows read in blocks.")

    def split_column(self, name: str | int) -> tuple[Samples, NDArray[Any]]:
        """The rows without a column, and the cells of that column as they are."""
        raise InvalidParameterError(
            f"groups={name!r} names a column, which only data frames and files have: give one label per row."
        )


# --- questions ----------------------------------------------------------------------------------


class Record(Protocol):
    """An answer about some rows. ``merge`` joins the answers about disjoint rows."""

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
    """Rows with their engine, and answers to questions: each is found by one pass of the engine and remembered.

    Without samples there are only answers that were given before: a saved record then stands in for the rows.
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
        """The device that holds the rows, if one does: what follows from their records may be computed there."""

    def collect(self, question: Question[R], remember: bool = True) -> R:
        """The record of all rows. Errors of the question are raised, and nothing is remembered then."""
        if question in self.answers:
            answer: R = self.answers[question]
            return answer
        if self.engine is None:
            raise LookupError(f"Only answers to {list(self.answers)} were kept; {question} needs the rows again.")
        record = self.engine.collect(self.samples, question)
        if remember:
            self.answers[question] = record
        return record


# --- long work ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """The progress of long work: the stage, how much of it is done, and words on the results so far.

    ``total`` is None where it is not known. ``state`` could be saved to go on from here, if it is given.
    """

    stage: str
    done: int = 0
    total: int | None = None
    words: str = ""
    state: Any = None


Progress = Callable[[Step], None]
"""Is called with every step. An exception that it raises ends the work, with nothing half done."""


def no_progress(step: Step) -> None:
    """Do nothing with a step."""


# --- what the stages hand on --------------------------------------------------------------------


@dataclass(frozen=True)
class Assumptions:
    """What every method assumes of the model, as the user gave it.

    ``floor``: one number per column, -inf where there is none. ``nonnegative_mean``: every mean is at or above its
    floor, as Wu et al. 2019 and Bulusu et al. 2022 assume. ``n_components``: the number k of latent inputs z, so that
    the covariance W W' has rank k (None: any rank), but for noise where a method has it; ``auto_components``: the
    method finds k. ``floor_tolerance``: noise after the floor; a value counts as seen from floor + tolerance on.
    ``negated``: columns with a ceiling, whose values are negated, so that the ceiling is a floor; none where empty. A
    column whose cells have limits of their own has the floor -inf, so that draws of its model are not cut off.
    ``margins`` (:mod:`unrelu.margins`) map the user's values to those that are learned from; none where empty.
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
        """Floors and ceilings in the user's units, as reports have them, None where there is none."""
        both = tuple(zip(self.floor, (self.sign < 0.0).tolist(), strict=True))
        floors = tuple(None if negated or level == -np.inf else level for level, negated in both)
        return {"floor": floors, "ceiling": tuple(-level if negated else None for level, negated in both)}

    @property
    def sign(self) -> FloatArray:
        """-1 for columns that are negated, 1 for the others."""
        return np.where(self.negated or (False,) * len(self.floor), -1.0, 1.0)

    @property
    def censored_at(self) -> tuple[float, ...]:
        """The value at or below which a cell is censored: floor + tolerance."""
        return tuple(floor + self.floor_tolerance for floor in self.floor)

    @property
    def lowest(self) -> tuple[float, ...]:
        """The smallest value that a cell may have: floor - tolerance."""
        return tuple(floor - self.floor_tolerance for floor in self.floor)


@dataclass(frozen=True, eq=False)
class RowParameters:
    """Mean b_i, measured from zero, and scale s_i = |W(i,:)| of every column.

    ``floor`` is where values are censored (floor + tolerance). ``mean_std_covariance`` is d x 2 x 2: the sampling
    covariance of (b_i, s_i), NaN from a method that gives none. ``influence`` is d x 2 x 3: how a row's statistics (p,
    v, v^2) of :mod:`unrelu.kernels.pair_solver` move (b_i, s_i), in units of s_i, by which standard errors of the
    correlations account for errors of the columns. ``std`` is 0 for a constant column, whose errors are 0.
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
    """Correlations r_ij of latent values (unit diagonal, perhaps indefinite) and their standard errors."""

    correlation: Annotated[FloatArray, "unbounded floats d d"]
    stderr: Annotated[FloatArray, "unbounded floats d d"]
    perfect_pairs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class NearestCovariance:
    """How the correlations became one semidefinite matrix (of rank ``n_components``, if that is given).

    ``smallest_eigenvalue`` is that of the correlations before; ``shift_max`` and ``shift_rms`` measure how far the
    off-diagonal correlations moved.
    """

    smallest_eigenvalue: float
    shift_max: float = 0.0
    shift_rms: float = 0.0
    rounds: int = 0
    converged: bool = True


@dataclass(frozen=True)
class Shrinkage:
    """How the correlations became invertible for scores: a mixture with a model of ``target_rank`` factors and noise.

    ``amount``: the weight of that model; 0 where the estimate itself scores rows. ``smallest_eigenvalue`` is that of
    the correlations that score rows.
    """

    amount: float
    target_rank: int
    smallest_eigenvalue: float


@dataclass(frozen=True)
class ColumnCounts:
    """Numbers of cells, or their weights: per column the observed ones and those above the floor, of ``rows`` rows.

    ``apart`` is d x d: pairs of columns that are never above both floors; None where they were not counted.
    """

    rows: float
    observed: NDArray[Any]
    above: NDArray[Any]
    apart: BoolArray | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of reports about cells."""
        return {
            "n_features": len(self.observed),
            "share_floored": 1.0 - float(self.above.sum() / self.observed.sum()),
            "share_floored_by_column": tuple((1.0 - self.above / self.observed).tolist()),
            "share_missing": 1.0 - float(self.observed.sum()) / (self.rows * len(self.observed)),
        }


@dataclass(frozen=True)
class Diagnostic:
    """What a table shows and the model does not expect: a kind of AssumptionWarning, the columns, words, a remedy.

    ``values``: one number per column, which the words explain.
    """

    kind: str
    columns: tuple[int, ...]
    words: str
    remedy: str
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class LearningReport(Shown):
    """How the learning went, in plain numbers.

    ``floor`` and ``ceiling``: one limit per column, None where there is none. ``diagnostics``: what the table shows and
    the model does not expect. ``stderr``: the kind of standard errors, "model" or "jackknife", the latter with
    ``stderr_degrees`` of freedom (groups less one). ``chosen_because``: why "auto" chose this method.
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
        """Whether the search for the semidefinite matrix of all pairs converged."""
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
        """The report of a fit to rows with these counts; ``more`` are the fields that a subclass adds."""
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
    """Rows that the robust method explains by one component. ``kind``: "gaussian", "independent" (scattered, columns
    unrelated), "repeated row", or "unexplained"."""

    kind: str
    share: float


@dataclass(frozen=True)
class RobustReport(LearningReport):
    """How a robust fit went.

    ``groups``: groups of rows, the inliers first. ``share_downweighted``: the share of rows that count less than half.
    ``cut_p_value``: rows that no group explains lose their weight below this p-value; 0 where there were none.
    ``starts_disagreed``: another start led to other inliers.
    """

    rounds: int
    share_downweighted: float
    groups: tuple[RowGroup, ...]
    cut_p_value: float
    starts_disagreed: bool


@dataclass(frozen=True)
class MixtureReport(Shown):
    """How the fit of a mixture went.

    ``shares``: of the groups, from the largest down. ``rounds``: of EM, those of its start included. ``weight``: the
    sum of the rows' weights, their number where they have none. ``log_likelihood``: of all rows, weighted.
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
