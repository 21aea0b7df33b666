"""Full likelihood: the model under which all cells of a table together are most likely, cut-off ones and gaps included.

learning.py     the steps on one screen, where to start, standard errors, and the maximum on some of the rows
maximizing.py   the two kinds of model, the scores of rows, the steps to the maximum, and what corrects it
"""
