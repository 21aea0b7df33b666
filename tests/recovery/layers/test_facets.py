"""Facets of clouds: one fitted like a general minimizer would, all of them as enumeration finds them, then a layer."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.references import layers as reference
from unrelu.recovery.layers import facets as module
from unrelu.recovery.layers.decoding import (
    OutputLayer,
    decode_by_facets,
    decode_separably,
    find_subspace,
    pure_rows,
    rank_of,
)
from unrelu.recovery.layers.facets import (
    Cloud,
    Facet,
    count_points,
    find_facets,
    misfit,
    most_likely,
    nearest_facet,
    pencil,
)

EXACT = 1e-9  # noise of clouds without any; facets are then exact to rounding, 1e-16 times a condition number below 1e6
LIFTED = pytest.mark.parametrize("lifted", [False, True])


def seeded(seed=0):
    return np.random.default_rng(seed)


# --- one facet ------------------------------------------------------------------------------------


def half_space(seed=0, n=300, p=3, noise=0.02, offset=0.0):
    """Points of which half lie on u'y + offset = 0, the others above, with noise: (points, u)."""
    rng = seeded(seed)
    u = rng.standard_normal(p)
    u /= np.linalg.norm(u)
    inside = rng.standard_normal((n, p)) * 2.0
    inside -= np.outer(inside @ u, u)
    heights = np.where(np.arange(n) % 2, 0.0, 2.0 * rng.random(n))
    return inside + np.outer(heights - offset, u) + noise * rng.standard_normal((n, p)), u


def test_the_nearest_facet_of_all_points_is_total_least_squares():
    points = seeded().standard_normal((40, 4)) * [3.0, 2.0, 1.0, 0.1] + [5.0, 0.0, 0.0, 1.0]
    anywhere = Facet(np.eye(4)[3], 0.0, 1e3)  # its band holds them all
    facet = nearest_facet(anywhere, points, lifted=True)
    centered = points - points.mean(axis=0)
    _, values, vectors = np.linalg.svd(centered)
    assert abs(facet.normal @ vectors[-1]) == pytest.approx(1.0, abs=1e-12)
    assert np.sum(facet.height(points) ** 2) == pytest.approx(values[-1] ** 2, rel=1e-9)
    facet = nearest_facet(anywhere, points, lifted=False)
    assert facet.offset == 0.0
    assert np.sum(facet.height(points) ** 2) == pytest.approx(np.linalg.svd(points)[1][-1] ** 2, rel=1e-9)


def test_support_counts():
    # 200 heights on the facet at normal quantiles, 5 per standard deviation above it, 3 below.
    on = module.ndtri((np.arange(200) + 0.5) / 200)
    above = np.arange(0.1, 20.0, 0.2)
    heights = 0.5 * np.concatenate([on, above, [-4.5, -10.0, -4.1]])
    seen = count_points(Facet(np.array([1.0]), 0.0, 0.5), heights[:, None])
    assert seen.below == 3
    assert seen.density == pytest.approx(5.0)
    assert abs(seen.on - 200) < 2.0  # one point at the border of +-2


@LIFTED
def test_nearest_facet_finds_the_plane_nearby_and_keeps_its_side(lifted):
    points, u = half_space(noise=0.0, offset=0.7 if lifted else 0.0)
    tilted = u + 0.002 * seeded(1).standard_normal(3)
    tilted /= np.linalg.norm(tilted)
    facet = nearest_facet(Facet(tilted, 0.7 if lifted else 0.0, 0.005), points, lifted)
    assert facet.normal @ u > 1.0 - 1e-4  # some points just above stay in the band of 2.5 noise
    assert nearest_facet(Facet(-tilted, -0.7 if lifted else 0.0, 0.005), points, lifted).normal @ u < 0.0


def test_nearest_facet_is_none_where_nobody_is_near():
    points, u = half_space()
    assert nearest_facet(Facet(u, 50.0, 0.02), points, True) is None


def test_derivatives_are_those_of_the_log_density():
    t = np.linspace(-11.0, 11.0, 89)
    step = 1e-5
    for share, slope in ((0.8, 0.02), (0.3, 0.3), (0.01, 0.05)):
        logs = [np.array([module._log_likelihood(np.array([x]), share, slope) for x in t + move * step])
                for move in (-1, 0, 1)]  # fmt: skip
        gradient, curvature = module._derivatives(t, share, slope)
        # Central differences: truncation step^2/6 times third derivatives of some hundreds, rounding 1e-15/step.
        np.testing.assert_allclose(gradient, (logs[2] - logs[0]) / (2 * step), atol=1e-7)
        second = (logs[2] - 2 * logs[1] + logs[0]) / step**2
        assert (curvature >= -second - 1e-4).all()  # rounding 4e-15/step^2; EM's curvature is never too small
        assert (curvature > 0.0).all()


def test_complement_is_orthonormal():
    for p in (1, 2, 5):
        normal = seeded(p).standard_normal(p)
        normal /= np.linalg.norm(normal)
        whole = np.column_stack([module._complement(normal), normal])
        np.testing.assert_allclose(whole.T @ whole, np.eye(p), atol=1e-14)


@LIFTED
@pytest.mark.parametrize("seed", range(3))
def test_most_likely_is_where_a_general_minimizer_ends(seed, lifted):
    s, offset = 0.02, 0.4 if lifted else 0.0
    points, u = half_space(seed, noise=s, offset=offset)
    start = nearest_facet(Facet(u, offset, s), points, lifted)
    near = points[np.abs(start.height(points)) < 10.0 * s]
    share, slope = 0.7, 0.02
    fitted = module._ascend(start, near, share, slope, lifted)

    def loss(x):
        normal = x[:3] / np.linalg.norm(x[:3])
        return -reference.log_likelihood(normal, x[3] if lifted else 0.0, near, s, share, slope)

    first = np.r_[start.normal, [start.offset] if lifted else []]
    best = minimize(loss, first, method="BFGS", options={"gtol": 1e-4})
    reached = -reference.log_likelihood(fitted.normal, fitted.offset, near, s, share, slope)
    assert reached <= best.fun + 1e-6  # the likelihood is stationary: errors enter squared
    normal = best.x[:3] / np.linalg.norm(best.x[:3])
    # Standard errors are about s / sqrt(150) / 2 = 8e-4; both are at the same top to a hundredth of them.
    np.testing.assert_allclose(fitted.normal, normal, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_most_likely_is_unbiased_by_points_just_above(seed):
    s = 0.02
    points, u = half_space(seed, n=2000, noise=s)
    fitted = most_likely(nearest_facet(Facet(u, 0.0, s), points, False), points, False)
    # 1,000 points on the facet that spread by 2: two directions of standard error s / (2 sqrt(1000)) each.
    assert np.linalg.norm(fitted.normal - u) < 5.0 * np.sqrt(2.0) * s / (2.0 * np.sqrt(1000.0))


@LIFTED
def test_a_sum_of_two_facets_is_split(lifted):
    rng = seeded(3)
    h = np.maximum(rng.standard_normal((400, 4)), 0.0)
    apex = np.array([1.0, -2.0, 0.5, 0.0]) if lifted else np.zeros(4)
    both = np.array([0.8, 0.6, 0.0, 0.0])
    facet = Facet(both, -float(both @ apex), 1e-6)
    sides = pencil(facet, h + apex, lifted)
    assert sides is not None
    normals = sorted((side.normal for side in sides), key=lambda normal: -normal[0])
    np.testing.assert_allclose(normals, np.eye(4)[:2], atol=1e-9)
    for side in sides:
        assert np.abs(side.height(h + apex)).min() < 1e-9
        assert side.height(h + apex).min() > -1e-9


@LIFTED
def test_a_facet_is_not_split(lifted):
    h = np.maximum(seeded(3).standard_normal((400, 4)), 0.0)
    assert pencil(Facet(np.eye(4)[2], 0.0, 1e-6), h, lifted) is None


def test_few_points_beside_the_intersection_do_not_make_it_a_facet():
    h = np.maximum(seeded(3).standard_normal((400, 3)), 0.0)
    # h_0 + c h_1, c as small as can be: tilted until it meets one point more
    on = (h[:, 1] > 0.0) & (h[:, 0] > 0.0)
    h[:, 1] = np.where(h[:, 0] > 0.0, h[:, 1], 0.0)  # unit 1 is off wherever unit 0 is
    c = (h[on, 0] / h[on, 1]).min()
    normal = np.array([1.0, -c, 0.0]) / np.hypot(1.0, c)
    assert pencil(Facet(normal, 0.0, 1e-8), h, False) is not None


@pytest.mark.parametrize("bias", [-1.0, 0.0, 1.0, 2.0])
def test_units_fit_and_sums_do_not(bias):
    rng = seeded(4)
    g = rng.standard_normal((40, 4000, 2))
    units = [misfit(np.maximum(x[:, 0] + bias, 0.0)) for x in g]
    # Kolmogorov's distance with two numbers fitted stays below .9 in 95 % of cases (Lilliefors).
    assert np.mean(np.array(units) > 1.3) <= 0.05
    assert misfit(100.0 * np.maximum(g[0, :, 0] + bias, 0.0)) == pytest.approx(units[0], rel=1e-6)
    sums = [misfit(np.maximum(x[:, 0], 0.0) + np.maximum(x[:, 1], 0.0)) for x in g]
    assert np.mean(np.array(sums) > 1.3) > 0.9


def test_misfit_judges_nothing_from_a_few_heights():
    assert misfit(np.r_[np.zeros(100), np.arange(19.0)]) == 0.0


# --- all facets -----------------------------------------------------------------------------------


def sorted_normals(facets):
    return np.array(sorted((facet.normal for facet in facets), key=tuple))


def assert_same(found, normals, offsets=None, atol=1e-8):
    assert len(found) == len(normals)
    for normal, offset in zip(normals, np.zeros(len(normals)) if offsets is None else offsets, strict=True):
        nearest = min(found, key=lambda facet: np.abs(facet.normal - normal).max())
        np.testing.assert_allclose(nearest.normal, normal, atol=atol)
        assert nearest.offset == pytest.approx(offset, abs=20 * atol)


@pytest.mark.parametrize("p", [2, 3, 4])
def test_facets_are_those_of_enumeration(p):
    points, normals, _ = reference.cone(seeded(p), p, 60)
    listed = reference.facets_by_enumeration(points, 3 * p)
    assert_same([Facet(normal, 0.0, EXACT) for normal in listed], normals)  # the reference itself
    found = find_facets(Cloud(points, EXACT, False), p, seeded())
    assert_same(found[0], listed)
    assert all(reference.is_extreme(facet.normal, points) for facet in found[0])


def test_the_reference_knows_sums_of_facets():
    points, normals, _ = reference.cone(seeded(3), 3, 60)
    assert not reference.is_extreme((normals[0] + normals[1]) / 2.0, points)


@pytest.mark.parametrize("p", [2, 3])
def test_lifted_facets_are_those_of_the_convex_hull(p):
    points, normals, offsets = reference.cone(seeded(10 + p), p, 100, lifted=True)
    expected = reference.facets_by_hull(points, 3 * p)
    assert len(expected[0]) == p
    found = find_facets(Cloud(points, EXACT, True), p, seeded())
    assert_same(found[0], *expected)
    assert_same(found[0], normals, offsets)


@LIFTED
@pytest.mark.parametrize("p", [4, 5, 6])
def test_exact_in_more_dimensions(p, lifted):
    points, normals, offsets = reference.cone(seeded(20 + p), p, 400, lifted)
    found = find_facets(Cloud(points, EXACT, lifted, gaussian=False), p, seeded())
    assert_same(found[0], normals, offsets)


@LIFTED
@pytest.mark.slow
def test_no_sum_of_facets_is_returned_if_count_is_larger(lifted):
    points, normals, offsets = reference.cone(seeded(5), 3, 300, lifted)
    assert_same(find_facets(Cloud(points, EXACT, lifted), 6, seeded())[0], normals, offsets)


def test_count_may_be_smaller():
    points, normals, _ = reference.cone(seeded(5), 4, 300)
    found = find_facets(Cloud(points, EXACT, False), 2, seeded())[0]
    assert len(found) == 2
    assert all(np.abs(normals - facet.normal).max(axis=1).min() < 1e-8 for facet in found)


@pytest.mark.parametrize("share", [0.01, pytest.param(0.08, marks=pytest.mark.slow)])
def test_rows_inside_the_space_but_outside_the_cone_are_left_out(share):
    points, normals, _ = reference.cone(seeded(6), 4, 500)
    wrong = seeded(7).random(len(points)) < share
    points[wrong] = 2.0 * seeded(8).standard_normal((np.count_nonzero(wrong), 4))
    found = find_facets(Cloud(points, EXACT, False), 4, seeded())
    assert_same(found[0], normals)
    outside = (points @ normals.T).min(axis=1) < -1e-6
    below = [facet.height(points) < -6.0 * facet.noise for facet in found[0]]
    np.testing.assert_array_equal(np.any(below, axis=0), outside)


def test_a_seed_decides():
    points, *_ = reference.cone(seeded(9), 5, 300)
    points += 0.01 * seeded(1).standard_normal(points.shape)
    one, two = (find_facets(Cloud(points, 0.01, False), 5, seeded(3)) for _ in range(2))
    assert one[1] == two[1]
    np.testing.assert_array_equal(sorted_normals(one[0]), sorted_normals(two[0]))


@pytest.mark.slow  # a study of tables without units
def test_nothing_is_found_where_nothing_is():
    points = seeded().standard_normal((300, 3))
    assert find_facets(Cloud(points, EXACT, False), 3, seeded())[0] == []


def test_a_unit_that_is_never_off_has_no_facet():
    h = np.maximum(seeded().standard_normal((300, 3)), 0.0)
    h[:, 0] += 0.5
    found = find_facets(Cloud(h, EXACT, False), 3, seeded())
    assert_same(found[0], np.eye(3)[1:])


def test_a_unit_that_is_hardly_ever_off_is_found():
    h = np.maximum(seeded().standard_normal((1000, 3)) + np.array([1.8, 0.0, 0.0]), 0.0)
    h = h[h.any(axis=1)]
    assert np.count_nonzero(h[:, 0] == 0.0) > 20
    assert_same(find_facets(Cloud(h, EXACT, False), 3, seeded())[0], np.eye(3))


def test_one_unit_through_the_origin():
    h = np.maximum(seeded().standard_normal((300, 1)), 0.0)
    assert_same(find_facets(Cloud(h, EXACT, False), 1, seeded())[0], [[1.0]])


def test_someone_hears_of_the_search():
    points, *_ = reference.cone(seeded(9), 3, 200)
    reported = []
    find_facets(Cloud(points, EXACT, False), 3, seeded(), reported.append)
    assert {step.stage for step in reported} == {"Finding units"}
    assert (reported[-1].done, reported[-1].total, reported[-1].words) == (3, 3, "3 of 3 units found")


# --- the space ------------------------------------------------------------------------------------

KINDS = {
    "far": lambda rng, m: 30.0 * rng.standard_normal((m, 10)),
    "huge": lambda rng, m: 1e8 * rng.standard_normal((m, 10)),
    "alike": lambda rng, m: 5.0 + 0.01 * rng.standard_normal((m, 10)),
    "one column": lambda rng, m: np.eye(10)[np.zeros(m, dtype=int)] * (20.0 + rng.random((m, 1))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("centered", [False, True])
def test_outliers_do_not_turn_the_space(kind, centered):
    rng = seeded(11)
    X, A, _, _ = reference.draw(rng, 10, 3, 400, noise=0.01, output_bias=centered)
    X[:60] = KINDS[kind](rng, 60)
    space = find_subspace(X, 3, centered, seeded())
    assert not space.inlier[:60].any()
    assert space.inlier[60:].all()
    left = reference.unit_columns(A) - space.basis @ (space.basis.T @ reference.unit_columns(A))
    # 340 rows of noise .01 around columns with a root mean square of about 3
    assert np.linalg.norm(left, axis=0).max() < 0.01
    # The standard error of a standard deviation from 340 * 7 numbers is 1/sqrt(2 * 2380) = 1.5 %.
    assert space.noise == pytest.approx(0.01, rel=4 * 0.015)


def test_without_noise_the_noise_is_rounding():
    X, *_ = reference.draw(seeded(12), 10, 3, 200)
    space = find_subspace(X, 3, False, seeded())
    assert space.inlier.all()
    assert space.noise < 1e-8 * np.sqrt((X**2).mean())
    np.testing.assert_allclose(space.basis.T @ space.basis, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("p", [2, 3, 6])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_rank_is_the_number_of_units(p, noise):
    X, *_ = reference.draw(seeded(13), 12, p, 500, noise=noise)
    assert rank_of(X) == p
    X, *_ = reference.draw(seeded(13), 12, p, 500, noise=noise, output_bias=True)
    assert rank_of(X) == p


def test_rank_of_one_unit():
    X, *_ = reference.draw(seeded(13), 12, 1, 500, noise=0.01)
    assert rank_of(X) == 1


# --- a layer --------------------------------------------------------------------------------------


@LIFTED
def test_encoder_and_weights_are_inverse(lifted):
    X, A, h, a = reference.draw(seeded(14), 9, 4, 500, output_bias=lifted)
    space = find_subspace(X, 4, lifted, seeded())
    decoded = decode_by_facets(X, space, lifted, True, seeded())
    layer = decoded.layer
    np.testing.assert_allclose(layer.encoder @ layer.weights, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(layer.encoder @ layer.bias + layer.offset, 0.0, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(layer.weights, axis=0), 1.0, atol=1e-12)
    order = reference.matched(layer.weights, A)
    np.testing.assert_allclose(layer.weights[:, order], reference.unit_columns(A), atol=1e-9)
    np.testing.assert_allclose(layer.bias, a, atol=1e-8)
    scaled = h * np.linalg.norm(A, axis=0)
    np.testing.assert_allclose(layer.hidden(X)[:, order], scaled, atol=1e-7)
    np.testing.assert_allclose(layer.output(layer.hidden(X)), X, atol=1e-7)
    assert decoded.report.rows_off == tuple((scaled[:, np.argsort(order)] == 0.0).sum(axis=0))
    assert (np.diff(layer.hidden(X).var(axis=0)) <= 0.0).all()
    assert decoded.report.residual < 1e-8
    assert decoded.report.converged


def test_noise_in_a_unit_is_that_of_x_through_the_encoder():
    layer = OutputLayer(np.eye(2), np.zeros(2), np.eye(2), np.array([0.0, -1.0]), np.array([0.1, 0.2]))
    np.testing.assert_array_equal(layer.threshold, [0.4, 0.8])
    np.testing.assert_allclose(layer.hidden(np.array([[0.41, 1.5], [0.39, 2.0]])), [[0.41, 0.0], [0.0, 1.0]])
    X, *_ = reference.draw(seeded(15), 9, 3, 500, noise=0.01)
    space = find_subspace(X, 3, False, seeded())
    found = decode_by_facets(X, space, False, False, seeded()).layer
    np.testing.assert_allclose(found.noise, space.noise * np.linalg.norm(found.encoder, axis=1), rtol=1e-9)


@pytest.mark.slow
def test_a_missing_facet_leaves_the_weights_open():
    X, _, h, _ = reference.draw(seeded(16), 9, 3, 500)
    A = seeded(17).standard_normal((9, 3))
    X = (h + np.eye(3)[0]) @ A.T
    decoded = decode_by_facets(X, find_subspace(X, 3, False, seeded()), False, False, seeded())
    assert decoded.report.units_found == 2
    assert not decoded.report.converged
    assert np.isnan(decoded.layer.weights).all()
    assert np.isnan(decoded.report.residual)
    hidden = decoded.layer.hidden(X)
    assert hidden.shape == (500, 2)
    for unit in hidden.T:  # each is a true one, in units of its own
        assert max(abs(np.corrcoef(unit, true)[0, 1]) for true in h.T) > 1.0 - 1e-9


# --- separable ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_pure_rows_are_found(seed):
    rng = seeded(seed)
    A = rng.random((8, 4))
    h = rng.random((50, 4)) + 0.05
    pure = rng.choice(50, 4, replace=False)
    h[pure] = np.diag(rng.random(4) + 0.5)
    assert sorted(pure_rows(h @ A.T, 4)) == sorted(pure)
    X = h @ A.T
    layer = decode_separably(X, find_subspace(X, 4, False, seeded())).layer
    assert reference.column_error(layer.weights, A) < 1e-12
    np.testing.assert_allclose(layer.output(layer.hidden(X)), X, atol=1e-9)


def test_rows_of_zeros_are_not_pure():
    X = np.vstack([np.zeros((3, 3)), np.eye(3), np.ones((2, 3))])
    assert sorted(pure_rows(X, 3)) == [3, 4, 5]
