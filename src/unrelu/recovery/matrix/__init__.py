"""Recovery of T = C A' + 1 b' from X = ReLU(T): rows are samples, X is n x d, C n x k, A d x k.

``matrix.py`` has the order of the steps, ``descent.py`` the methods, ``newton.py`` their steps, ``factors.py`` the
table, the factors and what positive cells determine, ``state.py`` the state of a stopped run. This page has what a
method of one's own gets (``Task``), uses, and returns (``Recovered``).

C, A and b are the papers' symbols: with normal rows of C, b is the core's mean and A A' its covariance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.recovery.matrix.descent import Iterate as Iterate
    from unrelu.recovery.matrix.descent import Recovered as Recovered
    from unrelu.recovery.matrix.descent import Task as Task
    from unrelu.recovery.matrix.descent import descend as descend
    from unrelu.recovery.matrix.factors import Cells as Cells
    from unrelu.recovery.matrix.factors import Factors as Factors
    from unrelu.recovery.matrix.factors import tile_by_tile as tile_by_tile
    from unrelu.recovery.matrix.factors import tiles as tiles

__getattr__, __dir__, __all__ = lazily(__name__)
