"""The papers' experiments, run again: what was drawn, what was measured, which claims held.

    design.py      the nouns: settings, panels, curves, measures; a study of them, and its results
    claims.py      a paper's sentence as a function of results: held or not held, and why
    runner.py      trials drawn and learned, kept on disk, judged, and written up as a page
    wu2019.py      Wu et al. 2019, Figure 1
    outliers.py    Bulusu et al. 2022, Figures 1 and 2 and Table 1

An experiment is data. To add one: a file like ``wu2019.py`` and its name below. Nothing here draws or prints; pictures
are in :mod:`unrelu.report.trying`.
"""

from __future__ import annotations

from unrelu.papers.experiments import outliers, wu2019
from unrelu.papers.experiments.design import Experiment
from unrelu.validation import check_choice

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (wu2019.FIGURE_1, outliers.FIGURE_1, outliers.FIGURE_2, outliers.TABLE_1)
}


def experiment_named(name: str) -> Experiment:
    """The experiment of that name.

    >>> experiment_named("outliers-table1").title
    'Learning with arbitrary outliers, Table 1: run times'
    >>> experiment_named("outlier-tabel1")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    unrelu.errors.InvalidParameterError: Unknown reproduction 'outlier-tabel1'. Did you mean 'outliers-table1'? ...
    """
    check_choice("reproduction", name, list(EXPERIMENTS))
    return EXPERIMENTS[name]
