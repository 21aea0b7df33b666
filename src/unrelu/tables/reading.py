"""How a table is to be read where that is not plain: its header, its limits, its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from unrelu.errors import InvalidParameterError
from unrelu.validation import check_choice

LIMITS, NONDETECT = ("one", "highest", "missing", "cell"), ("missing", "floor")


@dataclass(frozen=True)
class Reading:
    """What :func:`unrelu.tables.open_samples` is asked for besides columns; see there."""

    header: bool | None = None
    decimal: str | None = None
    limits: str | None = None
    nondetect: Any = None
    sheet: str | int | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        check_choice("decimal", self.decimal or ".", (".", ","))
        check_choice("limits", self.limits or "one", LIMITS)
        if isinstance(self.nondetect, str):
            check_choice("nondetect", self.nondetect, NONDETECT)
        elif not isinstance(self.nondetect, Real | Mapping | None):
            raise InvalidParameterError(
                f"nondetect must be 'missing', 'floor', a number, or numbers by column; got {self.nondetect!r}.",
                parameter="nondetect",
            )

    @property
    def thorough(self) -> bool:
        """Whether all of a file is looked through for text before its rows are used."""
        return self.limits is not None or self.floors_nondetects

    @property
    def floors_nondetects(self) -> bool:
        return not (self.nondetect is None or (isinstance(self.nondetect, str) and self.nondetect == "missing"))

    def nondetect_floor(self, name: str | None, position: int, has_limit: bool) -> float | None:
        """The value given for cells of a column that are not detected; one for all is for columns without a limit."""
        if self.nondetect is None or isinstance(self.nondetect, str):
            return None
        if isinstance(self.nondetect, Real):
            return None if has_limit else float(self.nondetect)
        given = self.nondetect.get(name, self.nondetect.get(position))
        return None if given is None else float(given)
