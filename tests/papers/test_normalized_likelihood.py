"""(33) of Mazumdar and Rawat 2018 against a likelihood by simulation, program (34), and Lemma 1 by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from unrelu import guarantees
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.papers import Likelihood, normalized_log_likelihood
from unrelu.papers.likelihood import BiasDensity, FeasibleSet, literal_program
from unrelu.recovery.matrix.factors import Cells

P = stats.norm(0.3, 1.2)


def test_it_is_a_ratio_of_probabilities_of_what_was_seen():
    """Brute force: how much oftener M gives (nearly) such a table than M = 0 does, column by column."""
    rng = np.random.default_rng(0)
    matrix = np.array([[0.9, -0.4], [0.1, -1.0], [-0.5, 0.2]])
    table = np.maximum(matrix + np.array([0.45, -0.6]), 0.0)  # the second column is never positive
    assert not table[:, 1].any()
    bias = P.rvs(size=2_000_000, random_state=rng)
    # A column's smallest positive value near the one seen, under M and under 0, where all cells are equal.
    place = int(np.count_nonzero(table[:, 0] > 0.0)) - 1
    smallest = np.sort(table[:, 0])[::-1][place]
    near = 0.02
    under_m = np.mean(np.abs(np.sort(matrix[:, 0])[::-1][place] + bias - smallest) < near)
    under_0 = np.mean(np.abs(bias - smallest) < near)
    never_m, never_0 = np.mean(matrix[:, 1].max() + bias <= 0.0), np.mean(bias <= 0.0)
    expected = np.log(under_m / under_0) + np.log(never_m / never_0)
    error = np.sqrt(sum((1 / share - 1) / len(bias) for share in (under_m, under_0, never_m, never_0)))
    assert abs(normalized_log_likelihood(table, matrix, P) - expected) < 4 * error + near**2
    assert normalized_log_likelihood(table, np.zeros_like(matrix), P) == 0.0


def test_program_34_maximises_it():
    rng = np.random.default_rng(1)
    gamma, nu = 1.5, 0.05
    matrix = rng.uniform(-1.0, 1.0, (6, 12))
    table = np.maximum(matrix + P.rvs(size=12, random_state=rng), 0.0)
    feasible = FeasibleSet.of(Cells(table), gamma, nu)
    density = BiasDensity.of(P)
    best, _ = literal_program(table, feasible, density)
    most = normalized_log_likelihood(table, best, P)
    low, high = feasible.bounds
    for _ in range(200):
        bias = rng.uniform(np.maximum(low, -4.0), np.minimum(high, 4.0))
        other = np.where(table > 0.0, table - bias, np.maximum(-gamma, np.minimum(feasible.caps, 0.0) - bias))
        other = np.where(feasible.never, rng.uniform(-gamma, gamma, other.shape), other)
        assert normalized_log_likelihood(table, other, P) <= most + 1e-9
    assert Likelihood(P, constraint="none", gamma=gamma, nu=nu).constraint == "none"


def test_lemma_1_against_simulation_and_quadrature():
    """(36), where the density rises over all that counts: the gap by simulation, by quadrature, and its bound."""
    p, gamma, nu = stats.norm(6.0, 2.0), 1.0, 0.25
    rng = np.random.default_rng(2)
    matrix = np.array([np.arange(-0.6, 0.5, 0.25), np.arange(-0.5, 0.6, 0.25)]).T  # entries nu apart
    shift = np.array([0.2, -0.15])
    other = matrix + shift  # in (29) for every b: differences within a column are those of M
    many, apart = np.tile(matrix, 500), np.tile(other, 500)  # 500 times the two columns, each with a bias of its own
    gaps = []
    for _ in range(40):
        table = np.maximum(many + p.rvs(size=1000, random_state=rng), 0.0)
        one, two = (normalized_log_likelihood(table, x, p) for x in (many, apart))
        gaps.append((one - two) / 500)
    exact = 0.0
    for j in range(2):
        top = -matrix[:, j].max()
        exact += p.cdf(top) * (p.logcdf(top) - p.logcdf(top - shift[j]))
        exact += quad(lambda b, c=shift[j]: p.pdf(b) * (p.logpdf(b) - p.logpdf(b - c)), top, 20.0)[0]
    assert abs(np.mean(gaps) - exact) < 4 * np.std(gaps) / np.sqrt(len(gaps))
    bound = guarantees.likelihood_gap(p, gamma, nu, float(np.linalg.norm(matrix - other)))
    assert 0.0 < bound <= exact
    twice = guarantees.likelihood_gap(p, gamma, nu, 2.0 * float(np.linalg.norm(matrix - other)))
    assert twice == pytest.approx(4.0 * bound)
    assert guarantees.likelihood_gap(stats.norm(0.0, 1.0), gamma, nu, 1.0) == 0.0  # flat at its mode


def test_impossible_biases():
    positive = stats.expon()
    table, matrix = np.array([[1.0], [2.0]]), np.array([[1.5], [2.5]])
    assert normalized_log_likelihood(table, matrix, positive) == -np.inf  # a bias of -1/2
    with pytest.raises(InvalidParameterError, match="does not allow M = 0 in column 0"):
        normalized_log_likelihood(np.zeros((2, 1)), matrix, positive)


@pytest.mark.parametrize(
    ("table", "matrix", "error", "words"),
    [
        ([[1.0]], [[1.0, 2.0]], InvalidParameterError, "must be of the same shape"),
        ([[-1.0]], [[1.0]], InvalidDataError, "negative cells"),
        ([[np.nan]], [[1.0]], InvalidParameterError, "X must be a matrix of finite numbers"),
        ([[1.0]], [1.0], InvalidParameterError, "matrix must be a matrix of finite numbers"),
    ],
)
def test_what_it_refuses(table, matrix, error, words):
    with pytest.raises(error, match=words):
        normalized_log_likelihood(table, matrix, P)
