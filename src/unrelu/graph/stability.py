"""What subsets of the rows agree on.

Halves. A rule is asked for its graphs of random halves of the rows, in pairs that have no row in common. The stability
of an edge is the share of the halves that have it (Meinshausen and Buehlmann 2010; in pairs: Shah and Samworth 2013).
Of several rules that is taken which has most edges in common between the two halves of a pair, among those where these
are a third of what a half has, and if there is none, that with the largest share (docs/research/036).

StARS (Liu, Roeder and Wasserman 2010): the densest graph of a path that subsets of the rows agree on. A pair that is
tied in the share t of the subsets is unstable by 2 t (1 - t): the chance that two subsets disagree. The smallest
penalty is taken down to which the mean over all pairs has never been above 0.05.
"""

from __future__ import annotations

import numpy as np

from unrelu.contracts import BoolArray, Doubt, FloatArray
from unrelu.graph.contracts import Network

UNSTABLE = 0.05
UNSTABLE_EDGES = "unstable edges"  # the kind of a doubt
STABLE = 0.5  # share of the halves that have a stable edge
_COMMON = 1.0 / 3.0  # of the edges of a half: so many common ones are enough
_FEW = 10  # unstable edges that nothing is said of: each has its own error and stability


def common_edges(halves: BoolArray) -> tuple[float, float]:
    """(edges that the two halves of a pair have in common, edges of a half), means over pairs.

    ``halves`` are 2k x d x d, each followed by the one that has none of its rows.

    >>> one, both = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]), np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    >>> common_edges(np.array([one, both], dtype=bool))
    (1.0, 1.5)
    """
    first, second = np.triu_indices(halves.shape[-1], 1)
    pairs = halves[:, first, second]
    common = pairs[0::2] & pairs[1::2]
    return float(common.sum(axis=1).mean()), float(pairs.sum(axis=1).mean())


def agreement(halves: BoolArray) -> float:
    """Common edges as a share of those of a half; NaN where no half has one."""
    common, found = common_edges(halves)
    return common / found if found > 0.0 else float("nan")


def most_agreed(rules: BoolArray) -> int:
    """The position of the rule to take; ``rules`` are r x 2k x d x d. Where they are even, the first.

    >>> none, one = np.zeros((2, 2), dtype=bool), ~np.eye(2, dtype=bool)
    >>> most_agreed(np.array([[none, one], [one, one]]))
    1
    """
    common = [common_edges(halves)[0] for halves in rules]
    shares = np.nan_to_num([agreement(halves) for halves in rules])
    enough = shares >= _COMMON
    return int(np.argmax(np.where(enough, common, -1.0) if enough.any() else shares))


def without_many_unstable(graph: BoolArray, stability: FloatArray) -> BoolArray:
    """The graph, or its stable edges alone where most are not, and those more than there are columns.

    A graph that rows can tell has some edges a column. Where so many come and go with half of the rows, there is none.

    >>> every = ~np.eye(6, dtype=bool)
    >>> int(without_many_unstable(every, np.full((6, 6), 0.4)).sum()), int(without_many_unstable(every, every).sum())
    (0, 30)
    """
    stable = graph & (stability >= STABLE)
    unstable = np.count_nonzero(graph & ~stable) // 2
    return stable if 2 * unstable > np.count_nonzero(graph) // 2 and unstable > len(graph) else graph


def doubt_of_edges(network: Network) -> Doubt | None:
    """What to say where most edges are unstable, whether they were left out or not."""
    edges = np.triu(network.adjacency, 1)
    unstable = int(np.count_nonzero(network.stability[edges] < STABLE)) + network.n_left_out
    found = network.n_edges + network.n_left_out
    if network.n_subsets == 0 or 2 * unstable <= found or unstable < _FEW:
        return None
    words = (
        f"of {found:,} edges by {network.rule!r} {unstable:,} are found in fewer than half of {network.n_subsets}"
        f" halves of the rows, and two halves without a common row share {_share(network.agreement)} of theirs:"
    )
    if network.n_left_out:
        words += f" those {unstable:,} are left out."
        remedy = f"More rows tell more edges; selection={network.rule!r} gives all of these."
    else:
        words += " they may be chance."
        remedy = f"Take the {found - unstable:,} with a stability of {STABLE} and more, or add rows."
    return Doubt(UNSTABLE_EDGES, (), words, remedy)


def _share(agreement: float) -> str:
    return "none" if np.isnan(agreement) else f"{agreement:.0%}"


def instability(shares: FloatArray) -> FloatArray:
    """The mean of 2 t (1 - t) over all pairs, the largest so far; ``shares`` t are p x d x d, sparse graphs first.

    >>> instability(np.array([[[0.0, 0.5], [0.5, 0.0]], [[0.0, 1.0], [1.0, 0.0]]]))
    array([0.5, 0.5])
    """
    first, second = np.triu_indices(shares.shape[1], 1)
    t = shares[:, first, second]
    return np.asarray(np.maximum.accumulate(np.mean(2.0 * t * (1.0 - t), axis=1)))


def most_stable(unstable: FloatArray) -> int:
    """The position of the densest graph that is stable; 0, the empty one, where none is.

    >>> most_stable(np.array([0.0, 0.01, 0.04, 0.2]))
    2
    """
    return max(int(np.count_nonzero(unstable <= UNSTABLE)) - 1, 0)
