"""peel: layers off a table of outputs. The steps are in :mod:`unrelu.recovery.layers.peeling`."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import Watch, unwatched
from unrelu.errors import InvalidDataError, InvalidParameterError, UnreluError
from unrelu.estimators.base import FloorEstimator, Table
from unrelu.methods import Method, method_named
from unrelu.passes.tiles import as_stored
from unrelu.recovery.layers.peeled import Outputs, Peeled
from unrelu.recovery.layers.peeling import peel_layers
from unrelu.validation import check_positive, label_columns

_SINGLE, _DOUBLE = 1e-6, 1e-8  # errors of T, of its root mean square, that rounding explains


def peel(
    X: Table,
    widths: Sequence[int | str],
    *,
    n_inputs: int | str | None = None,
    max_seconds: float | None = None,
    floor: ArrayLike = 0.0,
    floor_tolerance: float = 0.0,
    hidden_method: str | Method = "one_pass",
    random_state: Any = 0,
    watch: Watch = unwatched,
) -> Peeled:
    """Peel layers x = max(A h + b, floor) off a table; ``widths`` are their numbers of hidden units, outermost first.

    A width may be "auto". ``floor`` is that of the outermost layer, one number or one per column; values within
    ``floor_tolerance`` of it count as floored. ``hidden_method`` is how the law of the innermost units is learned.

    Where the innermost layer has fewer inputs than units, as generators have, say how many: ``n_inputs`` is their
    number, or "auto". The network is then recovered down to its inputs, h = ReLU(A z + b) with z ~ N(0, I): ``inner``,
    ``inputs``, and :meth:`Peeled.transform <unrelu.Peeled.transform>`. With None, or as many inputs as units, units are
    found from the facets of the rows alone. After ``max_seconds``, or an interrupt of the search for units, what was
    found so far, if anything, is returned with :class:`unrelu.errors.UnfinishedWarning`.

    ``widths=[p, p0]`` with p0 < p and ``n_inputs`` are three layers, x <- h <- g <- z, where g has p0 units. They are
    found from exact outputs in double precision, if most units are often on and often off; ``max_seconds`` is 60 unless
    given. ``hidden`` is then g, NaN in rows that do not tell it.

    A layer that cannot be peeled is refused with the reason, :class:`unrelu.errors.CannotPeelError`, which holds what
    was found until then. ``watch`` hears of every :class:`unrelu.contracts.Step`; what it raises ends the work.

    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(1)
    >>> A2, A1 = rng.standard_normal((30, 4)), rng.standard_normal((4, 4))
    >>> h = np.maximum(rng.standard_normal((1500, 4)) @ A1.T + 0.2, 0.0)
    >>> X = np.maximum(h @ A2.T + 0.5, 0.0)
    >>> peeled = unrelu.peel(X, widths=[4])
    >>> layer = peeled.layers[0]
    >>> cosines = np.abs(layer.weights.T @ (A2 / np.linalg.norm(A2, axis=0)))
    >>> bool(layer.column_identifiable.all()), bool(np.allclose(cosines.max(axis=0), 1.0))
    (True, True)
    """
    plan, method = _checked_widths(widths), method_named(hidden_method)
    limits = checked_inputs(n_inputs), checked_seconds(max_seconds)
    table = _Table(floor, floor_tolerance, random_state)
    return peel_layers(table.outputs(X), plan, *limits, method, table.seed(), watch)


class OutputReader(FloorEstimator):
    """Base of what undoes the rectifier of a layer: tables as heights above the floor, whole rows only."""

    def _outputs(self, X: Any, *, reset: bool, smallest: int = 2) -> Outputs:
        values = self._floats(X, reset=reset, smallest=smallest)
        missing = np.asarray(np.isnan(values).any(axis=0))
        if missing.any():
            raise InvalidDataError(
                f"X holds NaN in {label_columns(missing, self._names())}: layers are found from whole rows. Leave such"
                " rows out, or the columns."
            )
        assumptions = self._assumptions()
        level = as_stored(np.array(assumptions.censoring), values)
        heights = np.maximum(values.astype(np.float64) - level, 0.0)
        rounding = _SINGLE if values.dtype in (np.float32, np.float16) else _DOUBLE
        return Outputs(heights, level, np.array(assumptions.floor), self._names(), rounding)


class _Table(OutputReader):
    """What :func:`peel` takes from an estimator: how tables are read, and seeds."""

    def __init__(self, floor: ArrayLike, floor_tolerance: float, random_state: Any) -> None:
        self.floor = floor
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state

    def outputs(self, X: Any) -> Outputs:
        try:
            return self._outputs(X, reset=True)
        except UnreluError:
            raise
        except (TypeError, ValueError) as error:  # in scikit-learn's words
            raise InvalidDataError(f"X must be a table of numbers, with rows and columns: {error}") from error

    def seed(self) -> int:
        return self._seed()


def _checked_widths(widths: Sequence[int | str]) -> list[int | str]:
    if isinstance(widths, str | Integral) or not isinstance(widths, Sequence | np.ndarray) or len(widths) == 0:
        raise InvalidParameterError(
            f"widths must be a list with one number per layer, such as [8], got {widths!r}.", parameter="widths"
        )
    return [checked_width("Every width", width) for width in widths]


def checked_width(name: str, width: int | str) -> int | str:
    """A number of hidden units, or "auto"."""
    if isinstance(width, str) and width == "auto":
        return width
    if isinstance(width, Integral) and not isinstance(width, bool) and width >= 1:
        return int(width)
    raise InvalidParameterError(f"{name} must be a whole number of 1 or more, or 'auto', got {width!r}.")


def checked_inputs(n_inputs: int | str | None) -> int | str | None:
    """A number of inputs, "auto", or None for no fewer than units."""
    return None if n_inputs is None else checked_width("n_inputs", n_inputs)


def checked_seconds(max_seconds: float | None) -> float | None:
    """A positive number of seconds, or None for no bound."""
    if max_seconds is None:
        return None
    check_positive("max_seconds", max_seconds)
    return float(max_seconds)
