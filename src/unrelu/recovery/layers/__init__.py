"""Layers below the last one: x = A h (+ a) with h = ReLU(W z + b), from samples of x alone, and so on downwards.

Where hidden unit i is off, x lies on the facet {h_i = 0} of the cone that A's columns span, and a unit is off in about
half of the samples: facets show, whatever the signs in A (``facets.py``; one is fitted in ``facet_fit.py``). The p
facets together are A's inverse on its column space. ``subspace.py`` finds that space; ``separable.py`` is the reduction
to separable non-negative factorization that Wu et al. 2019 suggests; ``decoding.py`` puts the parts together.
"""
