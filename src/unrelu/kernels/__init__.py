"""Numba only: plain functions of arrays, compiled once and cached, free of the interpreter lock.

Nothing here allocates per call in a hot loop or knows about rows, files or models. Every kernel has
a slow NumPy or quadrature twin in ``tests/references`` that defines the truth.
"""
