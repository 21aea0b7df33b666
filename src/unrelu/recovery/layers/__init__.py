"""Layers below the last one: x = A h (+ a) with h = ReLU(W z + b), from samples of x alone, and so on downwards.

Where hidden unit i is off, x lies on the facet {h_i = 0} of the cone that A's columns span, and a unit is off in about
half of the samples: facets show, whatever the signs in A (``facets.py``; one is fitted in ``facet_fit.py``). The p
facets together are A's inverse on its column space. ``subspace.py`` finds that space; ``decoding.py`` puts the parts
together; ``separable.py`` is the reduction to separable non-negative factorization that Wu et al. 2019 suggests.

With fewer inputs z than units, as generators have, ``widening.py`` finds units and inputs together: some units as
planes (``planes.py``), their inputs (``inputs.py``), all other units in the space of the inputs (``kinks.py``).
``rectifier.py`` undoes an outer rectifier, ``clock.py`` bounds the time, ``ending.py`` says what is known and what not.

Where to start reading: ``two_layers.py`` and ``peeling.py`` are the conductors; ``units.py`` is what they share,
``peeled.py`` what peeling gives, ``inverting.py`` finds the units of new rows.
"""
