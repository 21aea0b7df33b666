"""Rows on a device: what is solved from them may use it, and answers go back to it where scikit-learn asks for that."""

from __future__ import annotations

from typing import Any

import sklearn

from unrelu.contracts import FloatArray
from unrelu.passes.device import Place


class OnDevice:
    """The part of an estimator that knows where its rows were. Files and copies do not: devices come and go."""

    _place: Place | None = None
    _answers_on: Place | None = None  # the same, where scikit-learn's ``array_api_dispatch`` was set

    def _found_at(self, place: Place | None, reset: bool) -> None:
        """Remember the device of the rows, where they are on one."""
        if reset:
            for name in ("_place", "_answers_on"):
                self.__dict__.pop(name, None)
        if place is not None:
            self._place = place
            config: dict[str, Any] = sklearn.get_config()  # type: ignore[attr-defined]
            if config["array_api_dispatch"]:
                self._answers_on = place

    def _handed_out(self, array: FloatArray) -> Any:
        return array if self._answers_on is None else self._answers_on.array(array)
