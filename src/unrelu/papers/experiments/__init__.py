"""The papers' experiments, run again: what was drawn, what was measured, which claims held.

    design.py      the nouns: settings, panels, curves, measures, how a picture is laid out
    measures.py    the axes and measures that the papers have
    trial.py       one draw of rows, learned by every curve
    results.py     measures of all trials; means, standard deviations, paired differences
    claims.py      a paper's sentence as a function of results: held or not held, and why
    experiment.py  all of it put together as data, in a full and a quick plan
    journal.py     finished trials on disk, so that a run goes on where it stopped
    runner.py      the whole reproduction on one screen
    checklist.py   the verdicts as a page to read
    wu2019.py      Wu et al. 2019, Figure 1
    outliers.py    Bulusu et al. 2022, Figures 1 and 2 and Table 1
    catalogue.py   the experiments by name

An experiment is data. To add one: a file like ``wu2019.py`` and a line in ``catalogue.py``. Nothing here draws or
prints; pictures are in :mod:`unrelu.report.reproduction`.
"""
