"""Undoing a rectifier: from some rows as from all, without outlier rows, and only identified outputs."""

import numpy as np
import pytest

from tests.references import generators as reference
from unrelu.errors import InvalidDataError
from unrelu.recovery.layers import rectifier
from unrelu.recovery.layers.rectifier import undo_rectifier


def seeded(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def net():
    return reference.draw(0, 36, 4, 3, 900)


@pytest.fixture
def some(monkeypatch):
    """Tables of any size begin with some of their rows: (fits seen, as (rows, outputs))."""
    seen = []
    recover = rectifier.recover_matrix

    def record(cells, *arguments, **options):
        seen.append(cells.shape)
        return recover(cells, *arguments, **options)

    monkeypatch.setattr(rectifier, "_SMALL", 0.0)
    monkeypatch.setattr(rectifier, "recover_matrix", record)
    return seen


def test_some_rows_first_give_what_all_rows_give(net, some, monkeypatch):
    part = undo_rectifier(net.X, 4)
    assert some[0][0] == 250
    assert some[-1][0] == 900
    monkeypatch.setattr(rectifier, "_SMALL", np.inf)
    whole = undo_rectifier(net.X, 4)
    both = part.outputs & whole.outputs
    assert both.sum() > 25
    for undone in (part, whole):
        assert undone.determined.mean() > 0.95
        assert undone.report.converged
        np.testing.assert_allclose(
            undone.T[undone.determined], net.T[np.ix_(undone.determined, undone.outputs)], atol=1e-7
        )
    rows = part.determined & whole.determined
    np.testing.assert_allclose(
        part.T[np.ix_(rows, both[part.outputs])], whole.T[np.ix_(rows, both[whole.outputs])], atol=1e-7
    )
    assert (part.report.n_rows, part.report.n_features, part.report.n_components) == (900, 36, 4)
    assert part.report.weak_columns == tuple(np.flatnonzero(~part.outputs))


def test_small_tables_are_taken_whole(net, some):
    undo_rectifier(net.X[:500], 4)
    assert some[0][0] == 500


OUTLIERS = {
    "long": lambda rng, X: 30.0 * np.abs(rng.standard_normal(X.shape)),
    "alike": lambda rng, X: np.maximum(5.0 + 0.1 * rng.standard_normal(X.shape), 0.0),
    "usual values, mixed up": lambda rng, X: rng.permuted(X, axis=1),
    "some outputs": lambda rng, X: X + 5.0 * (rng.random(X.shape) < 0.2),
}


@pytest.mark.parametrize("kind", OUTLIERS)
def test_outlier_rows_are_left_out(some, kind):
    net = reference.draw(1, 36, 4, 3, 900)
    X, bad = net.X.copy(), np.arange(900) % 20 == 7
    X[bad] = OUTLIERS[kind](seeded(1), X[bad])
    undone = undo_rectifier(X, 4)
    # A row of which few outputs are on, or that hardly changed, can fit.
    assert np.count_nonzero(undone.determined & bad) <= 5
    good = undone.determined & ~bad
    assert good[~bad].mean() > 0.95
    np.testing.assert_allclose(undone.T[good], net.T[np.ix_(good, undone.outputs)], atol=1e-6)


@pytest.mark.slow
def test_factors_of_some_rows_that_explain_no_others_are_not_gone_on_from(net, some):
    X, bad = net.X.copy(), np.arange(900) % 20 == 7
    X[bad] = OUTLIERS["some outputs"](seeded(1), X[bad])
    undone = undo_rectifier(X, 4)
    assert some[-1][0] == 900
    assert undone.report.residual > rectifier.INEXACT  # so that callers see it


def test_fewer_dimensions_are_found_from_some_rows(some):
    """One of six units is never on."""
    net = reference.draw(1, 40, 6, 6, 1200)
    X = np.maximum(net.h[:, 1:] @ net.A2[:, 1:].T + net.b2, 0.0)
    with pytest.raises(InvalidDataError, match="varies in 5 dimensions, fewer than the 6 hidden units"):
        undo_rectifier(X, 6)
    assert some[0][0] < 600


def test_outputs_that_are_rarely_on_are_left_for_later(net, some):
    X = net.X.copy()
    X[:, 5] = np.maximum(X[:, 5] - np.quantile(X[:, 5], 0.99), 0.0)
    X[:, 6] = 0.0
    undone = undo_rectifier(X, 4)
    assert not undone.outputs[[5, 6]].any()
    assert undone.report.weak_columns == tuple(np.flatnonzero(~undone.outputs))
    np.testing.assert_allclose(undone.T[undone.determined], net.T[np.ix_(undone.determined, undone.outputs)], atol=1e-7)


def test_too_few_outputs_on_often_take_all_rows(some):
    net = reference.draw(0, 36, 4, 3, 900)
    X = net.X * (np.arange(36) < 5)
    X[:12] = net.X[:12]
    undo_rectifier(X, 4)
    assert some[0][0] == 900


def test_noise_leaves_outputs_that_are_on_often(net, some):
    X = np.maximum(net.T + 0.01 * seeded(1).standard_normal(net.T.shape), 0.0)
    undone = undo_rectifier(X, 4)
    often = np.count_nonzero(X > 0.0, axis=0) >= 100
    assert not undone.outputs[~often].any()
    assert undone.outputs[often].mean() > 0.9
    size = np.sqrt((net.T**2).mean())
    assert 0.003 / size < undone.report.residual < 0.02 / size
    left = (undone.T - net.T[:, undone.outputs])[X[:, undone.outputs] > 0.0]
    assert np.sqrt((left**2).mean()) < 0.01  # fitted values have less noise than what they are fitted to


def test_the_width_may_be_found():
    undone = undo_rectifier(reference.draw(0, 24, 2, 2, 300).X, "auto")
    assert undone.report.n_components == 2


def test_a_seed_decides(net, some):
    one, two = (undo_rectifier(net.X, 4, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.T, two.T)
