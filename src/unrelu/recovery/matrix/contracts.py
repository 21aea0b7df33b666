"""What a method of matrix recovery is given and gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self

from unrelu.recovery.matrix.cells import Cells
from unrelu.recovery.matrix.factors import Factors

Watch = Callable[[int, float, Factors], None]  # hears of every iteration: its number, the relative residual, factors
WatchRank = Callable[[int, float], None]  # hears of every rank tried: the rank, its relative error on held-out cells


def unwatched(*_: object) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Task:
    """The table and what is asked of it.

    ``free_bias`` is False for the model without a bias. ``tolerance`` is on the relative residual |R|/|X|, R the
    difference between X and T where X > 0 and T's height above the floor elsewhere; iterations also end when they no
    longer lower it. ``start``, where given, are factors to go on from.
    """

    cells: Cells
    rank: int
    free_bias: bool = True
    tolerance: float = 1e-12
    max_iterations: int = 500
    start: Factors | None = None
    watch: Watch = unwatched
    unit: float = 1.0  # of the cells: a method whose parameters have the data's units multiplies by it first


@dataclass(frozen=True)
class Recovered:
    """Factors in any gauge; ``noise`` is the standard deviation inside the rectifier, where the method has one.

    ``ridge`` is that of the penalty ridge/2 (|C|^2 + |A|^2), for C'C = A'A, under which they are best.
    ``fixed_bias`` says that the method chose the split between C A' and b itself, so that no gauge may change it.
    """

    factors: Factors
    iterations: int
    residual: float
    converged: bool
    noise: float | None = None
    ridge: float = 0.0
    fixed_bias: bool = False


class MatrixMethod(Protocol):
    """A way to recover factors of T from X = ReLU(T)."""

    def recover(self, task: Task) -> Recovered: ...


@dataclass(frozen=True)
class MatrixReport:
    """How the recovery went, in plain numbers.

    ``residual`` is relative (see :class:`Task`). ``weak_columns`` are not determined by their values above the floor,
    ``weak_rows`` counts the rows of that kind. ``rank_errors`` are pairs of a rank tried and its relative error on
    held-out cells, for rank="auto".
    """

    method: str
    gauge: str
    n_rows: int
    n_features: int
    rank: int
    iterations: int
    residual: float
    converged: bool
    share_floored: float
    share_missing: float
    weak_columns: tuple[int, ...]
    weak_rows: int
    noise: float | None
    rank_errors: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Self:
        """From the plain values of a file."""
        known = {field.name: facts[field.name] for field in fields(cls)}
        known["weak_columns"] = tuple(known["weak_columns"])
        known["rank_errors"] = tuple((int(rank), float(error)) for rank, error in known["rank_errors"])
        return cls(**known)
