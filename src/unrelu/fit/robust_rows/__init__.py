"""Outlier rows: a mixture in which they have components of their own, and a cut of rows that no component explains.

    table --> starts --> growth (components chosen by BIC) --> mixture (EM on all rows) --> the cut --> one model

``learn`` has the steps on one screen (the model of the inlier rows, which are the component with the largest share;
docs/research/011), the cut, and the test whether outliers are only heavy tails. ``clustering`` has those of a given
number of groups, all of interest. ``detection`` scores rows and cells of a table.
"""
