"""Layers below the last one: x = A h (+ a) with h = ReLU(W z + b), from samples of x alone, and so on downwards.

Where hidden unit i is off, x lies on the facet {h_i = 0} of the cone that A's columns span, and a unit is off in about
half of the samples: so facets hold many rows, whatever the signs in A (``facets.py``). The p facets together are A's
inverse on its column space (``decoding.py``). With fewer inputs z than units, as generators have, ``widening.py`` finds
units and inputs together. ``peeling.py`` has the order of the steps, ``rectifier.py`` undoes an outer rectifier,
``units.py`` has the distribution of units and what may be wrong with them, ``peeled.py`` the result; ``experimental/``
is for three layers.

A, W, b and a are the papers' symbols: the hidden units are the core's RectifiedGaussian with mean b and covariance W
W'.
"""
