"""A layer of a torch network, learned while the network runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unrelu.errors import DeadUnitsWarning, InvalidDataError, InvalidParameterError
from unrelu.estimators.learner import RectifiedGaussianLearner
from unrelu.tables.device import LayerSamples
from unrelu.validation import listed, warn


def activations(
    model: Any,
    layer: Any,
    loader: Iterable[Any],
    *,
    learner: RectifiedGaussianLearner | None = None,
    positions: str = "rows",
    channel_axis: int | None = None,
    units: Sequence[int] | None = None,
) -> RectifiedGaussianLearner:
    """Learn the outputs of a layer of a torch network, batch by batch, on the device it runs on; none is stored.

    Parameters
    ----------
    model : torch.nn.Module
        The network; it runs without gradients and in evaluation mode, and is left as it was found.
    layer : str or torch.nn.Module
        The layer, or its name as ``model.named_modules()`` has it. Of a rectifier (``ReLU``) the activations are
        learned, with their floor at 0; of a layer before it the outputs, which have no floor.
    loader : iterable of batches
        Tensors, (inputs, targets) or dicts of keyword arguments, such as a torch DataLoader.
    learner : RectifiedGaussianLearner, optional
        One to go on with; its own parameters say what is assumed, and its ``watched_by`` hears of the rows. By default
        one pass over normal units, with the floor that the first batch shows.
    positions : "rows" or "mean", default="rows"
        Of convolutions: every position is a row, or its mean over them.
    channel_axis : int, optional
        The axis of the units; by default the last of two axes, of ``Linear`` and the like, and of sequences, otherwise
        the second, as convolutions have it.
    units : sequence of int, optional
        The units to learn; all by default.

    Returns
    -------
    RectifiedGaussianLearner
        With ``partial_fit`` of all rows. Without ``learner``, units that were never on are left out, with a
        :class:`unrelu.errors.DeadUnitsWarning`.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> import unrelu
    >>> network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU())  # doctest: +SKIP
    >>> batches = [torch.randn(1000, 8) for _ in range(10)]  # doctest: +SKIP
    >>> unrelu.activations(network, "1", batches).covariance_.shape  # doctest: +SKIP
    (16, 16)
    """
    rows = LayerSamples(model, layer, loader, positions, channel_axis, units)
    if learner is not None:
        if not isinstance(learner, RectifiedGaussianLearner):
            raise InvalidParameterError(f"learner must be a RectifiedGaussianLearner, got {type(learner).__name__}.")
        return learner.partial_fit(rows)
    floor = 0.0 if rows.rectified else None
    learned = RectifiedGaussianLearner("one_pass", floor=floor, shape="normal").partial_fit(rows)
    on: Any = learned.record_.count.diagonal() > 0.0  # type: ignore[union-attr]
    if on.all():
        return learned
    off = [name for name, alive in zip(rows.feature_names or (), on, strict=True) if not alive]
    if len(off) == len(on):
        raise InvalidDataError(f"No unit of layer {rows.layer_name!r} is ever on: there is nothing to learn.")
    warn(
        f"Never on in {learned.record_.n_rows:,} rows, and left out: {listed(off)}. More inputs may turn them on.",
        DeadUnitsWarning,
    )
    return learned.of_columns(np.flatnonzero(on))
