"""Outlier rows: a mixture in which they have components of their own, and a last look at rows nobody explains.

    subsample --> starts --> growth (components chosen by BIC) --> EM on all rows --> reweighting --> one model

Genuine rows are the component with the largest share. See docs/decisions/011.
"""
