"""Exceptions and warnings of this package. A message says what is wrong, where, and what to do next.

Every exception derives from :class:`UnreluError`; exceptions that data or parameters can provoke are also a
``ValueError``, as scikit-learn's conventions require. A line of a warning has a kind, such as "skewed", in brackets at
its end. A fit issues one warning at most, the most harmful line first; its class is that of its first line. Errors by
name and warnings by kind have an entry in docs/troubleshooting.md: what happened, and what to do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

__all__ = [
    "KINDS",
    "AssumptionWarning",
    "CannotPeelError",
    "CheckpointWarning",
    "ClusterError",
    "ConvergenceWarning",
    "DataWarning",
    "DeviceMemoryError",
    "InputFileError",
    "InvalidDataError",
    "InvalidParameterError",
    "MissingDependencyError",
    "ModelFileError",
    "NotSemidefiniteError",
    "OutputError",
    "RecoveryWarning",
    "UnreluError",
    "UnreluWarning",
    "about",
    "warning_class",
]


class _Explained(Exception):
    """Base of all below: what a message is about, and which page explains its class.

    ``parameter`` is the parameter at fault; ``rows`` are the numbers, from 0, of the rows that the message names.
    """

    def __init__(self, message: object = "", *, parameter: str | None = None, rows: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.rows = tuple(rows)

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.__doc__ = f"{cls.__doc__}\n\nExplained in docs/troubleshooting.md#{cls.__name__.lower()}"


class UnreluError(_Explained):
    """Base of every exception this package raises on purpose."""


class InvalidDataError(UnreluError, ValueError):
    """The table cannot be learned from: names the rows and columns at fault."""


class InvalidParameterError(UnreluError, ValueError):
    """A parameter is outside its domain."""


class CannotPeelError(InvalidDataError):
    """A layer cannot be peeled off; ``peeled`` holds the layers above it, ``report`` describes what was found of it."""

    def __init__(self, message: str, peeled: object = None, report: object = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.peeled = peeled
        self.report = report


class NotSemidefiniteError(InvalidDataError):
    """The estimates of pairs do not form a covariance; ``mean`` and ``covariance`` hold the estimates."""

    def __init__(self, message: str, mean: object = None, covariance: object = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.mean = mean
        self.covariance = covariance


class ModelFileError(UnreluError, ValueError):
    """A model file is missing, damaged, or written by a newer version."""


class InputFileError(UnreluError, ValueError):
    """A table file cannot be read: missing, empty, of unknown kind, or not numeric."""


class OutputError(UnreluError, OSError):
    """A result could not be written; nothing half-written is left behind."""


class ClusterError(UnreluError, OSError):
    """A cluster cannot be used: it does not answer, has no workers, or these lack unrelu."""


class DeviceMemoryError(UnreluError, MemoryError):
    """A device has too little memory left for even a few rows of a table and their sums."""


class MissingDependencyError(UnreluError, ImportError):
    """An optional dependency is needed; the message says how to install it."""


KINDS: dict[str, dict[str, str]] = {
    "DataWarning": {
        "guessed-header": "The first line of a text table has numbers: the message says whether they are names.",
        "skipped-files": "Files that cannot be read were left out as a whole: the message says which, and why.",
        "nondetect": 'Cells that say "not detected" were read as missing, though they are low.',
        "as-delivered": "A table was read as laboratories deliver them, and is suspicious: says what became of what.",
        "rounded-limit": "A floor or ceiling was given with other digits than the table has: the table's was taken.",
        "constant-column": "A column has one value above its floor: its standard deviation is 0, its correlations"
        " are undefined (0).",
        "few-positives": "A column is so rarely above its floor that its parameters are barely determined.",
        "perfect-correlation": "Two columns are exact linear images of each other: their correlation is +1 or -1.",
        "more-columns-than-rows": "The covariance is learned pair by pair and made semidefinite: it is rough.",
        "duplicated-rows": "Many rows are exact copies of others: standard errors take them for independent.",
        "not-cleaned": "More than a third of a column would be bad: all of its cells are left as they are.",
        "row-order": "A method relies on the order of the rows, and the order does not bear it out.",
        "few-groups": "A jackknife over so few groups, or groups so unequal, that its standard errors are rough.",
        "impossible-rows": "Rows lie so far out that the model gives them no chance: the message names them.",
        "dead-units": "Units of a network's layer that no input turned on were left out: the message says which.",
    },
    "AssumptionWarning": {
        "repeated-minimum": "A column's smallest value repeats as a floor does, and is not given as one.",
        "repeated-maximum": "A column's largest value repeats as a ceiling does, and is not given as one.",
        "near-the-floor": "Many values lie within rounding of the floor, and none at it.",
        "empty-gap": 'Nothing just above the floor: what is at the floor may mean "less than that".',
        "gross-value": "A value lies so far beyond all others of its column that it is hardly one of them.",
        "nothing-floored": "A column has nothing at its floor, where the model expects many values.",
        "ambiguous-majority": "Two groups of rows are about equally large: either may hold the inliers.",
        "tails-not-outliers": "Rows taken for outliers continue the tails of the others: no gap separates them.",
        "many-bad-cells": "More than a third of a column would be bad: rather the model does not fit it.",
        "left-out": "Rows or cells do not follow the model of the others: a fit without options left them out.",
        "skewed": "Values above the floor are not the upper part of a normal, or not of the column's margin.",
        "heavy-tails": "Values or rows lie farther out than a normal distribution's.",
        "groups": "Rows do not gather about one centre: they may come from several groups.",
        "bent": "Columns follow others along a curve, of which correlations describe the straight part only.",
        "excess-zeros": "More cells are at their limit than the rest of their rows allows.",
        "dependent-rows": "Neighbouring rows are alike: standard errors, which take them for independent, are small.",
        "ties": "A column has few different values, such as counts, which the model takes for continuous values.",
        "singular": "The correlations have no inverse: some columns determine others.",
        "few-rows": "Fewer rows than that many columns need.",
        "unstable-edges": "Most edges of a graph are not found again in half of the halves of the rows.",
        "trivial-graph": "The penalty of a graph leaves no edge, or every edge.",
    },
    "ConvergenceWarning": {
        "not-converged": "The rounds ran out before the best model was reached: the last model is kept.",
        "unfinished": "Time was up, or the work was interrupted: the result holds what was found until then.",
        "dependent-draws": "Draws of rows with very many hidden cells come from a random walk: they depend a little.",
    },
    "RecoveryWarning": {
        "weak-columns": "Columns whose values above the floor do not determine their components and mean.",
        "weak-rows": "Rows whose values above the floor do not determine their latent vector: it was filled in.",
        "rank-deficient": "The table has a lower rank than n_components: some components are zero.",
        "ambiguous-optimum": "Two latent vectors explain an output about equally well.",
        "partial-recovery": "Some correlations could not be recovered under the method's assumptions.",
        "units-not-found": "Some hidden units of a layer were not found: its output weights are not determined.",
        "doubtful-units": "Some hidden units found do not follow the distribution that units have.",
        "doubtful-inputs": "The inputs of a network are not normal, or not determined in many rows.",
    },
    "CheckpointWarning": {
        "not-saved": "A checkpoint could not be saved: the work goes on, and the checkpoint before it stays.",
        "set-aside": "Results of an earlier run have other settings: they were set aside.",
    },
}
"""Every kind of warning, by its class; diagnostics of a fit are of :class:`AssumptionWarning`."""


class UnreluWarning(_Explained, UserWarning):
    """Base of every warning of this package. ``kinds`` say what it is about, one for each line of the message."""

    def __init__(self, message: object = "", *kinds: str, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.kinds = kinds

    def __init_subclass__(cls, **more: Any) -> None:
        kinds = (f"- ``{kind}``: {words}" for kind, words in KINDS.get(cls.__name__, {}).items())
        cls.__doc__ = "\n".join([f"{cls.__doc__}\n\nKinds:\n", *kinds])
        super().__init_subclass__(**more)

    @property
    def kind(self) -> str:
        """The kind of the first line."""
        return self.kinds[0] if self.kinds else ""


class DataWarning(UnreluWarning):
    """How a table was read, or what its columns and rows are like."""


class AssumptionWarning(UnreluWarning):
    """The table shows what the model does not expect."""


class RecoveryWarning(UnreluWarning):
    """Something behind the rectifier is not determined by the table, or doubtful."""


class CheckpointWarning(UnreluWarning):
    """A checkpoint of long work could not be saved, or could not be used. It is issued at once, not at the end."""


def about(*kinds: str) -> str:
    """A pattern of messages of nothing but these kinds: ``warnings.filterwarnings("ignore", about("ties"))``.

    A filter that ignores such messages takes their lines out of the one warning of a fit as well.

    >>> texts = ("Counts. [ties]", "Counts. [ties]\\nFew. [few-rows]")
    >>> [bool(re.match(about("ties"), text)) for text in texts]
    [True, False]
    """
    return rf"(.*\[({'|'.join(kinds)})\]\n?)+\Z"


def warning_class(kind: str) -> type[UnreluWarning]:
    """The class of a kind of warning.

    >>> warning_class("skewed").__name__
    'AssumptionWarning'
    """
    name = next(name for name, kinds in KINDS.items() if kind in kinds)
    found: type[UnreluWarning] = getattr(sys.modules[__name__], name)
    return found


_RENAMED = {
    "BentColumnsWarning": "bent",
    "GroupsOfRowsWarning": "groups",
    "RepeatedLimitWarning": "repeated-minimum",
    "SingularCovarianceWarning": "singular",
    "SkewedColumnsWarning": "skewed",
    "TiedValuesWarning": "ties",
    "TrivialNetworkWarning": "trivial-graph",
    "ZerosForAnotherReasonWarning": "excess-zeros",
}
"""Kinds by the classes of warnings before they had kinds, where these are not the same words; for one release."""


if TYPE_CHECKING:
    from sklearn.exceptions import ConvergenceWarning as _Convergence

    class ConvergenceWarning(UnreluWarning, _Convergence):
        """A search ended before it was over."""

else:

    def __getattr__(name: str) -> Any:
        if name == "ConvergenceWarning":
            # scikit-learn brings NumPy, for which `unrelu --help` does not wait.
            from sklearn.exceptions import ConvergenceWarning as theirs

            members = {"__doc__": "A search ended before it was over.", "__module__": __name__}
            globals()[name] = type(name, (UnreluWarning, theirs), members)
            return globals()[name]
        message = f"module {__name__!r} has no attribute {name!r}"
        kind = _RENAMED.get(name, re.sub(r"\B([A-Z])", r"-\1", name.removesuffix("Warning")).lower())
        if name == "DoubtfulTableWarning":
            message += ": it is AssumptionWarning now"
        elif name.endswith("Warning") and any(kind in kinds for kinds in KINDS.values()):
            message += f": it is {warning_class(kind).__name__} of kind {kind!r} now"
        raise AttributeError(message)
