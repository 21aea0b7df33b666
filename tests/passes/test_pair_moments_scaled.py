"""A scaled record is that of the same rows with every weight multiplied."""

import numpy as np
import pytest

from unrelu.contracts import Block
from unrelu.passes.pair_moments import PairMomentsQuestion

ASK = PairMomentsQuestion((0.0,) * 3, (0.0,) * 3)


def table(missing):
    rng = np.random.default_rng(0)
    x = np.maximum(rng.standard_normal((400, 3)) + 0.3, 0.0)
    x[rng.random(x.shape) < missing] = np.nan
    return x, rng.gamma(2.0, size=400)


def sums(record):
    arrays = [record.origin, record.count, record.cross, record.masked_sum, record.masked_square]
    o = record.observed
    return arrays if o is None else [*arrays, o.count, o.squared_weight, o.above, o.total, o.square]


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("factor", [0.25, 1.0, 7.5])
def test_scaled_is_multiplied_weights(missing, factor):
    x, weights = table(missing)
    scaled, direct = ASK(Block(x, 0, weights)).scaled(factor), ASK(Block(x, 0, factor * weights))
    assert (scaled.observed is None) == (missing == 0.0)
    for got, expected in zip(sums(scaled), sums(direct), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-10)
    assert scaled.weight == pytest.approx(direct.weight)
    assert scaled.squared_weight == pytest.approx(direct.squared_weight)
    assert scaled.n_rows == direct.n_rows


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_what_does_not_depend_on_the_weights_scale_stays(missing):
    x, weights = table(missing)
    record = ASK(Block(x, 0, weights))
    scaled = record.scaled(0.01)
    assert scaled.effective_rows == pytest.approx(record.effective_rows)
    np.testing.assert_allclose(scaled.column_rows, record.column_rows)
    for got, expected in zip(scaled.positive_moments()[1:], record.positive_moments()[1:], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_scaled_records_merge(missing):
    x, weights = table(missing)
    factors = np.where(np.arange(400) < 150, 3.0, 0.5)
    merged = (
        ASK(Block(x[:150], 0, weights[:150])).scaled(3.0).merge(ASK(Block(x[150:], 150, weights[150:])).scaled(0.5))
    )
    direct = ASK(Block(x, 0, factors * weights))
    for got, expected in zip(sums(merged._about(direct.origin)), sums(direct), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-9)
    assert merged.effective_rows == pytest.approx(direct.effective_rows)


def test_the_record_itself_is_left_alone():
    x, weights = table(0.2)
    record = ASK(Block(x, 0, weights))
    before = [array.copy() for array in sums(record)]
    record.scaled(5.0)
    for got, expected in zip(sums(record), before, strict=True):
        np.testing.assert_array_equal(got, expected)
