"""Graphs from latent correlations R: a path of them, the most likely K of one, and the rules that choose edges.

Path: neighbourhood selection (Meinshausen and Buehlmann 2006) on correlations alone. Column j is regressed on all
others with a lasso, which needs only R,

    beta_j = argmin  beta' R_oo beta / 2 - beta' R_oj + penalty |beta|_1,     o: all columns but j,

and i, j are tied if either regression takes up the other column. The same penalties serve for every column and every
subset of the rows.

Refit: W is the covariance that agrees with R on the edges and the diagonal and whose inverse is zero elsewhere
(Dempster 1972). Column by column, with N(j) the neighbours of j (Hastie, Tibshirani and Friedman 2009, algorithm
17.1),

    beta = W_NN^-1 R_Nj,     W_oj = W_oN beta,     until nothing moves;
    K_jj = 1 / (R_jj - W_jN beta),     K_Nj = -beta K_jj.

Rule "ebic": the least extended Bayesian information criterion (Foygel and Drton 2010),

    EBIC = -n (log det K - tr R K) + edges (log n + 4 gamma log d),     gamma = 1/2,

of the most likely K, without a penalty: penalized ones are too small, and their EBIC takes too many edges. n is the
number of rows without floors and gaps that would have as small errors: each edge gains by chance what so few
rows let it, not what all rows would.

Rule "likely": pairs that are more likely tied than not; a graph is revised until it comes again. With W = K^-1, what is
left for pair ij alone is the partial correlation

    x_ij = (R_ij - W_ij) / sqrt(c_i c_j)                   without an edge,
    x_ij = -K_ij (c_i c_j - c_ij^2) / sqrt(c_i c_j)        with one,

c_i, c_j, c_ij the variances and the covariance that W leaves i and j given the columns tied to both. Rows determine
it better than the partial correlation given all columns: the graph says which of them matter. z = atanh(x) is of one
of two groups (Efron 2008),

    z_ij ~ N(0, 1/n_ij)  if not tied,     z_ij ~ N(+-m, t^2 + 1/n_ij)  if tied,

n_ij the number of rows without floors and gaps that would have as small an error of R_ij. The share of tied pairs, m
and t are learned from all pairs, and one more that is not tied: a table with many edges takes weaker ones than one with
few, and pairs of columns that are mostly floored must differ more from 0. Pairs tied with a probability above one half
are the next graph.

Rule "fdr": every pair is tested, and those are kept that the rule of Benjamini and Hochberg (1995) takes.
"""

from __future__ import annotations

import warnings

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, stdtr
from sklearn import config_context  # type: ignore[attr-defined]
from sklearn.exceptions import ConvergenceWarning

from unrelu.contracts import BoolArray, FloatArray
from unrelu.fit.nearest import smallest_eigenvalue

_LEAST_EIGENVALUE = 1e-3
_PENALTIES = 30
_WEAK = 0.5  # standard errors of a correlation: penalties below that let in noise alone
_RANGE = 1e-3, 0.1  # the smallest penalty, as a share of the largest
_TOLERANCE = 1e-7  # of the lasso's duality gap
_REFIT_ROUNDS = 200
ROUGHLY = 1e-5  # enough for a comparison of graphs, or an error
_GAMMA = 0.5
_RISING = 4  # graphs in a row with a larger criterion than the least: denser ones are not fitted
_MOST_GRAPHS = 10
_MOST_ROUNDS, _CONVERGED = 500, 1e-4  # of the probabilities
_NONE = 1e-6  # edges: there are none
_LARGEST = 0.999  # partial correlation
_LEAST = 1e-12  # product of two variances

Graphs = BoolArray  # p x d x d: one symmetric matrix for each of p penalties, True where there is an edge


def invertible(correlation: FloatArray) -> FloatArray:
    """R, or as little of the identity mixed in as gives it an inverse that is not all rounding."""
    smallest = smallest_eigenvalue(correlation)
    if smallest >= _LEAST_EIGENVALUE:
        return correlation
    share = (_LEAST_EIGENVALUE - smallest) / (1.0 - smallest)
    return np.asarray((1.0 - share) * correlation + share * np.eye(len(correlation)))


def penalties_for(correlation: FloatArray, effective_rows: float) -> FloatArray:
    """From the one that leaves no edge down to one that lets in noise."""
    largest = float(np.max(np.abs(correlation - np.eye(len(correlation))), initial=0.0))
    if largest == 0.0:
        return np.ones(1)
    smallest = np.clip(_WEAK / np.sqrt(effective_rows), _RANGE[0] * largest, _RANGE[1] * largest)
    return np.asarray(np.geomspace(largest, smallest, _PENALTIES))


def neighbourhood_graphs(correlation: FloatArray, penalties: FloatArray) -> Graphs:
    """One graph for every penalty, these from large to small; R must have an inverse."""
    from sklearn.linear_model import lasso_path  # takes its time

    d = len(correlation)
    # Any X with X'X/d = R stands for the rows.
    rows = np.linalg.cholesky(correlation).T * np.sqrt(d)
    chosen = np.zeros((len(penalties), d, d), dtype=bool)
    # The arrays are ours: to check each of them would cost more than the regressions of few columns.
    with warnings.catch_warnings(), config_context(skip_parameter_validation=True):
        # Regressions on columns that nearly determine each other converge late; which are zero, long before.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for j in range(d):
            o = np.arange(d) != j
            _, coefficients, _ = lasso_path(
                np.asfortranarray(rows[:, o]),
                rows[:, j],
                alphas=penalties,
                precompute=np.ascontiguousarray(correlation[np.ix_(o, o)] * d),
                Xy=correlation[o, j] * d,
                tol=_TOLERANCE,
                check_input=False,
            )
            chosen[:, j, o] = coefficients.T != 0.0
    return np.asarray(chosen | chosen.swapaxes(1, 2))


# --- the most likely precision of a graph ------------------------------------------------------------


def refitted_precision(correlation: FloatArray, adjacency: BoolArray, tolerance: float = 1e-9) -> FloatArray:
    """K of the graph; ``correlation`` must have an inverse. No entry of W moves by more than ``tolerance`` at the
    end."""
    d = len(correlation)
    if np.count_nonzero(adjacency) == d * (d - 1):
        return np.asarray(np.linalg.inv(correlation))
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(adjacency, axis=1))])
    near = np.nonzero(adjacency)[1]
    covariance = agree_on_edges(np.ascontiguousarray(correlation), starts, near, _REFIT_ROUNDS, tolerance)
    precision = np.zeros((d, d))
    for j in range(d):
        some = near[starts[j] : starts[j + 1]]
        beta = np.linalg.solve(covariance[np.ix_(some, some)], correlation[some, j])
        precision[j, j] = 1.0 / (correlation[j, j] - covariance[j, some] @ beta)
        precision[some, j] = -beta * precision[j, j]
    return np.asarray((precision + precision.T) / 2.0)


def partial_correlations(precision: FloatArray) -> FloatArray:
    """rho_ij = -K_ij / sqrt(K_ii K_jj), and 1 on the diagonal."""
    root = np.sqrt(np.diagonal(precision))
    partial = -precision / np.outer(root, root)
    np.fill_diagonal(partial, 1.0)
    return np.asarray(partial)


@njit(cache=True, nogil=True)
def agree_on_edges(
    correlation: FloatArray, starts: NDArray[np.int64], near: NDArray[np.int64], rounds: int, tolerance: float
) -> FloatArray:
    """W of the module's text: rounds over the columns until no entry moves by ``tolerance``. A graph is
    ``near[starts[j] : starts[j + 1]]``, the neighbours of every column j in order."""
    d = len(correlation)
    covariance = correlation.copy()
    for j in range(d):
        if starts[j] == starts[j + 1]:
            covariance[j, :] = 0.0
            covariance[:, j] = 0.0
            covariance[j, j] = correlation[j, j]
    column = np.empty(d)
    for _ in range(rounds):
        moved = 0.0
        for j in range(d):
            some = near[starts[j] : starts[j + 1]]
            if len(some) == 0:
                continue
            beta = regression(covariance, correlation, some, j)
            column[:] = 0.0
            for k in range(len(some)):
                for i in range(d):
                    column[i] += covariance[some[k], i] * beta[k]
            column[j] = correlation[j, j]
            for i in range(d):
                moved = max(moved, abs(column[i] - covariance[j, i]))
                covariance[j, i] = column[i]
                covariance[i, j] = column[i]
        if moved < tolerance:
            break
    return covariance


@njit(cache=True, nogil=True)
def regression(covariance: FloatArray, correlation: FloatArray, some: NDArray[np.int64], j: int) -> FloatArray:
    """W_NN^-1 R_Nj of the columns N ``some``."""
    m = len(some)
    among, target = np.empty((m, m)), np.empty(m)
    for a in range(m):
        target[a] = correlation[some[a], j]
        for b in range(m):
            among[a, b] = covariance[some[a], some[b]]
    return np.linalg.solve(among, target)  # type: ignore[return-value]


@njit(cache=True, nogil=True)
def left_by_common_neighbours(covariance: FloatArray, graph: BoolArray) -> tuple[FloatArray, FloatArray]:
    """(variance of i, covariance of i and j) for all pairs ij, given the columns tied to both."""
    d = len(covariance)
    own, both = np.empty((d, d)), covariance.copy()
    common = np.empty(d, dtype=np.int64)
    for i in range(d):
        own[i, i] = covariance[i, i]
        for j in range(i):
            own[i, j], own[j, i] = covariance[i, i], covariance[j, j]
            m = 0
            for k in range(d):
                if graph[i, k] and graph[j, k]:
                    common[m] = k
                    m += 1
            if m == 0:
                continue
            among, across = np.empty((m, m)), np.empty((m, 2))
            for a in range(m):
                across[a, 0], across[a, 1] = covariance[common[a], i], covariance[common[a], j]
                for b in range(m):
                    among[a, b] = covariance[common[a], common[b]]
            slopes = np.linalg.solve(among, across)
            for a in range(m):
                own[i, j] -= across[a, 0] * slopes[a, 0]
                own[j, i] -= across[a, 1] * slopes[a, 1]
                both[i, j] -= across[a, 0] * slopes[a, 1]
            both[j, i] = both[i, j]
    return own, both


# --- which edges -------------------------------------------------------------------------------------


def criteria(correlation: FloatArray, graphs: Graphs, effective_rows: float) -> FloatArray:
    """EBIC of every graph, NaN for those that are far denser than the best."""
    found = np.full(len(graphs), np.nan)
    least, since = np.inf, 0
    before: tuple[int, float] | None = None
    for k, graph in enumerate(graphs):
        edges = int(np.count_nonzero(graph)) // 2
        if before is not None and edges == before[0] and np.array_equal(graph, graphs[k - 1]):
            found[k] = before[1]
            continue
        precision = refitted_precision(correlation, graph, ROUGHLY)
        sign, log_det = np.linalg.slogdet(precision)
        fit = log_det - float(np.sum(correlation * precision))
        price = np.log(max(effective_rows, 1.0)) + 4.0 * _GAMMA * np.log(len(correlation))
        found[k] = np.inf if sign <= 0.0 else float(-effective_rows * fit + edges * price)
        before = edges, float(found[k])
        least, since = (found[k], 0) if found[k] < least else (least, since + 1)
        if since >= _RISING:
            break
    return found


def likely_edges(correlation: FloatArray, pair_rows: FloatArray, graph: BoolArray) -> BoolArray:
    """The edges, from a graph to start with; ``pair_rows`` are n. From none there follow none."""
    upper = np.triu_indices(len(correlation), 1)
    seen: list[BoolArray] = []
    while len(seen) < _MOST_GRAPHS and not any(np.array_equal(graph, before) for before in seen):
        seen.append(graph)
        z = np.arctanh(left_to_pairs(correlation, graph))
        half = np.zeros_like(graph)
        half[upper] = tied_probability(z[upper], pair_rows[upper], graph[upper]) > 0.5
        graph = half | half.T
    return graph


def left_to_pairs(correlation: FloatArray, graph: BoolArray) -> FloatArray:
    """x of the module's text."""
    precision = refitted_precision(correlation, graph, ROUGHLY)
    covariance = np.linalg.inv(precision).astype(np.float64, copy=False)
    own, both = left_by_common_neighbours(covariance, np.ascontiguousarray(graph))
    product = np.maximum(own * own.T, _LEAST)
    excess = np.where(graph, -precision * (product - both * both), correlation - covariance)
    np.fill_diagonal(excess, 0.0)
    return np.asarray(np.clip(excess / np.sqrt(product), -_LARGEST, _LARGEST))


def tied_probability(z: FloatArray, rows: FloatArray, tied: BoolArray) -> FloatArray:
    """The probability of every pair, from those that are ``tied`` for a start. m and t are weighted moments of the
    sizes |z|, weighted by the probabilities and by the rows of each."""
    size, noise = np.abs(z), 1.0 / rows
    probability, spread = tied.astype(np.float64), 0.0
    for _ in range(_MOST_ROUNDS):
        if probability.sum() < _NONE:
            return np.zeros_like(size)
        weight = probability / (spread + noise)
        centre = float(weight @ size / weight.sum())
        weight /= spread + noise
        spread = max(float(weight @ ((size - centre) ** 2 - noise) / weight.sum()), 0.0)
        variance = spread + noise
        either = size * centre / variance  # log cosh of it: of either sign
        gain = either + np.log1p(np.exp(-2.0 * either)) - np.log(2.0) - (size**2 + centre**2) / (2.0 * variance)
        gain += (np.log(noise / variance) + size**2 / noise) / 2.0
        before, probability = probability, expit(gain + logit(probability.sum() / (len(size) + 1)))
        if np.max(np.abs(probability - before)) < _CONVERGED:
            break
    return np.asarray(probability)


def q_values(partial: FloatArray, stderr: FloatArray, degrees: float) -> FloatArray:
    """For every pair the least rate at which it is taken; NaN on the diagonal and where there is no error. Partial
    correlations go through Fisher's z = atanh(rho), whose error is that of rho over 1 - rho^2."""
    d = len(partial)
    first, second = np.triu_indices(d, 1)
    rho = np.clip(partial[first, second], -1.0 + 1e-12, 1.0 - 1e-12)
    z = np.abs(np.arctanh(rho)) * (1.0 - rho * rho) / stderr[first, second]
    p = 2.0 * (ndtr(-z) if np.isinf(degrees) else stdtr(degrees, -z))
    usable = np.flatnonzero(~np.isnan(p))
    order = usable[np.argsort(p[usable], kind="stable")]
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    q = np.full(len(p), np.nan)
    q[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    found = np.full((d, d), np.nan)
    found[first, second] = found[second, first] = q
    return found
