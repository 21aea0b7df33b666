"""Bias and row norm of every coordinate by itself: one variant, one file."""
