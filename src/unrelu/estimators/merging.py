"""What was learned from disjoint rows, joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unrelu.errors import InvalidParameterError
from unrelu.estimators.learner import RectifiedGaussianLearner
from unrelu.passes.pair_moments import GroupedMoments, PairMoments


def merge(parts: Sequence[RectifiedGaussianLearner | PairMoments | GroupedMoments]) -> Any:
    """Join what was learned from disjoint rows, as if all rows had been read together.

    Learners give a learner (they must agree in parameters and columns), records give a record.

    >>> import numpy as np
    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
    >>> parts = [unrelu.RectifiedGaussianLearner("one_pass").fit(rows) for rows in (X[:400], X[400:])]
    >>> whole = unrelu.RectifiedGaussianLearner("one_pass").fit(X)
    >>> bool(np.allclose(unrelu.merge(parts).covariance_, whole.covariance_, rtol=1e-10))
    True
    """
    known = (RectifiedGaussianLearner, PairMoments, GroupedMoments)
    parts = [parts] if isinstance(parts, known) else list(parts)
    if not parts:
        raise InvalidParameterError("merge needs at least one learner or record.")
    for part in parts:
        if not isinstance(part, known):
            raise InvalidParameterError(f"merge takes learners and records, got {type(part).__name__}.")
    learners = [part for part in parts if isinstance(part, RectifiedGaussianLearner)]
    for other in learners[1:]:
        learners[0].agrees_with(other)
    records: list[Any] = [_record_of(part) if isinstance(part, RectifiedGaussianLearner) else part for part in parts]
    merged = records[0]
    for record in records[1:]:
        if record.n_features != merged.n_features:
            raise InvalidParameterError(
                f"Cannot merge: {merged.n_features} columns in one part, {record.n_features} in another."
            )
        if type(record) is not type(merged):
            raise InvalidParameterError("Cannot merge a record by groups of rows with one that has none.")
        merged = merged.merge(record)
    return learners[0].with_record(merged, learners[1:]) if learners else merged


def _record_of(learner: RectifiedGaussianLearner) -> PairMoments | GroupedMoments:
    try:
        return learner.record_
    except AttributeError as error:
        raise InvalidParameterError(f"Cannot merge: {error}") from error
