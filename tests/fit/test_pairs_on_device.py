"""Pairs solved at once, against the kernels that solve them one by one."""

import array_api_strict as strict
import numpy as np
import pytest

import unrelu
from unrelu.contracts import Assumptions
from unrelu.fit import pairs_on_device as on_device
from unrelu.fit.one_pass import fit_record
from unrelu.fit.pairs_on_device import solve_all
from unrelu.kernels.normal import upper_orthant
from unrelu.passes.device import place_of
from unrelu.passes.engine import LocalEngine
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables import ArraySamples

PLACE = place_of(strict.zeros(1))
H, K, R = (
    axis.ravel() for axis in np.meshgrid([-9.0, -1.3, 0.0, 0.4, 3.0], [-2.0, 0.0, 0.7, 6.0], np.linspace(-1, 1, 41))
)
R = np.clip(R, -1.0 + 1e-9, 1.0 - 1e-9)


def test_the_bivariate_normal_is_that_of_the_kernel():
    found = PLACE.host(on_device.upper_orthant(PLACE, *map(PLACE.array, (H, K, R))))
    true = [upper_orthant(h, k, r) for h, k, r in zip(H, K, R, strict=True)]
    np.testing.assert_allclose(found, true, atol=2e-15)


def plain(d=12, n=3000, seed=0):
    return unrelu.synthetic.random_model(d, mean="signed", random_state=seed).sample(n, random_state=seed) + 0.0


def missing():
    x = plain()
    x[np.random.default_rng(0).random(x.shape) < 0.3] = np.nan
    x[: len(x) // 2, 0], x[len(x) // 2 :, 1] = np.nan, np.nan  # never seen together
    return x


def hard():
    """Nearly perfect, perfect, opposite, rarely above the floor together, never floored, and constant columns."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=800)
    twin, opposite = y + 1e-3 * rng.normal(size=800), -y + 0.3
    return np.maximum(
        np.column_stack(
            [y, twin, opposite, 2.0 * y, y - 2.5, -y - 2.0, y + 60.0, np.full(800, 3.0), rng.normal(size=800)]
        ),
        0.0,
    )


@pytest.mark.parametrize("make", [plain, missing, hard, lambda: plain(6, 8), lambda: plain(4, 50_000)])
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_the_same_as_one_by_one(make):
    x = make()
    d = x.shape[1]
    weights = np.random.default_rng(1).integers(1, 4, len(x)).astype(float) if make is missing else None
    zeros = (0.0,) * d
    record = LocalEngine().collect(ArraySamples(x, weights=weights), PairMomentsQuestion(zeros, zeros))
    rows, true = fit_record(record, Assumptions(zeros))
    found = solve_all(record, rows, PLACE)
    np.testing.assert_allclose(found.correlation, true.correlation, atol=1e-8)
    # Beyond .9999 an error is a difference of numbers ten thousand times as large: rounding alone is 1e-6 there.
    sharp = ~(np.abs(true.correlation) > 0.9999) | np.eye(d, dtype=bool)
    np.testing.assert_allclose(found.stderr[sharp], true.stderr[sharp], atol=1e-8)
    np.testing.assert_allclose(found.stderr, true.stderr, atol=3e-6)
    assert found.perfect_pairs == true.perfect_pairs
    near = solve_all(record, rows, PLACE, near=np.clip(true.correlation + 0.01, -1.0, 1.0))
    np.testing.assert_allclose(near.correlation, true.correlation, atol=1e-8)


def test_hard_tables_are_hard():
    """Or else the test above would say little."""
    with pytest.warns(unrelu.errors.UnreluWarning):
        learned = unrelu.RectifiedGaussianLearner().fit(hard())
    assert (np.abs(learned.correlation_[0, [1, 3]]) > 0.999).all()
    assert learned.std_[7] == 0.0
