"""The climb once more without every group of rows in turn, from the maximum of all rows on: what a jackknife needs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace

from unrelu.contracts import Assumptions, Evidence, Step, Watch, unwatched
from unrelu.errors import InvalidDataError, UnreluWarning
from unrelu.fit.likelihood.cells import CellTallyQuestion
from unrelu.fit.likelihood.climbing import climb
from unrelu.fit.likelihood.scores import Law
from unrelu.fit.likelihood.starts import Start, check_columns
from unrelu.fit.standard_errors import LEAVING_OUT, not_without
from unrelu.passes.pair_moments import AllButGroup, GroupedMoments
from unrelu.validation import label_columns

_TO_GAIN = 5e-6  # a parameter: 19 times the way that is left is little beside what 20 groups scatter


def laws_without_a_group(
    evidence: Evidence,
    start: Start,
    law: Law,
    record: GroupedMoments,
    assumptions: Assumptions,
    watch: Watch = unwatched,
) -> Iterator[Law]:
    """The most likely law without each group of the record; ``law`` is that of all rows."""
    prior = start.prior(record.whole.weight)
    for at, label in enumerate(record.labels):
        watch(Step(LEAVING_OUT, at, len(record.labels)))
        others = AllButGroup(label, record.n_groups)
        tally = evidence.collect(CellTallyQuestion(assumptions.censoring, others), remember=False)
        # What is doubtful in the whole was said; without a group it would be said once more for every group.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreluWarning)
            try:
                constant = check_columns(tally, evidence.feature_names)
                if constant[start.cells.columns].any():
                    names = label_columns(constant & (start.scale > 0.0), evidence.feature_names)
                    raise InvalidDataError(f"Constant: {names}.")
            except InvalidDataError as error:
                raise not_without(record, at, error) from error
        cells, rows = replace(start.cells, rows=others), (tally.weight, tally.effective_rows)
        yield climb(evidence, cells, law, prior, rows, to_gain=_TO_GAIN).law
