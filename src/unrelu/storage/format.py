"""Files of ours: NumPy archives without pickle, of plain names that mean something to who has never seen the code.

The entry ``header`` is JSON: the format, its version, ``details``, and whatever is no array. Every other entry is an
array, named by the path to its place: "covariance", "observed.count", "shapes.1.values". Together they are the *state*
of one object of the public classes below, which gives it as ``to_state()`` and is made of it by ``from_state(state)``;
``STATE`` beside these is the schema that a file is checked against before anything is made of it.

A schema is a dict of names (or of numbers: a list of just so many items), a list of one schema for all items, (schema,
None) where nothing may be there, a function from what is there to its schema, or words: "int", "float", "text", "bool"
or several with | between them, "size d" (an int that says how many d are), "floats d d", "ints d", "bools d" (arrays
whose axes have sizes; equal letters are equal sizes), "any" (plain JSON). "unbounded" before floats allows values that
are not finite. A list may have a size as well: ["text", "d"]. Sizes that first occur within an item of a list or a
dict are its own, and all of one that states a size. Types of fields give the schema: :func:`schema_of`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import reduce
from numbers import Integral, Real
from operator import or_
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from unrelu import registry, shapes
from unrelu._version import __version__
from unrelu.errors import InvalidDataError, InvalidParameterError, ModelFileError
from unrelu.storage.files import FilePath, atomic_write

VERSION = 4
MODEL = "RectifiedGaussian"
_OWN = ("format", "format_version", "unrelu_version", "details")  # names in a header that are no part of a state
_PLAIN: dict[str, Any] = {"int": Integral, "float": Real, "text": str, "bool": bool}
_WORDS = {int: "int", float: "unbounded float", str: "text", bool: "bool", Any: "any"}
_ARRAYS = {"floats": "f", "ints": "i", "bools": "b"}

T = TypeVar("T")
State = dict[str, Any]


def write(path: FilePath, value: Any, details: Mapping[str, Any] | None = None) -> None:
    """Write an object to ``path``, exactly that name; ``details`` are facts for the file's header."""
    name, arrays = type(value).__name__, dict[str, Any]()
    if name not in registry.saved():
        raise InvalidParameterError(f"{value!r} cannot be saved: it is of no class that files are of.")
    facts: State = parted(state_of(value), "", arrays)
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
    called = registry.saved()[kind.__name__]
    arrays = _picked(path, lambda file: {name: file[name] for name in file.files if name != "header"}, called)
    try:
        with np.errstate(all="ignore"):  # a hostile number is refused, not warned of
            state = joined({name: value for name, value in header.items() if name not in _OWN}, arrays)
            value: T = made_of(kind, checked(state, schema_of(kind)))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, f"its header lacks {error}" if isinstance(error, KeyError) else error) from error
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
    if name not in registry.saved():
        raise ModelFileError(f"{path} holds a {name!r}, which this version does not know: upgrade unrelu.")
    return read(path, registry.saved_class(name))


def read_header(path: FilePath, name: str) -> State:
    """What the file of an object of that class states about itself: its format and version, details, all but arrays."""
    called, place = registry.saved()[name], os.fspath(path)
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
    found, sizes = {}, {} if _has_own_size(schema) else dict(sizes)
    for name, wanted in schema.items():
        if name not in value and not isinstance(wanted, tuple):
            raise KeyError(name)
        found[name] = checked(value.get(name), wanted, name if place == "it" else f"{place}.{name}", sizes)
    return found


def _has_own_size(schema: Mapping[Any, Any]) -> bool:
    return any(isinstance(each, str) and each.startswith("size ") for each in schema.values())


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


# --- from types to schemas, from values to states and back ----------------------------------------
# A hint is a type as annotations have it: a plain type, Annotated[FloatArray, "floats d d"] or with any other schema, a
# dataclass, a class with a STATE, an estimator, tuples (Annotated with their size) and unions of these. Where a class
# is meant, one derived from it may be there: the names in the state tell which. What is not written of a dataclass is
# a ``field(metadata={"in files": False})``.


def state_of(value: Any) -> Any:
    """Objects of ours, and those in them, by plain names; anything else as it is."""
    if hasattr(value, "stored"):
        return _state_of_estimator(value)
    if shapes.is_shape(value):
        return shapes.to_state(value)
    if hasattr(value, "to_state"):
        return value.to_state()
    if is_dataclass(value):
        return {each.name: state_of(getattr(value, each.name)) for each in _stored_fields(type(value))}
    return [state_of(item) for item in value] if isinstance(value, list | tuple) else value


def schema_of(hint: Any) -> Any:
    """The schema of :func:`state_of` what has that type.

    >>> schema_of(tuple[int, ...]), schema_of(float | None)
    (['int'], ('unbounded float', None))
    """
    some = get_args(hint)
    if get_origin(hint) is Annotated:
        return [*schema_of(some[0]), some[1]] if get_origin(some[0]) is tuple else some[1]
    if hint in _WORDS:
        return _WORDS[hint]
    if get_origin(hint) in (Union, UnionType) and all(each in _WORDS for each in some):
        return "|".join(_WORDS[each] for each in some)
    if type(None) in some:
        return (schema_of(_without_none(hint)), None)
    if get_origin(hint) is tuple and some[-1] is ...:
        return [schema_of(some[0])]
    if get_origin(hint) is tuple:
        return {number: schema_of(each) for number, each in enumerate(some)}
    if get_origin(hint) is Mapping:
        return "any"
    if hint is shapes.Shape:
        return shapes.schema
    if kinds := _classes(hint):
        return lambda state: _schema_of_class(_one_of(kinds, state))
    raise TypeError(f"{hint} needs a schema")


def made_of(hint: Any, state: Any) -> Any:
    """A value of that type from its checked state."""
    some = get_args(hint)
    if state is None or get_origin(hint) is Mapping:
        return state
    if get_origin(hint) is Annotated:
        return made_of(some[0], state)
    if type(None) in some:
        return made_of(_without_none(hint), state)
    if get_origin(hint) is tuple:
        hints = [some[0]] * len(state) if some[-1] is ... else some
        return tuple(made_of(each, item) for each, item in zip(hints, state, strict=True))
    if hint is shapes.Shape:
        return shapes.from_state(state)
    if not (kinds := _classes(hint)):
        return state
    kind: Any = _one_of(kinds, state)
    if hasattr(kind, "stored"):
        return _estimator_of(kind, state)
    if hasattr(kind, "from_state"):
        return kind.from_state(state)
    types = get_type_hints(kind, include_extras=True)
    return kind(**{each.name: made_of(types[each.name], state[each.name]) for each in _stored_fields(kind)})


def _stored_fields(kind: Any) -> list[Any]:
    return [each for each in fields(kind) if each.metadata.get("in files", True)]


def _without_none(hint: Any) -> Any:
    """A union without None."""
    return reduce(or_, (each for each in get_args(hint) if each is not type(None)))


def _classes(hint: Any) -> list[type[Any]]:
    """The classes of ours that a class or a union means, and those derived from them."""
    found: list[type[Any]] = []
    for kind in get_args(hint) or (hint,):
        if isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "stored")):
            found += [kind, *_classes_below(kind)]
    return found


def _classes_below(kind: type[Any]) -> list[type[Any]]:
    return [each for below in kind.__subclasses__() for each in (below, *_classes_below(below))]


def _one_of(kinds: Sequence[type[Any]], state: Any) -> type[Any]:
    """The class whose names a state has."""
    if len(kinds) == 1 or not isinstance(state, dict):
        return kinds[0]
    return min(kinds, key=lambda kind: len(set(_schema_of_class(kind)) ^ set(state)))


def _schema_of_class(kind: Any) -> dict[Any, Any]:
    if hasattr(kind, "stored"):
        return {
            "parameters": "any",
            "n_features_in": ("size d", None),
            "feature_names_in": (["text", "d"], None),
            **{name.strip("_"): (schema_of(hint), None) for name, hint in kind.stored().items()},
        }
    if hasattr(kind, "STATE"):
        found: dict[Any, Any] = kind.STATE
        return found
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: schema_of(hints[each.name]) for each in _stored_fields(kind)}


# --- estimators -----------------------------------------------------------------------------------
# Their parameters, and what they have learned: the attributes that ``stored()`` names, with their types.


@dataclass(frozen=True)
class Unsaved:
    """Stands for a parameter that no file can hold, such as a generator or an object of the user's own."""

    text: str


def _state_of_estimator(estimator: Any) -> State:
    own, names = vars(estimator), getattr(estimator, "feature_names_in_", None)
    return {
        "parameters": {name: _parameter(value) for name, value in estimator.get_params(deep=False).items()},
        "n_features_in": getattr(estimator, "n_features_in_", None),
        "feature_names_in": None if names is None else names.tolist(),
        **{name.strip("_"): state_of(own.get(name)) for name in estimator.stored()},
    }


def _estimator_of(kind: Any, state: State) -> Any:
    parameters = {name: _parameter_of(each) for name, each in state["parameters"].items()}
    estimator = kind(**parameters)
    if state["n_features_in"] is not None:
        estimator.n_features_in_ = state["n_features_in"]
    if (names := state["feature_names_in"]) is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    for name, hint in kind.stored().items():
        value = made_of(hint, state[name.strip("_")])
        if value is not None:
            setattr(estimator, name, value)
    estimator.check_loaded()
    return estimator


def _parameter(value: Any) -> Any:
    """A parameter as a state has it; what is neither plain nor public is told as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {"map": [[_parameter(key), _parameter(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        items = [_parameter(item) for item in value]
        return {"tuple": items} if isinstance(value, tuple) else items
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return [_parameter(item) for item in array.tolist()] if array.dtype == object else array
    if shapes.is_shape(value) and type(value) in shapes.KINDS.values():
        return {"shape": shapes.to_state(value)}
    name = type(value).__name__
    if registry.saved().get(name) == registry.PARAMETER and type(value) is registry.saved_class(name):
        return {
            "object": name,
            "parameters": [[each.name, _parameter(getattr(value, each.name))] for each in fields(value)],
        }
    return {"unsaved": repr(value)}


def _parameter_of(state: Any) -> Any:
    """What :func:`_parameter` told."""
    if isinstance(state, list):
        return [_parameter_of(item) for item in state]
    if not isinstance(state, dict):
        return state
    if "map" in state:
        return {_parameter_of(key): _parameter_of(item) for key, item in state["map"]}
    if "tuple" in state:
        return tuple(_parameter_of(item) for item in state["tuple"])
    if "unsaved" in state:
        return Unsaved(state["unsaved"])
    if "shape" in state:
        return shapes.from_state(checked(state["shape"], shapes.schema))
    if registry.saved().get(name := state["object"]) != registry.PARAMETER:
        raise ValueError(f"it holds a {name!r}, which this version does not know")
    kind = registry.saved_class(name)
    given, hints = {key: _parameter_of(item) for key, item in state["parameters"]}, get_type_hints(kind)
    for key, value in given.items():
        if hints.get(key) in _WORDS:
            checked(value, _WORDS[hints[key]], f"{name}.{key}")
    return kind(**given)
