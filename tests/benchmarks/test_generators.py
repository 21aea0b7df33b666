"""What benchmarks/generators judges by is right where the answer is known."""

import numpy as np
import pytest

from benchmarks.__main__ import NAMES
from benchmarks.generators import STUDIES
from benchmarks.generators.networks import Network, Size, draw
from benchmarks.generators.noise import CASES
from benchmarks.generators.recovered import Parts, Recovered, affine_error, nearest_sines, rotation_error
from benchmarks.generators.refusals import cases, is_answered, with_bias, with_duplicate, with_rectified_inputs
from benchmarks.generators.rivals import autoencoder, nmf, projection, relative_error
from benchmarks.generators.samples import controls, energy_test, report
from benchmarks.generators.sizes import figures, size_claims
from benchmarks.generators.unequal import unequal

SMALL = Size(24, 6, 2, 800)


def parts_of(rows, turn=None, doubtful=()):
    """The truth itself in units of its own: columns of A2 of length 1 in another order, z turned."""
    net, order = rows.network, np.random.default_rng(0).permutation(rows.H.shape[1])
    turn = np.eye(rows.z.shape[1]) if turn is None else turn
    lengths = np.linalg.norm(net.A2, axis=0)[order]
    return Parts(
        net.A2[:, order] / lengths,
        net.b2,
        np.ones(len(net.b2), dtype=bool),
        (net.A1[order] * lengths[:, None]) @ turn,
        net.b1[order] * lengths,
        np.ones(len(rows.X), dtype=bool),
        rows.H[:, order] * lengths,
        rows.z @ np.linalg.inv(turn).T,
        doubtful,
    )


def fit_of(rows, parts, said=()):
    return Recovered(rows, object(), parts, 1.0, said, 0 if parts is None else parts.hidden.shape[1])


def test_it_is_one_of_the_benchmarks():
    assert "generators" in NAMES
    assert set(STUDIES) == {"sizes", "unequal", "linear", "samples", "rivals", "noise", "refusals"}


# --- networks ---------------------------------------------------------------------------------------


def test_units_are_off_as_often_size_claims():
    rows = unequal(Size(12, 9, 4, 20_000), 0)
    off = (rows.H == 0.0).mean(axis=0)
    assert np.abs(off - np.linspace(0.1, 0.9, 9)).max() < 4.0 * 0.5 / np.sqrt(20_000)


def test_noise_is_inside_the_rectifier():
    rows = draw(SMALL, 0)
    noisy, linear = rows.noisy(0.01, 0), draw(SMALL, 0, rectified=False).noisy(0.01, 0)
    assert (noisy.X >= 0.0).all()
    np.testing.assert_array_equal(noisy.X, np.maximum(linear.X, 0.0))
    share = (linear.X - rows.T).std() / np.sqrt((rows.T**2).mean())
    assert share == pytest.approx(0.01, rel=0.03)


@pytest.mark.parametrize("kind", ["gaussian", "shifted", "repeated", "inside"])
def test_outlier_rows_are_marked_and_the_others_left_alone(kind):
    rows = draw(SMALL, 0)
    spoiled = rows.with_outliers(kind, 0.05, 0)
    assert (~spoiled.inlier).sum() == 40
    np.testing.assert_array_equal(spoiled.X[spoiled.inlier], rows.X[spoiled.inlier])
    assert (spoiled.X != rows.X).any(axis=1)[~spoiled.inlier].all()
    assert spoiled.X.min() >= 0.0
    assert any(kind in case.name for case in CASES)


# --- how far from the truth -------------------------------------------------------------------------


def test_the_truth_is_right():
    rows = draw(SMALL, 1)
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    fit = fit_of(rows, parts_of(rows, turn))
    assert fit.complete
    assert (fit.wrong_unnamed(), fit.words) == (0, "nothing")
    assert fit.sine < 1e-12
    assert fit.inputs_error < 1e-12
    affine, turned, standard = fit.input_weight_errors
    assert max(affine, turned) < 1e-12
    assert 1e-3 < standard < 0.2  # moments of 800 rows
    assert all(claim.holds is not False for claim in size_claims("", [fit], 60.0))
    assert len(figures([fit])) == 14


def test_stretched_inputs_are_seen_by_a_rotation_alone():
    rows = draw(SMALL, 1)
    affine, turned, _ = fit_of(rows, parts_of(rows, np.diag([1.1, 1.0]))).input_weight_errors
    assert affine < 1e-12
    assert turned > 0.01


def test_a_wrong_unit_is_counted_unless_it_is_named():
    rows = draw(SMALL, 2)
    parts = parts_of(rows)
    parts.hidden[:, 3] += 1e-3 * parts.hidden[:, 2]
    fit = fit_of(rows, parts)
    assert (fit.right(), fit.wrong_unnamed(), fit.complete) == (5, 1, False)
    assert [claim.holds for claim in size_claims("", [fit], 60.0)][3] is False
    named = parts_of(rows, doubtful=(3,))
    named.hidden[:] = parts.hidden
    assert fit_of(rows, named).wrong_unnamed() == 0


def test_what_was_refused_is_neither_right_nor_wrong():
    rows = draw(SMALL, 2)
    silent, refused = fit_of(rows, None), fit_of(rows, None, (("CannotPeelError", "too few rows"),))
    assert (refused.right(), refused.wrong_unnamed(), refused.sine, refused.inputs_error) == (0, 0, 1.0, 1.0)
    assert is_answered(refused)
    assert not is_answered(fit_of(rows, None, (("ValueError", "cannot reshape"),)))
    assert not is_answered(silent)
    assert is_answered(fit_of(rows, parts_of(rows)))


def test_rows_without_inputs_are_left_out():
    rows = draw(SMALL, 3)
    parts = parts_of(rows)
    parts.inputs[:80] = np.nan
    fit = fit_of(rows, parts)
    assert fit.inputs_error < 1e-12
    assert fit.rows_determined == pytest.approx(0.9)


def test_small_sines_and_errors_keep_their_digits():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((500, 3))
    off = rng.standard_normal((500, 3))
    found = truth[:, [2, 0, 1]] + 1e-9 * off
    assert 1e-10 < nearest_sines(found, truth).max() < 3e-9
    assert 1e-10 < affine_error(found @ rng.standard_normal((3, 3)) + 5.0, truth) < 3e-9
    assert rotation_error(truth[:, :2], truth) == 1.0
    assert nearest_sines(-truth, truth).min() > 0.5  # units have a sign


# --- samples, rivals, refusals ----------------------------------------------------------------------


def test_the_two_sample_test_sees_what_differs_and_nothing_else():
    net = Network.draw(SMALL, 0)
    p_values = [
        energy_test(net.rows(60, seed, 1).X, net.rows(60, seed, 2).X, np.random.default_rng(seed), 19)
        for seed in range(100)
    ]
    assert 0 <= np.mean(np.array(p_values) <= 0.05) <= 0.13  # binomial, 1 in 1,000 outside
    assert 0.35 < np.median(p_values) < 0.68
    other = Network(1.5 * net.A1, net.b1, net.A2, net.b2)
    assert energy_test(net.rows(300, 1).X, other.rows(300, 2).X, np.random.default_rng(0)) < 0.02


def test_the_band_is_asked_of_the_recovered_and_power_of_the_wrong_ones():
    names = ["recovered", *controls(Network.draw(SMALL, 0), draw(SMALL, 0).z, 0)]
    same, different = [0.5] * 19 + [0.01], [0.01] * 20
    claims = report(dict(zip(names, [same, same, same, different, same], strict=True)), "")
    assert [claim.holds for claim in claims] == [True, True, None, True, False]
    assert report({"recovered": different}, "")[0].holds is False


def test_rivals_rebuild_what_they_can():
    X = np.random.default_rng(0).random((200, 3)) @ np.random.default_rng(1).random((3, 12))
    X = np.vstack([X, np.random.default_rng(1).random((3, 12))])  # rows of one unit alone
    for rival in (projection(X, 3), nmf(X, 3)):
        assert rival.weights.shape == (12, 3)
        assert relative_error(rival.rebuild(X), X) < 0.02
    learned = autoencoder(X, 3, 2, 0.3, "relu")
    assert learned.weights.shape == (12, 3)
    assert learned.rebuild(X).shape == X.shape


def test_bad_tables_are_as_bad_as_they_are_called():
    net = Network.draw(SMALL, 0)
    assert (with_bias(net, 8.0).rows(500, 0).H[:, 0] > 0.0).all()
    assert (with_bias(net, -8.0).rows(500, 0).H[:, 0] == 0.0).all()
    H = with_duplicate(net).rows(500, 0).H
    np.testing.assert_allclose(H[:, 1], 2.0 * H[:, 0])
    assert with_rectified_inputs(draw(SMALL, 0)).z.min() == 0.0
    for name, case in cases(SMALL).items():
        assert case().rows.H.shape[1] >= 2, name
