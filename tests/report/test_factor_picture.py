"""The picture of a recovered matrix: every cell in its place and in its colour, whatever the size of the table."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgba

import unrelu
from unrelu.report.pictures import HIDDEN, NAIVE, rendered
from unrelu.report.recovery import factor_cells, factor_picture
from unrelu.tables import ArraySamples

pytestmark = pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")


def recovered(n=120, d=12, k=2, rank=None, names=None, floor=0.0, weak=(), missing=0.0):
    """(recovery, table, T) of a random exact table."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + rng.uniform(-0.2, 0.8, d)
    hidden[:, list(weak)] = -5.0
    table = np.maximum(hidden + floor, floor)
    table[rng.random((n, d)) < missing] = np.nan
    recovery = unrelu.ReLUMatrixRecovery(rank or k, floor=floor).fit(table)
    if names is not None:
        recovery.feature_names_in_ = np.array(names, dtype=object)
    return recovery, table, hidden + floor


def pictured(**options):
    recovery, table, _ = recovered(**options)
    return factor_picture(recovery, ArraySamples(table))


def order_of(recovery):
    """Rows by their part in the first component, columns by its share in them."""
    size = np.sqrt((recovery.components_**2).sum(axis=0) + (recovery.bias_ - recovery.floor_) ** 2)
    share = recovery.components_[0] / np.where(size > 0.0, size, 1.0)
    return np.argsort(recovery.latent_[:, 0], kind="stable"), np.argsort(share, kind="stable")


def panels(figure):
    """Axes by the first words of their title."""
    return {axes.get_title(loc="left").split(":")[0]: axes for axes in figure.axes}


OTHERS = [pytest.param(*kind, marks=pytest.mark.slow) for kind in ((".svg", b"<?xml"), (".pdf", b"%PDF"))]


@pytest.mark.parametrize(("kind", "start"), [(".png", b"\x89PNG"), *OTHERS])
def test_kinds_of_pictures(kind, start):
    one, two = (rendered(pictured(), kind) for _ in range(2))
    assert one.startswith(start)
    assert one == two


def test_the_cells_are_those_of_the_table_and_of_T():
    recovery, table, hidden = recovered(floor=0.5, missing=0.03)
    heights, latent, floored, order = factor_cells(recovery, ArraySamples(table))
    rows, columns = order_of(recovery)
    np.testing.assert_array_equal(order, columns)
    np.testing.assert_allclose(latent, hidden[np.ix_(rows, columns)] - 0.5, atol=1e-6)
    np.testing.assert_array_equal(np.isnan(heights), np.isnan(table[np.ix_(rows, columns)]))
    np.testing.assert_array_equal(floored, table[np.ix_(rows, columns)] == 0.5)
    shown = panels(factor_picture(recovery, ArraySamples(table)))
    seen = shown["Seen"].images[0].get_array()
    full = shown["Recovered"].images[0].get_array()
    assert seen.shape == full.shape == (*heights.shape, 4)
    np.testing.assert_array_equal((seen == to_rgba(HIDDEN)).all(axis=2), floored)
    np.testing.assert_array_equal((seen == 1.0).all(axis=2), np.isnan(heights))
    # What the table shows has the colour of T; what it hides is blue.
    above = ~floored & ~np.isnan(heights)
    np.testing.assert_allclose(seen[above], full[above], atol=0.01)
    red, blue = full[..., 0], full[..., 2]
    assert (blue >= red)[floored].all()
    assert (red >= blue)[above].all()
    assert "white: missing" in shown["Seen"].get_title(loc="left")


def test_columns_of_any_unit_are_seen_alike():
    recovery, table, _ = recovered()
    small = unrelu.ReLUMatrixRecovery(2).fit(table * 1e-3)
    one, two = (
        panels(factor_picture(r, ArraySamples(x)))["Recovered"].images[0].get_array()
        for r, x in ((recovery, table), (small, table * 1e-3))
    )
    np.testing.assert_allclose(one, two, atol=0.02)


def test_bars_are_the_components_in_table_order():
    recovery, table, _ = recovered(names=["As", "Pb", "$x$", *"defghijkl"])
    figure = factor_picture(recovery, ArraySamples(table))
    bars = [axes for axes in figure.axes if axes.containers]
    assert [axes.get_ylabel().split()[0] for axes in bars] == ["c0", "c1"]
    for axes, row in zip(bars, recovery.components_, strict=True):
        np.testing.assert_array_equal([bar.get_height() for bar in axes.containers[0]], row)
    assert [label.get_text() for label in bars[-1].get_xticklabels()] == ["As", "Pb", r"\$x\$", *"defghijkl"]
    _, order = order_of(recovery)
    image_names = [label.get_text().replace("\\", "") for label in panels(figure)["Seen"].get_xticklabels()]
    assert image_names == [str(recovery.feature_names_in_[j]) for j in order]
    shares = [float(axes.get_ylabel().split("(")[1].rstrip("%)")) for axes in bars]
    assert sum(shares) == pytest.approx(100.0, abs=1.1)
    rendered(figure)


@pytest.mark.parametrize(("d", "k"), [(70, 2), (20, 7)])
def test_many_columns_or_components_are_an_image(d, k):
    recovery, table, _ = recovered(n=200, d=d, k=k)
    figure = factor_picture(recovery, ArraySamples(table))
    assert not any(axes.containers for axes in figure.axes)
    np.testing.assert_array_equal(panels(figure)["Components"].images[0].get_array(), recovery.components_)
    rendered(figure)


def test_weak_columns_are_marked_where_they_are():
    for d in (12, 80):
        recovery, table, _ = recovered(d=d, weak=(3, 7))
        assert recovery.report_.weak_columns == (3, 7)
        shown = panels(factor_picture(recovery, ArraySamples(table)))
        marks = shown["Recovered"].lines[0]
        assert marks.get_color() == NAIVE
        assert sorted(order_of(recovery)[1][marks.get_xdata()]) == [3, 7]
        assert "2 columns that the table does not determine" in shown["Recovered"].get_xlabel()
        marks = [line for line in shown["Components"].lines if line.get_marker() == "v"]
        assert [list(line.get_xdata()) for line in marks] == [[3, 7]]
    assert not panels(pictured())["Recovered"].lines


def test_the_choice_of_the_rank_is_shown_where_there_was_one():
    assert "Choice of the rank" not in panels(pictured())
    recovery, table, _ = recovered(rank="auto")
    axes = panels(factor_picture(recovery, ArraySamples(table)))["Choice of the rank"]
    every, chosen = axes.lines
    np.testing.assert_array_equal(every.get_xydata(), recovery.report_.component_errors)
    assert chosen.get_xdata() == [recovery.n_components_]
    assert axes.texts[0].get_text() == f"chosen: {recovery.n_components_}"


def test_large_tables_are_thinned_out_evenly():
    recovery, table, _ = recovered(n=1000, d=300, k=1)
    numbers = np.arange(table.size, dtype=float).reshape(table.shape)  # every cell says where it is
    shown = factor_cells(recovery, ArraySamples(numbers))[0]
    assert shown.shape == (240, 240)
    rows, columns = (shown[:, 0] // 300).astype(int), (shown[0] % 300).astype(int)
    np.testing.assert_array_equal(shown, numbers[np.ix_(rows, columns)])
    every_row, every_column = order_of(recovery)
    places = np.argsort(every_row)[rows]
    assert (places[0], places[-1]) == (0, 999)
    assert set(np.diff(places)) <= {4, 5}
    assert len(set(columns)) == 240
    assert columns[0] == every_column[0]
    figure = factor_picture(recovery, ArraySamples(numbers))
    assert panels(figure)["Seen"].get_xlim() == (-0.5, 299.5)
    assert "1,000 x 300" in figure.get_suptitle()


def test_small_and_constant_tables_can_be_drawn():
    hidden = np.outer(np.linspace(-1.0, 2.0, 5), [1.0, 2.0, -1.0]) + 0.5
    table = np.maximum(hidden, 0.0)
    recovery = unrelu.ReLUMatrixRecovery(1).fit(table)
    figure = factor_picture(recovery, ArraySamples(table))
    assert rendered(figure).startswith(b"\x89PNG")
    recovery.feature_names_in_ = np.array(["a very long name of a column", "µg/l", "b"], dtype=object)
    assert rendered(factor_picture(recovery, ArraySamples(table)))


def test_tables_with_margins_are_drawn_as_latent_heights():
    """A log margin gives the picture of the table of logarithms."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((40, 1)) @ rng.uniform(0.5, 1.5, (1, 4))
    logs = np.maximum(hidden, -0.4)
    plain = factor_cells(unrelu.ReLUMatrixRecovery(1, floor=-0.4).fit(logs), ArraySamples(logs))
    with_margins = unrelu.ReLUMatrixRecovery(1, floor=np.exp(-0.4), margins="log").fit(np.exp(logs))
    result = factor_cells(with_margins, ArraySamples(np.exp(logs)))
    for found, expected in zip(result[:2], plain[:2], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-7)
    np.testing.assert_array_equal(result[2], plain[2])
