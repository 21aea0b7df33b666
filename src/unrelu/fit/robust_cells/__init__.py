"""Single bad cells: a mixture for every cell, genuine given the rest of its row, or of its column's background.

    table --> starts --> rounds on a sample (law judges cells, shares follow, law again) --> all rows --> one model

``learning`` has the steps on one screen. ``background`` says where bad cells lie, ``law`` how cells and rows are
judged, ``shares`` how many are bad, ``at_floor`` how many of those at the floor, ``rounds`` what one pass over the rows
brings, ``tails`` whether the cells are bad at all (docs/research/034).
"""
