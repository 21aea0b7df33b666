"""Layers below the last one: x = A h (+ a) with h = ReLU(W z + b), from samples of x alone, and so on downwards.

Where hidden unit i is off, x lies on the facet {h_i = 0} of the cone that A's columns span, and a unit is off in about
half of the samples: facets show, whatever the signs in A (``facets.py``). The p facets together are A's inverse on its
column space (``decoding.py``, with the reduction to separable factorization that Wu et al. 2019 suggests).

With fewer inputs z than units, as generators have, ``widening.py`` finds units and inputs together: some units as
planes, all others in the space of the inputs (``planes.py``), and the inputs themselves (``inputs.py``).
``rectifier.py`` undoes an outer rectifier. ``deepening.py``, three layers, is experimental.

Where to start reading: ``two_layers.py`` and ``peeling.py`` have the order of the steps, ``peeled.py`` what they give.
"""
