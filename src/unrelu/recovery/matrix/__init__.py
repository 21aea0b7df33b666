"""Recovery of T = C A' + 1 b' from X = ReLU(T): rows are samples, X is n x d, C n x k, A d x k.

``matrix.py`` has the order of the steps, ``descent.py`` the methods, ``newton.py`` their steps, ``factors.py`` the
table, the factors and what positive cells determine, ``state.py`` what a stopped run has reached.
"""
