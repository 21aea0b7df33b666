"""Algorithms of other authors for the same problems, for comparison; the library does not need them.

a_nmd.py  three_block.py  ebcd.py   ReLU matrix decompositions without a bias, as methods of ReLUMatrixRecovery
latent_matrix.py  latent_cells.py   parts that these three share
latent.py                           latent vectors of a layer by Huber, Cauchy, RANSAC, statsmodels, cvxpy
layers.py                           two layers by successive projection, NMF and others
"""
