"""Units behind given inputs: each is found once, lines and near-lines are not taken for units."""

import numpy as np
import pytest

from tests.references import generators as reference
from unrelu.recovery.layers.planes import KinkSearch


def seeded(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def net():
    return reference.draw(3, 20, 8, 3, 700)


def searched(net, h=None, seed=0):
    """The search among rows that see units mixed up, and a constant."""
    h = net.h if h is None else h
    mixed = h @ seeded(9).standard_normal((h.shape[1],) * 2)
    return KinkSearch(net.z, np.column_stack([mixed, np.ones(len(h))]), seeded(seed))


def truth(net):
    return np.column_stack([net.A1, net.b1]).T


def lengths(found):
    return found.residual / found.size


def test_every_unit_is_found_once(net):
    search, found_units, found = searched(net), np.zeros((700, 0)), []
    for _ in range(40):
        unit = search.unit(found_units)
        if min(unit.on, unit.off) > 5 and lengths(unit) < 1e-7:
            height = np.maximum(net.z @ unit.direction[:-1] + unit.direction[-1], 0.0)
            if found_units.shape[1]:  # nothing twice: a unit found before attracts nothing
                assert reference.nearest_sine(height[:, None], found_units).min() > 1e-3
            found.append(unit)
            found_units = np.column_stack([found_units, height])
        if len(found) == 8:
            break
    assert len(found) == 8
    directions = np.stack([unit.direction for unit in found], axis=1)
    assert reference.sines(directions, truth(net))[0].max() < 1e-7
    assert found_units.shape[1] == np.linalg.matrix_rank(found_units)
    for unit in found:
        height = np.maximum(net.z @ unit.direction[:-1] + unit.direction[-1], 0.0)
        assert (unit.on, unit.off) == (np.count_nonzero(height), np.count_nonzero(height == 0.0))


def test_a_functional_gives_the_unit_of_rows(net):
    mixed = np.column_stack([net.h @ seeded(9).standard_normal((8, 8)), np.ones(700)])
    unit = KinkSearch(net.z, mixed, seeded()).of_heights(net.h[:, 2])
    np.testing.assert_allclose(mixed @ unit.functional, net.h[:, 2], atol=1e-9)
    np.testing.assert_allclose(unit.direction, truth(net)[:, 2], atol=1e-9)
    assert unit.residual < 1e-10
    line = net.z @ net.A1[2] + net.b1[2]
    expected = min((np.maximum(line, 0.0) ** 2).mean(), (np.minimum(line, 0.0) ** 2).mean())
    assert unit.size == pytest.approx(np.sqrt(expected))


def test_inputs_in_any_coordinates(net):
    turn, shift = seeded(4).standard_normal((3, 3)) * [1e-3, 1.0, 1e3], np.array([5.0, -1e-2, 100.0])
    rows = np.column_stack([net.h, np.ones(700)])
    unit = KinkSearch(net.z @ turn + shift, rows, seeded()).of_heights(net.h[:, 0])
    line = (net.z @ turn + shift) @ unit.direction[:-1] + unit.direction[-1]
    np.testing.assert_allclose(np.maximum(line, 0.0), net.h[:, 0], atol=1e-7)


def test_a_mixture_of_units_is_none(net):
    assert lengths(searched(net).of_heights(net.h[:, 1] + net.h[:, 3])) > 0.03


def test_what_is_not_among_the_rows_is_not_found(net):
    """Rows of seven units: the eighth is no unit of theirs."""
    search = searched(net, net.h[:, :7])
    assert lengths(search.of_heights(net.h[:, 7])) > 0.03
    found_units = net.h[:, :7]
    assert all(lengths(search.unit(found_units)) > 1e-6 for _ in range(5))


def test_a_plane_may_show_a_unit_that_is_never_off_in_rows_with_inputs(net):
    on = net.h[:, 2] > 0.0
    search = KinkSearch(net.z[on], np.column_stack([net.h[on], np.ones(on.sum())]), seeded())
    w = np.eye(9)[2]
    unit = search.of_heights(net.h[on, 2], w)
    np.testing.assert_allclose(unit.direction, truth(net)[:, 2], atol=1e-9)
    np.testing.assert_array_equal(unit.functional, w)
    assert lengths(unit) < 1e-10
    mixture = search.of_heights((net.h[:, 2] + net.h[:, 3])[on], np.eye(9)[2] + np.eye(9)[3])
    assert lengths(mixture) > 0.03
    assert search.of_heights(net.h[on, 2]).size == 0.0  # without a plane nothing shows that it is ever off


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("few", [0, 3])
def test_a_function_that_is_linear_but_for_a_few_rows_is_no_unit(net, sign, few):
    """Lines are among the rows as h(a) - h(-a): one that is off, or on, in three rows is off by little, but not 0."""
    line = sign * net.z @ net.A1[0]
    h = np.column_stack([net.h, line])
    search = searched(net, h)
    level = np.sort(line)[few] - 1e-9 if sign > 0 else np.sort(line)[-few - 1] + 1e-9
    unit = search.of_heights(np.maximum(line - level, 0.0))
    assert min(unit.on, unit.off) <= max(few, 1) or lengths(unit) > 1e-3


def test_units_that_are_never_off_are_lines(net):
    never = net.z @ np.array([1.0, -2.0, 0.5]) + 30.0
    h = np.column_stack([net.h[:, :6], never, np.ones(700)])
    search = KinkSearch(net.z[:500], h[:500], seeded())
    [unit] = search.linear(net.h[:500, :6], 0.0, h)
    slope = unit.direction[:-1] / np.linalg.norm(unit.direction[:-1])
    assert abs(slope @ np.array([1.0, -2.0, 0.5])) / np.linalg.norm([1.0, -2.0, 0.5]) == pytest.approx(1.0, abs=1e-9)
    heights = net.z @ unit.direction[:-1] + unit.direction[-1]
    assert heights.min() > 0.0
    assert (h @ unit.functional).min() > 0.0
    assert (unit.on, unit.off) == (500, 0)
    assert unit.residual < 1e-9
    assert searched(net, net.h[:, :6]).linear(net.h[:, :6], 0.0, net.h) == []


def test_a_line_in_the_span_of_found_units_is_not_another():
    net = reference.draw(3, 20, 6, 3, 700)
    both = np.column_stack([net.h, np.maximum(-(net.z @ net.A1[0] + net.b1[0]), 0.0)])  # h(a) - h(-a) is a line
    assert searched(net, both).linear(both, 0.0, both) == []


def test_a_seed_decides(net):
    one, two = (searched(net, seed=5).unit(np.zeros((700, 0))) for _ in range(2))
    np.testing.assert_array_equal(one.direction, two.direction)


def test_more_rows_than_a_search_uses():
    net = reference.draw(3, 20, 8, 3, 1500)
    unit = next(
        unit
        for unit in (searched(net, seed=seed).unit(np.zeros((1500, 0))) for seed in range(9))
        if lengths(unit) < 1e-7
    )
    assert unit.on + unit.off == 1500
    assert reference.nearest_sine(unit.direction[:, None], truth(net))[0] < 1e-7
