"""What is known of c beforehand, as a penalty on it: nothing, normal, sparse, nonnegative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.validation import check_choice, check_positive


class Prior(Protocol):
    """``penalty`` is (ridge, sparsity, 1 if nonnegative) of :mod:`unrelu.kernels.latent_search`."""

    @property
    def penalty(self) -> FloatArray: ...

    @property
    def proper(self) -> bool:
        """Whether it determines c even where v does not."""
        ...


@dataclass(frozen=True)
class NoPrior:
    """Nothing is known of c: the default.

    >>> import unrelu
    >>> unrelu.recovery.RobustLatent(NoPrior()) == unrelu.recovery.RobustLatent()
    True
    """

    @property
    def penalty(self) -> FloatArray:
        return np.zeros(3)

    @property
    def proper(self) -> bool:
        return False


@dataclass(frozen=True)
class GaussianPrior:
    """c ~ N(0, scale^2 I): with scale 1 the z of the layers that RectifiedGaussianLearner learns.

    >>> GaussianPrior(2.0).penalty
    array([0.25, 0.  , 0.  ])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    @property
    def penalty(self) -> FloatArray:
        return np.array([self.scale**-2, 0.0, 0.0])

    @property
    def proper(self) -> bool:
        return True


@dataclass(frozen=True)
class SparsePrior:
    """Few entries of c differ from 0: a Laplace law of that scale, whose mode is penalized by |c|_1 / scale.

    >>> SparsePrior(0.5).penalty
    array([0., 2., 0.])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    @property
    def penalty(self) -> FloatArray:
        return np.array([0.0, 1.0 / self.scale, 0.0])

    @property
    def proper(self) -> bool:
        return True


@dataclass(frozen=True)
class NonnegativePrior:
    """c >= 0, as for the output of another rectified layer.

    >>> NonnegativePrior().penalty
    array([0., 0., 1.])
    """

    @property
    def penalty(self) -> FloatArray:
        return np.array([0.0, 0.0, 1.0])

    @property
    def proper(self) -> bool:
        return False


_BY_NAME: dict[str, type[GaussianPrior] | type[SparsePrior] | type[NonnegativePrior]] = {
    "gaussian": GaussianPrior,
    "sparse": SparsePrior,
    "nonnegative": NonnegativePrior,
}


def prior_named(prior: str | Prior | None) -> Prior:
    """The prior of that name, none for None, or the object itself."""
    if prior is None:
        return NoPrior()
    if isinstance(prior, str):
        check_choice("prior", prior, list(_BY_NAME))
        return _BY_NAME[prior]()
    if isinstance(prior, type) or not hasattr(prior, "penalty"):
        raise InvalidParameterError(
            f"prior must be None, a name or an object of unrelu.recovery, got {prior!r}. Names: {', '.join(_BY_NAME)}."
        )
    return prior


def prior_name(prior: Prior | None) -> str:
    """What reports call a prior: its name, or its class's; "none" for none.

    >>> prior_name(GaussianPrior(2.0)), prior_name(None)
    ('gaussian', 'none')
    """
    names: dict[type, str] = {kind: name for name, kind in _BY_NAME.items()} | {NoPrior: "none", type(None): "none"}
    return names.get(type(prior), type(prior).__name__.lower())
