"""The methods by name."""

from __future__ import annotations

from unrelu.errors import InvalidParameterError
from unrelu.recovery.matrix.contracts import MatrixMethod
from unrelu.recovery.matrix.descent import CensoredALS
from unrelu.recovery.matrix.tobit import TobitEM
from unrelu.validation import check_choice

_BY_NAME: dict[str, type[MatrixMethod]] = {
    "censored_als": CensoredALS,
    "tobit_em": TobitEM,
}


def matrix_method(method: str | MatrixMethod) -> MatrixMethod:
    """The method of that name with its default parameters, or the object itself."""
    if not isinstance(method, str):
        if not callable(getattr(method, "recover", None)):
            raise InvalidParameterError(
                f"method must be a name or an object of unrelu.recovery, got {method!r}. Names: {', '.join(_BY_NAME)}."
            )
        return method
    check_choice("method", method, [*_BY_NAME, "likelihood"])
    if method == "likelihood":
        raise InvalidParameterError(
            "method='likelihood' needs the bias's density: give"
            " unrelu.papers.Likelihood(scipy.stats.norm(0, 1)), or whatever distribution the biases have."
        )
    return _BY_NAME[method]()


def method_name(method: MatrixMethod) -> str:
    """What reports call a method: its name, or its class's."""
    names = {kind: name for name, kind in _BY_NAME.items()}
    return names.get(type(method), type(method).__name__.lower())
