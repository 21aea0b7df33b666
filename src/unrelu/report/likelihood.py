"""How probable a model makes rows: log-likelihood and information criteria, so that models compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu.contracts import FloatArray

if TYPE_CHECKING:
    from unrelu.estimators.learned_model import LearnedModel


def likelihood_facts(log_likelihood: float, n_parameters: int, n_rows: float) -> dict[str, Any]:
    """AIC and BIC as scikit-learn has them: lower is better.

    >>> likelihood_facts(-10.0, 2, 100)["aic"]
    24.0
    """
    return {
        "log_likelihood": log_likelihood,
        "n_parameters": n_parameters,
        "rows": n_rows,
        "aic": -2.0 * log_likelihood + 2.0 * n_parameters,
        "bic": float(-2.0 * log_likelihood + n_parameters * np.log(n_rows)),
    }


def density_facts(densities: FloatArray, n_parameters: int) -> dict[str, Any]:
    """The same from log densities of rows."""
    return likelihood_facts(float(densities.sum()), n_parameters, len(densities))


def reported_likelihood(learner: LearnedModel) -> dict[str, Any] | None:
    """What a fit by likelihood has told already; None of other fits."""
    found = getattr(learner.report_, "log_likelihood", None)
    return None if found is None else likelihood_facts(found, learner.n_parameters_, learner.report_.n_rows)


def kept_likelihood(details: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a model file holds of it; None where it is not one of ours."""
    found = details.get("likelihood")
    known = isinstance(found, dict) and all(
        isinstance(found.get(name), int | float) for name in ("log_likelihood", "n_parameters", "rows", "aic", "bic")
    )
    return found if known else None


def likelihood_words(facts: Mapping[str, Any]) -> str:
    """In a line.

    >>> likelihood_words(likelihood_facts(-1234.56, 9, 1000))
    '-1,234.6 of 1,000 rows with 9 parameters: AIC 2,487.1, BIC 2,531.3'
    """
    return (
        f"{facts['log_likelihood']:,.1f} of {facts['rows']:,.0f} rows with {facts['n_parameters']:,} parameters:"
        f" AIC {facts['aic']:,.1f}, BIC {facts['bic']:,.1f}"
    )
