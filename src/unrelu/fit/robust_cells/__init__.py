"""Single bad cells: a mixture for every cell, an inlier given the rest of its row, or of its column's background.

    table --> starts --> rounds on a sample (probabilities of cells, shares of bad ones, model again)
          --> all rows --> one model

``learn`` has the steps on one screen, one pass over the rows, where to begin, and whether the cells are bad at all or
only tails. ``cell_model`` says where bad cells lie, how probable it is that a cell or a row is bad, and how many are
(docs/research/034).
"""
