"""Records and estimators to archives and back, without pickle.

A record is a dataclass, an estimator its parameters and what it has learned. Both are trees of plain values, arrays and
further records. Plain values go to the header; arrays are named by the path that leads to them. Only the classes of
:mod:`unrelu.storage.kinds` are written or made, and their arrays are checked against the shapes given there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from unrelu.errors import InvalidDataError, InvalidParameterError, ModelFileError
from unrelu.parameters import require_reachable
from unrelu.storage.archives import ArchiveFormat, damaged, stated_format
from unrelu.storage.files import FilePath
from unrelu.storage.kinds import KINDS, Kind

VERSION = 3
MODEL = "RectifiedGaussian"  # has a plainer format of its own, which other programs write, too

T = TypeVar("T")
Arrays = dict[str, Any]

_PLAIN = {"int": Integral, "float": Real, "str": str, "bool": bool}


@dataclass(frozen=True)
class Unsaved:
    """Stands for a parameter that no file can hold, such as a generator or an object of the user's own."""

    text: str


_BEFORE = {"shape": "normal", "below": "latent"}  # what files meant that are older than these parameters
_PASSING = ("_watch", "_place", "_answers_on")  # what an estimator has for a while, and no file


def write(path: FilePath, value: Any, details: Mapping[str, Any] | None = None) -> None:
    """Write a record or a fitted estimator to ``path``; ``details`` are facts for the file's header."""
    arrays: Arrays = {}
    content = packed(value, "", arrays)
    facts = {"content": content, "details": dict(details or {})}
    _format(type(value).__name__).write(path, facts, **arrays)


def read(path: FilePath, kind: type[T]) -> T:
    """What :func:`write` wrote, if it is of that kind."""
    archive = _format(kind.__name__)
    header, arrays = archive.header(path), archive.every_array(path)
    try:
        with np.errstate(all="ignore"):  # a hostile number is refused, not warned of
            value = unpacked(header["content"], arrays)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        why = f"its header lacks {error}" if isinstance(error, KeyError) else error
        raise damaged(path, why) from error
    if not isinstance(value, kind):
        raise damaged(path, f"it holds a {type(value).__name__}")
    return value


def load(path: FilePath) -> Any:
    """Whatever was saved at ``path``: a model, a fitted estimator, peeled layers, a record, a state.

    >>> import pathlib, tempfile
    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(500, random_state=1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "learner.unrelu"
    >>> unrelu.RectifiedGaussianLearner("one_pass").fit(X).save(path)
    >>> unrelu.load(path).partial_fit(X).report_.n_rows
    1000
    """
    name = (stated_format(path) or f"unrelu.{MODEL}").removeprefix("unrelu.")
    if name not in KINDS:
        raise ModelFileError(f"{path} holds a {name!r}, which this version does not know: upgrade unrelu.")
    kind = _class(name)
    return kind.load(path) if name == MODEL else read(path, kind)


def _format(name: str) -> ArchiveFormat:
    return ArchiveFormat(f"unrelu.{name}", VERSION, KINDS[name].called, oldest=VERSION)


def _class(name: str) -> Any:
    return getattr(import_module(KINDS[name].module), name)


# --- to an archive --------------------------------------------------------------------------------


def packed(value: Any, name: str, arrays: Arrays) -> Any:
    """The value as JSON holds it; arrays go to ``arrays`` under ``name``."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays[name] = value
        return {"array": name}
    if isinstance(value, Mapping):
        return {"map": _packed_fields(value, name, arrays)}
    if isinstance(value, list | tuple | np.ndarray):
        items = [packed(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    kind = type(value).__name__
    if kind not in KINDS or type(value).__module__ != KINDS[kind].module:
        raise InvalidParameterError(f"{name or 'This'} cannot be saved: {value!r} is no record of unrelu.")
    if is_dataclass(value):
        own = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"kind": kind, "fields": _packed_fields(own, name, arrays)}
    parameters = {key: _packed_parameter(item, f"{name}({key})", arrays) for key, item in _parameters(value).items()}
    left_out = {*parameters, *_PASSING, *getattr(type(value), "_derived", ())}
    attributes = {key: item for key, item in vars(value).items() if key not in left_out}
    return {"kind": kind, "parameters": parameters, "attributes": _packed_fields(attributes, name, arrays)}


def _packed_fields(values: Mapping[str, Any], name: str, arrays: Arrays) -> dict[str, Any]:
    prefix = f"{name}." if name else ""
    return {key: packed(item, f"{prefix}{key}", arrays) for key, item in values.items()}


def _packed_parameter(value: Any, name: str, arrays: Arrays) -> Any:
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray):
        value = np.asarray(value)
    own: Arrays = {}
    try:
        node = packed(value, name, own)
    except InvalidParameterError:
        return {"unsaved": repr(value)}
    arrays.update(own)
    return node


def _parameters(estimator: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = estimator.get_params(deep=False)
    return parameters


# --- from an archive ------------------------------------------------------------------------------


def unpacked(node: Any, arrays: Arrays) -> Any:
    """What :func:`packed` made JSON and arrays of."""
    if isinstance(node, list):
        return [unpacked(item, arrays) for item in node]
    if not isinstance(node, dict):
        return node
    if "array" in node:
        return arrays[node["array"]]
    if "tuple" in node:
        return tuple(unpacked(item, arrays) for item in node["tuple"])
    if "map" in node:
        return _unpacked_fields(node["map"], arrays)
    if "unsaved" in node:
        return Unsaved(node["unsaved"])
    name = node["kind"]
    if name not in KINDS:
        raise ValueError(f"it holds a {name!r}, which this version does not know")
    if "fields" in node:
        return _record(name, _unpacked_fields(node["fields"], arrays))
    parameters = _unpacked_fields(node["parameters"], arrays)
    return _estimator(name, parameters, _unpacked_fields(node["attributes"], arrays))


def _unpacked_fields(nodes: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    return {key: unpacked(item, arrays) for key, item in nodes.items()}


def _record(name: str, values: dict[str, Any]) -> Any:
    kind = _class(name)
    for field in fields(kind):
        if field.name not in values:
            if field.default is MISSING and field.default_factory is MISSING:
                raise KeyError(field.name)
            continue
        wanted = _PLAIN.get(str(field.type))
        value = values[field.name]
        if wanted is not None and not (isinstance(value, wanted) and isinstance(value, bool) == (wanted is bool)):
            raise ValueError(f"{name}.{field.name} is {value!r}, not of type {field.type}")
    check_arrays(KINDS[name], values, {})
    return kind(**values)


def _estimator(name: str, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
    sizes = {"d": attributes["n_features_in_"]} if "n_features_in_" in attributes else {}
    check_arrays(KINDS[name], attributes, sizes)
    columns = attributes.get("_columns")
    shapes = getattr(columns, "shapes", None) or ()
    if columns is not None and len(columns.floor) != sizes["d"]:
        raise ValueError(f"it has limits of {len(columns.floor)} columns, not {sizes['d']}")
    if shapes and not (isinstance(shapes, tuple) and len(shapes) == sizes["d"] and all(map(_is_shape, shapes))):
        raise ValueError(f"its shapes are not those of its {sizes['d']} columns")
    require_reachable(shapes)
    estimator = _class(name)(**parameters)
    known = _parameters(estimator)
    estimator.set_params(**{key: old for key, old in _BEFORE.items() if key in known and key not in parameters})
    vars(estimator).update(attributes)
    if names := attributes.get("feature_names_in_"):
        if len(names) != attributes["n_features_in_"] or not all(isinstance(name, str) for name in names):
            raise ValueError(f"it does not name its {attributes['n_features_in_']} columns")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if hasattr(estimator, "check_loaded"):
        estimator.check_loaded()
    return estimator


def _is_shape(value: Any) -> bool:
    kind = KINDS.get(type(value).__name__)
    return kind is not None and kind.module == "unrelu.shapes" and hasattr(value, "to_latent")


def check_arrays(kind: Kind, values: Mapping[str, Any], sizes: dict[str, int]) -> None:
    """Raise InvalidDataError unless arrays have the shapes, types and finite values that their kind says.

    >>> check_arrays(Kind("", arrays={"bias": "d"}), {"bias": np.ones(2)}, {"d": 2})
    >>> check_arrays(Kind("", arrays={"bias": "d"}), {"bias": np.array([np.nan])}, {})
    Traceback (most recent call last):
    ...
    unrelu.errors.InvalidDataError: bias holds values that are not finite
    """
    for name, text in kind.arrays.items():
        optional, axes, letter, infinite = _read(text)
        value = values.get(name)
        if value is None and optional:
            continue
        if value is None:
            raise KeyError(name)
        shape = getattr(value, "shape", None)
        if shape is None or len(shape) != len(axes):
            raise InvalidDataError(f"{name} has shape {shape} instead of {len(axes)} dimensions")
        expected = tuple(sizes.setdefault(axis, size) for axis, size in zip(axes, shape, strict=True))
        if shape != expected:
            raise InvalidDataError(f"{name} has shape {shape} instead of {expected}")
        if value.dtype.kind != letter:
            raise InvalidDataError(f"{name} holds {value.dtype.name} values")
        if letter == "f" and not infinite and not np.isfinite(value).all():
            raise InvalidDataError(f"{name} holds values that are not finite")


def _read(text: str) -> tuple[bool, str, str, bool]:
    """(may be missing, axes, letter of the type, may hold values that are not finite) of a shape in kinds.py."""
    optional, infinite = text.startswith("~"), text.endswith("?")
    axes, _, kind = text.strip("~?").partition(":")
    return optional, axes, {"": "f", "bool": "b", "int": "i"}[kind], infinite
