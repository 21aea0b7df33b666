"""The model: x = max(y, floor) with y ~ N(bias, covariance), a frozen value.

With a floor of zero and covariance = W W' it is D(W, b) of Wu, Dimakis and Sanghavi (2019),
Definition 1: x = ReLU(W z + b), z ~ N(0, I). W and W Q give the same law for every rotation Q, so
what is kept is the covariance, and :meth:`RectifiedGaussian.weights` picks one W.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from unrelu import storage
from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError

if TYPE_CHECKING:
    from unrelu.storage import ArchiveFormat, FilePath

Names: TypeAlias = Iterable[str] | None
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None

# On the correlation scale, where rounding is about 1e-16 times the number of features.
_TOLERANCE = 1e-8


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RectifiedGaussian:
    """The law of x = max(y, floor), y ~ N(bias, covariance): frozen, compared by value.

    ``bias`` has length d and is measured from zero, not from the floor; ``covariance`` is d x d,
    positive semidefinite up to rounding; ``floor`` is one number or one per column (kept as d
    numbers); ``feature_names`` is None or d distinct strings. A zero variance makes a constant
    coordinate, max(bias, floor). The arrays are copies and read-only.

    ``scoring_covariance``: what rows are scored by, where the covariance itself is too uncertain to be inverted
    (:mod:`unrelu.shrinkage`); None where it serves for both. Learners set it.

    >>> model = RectifiedGaussian([0.5, -1.0], [[4.0, 1.0], [1.0, 1.0]], feature_names=["As", "Pb"])
    >>> model.correlation[0, 1]
    np.float64(0.5)
    >>> model
    RectifiedGaussian(n_features=2, bias=[ 0.5, -1. ], row_norms=[2., 1.], floor=0, names=['As', 'Pb'])
    """

    bias: FloatArray
    covariance: FloatArray
    floor: FloatArray
    feature_names: tuple[str, ...] | None
    scoring_covariance: FloatArray | None = None

    def __init__(
        self,
        bias: ArrayLike,
        covariance: ArrayLike,
        floor: ArrayLike = 0.0,
        feature_names: Names = None,
        scoring_covariance: ArrayLike | None = None,
    ) -> None:
        b, a = _finite("bias", bias), _finite("floor", floor)
        d = b.size
        if b.ndim != 1 or d == 0:
            raise InvalidParameterError(f"bias must be a vector of at least one number, got shape {b.shape}.")
        if a.shape not in ((), (d,)):
            raise InvalidParameterError(f"floor must be one number or one per column ({d}), got shape {a.shape}.")
        s, names = _symmetric(_finite("covariance", covariance), d), _distinct(feature_names, d)
        scoring = (
            None if scoring_covariance is None else _symmetric(_finite("scoring_covariance", scoring_covariance), d)
        )
        state = {"bias": b, "covariance": s, "floor": np.full(d, a), "feature_names": names}
        self.__setstate__({**state, "scoring_covariance": scoring})
        for given in (s,) if scoring is None else (s, scoring):
            _require_semidefinite(_scaled(given))

    @classmethod
    def from_weights(
        cls, weights: ArrayLike, bias: ArrayLike, floor: ArrayLike = 0.0, feature_names: Names = None
    ) -> RectifiedGaussian:
        """The law of max(W z + b, floor), z ~ N(0, I_k), for ``weights`` W of shape d x k.

        >>> RectifiedGaussian.from_weights([[1.0, 0.0], [1.0, 1.0]], [0.0, 0.0]).covariance
        array([[1., 1.],
               [1., 2.]])
        """
        w = _finite("weights", weights)
        if w.ndim != 2 or 0 in w.shape:
            raise InvalidParameterError(f"weights must be a d x k matrix, got shape {w.shape}.")
        return cls(bias, w @ w.T, floor, feature_names)

    @property
    def n_features(self) -> int:
        return self.bias.size

    @property
    def row_norms(self) -> FloatArray:
        """|W(i,:)|, the standard deviation of y_i: the square root of the covariance's diagonal."""
        return np.sqrt(np.diagonal(self.covariance))

    @cached_property
    def correlation(self) -> FloatArray:
        """Correlations of y: unit diagonal, 0 beside it for coordinates of zero variance."""
        return _read_only(np.clip(_scaled(self.covariance), -1.0, 1.0))

    @property
    def scoring(self) -> RectifiedGaussian:
        """The model that rows are scored by: this one, or the same with its scoring covariance."""
        if self.scoring_covariance is None:
            return self
        return RectifiedGaussian(self.bias, self.scoring_covariance, self.floor, self.feature_names)

    def weights(self, k: int | None = None) -> FloatArray:
        """A d x k matrix W with W W' = covariance, or as near as rank k allows (Frobenius norm).

        W = V sqrt(L) from the k largest eigenvalues L and eigenvectors V, columns in falling order of
        length; the largest entry of each is positive, which settles the sign. ``k=None`` means d.

        >>> RectifiedGaussian([0.0, 0.0], [[1.0, -1.0], [-1.0, 1.0]]).weights(1).round(9)
        array([[ 1.],
               [-1.]])
        """
        d = self.n_features
        k = d if k is None else _integer("k", k)
        if not 1 <= k <= d:
            raise InvalidParameterError(f"k must be from 1 to the number of features, {d}; got {k}.")
        values, vectors = scipy.linalg.eigh(self.covariance, subset_by_index=(d - k, d - 1))
        w = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
        largest = w[np.argmax(np.abs(w), axis=0), np.arange(k)]
        return np.where(largest < 0.0, -w, w) + 0.0  # + 0.0 turns -0.0 into 0.0

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> FloatArray:
        """Draw rows, n_samples x d; a floored cell holds exactly its floor.

        >>> X = RectifiedGaussian([0.0, 0.0], [[1.0, -1.0], [-1.0, 1.0]]).sample(100, random_state=0)
        >>> X.shape, bool(((X == 0).sum(axis=1) == 1).all())  # y_2 = -y_1: always one of them floored
        ((100, 2), True)
        """
        n = _integer("n_samples", n_samples)
        if n < 0:
            raise InvalidParameterError(f"n_samples, the number of rows to draw, must be 0 or more; got {n}.")
        z = generator(random_state).standard_normal((n, self.n_features))
        y = z @ self._correlation_root.T
        y *= self.row_norms
        y += self.bias
        return np.maximum(y, self.floor, out=y)

    @cached_property
    def _correlation_root(self) -> FloatArray:
        """A square A with A A' = correlation, singular or not.

        The Cholesky factor where the matrix is clearly definite, else the symmetric root. Either is
        settled by the matrix alone, so that a seed gives the same rows up to rounding on every
        machine; a Cholesky factor that only exists by the luck of rounding would not.
        """
        r = self.correlation
        try:
            lower = np.linalg.cholesky(r)
            if np.diagonal(lower).min() ** 2 > 1e-10:
                return np.asarray(lower, dtype=np.float64)
        except np.linalg.LinAlgError:
            pass
        values, vectors = np.linalg.eigh(r)
        values[values < len(r) * np.finfo(float).eps * values[-1]] = 0.0
        return np.asarray((vectors * np.sqrt(values)) @ vectors.T, dtype=np.float64)

    def marginal(self, features: int | str | Iterable[int | str]) -> RectifiedGaussian:
        """The law of some of the columns, by index or name, in the order given.

        >>> RectifiedGaussian([1.0, 2.0], [[1.0, 0.5], [0.5, 4.0]], feature_names=["As", "Pb"]).marginal("Pb")
        RectifiedGaussian(n_features=1, bias=[2.], row_norms=[2.], floor=0, names=['Pb'])
        """
        chosen = [features] if isinstance(features, int | str | np.integer) else list(features)
        at = [self._index(feature) for feature in chosen]
        if not at:
            raise InvalidParameterError("marginal needs at least one feature, got none.")
        if len(set(at)) < len(at):
            twice = next(feature for n, feature in enumerate(chosen) if at[n] in at[:n])
            raise InvalidParameterError(f"marginal was asked for feature {twice!r} more than once.")
        names = None if self.feature_names is None else [self.feature_names[i] for i in at]
        square = np.ix_(at, at)
        scoring = None if self.scoring_covariance is None else self.scoring_covariance[square]
        return RectifiedGaussian(self.bias[at], self.covariance[square], self.floor[at], names, scoring)

    def _index(self, feature: int | str) -> int:
        if isinstance(feature, str):
            if self.feature_names is None:
                raise InvalidParameterError(f"No feature {feature!r}: the model has no names. Give indices.")
            if feature not in self.feature_names:
                raise InvalidParameterError(f"No feature {feature!r}: there are {_few(self.feature_names)}.")
            return self.feature_names.index(feature)
        index = _integer("A feature", feature)
        if not 0 <= index < self.n_features:
            raise InvalidParameterError(f"No feature {index}: indices run from 0 to {self.n_features - 1}.")
        return index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RectifiedGaussian):
            return NotImplemented
        mine, theirs = self.__getstate__(), other.__getstate__()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash((self.feature_names, tuple(self.bias.tolist()), tuple(self.floor.tolist())))

    def __repr__(self) -> str:
        floor = f"{self.floor[0]:g}" if np.ptp(self.floor) == 0 else _short(self.floor)
        names = "" if self.feature_names is None else f", names=[{_few(self.feature_names)}]"
        return (
            f"RectifiedGaussian(n_features={self.n_features}, bias={_short(self.bias)}, "
            f"row_norms={_short(self.row_norms)}, floor={floor}{names})"
        )

    def __getstate__(self) -> dict[str, Any]:
        names = ("feature_names", "bias", "floor", "covariance", "scoring_covariance")
        return {name: self.__dict__.get(name) for name in names}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        # Pickling forgets that an array is read-only, so this is the one door for all fields.
        for name, value in state.items():
            self.__dict__[name] = _read_only(value) if isinstance(value, np.ndarray) else value

    def save(self, path: FilePath, details: Mapping[str, Any] | None = None) -> None:
        """Write the model to ``path``, exactly that name: a NumPy .npz without pickle.

        It holds the arrays bias, covariance, floor, scoring_covariance where there is one, and ``header``, UTF-8 JSON
        as bytes.
        ``details`` are facts about the fit for the header, for :func:`read_header` to give back.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.unrelu"
        >>> RectifiedGaussian([1.0], [[2.0]]).save(path, details={"n_rows": 500})
        >>> RectifiedGaussian.load(path), read_header(path)["details"]
        (RectifiedGaussian(n_features=1, bias=[1.], row_norms=[1.4142], floor=0), {'n_rows': 500})
        """
        facts = {
            "n_features": self.n_features,
            "feature_names": self.feature_names,
            "details": dict(details or {}),
        }
        arrays = {"bias": self.bias, "covariance": self.covariance, "floor": self.floor}
        if self.scoring_covariance is not None:
            facts["is_scored_apart"], arrays["scoring_covariance"] = True, self.scoring_covariance
        _format().write(path, facts, **arrays)

    @classmethod
    def load(cls, path: FilePath) -> RectifiedGaussian:
        """Read a model that :meth:`save` wrote; the example is there."""
        header = read_header(path)
        names = ["bias", "covariance", "floor", *(["scoring_covariance"] if header.get("is_scored_apart") else [])]
        bias, covariance, floor, *scoring = _format().arrays(path, *names)
        d = header.get("n_features")
        if (bias.shape, covariance.shape, floor.shape) != ((d,), (d, d), (d,)):
            raise storage.damaged(path, f"its arrays do not fit its {d} features")
        try:
            return cls(bias, covariance, floor, header.get("feature_names"), *scoring)
        except InvalidParameterError as error:
            raise storage.damaged(path, error) from error


def _format() -> ArchiveFormat:
    return storage.ArchiveFormat("unrelu.RectifiedGaussian", 1)


def read_header(path: FilePath) -> dict[str, Any]:
    """The facts a model file states about itself: format, versions, features and ``details``.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.unrelu"
    >>> RectifiedGaussian([1.0], [[2.0]], feature_names=["As"]).save(path)
    >>> read_header(path)["feature_names"]
    ['As']
    """
    return _format().header(path)


def generator(random_state: RandomState) -> np.random.Generator:
    """The generator a ``random_state`` stands for; a generator handed in is used, and moves on.

    >>> bool(generator(3).random() == np.random.default_rng(3).random())
    True
    """
    try:
        if isinstance(random_state, np.random.RandomState):
            return np.random.default_rng(random_state.randint(2**31 - 1, size=4))  # moves on, too
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        kinds = "None, an integer of 0 or more, or a NumPy generator"
        raise InvalidParameterError(f"random_state must be {kinds}, got {random_state!r}.") from error


def _finite(name: str, value: ArrayLike) -> FloatArray:
    """A float64 copy with only finite numbers in it."""
    try:
        if np.iscomplexobj(value):
            raise TypeError("it holds complex ones")
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"{name} must be an array of real numbers: {error}.") from error
    for at in np.argwhere(~np.isfinite(array))[:1].tolist():
        raise InvalidParameterError(f"{name} must be finite, but holds {array[tuple(at)]} at index {at}.")
    return array


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise InvalidParameterError(f"{name} must be an integer, got {value!r}.")
    return operator.index(value)


def _distinct(names: Names, d: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    given = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else (None,)
    if not all(isinstance(name, str) for name in given):
        raise InvalidParameterError(f"feature_names must be a list of strings, got {names!r}.")
    if len(given) != d:
        raise InvalidParameterError(f"feature_names has {len(given)} names for {d} features.")
    if len(set(given)) < d:
        twice = next(name for name in given if given.count(name) > 1)
        raise InvalidParameterError(f"feature_names must be distinct, but {twice!r} occurs more than once.")
    return tuple(str(name) for name in given)


def _symmetric(s: FloatArray, d: int) -> FloatArray:
    """The covariance made exactly symmetric and clean of rounding where a variance is zero; or an error."""
    if s.shape != (d, d):
        raise InvalidParameterError(f"covariance must be {d} x {d} to fit the bias, got shape {s.shape}.")
    variance = np.diagonal(s)
    if variance.min() < -_TOLERANCE * variance.max():
        i = int(variance.argmin())
        raise InvalidParameterError(f"covariance has a negative variance, {variance[i]:.3g}, at index {i}.")
    constant = variance <= 0.0
    # Rounding is judged on the scale of each pair; a coordinate without one borrows the largest.
    scale = np.sqrt(np.where(constant, max(variance.max(), 0.0), variance))
    allowed = _TOLERANCE * np.outer(scale, scale)
    for i, j in np.argwhere(np.abs(s - s.T) > allowed)[:1].tolist():
        pair = f"entry ({i}, {j}) is {s[i, j]:.6g} and ({j}, {i}) is {s[j, i]:.6g}"
        raise InvalidParameterError(f"covariance must be symmetric, but {pair}.")
    for i, j in np.argwhere((np.abs(s) > allowed) & constant)[:1].tolist():
        raise InvalidParameterError(f"covariance gives index {j} no variance, but a covariance with {i}.")
    s = 0.5 * s + 0.5 * s.T
    s[constant, :] = s[:, constant] = 0.0
    return s


def _scaled(s: FloatArray) -> FloatArray:
    """The covariance with a unit diagonal; beyond [-1, 1] only where it is not semidefinite."""
    scale = np.where(np.diagonal(s) > 0.0, np.sqrt(np.diagonal(s)), 1.0)
    r: FloatArray = s / scale[:, None] / scale  # two divisions: a product of tiny scales could be zero
    np.fill_diagonal(r, 1.0)
    return r


def _require_semidefinite(r: FloatArray) -> None:
    """Eigenvalues are slow at thousands of features: they are for the doubtful cases and the message."""
    try:
        np.linalg.cholesky(r + _TOLERANCE * np.eye(len(r)))
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(r)[0])
        if smallest < -_TOLERANCE:
            raise InvalidParameterError(
                "covariance must be positive semidefinite, but its smallest eigenvalue, scaled to a "
                f"correlation matrix, is {smallest:.3g}. Take the nearest semidefinite one, or from_weights."
            ) from None


def _read_only(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array


def _short(a: FloatArray) -> str:
    return np.array2string(a, precision=4, threshold=6, edgeitems=2, separator=", ", max_line_width=10**6)


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:4])) + (f", ... ({len(names)} in all)" if len(names) > 4 else "")
