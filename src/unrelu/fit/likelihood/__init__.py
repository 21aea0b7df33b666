"""Full likelihood: the model under which all cells of a table together are most likely, cut-off ones and gaps included.

fit/one_pass.py       the steps on one screen
rank.py           the number of factors, by the likelihood of rows that were held out
starts.py         where to start: the one-pass fit, or the columns' own fits where cells state their limits
climbing.py       up the likelihood: quasi-Newton steps in the metric of the rows' own scores
curvature.py      how the likelihood bends there: scores at laws near by
correction.py     the step from what expectation propagation has for the maximum to what corrects it
information.py    standard errors from curvature and scores
leaving_out.py    the climb without every group of rows in turn, for a jackknife
scores.py         the question asked of rows: log density and score; a record
covariance_law.py, factor_law.py   the two kinds of model: any covariance, or factors and noise
cells.py          a block's cells in standard units, each seen, at most, at least or missing
"""
