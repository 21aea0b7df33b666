"""Checks of numbers, limits, names, covariances and seeds; words for rows and columns; warnings."""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidParameterError, warning_class
from unrelu.renamed import refuse

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = str(Path(__file__).parent)
_TOLERANCE = 1e-8  # on the correlation scale, where rounding is about 1e-16 times the number of features
_PANEL = 256  # rows of a matrix that are compared at a time
_LARGEST = 1e140  # beyond it squares leave double precision


def column_label(index: int, feature_names: Sequence[str] | None) -> str:
    """A column as messages name it: its position from 0, and its name where it has one."""
    if feature_names is None:
        return f"column {index}"
    return f"column {index} ({feature_names[index]!r})"


def row_label(row: int) -> str:
    """A row of a table in memory as messages name it; the command line counts from 1."""
    return row_labels([row])


def row_labels(rows: Iterable[int]) -> str:
    """The same for several rows."""
    rows = list(rows)
    return f"row{'s' if len(rows) > 1 else ''} {listed(f'{row:,}' for row in rows)} (the first is 0)"


def listed(items: Iterable[str], most: int = 5) -> str:
    """The items for a message, a long list cut short."""
    items = list(items)
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def counted(number: int, noun: str) -> str:
    """A number and its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def label_columns(which: BoolArray, feature_names: Sequence[str] | None) -> str:
    """The columns marked True, as messages name them."""
    return listed(column_label(int(j), feature_names) for j in np.flatnonzero(which))


Line: TypeAlias = tuple[str, str, tuple[int, ...]]
"""A line of a warning: its words, its kind, and the rows that it names."""

_NOTED: ContextVar[list[Line] | None] = ContextVar("noted", default=None)
_HARM = ("ConvergenceWarning", "AssumptionWarning", "RecoveryWarning", "DataWarning")  # the most harmful first


def warn(message: str, kind: str, **fields: Any) -> None:
    """Issue a warning of a kind in :data:`unrelu.errors.KINDS`; ``fields`` as of all our warnings."""
    warn_together([(message, kind)], **fields)


def warn_together(lines: Sequence[tuple[str, str]], **fields: Any) -> None:
    """Issue one warning of several lines and their kinds; it points at the caller's line, outside this package."""
    noted, actions = _NOTED.get(), [_action_of(f"{line} [{kind}]", warning_class(kind)) for line, kind in lines]
    if noted is not None and all(warning_class(kind).__name__ in _HARM for _, kind in lines):
        rows = tuple(fields.get("rows", ()))
        noted += [(*line, rows) for line, action in zip(lines, actions, strict=True) if action != "ignore"]
        return
    if "error" in actions:
        lines = [lines[actions.index("error")]]
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    message, kinds = "\n".join(f"{line} [{kind}]" for line, kind in lines), [kind for _, kind in lines]
    warnings.warn(warning_class(kinds[0])(message, *kinds, **fields), stacklevel=level)


@contextmanager
def noting_warnings() -> Iterator[list[Line]]:
    """Lines of warnings are noted instead of issued, unless a filter ignores them.

    Warnings of checkpoints are issued at once: they are about work that goes on for long.
    """
    noted: list[Line] = []
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def warn_of_noted(noted: Sequence[Line], but: str = "") -> None:
    """One warning of the lines that were noted, each once, the most harmful class first, ``but`` those of one class."""
    lines = list(dict.fromkeys((words, kind) for words, kind, _ in noted if warning_class(kind).__name__ != but))
    lines.sort(key=lambda line: _HARM.index(warning_class(line[1]).__name__))
    if lines:
        warn_together(lines, rows=sorted({row for _, _, rows in noted for row in rows}))


def _action_of(text: str, category: type[Warning]) -> str:
    """What the filters for warnings of any place do with such a warning."""
    for action, pattern, of, module, line in warnings.filters:
        said: Any = pattern
        if issubclass(category, of) and module is None and line == 0 and (said is None or said.match(text)):
            return str(action)
    return "default"


def refuse_old_names(function: F) -> F:
    """The function; a call with a parameter of an old name raises a TypeError that has the new one."""
    parameters = signature(function).parameters

    @wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if not given.keys() <= parameters.keys():
            refuse(function.__qualname__.removesuffix(".__init__"), given, parameters)
        return function(*args, **given)

    return cast(F, call)


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise InvalidParameterError unless value is one of the choices, suggesting the nearest."""
    if value not in choices:
        raise InvalidParameterError(f"Unknown {name} {value!r}. {suggestion(value, choices)}", parameter=name)


def suggestion(value: str, choices: Iterable[str], there_are: str = "There are:", most: int = 20) -> str:
    """The nearest of the choices, if one is near, and all of them."""
    by_folded = {choice.casefold(): choice for choice in choices}
    near = get_close_matches(str(value).casefold(), by_folded, n=1, cutoff=0.5)
    meant = f"Did you mean {by_folded[near[0]]!r}? " if near else ""
    return f"{meant}{there_are} {listed(by_folded.values(), most)}."


def check_positive(name: str, value: float, least: float = 0.0) -> None:
    """Raise InvalidParameterError unless value is a finite number above ``least``."""
    if isinstance(value, bool) or not (isinstance(value, Real) and least < value < float("inf")):
        raise InvalidParameterError(f"{name} must be a finite number above {least:g}, got {value!r}.", parameter=name)


def check_count(name: str, value: int) -> None:
    """Raise InvalidParameterError unless value is a whole number of at least 1."""
    if not (isinstance(value, Integral) and value >= 1):
        raise InvalidParameterError(f"{name} must be a whole number of at least 1, got {value!r}.", parameter=name)


# --- the numbers of a model ---------------------------------------------------------------------------


def finite(name: str, value: ArrayLike) -> FloatArray:
    """A float64 copy with only finite numbers in it."""
    try:
        if np.iscomplexobj(value):
            raise TypeError("it holds complex ones")
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"{name} must be an array of real numbers: {error}.", parameter=name) from error
    for at in np.argwhere(~np.isfinite(array))[:1].tolist():
        raise InvalidParameterError(
            f"{name} must be finite, but holds {array[tuple(at)]} at index {at}.", parameter=name
        )
    return array


def limit(name: str, value: ArrayLike, d: int, none: float) -> FloatArray:
    """One number per column, ``none`` where there is no limit."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"{name} must be an array of real numbers: {error}.", parameter=name) from error
    if array.shape not in ((), (d,)):
        raise InvalidParameterError(
            f"{name} must be one number or one per column ({d}), got shape {array.shape}.", parameter=name
        )
    for at in np.argwhere(np.isnan(array) | (array == -none))[:1].tolist():
        raise InvalidParameterError(
            f"{name} must be finite (or {none}: none), but holds {array[tuple(at)]} at {at}.", parameter=name
        )
    return np.full(d, array)


def integer(name: str, value: Any) -> int:
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise InvalidParameterError(f"{name} must be an integer, got {value!r}.", parameter=name)
    return operator.index(value)


def distinct(names: Iterable[str] | None, d: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    given = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else (None,)
    if not all(isinstance(name, str) for name in given):
        raise InvalidParameterError(f"feature_names must be a list of strings, got {names!r}.")
    if len(given) != d:
        raise InvalidParameterError(f"feature_names has {len(given)} names for {d} features.")
    if len(set(given)) < d:
        twice = next(name for name in given if given.count(name) > 1)
        raise InvalidParameterError(f"feature_names must be distinct, but {twice!r} occurs more than once.")
    return tuple(str(name) for name in given)


def symmetric(s: FloatArray, d: int) -> FloatArray:
    """The covariance, exactly symmetric and 0 beside a variance of 0; InvalidParameterError if it is neither."""
    if s.shape != (d, d):
        raise InvalidParameterError(f"covariance must be {d} x {d} to fit the mean, got shape {s.shape}.")
    variance = np.diagonal(s)
    if variance.min() < -_TOLERANCE * variance.max():
        i = int(variance.argmin())
        raise InvalidParameterError(f"covariance has a negative variance, {variance[i]:.3g}, at index {i}.")
    constant = variance <= 0.0
    # Rounding is measured on the scale of each pair; a coordinate without a scale takes the largest.
    scale = np.sqrt(np.where(constant, max(variance.max(), 0.0), variance))
    # A few rows at a time: the transpose of thousands of columns is read from all over the memory.
    panels = (slice(k, k + _PANEL) for k in range(0, d, _PANEL))
    if not constant.any() and all(np.array_equal(s[panel], s[:, panel].T) for panel in panels):
        return s.copy()
    allowed = _TOLERANCE * np.outer(scale, scale)
    for i, j in np.argwhere(np.abs(s - s.T) > allowed)[:1].tolist():
        pair = f"entry ({i}, {j}) is {s[i, j]:.6g} and ({j}, {i}) is {s[j, i]:.6g}"
        raise InvalidParameterError(f"covariance must be symmetric, but {pair}.")
    for i, j in np.argwhere((np.abs(s) > allowed) & constant)[:1].tolist():
        raise InvalidParameterError(f"covariance gives index {j} no variance, but a covariance with {i}.")
    s = 0.5 * s + 0.5 * s.T
    s[constant, :] = s[:, constant] = 0.0
    return s


def scaled(s: FloatArray) -> FloatArray:
    """The covariance with a unit diagonal; beyond [-1, 1] only where it is not semidefinite."""
    scale = np.where(np.diagonal(s) > 0.0, np.sqrt(np.diagonal(s)), 1.0)
    r: FloatArray = s / scale[:, None] / scale  # two divisions: a product of tiny scales could be zero
    np.fill_diagonal(r, 1.0)
    return r


def require_semidefinite(r: FloatArray) -> None:
    """Raise InvalidParameterError unless correlations are semidefinite."""
    try:  # a Cholesky factor is faster than eigenvalues
        np.linalg.cholesky(r + _TOLERANCE * np.eye(len(r)))
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(r)[0])
        if smallest < -_TOLERANCE:
            raise InvalidParameterError(
                "covariance must be positive semidefinite, but its smallest eigenvalue, scaled to a "
                f"correlation matrix, is {smallest:.3g}. Take the nearest semidefinite one, or from_weights."
            ) from None


def generator(random_state: RandomState) -> np.random.Generator:
    """The generator that a ``random_state`` stands for; a generator that is given moves on."""
    try:
        if isinstance(random_state, np.random.RandomState):
            return np.random.default_rng(random_state.randint(2**31 - 1, size=4))  # moves on, too
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        kinds = "None, an integer of 0 or more, or a NumPy generator"
        raise InvalidParameterError(
            f"random_state must be {kinds}, got {random_state!r}.", parameter="random_state"
        ) from error


def seed_from(random_state: Any) -> int:
    """A seed is itself, so that it means the same everywhere; a generator gives one, and moves on."""
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and 0 <= int(random_state) < 2**63:
        return int(random_state)
    return int(generator(random_state).integers(2**31))


def require_reachable(margins: Iterable[Any]) -> None:
    """Raise InvalidParameterError for a column's margin whose numbers leave double precision when they are used."""
    for column, margin in enumerate(margins):
        sizes = {name: abs(float(getattr(margin, name, 0.0))) for name in ("exponent", "origin", "below")}
        widths = {"unit": float(getattr(margin, "unit", 1.0)), "step": float(margin.seen.step) or 1.0}
        for name in ("values", "scores"):
            if (knots := getattr(margin, name, None)) is not None:
                sizes[name] = float(np.abs(knots).max())
                widths[f"spread of {name}"] = float(knots[-1]) - float(knots[0])
        wrong = [(name, size) for name, size in sizes.items() if not size <= _LARGEST]
        wrong += [(name, width) for name, width in widths.items() if not 1.0 / _LARGEST <= width <= 2.0 * _LARGEST]
        if wrong:
            name, value = wrong[0]
            raise InvalidParameterError(
                f"The margin of column {column} is beyond precision: its {name} is {value:g}. Rescale the column."
            )
