"""The sums of :mod:`unrelu.passes.pair_moments` over rows on a device: four matrix products a block.

Written in the Python array API standard. Products are in float64, which a data centre's GPU multiplies as fast as
float32; only joint counts, which are exact in any precision, are not. What a block adds is complete before it is
added: one that ran out of memory can be tried again in parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.kernels.row_block import LARGEST
from unrelu.passes.column_shapes import LOOKED_AT, ColumnShapes, window
from unrelu.passes.device import Place
from unrelu.passes.pair_moments import ObservedMoments, PairMoments, PairMomentsQuestion
from unrelu.passes.pair_sums import FIRST_ROWS, rounded_down
from unrelu.passes.screening import Screening
from unrelu.passes.tiles import least_allowed, seen_above

_PANELS = 4  # of columns: a symmetric product needs ten of their sixteen pairs
_WORTH_PANELS = 2000  # columns


class _Frame:
    """What all blocks share, from the first rows: levels, an origin near the bulk of every column, ties."""

    def __init__(self, place: Place, x: Any, weights: FloatArray | None, question: PairMomentsQuestion) -> None:
        xp = place.xp
        n = min(FIRST_ROWS, int(x.shape[0]))
        kind = np.zeros((0, 0), dtype=np.float32 if x.dtype == xp.float32 else np.float64)
        floor, lowest = np.array(question.floor), np.array(question.lowest)
        self.least = least_allowed(lowest, kind)
        self.floor = place.array(rounded_down(seen_above(floor, kind), kind.dtype))
        self.lowest = place.array(-rounded_down(-self.least, kind.dtype))
        self.most = float(min(LARGEST, float(np.finfo(kind.dtype).max)))
        x = x[:n, ...]
        seen = (x > self.floor) & (x <= self.most)
        w = place.double(seen) if weights is None else place.double(seen) * place.array(weights[:n])[:, None]
        x = xp.where(seen, place.double(x), xp.zeros((), dtype=xp.float64, device=place.device))
        total, sums = xp.sum(w, axis=0), xp.sum(w * x, axis=0)
        nothing = place.array(np.where(np.isfinite(floor), floor, 0.0))
        origin = xp.where(total > 0.0, sums / xp.where(total > 0.0, total, xp.ones_like(total)), nothing)
        # As the table's own type holds it: differences from it are then exact.
        self.origin = place.double(xp.astype(origin, xp.float32)) if kind.dtype == np.float32 else origin
        size = place.host(xp.max(place.double(seen) * xp.abs(x - self.origin), axis=0))
        self.unit = np.exp2(np.round(np.log2(np.where(size > 0.0, size, 1.0))))
        k = min(LOOKED_AT, n)
        self.ties = [place.host(each) for each in _ties(xp, x[:k, ...], seen[:k, ...])] if question.shapes else []


def _ties(xp: Any, x: Any, seen: Any) -> tuple[Any, Any, Any]:
    """:func:`unrelu.passes.column_shapes.ties` of values on a device."""
    endless = xp.full_like(x, np.inf)
    ordered = xp.sort(xp.where(seen, x, endless), axis=0)
    compared = xp.sum(xp.astype(seen, x.dtype), axis=0)
    if int(x.shape[0]) == 1:
        return compared, compared, endless[0, ...]
    values = xp.where(ordered < np.inf, ordered, xp.zeros_like(x))
    gaps = values[1:, ...] - values[:-1, ...]
    apart = (gaps > 0.0) & (ordered[1:, ...] < np.inf)
    different = xp.sum(xp.astype(apart, x.dtype), axis=0) + xp.astype(compared > 0.0, x.dtype)
    return compared, different, xp.min(xp.where(apart, gaps, endless[1:, ...]), axis=0)


def _square(xp: Any, t: Any, wt: Any) -> Any:
    """t'wt, which is symmetric: of many columns only what lies on and above the diagonal is multiplied."""
    d = int(t.shape[1])
    if d < _WORTH_PANELS:
        return t.T @ wt
    width = -(-d // _PANELS)
    panels = [slice(start, min(start + width, d)) for start in range(0, d, width)]
    above = [[t[:, p].T @ wt[:, q] if j >= i else None for j, q in enumerate(panels)] for i, p in enumerate(panels)]
    rows = [
        xp.concat([above[i][j] if j >= i else above[j][i].T for j in range(len(panels))], axis=1)  # type: ignore[union-attr]
        for i in range(len(panels))
    ]
    return xp.concat(rows, axis=0)


class DeviceSums:
    """Running sums about one origin, that of the first rows; nothing here grows with the rows."""

    def __init__(self, place: Place, question: PairMomentsQuestion, n_features: int) -> None:
        self.n_features = n_features
        self._place, self._question = place, question
        self._frame: _Frame | None = None
        self._sums: list[Any] = []  # N, C, A, Q
        self._observed: list[Any] = []  # O'O, its squared weights, then (P, T, T*T)'O; empty while nothing is missing
        self._n_rows, self._weight, self._squared_weight = 0, 0.0, 0.0
        self._screening: Screening | None = None
        self._shapes: list[Any] = []

    def add(self, array: Any, first_row: int, weights: FloatArray | None) -> None:
        """Add rows; weights are the host's."""
        place, xp = self._place, self._place.xp
        x = place.floats(array)
        frame = self._frame = self._frame or _Frame(place, x, weights, self._question)
        w = None if weights is None else place.array(weights)[:, None]
        if w is not None and not weights.all():  # type: ignore[union-attr]  # rows of weight 0 are as good as absent
            x = xp.where(w > 0.0, x, xp.asarray(xp.nan, dtype=x.dtype, device=place.device))
        in_place = bool(xp.all((x >= frame.lowest) & (x <= frame.most)))
        screening, missing = (None, False) if in_place else self._screened(x, first_row)
        above = x > frame.floor
        above = above if in_place else above & (x <= frame.most)
        shapes = self._shapes_of(x, above, first_row, weights)
        zero = xp.zeros((), dtype=xp.float64, device=place.device)
        seen = place.double(~xp.isnan(x)) if missing or self._observed else None
        t = xp.where(above, place.double(x) - frame.origin, zero)
        del x, array
        p = place.double(above)
        wp, wt = (p, t) if w is None else (w * p, w * t)
        counts = place.joint_counts(above) if w is None else p.T @ wp
        del above
        square = t * t
        added = [counts, _square(xp, t, wt), t.T @ wp, square.T @ wp]
        observed = [] if seen is None else self._observed_products(seen, w, (p, t, square))
        self._take(added, observed, int(p.shape[0]), weights)
        self._screening = screening if self._screening is None else self._screening.merge(screening or self._clean())
        self._shapes = shapes

    def record(self) -> PairMoments:
        host, frame = self._place.host, self._frame
        assert frame is not None, "rows come first"
        count, cross, masked_sum, masked_square = (host(each) for each in self._sums)
        observed = None
        if self._observed:
            both, squared_weight, above, total, square = (host(each) for each in self._observed)
            observed = ObservedMoments(both, squared_weight, above, total, square)
        return PairMoments(
            floor=np.array(self._question.floor),
            n_rows=self._n_rows,
            weight=self._weight,
            squared_weight=self._squared_weight,
            origin=host(frame.origin),
            count=count,
            cross=cross,
            masked_sum=masked_sum,
            masked_square=masked_square,
            observed=observed,
            screening=self._screening or self._clean(),
            shapes=self._told_shapes(),
        )

    def _take(self, added: list[Any], observed: list[Any], n: int, weights: FloatArray | None) -> None:
        """Make the sums those with what a block adds: all of it, or nothing where memory runs out on the way."""
        xp = self._place.xp
        first_missing = observed and not self._observed and self._sums
        before = self._as_if_observed() if first_missing else self._observed
        for new, old in ((added, self._sums), (observed, before)):
            for k, sums in enumerate(old):
                new[k] += sums
        assert all(each.dtype == xp.float64 for each in added)
        self._sums, self._observed = added, observed or self._observed
        self._n_rows += n
        self._weight += n if weights is None else float(weights.sum())
        self._squared_weight += n if weights is None else float(weights @ weights)

    def _observed_products(self, seen: Any, w: Any, powers: tuple[Any, ...]) -> list[Any]:
        weighted = seen if w is None else w * seen
        squared = seen.T @ weighted if w is None else weighted.T @ weighted
        return [seen.T @ weighted, squared, *(each.T @ weighted for each in powers)]

    def _as_if_observed(self) -> list[Any]:
        """What would have been kept while no value was missing."""
        xp = self._place.xp
        count, _, total, square = self._sums
        ones = xp.ones_like(count)
        own = (xp.linalg.diagonal(each)[:, None] * ones for each in (count, total, square))
        return [self._weight * ones, self._squared_weight * ones, *own]

    def _screened(self, x: Any, first_row: int) -> tuple[Screening, bool]:
        """What is out of place, and whether a value is missing: :func:`unrelu.kernels.row_block.scan_block`."""
        xp, host, frame = self._place.xp, self._place.host, self._frame
        assert frame is not None
        missing = xp.isnan(x)
        zero = (x == 0.0) & (frame.lowest > 0.0)
        below = (x < frame.lowest) & (x >= -frame.most) & ~zero
        large = ~(missing | zero | below | ((x >= frame.lowest) & (x <= frame.most)))
        farthest = xp.min(xp.where(below, x, frame.lowest), axis=0)
        counts = [host(xp.sum(xp.astype(bad, xp.int64), axis=0)) for bad in (below, large)]
        firsts = [host(xp.argmax(xp.astype(bad, xp.int8), axis=0)) + first_row for bad in (below, large)]
        found = [np.where(count > 0, first, -1) for count, first in zip(counts, firsts, strict=True)]
        smallest = host(farthest).astype(np.float64)
        return Screening(counts[0], found[0], smallest, counts[1], found[1]), bool(xp.any(missing))

    def _clean(self) -> Screening:
        assert self._frame is not None
        none = np.zeros(self.n_features, dtype=np.int64)
        return Screening(none, none - 1, self._frame.least, none, none - 1)

    def _shapes_of(self, x: Any, above: Any, first_row: int, weights: FloatArray | None) -> list[Any]:
        """Sums of the rows that are looked at (:class:`unrelu.passes.column_shapes.ShapeSums`), with those before.

        Of w t^p, p = 0..3, of w, the smallest and the largest value above the floor, and their weights.
        """
        frame, before = self._frame, self._shapes
        assert frame is not None
        rows = window(first_row, int(x.shape[0]))
        if not frame.ties or (rows.start >= rows.stop and before):
            return before
        place, xp = self._place, self._place.xp
        x, above = place.double(x[rows, ...]), above[rows, ...]
        w = xp.ones((int(x.shape[0]), 1), dtype=xp.float64, device=place.device)
        w = w if weights is None else place.array(weights[rows])[:, None]
        zero = xp.zeros_like(x)
        t = xp.where(above, (x - frame.origin) / place.array(frame.unit), zero)
        wp = xp.where(above, w, zero)
        observed = xp.where((x <= frame.floor) | above, w, zero)
        sums = [xp.sum(each, axis=0) for each in (wp, wp * t, wp * t * t, wp * t * t * t, observed)]
        for end, extreme, farther in ((np.inf, xp.min, xp.minimum), (-np.inf, xp.max, xp.maximum)):
            here = extreme(xp.where(above, x, xp.full_like(x, end)), axis=0)
            weight = xp.sum(xp.where(above & (x == here), w, zero), axis=0)
            if before:
                old, old_weight = before[len(sums)], before[len(sums) + 1]
                both, none = farther(here, old), xp.zeros_like(weight)
                weight = xp.where(here == both, weight, none) + xp.where(old == both, old_weight, none)
                here = both
            sums += [here, weight]
        return [new + old for new, old in zip(sums[:5], before[:5], strict=True)] + sums[5:] if before else sums

    def _told_shapes(self) -> ColumnShapes | None:
        if not self._shapes:
            return None
        frame, host = self._frame, self._place.host
        assert frame is not None
        found = host(self._place.xp.stack(self._shapes))
        ends, weights = found[[5, 7]], found[[6, 8]]
        return ColumnShapes(found[4], host(frame.origin), frame.unit, found[:4], ends, weights, *frame.ties)
