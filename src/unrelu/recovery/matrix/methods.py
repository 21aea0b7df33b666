"""The methods by name."""

from __future__ import annotations

from unrelu.errors import InvalidParameterError
from unrelu.recovery.matrix.contracts import MatrixMethod
from unrelu.recovery.matrix.descent import CensoredALS
from unrelu.validation import check_choice

_NAMES = {"CensoredALS": "censored_als", "TobitEM": "tobit_em"}  # of classes


def matrix_method(method: str | MatrixMethod) -> MatrixMethod:
    """The method of that name with its default parameters, or the object itself."""
    if not isinstance(method, str):
        if not callable(getattr(method, "recover", None)):
            raise InvalidParameterError(
                f"method must be a name or an object of unrelu.recovery, got {method!r}. Names:"
                f" {', '.join(_NAMES.values())}."
            )
        return method
    check_choice("method", method, [*_NAMES.values(), "likelihood"])
    if method == "likelihood":
        raise InvalidParameterError(
            "method='likelihood' needs the bias's density: give"
            " unrelu.papers.Likelihood(scipy.stats.norm(0, 1)), or whatever distribution the biases have."
        )
    if method == "censored_als":
        return CensoredALS()
    from unrelu.recovery.matrix.tobit import TobitEM  # the default one does not wait for it

    return TobitEM()


def method_name(method: MatrixMethod) -> str:
    """What reports call a method: its name, or its class's."""
    kind = type(method).__name__
    return _NAMES.get(kind, kind.lower())
