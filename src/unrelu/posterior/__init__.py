"""Posterior of rows under a given model.

``cells``: rows in the user's units and as latent values. ``density``: the one density, scores of rows in one pass, and
p-values. ``marginals``, ``draws``: hidden cells.
"""
