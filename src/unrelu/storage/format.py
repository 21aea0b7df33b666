"""Files of this package: NumPy archives without pickle, whose plain names can be read without the code.

The entry ``header`` is JSON: the format, its version, ``details``, the names of ``arrays``, and everything that is no
array. Every other entry is an array, named by the path to its place: "covariance", "observed.count",
"margins.1.values". Together they are the *state* of one object of the public classes that :mod:`unrelu` offers.

Types are the schema: a state is checked against the types of fields while objects are made of it. ``Annotated`` adds
what a type cannot express: "floats d d", "ints d", "bools 2 d" (arrays whose axes have sizes; equal letters are equal
sizes), "unbounded floats d" (numbers may be infinite or NaN), "finite" (a float), "size d" (an int that d is equal to),
and for a tuple the letter of its size. A size holds for all parts inside the object that has it; a size that first
occurs inside a part is that part's own, and "own sizes" makes all sizes of a part its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, reduce
from inspect import signature
from numbers import Integral, Real
from operator import or_
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from unrelu import margins, registry
from unrelu._version import __version__
from unrelu.errors import InvalidDataError, InvalidParameterError, ModelFileError
from unrelu.storage.files import FilePath, atomic_write

VERSION = 5
_PARAMETER = "parameter in files"
MODEL = "RectifiedGaussian"
_OWN = ("format", "format_version", "unrelu_version", "details", "arrays")  # in a header, and no part of a state
_PARAMETER_TYPE: Any = object  # of a parameter of an estimator, whose state :func:`_parameter` gives
_PLAIN: dict[Any, tuple[str, type[Any]]] = {
    int: ("int", Integral),
    float: ("float", Real),
    str: ("text", str),
    bool: ("bool", bool),
}
_ARRAYS = {"floats": "f", "ints": "i", "bools": "b"}
_UNIONS = (Union, UnionType)
_LARGEST, _MOST = float(np.finfo(float).max), 2**62

T = TypeVar("T")
State = dict[str, Any]


def write(path: FilePath, value: Any, details: Mapping[str, Any] | None = None) -> None:
    """Write an object to ``path``, exactly that name; ``details`` are facts for the file's header."""
    name, arrays = type(value).__name__, dict[str, Any]()
    if name not in registry.offered("file") or type(value) is not registry.find("file", name):
        raise InvalidParameterError(f"{value!r} cannot be saved: its class has no files.")
    facts: State = parted(state_of(value), "", arrays)
    own = {"format": f"unrelu.{name}", "format_version": VERSION, "unrelu_version": __version__}
    try:
        own |= {"details": dict(details or {}), "arrays": list(arrays)}
        stated = json.dumps({**own, **facts}, default=_listed).encode()
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"details must be plain JSON values: {error}.") from error
    with atomic_write(path) as stream:
        np.savez(stream, header=np.frombuffer(stated, dtype=np.uint8), **arrays)


def read(path: FilePath, kind: type[T]) -> T:
    """The object that :func:`write` wrote, if it is of that class."""
    header = read_header(path, kind.__name__)
    called = registry.offered("file")[kind.__name__]
    arrays = _picked(path, lambda file: {name: file[name] for name in file.files if name != "header"}, called)
    try:
        if missing := set(header.get("arrays", ())) - set(arrays):
            raise InvalidDataError(f"it lacks its array {min(missing)}")
        with np.errstate(all="ignore"):  # a hostile number is refused, without a warning
            value: T = made_of(kind, joined({name: each for name, each in header.items() if name not in _OWN}, arrays))
    except RecursionError as error:
        raise damaged(path, "its values are nested too deep") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise damaged(path, error) from error
    return value


def load(path: FilePath) -> Any:
    """The object that was saved at ``path``: a model, a fitted estimator, peeled layers, a record, a state.

    >>> import pathlib, tempfile
    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(500, random_state=1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "learner.unrelu"
    >>> unrelu.RectifiedGaussianLearner("one_pass").fit(X).save(path)
    >>> unrelu.load(path).partial_fit(X).report_.n_rows
    1000
    """
    name = (stated_format(path) or f"unrelu.{MODEL}").removeprefix("unrelu.")
    if name not in registry.offered("file"):
        raise ModelFileError(f"{path} holds a {name!r}, which this version cannot read: upgrade unrelu.")
    return read(path, registry.find("file", name))


def read_header(path: FilePath, name: str) -> State:
    """The header of the file of an object of that class: its format and version, details, everything but arrays."""
    called, place = registry.offered("file")[name], os.fspath(path)
    header = _picked(path, lambda file: json.loads(file["header"].tobytes().decode()), called)
    if not isinstance(header, dict) or header.get("format") != f"unrelu.{name}":
        raise ModelFileError(f"{place} is not an unrelu {called}.")
    version = header.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelFileError(f"{place} is damaged: it states no format version.")
    if version < VERSION:
        raise ModelFileError(f"{place} is from before the first release and cannot be read: make the file again.")
    if version > VERSION:
        raise ModelFileError(
            f"{place} was written by a newer unrelu (format {version}); this one reads up to {VERSION}: upgrade unrelu."
        )
    return header


def stated_header(path: FilePath) -> State:
    """The header of an archive of this package, unchecked; empty for any other file."""
    with suppress(Exception):
        header = _picked(path, lambda file: json.loads(file["header"].tobytes().decode()), "file")
        return header if isinstance(header, dict) else {}
    return {}


def stated_format(path: FilePath) -> str | None:
    """The format that an archive's header names, or None for any other file."""
    name = stated_header(path).get("format")
    return name if isinstance(name, str) else None


def foreign_arrays(path: FilePath, names: Sequence[str], called: str) -> dict[str, Any]:
    """The named arrays of an archive that is not this package's, as far as it has them; messages name it ``called``."""
    return _picked(path, lambda file: {name: file[name] for name in names if name in file.files}, called, f"a {called}")


def damaged(path: FilePath, why: object) -> ModelFileError:
    """The error for a file whose content contradicts itself."""
    return ModelFileError(f"{os.fspath(path)} is damaged: {str(why).rstrip('.')}.")


def _picked(path: FilePath, pick: Callable[[Any], T], called: str, foreign: str = "") -> T:
    """What ``pick`` takes from the archive at ``path``; every way of failing has one clear line."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            unpacked = sum(entry.file_size for entry in archive.zip.infolist())
            if unpacked > os.path.getsize(path) and not foreign:
                raise ValueError("files of this package are not compressed, and this one could fill the memory")
            return pick(archive)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelFileError(f"There is no {called} {name}.") from error
    except IsADirectoryError as error:
        raise ModelFileError(f"{name} is a folder, not a {called}.") from error
    except PermissionError as error:
        raise ModelFileError(f"{name} may not be read: {error.strerror}.") from error
    except Exception as error:  # the readers of zip files and arrays raise a dozen types for foreign bytes
        raise ModelFileError(f"{name} is not {foreign or f'an unrelu {called}'}, or is damaged.") from error


# --- states and archives --------------------------------------------------------------------------


def parted(value: Any, place: str, arrays: dict[str, Any]) -> Any:
    """A state as JSON holds it, None in place of arrays, which go to ``arrays`` by the path to their place."""
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

    def key(node: Any, step: str) -> Any:
        return int(step) if isinstance(node, list) and step.isdecimal() else step

    for path, array in arrays.items():
        *way, last = path.split(".")
        node: Any = state
        try:
            for step in way:
                node = node[key(node, step)]
            there = node[key(node, last)] if isinstance(node, list) else node.get(last)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InvalidDataError(f"there is no place for its array {path}") from error
        if there is not None:
            raise InvalidDataError(f"it states {path} twice")
        node[key(node, last)] = array
    return state


def _listed(value: object) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not one")


# --- from objects to states, and back -------------------------------------------------------------
# Files leave out a ``field(metadata={"in files": False})`` of a dataclass. A class may have another state than its
# fields: ``STATE``, names with their types, which ``to_state()`` gives and ``from_state(state)`` takes. The state of an
# estimator are its parameters and the attributes that ``stored()`` names.


def state_of(value: Any) -> Any:
    """Objects of this package, and the objects in them, by plain names; anything else as it is."""
    if hasattr(value, "stored"):
        names = getattr(value, "feature_names_in_", None)
        return {
            "parameters": {name: _parameter(each) for name, each in value.get_params(deep=False).items()},
            "n_features_in": getattr(value, "n_features_in_", None),
            "feature_names_in": None if names is None else names.tolist(),
            **{name.strip("_"): state_of(vars(value).get(name)) for name in value.stored()},
        }
    if hasattr(value, "to_state"):
        return state_of(value.to_state())
    if margins.is_margin(value):
        if type(value) not in margins.KINDS.values():
            raise InvalidParameterError(f"Only margins of unrelu.margins can be saved, got {value!r}.")
        return {"margin": value.kind, **{each.name: state_of(getattr(value, each.name)) for each in fields(value)}}
    if is_dataclass(value):
        return {each.name: state_of(getattr(value, each.name)) for each in fields(value) if _is_stored(each)}
    if isinstance(value, Mapping):
        return {name: state_of(item) for name, item in value.items()}
    return [state_of(item) for item in value] if isinstance(value, list | tuple) else value


def made_of(hint: Any, state: Any, place: str = "it", sizes: dict[str, int] | None = None) -> Any:
    """A value of that type from its state; InvalidDataError where the state is not one of that type.

    >>> made_of(tuple[int, ...] | None, [1, 2])
    (1, 2)
    >>> made_of(Annotated[np.ndarray, "floats d"], np.array([np.nan]), "mean")
    Traceback (most recent call last):
    ...
    unrelu.errors.InvalidDataError: mean holds values that are not finite
    """
    sizes, words = {} if sizes is None else sizes, ""
    if get_origin(hint) is Annotated:
        hint, words = get_args(hint)
    if words == "own sizes":
        sizes, words = {}, ""
    some = get_args(hint)
    if type(None) in some:
        if state is None:
            return None
        return made_of(reduce(or_, (each for each in some if each is not type(None))), state, place, sizes)
    if isinstance(words, Mapping):
        return _made_parts(words, state, place, sizes)
    if get_origin(hint) in (tuple, list):
        if not isinstance(state, list):
            raise InvalidDataError(f"{place} is no list")
        open_ended = get_origin(hint) is list or some[-1] is ...
        n = len(some) if not open_ended else sizes.setdefault(words, len(state)) if words else len(state)
        if len(state) != n:
            raise InvalidDataError(f"{place} has {len(state)} items instead of {n}")
        hints = [some[0]] * n if open_ended else some
        items = (made_of(each, state[at], f"{place}.{at}", dict(sizes)) for at, each in enumerate(hints))
        return get_origin(hint)(items)
    if hint is _PARAMETER_TYPE:
        return _parameter_of(state)
    if hint is Any or get_origin(hint) is Mapping:
        return _plain_json(state, place)
    if kinds := _classes(hint):
        return _made_object(_one_of(kinds, state), state, place, sizes)
    return _checked(state, some if get_origin(hint) in _UNIONS else (hint,), words.split(), place, sizes)


def _made_parts(parts: Mapping[str, Any], state: Any, place: str, sizes: dict[str, int]) -> State:
    """Values by their names, each of its type."""
    if not isinstance(state, dict):
        raise InvalidDataError(f"{place} is {state!r:.60} instead of names with values")
    if unknown := set(state) - set(parts):
        raise InvalidDataError(f"{place} has {min(unknown)!r}, which this version cannot read")
    found, own = {}, dict(sizes)
    for name, hint in parts.items():
        if name not in state and type(None) not in get_args(hint):
            raise InvalidDataError(f"its header lacks {name!r}")
        found[name] = made_of(hint, state.get(name), name if place == "it" else f"{place}.{name}", own)
    return found


def _made_object(kind: Any, state: Any, place: str, sizes: dict[str, int]) -> Any:
    found = _made_parts(_parts_of(kind), state, place, sizes)
    if hasattr(kind, "stored"):
        value = kind(**found["parameters"])
        if (names := found["feature_names_in"]) is not None:
            found["feature_names_in"] = np.array(names, dtype=object)
        for name in ("n_features_in_", "feature_names_in_", *kind.stored()):
            if found[name.strip("_")] is not None:
                setattr(value, name, found[name.strip("_")])
    elif hasattr(kind, "from_state"):
        value = kind.from_state(found)
    else:
        value = kind(**{name: each for name, each in found.items() if name != "margin"})
    if hasattr(value, "check_loaded"):
        value.check_loaded()
    return value


def _checked(value: Any, kinds: Sequence[Any], words: list[str], place: str, sizes: dict[str, int]) -> Any:
    """A number, a text or an array as it is, if it is of the type and the sizes that are required."""
    unbounded = words[:1] == ["unbounded"]
    kind, *axes = words[unbounded:] or [""]
    if kind in _ARRAYS:
        shape = getattr(value, "shape", None)
        if shape is None or len(shape) != len(axes):
            raise InvalidDataError(f"{place} has shape {shape} instead of {len(axes)} dimensions")
        expected = tuple(
            int(axis) if axis.isdecimal() else sizes.setdefault(axis, size)
            for axis, size in zip(axes, shape, strict=True)
        )
        if shape != expected:
            raise InvalidDataError(f"{place} has shape {shape} instead of {expected}")
        if value.dtype.kind != _ARRAYS[kind]:
            raise InvalidDataError(f"{place} holds {value.dtype.name} values")
        if kind == "floats" and not unbounded and not np.isfinite(value).all():
            raise InvalidDataError(f"{place} holds values that are not finite")
        return value
    if not set(kinds) <= set(_PLAIN):
        raise NotImplementedError(f"{place} needs an annotation of its state")
    types = [_PLAIN[each] for each in kinds]
    is_one = any(isinstance(value, base) and isinstance(value, bool) == (word == "bool") for word, base in types)
    if not is_one or (float in kinds and isinstance(value, int) and abs(value) > _LARGEST):
        raise InvalidDataError(f"{place} is {value!r:.60}, not of type {' or '.join(word for word, _ in types)}")
    if kind == "finite" and not np.isfinite(value):
        raise InvalidDataError(f"{place} is {value}")
    if kind == "size" and (not 0 <= value < _MOST or sizes.setdefault(axes[0], value) != value):
        raise InvalidDataError(f"{place} is {value!r:.60}, which does not fit its arrays")
    return value


def _plain_json(value: Any, place: str) -> Any:
    """The value, if there is no array in it."""
    if isinstance(value, np.ndarray):
        raise InvalidDataError(f"there is no place for an array at {place}")
    for name, item in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        _plain_json(item, f"{place}.{name}")
    return value


def _is_stored(field: Any) -> bool:
    return bool(field.metadata.get("in files", True))


@cache
def _parts_of(kind: Any) -> dict[str, Any]:
    """The names in the state of an object of that class, and their types."""
    if hasattr(kind, "stored"):
        return {
            "parameters": Annotated[Any, dict.fromkeys(signature(kind).parameters, _PARAMETER_TYPE)],
            "n_features_in": Annotated[int, "size d"] | None,
            "feature_names_in": Annotated[tuple[str, ...], "d"] | None,
            **{name.strip("_"): hint for name, hint in kind.stored().items()},
        }
    if hasattr(kind, "STATE"):
        return dict(kind.STATE)
    hints = get_type_hints(kind, include_extras=True)
    own = {each.name: hints[each.name] for each in fields(kind) if _is_stored(each)}
    return {"margin": str, **own} if kind in margins.KINDS.values() else own


def _classes(hint: Any) -> list[type[Any]]:
    """The classes of this package that a class or a union means, and those derived from them."""
    if hint is margins.Margin:
        return list(margins.KINDS.values())
    found: list[type[Any]] = []
    for kind in get_args(hint) if get_origin(hint) in _UNIONS else (hint,):
        if isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "stored")):
            found += [kind, *_classes_below(kind)]
    return found


def _classes_below(kind: type[Any]) -> list[type[Any]]:
    return [each for below in kind.__subclasses__() for each in (below, *_classes_below(below))]


def _one_of(kinds: Sequence[Any], state: Any) -> Any:
    """The class that has the names of a state."""
    if kinds[0] in margins.KINDS.values():
        called = state.get("margin") if isinstance(state, dict) else state
        for kind in kinds:
            if kind.kind == called:
                return kind
        raise InvalidDataError(f"it holds a margin {called!r:.40}, which this version cannot read")
    if len(kinds) == 1 or not isinstance(state, dict):
        return kinds[0]
    return min(kinds, key=lambda kind: len(set(_parts_of(kind)) ^ set(state)))


# --- parameters of estimators ---------------------------------------------------------------------


@dataclass(frozen=True)
class Unsaved:
    """Stands for a parameter that no file can hold, such as a generator or an object of a user's class."""

    text: str


def _parameter(value: Any) -> Any:
    """A parameter as a state has it: its text, where it is neither plain nor of a public class."""
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
    if type(value) in margins.KINDS.values():
        return {"margin": state_of(value)}
    name = type(value).__name__
    if name in registry.offered(_PARAMETER) and type(value) is registry.find(_PARAMETER, name):
        own = [[each.name, _parameter(getattr(value, each.name))] for each in fields(value)]
        return {"object": name, "parameters": own}
    return {"unsaved": repr(value)}


def _parameter_of(state: Any) -> Any:
    """The parameter of a state that :func:`_parameter` gave."""
    if isinstance(state, list):
        return [_parameter_of(item) for item in state]
    if not isinstance(state, dict):
        return state
    if "map" in state:
        return {_parameter_of(key): _parameter_of(item) for key, item in state["map"]}
    if "tuple" in state:
        return tuple(_parameter_of(item) for item in state["tuple"])
    if "unsaved" in state:
        return Unsaved(str(state["unsaved"]))
    if "margin" in state:
        return made_of(margins.Margin, state["margin"], "margin")
    if (name := state.get("object")) not in registry.offered(_PARAMETER):
        raise InvalidDataError(f"it holds a {name!r:.40}, which this version cannot read")
    kind = registry.find(_PARAMETER, name)
    given, hints = {key: _parameter_of(item) for key, item in state["parameters"]}, get_type_hints(kind)
    if unknown := set(given) - {each.name for each in fields(kind)}:
        raise InvalidDataError(f"{name} has {min(unknown, key=str)!r}, which this version cannot read")
    for key, value in given.items():
        if hints.get(key) in _PLAIN:
            made_of(hints[key], value, f"{name}.{key}")
    return kind(**given)
