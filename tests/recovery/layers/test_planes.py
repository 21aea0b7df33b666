"""Planes that many rows lie on and none lies below: units where inputs are many, and nothing where there are none."""

import numpy as np
import pytest

from tests.references import generators as reference
from unrelu.recovery.layers.decoding import cloud_of, find_subspace
from unrelu.recovery.layers.facets import Cloud, Facet
from unrelu.recovery.layers.planes import PlaneSearch

LIFTED = pytest.mark.parametrize("lifted", [False, True])


def white_rows(white, points):
    """Points in whitened coordinates."""
    rows = (points - white.mean) @ white.root
    return np.column_stack([rows, np.ones(len(rows))]) if white.lifted else rows


def seeded(seed=0):
    return np.random.default_rng(seed)


def clouded(lifted, *, noise=0.0, p=8, q=5, seed=0):
    """(network, cloud, rows used) of rows without a rectifier."""
    net = reference.draw(seed, 20, p, q, 1000, noise=noise, output_bias=lifted)
    space = find_subspace(net.T, p, lifted, seeded())
    return net, *cloud_of(net.T, space, lifted, True)


# --- coordinates ----------------------------------------------------------------------------------


@LIFTED
def test_white_rows_are_white(lifted):
    points = seeded().standard_normal((500, 3)) * [10.0, 1.0, 0.01] + [3.0, 0.0, -2.0]
    rows = Cloud(points, 0.25, lifted).white
    centered = rows[:, :3] - (rows[:, :3].mean(axis=0) if lifted else 0.0)
    np.testing.assert_allclose(centered.T @ centered / 500, np.eye(3), atol=1e-9)
    assert rows.shape == (500, 4 if lifted else 3)
    if lifted:
        np.testing.assert_array_equal(rows[:, 3], 1.0)


@LIFTED
def test_a_direction_of_white_rows_is_a_facet_of_points(lifted):
    points = seeded().standard_normal((500, 3)) * [10.0, 1.0, 0.1] + [3.0, 0.0, -2.0]
    white = Cloud(points, 0.25, lifted)
    w = seeded(1).standard_normal(white.white.shape[1])
    facet = white.facet(w)
    assert np.linalg.norm(facet.normal) == pytest.approx(1.0)
    assert facet.noise == 0.25
    assert lifted or facet.offset == 0.0
    others = seeded(2).standard_normal((20, 3))  # not only the points it was made from
    np.testing.assert_allclose(white.slope(w) * facet.height(others), white_rows(white, others) @ w, atol=1e-9)
    step = 1e-3 * facet.normal
    assert np.allclose((white_rows(white, others + step) - white_rows(white, others)) @ w, 1e-3 * white.slope(w))


# --- planes ---------------------------------------------------------------------------------------


@LIFTED
@pytest.mark.parametrize(("noise", "most"), [(0.0, 1e-6), (1e-3, 0.02)])
def test_planes_are_units(lifted, noise, most):
    net, cloud, used = clouded(lifted, noise=noise)
    search = PlaneSearch(cloud, seeded())
    found = search.planes([], 24)
    assert len(found) >= 6
    heights = np.stack([candidate.height(cloud.points) for candidate in found], axis=1)
    assert reference.nearest_sine(heights, net.h[used]).max() < most
    for candidate, height in zip(found, heights.T, strict=True):
        off = np.count_nonzero(np.abs(height) < 4.0 * cloud.noise)
        assert candidate.on == pytest.approx(off, rel=0.1)


def test_planes_found_before_are_not_found_again():
    net, cloud, used = clouded(True)
    search = PlaneSearch(cloud, seeded())
    found_before, units = [], set()
    for _ in range(4):
        new = []
        for candidate in search.planes(found_before, 12):
            height = candidate.height(cloud.points)
            unit = int(np.argmax([np.corrcoef(height, h)[0, 1] for h in net.h[used].T]))
            assert unit not in units
            new.append((unit, candidate))
        first = dict(reversed(new))
        units |= set(first)
        found_before += list(first.values())
    assert len(units) >= 5


def test_a_seed_decides():
    _, cloud, _ = clouded(True)
    one, two = (PlaneSearch(cloud, seeded(3)).planes([], 6) for _ in range(2))
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first.normal, second.normal)


@LIFTED
@pytest.mark.parametrize("kind", ["normal", "uniform", "a ball", "a plane in the middle"])
def test_there_are_no_planes_where_there_are_no_units(lifted, kind):
    rng, in_it = seeded(5), (np.arange(600) % 2 == 0)[:, None] & (np.arange(4) == 0)
    points = {
        "normal": lambda: rng.standard_normal((600, 4)) + 2.0,
        "uniform": lambda: rng.random((600, 4)),  # has facets, but no row lies on them
        "a ball": lambda: (lambda g: g / np.linalg.norm(g, axis=1)[:, None] + 3.0)(rng.standard_normal((600, 4))),
        "a plane in the middle": lambda: rng.standard_normal((600, 4)) * ~in_it,  # rows lie below it
    }[kind]()
    cloud = Cloud(points, 1e-9, lifted)
    assert PlaneSearch(cloud, seeded()).planes([], 24) == []


def test_a_plane_with_rows_below_is_none():
    points = seeded(5).standard_normal((600, 4))
    points[::2, 0] = 0.0
    for rows, holds in ((points, False), (np.abs(points), True)):
        search = PlaneSearch(Cloud(rows, 1e-9, False), seeded())
        assert search._holds(Facet(np.eye(4)[0], 0.0, 1e-9)) == holds


def test_a_plane_that_one_row_alone_spans_is_none():
    """Rows on a line and one beside it: any plane through the line can be tilted until it meets a row."""
    rng = seeded(6)
    points = np.abs(rng.standard_normal((400, 3)))
    points[:100, 1:] = 0.0
    cloud = Cloud(points, 1e-9, False)
    found = PlaneSearch(cloud, seeded()).planes([], 24)
    assert found == []
