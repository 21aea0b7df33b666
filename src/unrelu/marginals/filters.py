"""Filters: one robust mean of many batch vectors, coordinate by coordinate (Bulusu et al. 2022, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.validation import check_choice


class Filter(Protocol):
    """Reduces the last axis but one: vectors of shape (..., n, 2) become (..., 2)."""

    def __call__(self, vectors: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class NoFilter:
    """The plain mean."""

    def __call__(self, vectors: FloatArray) -> FloatArray:
        return np.asarray(vectors.mean(axis=-2))


@dataclass(frozen=True)
class Median:
    """Stays among the genuine batches as long as they are the majority."""

    def __call__(self, vectors: FloatArray) -> FloatArray:
        return np.asarray(np.median(vectors, axis=-2))


@dataclass(frozen=True)
class TrimmedMean:
    """The mean without the share ``trim`` of largest and of smallest values.

    >>> TrimmedMean(0.25)(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [99.0, 1.0]]))
    array([1.5, 1. ])
    """

    trim: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 <= self.trim < 0.5:
            raise InvalidParameterError(f"trim must be in [0, 0.5), the share cut off at each end; got {self.trim!r}.")

    def __call__(self, vectors: FloatArray) -> FloatArray:
        n = vectors.shape[-2]
        cut = int(self.trim * n)
        ordered = np.sort(vectors, axis=-2)
        return np.asarray(ordered[..., cut : n - cut, :].mean(axis=-2))


def filter_named(name: str | None, trim: float) -> Filter:
    """The filter of that name; None is the plain mean."""
    if name is None:
        return NoFilter()
    check_choice("filter", name, ("median", "trimmed_mean"))
    return Median() if name == "median" else TrimmedMean(trim)
