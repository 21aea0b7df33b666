"""Files of ours: NumPy archives without pickle, of plain names that mean something to who has never seen the code.

The entry ``header`` is JSON: the format, its version, ``details``, and whatever is no array. Every other entry is an
array, named by the path to its place: "covariance", "observed.count", "shapes.1.values". Together they are the *state*
of one object of the public classes below, which gives it as ``to_state()`` and is made of it by ``from_state(state)``;
``STATE`` beside these is the schema that a file is checked against before anything is made of it.

A schema is a dict of names (or of numbers: a list of just so many items), a list of one schema for all items, (schema,
None) where nothing may be there, a function from what is there to its schema, or words: "int", "float", "text", "bool"
or several with | between them, "size d" (an int that says how many d are), "floats d d", "ints d", "bools d" (arrays
whose axes have sizes; equal letters are equal sizes), "any" (plain JSON). "unbounded" before floats allows values that
are not finite. A list may have a size as well: ["text", "d"]. Sizes that first occur within an item of a list are that
item's own. Dataclasses need no schema by hand: :func:`schema_of`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from numbers import Integral, Real
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from unrelu import shapes
from unrelu._version import __version__
from unrelu.errors import InvalidDataError, InvalidParameterError, ModelFileError
from unrelu.storage.files import FilePath, atomic_write
from unrelu.storage.kinds import KINDS, Kind
from unrelu.validation import require_reachable

VERSION = 4
MODEL = "RectifiedGaussian"
# What can be in a file: where its class is, and what messages call the file.
CLASSES = {
    MODEL: ("unrelu.model", "model file"),
    "RectifiedGaussianLearner": ("unrelu.estimators.learner", "learner's file"),
    "FloorImputer": ("unrelu.estimators.imputer", "imputer's file"),
    "RectifiedGaussianNetwork": ("unrelu.estimators.network", "network's file"),
    "RectifiedGaussianMixture": ("unrelu.estimators.mixture", "mixture's file"),
    "FloorOutlierDetector": ("unrelu.estimators.outliers", "detector's file"),
    "ReLUMatrixRecovery": ("unrelu.recovery.matrix_estimator", "model file"),
    "ReLULatentRecovery": ("unrelu.recovery.latent_estimator", "model file"),
    "TwoLayerReLULearner": ("unrelu.recovery.two_layer_estimator", "model file"),
    "Peeled": ("unrelu.recovery.layers.peeled", "model file"),
    "PairMoments": ("unrelu.passes.pair_moments", "record"),
    "GroupedMoments": ("unrelu.passes.pair_moments", "record"),
    "Checkpoint": ("unrelu.passes.checkpoints", "checkpoint"),
    "MatrixState": ("unrelu.recovery.matrix.state", "saved state"),
}
_OWN = ("format", "format_version", "unrelu_version", "details")  # names in a header that are no part of a state
_PLAIN: dict[str, Any] = {"int": Integral, "float": Real, "text": str, "bool": bool}
_ARRAYS = {"floats": "f", "ints": "i", "bools": "b"}

T = TypeVar("T")
State = dict[str, Any]


def write(path: FilePath, value: Any, details: Mapping[str, Any] | None = None) -> None:
    """Write an object to ``path``, exactly that name; ``details`` are facts for the file's header."""
    name, arrays = type(value).__name__, dict[str, Any]()
    if hasattr(value, "to_state"):
        facts: State = parted(value.to_state(), "", arrays)
    else:
        facts = {"content": packed(value, "", arrays)}
    own = {"format": f"unrelu.{name}", "format_version": VERSION, "unrelu_version": __version__}
    try:
        stated = json.dumps({**own, "details": dict(details or {}), **facts}, default=_listed).encode()
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"details must be plain JSON values: {error}.") from error
    with atomic_write(path) as stream:
        np.savez(stream, header=np.frombuffer(stated, dtype=np.uint8), **arrays)


def read(path: FilePath, kind: type[T]) -> T:
    """What :func:`write` wrote, if it is of that class."""
    header = read_header(path, kind.__name__)
    called = CLASSES[kind.__name__][1]
    arrays = _picked(path, lambda file: {name: file[name] for name in file.files if name != "header"}, called)
    made: Any = kind
    try:
        with np.errstate(all="ignore"):  # a hostile number is refused, not warned of
            if hasattr(kind, "from_state"):
                state = joined({name: value for name, value in header.items() if name not in _OWN}, arrays)
                value = made.from_state(checked(state, made.STATE))
            else:
                value = unpacked(header["content"], arrays)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, f"its header lacks {error}" if isinstance(error, KeyError) else error) from error
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
    if name not in CLASSES:
        raise ModelFileError(f"{path} holds a {name!r}, which this version does not know: upgrade unrelu.")
    return read(path, getattr(import_module(CLASSES[name][0]), name))


def read_header(path: FilePath, name: str) -> State:
    """What the file of an object of that class states about itself: its format and version, details, all but arrays."""
    called, place = CLASSES[name][1], os.fspath(path)
    header = _picked(path, lambda file: json.loads(file["header"].tobytes().decode()), called)
    if not isinstance(header, dict) or header.get("format") != f"unrelu.{name}":
        raise ModelFileError(f"{place} is not an unrelu {called}.")
    version = header.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelFileError(f"{place} is damaged: it states no format version.")
    if version < VERSION:
        raise ModelFileError(f"{place} is from before the first release; it is read no more: make the file again.")
    if version > VERSION:
        raise ModelFileError(
            f"{place} was written by a newer unrelu (format {version}); this one reads up to {VERSION}: upgrade unrelu."
        )
    return header


def stated_header(path: FilePath) -> State:
    """What an archive of ours states about itself, unchecked; nothing for any other file."""
    with suppress(Exception), open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes().decode())
        return header if isinstance(header, dict) else {}
    return {}


def stated_format(path: FilePath) -> str | None:
    """The format that an archive's header names, or None for any other file."""
    name = stated_header(path).get("format")
    return name if isinstance(name, str) else None


def foreign_arrays(path: FilePath, names: Sequence[str], called: str) -> dict[str, Any]:
    """Those of the named arrays that are in an archive of somebody's own, which messages call a ``called``."""
    return _picked(path, lambda file: {name: file[name] for name in names if name in file.files}, called, f"a {called}")


def damaged(path: FilePath, why: object) -> ModelFileError:
    """The error for a file whose content contradicts itself."""
    return ModelFileError(f"{os.fspath(path)} is damaged: {str(why).rstrip('.')}.")


def _picked(path: FilePath, pick: Callable[[Any], T], called: str, expected: str = "") -> T:
    """What ``pick`` takes from the archive at ``path``; every way this can fail has its one line."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return pick(archive)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelFileError(f"There is no {called} {name}.") from error
    except IsADirectoryError as error:
        raise ModelFileError(f"{name} is a folder, not a {called}.") from error
    except PermissionError as error:
        raise ModelFileError(f"{name} may not be read: {error.strerror}.") from error
    except Exception as error:  # the zip and array readers meet foreign bytes with a dozen exception types
        raise ModelFileError(f"{name} is not {expected or f'an unrelu {called}'}, or is damaged.") from error


# --- states and archives --------------------------------------------------------------------------


def parted(value: Any, place: str, arrays: dict[str, Any]) -> Any:
    """A state as JSON holds it, None where an array was, which goes to ``arrays`` under the path to it."""
    if isinstance(value, np.ndarray):
        arrays[place] = value
        return None
    if isinstance(value, Mapping):
        return {name: parted(item, f"{place}.{name}".lstrip("."), arrays) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [parted(item, f"{place}.{number}", arrays) for number, item in enumerate(value)]
    return value


def joined(state: State, arrays: Mapping[str, Any]) -> State:
    """The state with its arrays in their places."""
    for path, array in arrays.items():
        *way, last = path.split(".")
        node: Any = state
        try:
            for step in way:
                node = node[int(step) if isinstance(node, list) else step]
            key = int(last) if isinstance(node, list) else last
            if isinstance(node, dict) and node.get(last) is not None:
                raise ValueError(f"it states {path} twice")
            node[key] = array
        except (LookupError, TypeError) as error:
            raise ValueError(f"there is no place for its array {path}") from error
    return state


def _listed(value: object) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not one")


def checked(value: Any, schema: Any, place: str = "it", sizes: dict[str, int] | None = None) -> Any:
    """The value, None where it may lack something and does; InvalidDataError where it is not what the schema says.

    >>> checked({"bias": np.ones(2)}, {"bias": "floats d", "names": (["text", "d"], None)})
    {'bias': array([1., 1.]), 'names': None}
    >>> checked({"bias": np.array([np.nan])}, {"bias": "floats d"})
    Traceback (most recent call last):
    ...
    unrelu.errors.InvalidDataError: bias holds values that are not finite
    """
    sizes = {} if sizes is None else sizes
    if isinstance(schema, tuple):
        if value is None:
            return None
        schema = schema[0]
    if callable(schema):
        schema = schema(value)
    if isinstance(schema, str):
        _check_plain(value, schema.split(), place, sizes)
        return value
    if isinstance(schema, list):
        if not isinstance(value, list):
            raise InvalidDataError(f"{place} is no list")
        if len(schema) > 1 and sizes.setdefault(schema[1], len(value)) != len(value):
            raise InvalidDataError(f"{place} has {len(value)} items instead of {sizes[schema[1]]}")
        return [checked(item, schema[0], f"{place}.{number}", dict(sizes)) for number, item in enumerate(value)]
    if isinstance(value, list) and 0 in schema:
        return list(checked(dict(enumerate(value)), schema, place, sizes).values())
    if not isinstance(value, dict):
        raise InvalidDataError(f"{place} is {value!r:.60}, and no names with values")
    if unknown := set(value) - set(schema):
        raise InvalidDataError(f"{place} has {min(unknown)!r}, which this version does not know")
    found = {}
    for name, wanted in schema.items():
        if name not in value and not isinstance(wanted, tuple):
            raise KeyError(name)
        found[name] = checked(value.get(name), wanted, name if place == "it" else f"{place}.{name}", sizes)
    return found


def _check_plain(value: Any, words: list[str], place: str, sizes: dict[str, int]) -> None:
    unbounded = words[0] == "unbounded"
    kind, *axes = words[unbounded:]
    if kind == "any":
        return
    if kind in _ARRAYS:
        shape = getattr(value, "shape", None)
        if shape is None or len(shape) != len(axes):
            raise InvalidDataError(f"{place} has shape {shape} instead of {len(axes)} dimensions")
        expected = tuple(sizes.setdefault(axis, size) for axis, size in zip(axes, shape, strict=True))
        if shape != expected:
            raise InvalidDataError(f"{place} has shape {shape} instead of {expected}")
        if value.dtype.kind != _ARRAYS[kind]:
            raise InvalidDataError(f"{place} holds {value.dtype.name} values")
        if kind == "floats" and not unbounded and not np.isfinite(value).all():
            raise InvalidDataError(f"{place} holds values that are not finite")
        return
    types = ["int"] if kind == "size" else kind.split("|")
    if not any(isinstance(value, _PLAIN[each]) and isinstance(value, bool) == (each == "bool") for each in types):
        raise InvalidDataError(f"{place} is {value!r:.60}, not of type {' or '.join(types)}")
    if isinstance(value, float) and not unbounded and not np.isfinite(value):
        raise InvalidDataError(f"{place} is {value}")
    if kind == "size" and (value < 0 or sizes.setdefault(axes[0], value) != value):
        raise InvalidDataError(f"{place} is {value}, which its arrays do not fit")


# --- dataclasses as states ------------------------------------------------------------------------


def state_of(value: Any) -> Any:
    """A dataclass, and those in it, by the names of their fields; anything else as it is."""
    if is_dataclass(value):
        return {each.name: state_of(getattr(value, each.name)) for each in fields(value)}
    return [state_of(item) for item in value] if isinstance(value, list | tuple) else value


def schema_of(kind: type[Any], **given: Any) -> dict[str, Any]:
    """The schema of :func:`state_of` such a dataclass by the types of its fields, but for those that are ``given``.

    >>> schema_of(shapes.Power, seen="any")["exponent"]
    'unbounded float'
    """
    hints = get_type_hints(kind)
    return {each.name: given[each.name] if each.name in given else _schema(hints[each.name]) for each in fields(kind)}


def _schema(hint: Any) -> Any:
    words = {int: "int", float: "unbounded float", str: "text", bool: "bool", Any: "any"}
    if hint in words:
        return words[hint]
    if is_dataclass(hint) and isinstance(hint, type):
        return schema_of(hint)
    some = get_args(hint)
    if type(None) in some and len(some) == 2:
        return (_schema(some[0]), None)
    if get_origin(hint) is tuple and some[-1] is ...:
        return [_schema(some[0])]
    if get_origin(hint) is tuple:
        return {number: _schema(each) for number, each in enumerate(some)}
    raise TypeError(f"{hint} needs a schema")


def made_of(kind: Any, state: Any) -> Any:
    """A value of that type from its checked state: the dataclasses and tuples that :func:`state_of` took apart."""
    some = get_args(kind)
    if state is None:
        return None
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{each.name: made_of(hints[each.name], state[each.name]) for each in fields(kind)})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        kinds = [some[0]] * len(state) if some[-1] is ... else some
        return tuple(made_of(each, item) for each, item in zip(kinds, state, strict=True))
    return made_of(some[0], state) if type(None) in some else state


# --- what is not made of plain names yet: trees of classes ----------------------------------------
# A record is a dataclass, an estimator its parameters and what it has learned. Both are trees of plain values, arrays
# and further records. Only the classes of kinds.py are written or made, their arrays checked against the shapes there.

_PASSING = ("_watch", "_place", "_answers_on")  # what an estimator has for a while, and no file


@dataclass(frozen=True)
class Unsaved:
    """Stands for a parameter that no file can hold, such as a generator or an object of the user's own."""

    text: str


def _class(name: str) -> Any:
    return getattr(import_module(KINDS[name].module), name)


def packed(value: Any, name: str, arrays: dict[str, Any]) -> Any:
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
    if hasattr(value, "to_state") or kind in shapes.KINDS:
        state = value.to_state() if hasattr(value, "to_state") else shapes.to_state(value)
        return {"kind": kind, "at": name, "state": parted(state, name, arrays)}
    if is_dataclass(value):
        own = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"kind": kind, "fields": _packed_fields(own, name, arrays)}
    parameters = {key: _packed_parameter(item, f"{name}({key})", arrays) for key, item in _parameters(value).items()}
    left_out = {*parameters, *_PASSING, *getattr(type(value), "_derived", ())}
    attributes = {key: item for key, item in vars(value).items() if key not in left_out}
    return {"kind": kind, "parameters": parameters, "attributes": _packed_fields(attributes, name, arrays)}


def _packed_fields(values: Mapping[str, Any], name: str, arrays: dict[str, Any]) -> dict[str, Any]:
    prefix = f"{name}." if name else ""
    return {key: packed(item, f"{prefix}{key}", arrays) for key, item in values.items()}


def _packed_parameter(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray):
        value = np.asarray(value)
    own: dict[str, Any] = {}
    try:
        node = packed(value, name, own)
    except InvalidParameterError:
        return {"unsaved": repr(value)}
    arrays.update(own)
    return node


def _parameters(estimator: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = estimator.get_params(deep=False)
    return parameters


def unpacked(node: Any, arrays: dict[str, Any]) -> Any:
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
    if "state" in node:
        at = f"{node['at']}."
        own = {path.removeprefix(at): array for path, array in arrays.items() if path.startswith(at)}
        state = joined(node["state"], own)
        if name in shapes.KINDS:
            return shapes.from_state(checked(state, shapes.schema))
        kind = _class(name)
        return kind.from_state(checked(state, kind.STATE))
    if "fields" in node:
        return _record(name, _unpacked_fields(node["fields"], arrays))
    parameters = _unpacked_fields(node["parameters"], arrays)
    return _estimator(name, parameters, _unpacked_fields(node["attributes"], arrays))


def _unpacked_fields(nodes: Mapping[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    return {key: unpacked(item, arrays) for key, item in nodes.items()}


def _record(name: str, values: dict[str, Any]) -> Any:
    kind = _class(name)
    for field in fields(kind):
        if field.name not in values:
            if field.default is MISSING and field.default_factory is MISSING:
                raise KeyError(field.name)
            continue
        wanted = _PLAIN.get(str(field.type).replace("str", "text"))
        value = values[field.name]
        if wanted is not None and not (isinstance(value, wanted) and isinstance(value, bool) == (wanted is bool)):
            raise ValueError(f"{name}.{field.name} is {value!r}, not of type {field.type}")
    check_arrays(KINDS[name], values, {})
    return kind(**values)


def _estimator(name: str, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
    sizes = {"d": attributes["n_features_in_"]} if "n_features_in_" in attributes else {}
    check_arrays(KINDS[name], attributes, sizes)
    columns = attributes.get("_columns")
    forms = getattr(columns, "shapes", None) or ()
    if columns is not None and len(columns.floor) != sizes["d"]:
        raise ValueError(f"it has limits of {len(columns.floor)} columns, not {sizes['d']}")
    if forms and not (isinstance(forms, tuple) and len(forms) == sizes["d"] and all(map(shapes.is_shape, forms))):
        raise ValueError(f"its shapes are not those of its {sizes['d']} columns")
    require_reachable(forms)
    estimator = _class(name)(**parameters)
    vars(estimator).update(attributes)
    if names := attributes.get("feature_names_in_"):
        if len(names) != attributes["n_features_in_"] or not all(isinstance(name, str) for name in names):
            raise ValueError(f"it does not name its {attributes['n_features_in_']} columns")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if hasattr(estimator, "check_loaded"):
        estimator.check_loaded()
    return estimator


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
