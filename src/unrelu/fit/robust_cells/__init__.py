"""Single bad cells: a mixture for every cell, genuine given the rest of its row, or of its column's background.

    table --> starts --> rounds on a sample (distribution judges cells, shares follow, distribution again) --> all
    rows --> one model

``learn`` has the steps on one screen, one pass over the rows, where to begin, and whether the cells are bad at all or
only tails. ``distribution`` says where bad cells lie, how cells and rows are judged, and how many are bad
(docs/research/034).
"""
