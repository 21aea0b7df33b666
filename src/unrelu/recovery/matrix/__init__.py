"""Recovery of T = C A' + 1 b' from X = ReLU(T): rows are samples, X is n x d, C n x k, A d x k.

Where to start reading: ``matrix.py`` is the conductor, ``rank.py`` chooses the number of components, ``fitting.py``
fits them, ``newton.py`` is the descent, ``factors.py`` the gauges, ``identifiability.py`` what positive cells
determine. Methods: ``descent.py`` (default), ``tobit.py`` (noise). ``state.py`` keeps what a stopped run has reached.
"""
