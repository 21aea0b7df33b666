"""The robust method on one screen: a sample of the rows, starts, growth, all rows, the last look."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from unrelu.checks.findings import doubts_of, warn_of
from unrelu.checks.rows import look_at
from unrelu.contracts import Assumptions, Census, Evidence, FloatArray, RobustReport, Step, Watch, unwatched
from unrelu.errors import UnreluWarning
from unrelu.fit.one_pass import Learned, with_inverse
from unrelu.fit.robust_rows.components import Setting
from unrelu.fit.robust_rows.growth import CHOOSING, SampledRows, choose_mixture, warn_of_two_groups
from unrelu.fit.robust_rows.mixture import Mixture, settle_on_all
from unrelu.fit.robust_rows.reweighting import Imitation, learn_kept, reweight
from unrelu.fit.robust_rows.selection import ColumnEvidence, ColumnIndex
from unrelu.fit.robust_rows.starts import concentrated_starts, disagree, rows_to_start_on
from unrelu.fit.robust_rows.table import check_table, find_repeated_rows, prior_record, sampled_table
from unrelu.fit.robust_rows.tails import columns_of_all, heavy_tails, warn_of_tails
from unrelu.passes.engine import one_blas_thread

_GENUINE = 0.5  # weight from which on a row says something of the model


@dataclass(frozen=True, eq=False)
class RobustLearned(Learned):
    """The model of the genuine rows, and the mixture that tells them from others.

    ``row_weights``: one per row of the table, 0 for outliers, without the table's own weights. The mixture speaks of
    the columns ``columns``, those by which rows can be judged.
    """

    row_weights: FloatArray
    mixture: Mixture
    columns: ColumnIndex

    def __post_init__(self) -> None:
        self.mixture.check_columns(self.columns, self.distribution.n_features)


def learn_robustly(
    evidence: Evidence, assumptions: Assumptions, max_groups: int, seed: int, watch: Watch = unwatched
) -> RobustLearned:
    """The model of the genuine rows."""
    sample, names, rng = sampled_table(evidence, assumptions, seed), evidence.feature_names, np.random.default_rng(seed)
    columns = check_table(sample, assumptions, names)
    values = np.ascontiguousarray(sample.values[:, columns])
    floors = tuple(assumptions.floor[j] for j in columns)
    inner = replace(assumptions, floor=floors, n_components=None, mirrored=(), shapes=())
    repeats, values_once = find_repeated_rows(values, inner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # of fits on the way, not of the result
        watch(Step(CHOOSING, words="looking for places to start"))
        # Many small products and factorizations: BLAS threads would cost more than they give, and on a busy machine
        # wait for each other. Scoring rows has threads of its own.
        with one_blas_thread():
            setting = Setting(inner, prior_record(values_once, inner, rng))
            starts = concentrated_starts(rows_to_start_on(values_once, rng), setting, rng)
            rows = SampledRows.of(values, sample.effective_weights, watch)
            settled = choose_mixture(rows, starts, repeats, setting, max_groups, rng, watch)
        mixture, rounds = settle_on_all(ColumnEvidence(evidence, columns), settled, sample, watch)
        imitation = Imitation(rng, np.isnan(sample.values))
        reweighted = reweight(evidence, mixture, assumptions, columns, imitation, watch)
        tails = heavy_tails(mixture, values, sample.effective_weights) if reweighted.share_downweighted > 0.0 else None
    warn_of_two_groups(mixture, sample.n_present)
    stages = learn_kept(reweighted.record, assumptions, names)
    if tails is not None:
        warn_of_tails(tails, stages.rows.scale[columns], columns_of_all(evidence, assumptions).scale[columns])
    look = look_at(evidence, assumptions)
    if look is not None:
        look = look.trimmed(reweighted.weights[look.rows] > _GENUINE)
    doubts = doubts_of(reweighted.record, stages.rows, assumptions, stages.pairs, stages.assembly, look)
    warn_of(doubts, names)
    census = Census(sample.n_present, sample.observed, sample.above, reweighted.record.count < 0.5)
    report = RobustReport.of(
        "robust",
        sample.n_rows,
        reweighted.record.effective_rows,
        census,
        stages.assembly,
        rounds=rounds + reweighted.rounds,
        share_downweighted=reweighted.share_downweighted,
        groups=mixture.groups,
        cut_p_value=reweighted.cut_p_value,
        starts_disagreed=disagree(starts),
        doubts=doubts,
        **assumptions.limits,
    )
    model, report = with_inverse(stages, report, assumptions.n_components, reweighted.record.weight)
    given = (model, stages.rows, stages.pairs, stages.assembly, report)
    return RobustLearned(*given, reweighted.weights, mixture.finished(), columns)
