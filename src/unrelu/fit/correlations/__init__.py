"""Latent correlations of all pairs, given the marginals: one variant, one file."""
