"""Learning in parts: learners of disjoint rows, merged, and a layer of a torch network, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.estimators.learner import HoldsLearner, Record, RectifiedGaussianLearner
from unrelu.passes.pair_moments import GroupedMoments, PairMoments, whole_of
from unrelu.tables.device import LayerSamples
from unrelu.validation import listed, warn


def merge(parts: Sequence[RectifiedGaussianLearner | HoldsLearner | Record]) -> Any:
    """Merge learners or records of disjoint rows, as if all rows had been read together.

    Learners give a learner (they must agree in parameters and columns), records give a record.

    >>> import numpy as np
    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
    >>> parts = [unrelu.RectifiedGaussianLearner("one_pass").fit(rows) for rows in (X[:400], X[400:])]
    >>> whole = unrelu.RectifiedGaussianLearner("one_pass").fit(X)
    >>> bool(np.allclose(unrelu.merge(parts).covariance_, whole.covariance_, rtol=1e-10))
    True
    """
    kinds = (RectifiedGaussianLearner, HoldsLearner, PairMoments, GroupedMoments)
    parts = [parts] if isinstance(parts, kinds) else list(parts)
    if not parts:
        raise InvalidParameterError("merge needs at least one learner or record.")
    for part in parts:
        if not isinstance(part, kinds):
            raise InvalidParameterError(f"merge takes learners and records, got {type(part).__name__}.")
    like = parts[0]
    parts = [part.held_learner() if isinstance(part, HoldsLearner) else part for part in parts]
    learners = [part for part in parts if isinstance(part, RectifiedGaussianLearner)]
    for other in learners[1:]:
        learners[0].agrees_with(other)
    try:
        records: list[Any] = [part.record_ if isinstance(part, RectifiedGaussianLearner) else part for part in parts]
    except AttributeError as error:
        raise InvalidParameterError(f"Cannot merge: {error}") from error
    merged = records[0]
    for record in records[1:]:
        if record.n_features != merged.n_features:
            raise InvalidParameterError(
                f"Cannot merge: {merged.n_features} columns in one part, {record.n_features} in another."
            )
        if type(record) is not type(merged):
            raise InvalidParameterError("Cannot merge a record by groups of rows with one that has none.")
        merged = merged.merge(record)
    if not learners:
        return merged
    whole = learners[0].with_record(merged, learners[1:])
    return like.with_learner(whole) if isinstance(like, HoldsLearner) else whole


def learn_layer(
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
        The network; it runs without gradients and in evaluation mode, and is not changed.
    layer : str or torch.nn.Module
        The layer, or its name as ``model.named_modules()`` has it. Of a rectifier (``ReLU``) the activations are
        learned, with their floor at 0; of a layer before it the outputs, which have no floor.
    loader : iterable of batches
        Tensors, (inputs, targets) or dicts of keyword arguments, such as a torch DataLoader.
    learner : RectifiedGaussianLearner, optional
        A learner that the rows are added to, with its parameters and its progress callback. By default one pass over
        normal units, with a floor of 0 for the outputs of a rectifier and none for others.
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
        The learner after ``partial_fit`` of all rows. Without ``learner``, units that were never on are left out, with
        a warning of the kind "dead-units".

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> import unrelu
    >>> network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU())  # doctest: +SKIP
    >>> batches = [torch.randn(1000, 8) for _ in range(10)]  # doctest: +SKIP
    >>> unrelu.learn_layer(network, "1", batches).covariance_.shape  # doctest: +SKIP
    (16, 16)
    """

    rows = LayerSamples(model, layer, loader, positions, channel_axis, units)
    if learner is not None:
        if not isinstance(learner, RectifiedGaussianLearner):
            raise InvalidParameterError(f"learner must be a RectifiedGaussianLearner, got {type(learner).__name__}.")
        return learner.partial_fit(rows)
    floor = 0.0 if rows.rectified else None
    learned = RectifiedGaussianLearner("one_pass", floor=floor, margins="normal").partial_fit(rows)
    record = whole_of(learned.record_)
    on: Any = record.count.diagonal() > 0.0
    if on.all():
        return learned
    off = [name for name, alive in zip(rows.feature_names or (), on, strict=True) if not alive]
    if len(off) == len(on):
        raise InvalidDataError(f"No unit of layer {rows.layer_name!r} is ever on: there is nothing to learn.")
    warn(
        f"Never on in {record.n_rows:,} rows, and left out: {listed(off)}. More inputs may turn them on.", "dead-units"
    )
    return learned.of_columns(np.flatnonzero(on))
