"""Are rows taken for outliers, or only the tails of a table that is heavier than a normal one?

Rows of a multivariate t distribution are those of a normal one, each widened by a factor c of its own, with
1/c^2 ~ Gamma(nu/2, nu/2): there is every factor between the usual and the rarest, and no row is of another kind. So
three laws of the rows are compared, all about the genuine rows' own means and correlations,

    t            c of a t distribution with nu degrees of freedom, in units a
    two widths   c is one of two numbers: most rows as they are, and others wider
    the groups   that were found

and the tails are heavy where the first has a lower BIC than the groups and is not clearly less likely than the second.
The log density of a row at any c is a spline through those at a few.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.stats import gamma

from unrelu.contracts import Assumptions, Evidence, FloatArray, RowParameters
from unrelu.errors import HeavyTailsWarning, UnreluWarning
from unrelu.fit.one_pass import fit_record
from unrelu.fit.robust_rows.mixture import Mixture
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.posterior.row_scores import Values
from unrelu.validation import warn

_WIDTHS = np.linspace(np.log(0.25), np.log(16.0), 15)  # logarithms of c, at which densities are computed
_FINE = np.linspace(_WIDTHS[0], _WIDTHS[-1], 141)
_DEGREES = np.array([2.2, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0])
_UNITS = np.geomspace(0.4, 2.0, 41)  # a, where the genuine rows' spread is 1
_SHARES = np.array([0.003, 0.006, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.27, 0.35, 0.45])
_LITTLE = 0.02  # of a row norm, which nobody needs to hear of
_CLEARLY = 6.0  # log-likelihood by which two widths would have to be likelier


@dataclass(frozen=True, eq=False)
class HeavyTails:
    """A t distribution of the rows: its degrees of freedom, and the standard deviations of columns."""

    degrees: float
    spread: FloatArray


def heavy_tails(mixture: Mixture, values: Values, weights: FloatArray) -> HeavyTails | None:
    """The t distribution that explains rows better than groups of outliers do; None where none does."""
    main, n = mixture.main_component, float(weights.sum())
    at = np.stack([main.widened(float(np.exp(width))).log_density(values) for width in _WIDTHS], axis=1)
    fine = CubicSpline(_WIDTHS, at, axis=1)(_FINE)
    highest = fine.max(axis=1, keepdims=True)
    density = np.exp(fine - highest)
    level = float(weights @ highest[:, 0])

    def likelihoods(laws: FloatArray) -> FloatArray:
        return np.asarray(level + weights @ np.log(np.maximum(density @ laws, 1e-300)))

    given = [(nu, a) for nu in _DEGREES for a in _UNITS]
    of_t = likelihoods(np.stack([_widths_of_t(nu, a) for nu, a in given], axis=1))
    best = int(np.argmax(of_t))
    of_two = likelihoods(_two_widths())
    of_groups = float(weights @ mixture.posterior(values)[1])
    bic_t = -2.0 * of_t[best] + (main.n_parameters + 1) * np.log(n)
    bic_groups = -2.0 * of_groups + mixture.n_parameters * np.log(n)
    if bic_t >= bic_groups or of_t[best] < of_two.max() - _CLEARLY:
        return None
    nu, a = given[best]
    return HeavyTails(float(nu), main.scale * a * np.sqrt(nu / (nu - 2.0)))


def _widths_of_t(nu: float, a: float) -> FloatArray:
    """Probabilities of the fine widths."""
    half = 0.5 * (_FINE[1] - _FINE[0])
    edges = np.exp(-2.0 * np.append(_FINE - half, _FINE[-1] + half)) * a * a  # 1/c^2 has the law of a^-2 Gamma
    edges[0], edges[-1] = np.inf, 0.0
    return np.asarray(-np.diff(gamma.cdf(edges, 0.5 * nu, scale=2.0 / nu)))


def _two_widths() -> FloatArray:
    """Widths x laws."""
    first = np.flatnonzero(np.abs(_FINE) < np.log(1.3))[::2]
    laws = []
    for one in first:
        for other in range(int(one) + 4, len(_FINE), 3):
            law = np.zeros((len(_FINE), len(_SHARES)))
            law[one], law[other] = 1.0 - _SHARES, _SHARES
            laws.append(law)
    return np.concatenate(laws, axis=1)


def columns_of_all(evidence: Evidence, assumptions: Assumptions) -> RowParameters:
    """What the one-pass fit says of the columns, with no row left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # it is looked at, and not the result
        record = evidence.collect(PairMomentsQuestion.under(assumptions, shapes=False), remember=False)
        return fit_record(record, assumptions)[0]


def warn_of_tails(tails: HeavyTails, robust: FloatArray, everything: FloatArray) -> None:
    """Say what is off in the spreads of columns: of the robust fit, and of a fit to ``everything``."""
    off, other = (1.0 - float(np.median(spread / tails.spread)) for spread in (robust, everything))
    if off < _LITTLE:
        said = "Row norms hardly suffer from it here; far rows are likelier than the model says."
    elif abs(other) < 0.5 * off:
        said = (
            f"Row norms are then about {off:.0%} too small. method='one_pass' was tried: it takes all rows for genuine,"
            f" and its row norms are off by {abs(other):.0%}; far rows are likelier than either model says."
        )
    else:
        said = (
            f"Row norms are then about {off:.0%} too small. method='one_pass' was tried, too: its row norms"
            f" are off by {abs(other):.0%}."
        )
    warn(
        "Rows that were taken for outliers continue the tails of the others, and no gap parts them: a t distribution"
        f" with about {tails.degrees:.2g} degrees of freedom explains the table better than a normal one with outliers"
        f" does. {said}",
        HeavyTailsWarning,
    )
