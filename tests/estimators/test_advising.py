"""A check advises what was tried on the table and helped, never what is in force; or says that nothing does."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import unrelu
from unrelu.estimators import checking as advising

CORRELATION = 0.5 + 0.5 * np.eye(4)


def table(kind, n=1000, seed=2):
    """About 30 % at the floor 0 in every column."""
    rng = np.random.default_rng(seed)
    y = rng.multivariate_normal(np.zeros(4), CORRELATION, n)
    rows = rng.random(n)
    if kind == "groups":
        y[rows < 0.4] += 3.0
    if kind == "tails":
        y *= np.sqrt(5.0 / rng.chisquare(5.0, (n, 1)))
    if kind == "lognormal":
        y = np.exp(0.7 * y)
    if kind == "outliers":
        y[rows < 0.1] = rng.normal(3.0, 1.0, (np.count_nonzero(rows < 0.1), 4))
    if kind == "bad cells":
        y[rng.random(y.shape) < 0.04] += 6.0
    x = np.maximum(y - np.quantile(y, 0.3, axis=0), 0.0)
    if kind == "zeros":
        x[rng.random(x.shape) < 0.2] = 0.0
    return x


@cache
def checked(kind, margins="normal", method="one_pass", n=1000, n_simulations=19):
    x = table(kind, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = unrelu.RectifiedGaussianLearner(method, margins=margins).fit(x)
        return learner.check(x, n_simulations=n_simulations)


def test_a_model_that_fits_is_left_alone():
    assert checked("normal").fits
    assert checked("normal").tried == ()


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("lognormal", "margins='auto'"),
        ("outliers", "method='robust'"),
        ("bad cells", "method='robust_cells'"),
        ("groups", "RectifiedGaussianMixture(2)"),
    ],
)
def test_what_helps_is_advised(kind, remedy):
    found = checked(kind, n_simulations=39 if kind == "lognormal" else 19)
    assert f"{remedy} was tried and helps" in found.verdict
    best = found.tried[0]
    assert (best.name, best.helps) == (remedy, True)
    assert best.fits or kind == "groups"
    assert best.gain > 0.03


def test_a_remedy_that_helps_gives_a_model_that_fits_when_it_is_typed_in():
    assert checked("lognormal", margins="auto", n_simulations=39).fits
    assert checked("outliers", method="robust").fits
    assert checked("bad cells", method="robust_cells").fits


def test_two_large_groups_are_no_outliers():
    assert [remedy.name for remedy in checked("groups").tried if remedy.helps] == ["RectifiedGaussianMixture(2)"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robust = unrelu.RectifiedGaussianLearner("robust", margins="normal").fit(table("groups"))
    assert "a group rather than outliers" in advising.why_refused([robust])


@pytest.mark.parametrize("n", [1000, pytest.param(3000, marks=pytest.mark.slow)])
def test_heavy_tails_have_no_remedy_and_that_is_said(n):
    found = checked("tails", n=n)
    assert "Nothing that was tried helps" in found.verdict
    assert "heavy tails" in found.verdict
    assert all(name in found.verdict for name in ("method='robust'", "margins='monotone'"))


def test_zeros_for_another_reason_are_no_matter_of_shape():
    found = checked("zeros", n=3000)
    assert not found.fits
    assert not any(remedy.helps for remedy in found.tried if "margins" in remedy.name)
    assert "method='robust_cells' was tried and helps" in found.verdict


def test_what_is_in_force_is_not_tried():
    found = checked("groups", method="robust_cells", n=400)
    assert "method='robust_cells'" not in [remedy.name for remedy in found.tried]
    for method, expected in (
        ("one_pass", ["robust"]),
        ("robust", ["one_pass"]),
        ("robust_cells", ["one_pass", "robust"]),
    ):
        trials = advising.trials_of("rows", unrelu.RectifiedGaussianLearner(method), found, [0, 1, 2, 3])
        assert [trial.options["method"] for trial in trials] == expected
    free = [remedy.name for remedy in checked("groups", margins="monotone", n=400).tried]
    assert free
    assert not any(name.startswith("margins") for name in free)


def test_densities_of_outliers_and_bad_cells_belong_to_the_distribution():
    """Of a robust fit with 10 % outlier rows: near the density of the true mixture, without a floor."""
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(np.zeros(4), CORRELATION, 2000)
    x[:200] = rng.normal(4.0, 1.0, (200, 4))
    distributions = [multivariate_normal(np.zeros(4), CORRELATION), multivariate_normal(np.full(4, 4.0), np.eye(4))]
    truth = np.logaddexp(np.log(0.9) + distributions[0].logpdf(x), np.log(0.1) + distributions[1].logpdf(x)).mean()
    for method, tolerance in (("robust", 0.02), ("robust_cells", 0.5)):
        learner = unrelu.RectifiedGaussianLearner(method, floor=None, margins="normal").fit(x)
        found = learner.densities_with_outliers(x).mean()
        assert found == pytest.approx(truth, abs=tolerance)
        assert learner.score(x) < found - 0.8  # the inlier rows' distribution alone gives outliers none


def test_few_rows_and_columns_that_cannot_be_checked():
    x = np.column_stack([table("lognormal", 60), np.full(60, 2.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(x).check(x, n_simulations=19)
    assert dict(found.left_out) == {4: "constant"}
    assert found.fits or found.tried
