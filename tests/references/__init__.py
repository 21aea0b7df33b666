"""Slow, independent definitions of the truth: quadrature, exact likelihoods, dense algebra.

Nothing here imports the kernels that it checks."""
