"""What a method of matrix recovery is given and gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from unrelu.contracts import Step, Watch, unwatched
from unrelu.notebook import Shown
from unrelu.recovery.matrix.cells import Cells
from unrelu.recovery.matrix.factors import Factors

CHOOSING, RECOVERING = "Choosing the number of components", "Recovering"  # stages of the work


@dataclass(frozen=True)
class Iterate:
    """Factors on their way, after how many iterations and with which relative residual."""

    iterations: int
    residual: float
    factors: Factors

    def step(self) -> Step:
        """What whoever watches hears of it."""
        words = f"iteration {self.iterations:,}, residual {self.residual:.1e}"
        return Step(RECOVERING, self.iterations, words=words, state=self)


@dataclass(frozen=True)
class Task:
    """The table and what is asked of it.

    ``free_bias`` is False for the model without a bias. ``tolerance`` is on the relative residual |R|/|X|, R the
    difference between X and T where X > 0 and T's height above the floor elsewhere; iterations also end when they no
    longer lower it. ``start``, where given, are factors to go on from.
    """

    cells: Cells
    n_components: int
    free_bias: bool = True
    tolerance: float = 1e-12
    max_iterations: int = 500
    start: Factors | None = None
    watch: Watch = unwatched
    unit: float = 1.0  # of the cells: a method whose parameters have the data's units multiplies by it first
    enough: float = 1e-7  # share of the objective below which an iteration has gained nothing
    fewer: Factors | None = None  # factors of the same table with one component less, where they are known

    def told(self, words: str) -> Watch:
        """A watch for work on the side: what is heard of it is no state to go on from."""
        return lambda step: self.watch(Step(step.stage, words=f"{words}, {step.words}"))

    def changed(self, change: Callable[[Factors], Factors]) -> tuple[Factors | None, Factors | None]:
        """``start`` and ``fewer``, where they are given, for another form of the table."""
        return tuple(None if given is None else change(given) for given in (self.start, self.fewer))  # type: ignore[return-value]

    def watched_through(self, change: Callable[[Factors], Factors]) -> Watch:
        """A watch for a part of the work, whose factors ``change`` turns into those of this task."""
        if self.watch is unwatched:
            return unwatched

        def watch(step: Step) -> None:
            iterate: Iterate | None = step.state
            state = None if iterate is None else replace(iterate, factors=change(iterate.factors))
            self.watch(replace(step, state=state))

        return watch


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
class ComponentChoice:
    """The number chosen, and per number tried the relative error |X - ReLU(T)|/|X| over the held-out cells.

    ``fewer``: the factors of one component less that were found on the way.
    """

    n_components: int
    errors: tuple[tuple[int, float], ...] = ()
    fewer: Factors | None = field(default=None, compare=False)


@dataclass(frozen=True)
class MatrixReport(Shown):
    """How the recovery went, in plain numbers.

    ``residual`` is relative (see :class:`Task`). ``weak_columns`` are not determined by their values above the floor,
    ``weak_rows`` counts the rows of that kind. ``component_errors`` are pairs of a number of components tried and its
    relative error on held-out cells, for n_components="auto". ``resumed`` is (iterations, residual) of the state that
    was gone on from; ``iterations`` counts those as well.
    """

    method: str
    gauge: str
    n_rows: int
    n_features: int
    n_components: int
    iterations: int
    residual: float
    converged: bool
    share_floored: float
    share_missing: float
    weak_columns: tuple[int, ...]
    weak_rows: int
    noise: float | None
    component_errors: tuple[tuple[int, float], ...] = ()
    resumed: tuple[int, float] | None = None
