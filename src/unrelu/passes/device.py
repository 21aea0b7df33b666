"""Another device: tables that live on a GPU are summed there, and pairs of many columns are solved there.

Arrays of torch and CuPy, and of any library that keeps to the Python array API standard, are asked through that
standard, block by block, so that no table comes to the host. What the standard lacks stands here, library by library:
this is the one file that knows them, and none is imported unless one of its arrays comes in.
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

from unrelu.contracts import Question, R, Samples, Step, Watch, unwatched
from unrelu.errors import DeviceMemoryError, InvalidDataError
from unrelu.passes.local import LocalEngine, map_in_threads
from unrelu.passes.rows import rows_in

_WORKING_BYTES = 2**31  # beside the table and sums of pairs
_BYTES_PER_CELL = 32  # of the working copies of a block: three float64 of every cell, and what leads to them
_LARGE_BYTES = 2**22  # of an array for whose copy memory is made ready
_FEWEST_ROWS = 256  # a block that does not fit with these never will
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
        return _on_host(array)

    def floats(self, array: Any) -> Any:
        """float32 for short floats, float64 for all other numbers; the array itself where it is so already."""
        xp = self.xp
        array = array.detach() if hasattr(array, "detach") else array
        if array.dtype in (xp.float32, xp.float64):
            return array
        if not _holds_numbers(xp, array.dtype):
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

    def rows(self, n: int, seed: int, root: Any, bias: Any, limits: tuple[Any, Any]) -> Any:
        """n rows of max(A z + b, floor), or min with a ceiling, drawn on the device by one matrix product."""
        low, high = (self.array(limit) for limit in limits)
        y = self.normals(n, len(bias), seed) @ self.array(root.T) + self.array(bias)
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
    """Where an array lives that is not NumPy's; None for NumPy's own, for Dask's, and for all that is no array.

    >>> place_of(np.zeros((2, 2))) is None, place_of([[1.0]]) is None
    (True, True)
    """
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
    if place is None or not _is_cpu(place):
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


class DeviceEngine:
    """Sums of pairs where the rows are; other questions are asked of blocks that are brought to the host."""

    def __init__(self, watch: Watch = unwatched, stage: str = "Reading rows") -> None:
        self._watch, self._stage = watch, stage

    def collect(self, samples: Samples, question: Question[R]) -> R:
        from unrelu.passes.pair_moments import PairMomentsQuestion

        place = samples.place
        if place is None or not isinstance(question, PairMomentsQuestion):
            return LocalEngine(self._watch, self._stage).collect(samples, question)
        from unrelu.passes.device_sums import DeviceSums

        sums = DeviceSums(place, question, samples.n_features)
        height = max(_WORKING_BYTES // (_BYTES_PER_CELL * samples.n_features), _FEWEST_ROWS)
        done = 0

        def tell(rows: int) -> None:
            self._watch(Step(self._stage, rows, samples.n_rows, f"{rows:,} rows"))

        tell(0)
        for block in samples.whole():
            height = _add(sums, block, height, place, tell)
            done = block.first_row + rows_in(block)
        if done == 0:
            raise InvalidDataError("There are no rows to learn from.")
        record: Any = sums.record()
        return record


def _add(sums: Any, block: Any, height: int, place: Place, tell: Callable[[int], None]) -> int:
    """Add a block, at most ``height`` rows at a time, fewer where the device's memory is short of; how many fitted."""
    start, n = 0, int(block.array.shape[0])
    while start < n:
        rows = slice(start, min(start + height, n))
        weights = None if block.weights is None else block.weights[rows]
        try:
            sums.add(block.array[rows, ...], block.first_row + start, weights)
        except Exception as error:
            if not _out_of_memory(error):
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
        tell(block.first_row + start)
    return height


def _out_of_memory(error: Exception) -> bool:
    words = str(error)
    return type(error).__name__ == "OutOfMemoryError" or "ALLOC_FAILED" in words or "out of memory" in words.lower()


# --- algebra of wide matrices ---------------------------------------------------------------------


def all_eigenvalues(x: NDArray[Any], place: Place | None = None) -> NDArray[Any]:
    """Of a symmetric matrix, in rising order, on a device if one is given; the matrix may be overwritten.

    >>> all_eigenvalues(np.diag([3.0, 1.0]))
    array([1., 3.])
    """
    if place is not None and len(x) >= _WORTH_MOVING:
        with suppress(MemoryError, RuntimeError):  # no room: the host has some
            return place.host(place.xp.linalg.eigvalsh(place.array(x)))
    values: NDArray[Any] = eigvalsh(x, overwrite_a=True, check_finite=False)
    return values


def multiplier(x: NDArray[Any], place: Place | None = None) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """v -> x v for many v, on a device if one is given, where x then stays until another comes or x goes.

    >>> multiplier(np.diag([3.0, 1.0]))(np.ones(2))
    array([3., 1.])
    """
    if place is not None and len(x) >= _WORTH_MOVING:
        with suppress(MemoryError, RuntimeError):
            moved = _kept(place, x)
            return lambda v: place.host(moved @ place.array(v))
    return lambda v: x @ v


_last_moved: list[Any] = []  # a reference to the matrix that was moved last, where to, and what it is there


def _kept(place: Place, x: NDArray[Any]) -> Any:
    """A matrix on the device; the last one stays there as long as it is here, as it is often asked for again."""
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
    """scikit-learn brings the library that tells these libraries apart."""
    from sklearn.externals import array_api_compat

    return array_api_compat


def _is_cpu(place: Place) -> bool:
    compat = _compat()
    if compat.is_torch_namespace(place.xp):
        return bool(place.device.type == "cpu")
    return bool(compat.is_jax_namespace(place.xp) and getattr(place.device, "platform", "") == "cpu")


def _holds_numbers(xp: Any, dtype: Any) -> bool:
    return bool(xp.isdtype(dtype, ("bool", "integral", "real floating")))


def _on_host(array: Any) -> NDArray[Any]:
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
