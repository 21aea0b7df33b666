"""Files of ours, changed by hand: what a damaged or foreign file may look like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np


def members(path: Any) -> dict[str, Any]:
    """The arrays of an archive, the header as what its JSON says."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return {**arrays, "header": json.loads(arrays["header"].tobytes().decode())}


def rewrite(path: Any, arrays: Mapping[str, Any] | None = None, facts: Mapping[str, Any] | None = None) -> None:
    """Replace arrays (None: left out) and facts of the header, found by keys joined by "/" (...: left out)."""
    found = members(path)
    header = found.pop("header")
    for place, value in (facts or {}).items():
        *way, last = place.split("/")
        node = header
        for key in way:
            node = node[key]
        if value is ...:
            del node[last]
        else:
            assert last in node, f"{place}: there is nothing to change"
            node[last] = value
    assert set(arrays or {}) <= set(found), f"no such arrays; there are {sorted(found)}"
    kept = {name: value for name, value in {**found, **(arrays or {})}.items() if value is not None}
    with open(path, "wb") as stream:
        np.savez(stream, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **kept)
