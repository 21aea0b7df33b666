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


_RELATIVE = (
    "Errors are relative to |W|, which grows with d as they do: weights of GD without filter are 1.75 at d = 5, 1.85 at"
    " 15 and 1.83 at 20."
)
_WHY_NOT_1_HUBER = {
    1: "At most p^10 = .35 of the batches of ten are free of outliers at p = .9, so that the median moves with them:"
    " weights 1.28, and 1.22 without filter.",
    2: "The median of skewed batch means is further from their mean than the trimmed mean is: bias .112 and .104 at"
    " p = 1.",
    3: "Up to p = .95 half of the batches of ten and more hold outliers, where no filter helps and errors are not"
    " ordered by p: weights 1.12, 1.34, 1.28 and 1.34 at p = .8 to .95.",
    6: "The median of skewed batch means is not their mean: bias .112, and .036 of the oracle.",
    8: "What outliers do to batches of ten does not depend on how many batches there are: bias .169 at n = 20,000 and"
    " .184 at 200,000.",
    9: _RELATIVE,
    10: "Errors are relative to |W|, which grows with d as they do: weights of GD with median 1.34 at d = 5 and 1.31 at"
    " 20.",
}
_WHY_NOT_1_BLOCK = {
    2: "The trimmed mean averages 30 % of the batches and the median one or two, which is noisier, and more biased as"
    " batch means are skewed: bias .047 and .038 at p = 1.",
    6: "The median of skewed batch means is not their mean, at a hundred values a batch too: bias .047, and .036 of the"
    " oracle.",
    9: _RELATIVE,
    10: "Errors are relative to |W|, which grows with d as they do: bias of the trimmed mean .0399 at d = 5 and .0451"
    " at 20, a rise within 2 standard errors.",
}

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
        Reading(HUBER, SAYS_HUBER, _claims_of_figure_1(GD_MEDIAN, GD_TRIMMED)).explained(_WHY_NOT_1_HUBER),
        Reading(BLOCK, SAYS_BLOCK, _claims_of_figure_1(GD_MEDIAN_BLOCK, GD_TRIMMED_BLOCK)).explained(_WHY_NOT_1_BLOCK),
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
            "SGD with the median does not improve steadily with p",
            "dependence on p, Figure 2a",
            SomeMeasure((GENUINE,), (SGD_MEDIAN,), ERRORS, RISES_SOMEWHERE),
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


_ALONG_N = (
    "The median of ten skewed values is biased however many steps are taken, and one value a step is not: bias along n"
    " ends at .542 with the median and .195 without filter."
)
_STEP_NOISE = (
    "One value a step leaves an error of its own that hides any growth with d: bias of oracle SGD .346 at d = 5 and"
    " .351 at 20."
)
_WHY_NOT_2_HUBER = {
    1: "The median of ten skewed values makes SGD's norms too small, and with them what (11) adds to the weights: .334"
    " at p = .95, where GD with the median of unclean batches has 1.34.",
    2: _ALONG_N,
    3: _WHY_NOT_1_HUBER[3],
    6: _WHY_NOT_1_HUBER[6],
    8: _STEP_NOISE,
    9: "Batches of ten are seldom clean, and the oracle has no outliers: weights 1.34 and .380 at p = .95.",
}
_WHY_NOT_2_BLOCK = {
    1: "(11) counts outliers whatever the filter, in proportion to the norms, which SGD's median of ten skewed values"
    " makes too small: weights .670 of GD and .232 of SGD at p = .8.",
    2: _ALONG_N,
    6: _WHY_NOT_1_BLOCK[6],
    8: _STEP_NOISE,
    9: "(11) counts outliers whatever the filter, which costs more than SGD's noise up to p = .9: weights .670 and .401"
    " at p = .8.",
}

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
        Reading(HUBER, SAYS_HUBER, _claims_of_figure_2(GD_MEDIAN)).explained(_WHY_NOT_2_HUBER),
        Reading(BLOCK, SAYS_BLOCK, _claims_of_figure_2(GD_MEDIAN_BLOCK)).explained(_WHY_NOT_2_BLOCK),
    ),
    notes=NOTES,
)
