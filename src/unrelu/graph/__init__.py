"""Which columns are tied directly: the graph of partial correlations behind a table.

Two columns of y ~ N(b, S) are tied if their partial correlation, given all other columns, is not 0:

    rho_ij = -K_ij / sqrt(K_ii K_jj),     K = S^-1.

The stages: ``path`` (graphs from sparse to dense, by lasso regressions of every column on the others), ``refit`` (the
most likely K of a graph), the choices of a graph (``information``, ``likely``, ``stability``, ``discovery``),
``errors`` of its partial correlations, and ``learning``, their order. All start from latent correlations; what is asked
of subsets of the rows is answered by the records of groups of rows (``row_groups``), without another look at the rows.
"""
