"""The hash table of values against np.unique of the keys."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unrelu.kernels.row_block import EMPTY, count_values

BEHIND_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


def reference(x, weights, most):
    """(shift, keys, weights): the least shift with at most ``most`` different keys."""
    bits = np.asarray(x, dtype=np.float64).view(np.int64)
    keys = np.where(bits >= 0, bits, bits ^ BEHIND_SIGN)
    for shift in range(64):
        unique, where = np.unique(keys >> shift, return_inverse=True)
        if len(unique) <= most:
            return shift, unique, np.bincount(where, weights)
    raise AssertionError


def counted(x, weights, most, parts=1):
    size = 1 << int(np.ceil(np.log2(2 * most + 1)))
    keys, sums, state = np.full(size, EMPTY), np.zeros(size), np.zeros(2, dtype=np.int64)
    for part in np.array_split(np.arange(len(x)), parts):
        count_values(np.asarray(x)[part].view(np.int64), weights[part], most, keys, sums, state)
    held = keys != EMPTY
    assert held.sum() == state[1]
    order = np.argsort(keys[held])
    return int(state[0]), keys[held][order], sums[held][order]


RNG = np.random.default_rng(0)
COLUMNS = {
    "normal": RNG.standard_normal(3000),
    "few values": RNG.integers(-3, 4, 3000).astype(float),
    "all sizes": np.exp(RNG.uniform(-600.0, 300.0, 3000)) * RNG.choice([-1.0, 1.0], 3000),
    "near 300": 300.0 + RNG.standard_normal(3000),
    "whole numbers in order": np.arange(3000.0),
    "tiny": RNG.standard_normal(3000) * 5e-324 * 1e6,
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("most", [2, 7, 64, 1000, 5000])  # two keys at least: one for each sign
def test_as_np_unique_has_it(name, most):
    x, weights = COLUMNS[name], RNG.uniform(0.1, 2.0, 3000)
    shift, keys, sums = reference(x, weights, most)
    found = counted(x, weights, most)
    assert found[0] == shift
    assert_array_equal(found[1], keys)
    assert_allclose(found[2], sums, rtol=1e-12)


@pytest.mark.parametrize("name", COLUMNS)
def test_order_and_parts_do_not_matter(name):
    x, weights = COLUMNS[name], np.ones(3000)
    whole, order = counted(x, weights, 100), RNG.permutation(3000)
    for one, other in zip(whole, counted(x[order], weights, 100, parts=9), strict=True):
        assert_array_equal(one, other)


def test_keys_are_in_the_order_of_the_values():
    x = np.unique(COLUMNS["all sizes"])
    _, keys, _ = counted(x, np.ones(len(x)), 5000)
    bits = np.where(keys >= 0, keys, keys ^ BEHIND_SIGN)
    assert_array_equal(bits.view(np.float64), x)
