"""What notebooks show of an estimator: scikit-learn's diagram, and below it, once it is fitted, what was learned."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from unrelu.distribution import RectifiedGaussian
from unrelu.notebook import facts_html, model_html, plain_fields


class ShownEstimator(BaseEstimator):
    """The part of an estimator that notebooks ask."""

    def _html_repr(self) -> str:
        """The diagram with its parameters, then the report, then the columns of a model."""
        diagram: str = super()._html_repr()
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        return diagram + learned_html(self)


def learned_html(estimator: Any) -> str:
    """What a fitted estimator has learned, as tables.

    >>> import unrelu
    >>> learner = unrelu.RectifiedGaussianLearner().fit([[0.0, 1.0], [2.0, 0.5], [1.0, 3.0], [0.5, 0.0]])
    >>> "one_pass" in learned_html(learner)
    True
    """
    report, model = getattr(estimator, "report_", None), getattr(estimator, "distribution_", None)
    told = facts_html("report_", plain_fields(report)) if is_dataclass(report) else ""
    if not isinstance(model, RectifiedGaussian):
        return told
    return told + model_html(model.feature_names, {"floor": model.floor, "bias": model.bias, "norm": model.row_norms})
