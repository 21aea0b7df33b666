"""Each named method as a composition of parts, side by side.

A method learns from evidence under assumptions. One that asks a single, mergeable question says so with
``question``; its record can then stand in for the data (partial_fit, merge).
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

import numpy as np

from unrelu.contracts import Assumptions, Evidence, LearningReport, PairCorrelations
from unrelu.correlations.weighted_moments import WeightedMoments
from unrelu.errors import InvalidParameterError, MoreColumnsThanRowsWarning, PerfectCorrelationWarning
from unrelu.learning import Learned, learn
from unrelu.marginals.censored_likelihood import CensoredLikelihood
from unrelu.statistics.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.validation import column_label, listed, warn

__all__ = ["Method", "OnePass", "method_named"]


class Method(Protocol):
    """Anything that learns a model from evidence."""

    def learn(self, evidence: Evidence, assumptions: Assumptions) -> Learned: ...


@dataclass(frozen=True)
class OnePass:
    """The default: censored-likelihood marginals and optimally weighted moments, from one pass over the rows.

    >>> import numpy as np
    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
    >>> learner = unrelu.RectifiedGaussianLearner(method=unrelu.methods.OnePass()).fit(X)
    >>> learner.report_.method
    'one_pass'
    """

    def question(self, assumptions: Assumptions) -> PairMomentsQuestion:
        """The only question this method asks."""
        return PairMomentsQuestion(assumptions.floor)

    def learn(self, evidence: Evidence, assumptions: Assumptions) -> Learned:
        marginals = CensoredLikelihood(assumptions.floor, assumptions.nonnegative_bias)
        distribution, rows, pairs, assembly = learn(evidence, assumptions, marginals, WeightedMoments())
        record = evidence.collect(self.question(assumptions))
        _warn_of_doubts(record, pairs, evidence.feature_names)
        observed = float(record.column_weight.sum())
        report = LearningReport(
            method="one_pass",
            n_rows=record.n_rows,
            n_features=record.n_features,
            effective_rows=record.weight * record.rows_per_weight,
            share_floored=1.0 - float(record.count.trace()) / observed,
            share_missing=1.0 - observed / (record.weight * record.n_features),
            pairs_never_above_together=int(np.count_nonzero(np.triu(record.count == 0.0, 1))),
            assembly=assembly,
        )
        return Learned(distribution, rows, pairs, report)


def _warn_of_doubts(record: PairMoments, pairs: PairCorrelations, names: tuple[str, ...] | None) -> None:
    if pairs.perfect_pairs:
        shown = listed(
            f"{column_label(i, names)} and {column_label(j, names)} ({pairs.correlation[i, j]:+.0f})"
            for i, j in pairs.perfect_pairs
        )
        warn(
            f"Exact linear images of each other: {shown}. Their latent correlation is +1 or -1 and the covariance is"
            " singular; drop one column of each pair if that is not meant.",
            PerfectCorrelationWarning,
        )
    if record.n_features > record.n_rows:
        warn(
            f"{record.n_features:,} columns but only {record.n_rows:,} rows: pairs are learned one by one and then"
            " made semidefinite; consider n_components= to learn a factor model.",
            MoreColumnsThanRowsWarning,
        )


_BY_NAME: dict[str, type[Method]] = {"one_pass": OnePass}


def method_named(method: str | Method) -> Method:
    """The method of that name with its defaults, or the object itself.

    >>> method_named("one_pass")
    OnePass()
    """
    if not isinstance(method, str):
        if not callable(getattr(method, "learn", None)):
            raise InvalidParameterError(
                f"method must be a name ({_names()}) or an object from unrelu.methods, got {method!r}."
            )
        return method
    if method not in _BY_NAME:
        near = get_close_matches(method, _BY_NAME, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidParameterError(f"Unknown method {method!r}.{hint} Methods: {_names()}.")
    return _BY_NAME[method]()


def _names() -> str:
    return ", ".join(repr(name) for name in _BY_NAME)
