"""Another device: tables that live on a GPU are summed there, and pairs of many columns are solved there.

Arrays of torch and CuPy, and of any library that keeps to the Python array API standard, are summed through that
standard, block by block, so that no table comes to the host. What the standard lacks stands here, library by library:
this is the one file that names them, and none is imported unless one of its arrays comes in.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh
from scipy.special import erfc

from unrelu.contracts import FloatArray, Question, R, Samples, Step
from unrelu.errors import DeviceMemoryError, InvalidDataError
from unrelu.kernels.row_block import LARGEST, power_sums, scanned
from unrelu.passes.columns import TIED_ROWS, ColumnMargins, ties, window
from unrelu.passes.engine import LocalEngine, map_in_threads
from unrelu.passes.pair_moments import ObservedMoments, PairMoments, PairMomentsQuestion
from unrelu.passes.pair_sums import FIRST_ROWS, as_if_observed, rounded_down
from unrelu.passes.tiles import Screening, least_allowed, seen_above

_WORKING_BYTES = 2**31  # beside the table and sums of pairs
_BYTES_PER_CELL = 32  # of the working copies of a block: three float64 of every cell, and what leads to them
_LARGE_BYTES = 2**22  # of an array for whose copy memory is made ready
_FEWEST_ROWS = 256  # a block that does not fit with these never will
_PANELS = 4  # of columns: a symmetric product needs ten of their sixteen pairs
_WORTH_PANELS = 2000  # columns
_WORTH_MOVING = 500  # columns from which a decomposition is worth the way to a device and back


@dataclass(frozen=True)
class Place:
    """A library's namespace ``xp`` and one of its devices; a pickled or copied one is left behind, as None."""

    xp: Any
    device: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return _nowhere, ()

    def array(self, values: Any) -> Any:
        """Numbers from the host."""
        return self.xp.asarray(np.require(values, requirements=["C", "W"]), device=self.device)

    def host(self, array: Any) -> NDArray[Any]:
        """An array as NumPy's, copied from the device."""
        if hasattr(array, "detach"):  # torch
            array = array.detach()
            if array.device.type == "cpu" or array.nbytes < _LARGE_BYTES:
                return np.asarray(array.cpu().numpy())
            import torch

            host = _ready(tuple(array.shape), np.dtype(str(array.dtype).removeprefix("torch.")))
            torch.from_numpy(host).copy_(array)
            return host
        if hasattr(array, "get"):  # CuPy
            return np.asarray(array.get(out=_ready(array.shape, array.dtype)))
        xp = array.__array_namespace__()
        if hasattr(xp, "Device"):  # array-api-strict
            array = array.to_device(xp.Device("CPU_DEVICE"))
        return np.asarray(array)

    def floats(self, array: Any) -> Any:
        """float32 for short floats, float64 for all other numbers; the array itself where it is so already."""
        xp = self.xp
        array = array.detach() if hasattr(array, "detach") else array
        if array.dtype in (xp.float32, xp.float64):
            return array
        if not xp.isdtype(array.dtype, ("bool", "integral", "real floating")):
            raise InvalidDataError(f"Expected numbers, got an array of {array.dtype}.")
        return xp.astype(array, xp.float32 if xp.isdtype(array.dtype, "real floating") else xp.float64)

    def double(self, array: Any) -> Any:
        return self.xp.astype(array, self.xp.float64, copy=False)

    def erfc(self, x: Any) -> Any:
        """1 - erf(x), which the standard lacks."""
        compat = _compat()
        if compat.is_torch_namespace(self.xp):
            import torch

            return torch.special.erfc(x)
        if compat.is_cupy_namespace(self.xp):
            from cupyx.scipy.special import erfc as on_device

            return on_device(x)
        return self.array(erfc(self.host(x)))

    def joint_counts(self, above: Any) -> Any:
        """above'above of booleans, exactly: 0 and 1 are whole in any precision, and sums of them in float32's."""
        if _compat().is_torch_namespace(self.xp) and above.device.type == "cuda":
            import torch

            ones = above.to(torch.bfloat16)
            return torch.mm(ones.T, ones, out_dtype=torch.float32).double()
        ones = self.xp.astype(above, self.xp.float32)
        return self.double(ones.T @ ones)

    def normals(self, n: int, d: int, seed: int) -> Any:
        """n x d standard normal numbers, drawn on the device."""
        compat = _compat()
        if compat.is_torch_namespace(self.xp):
            import torch

            stream = torch.Generator(self.device).manual_seed(seed)
            return torch.randn(n, d, generator=stream, device=self.device, dtype=torch.float64)
        if compat.is_cupy_namespace(self.xp):
            import cupy

            with self.device:
                return cupy.random.default_rng(seed).standard_normal((n, d))
        return self.array(np.random.default_rng(seed).standard_normal((n, d)))

    def rows(self, n: int, seed: int, root: Any, mean: Any, limits: tuple[Any, Any]) -> Any:
        """n rows of max(A z + b, floor), or min with a ceiling, drawn on the device by one matrix product."""
        low, high = (self.array(limit) for limit in limits)
        y = self.normals(n, len(mean), seed) @ self.array(root.T) + self.array(mean)
        return self.xp.minimum(self.xp.maximum(y, low), high)

    def give_back(self) -> None:
        """Hand unused memory back to the device, as libraries keep it for themselves."""
        compat = _compat()
        if compat.is_torch_namespace(self.xp):
            import torch

            torch.cuda.empty_cache()
        elif compat.is_cupy_namespace(self.xp):
            import cupy

            cupy.get_default_memory_pool().free_all_blocks()


def _nowhere() -> None:
    return None


def place_of(X: Any) -> Place | None:
    """Where an array lives that is not NumPy's; None for NumPy's own, for Dask's, and for all that is no array."""
    library = type(X).__module__.partition(".")[0]
    if library == "numpy" or not (hasattr(X, "__array_namespace__") or library in ("torch", "cupy")):
        return None
    compat = _compat()
    if not compat.is_array_api_obj(X) or compat.is_dask_array(X) or compat.is_pydata_sparse_array(X):
        return None
    return Place(compat.array_namespace(X), compat.device(X))


def brought_home(X: Any) -> Any:
    """A tensor in this machine's own memory as an array of NumPy that shares it; anything else as it is."""
    place = place_of(X)
    if place is None:
        return X
    compat, device = _compat(), place.device
    on_cpu = compat.is_jax_namespace(place.xp) and getattr(device, "platform", "") == "cpu"
    if not (on_cpu or (compat.is_torch_namespace(place.xp) and device.type == "cpu")):
        return X
    if hasattr(X, "detach"):
        X = X.detach()
        short = str(X.dtype) == "torch.bfloat16"  # which NumPy does not know
        return (X.float() if short else X).numpy()
    return np.asarray(X)


def without_gradients() -> AbstractContextManager[Any]:
    """In which torch keeps nothing for derivatives."""
    import torch

    context: AbstractContextManager[Any] = torch.no_grad()
    return context


class DeviceEngine(LocalEngine):
    """Sums of pairs where the rows are; other questions go to blocks that are copied to the host."""

    def collect(self, samples: Samples, question: Question[R]) -> R:
        place = samples.place
        if place is None or not isinstance(question, PairMomentsQuestion):
            return super().collect(samples, question)
        sums = DeviceSums(place, question, samples.n_features)
        height = max(_WORKING_BYTES // (_BYTES_PER_CELL * samples.n_features), _FEWEST_ROWS)
        done = 0

        def report(rows: int) -> None:
            self._progress(Step(self._stage, rows, samples.n_rows, f"{rows:,} rows"))

        report(0)
        for block in samples.whole():
            height = _add(sums, block, height, place, report)
            done = block.first_row + block.n_rows
        if done == 0:
            raise InvalidDataError("There are no rows to learn from.")
        record: Any = sums.record()
        return record


def _add(sums: Any, block: Any, height: int, place: Place, report: Callable[[int], None]) -> int:
    """Add a block, at most ``height`` rows at a time, fewer where the device's memory is short of; how many fitted."""
    start, n = 0, int(block.array.shape[0])
    while start < n:
        rows = slice(start, min(start + height, n))
        weights = None if block.weights is None else block.weights[rows]
        try:
            sums.add(block.array[rows, ...], block.first_row + start, weights)
        except Exception as error:
            words = str(error)
            short = "ALLOC_FAILED" in words or "out of memory" in words.lower()
            if not short and type(error).__name__ != "OutOfMemoryError":
                raise
            if height <= _FEWEST_ROWS:
                raise DeviceMemoryError(
                    f"The device {place.device} has too little memory left for {height} rows of {sums.n_features:,}"
                    f" columns and their sums ({64 * sums.n_features**2 / 2**30:,.1f} GiB). Free some of it, learn"
                    " fewer columns, or bring the rows to the host."
                ) from error
            height = max(min(height, n - start) // 2, _FEWEST_ROWS)
            place.give_back()
            continue
        start = rows.stop
        report(block.first_row + start)
    return height


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
    """Running sums about one origin, that of the first rows: four matrix products a block.

    Products are in float64, which a data centre's GPU multiplies as fast as float32; only joint counts, which are exact
    in any precision, are not. What a block adds is complete before it is added: one that ran out of memory can be tried
    again in parts.
    """

    def __init__(self, place: Place, question: PairMomentsQuestion, n_features: int) -> None:
        self.n_features = n_features
        self._place, self._question = place, question
        self._origin: Any = None
        self._sums: list[Any] = []  # N, C, A, Q
        self._observed: list[Any] = []  # O'O, its squared weights, then (P, T, T*T)'O; empty while nothing is missing
        self._n_rows, self._weight, self._squared_weight = 0, 0.0, 0.0
        self._screening: Screening | None = None
        self._margins: ColumnMargins | None = None

    def add(self, array: Any, first_row: int, weights: FloatArray | None) -> None:
        """Add rows; weights are the host's."""
        place, xp = self._place, self._place.xp
        x = place.floats(array)
        if self._origin is None:
            self._begin(x, weights)
        w = None if weights is None else place.array(weights)[:, None]
        if w is not None and not weights.all():  # type: ignore[union-attr]  # rows of weight 0 are as good as absent
            x = xp.where(w > 0.0, x, xp.asarray(xp.nan, dtype=x.dtype, device=place.device))
        in_place = bool(xp.all((x >= self._lowest) & (x <= self._most)))
        screening, missing = (Screening.clean(self._least), False) if in_place else self._screened(x, first_row)
        above = x > self._floor
        above = above if in_place else above & (x <= self._most)
        margins = self._margins_of(x, above, first_row, weights)
        zero = xp.zeros((), dtype=xp.float64, device=place.device)
        seen = place.double(~xp.isnan(x)) if missing or self._observed else None
        t = xp.where(above, place.double(x) - self._origin, zero)
        del x, array
        p = place.double(above)
        wp, wt = (p, t) if w is None else (w * p, w * t)
        counts = place.joint_counts(above) if w is None else p.T @ wp
        del above
        square = t * t
        added, observed = [counts, _square(xp, t, wt), t.T @ wp, square.T @ wp], []
        if seen is not None:
            weighted = seen if w is None else w * seen
            squared = seen.T @ weighted if w is None else weighted.T @ weighted
            observed = [seen.T @ weighted, squared, *(each.T @ weighted for each in (p, t, square))]
        before = self._observed
        if observed and not before and self._sums:
            before = as_if_observed(xp, self._weight, self._squared_weight, self._sums[0], *self._sums[2:])
        for new, old in ((added, self._sums), (observed, before)):
            for k, sums in enumerate(old):
                new[k] += sums
        assert all(each.dtype == xp.float64 for each in added)
        # Nothing was added where memory ran out on the way to here.
        self._sums, self._observed = added, observed or self._observed
        n = int(p.shape[0])
        self._n_rows += n
        self._weight += n if weights is None else float(weights.sum())
        self._squared_weight += n if weights is None else float(weights @ weights)
        self._screening = screening if self._screening is None else self._screening.merge(screening)
        self._margins = margins

    def _begin(self, x: Any, weights: FloatArray | None) -> None:
        """What all rows share, from the first of them: levels, an origin near the bulk of every column, ties."""
        place, xp = self._place, self._place.xp
        n = min(FIRST_ROWS, int(x.shape[0]))
        kind = np.zeros((0, 0), dtype=np.float32 if x.dtype == xp.float32 else np.float64)
        floor, lowest = np.array(self._question.floor), np.array(self._question.lowest)
        self._least = least_allowed(lowest, kind)
        self._floor = place.array(rounded_down(seen_above(floor, kind), kind.dtype))
        self._lowest = place.array(-rounded_down(-self._least, kind.dtype))
        self._most = float(min(LARGEST, float(np.finfo(kind.dtype).max)))
        x = x[:n, ...]
        seen = (x > self._floor) & (x <= self._most)
        w = place.double(seen) if weights is None else place.double(seen) * place.array(weights[:n])[:, None]
        x = xp.where(seen, place.double(x), xp.zeros((), dtype=xp.float64, device=place.device))
        total, sums = xp.sum(w, axis=0), xp.sum(w * x, axis=0)
        nothing = place.array(np.where(np.isfinite(floor), floor, 0.0))
        origin = xp.where(total > 0.0, sums / xp.where(total > 0.0, total, xp.ones_like(total)), nothing)
        # As the table's own type holds it: differences from it are then exact.
        origin = place.double(xp.astype(origin, xp.float32)) if kind.dtype == np.float32 else origin
        if self._question.margins:
            size = place.host(xp.max(place.double(seen) * xp.abs(x - origin), axis=0))
            few = slice(0, min(TIED_ROWS, n))
            compared = [place.host(each) for each in ties(xp, x[few, ...], seen[few, ...])]
            self._margins = ColumnMargins.begun(place.host(origin), size, compared)
        self._origin = origin  # last: what ran out of memory on the way is tried again

    def record(self) -> PairMoments:
        host = self._place.host
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
            origin=host(self._origin),
            count=count,
            cross=cross,
            masked_sum=masked_sum,
            masked_square=masked_square,
            observed=observed,
            screening=self._screening or Screening.clean(self._least),
            margins=self._margins,
        )

    def _screened(self, x: Any, first_row: int) -> tuple[Screening, bool]:
        """What is out of place, and whether a value is missing."""
        counts, first, below = scanned(self._place.xp, x, self._lowest, self._most)
        missing, low, large = (self._place.host(each) for each in counts)
        rows = [np.where(at < 0, -1, at + first_row) for at in map(self._place.host, first)]
        farthest = self._place.host(below).astype(np.float64)
        return Screening(low, rows[0], farthest, large, rows[1]), bool(missing.any())

    def _margins_of(self, x: Any, above: Any, first_row: int, weights: FloatArray | None) -> ColumnMargins | None:
        """The margins with the rows in windows added, as :meth:`ColumnMargins.with_rows` adds them."""
        before, rows = self._margins, window(first_row, int(x.shape[0]))
        if before is None or rows.start >= rows.stop:
            return before
        place, xp = self._place, self._place.xp
        x, above = place.double(x[rows, ...]), above[rows, ...]
        w = xp.ones((int(x.shape[0]), 1), dtype=xp.float64, device=place.device)
        w = w if weights is None else place.array(weights[rows])[:, None]
        sums = power_sums(xp, x, above, x <= self._floor, (self._origin, place.array(before.unit)), w)
        found, nothing = place.host(sums), np.zeros(self.n_features)
        ends, end_weights = found[[5, 7]], found[[6, 8]]
        place_of_sums, compared = (before.origin, before.unit), (nothing, nothing, nothing + np.inf)
        return before.merge(ColumnMargins(found[4], *place_of_sums, found[:4], ends, end_weights, *compared))


# --- algebra of wide matrices ---------------------------------------------------------------------


def all_eigenvalues(x: NDArray[Any], place: Place | None = None) -> NDArray[Any]:
    """Of a symmetric matrix, in rising order, on a device if one is given; the matrix may be overwritten."""
    if place is not None and len(x) >= _WORTH_MOVING:
        with suppress(MemoryError, RuntimeError):  # no room: the host has some
            return place.host(place.xp.linalg.eigvalsh(place.array(x)))
    values: NDArray[Any] = eigvalsh(x, overwrite_a=True, check_finite=False)
    return values


def multiplier(x: NDArray[Any], place: Place | None = None) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """v -> x v for many v, on a device if one is given, where x then stays until another comes or x goes."""
    if place is not None and len(x) >= _WORTH_MOVING:
        with suppress(MemoryError, RuntimeError):
            moved = _kept(place, x)
            return lambda v: place.host(moved @ place.array(v))
    return lambda v: x @ v


_last_moved: list[Any] = []  # a reference to the matrix that was moved last, where to, and what it is there


def _kept(place: Place, x: NDArray[Any]) -> Any:
    """A matrix on the device; the last one stays there as long as it is here, as it is often needed again."""
    last = list(_last_moved)
    if last and last[0]() is x and last[1] == place:
        return last[2]

    def forget(gone: Any) -> None:
        if _last_moved and _last_moved[0] is gone:
            _last_moved.clear()

    _last_moved[:] = [weakref.ref(x, forget), place, place.array(x)]
    return _last_moved[2]


# --- the libraries --------------------------------------------------------------------------------


def _ready(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    """Room on the host: fresh memory is handed out page by page, which all cores do far sooner than a copy's one."""
    room: NDArray[Any] = np.empty(shape, dtype=kind)
    flat = room.reshape(-1)
    step = _LARGE_BYTES // kind.itemsize
    map_in_threads(lambda start: flat[start : start + step].fill(0), range(0, flat.size, step))
    return room


def _compat() -> Any:
    """scikit-learn brings the library that distinguishes these libraries."""
    from sklearn.externals import array_api_compat

    return array_api_compat
