"""The experiments by name."""

from __future__ import annotations

from unrelu.papers.experiments import outliers, outliers_table, wu2019
from unrelu.papers.experiments.experiment import Experiment
from unrelu.validation import check_choice

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (wu2019.FIGURE_1, outliers.FIGURE_1, outliers.FIGURE_2, outliers_table.TABLE_1)
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
