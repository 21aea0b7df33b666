"""Standard errors of partial correlations: a jackknife over groups of rows, moderated, or the model's.

Fisher's variance of a partial correlation from n rows is

    f_ij = (1 - rho_ij^2)^2 / (n - d + 1)

with the number n of rows without floors that would know the correlations as well. The jackknife over G groups gives
v_ij, right for any table but known only to G - 1 degrees of freedom. As pairs differ little in v/f, each is drawn
towards the others as far as their scatter is that of chi-squared / (G - 1): with a prior of d0 degrees about s0^2
(Smyth 2004), found from mean and variance of log(v/f),

    stderr_ij^2 = f_ij (d0 s0^2 + (G - 1) v_ij/f_ij) / (d0 + G - 1),     with d0 + G - 1 degrees of freedom.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from unrelu.contracts import BoolArray, FloatArray, Watch
from unrelu.errors import FewGroupsWarning, InvalidDataError
from unrelu.fit.standard_errors import group_deviations
from unrelu.graph.path import invertible
from unrelu.graph.refit import ROUGHLY, partial_correlations, refitted_precision
from unrelu.graph.row_groups import RowGroups
from unrelu.validation import warn

_FEWEST_PAIRS = 10  # from which a prior can be learned
_DEGREES = 1e-2, 1e4  # of a prior
_FEW_GROUPS = 5


def model_errors(partial: FloatArray, effective_rows: float) -> FloatArray:
    """The root of f.

    >>> model_errors(np.array([[1.0, 0.5], [0.5, 1.0]]), 226.0).round(3)
    array([[0.  , 0.05],
           [0.05, 0.  ]])
    """
    return np.asarray((1.0 - partial**2) / np.sqrt(max(effective_rows - len(partial) + 1.0, 1.0)))


def partial_errors(
    groups: RowGroups, partial: FloatArray, adjacency: BoolArray, effective_rows: float, watch: Watch
) -> tuple[FloatArray, float]:
    """(standard errors of the partial correlations on a graph, their degrees of freedom)."""
    model = model_errors(partial, effective_rows)
    first, second = np.nonzero(np.triu(adjacency, 1))
    if len(first) == 0 or len(groups.weights) < _FEW_GROUPS:
        return model, np.inf

    def on_graph(correlation: FloatArray) -> FloatArray:
        refit = refitted_precision(invertible(correlation), adjacency, ROUGHLY)
        return np.asarray(partial_correlations(refit)[first, second])

    try:
        moved = np.array(groups.left_out(on_graph, watch))
        centre = on_graph(groups.whole())
    except InvalidDataError as error:
        warn(
            "Standard errors of partial correlations trust the model: without one of the groups of rows a column"
            f" cannot be learned. {error}",
            FewGroupsWarning,
        )
        return model, np.inf
    deviation = group_deviations(centre - moved, np.broadcast_to(groups.weights[:, None], moved.shape))
    variance = np.einsum("ge,ge->e", deviation, deviation)
    fisher = model[first, second] ** 2
    ratio, degrees = moderated(variance / fisher, groups.record.effective_groups - 1.0)
    stderr = np.full_like(partial, np.nan)
    stderr[first, second] = stderr[second, first] = np.sqrt(fisher * ratio)
    return stderr, degrees


def moderated(ratio: FloatArray, degrees: float) -> tuple[FloatArray, float]:
    """(ratios drawn towards each other, their degrees of freedom).

    >>> rng = np.random.default_rng(0)
    >>> drawn, degrees = moderated(rng.chisquare(19, 500) / 19, 19.0)
    >>> bool(np.all(np.abs(drawn - 1.0) < 0.1))
    True
    """
    if len(ratio) < _FEWEST_PAIRS or not np.all(ratio > 0.0):
        return ratio, degrees
    half = degrees / 2.0
    e = np.log(ratio) - digamma(half) + np.log(half)
    excess = float(np.var(e, ddof=1) - polygamma(1, half))
    if excess <= float(polygamma(1, _DEGREES[1] / 2.0)):
        prior, centre = _DEGREES[1], float(np.exp(np.mean(e)))
    elif excess >= float(polygamma(1, _DEGREES[0] / 2.0)):
        return ratio, degrees
    else:
        prior = 2.0 * float(brentq(lambda x: polygamma(1, x) - excess, _DEGREES[0] / 2.0, _DEGREES[1] / 2.0))
        centre = float(np.exp(np.mean(e) + digamma(prior / 2.0) - np.log(prior / 2.0)))
    return np.asarray((prior * centre + degrees * ratio) / (prior + degrees)), prior + degrees
