"""Methods of matrix recovery: what they get and return, and descent from a start to the end.

Alternating steps while they are fast, joint ones after, until nothing is left to gain. With noise inside the rectifier,
X = ReLU(T + sigma E), a zero says only that T plus noise was not positive, so T may well be above 0 there; least
squares, which forbids that, is biased. Each zero then contributes -log Phi(-T/sigma) (Tobit). Expectation-maximization
would fill the zeros with truncated-normal means, fit rank k, and update sigma from their variances; Newton steps
maximize the same likelihood faster, and sigma is updated as in EM. The ridge of :func:`prior_ridge` keeps rows and
columns that are almost always at the floor from running off to minus infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from unrelu.contracts import FloatArray, Progress, Step, no_progress
from unrelu.errors import InvalidParameterError
from unrelu.passes import one_blas_thread
from unrelu.recovery.matrix.factors import Cells, Factors, singular_start, sizes_of
from unrelu.recovery.matrix.newton import Descent, State
from unrelu.validation import check_choice

RECOVERING = "Recovering"  # a stage of the work

_SLOW = 0.3  # alternation that leaves more than this share of the residual a round has become slow
_FIRST_ROUNDS = 4
_SLOWED = 1e-3  # share of the objective gained by a round that shows an exact fit out of reach
_COLUMN_TOLERANCE = 1e3  # times the table's, for each column by itself
_STAGE = 10  # rounds for each rank on the way up
_TRIAL = 30  # rounds after which a second start shows whether it is better
_TRIAL_ENOUGH = 10.0  # times what ends a descent ends a trial
_CLEARLY = 0.98  # of the first one's residual
_PRIOR_SHARE = 0.5  # the table's singular values are about half of those of T
_REBALANCE = 10  # rounds of alternation after which the factors' scales may have drifted apart
_QUIET_ROUNDS = 10  # with noise: least squares need not converge to be a start
_ALTERNATING = 3  # iterations before the first joint step
_CONVERGED = 1e-6  # relative change of sigma, and share of the objective gained, that end the iterations
_LEAST_NOISE = 1e-6  # of the root mean square of X: below it the noise is as good as none


@dataclass(frozen=True)
class Iterate:
    """Factors on their way, after how many iterations and with which relative residual."""

    iterations: int
    residual: float
    factors: Factors

    def step(self) -> Step:
        """The step that the progress callback gets."""
        words = f"iteration {self.iterations:,}, residual {self.residual:.1e}"
        return Step(RECOVERING, self.iterations, words=words, state=self)


@dataclass(frozen=True)
class Task:
    """The table, and what to recover from it.

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
    progress: Progress = no_progress
    unit: float = 1.0  # of the cells: a method whose parameters have the data's units multiplies by it first
    enough: float = 1e-7  # share of the objective below which an iteration has gained nothing
    fewer: Factors | None = None  # factors of the same table with one component less, where there are any

    def progress_of_part(self, change: Callable[[Factors], Factors]) -> Progress:
        """The progress callback of a part of the work; ``change`` makes this task's factors of those of the part."""
        if self.progress is no_progress:
            return no_progress

        def progress(step: Step) -> None:
            iterate: Iterate | None = step.state
            state = None if iterate is None else replace(iterate, factors=change(iterate.factors))
            self.progress(replace(step, state=state))

        return progress


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
class CensoredALS:
    """The default: least squares on F(T) = 1/2 sum_{X>0} (X - T)^2 + 1/2 sum_{X=0} max(0, T)^2.

    Censored alternating least squares, finished by joint Gauss-Newton steps (:mod:`unrelu.recovery.matrix.newton`):
    exact where X = ReLU(C A' + 1 b') exactly, from about half of the cells. Noise inside the rectifier biases it:
    use :class:`TobitEM` there.

    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 40))
    >>> T += 0.3 * rng.standard_normal(40)
    >>> method = unrelu.recovery.CensoredALS()
    >>> recovery = unrelu.ReLUMatrixRecovery(3, method=method).fit(np.maximum(T, 0.0))
    >>> bool(np.abs(recovery.hidden() - T).max() < 1e-6)
    True
    """

    def recover(self, task: Task) -> Recovered:
        return descend(task)


@dataclass(frozen=True)
class TobitEM:
    """Maximum likelihood for X = ReLU(C A' + 1 b' + sigma E), E normal, sigma learned too; gives standard errors.

    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 40))
    >>> X = np.maximum(T + 0.5 * rng.standard_normal(T.shape), 0.0)
    >>> recovery = unrelu.ReLUMatrixRecovery(2, method=unrelu.recovery.TobitEM()).fit(X)
    >>> bool(abs(recovery.noise_ - 0.5) < 0.02)
    True
    """

    def recover(self, task: Task) -> Recovered:
        own = own_start(task)
        quiet = replace(task, max_iterations=min(_QUIET_ROUNDS, task.max_iterations), progress=no_progress)
        factors = (task.start if task.start is not None else descend(quiet).factors).balance()
        with one_blas_thread():
            sizes, seen = sizes_of(task.cells)
            scale = float(np.linalg.norm(sizes)) or 1.0
            least = _LEAST_NOISE * scale / math.sqrt(seen)
            state = Descent(task.cells).start(factors)
            noise, done, residual = max(math.sqrt(state.squares / state.weight), least), False, math.inf
            for iteration in range(1, task.max_iterations + 1):
                descent = Descent(task.cells, noise, prior_ridge(own, noise))
                start = descent.start(factors.balance())
                state, gain = next(steps_from(start, descent, warm=iteration > _ALTERNATING))
                factors, squares = state.factors, state.squares
                residual = math.sqrt(squares) / scale
                task.progress(Iterate(iteration, residual, factors).step())
                # EM's update, with the noise that the free parameters have fitted put back: of the rows' sum_i
                # tr((G_i + ridge)^-1 G_i), which the ridge and rows with few cells keep below n k; of the columns' all
                # but those of the gauge.
                fitted = float(descent.fitted_by_rows(factors) + _free_of_columns(factors))
                before, noise = noise, max(math.sqrt((squares + fitted * noise * noise) / seen), least)
                small = max(_CONVERGED, task.enough)
                if (abs(noise / before - 1.0) <= small and gain <= small) or residual <= task.tolerance:
                    done = True
                    break
        return Recovered(factors, iteration, residual, done, noise=noise, ridge=descent.ridge)


_METHODS: dict[str, type[CensoredALS] | type[TobitEM]] = {"censored_als": CensoredALS, "tobit_em": TobitEM}


def matrix_method(method: str | MatrixMethod) -> MatrixMethod:
    """The method of that name with its default parameters, or the object itself."""
    if not isinstance(method, str):
        if not callable(getattr(method, "recover", None)):
            raise InvalidParameterError(
                f"method must be a name or an object of unrelu.recovery, got {method!r}. Names: {', '.join(_METHODS)}."
            )
        return method
    check_choice("method", method, [*_METHODS, "likelihood"])
    if method == "likelihood":
        raise InvalidParameterError(
            "method='likelihood' needs the bias's density, a Python object: give"
            " unrelu.papers.Likelihood(scipy.stats.norm(0, 1)), or whatever distribution the biases have."
        )
    return _METHODS[method]()


def method_name(method: MatrixMethod) -> str:
    """The name of a method in reports: its own, or its class's."""
    names: dict[type, str] = {kind: name for name, kind in _METHODS.items()}
    return names.get(type(method), type(method).__name__.lower())


def descend(task: Task, caps: FloatArray | None = None) -> Recovered:
    """Lower F of least squares from ``task.start``, or from the table's singular vectors, until it converges.

    The singular vectors of a rectified table mislead where true components are smaller than what the rectifier adds. So
    a fit that is not exact is begun again from components found one after the other, and the better one kept. ``caps``
    are those of :class:`unrelu.recovery.matrix.newton.Descent`.
    """
    with one_blas_thread():  # tiles run on all cores; each one's products are small
        descent = Descent(task.cells, caps=caps)
        if task.start is not None:
            return _descent(task, descent, task.start.balance())
        own = own_start(task)
        found = _descent(task, descent, own, own)
        if found.residual <= task.tolerance or task.n_components == 1:
            return found

        def progress(step: Step) -> None:  # work on the side is no state to go on from
            task.progress(Step(step.stage, words=f"a second start, {step.words}"))

        start = _built_up(replace(task, progress=progress), descent).balance()
        trial = replace(task, max_iterations=min(_TRIAL, task.max_iterations), enough=_TRIAL_ENOUGH * task.enough)
        short = _descent(replace(trial, progress=progress), descent, start, own)
        if short.residual >= _CLEARLY * found.residual:
            return found
        again = _descent(task, descent, start, own)
        return again if again.residual < found.residual else found


def _built_up(task: Task, descent: Descent) -> Factors:
    """Factors of rank 1, then of rank 2, ...: each time the leading singular pair of what is left joins them.

    Where ``task.fewer`` is given, only one more is to be found.
    """

    def with_one_more(factors: Factors) -> Factors:
        factors = factors.balance()
        left, right = descent.leading_residual(factors)
        latent, loadings = np.column_stack([factors.latent, left]), np.column_stack([factors.loadings, right])
        return replace(factors, latent=latent, loadings=loadings)

    if task.fewer is not None:
        return with_one_more(task.fewer)
    factors = singular_start(task.cells, 1, task.free_bias)
    for rank in range(1, task.n_components):
        steps = steps_from(descent.start(factors.balance()), descent)
        for _ in range(_STAGE):
            factors = next(steps)[0].factors
            task.progress(Step(RECOVERING, words=f"{rank} of {task.n_components} components"))
        factors = with_one_more(factors)
    return factors


def _descent(task: Task, descent: Descent, start: Factors, own: Factors | None = None) -> Recovered:
    """One descent from ``start``; ``own`` is the table's :func:`own_start`, where it was computed already.

    Where T fits exactly no penalty is needed, and none is used. Where it does not, rows and columns that few positive
    cells determine would fit their noise and predict wild values; so once the descent slows down short of an exact
    fit, F gets the penalty of :func:`prior_ridge` for the noise seen, until that noise no longer changes.
    """
    sizes, _ = sizes_of(task.cells)
    scale = float(np.linalg.norm(sizes)) or 1.0
    state = descent.start(start)
    steps = steps_from(state, descent)
    residual, done, penalized = math.inf, False, False
    for iteration in range(1, task.max_iterations + 1):
        state, gain = next(steps)
        residual = math.sqrt(max(state.squares, 0.0)) / scale
        task.progress(Iterate(iteration, residual, state.factors).step())
        # A column of large values must not hide what is left in the others.
        by_column = np.sqrt(2.0 * state.loss / np.where(sizes > 0.0, sizes, 1.0) ** 2)
        exact = residual <= task.tolerance and by_column.max() <= _COLUMN_TOLERANCE * task.tolerance
        if exact or (gain <= task.enough and (penalized or residual <= task.tolerance)):
            done = True
            break
        if not penalized and gain <= _SLOWED and residual > task.tolerance:
            own = own_start(task) if own is None else own
            wanted = prior_ridge(own, noise_left(state))
            penalized = 0.5 * wanted <= descent.ridge <= 2.0 * wanted
            if not penalized:
                descent = replace(descent, ridge=wanted)
                state = descent.start(state.factors.balance())
                steps = steps_from(state, descent, warm=True)
    return Recovered(state.factors, iteration, residual, done, ridge=descent.ridge)


def own_start(task: Task) -> Factors:
    """Factors from the table's own singular vectors, for any start of the fit."""
    return singular_start(task.cells, task.n_components, task.free_bias).balance()


def prior_ridge(own: Factors, noise: float) -> float:
    """The penalty that noise calls for: n sigma^2 / S on (|C|^2 + |A|^2)/2 is what a standard normal c_i would cost.

    S is the mean singular value of C A' of the table's :func:`own_start`, also if the fit goes on from factors given:
    that of the fit would shrink under the penalty, which would then grow.
    """
    n, k = own.latent.shape
    singular = float((own.latent**2).sum()) / k
    return _PRIOR_SHARE * n * noise * noise / singular if singular > 0.0 else 0.0


def noise_left(state: State) -> float:
    """Root mean square of what is left in the cells that count, after the free parameters."""
    left = max(state.weight - free_parameters(state.factors), 0.05 * state.weight, 1.0)
    return math.sqrt(state.squares / left)


def free_parameters(factors: Factors) -> int:
    """Entries of C, A and b less those that the gauge takes up."""
    return factors.latent.size + _free_of_columns(factors)


def _free_of_columns(factors: Factors) -> int:
    (d, k), extra = factors.loadings.shape, int(factors.bias is not None)
    return int((d - k) * (k + extra))


def steps_from(state: State, descent: Descent, warm: bool = False) -> Iterator[tuple[State, float]]:
    """Step after step, joint ones (from the first where ``warm``) once alternation is slow, while they lower F.

    Each step's state, and the share of the objective that it gained, which is small only when no kind of step gains.
    """
    rounds, joint = 0, warm
    while True:
        before, fell = state.objective, False
        if joint:
            state, fell = descent.join(state)
        if not fell:
            rounds += 1
            if rounds % _REBALANCE == 0:
                state = descent.start(state.factors.balance())
            state = descent.alternate(state)
        gain = 1.0 - state.objective / before if before > 0.0 else 0.0
        joint = fell or (rounds >= _FIRST_ROUNDS and gain < 1.0 - _SLOW**2)
        yield state, gain
