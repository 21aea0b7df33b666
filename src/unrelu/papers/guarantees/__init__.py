"""How many samples learning takes: the papers' theorems, and the need of the default learner.

learning   Wu et al. 2019 and Bulusu et al. 2022: samples for the layer's parameters and distribution, up to
           constants that the papers do not give; what a negative bias costs; errors of gradient descent with
           outliers, and how curved the truncated likelihood is
recovery   Mazumdar and Rawat 2018: errors of the matrix behind a rectifier with random biases, of its column space,
           and of the latent vector behind one corrupted output of a layer
planner    how many rows our learner needs for a given model, from the rows' influences. This is the one to plan
           with: right to a few per cent where the theorems hold up to a constant

In these functions bias and norm are the papers' b_i and |W(i,:)|: the mean and the standard deviation (std) of the
core's latent column i.
"""

from __future__ import annotations

from unrelu.papers.guarantees import learning, planner, recovery
from unrelu.papers.guarantees.learning import *  # noqa: F403 - what their __all__ names
from unrelu.papers.guarantees.planner import *  # noqa: F403
from unrelu.papers.guarantees.recovery import *  # noqa: F403

__all__: list[str] = []
__all__ += learning.__all__
__all__ += planner.__all__
__all__ += recovery.__all__
