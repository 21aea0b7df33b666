"""Does the model fit? Diagnostics about every fit, and a table beside tables that the fitted model would give.

findings.py    diagnostics of a fit, from sums of its columns and the tests below, in words and in warnings
misfit.py      a sample of the rows of the table, and score tests of groups of a few columns on them
fit_check.py   the check that a user calls: simulated tables with fits of their own, p-values
statistics.py  how far a table is from a model: numbers for columns and pairs, and their p-values
"""
