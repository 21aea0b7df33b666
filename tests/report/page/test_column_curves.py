"""Numbers and pictures of columns, against quadrature, simulation and counts."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import ndtr

import unrelu
from unrelu.margins import Log
from unrelu.report.page.facts import column_numbers, picture, sampled, scale_points

MODEL = unrelu.RectifiedGaussian([0.5, -1.0], [[1.0, 0.3], [0.3, 4.0]], feature_names=["As", "Pb"])


def sample_of(model, X, seed=0):
    nameless = model.with_parts(feature_names=None)
    return sampled(unrelu.FloorImputer.from_model(nameless).cells(X), model.n_features, seed)


def test_naive_numbers_are_the_tables_and_learned_ones_the_models():
    X = MODEL.sample(3000, random_state=0)
    X[::10, 0] = np.nan
    facts = column_numbers(MODEL, sample_of(MODEL, X), None)
    np.testing.assert_allclose(facts["naive_mean"], np.nanmean(X, axis=0))
    np.testing.assert_allclose(facts["naive_median"], np.nanmedian(X, axis=0))
    np.testing.assert_allclose(facts["mean"], MODEL.mean)
    np.testing.assert_allclose(facts["share_missing"], [0.1, 0.0])
    np.testing.assert_allclose(facts["share_floored"], np.nanmean(np.where(np.isnan(X), np.nan, X == 0.0), axis=0))
    np.testing.assert_allclose(facts["shift"], (MODEL.mean - np.nanmean(X, axis=0)) / MODEL.std)


def test_a_log_columns_mean_is_that_of_the_uncut_values():
    model = unrelu.RectifiedGaussian([1.0], [[0.25]], floor=2.0, margins=[Log()])
    facts = column_numbers(model, None, None)
    assert facts["mean"][0] == pytest.approx(np.exp(1.0 + 0.125), rel=1e-6)
    assert facts["median"][0] == pytest.approx(np.e)
    assert facts["std"][0] == pytest.approx(np.exp(1.125) * np.sqrt(np.expm1(0.25)), rel=1e-6)
    (fitted,) = model.column_summary()  # what a fit tells
    assert (facts["mean"][0], facts["median"][0], fitted["distribution"]) == (
        fitted["mean"],
        fitted["median"],
        "before the floor",
    )


def test_the_shaded_part_ends_at_the_floor():
    found = picture(MODEL, 1, None)
    limit = 160.0 * ((0.0 - -1.0) / 2.0 + 3.3) / 6.6
    assert found["limit"] == pytest.approx(limit, abs=0.06)
    places = [float(x) for x in re.findall(r"[ML]([\d.]+) ", found["hidden"])]
    assert max(places) == pytest.approx(limit, abs=0.06)
    assert min(places) == 0.0
    assert found["bars"] == ""


def test_bars_have_the_area_of_what_is_seen():
    X = MODEL.sample(5000, random_state=1)
    found = picture(MODEL, 1, sample_of(MODEL, X))
    steps = [(float(y), float(x)) for y, x in re.findall(r"V([\d.]+)H([\d.]+)", found["bars"])]
    start = float(re.match(r"M([\d.]+)", found["bars"])[1])
    left = [start, *(x for _, x in steps[:-1])]
    area = sum((x - before) * (43.0 - y) for before, (y, x) in zip(left, steps, strict=True))
    curve = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", found["curve"])]
    whole = sum((b[0] - a[0]) * (86.0 - a[1] - b[1]) / 2.0 for a, b in pairwise(curve))
    assert area / whole == pytest.approx(1.0 - ndtr(0.5), abs=0.03)


def test_constant_columns_have_no_picture_and_normal_ones_no_scale():
    flat = unrelu.RectifiedGaussian([1.0], [[0.0]])
    assert picture(flat, 0, None) is None
    assert scale_points(flat, 0) is None
    bent = unrelu.RectifiedGaussian([0.0], [[1.0]], floor=0.1, margins=[Log()])
    assert scale_points(bent, 0)[32] == pytest.approx(1.0)


def test_huge_numbers_leave_a_picture():
    model = unrelu.RectifiedGaussian([1e130], [[1e260]], floor=0.0)
    X = model.sample(200, random_state=0)
    assert "nan" not in picture(model, 0, sample_of(model, X))["bars"]
