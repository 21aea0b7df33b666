"""Recovery of T = C A' + 1 b' from X = ReLU(T): rows are samples, X is n x d, C n x k, A d x k.

Where to start reading: ``matrix.py`` has the order of the steps, the number of components and what the core leaves out;
``descent.py`` the methods, by least squares (default) and with noise; ``newton.py`` their steps; ``factors.py`` starts
and gauges; ``identifiability.py`` what positive cells determine; ``state.py`` what a stopped run has reached.
"""
