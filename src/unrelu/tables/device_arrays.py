"""Rows of an array on a device, as torch and CuPy have them: blocks stay there for whoever can ask them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrelu.contracts import Block, Engine, FloatArray, Samples
from unrelu.errors import InvalidDataError
from unrelu.passes.device import DeviceEngine, Place, place_of
from unrelu.passes.rows import Rows, as_floats, one_per_row, rows_per_block


class DeviceBlock(Block):
    """A run of rows that are on a device, as ``array``; ``values`` are brought to the host when someone asks for them.

    One that is given values, as by dataclasses.replace, has no array.
    """

    array: Any

    def __init__(self, values: Any = None, array: Any = None, place: Place | None = None, **others: Any) -> None:
        given = {} if values is None else {"values": values}
        self.__dict__.update({"first_row": 0, "weights": None, "groups": None, "beyond": None} | others)
        self.__dict__.update(array=array, place=place, **given)

    @property
    def n_rows(self) -> int:
        return len(self.values) if self.array is None else int(self.array.shape[0])

    @cached_property
    def values(self) -> NDArray[np.floating[Any]]:
        place: Place = self.__dict__["place"]
        return as_floats(place.host(place.floats(self.array)))


class DeviceSamples(Rows):
    """The rows of a two-dimensional array on a device.

    >>> import array_api_strict
    >>> rows = DeviceSamples(array_api_strict.asarray([[0.0, 2.0], [1.0, 0.0]]))
    >>> rows.n_rows, next(rows.blocks()).values.tolist()
    (2, [[0.0, 2.0], [1.0, 0.0]])
    """

    in_memory = True
    engine: Callable[..., Engine] | None = DeviceEngine

    def __init__(self, array: Any, weights: FloatArray | None = None) -> None:
        place = place_of(array)
        assert place is not None, "an array of NumPy has samples of its own"
        if array.ndim != 2:
            raise InvalidDataError(f"Expected rows and columns (2 dimensions), got shape {tuple(array.shape)}.")
        place.floats(array[:0, ...])  # says so where these are no numbers
        self._array, self._weights, self.place = array, weights, place
        self.n_features, self.stored_as = int(array.shape[1]), self._as_stored

    @property
    def n_rows(self) -> int:
        return int(self._array.shape[0])

    def _as_stored(self, levels: FloatArray) -> FloatArray:
        """Floors as the table's own type holds them."""
        if not self.place.xp.isdtype(self._array.dtype, "real floating"):
            return levels
        stored = self.place.xp.astype(self.place.array(levels), self._array.dtype)
        return np.asarray(self.place.host(self.place.floats(stored)), dtype=np.float64)

    def weighted(self, weights: ArrayLike) -> Samples:
        """The same rows with a weight each, from the host."""
        return DeviceSamples(self._array, one_per_row(weights, self.n_rows))

    def whole(self) -> Iterator[Block]:
        """All rows as one block, for whoever asks on the device and cuts it to its memory."""
        if self.n_rows:
            yield DeviceBlock(array=self._array, place=self.place, weights=self._weights)

    def blocks(self) -> Iterator[Block]:
        """Blocks to be brought to the host."""
        size = rows_per_block(self.n_rows, self.n_features)
        for first in range(0, self.n_rows, size):
            rows = slice(first, min(first + size, self.n_rows))
            weights = None if self._weights is None else self._weights[rows]
            yield DeviceBlock(array=self._array[rows, ...], place=self.place, first_row=first, weights=weights)
