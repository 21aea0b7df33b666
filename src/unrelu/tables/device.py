"""Rows on a device: arrays of torch and CuPy, and the outputs of a layer of a torch network, batch by batch.

Blocks stay on the device for questions that can run there. A network's outputs are not stored: each batch is used
before the next one runs, on the device of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrelu.contracts import Block, Engine, FloatArray, Samples
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.device import DeviceEngine, Place, brought_home, place_of, without_gradients
from unrelu.passes.rows import LazyBlock, as_floats, one_per_row, rows_per_block, runs
from unrelu.validation import check_choice, suggestion

_FEATURES_LAST = ("Linear", "LayerNorm", "Embedding", "Bilinear")  # modules whose outputs end with their units


class DeviceBlock(LazyBlock):
    """A run of rows on a device, as ``array``; ``values`` are copied to the host on access."""

    array: Any = None
    place: Any = None

    @property
    def n_rows(self) -> int:
        return len(self.values) if self.array is None else int(self.array.shape[0])

    @cached_property
    def values(self) -> NDArray[np.floating[Any]]:
        place: Place = self.place
        return as_floats(place.host(place.floats(self.array)))

    def some_rows(self, chosen: NDArray[np.intp]) -> NDArray[np.floating[Any]]:
        """Values of some rows, in order, copied to the host in runs of neighbours."""
        if self.array is None or len(chosen) == 0:
            return self.values[chosen]
        neighbours = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1)
        brought = [DeviceBlock(array=self.array[run[0] : run[-1] + 1, ...], place=self.place) for run in neighbours]
        return np.concatenate([each.values for each in brought])


class DeviceSamples(Samples):
    """The rows of a two-dimensional array on a device."""

    in_memory = True
    engine: Callable[..., Engine] | None = DeviceEngine

    def __init__(self, array: Any, weights: FloatArray | None = None) -> None:
        place = place_of(array)
        assert place is not None, "an array of NumPy has samples of its own"
        if array.ndim != 2:
            raise InvalidDataError(f"Expected rows and columns (2 dimensions), got shape {tuple(array.shape)}.")
        place.floats(array[:0, ...])  # raises where these are no numbers
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
        """All rows as one block, which a device's engine cuts to its memory."""
        if self.n_rows:
            yield DeviceBlock(array=self._array, place=self.place, weights=self._weights)

    def blocks(self) -> Iterator[Block]:
        """Blocks small enough to be copied to the host."""
        for rows, weights in runs(self.n_rows, rows_per_block(self.n_rows, self.n_features), self._weights):
            yield DeviceBlock(array=self._array[rows, ...], place=self.place, first_row=rows.start, weights=weights)


class LayerSamples(Samples):
    """The outputs of ``layer`` of ``model`` for the batches of ``loader``, a row for each input, or each position.

    See :func:`unrelu.learn_layer` for the parameters. ``read_once``: the loader gives its batches only once.
    """

    def __init__(
        self,
        model: Any,
        layer: Any,
        loader: Iterable[Any],
        positions: str = "rows",
        channel_axis: int | None = None,
        units: Sequence[int] | None = None,
    ) -> None:
        check_choice("positions", positions, ("rows", "mean"))
        self._model, self._loader, self._positions, self._axis = model, loader, positions, channel_axis
        if not hasattr(model, "named_modules"):
            raise InvalidParameterError(f"model must be a torch module, got {type(model).__name__}.")
        modules = dict(model.named_modules())
        names = [name for name, module in modules.items() if layer is module or layer == name]
        if not names and isinstance(layer, str):
            layers = suggestion(layer, filter(None, modules), "It has")
            raise InvalidParameterError(f"The network has no layer {layer!r}. {layers}")
        if not names:
            raise InvalidParameterError("layer must be a module of the network, or its name as named_modules() has it.")
        self._module = modules[names[0]]
        self.layer_name = names[0] or type(self._module).__name__
        self._units = None if units is None else [int(unit) for unit in units]
        batches = iter(loader)
        first = next(batches, None)
        if first is None:
            raise InvalidDataError("The loader has no batches.")
        self.read_once = batches is loader
        if self.read_once:
            self._loader = chain([first], batches)  # it keeps the first batch for the pass
        rows = list(self._run([first]))
        if not rows:
            raise InvalidParameterError(
                f"Layer {self.layer_name!r} did not run in the first batch: the network does not use it there. Name a"
                " layer that it does."
            )
        self.n_features = int(rows[0].shape[1])
        chosen = range(self.n_features) if self._units is None else self._units
        self.feature_names = tuple(f"{self.layer_name}[{unit}]" for unit in chosen)
        place = place_of(rows[0])
        if place is not None and brought_home(rows[0]) is rows[0]:
            self.place, self.engine = place, DeviceEngine
        self.rectified = all(bool((each >= 0).all()) for each in rows)

    def blocks(self) -> Iterator[Block]:
        first_row = 0
        for rows in self._run(self._loader):
            if rows.shape[1] != self.n_features:
                raise InvalidDataError(
                    f"Layer {self.layer_name!r} gave {rows.shape[1]} units and {self.n_features} before: its outputs"
                    " must have as many in every batch. channel_axis= says which axis they are on."
                )
            here = brought_home(rows)
            if here is rows:
                yield DeviceBlock(array=rows, place=self.place, first_row=first_row)
            else:
                yield Block(as_floats(here), first_row)
            first_row += int(rows.shape[0])
        if first_row == 0:
            raise InvalidDataError("The loader has no more batches: one that can be read again gives them once more.")

    def _run(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The layer's rows, batch by batch; the network is used without gradients, and left as it was found."""
        caught: list[Any] = []
        hook = self._module.register_forward_hook(lambda _module, _inputs, output: caught.append(output))
        modes = [(module, module.training) for module in self._model.modules()]
        place = next(chain(self._model.parameters(), self._model.buffers()), None)

        def moved(value: Any) -> Any:
            return value if place is None or not hasattr(value, "to") else value.to(place.device, non_blocking=True)

        self._model.eval()
        try:
            with without_gradients():
                for batch in batches:
                    # A batch, or the inputs of (inputs, targets), where the network is.
                    if isinstance(batch, dict):
                        self._model(**{name: moved(value) for name, value in batch.items()})
                    else:
                        self._model(moved(batch[0] if isinstance(batch, tuple | list) else batch))
                    while caught:
                        yield self._rows(caught.pop(0))
        finally:
            for module, training in modes:
                module.training = training
            hook.remove()

    def _rows(self, output: Any) -> Any:
        output = output[0] if isinstance(output, tuple | list) else output
        if output.ndim < 2:
            raise InvalidDataError(
                f"Layer {self.layer_name!r} gives outputs of shape {tuple(output.shape)}: rows and units are needed."
            )
        axis = self._axis
        if axis is None:
            kind = type(self._module).__name__
            last = output.ndim == 2 or kind in _FEATURES_LAST or (output.ndim == 3 and not kind.endswith("1d"))
            axis = -1 if last else 1
        output = output.movedim(axis, -1)
        if self._positions == "mean" and output.ndim > 2:
            output = output.flatten(1, -2).mean(dim=1)
        rows = output.reshape(-1, output.shape[-1])
        return rows if self._units is None else rows[:, self._units]
