"""Our exceptions and warnings. A message says what is wrong, where, and what to do next.

Every exception derives from :class:`UnreluError`; those a caller can provoke with data or
parameters are also a ``ValueError``, as scikit-learn's conventions ask. Each name has its entry in
docs/troubleshooting.md: what happened, and what to do; the end of its docstring says where.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class _Explained(Exception):
    """Base of all below: what a message speaks of, and where its class is explained.

    ``parameter`` is the one at fault; ``rows`` are the numbers, from 0, of the rows that the message names.
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
    """A layer cannot be peeled off; ``peeled`` holds the layers above it, and ``report`` what was found of it."""

    def __init__(self, message: str, peeled: object = None, report: object = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.peeled = peeled
        self.report = report


class NotSemidefiniteError(InvalidDataError):
    """Pairs put together as they are give no covariance; ``bias`` and ``covariance`` hold what was put together."""

    def __init__(self, message: str, bias: object = None, covariance: object = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.bias = bias
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


class UnreluWarning(_Explained, UserWarning):
    """Base of every warning this package issues."""


class GuessedHeaderWarning(UnreluWarning):
    """The first line of a text table are numbers that may be data or the columns' names: says what was chosen."""


class SkippedFilesWarning(UnreluWarning):
    """Files that cannot be read were left out, each of them wholly: says which, and why."""


class CheckpointWarning(UnreluWarning):
    """A checkpoint could not be saved; the work goes on, and the checkpoint before it stays."""


class NondetectWarning(UnreluWarning):
    """Cells that say "not detected" were read as missing, though they are low."""


class RoundedLimitWarning(UnreluWarning):
    """A floor or ceiling was given with other digits than the table has: the table's own was taken."""


class ConstantColumnWarning(UnreluWarning):
    """A column never varies above the floor: its row norm is 0 and its correlations are undefined (0)."""


class FewPositivesWarning(UnreluWarning):
    """A column is so rarely above its floor that its parameters are barely determined."""


class DoubtfulTableWarning(UnreluWarning):
    """The table shows what the model does not expect: the answer may be wrong. Base of the warnings that say how."""


class RepeatedLimitWarning(DoubtfulTableWarning):
    """A column's smallest or largest value repeats as a limit does, and is not named as its floor or ceiling."""


class EmptyGapWarning(DoubtfulTableWarning):
    """Nothing between the floor and the smallest value above it: what is at the floor may mean "less than that"."""


class NothingFlooredWarning(DoubtfulTableWarning):
    """A column has nothing at its floor, where the model expects many values."""


class SkewedColumnsWarning(DoubtfulTableWarning):
    """Values above the floor are not the upper part of a normal, or not of the column's shape: take another shape."""


class HeavyTailsWarning(DoubtfulTableWarning):
    """Values or rows lie farther out than a normal law's, cells that were taken for bad among them."""


class GrossValueWarning(DoubtfulTableWarning):
    """A value lies so far beyond all others of its column that it is hardly one of them."""


class LeftOutWarning(DoubtfulTableWarning):
    """Rows or cells do not belong to what the others are like, and a fit without options left them out."""


class GroupsOfRowsWarning(DoubtfulTableWarning):
    """Rows do not gather about one centre: they may come from several groups."""


class BentColumnsWarning(DoubtfulTableWarning):
    """Columns follow others along a curve, of which correlations tell the straight part only."""


class ZerosForAnotherReasonWarning(DoubtfulTableWarning):
    """More cells are at their limit than the rest of their rows allows: some are there for another reason."""


class DependentRowsWarning(DoubtfulTableWarning):
    """Neighbouring rows are alike: standard errors, which take rows for independent, may be too small."""


class TiedValuesWarning(DoubtfulTableWarning):
    """A column has few different values, such as counts, which the model takes for continuous ones."""


class SingularCovarianceWarning(DoubtfulTableWarning):
    """The correlations have no inverse: some columns determine others."""


class FewRowsWarning(DoubtfulTableWarning):
    """Fewer rows than that many columns need."""


class UnstableEdgesWarning(DoubtfulTableWarning):
    """Most edges of a network are not found again in half of the halves of the rows: the graph is mostly chance."""


class NotConvergedWarning(UnreluWarning):
    """The likelihood was still rising when the rounds ran out: the model is not yet the most likely one."""


class PerfectCorrelationWarning(UnreluWarning):
    """Two columns are exact linear images of each other: the latent correlation is +1 or -1."""


class RowOrderWarning(UnreluWarning):
    """A method that relies on the order of the rows, and an order that does not bear it out."""


class MoreColumnsThanRowsWarning(UnreluWarning):
    """Fewer rows than columns: the covariance is learned pair by pair and made semidefinite."""


class FewGroupsWarning(UnreluWarning):
    """A jackknife over so few groups, or groups so unequal, that its standard errors are rough."""


class TrivialNetworkWarning(UnreluWarning):
    """The penalty of a network leaves no edge, or every one."""


class PartialRecoveryWarning(UnreluWarning):
    """Some correlations could not be recovered under the method's assumptions."""


class AmbiguousMajorityWarning(UnreluWarning):
    """Two groups of rows are about equally large: which of them is genuine cannot be known from the table."""


class ManyBadCellsWarning(UnreluWarning):
    """More than a third of a column's cells would be bad: rather the column is not what the model says."""


class DuplicatedRowsWarning(UnreluWarning):
    """Many rows are exact copies of others: standard errors take them for independent."""


class WeakColumnsWarning(UnreluWarning):
    """Columns whose values above the floor do not determine their components and bias: those were filled in."""


class WeakRowsWarning(UnreluWarning):
    """Rows whose values above the floor do not determine their latent vector: it was filled in."""


class RankDeficientWarning(UnreluWarning):
    """The table has a lower rank than asked for: some components are zero."""


class ImpossibleRowsWarning(UnreluWarning):
    """Rows lie so far from everything that a model expects that it gives them no chance: says which, and where."""


class DependentDrawsWarning(UnreluWarning):
    """Draws of rows that hide very many cells come from a walk: those of one row are not quite independent."""


class DoubtfulUnitsWarning(UnreluWarning):
    """Some hidden units found do not follow the law that units have: they may be coincidences of several."""


class UnitsNotFoundWarning(UnreluWarning):
    """Some hidden units of a layer were not found: its output weights are not determined."""


class UnfinishedWarning(UnreluWarning):
    """Time was up, or the work was interrupted: what had been found until then is given."""


class DoubtfulInputsWarning(UnreluWarning):
    """The inputs of a network are not normal, or not known in many rows: its samples may differ from the table."""


class AmbiguousOptimumWarning(UnreluWarning):
    """Two latent vectors explain an output about equally well."""


class DeadUnitsWarning(UnreluWarning):
    """Units of a network's layer that no input turned on were left out: says which."""
