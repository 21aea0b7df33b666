"""Does the model fit? A table beside tables that the fitted model would give.

    passes.py   how far a table is from a model: a number for every column, three for every pair
    calibration.py  p-values from the same numbers of simulated tables
    result.py       FitCheck: the numbers, one sentence, and what pictures need
    fit_check.py    the conductor: rows, a fit, simulated tables with fits of their own, p-values

How tables are fitted is the caller's: a function of values and columns, or a model that is given.
"""
