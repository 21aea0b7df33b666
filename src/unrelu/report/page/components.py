"""Directions that the columns share: the eigenvalues of the latent correlations, and the columns behind the first."""

from __future__ import annotations

from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.eigenvalues import largest_eigenpairs
from unrelu.report.page.packing import rounded

_SHARES, _COMPONENTS, _LOADINGS = 15, 4, 8


def component_facts(latent: FloatArray, naive: FloatArray | None) -> dict[str, Any]:
    """Shares of the variance (columns standardized), naive ones beside them, and the first components' loadings.

    A loading is the correlation of a column with the component. Components are told as long as their share is above
    that of a single column.

    >>> facts = component_facts(np.array([[1.0, 0.5], [0.5, 1.0]]), None)
    >>> facts["shares"], [loading["loading"] for loading in facts["components"][0]["loadings"]]
    ([0.75, 0.25], [0.866, 0.866])
    """
    d = len(latent)
    values, vectors = _leading(latent, min(_SHARES, d))
    own = None if naive is None or np.isnan(naive).any() else _leading(naive, min(_SHARES, d))[0]
    told = max(1, min(_COMPONENTS, int(np.count_nonzero(values > 1.0))))
    return {
        "shares": rounded(values / d),
        "naive_shares": None if own is None else rounded(own / d),
        "components": [
            {"share": float(values[k] / d), "loadings": _loadings(vectors[:, k] * np.sqrt(values[k]))}
            for k in range(told)
        ],
    }


def _leading(matrix: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """The k largest eigenvalues, falling, at least 0, and their vectors."""
    values, vectors = largest_eigenpairs(matrix, k)
    order = np.argsort(-values, kind="stable")
    return np.maximum(values[order], 0.0), vectors[:, order]


def _loadings(loadings: FloatArray) -> list[dict[str, Any]]:
    """The largest of them, the largest of all positive."""
    loadings = loadings * (1.0 if loadings[np.argmax(np.abs(loadings))] >= 0.0 else -1.0)
    few = np.argsort(-np.abs(loadings), kind="stable")[:_LOADINGS]
    return [{"column": int(j), "loading": round(float(loadings[j]), 3)} for j in few]
