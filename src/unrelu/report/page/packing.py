"""Numbers and names as a page may hold them: everything from a table is taken for hostile."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray

LONGEST_NAME = 60  # characters of a column's name that the page shows; the numbers to download have all of it
_STEPS = 10_000  # a correlation is kept to four digits
_UNKNOWN = 32_767


def page_text(text: str, longest: int = LONGEST_NAME) -> str:
    """A name as it is shown: cut, no lone surrogates, which no file can hold.

    >>> page_text("arsenic"), page_text("x" * 99, 5), page_text("a" + chr(0xd800))
    ('arsenic', 'xxxx…', 'a?')
    """
    text = text[: longest + 1].encode("utf-8", "replace").decode()
    return text if len(text) <= longest else text[: longest - 1] + "…"


def middle_cut(text: str, longest: int = 22) -> str:
    """A name without its middle where it is long: names of one table often differ at their ends only.

    >>> middle_cut("whole_set1_tech1", 11), middle_cut("As")
    ('whole…tech1', 'As')
    """
    if len(text) <= longest:
        return page_text(text)
    end = (longest - 1) // 2
    return page_text(f"{text[: longest - 1 - end]}…{text[-end:]}")


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: it holds no character that ends one, nor a line separator.

    >>> script_json({"</script>": [1.0, float("nan")]})
    '{"\\\\u003c/script\\\\u003e":[1.0,null]}'
    """
    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":"))  # ASCII: other characters are escaped
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def plain(value: Any) -> Any:
    """What JSON can hold: null for numbers that are not finite.

    >>> plain({"a": (1, float("inf"))})
    {'a': [1, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)


def rounded(values: FloatArray | Iterable[float], digits: int = 4) -> list[float | None]:
    """Numbers to a few significant digits, None where there is none: they take less room.

    >>> rounded([1.23456, float("nan"), 1e300])
    [1.235, None, 1e+300]
    """
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in np.asarray(values).tolist()]


def packed_correlations(values: FloatArray) -> str:
    """Numbers from -2 to 2 as base64 of 16-bit integers, little end first; NaN is the largest.

    >>> packed_correlations(np.array([0.5, np.nan]))
    'iBP/fw=='
    """
    steps = np.where(np.isnan(values), _UNKNOWN, np.round(values * _STEPS)).astype("<i2")
    return base64.b64encode(steps.tobytes()).decode()


def packed_script(script: str) -> str:
    """A script, compressed: a third of its size, which the page unpacks."""
    return base64.b64encode(gzip.compress(script.encode(), 9, mtime=0)).decode()


def script_hash(script: str) -> str:
    """What a content security policy calls a script that may run.

    >>> script_hash("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
