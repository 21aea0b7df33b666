"""What a known model says about rows.

``cells``: rows as a model meets them. ``density``: the one density, a pass that asks every row for its score, and
p-values. ``marginals``, ``draws``: hidden cells.
"""
