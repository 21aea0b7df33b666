"""What one layer of a torch network gives, as rows: batches run through the network as they are asked for.

Nothing is stored: outputs are handed on while the next batch waits, on the device that the network is on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from unrelu.contracts import Block
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.device import DeviceEngine, brought_home, place_of, without_gradients
from unrelu.passes.rows import Rows, as_floats
from unrelu.tables.device_arrays import DeviceBlock
from unrelu.validation import check_choice, suggestion

_FEATURES_LAST = ("Linear", "LayerNorm", "Embedding", "Bilinear")  # modules whose outputs end with their units


class LayerSamples(Rows):
    """The outputs of ``layer`` of ``model`` for the batches of ``loader``, a row for each input, or each position.

    See :func:`unrelu.activations` for the parameters.
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
        self.layer_name, self._module = _found(model, layer)
        self._units = None if units is None else [int(unit) for unit in units]
        self._first = list(self._of_one_batch())
        if not self._first:
            raise InvalidParameterError(
                f"Layer {self.layer_name!r} did not run in the first batch: the network does not use it there. Name a"
                " layer that it does."
            )
        self.n_features = int(self._first[0].shape[1])
        chosen = range(self.n_features) if self._units is None else self._units
        self.feature_names = tuple(f"{self.layer_name}[{unit}]" for unit in chosen)
        place = place_of(self._first[0])
        if place is not None and brought_home(self._first[0]) is self._first[0]:
            self.place, self.engine = place, DeviceEngine
        self.rectified = all(bool((rows >= 0).all()) for rows in self._first)
        self._first = []

    def blocks(self) -> Iterator[Block]:
        first_row = 0
        for rows in self._run(self._batches()):
            if rows.shape[1] != self.n_features:
                raise InvalidDataError(
                    f"Layer {self.layer_name!r} gave {rows.shape[1]} units and {self.n_features} before: its outputs"
                    " must have as many in every batch. channel_axis= says which axis they are on."
                )
            here = brought_home(rows)
            yield (
                DeviceBlock(array=rows, place=self.place, first_row=first_row)
                if here is rows
                else Block(as_floats(here), first_row)
            )
            first_row += int(rows.shape[0])
        if first_row == 0:
            raise InvalidDataError("The loader has no more batches: one that can be read again gives them once more.")

    def _of_one_batch(self) -> Iterator[Any]:
        """The rows of the first batch; a loader that is read once keeps it for the pass."""
        batches = iter(self._loader)
        first = next(batches, None)
        if first is None:
            raise InvalidDataError("The loader has no batches.")
        self._held: Iterator[Any] | None = chain([first], batches) if batches is self._loader else None
        self.read_once = self._held is not None  # the loader gives its batches only once
        yield from self._run([first])

    def _batches(self) -> Iterable[Any]:
        return self._loader if self._held is None else self._held

    def _run(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The layer's rows, batch by batch; the network is left as it was found."""
        caught: list[Any] = []
        hook = self._module.register_forward_hook(lambda _module, _inputs, output: caught.append(output))
        try:
            with _as_in_use(self._model):
                for batch in batches:
                    _forward(self._model, batch)
                    while caught:
                        yield self._rows(caught.pop(0))
        finally:
            hook.remove()

    def _rows(self, output: Any) -> Any:
        """Outputs with their units as columns."""
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


def _found(model: Any, layer: Any) -> tuple[str, Any]:
    """(name, module) of a layer that is given by either."""
    if not hasattr(model, "named_modules"):
        raise InvalidParameterError(f"model must be a torch module, got {type(model).__name__}.")
    modules = dict(model.named_modules())
    if isinstance(layer, str):
        if layer not in modules:
            names = [name for name in modules if name]
            raise InvalidParameterError(f"The network has no layer {layer!r}. {suggestion(layer, names, 'It has')}")
        return layer, modules[layer]
    for name, module in modules.items():
        if module is layer:
            return name or type(module).__name__, module
    raise InvalidParameterError("layer must be a module of the network, or its name as named_modules() has it.")


def _forward(model: Any, batch: Any) -> None:
    """Run a batch, or the inputs of (inputs, targets), where the network is."""
    place = next(chain(model.parameters(), model.buffers()), None)

    def moved(value: Any) -> Any:
        return value if place is None or not hasattr(value, "to") else value.to(place.device, non_blocking=True)

    if isinstance(batch, dict):
        model(**{name: moved(value) for name, value in batch.items()})
    else:
        model(moved(batch[0] if isinstance(batch, tuple | list) else batch))


@contextmanager
def _as_in_use(model: Any) -> Iterator[None]:
    """Without gradients and as it is used, not trained; every module is left in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with without_gradients():
            yield
    finally:
        for module, training in modes:
            module.training = training
