"""The angle rule of Wu et al. 2019, (14), and Bulusu et al. 2022, (11): how often two coordinates exceed both biases.

For b >= floor, x_i > b_i exactly when W(i,:) z > 0, so that (Wu et al. 2019, Fact 1 and Lemma 2)

    P[x_i > b_i and x_j > b_j] = (pi - theta_ij)/(2 pi),   theta_ij = pi - 2 pi count/n,   r_ij = cos(theta_ij).

A negative bias breaks the first step: the rule then counts values that the floor has hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import Assumptions, BoolArray, Evidence, PairCorrelations, RowParameters
from unrelu.errors import InvalidDataError, PartialRecoveryWarning
from unrelu.statistics.column_tally import ColumnTallyQuestion
from unrelu.statistics.exceedances import ExceedancesQuestion
from unrelu.validation import column_label, listed, warn

_CLEARLY = 4.0  # standard errors by which the share above the floor must miss one half


@dataclass(frozen=True)
class ExceedanceAngles:
    """Refuses columns whose bias is clearly negative; with ``allow_partial`` their correlations are NaN instead.

    Standard errors are those of the count; the error of the bias is not in them. A count of more than half the rows is
    more than any angle gives: it counts as an angle of 0, or with ``project`` False, as the papers have it, as a
    negative one, whose cosine falls again.
    """

    assumptions: Assumptions
    allow_partial: bool = False
    project: bool = True

    def estimate(self, evidence: Evidence, rows: RowParameters) -> PairCorrelations:
        negative = self._clearly_negative(evidence)
        record = evidence.collect(ExceedancesQuestion(tuple(np.maximum(rows.bias, rows.floor).tolist())))
        seen = np.maximum(record.seen, 1.0)
        share = record.both / seen
        theta = np.pi - 2.0 * np.pi * share
        # dr/dshare = 2 pi sin(theta); a pair never or always counted keeps the error of half a row.
        safe = np.clip(share, 0.5 / seen, 1.0 - 0.5 / seen)
        stderr = 2.0 * np.pi * np.maximum(np.abs(np.sin(theta)), 1e-3) * np.sqrt(safe * (1.0 - safe) / seen)
        angle = np.clip(theta, 0.0, np.pi) if self.project else theta
        correlation = np.where(record.seen > 0, np.cos(angle), 0.0)
        stderr = np.where(record.seen > 0, np.minimum(stderr, 1.0), 1.0)
        unknown = rows.scale == 0.0
        correlation[unknown] = correlation[:, unknown] = 0.0
        stderr[unknown | negative] = stderr[:, unknown | negative] = np.nan
        correlation[negative] = correlation[:, negative] = np.nan
        np.fill_diagonal(correlation, 1.0)
        np.fill_diagonal(stderr, 0.0)
        return PairCorrelations(correlation, stderr)

    def _clearly_negative(self, evidence: Evidence) -> BoolArray:
        """Columns above the floor so much less than half of the time that their bias must be below it."""
        tally = evidence.collect(ColumnTallyQuestion.under(self.assumptions))
        share = tally.above / np.maximum(tally.observed, 1)
        negative = (tally.above > 0) & (share - 0.5 < -0.5 * _CLEARLY / np.sqrt(np.maximum(tally.observed, 1)))
        if not negative.any():
            return np.asarray(negative)
        names = evidence.feature_names
        where = listed(f"{column_label(int(j), names)} ({100 * share[j]:.0f} %)" for j in np.flatnonzero(negative))
        what = f"Above the floor in less than half of the rows: {where}. Its bias is clearly negative"
        if not self.allow_partial:
            raise InvalidDataError(
                f"{what}, and the papers' angle rule needs non-negative biases. Use method='one_pass',"
                " which handles any sign, or allow_partial=True for the other pairs."
            )
        warn(f"{what}: its correlations are not recovered (NaN, taken as 0 in the model).", PartialRecoveryWarning)
        return np.asarray(negative)
