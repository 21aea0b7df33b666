"""Does the model fit? Doubts about every fit, and a table beside tables that the fitted model would give.

findings.py    what is doubtful about a fit, in words, and the warnings of it
misfit.py      score tests on groups of a few columns, of some rows of the table (rows.py)
fit_check.py   the check that a user asks for: simulated tables with fits of their own, p-values
statistics.py  how far a table is from a model: numbers for columns and pairs, their p-values, and skewness from sums
"""
