"""Full likelihood: the model under which all cells of a table together are most likely, cut-off ones and gaps included.

learning.py   the steps on one screen, where to start, and the climb on some of the rows
climbing.py   up the likelihood, what corrects its maximum, and standard errors
cells.py      what is asked of rows: cells in standard units, their number, and their scores
laws.py       the two kinds of model: any covariance, or factors and noise
"""
