"""What a known model says about rows.

``cells``: rows as a model meets them. ``density``: the one density. ``marginals``, ``draws``: hidden cells. ``scores``:
a pass that asks every row, and p-values.
"""
