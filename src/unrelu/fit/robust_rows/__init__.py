"""Outlier rows: a mixture in which they have components of their own, and a last look at rows nobody explains.

    table --> starts --> growth (components chosen by BIC) --> mixture (EM on all rows) --> reweighting --> one model

Three conductors have the steps on one screen each: ``learning`` (the model of the genuine rows, which are the component
with the largest share; docs/research/011), ``clustering`` (a given number of groups, all of interest), and ``scoring``
(a table judged by ``detection``'s scores). ``tails`` asks whether outliers are only heavy tails; ``selection`` and
``components`` are what all stages use.
"""
