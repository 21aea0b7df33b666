"""The papers' own programs, beside the versions that users run.

    guarantees/    theorems as functions, and how many rows a fit needs; reached as ``unrelu.guarantees``
    likelihood/    program (34) of Mazumdar and Rawat 2018: the matrix behind a rectifier, given the biases' density
    activations    activations that have an inverse, undone before learning
    experiments/   the papers' figures and tables, run again by ``unrelu reproduce``

Nothing below the command line and the report imports this room. The papers' learners are methods like any other
(:mod:`unrelu.methods`). docs/papers.md lists which equation of which paper is where.
"""

from unrelu.papers.activations import undo_activation
from unrelu.papers.likelihood.normalized import normalized_log_likelihood
from unrelu.papers.likelihood.program import Likelihood

__all__ = ["Likelihood", "normalized_log_likelihood", "undo_activation"]
