"""The papers' own programs, beside the versions that users run.

    learners       Wu et al. 2019 and Bulusu et al. 2022, as methods like any other
                   (:mod:`unrelu.methods`); activations that have an inverse, undone before learning;
                   batches has their parts
    guarantees/    theorems as functions, and how many rows a fit needs: ``unrelu.guarantees``
    likelihood     the matrix behind a rectifier, given the biases' density: (33) of Mazumdar and
                   Rawat 2018
    program        the likeliest of them, program (34)
    experiments    the papers' figures and tables as data, of the classes in study, run by runner
                   (``unrelu reproduce``)

Nothing below the command line and the report imports this package; :mod:`unrelu.registry` finds the learners by name.
docs/papers.md lists which equation of which paper is where. Symbols are the papers': b is the core's mean, W W' its
covariance, and |W(i,:)|, the norm of a row of W, the standard deviation (std) of its column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.papers import guarantees as guarantees
    from unrelu.papers.learners import undo_activation as undo_activation
    from unrelu.papers.likelihood import normalized_log_likelihood as normalized_log_likelihood
    from unrelu.papers.program import Likelihood as Likelihood

__getattr__, __dir__, __all__ = lazily(__name__)
