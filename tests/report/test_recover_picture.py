"""The picture of recovered rows: every cell in its place and colour, outliers counted, residuals to scale."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgba

import unrelu
from unrelu.report.pictures import HIDDEN, NAIVE, rendered
from unrelu.report.recovery import recover_picture, recovered_cells
from unrelu.tables import ArraySamples

pytestmark = pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")


def recovered(n=30, d=16, k=2, floor=0.0, bad=(), noise=0.05):
    """(rows, table, clean) of a random layer, with 10 % outliers and a few missing values."""
    rng = np.random.default_rng(0)
    weights, mean = rng.standard_normal((d, k)), 0.5 + 0.3 * rng.standard_normal(d) + floor
    clean = np.maximum(rng.standard_normal((n, k)) @ weights.T + mean, floor)
    table = clean + noise * rng.standard_normal((n, d))
    table[rng.random((n, d)) < 0.1] += 5.0
    table[rng.random((n, d)) < 0.02] = np.nan
    table[list(bad)] = floor  # the layer is off: nothing tells what is behind it
    return unrelu.ReLULatentRecovery(weights, mean, floor=floor).recover_rows(table, skip_bad_rows=True), table, clean


def pictured(names=None, floor=0.0, **options):
    rows, table, _ = recovered(floor=floor, **options)
    return recover_picture(rows, floor, ArraySamples(table), names)


def cells(floor=0.0, most=240, **options):
    rows, table, _ = recovered(floor=floor, **options)
    return recovered_cells(rows, np.full(table.shape[1], floor), ArraySamples(table), most)


def panels(figure):
    """Axes by the first words of their title."""
    return {axes.get_title(loc="left").split(":")[0].split(" (")[0]: axes for axes in figure.axes}


OTHERS = [pytest.param(*kind, marks=pytest.mark.slow) for kind in ((".svg", b"<?xml"), (".pdf", b"%PDF"))]


@pytest.mark.parametrize(("kind", "start"), [(".png", b"\x89PNG"), *OTHERS])
def test_kinds_of_pictures(kind, start):
    one = rendered(pictured(n=6, d=4), kind)
    assert one.startswith(start)
    assert kind != ".svg" or one == rendered(pictured(n=6, d=4), kind)


def test_the_cells_are_those_of_the_table():
    rows, table, clean = recovered(floor=0.5, bad=(4,))
    heights, recovered_heights, flagged, _ = cells(floor=0.5, bad=(4,))
    np.testing.assert_array_equal(heights, table - 0.5)
    np.testing.assert_array_equal(flagged, rows.flagged)
    good = np.delete(np.arange(30), 4)
    assert np.median(np.abs(recovered_heights + 0.5 - clean)[good]) < 0.05
    figure = recover_picture(rows, 0.5, ArraySamples(table), None)
    shown = panels(figure)
    given, cleaned = (shown[name].images[0].get_array() for name in ("Given", "Clean"))
    np.testing.assert_array_equal((given == to_rgba(NAIVE)).all(axis=2), rows.flagged)
    np.testing.assert_array_equal((given == to_rgba(HIDDEN)).all(axis=2), np.isnan(table))
    grey = (cleaned == to_rgba(HIDDEN)).all(axis=2)
    assert grey[4].all()
    assert not grey[good].any()
    # Darker is higher.
    assert np.corrcoef(cleaned[good][..., 0].ravel(), recovered_heights[good].ravel())[0, 1] < -0.7
    assert figure.get_suptitle().startswith("30 rows (1 skipped) of 16 values, ")


def test_outliers_are_counted_by_column():
    rows, table, _ = recovered()
    axes = panels(pictured(names=["As", "$x$", *"cdefghijklmnop"]))["Outliers by column"]
    seen = (~np.isnan(table)).sum(axis=0)
    heights = [bar.get_height() for bar in axes.containers[0]]
    np.testing.assert_allclose(heights, 100.0 * rows.flagged.sum(axis=0) / seen)
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["As", r"\$x\$"]
    assert axes.lines[0].get_ydata()[0] == pytest.approx(100.0 * rows.flagged.sum() / seen.sum())


def test_residuals_are_in_noise_scales():
    rows, table, _ = recovered()
    scaled = ((table - rows.clean) / rows.noise_scale[:, None])[~np.isnan(table)]
    np.testing.assert_allclose(np.sort(cells()[3]), np.sort(scaled))
    axes = panels(pictured())["Given minus clean"]
    counts = axes.patches[0].get_data().values
    assert counts.sum() == len(scaled)
    censoring = int((np.abs(scaled) > 10.0).sum())
    assert censoring > 10
    assert f"({censoring} outside" in axes.get_title(loc="left")
    # What is clean has unit noise, and its curve fits.
    centers, expected = axes.lines[0].get_data()
    middle = np.abs(centers) < 1.0
    assert counts[18:22].sum() == pytest.approx(expected[middle].sum(), rel=0.2)


def test_values_at_the_floor_say_nothing_of_the_noise():
    rows, table, _ = recovered(noise=0.0)
    silent = (rows.clean == 0.0) & (table == 0.0)
    assert silent.sum() > 20
    assert len(cells(noise=0.0)[3]) == (~np.isnan(table)).sum() - silent.sum()


@pytest.mark.slow  # large tables
def test_large_tables_are_thinned_out_and_tiny_ones_drawn():
    given, clean, flagged, _ = cells(n=50, d=40, most=20)
    assert given.shape == clean.shape == flagged.shape == (20, 20)
    figure = pictured(n=50, d=40)
    assert panels(figure)["Given"].get_xlim() == (-0.5, 39.5)
    assert panels(figure)["Given"].get_ylim() == (50.5, 0.5)  # rows count from 1
    assert rendered(figure)
    rows = unrelu.ReLULatentRecovery([[1.0], [2.0]], [0.0, 0.0]).recover_rows([[1.0, 2.0]])
    one = recover_picture(rows, 0.0, ArraySamples(np.array([[1.0, 2.0]])), ["a" * 40, "µg/l"])
    assert rendered(one).startswith(b"\x89PNG")
