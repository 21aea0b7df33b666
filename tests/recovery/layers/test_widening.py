"""A layer with fewer inputs than units: all units and their inputs, or what is wrong; wrong units are named."""

from dataclasses import replace

import numpy as np
import pytest

from tests.references import generators as reference
from unrelu.recovery.layers.decoding import cloud_of, find_subspace
from unrelu.recovery.layers.facets import Clock, Facet, count_points
from unrelu.recovery.layers.units import why_missing
from unrelu.recovery.layers.widening import Search, decode_widening


def seeded(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def net():
    """12 units of 4 inputs, 20 outputs without a rectifier; 9 units are found as planes."""
    return reference.draw(3, 20, 12, 4, 900)


def decoded(net, q, clock=None, lifted=True):
    p = net.A2.shape[1]
    space = find_subspace(net.T, p, lifted, seeded())
    return decode_widening(net.T, space, lifted, q, seeded(), clock or Clock())


def check(found, net, sine=1e-7, inputs=1e-7):
    """Every unit, its inputs where rows determine them, and the layer of these."""
    layer, inner = found.layer, found.inner
    assert found.report.ended is None
    assert found.fault is None
    assert found.report.converged
    wrong, order = reference.sines(layer.weights, net.A2)
    assert wrong.max() < sine
    lengths = np.linalg.norm(net.A2, axis=0)
    hidden = layer.hidden(net.T)
    np.testing.assert_allclose(hidden[:, order] / lengths, net.h, atol=100 * sine)
    z = inner.inputs(hidden)
    known = np.isfinite(z[:, 0])
    assert known.sum() > 0.5 * len(z)
    assert reference.affine_error(z[known], net.z[known]) < inputs
    # A row with hardly enough units on amplifies noise by more than any bound: all but one cell in a thousand.
    assert np.quantile(np.abs(inner.units(z[known]) - hidden[known]), 0.999) < 100 * sine


def true_units(search, net, used, most=1e-6):
    """Whether every unit that a search holds is one."""
    heights = np.stack([unit.height(search.cloud.points) for unit in search.units], axis=1)
    return bool(reference.nearest_sine(heights, net.h[used]).max() < most)


@pytest.fixture(scope="module")
def found(net):
    return decoded(net, 4)


# --- all units ------------------------------------------------------------------------------------


def test_all_units_and_their_inputs(net, found):
    check(found, net)
    report = found.report
    assert (report.method, report.n_hidden, report.units_found, report.doubtful_units) == ("widening", 12, 12, ())
    assert (np.sort(report.rows_off) == np.sort((net.h == 0.0).sum(axis=0))).all()


def test_the_number_of_inputs_is_found(net):
    found = decoded(net, "auto")
    check(found, net)
    assert found.inner.n_inputs == 4
    tried = dict(found.choice)
    assert set(tried) == {1, 2, 3, 4}
    assert tried[1] > tried[2] > tried[3] > 0.01
    assert tried[4] < 1e-8
    assert found.inner.choice == found.choice


@pytest.mark.slow  # two layers are tested with it
def test_without_an_output_bias():
    net = reference.draw(3, 20, 12, 4, 900, output_bias=False)
    check(decoded(net, 4, lifted=False), net)


def test_noise():
    net = reference.draw(3, 20, 12, 4, 2000, noise=1e-3)
    # Columns are known to noise / (sd of units) / sqrt(rows on) times a condition number below 100; inputs of single
    # rows to noise times that of their few equations, which is above 10 in some.
    check(decoded(net, 4), net, sine=0.003, inputs=0.03)


@pytest.mark.slow  # a study
@pytest.mark.parametrize(("p", "q"), [(8, 3), (12, 3), (16, 4), (24, 6)])
def test_many_networks(p, q):
    complete = 0
    for seed in range(6):
        net = reference.draw(seed, 3 * p, p, q, 200 * p)
        found = decoded(net, q)
        if found.inner is not None:
            check(found, net, sine=1e-6, inputs=1e-6)
            complete += 1
    assert complete >= 5


# --- another number of inputs, and units that are not identified --------------------------------


def test_too_few_inputs_are_named(net):
    found = decoded(net, 2)
    assert found.inner is None
    assert dict(found.choice)[2] > 0.01
    reason = why_missing(found, 2)
    assert "n_inputs=2 leaves a relative residual of" in reason
    assert "aise n_inputs" in reason


def test_too_many_inputs_are_named(net):
    found = decoded(net, 5)
    assert found.inner is None
    assert "n_inputs=5 is too large: 4 inputs explain" in found.fault
    assert why_missing(found, 5) == found.fault


def with_bias(net, unit, bias):
    b1 = net.b1.copy()
    b1[unit] = bias
    return replace(net, b1=b1)


def test_a_unit_that_is_never_off_is_doubtful_and_the_others_exact(net):
    net = with_bias(net, 5, 30.0)
    found = decoded(net, 4)
    report, layer = found.report, found.layer
    assert report.converged
    [doubtful] = report.doubtful_units
    assert report.rows_off[doubtful] == 0
    wrong, order = reference.sines(layer.weights, net.A2)
    assert wrong.max() < 1e-6  # the column as well: only its bias is not separate from that of the outputs
    assert order[5] == doubtful
    hidden = layer.hidden(net.T)
    assert found.inlier.all()
    np.testing.assert_allclose(layer.output(hidden), net.T, atol=1e-6)


@pytest.mark.slow  # some seconds
def test_a_unit_that_is_off_in_a_handful_of_rows_brings_nothing_false(net):
    net = with_bias(net, 5, -np.sort(net.z @ net.A1[5])[3] + 1e-6)
    assert np.count_nonzero(net.h[:, 5] == 0.0) == 3
    space = find_subspace(net.T, 12, True, seeded())
    cloud, used = cloud_of(net.T, space, True, True)
    search = Search(cloud, 4, seeded())
    search.run()
    certain = [unit for unit in search.units if unit.misfit == 0.0]
    assert len(certain) in (11, 12)
    heights = np.stack([unit.height(cloud.points) for unit in certain], axis=1)
    assert reference.nearest_sine(heights, net.h[used]).max() < 1e-6


def false_plane(cloud, one, two, share):
    """A mixture of two units: 0 where both are off, never below."""
    normal = one.normal + share * two.normal
    length = np.linalg.norm(normal)
    facet = Facet(normal / length, (one.offset + share * two.offset) / length, cloud.noise)
    return count_points(facet, cloud.points)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_planes_that_are_no_units_are_dropped(net, found, share):
    space = find_subspace(net.T, 12, True, seeded())
    cloud, used = cloud_of(net.T, space, True, False)  # no distribution separates mixtures from units
    layer = found.layer
    normals = layer.encoder @ space.basis
    sizes = np.linalg.norm(normals, axis=1)
    offsets = (layer.offset + layer.encoder @ space.center) / sizes
    facets = [Facet(n / s, o, cloud.noise) for n, s, o in zip(normals, sizes, offsets, strict=True)]
    false = false_plane(cloud, facets[10], facets[11], share)
    true = [count_points(facet, cloud.points) for facet in facets[:10]]
    search = Search(cloud, 4, seeded())
    search.planes = [*true, false]
    search.run()
    assert search.complete
    assert true_units(search, net, used)


# --- ends -----------------------------------------------------------------------------------------


class Stop:
    """Raises at the first step of a stage that has found so many."""

    def __init__(self, stage, done, error):
        self.stage, self.done, self.error, self.reported = stage, done, error, []

    def __call__(self, step):
        self.reported.append(step)
        if step.stage == self.stage and step.done >= self.done:
            raise self.error


def test_an_interrupt_keeps_planes_as_doubtful_units(net):
    found = decoded(net, 4, Clock(progress=Stop("Finding planes", 1, KeyboardInterrupt())))
    report = found.report
    assert found.report.ended == "The search was interrupted"
    assert found.inner is None
    assert 0 < report.units_found < 12
    assert report.doubtful_units == tuple(range(report.units_found))
    assert np.isnan(found.layer.weights).all()
    hidden = found.layer.hidden(net.T)
    assert hidden.shape == (900, report.units_found)


def test_time_that_is_up_at_once(net):
    found = decoded(net, 4, Clock(1e-9))
    assert found.report.ended == "The time was up"
    assert found.report.units_found < 12
    assert found.inner is None


@pytest.mark.slow
def test_however_many_planes_there_are_without_inputs_there_are_no_weights():
    """As many planes as units, and too few of them on together to find so many inputs."""
    found = decoded(reference.draw(1, 16, 8, 3, 800), 6)
    assert found.inner is None
    assert not found.report.converged
    assert np.isnan(found.layer.weights).all()
    assert 6 not in dict(found.choice)
    assert "n_inputs=6 is too large: 3 inputs explain" in why_missing(found, 6)


def test_one_unit_to_spare_is_enough_where_rows_with_more_are_few():
    network = reference.draw(1, 16, 8, 3, 800)
    found = decoded(network, 3)
    assert found.inner is not None
    cosines = np.abs(found.layer.weights.T @ (network.A2 / np.linalg.norm(network.A2, axis=0)))
    assert cosines.max(axis=1).min() > 1.0 - 1e-12


def test_units_that_other_rows_contradict_are_dropped():
    """Of four units few rows have all on, and in these a mixture looks like a unit."""
    network = reference.draw(3, 36, 12, 3, 2400)
    check(decoded(network, 3), network)


def test_progress_has_every_stage(net):
    reported = []
    decoded(net, 4, Clock(progress=reported.append))
    assert list(dict.fromkeys(step.stage for step in reported)) == ["Finding planes", "Finding units"]
    assert (reported[-1].done, reported[-1].total, reported[-1].words) == (12, 12, "12 of 12 units found")
    assert all(step.total == 12 for step in reported)


def test_mistakes_of_a_progress_are_not_swallowed(net):
    with pytest.raises(ValueError, match="a mistake"):
        decoded(net, 4, Clock(progress=Stop("Finding planes", 0, ValueError("a mistake"))))


def test_a_seed_decides(net, found):
    again = decoded(net, 4)
    np.testing.assert_array_equal(again.layer.weights, found.layer.weights)
    np.testing.assert_array_equal(again.inner.weights, found.inner.weights)


def test_tables_without_units_end_soon():
    T = seeded(1).standard_normal((600, 6))
    space = find_subspace(T, 6, True, seeded())
    found = decode_widening(T, space, True, 2, seeded(), Clock())
    assert found.inner is None
    assert found.report.units_found == 0
    assert found.choice == ()


def test_heights_of_nothing_are_no_new_unit(net):
    """Their length was divided by."""
    space = find_subspace(net.T, 12, True, seeded())
    cloud, _ = cloud_of(net.T, space, True, True)
    search = Search(cloud, 4, seeded())
    never_on = Facet(np.eye(12)[0], -10.0 * float(np.abs(cloud.points).max()), cloud.noise)
    heights = iter([[never_on], [never_on], *[[]] * 50])
    search.planes.append(count_points(Facet(np.eye(12)[1], 0.0, cloud.noise), cloud.points))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("unrelu.recovery.layers.planes.PlaneSearch.planes", lambda *_: next(heights))
        search.run()
    assert len(search.planes) == 1
