"""Which columns are tied directly: the graph of partial correlations behind a table.

Two columns of y ~ N(b, S) are tied if their partial correlation, given all other columns, is not 0:

    rho_ij = -K_ij / sqrt(K_ii K_jj),     K = S^-1.

``learning`` has the order of the steps, ``edges`` the graphs of given correlations, ``subsets`` the correlations of
subsets of the rows, by the records of groups of rows without another pass over the rows.
"""
