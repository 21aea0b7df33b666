"""Bulusu et al. 2022, Figures 1 and 2: gradient descent with and without filters against outlier rows."""

from __future__ import annotations

from unrelu.papers.experiments.claims import (
    BELOW,
    BELOW_WITH_OUTLIERS,
    FALLS,
    FLAT,
    GROWS,
    GROWS_SLOWLY,
    MEETS,
    NO_WORSE,
    RISES_SOMEWHERE,
    Along,
    Between,
    Claim,
    Reading,
    SomeMeasure,
)
from unrelu.papers.experiments.design import Curve, PanelLayout
from unrelu.papers.experiments.experiment import Experiment
from unrelu.papers.experiments.measures import BIAS, COLUMNS, GENUINE, ROWS, WEIGHTS
from unrelu.papers.experiments.outlier_curves import (
    BLOCK,
    ERRORS,
    EVERYWHERE,
    FULL,
    GD,
    GD_MEDIAN,
    GD_MEDIAN_BLOCK,
    GD_ORACLE,
    GD_TRIMMED,
    GD_TRIMMED_BLOCK,
    HUBER,
    NOTES,
    ONE_PASS,
    ONE_PASS_ORACLE,
    PAPER,
    QUICK,
    SAYS_BLOCK,
    SAYS_HUBER,
    SGD,
    SGD_MEDIAN,
    SGD_ORACLE,
)

# --- Figure 1 -----------------------------------------------------------------------------------


def _claims_of_figure_1(median: Curve, trimmed: Curve) -> tuple[Claim, ...]:
    """With the two filters as a reading has them."""
    return (*_effects_of_filters(median, trimmed), *_sizes_of_tables(median, trimmed))


def _effects_of_filters(median: Curve, trimmed: Curve) -> tuple[Claim, ...]:
    """Of filters, and of p."""
    return (
        Claim(
            "With outliers, either filter brings the errors of GD down",
            "Figure 1 and effect of filters",
            Between(EVERYWHERE, ((median, GD), (trimmed, GD)), ERRORS, BELOW_WITH_OUTLIERS),
        ),
        Claim(
            "The median does slightly better than the trimmed mean, or as well",
            "effect of filters, summary",
            Between(EVERYWHERE, ((median, trimmed),), ERRORS, NO_WORSE),
        ),
        Claim(
            "GD with a filter improves as p grows",
            "dependence on p",
            Along((GENUINE,), (median, trimmed), ERRORS, FALLS),
        ),
        Claim(
            "The oracle does not depend on p",
            "dependence on p",
            Along((GENUINE,), (GD_ORACLE,), ERRORS, FLAT),
        ),
        Claim(
            "GD without filter does not improve steadily with p",
            "dependence on p",
            SomeMeasure((GENUINE,), (GD,), ERRORS, RISES_SOMEWHERE),
        ),
        Claim(
            "At p = 1 every scheme meets the oracle",
            "dependence on p",
            Between((GENUINE,), tuple((c, GD_ORACLE) for c in (GD, median, trimmed)), ERRORS, MEETS),
        ),
    )


def _sizes_of_tables(median: Curve, trimmed: Curve) -> tuple[Claim, ...]:
    """Of n, and of d."""
    return (
        Claim(
            "The errors of the oracle fall with n",
            "dependence on n",
            Along((ROWS,), (GD_ORACLE,), ERRORS, FALLS),
        ),
        Claim(
            "With a filter, more rows bring the errors down",
            "dependence on n",
            Along((ROWS,), (median, trimmed), ERRORS, FALLS),
        ),
        Claim(
            "The errors of GD without filter grow with d",
            "dependence on d",
            Along((COLUMNS,), (GD,), ERRORS, GROWS),
        ),
        Claim(
            "The errors of GD with a filter, and those of the oracle, grow slowly with d",
            "dependence on d",
            Along((COLUMNS,), (median, trimmed, GD_ORACLE), ERRORS, GROWS_SLOWLY),
        ),
    )


FIGURE_1 = Experiment(
    name="outliers-figure1",
    title="Learning with arbitrary outliers, Figure 1: GD schemes",
    paper=PAPER,
    full=FULL,
    quick=QUICK,
    curves=(GD, GD_MEDIAN, GD_TRIMMED, GD_MEDIAN_BLOCK, GD_TRIMMED_BLOCK, GD_ORACLE, ONE_PASS, ONE_PASS_ORACLE),
    measures=ERRORS,
    layout=PanelLayout(((BIAS,), (WEIGHTS,))),
    readings=(
        Reading(HUBER, SAYS_HUBER, _claims_of_figure_1(GD_MEDIAN, GD_TRIMMED)),
        Reading(BLOCK, SAYS_BLOCK, _claims_of_figure_1(GD_MEDIAN_BLOCK, GD_TRIMMED_BLOCK)),
    ),
    notes=NOTES,
)

# --- Figure 2 -----------------------------------------------------------------------------------


def _claims_of_figure_2(median: Curve) -> tuple[Claim, ...]:
    """With GD and the median as a reading has it."""
    return (*_effects_of_steps(median), *_oracles_and_sizes(median))


def _effects_of_steps(median: Curve) -> tuple[Claim, ...]:
    """Of GD, SGD and filters, and of p."""
    return (
        Claim(
            "GD does better than SGD, with the median and as oracle",
            "effect of filters",
            Between(EVERYWHERE, ((median, SGD_MEDIAN), (GD_ORACLE, SGD_ORACLE)), ERRORS, BELOW),
        ),
        Claim(
            "With outliers, the median brings the errors of SGD down",
            "effect of filters",
            Between(EVERYWHERE, ((SGD_MEDIAN, SGD),), ERRORS, BELOW_WITH_OUTLIERS),
        ),
        Claim(
            "GD with the median improves as p grows",
            "dependence on p",
            Along((GENUINE,), (median,), ERRORS, FALLS),
        ),
        Claim(
            "The oracles do not depend on p",
            "dependence on p",
            Along((GENUINE,), (SGD_ORACLE, GD_ORACLE), ERRORS, FLAT),
        ),
        Claim(
            "SGD does not improve steadily with p, neither with the median nor without filter",
            "dependence on p",
            SomeMeasure((GENUINE,), (SGD_MEDIAN, SGD), ERRORS, RISES_SOMEWHERE),
        ),
    )


def _oracles_and_sizes(median: Curve) -> tuple[Claim, ...]:
    """Of oracles, and of n and d."""
    return (
        Claim(
            "At p = 1 every scheme meets its oracle",
            "dependence on p",
            Between((GENUINE,), ((SGD, SGD_ORACLE), (SGD_MEDIAN, SGD_ORACLE), (median, GD_ORACLE)), ERRORS, MEETS),
        ),
        Claim(
            "The errors of both oracles fall with n",
            "dependence on n",
            Along((ROWS,), (SGD_ORACLE, GD_ORACLE), ERRORS, FALLS),
        ),
        Claim(
            "The errors of both oracles grow slowly with d",
            "dependence on d",
            Along((COLUMNS,), (SGD_ORACLE, GD_ORACLE), ERRORS, GROWS_SLOWLY),
        ),
        Claim(
            "GD with the median does better even than the SGD oracle",
            "summary",
            Between(EVERYWHERE, ((median, SGD_ORACLE),), ERRORS, BELOW),
        ),
    )


FIGURE_2 = Experiment(
    name="outliers-figure2",
    title="Learning with arbitrary outliers, Figure 2: GD and SGD",
    paper=PAPER,
    full=FULL,
    quick=QUICK,
    # The paper draws the median and the oracle; SGD without filter is here for its claim about filters with SGD.
    curves=(SGD, SGD_MEDIAN, GD_MEDIAN, GD_MEDIAN_BLOCK, SGD_ORACLE, GD_ORACLE, ONE_PASS, ONE_PASS_ORACLE),
    measures=ERRORS,
    layout=PanelLayout(((BIAS,), (WEIGHTS,))),
    readings=(
        Reading(HUBER, SAYS_HUBER, _claims_of_figure_2(GD_MEDIAN)),
        Reading(BLOCK, SAYS_BLOCK, _claims_of_figure_2(GD_MEDIAN_BLOCK)),
    ),
    notes=NOTES,
)
