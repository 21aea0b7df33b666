"""The closed-form moments against two-dimensional quadrature."""

import numpy as np
import pytest

from tests.references import bivariate
from unrelu.kernels import pair_solver as pair_model

CASES = [(-0.5, 0.7, 0.6), (1.2, 0.3, -0.4), (-1.0, -1.3, 0.9), (0.0, 0.0, 0.2), (2.5, -1.5, -0.7), (1.0, 1.0, -0.9)]


class Pair:
    """Everything the kernels say of one pair."""

    def __init__(self, a1, a2, r):
        self.a, self.r = (a1, a2), r
        self.c = tuple(pair_model.centre_of(a) for a in self.a)
        work = np.zeros((pair_model.WORK_ROWS, 12))
        self.own = pair_model.moments_of_columns(np.array(self.a))
        work[pair_model.OWN : pair_model.OWN + 2, :5] = self.own
        pair_model.joint_moments(a1, a2, r, work)
        self.m = work[pair_model.M : pair_model.M + 5, :5]
        pair_model.statistics_moments(work)
        self.mean, lower = work[pair_model.MEAN], work[pair_model.V : pair_model.V + 12]
        self.v = np.tril(lower) + np.tril(lower, -1).T
        pair_model.correlation_gradient(a1, a2, r, work)
        self.g = work[pair_model.GRADIENT]
        self.slopes = np.zeros((2, 12, 2))
        for side in range(2):
            pair_model.marginal_gradient(self.a[side], side, work)
            self.slopes[side] = work[pair_model.SLOPES : pair_model.SLOPES + 2].T


@pytest.mark.parametrize("case", CASES)
def test_joint_and_marginal_moments(case):
    pair = Pair(*case)
    for p in range(5):
        for k in range(2):
            expected = bivariate.marginal_moment(pair.a[k], p, pair.c[k])
            assert pair.own[k, p] == pytest.approx(expected, rel=1e-10, abs=1e-13)
        for q in range(5 - p):
            expected = bivariate.joint_moment(*case, p, q, *pair.c)
            assert pair.m[p, q] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def statistics_mean_and_covariance(a1, a2, r, c1, c2):
    """By quadrature over the four quadrants; a floored coordinate contributes zeros."""
    mean, second = np.zeros(12), np.zeros((12, 12))
    for s1 in (1, -1):
        for s2 in (1, -1):
            # Reflect so that grid() covers {s1 (u1 + a1) > 0, s2 (u2 + a2) > 0}.
            x1, x2, weight = bivariate.grid(s1 * a1, s2 * a2, s1 * s2 * r)
            p1, p2 = float(s1 > 0), float(s2 > 0)
            v1, v2 = p1 * (s1 * x1 - c1), p2 * (s2 * x2 - c2)
            one = np.ones_like(v1)
            rows = [p1 * one, v1, v1**2, p2 * one, v2, v2**2]
            rows += [p1 * p2 * one, v1 * v2, v1 * p2, p1 * v2, v1**2 * p2, p1 * v2**2]
            rows = np.stack([row.ravel() for row in rows])
            mean += rows @ weight.ravel()
            second += (rows * weight.ravel()) @ rows.T
    return mean, second - np.outer(mean, mean)


@pytest.mark.parametrize("case", CASES)
def test_mean_and_covariance_of_the_twelve_statistics(case):
    pair = Pair(*case)
    mean, covariance = statistics_mean_and_covariance(*case, *pair.c)
    np.testing.assert_allclose(pair.mean, mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(pair.v, covariance, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_covariances_with_the_score(case):
    """d E[f]/d theta = Cov(f, score of the latent pair): independent of Price's theorem and the recursion."""
    a1, a2, r = case
    pair = Pair(*case)
    gap2 = 1 - r * r
    gradients = np.zeros((12, 5))
    for s1 in (1, -1):
        for s2 in (1, -1):
            x1, x2, weight = bivariate.grid(s1 * a1, s2 * a2, s1 * s2 * r)
            u1, u2 = (s1 * x1).ravel(), (s2 * x2).ravel()
            p1, p2 = float(s1 > 0), float(s2 > 0)
            v1, v2 = p1 * (u1 - pair.c[0]), p2 * (u2 - pair.c[1])
            one = np.ones_like(v1)
            f = [p1 * one, v1, v1**2, p2 * one, v2, v2**2]
            f = np.stack([*f, p1 * p2 * one, v1 * v2, v1 * p2, p1 * v2, v1**2 * p2, p1 * v2**2])
            e1, e2 = (u1 - r * u2) / gap2, (u2 - r * u1) / gap2
            score = np.stack([e1, e1 * u1 - 1, e2, e2 * u2 - 1, r / gap2 + e1 * e2])
            gradients += (f * weight.ravel()) @ score.T
    np.testing.assert_allclose(pair.slopes[0], gradients[:, :2], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(pair.slopes[1], gradients[:, 2:4], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(pair.g, gradients[:, 4], rtol=1e-8, atol=1e-10)
