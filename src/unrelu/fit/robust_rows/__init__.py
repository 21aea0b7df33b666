"""Outlier rows: a mixture in which they have components of their own, and a last look at rows nobody explains.

    table --> starts --> growth (components chosen by BIC) --> mixture (EM on all rows) --> reweighting --> one model

``learn`` has the steps on one screen (the model of the genuine rows, which are the component with the largest share;
docs/research/011), and asks whether outliers are only heavy tails; so has ``clustering`` (a given number of groups, all
of interest). ``detection`` scores rows and judges a table. ``components`` are what all stages use.
"""
