"""What rows show that the fitted normal does not have, in words: the strongest first, and what it explains left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from unrelu.checks.joint import Tests, group_tests, groups_of, rows_for, usable_columns
from unrelu.checks.neighbours import Neighbours, inflation, is_sorted, neighbours_of
from unrelu.checks.rows import Look
from unrelu.checks.skewness import Skewness
from unrelu.contracts import BoolArray, Doubt, FloatArray, RowParameters
from unrelu.passes.engine import map_in_threads, one_blas_thread

_ALARM = 0.0015  # chance of a finding of one kind among rows of the model
_FEWEST_ROWS = 30
_SLACK = 6.0  # over the number of values seen: errors of second order, by simulation
_WEAK = 0.5  # of the strongest finding's z: what is weaker once that is taken off may be its doing
_OWN = 0.25  # of a test's variance that others must leave it
_HARM = 0.5  # standard errors of a mean
_EFFECT = 0.1
_MOST = 0.8  # of the tests that an allowance for dependent rows is enough for: one for all keeps their order
_CLEARLY = 1.4  # times as strong as its columns' tests that one of all together must be
_BESIDE = 2.0
_DEPENDENT = 1.1  # times too small that standard errors must be


@dataclass(frozen=True, eq=False)
class Misfit:
    """``found``: kinds of findings with the z of their strongest test, from the strongest down.

    "heavy", "groups", "bent", "zeros" and "margins"; ``tests`` are of every group, ``told`` those that are significant.
    """

    tests: tuple[Tests, ...]
    told: tuple[BoolArray, ...]
    found: tuple[tuple[str, float], ...]
    neighbours: Neighbours
    dependent: bool

    def chosen(self, *kinds: str) -> list[tuple[Tests, int]]:
        """The significant tests of some kinds, the strongest first."""
        every = [(test, int(k)) for test, told in zip(self.tests, self.told, strict=True) for k in np.flatnonzero(told)]
        some = [(test, k) for test, k in every if str(test.kinds[k]) in kinds]
        return sorted(some, key=lambda each: -abs(each[0].z[each[1]]))

    def by_margins(self, d: int) -> BoolArray:
        """Which of d columns are in a group whose margins show more than its columns together, or that shows nothing.

        Columns with long tails make rows lie far out as well, but less clearly; of a t law it is the reverse.
        """
        which = np.ones(d, dtype=np.bool_)
        for test, told in zip(self.tests, self.told, strict=True):
            size, own = np.abs(test.z) * told, _of_margins(test)
            heavy = np.isin(test.kinds, ["far", "axis"]) & (test.z < 0.0)
            size = size / np.where(heavy, _CLEARLY, 1.0)
            which[test.group] = size[~own].max() <= size[own].max()
        return which

    def columns_of(self, kind: str, d: int) -> FloatArray:
        """The z of the tests of single columns of a kind, 0 where they are not significant.

        Where all columns of a group together are, such as are so at 5 % by themselves are meant.
        """
        z = np.zeros(d)
        for test, told in zip(self.tests, self.told, strict=True):
            which = test.kinds == kind
            together = _sums(test) & which
            single = which & ~together
            meant = told[single] | (told[together].any() & (np.abs(test.z[single]) > _BESIDE))
            z[test.group] = test.z[single] * meant
        return z

    def skewness(self, d: int) -> Skewness:
        """Of every column, from these rows."""
        found = np.zeros((3, d))
        for test in self.tests:
            own = np.flatnonzero((test.kinds == "skewed") & ~_sums(test))
            found[:, test.group] = test.z[own], 6.0 * test.size[own], np.diagonal(test.shift[own])
        return Skewness(*found)


def _of_margins(test: Tests) -> BoolArray:
    """Tests of long tails and skewed columns."""
    return np.asarray((test.kinds == "skewed") | ((test.kinds == "tails") & (test.z < 0.0)))


def misfit_of(look: Look, rows: RowParameters, correlation: FloatArray, left_out: BoolArray, free: BoolArray) -> Misfit:
    """The tests of all columns but those ``left_out``; margins that are ``free`` are not asked for tails."""
    groups = groups_of(np.nan_to_num(correlation), usable_columns(look, rows) & ~left_out)
    look = rows_for(look, len(groups))
    nothing = Misfit((), (), (), Neighbours(0.0, 0.0, 1.0), False)
    if not groups or len(look.rows) < _FEWEST_ROWS:
        return nothing
    with one_blas_thread():
        tests = tuple(map_in_threads(lambda group: group_tests(look, rows, correlation, group, len(groups)), groups))
    neighbours = neighbours_of(look.rows, np.column_stack([test.means for test in tests]))
    alike = neighbours.z > float(-ndtri(_ALARM))
    dependent = alike and neighbours.factor > _DEPENDENT and not is_sorted(look)
    if alike:
        tests = tuple(replace(t, z=t.z / np.sqrt(np.quantile(inflation(look.rows, t.h), _MOST))) for t in tests)
    asked = [_asked(test, free, look.cut) for test in tests]
    levels = _levels(tests)
    told = tuple(each & (np.abs(test.z) > level) for test, each, level in zip(tests, asked, levels, strict=True))
    told = tuple(each & _harms(test, rows) for test, each in zip(tests, told, strict=True))
    return Misfit(tests, told, _strongest(tests, told, levels), neighbours, dependent)


def _kind(test: Tests) -> list[str]:
    """What a test that is significant is a sign of."""
    long = {"far": "heavy", "axis": "heavy", "tails": "margins"}
    others = {"far": "groups", "axis": "groups", "tails": "groups", "lopsided": "groups", "skewed": "margins"}
    return [
        long[kind] if heavy and kind in long else others.get(kind, kind)
        for kind, heavy in zip(test.kinds.tolist(), (test.z < 0.0).tolist(), strict=True)
    ]


def _asked(test: Tests, free: BoolArray, cut: bool) -> BoolArray:
    """Tests that can tell something: a free margin is normal by construction, fewer cut-off cells are no doubt, and
    tails that were cut are short. Columns with short tails, such as a shape may leave, are no groups of rows."""
    short = (test.z > 0.0) & (np.isin(test.kinds, ["far", "tails"]) | (cut & (test.kinds == "axis")))
    of_free = np.array([bool(free[list(columns)].any()) for columns in test.columns])
    margin = np.isin(test.kinds, ["tails", "skewed"])
    return np.asarray(~short & ~(margin & of_free) & ~((test.kinds == "zeros") & (test.z < 0.0)))


def _levels(tests: Sequence[Tests]) -> list[FloatArray]:
    """|z| from which on a test is significant: every kind has its share of alarms, among all groups together.

    Half of a share is for the sums over columns, where a kind has them.
    """
    sums = [_sums(test) for test in tests]
    levels = [np.empty(len(test.z)) for test in tests]
    for kind in np.unique(tests[0].kinds):
        for whole in (False, True):
            which = [(test.kinds == kind) & (of_all == whole) for test, of_all in zip(tests, sums, strict=True)]
            number = sum(int(np.count_nonzero(each)) for each in which)
            both = kind in ("tails", "zeros", "skewed") and len(tests[0].group) > 1
            sides = 1.0 if kind == "zeros" else 2.0
            level = -ndtri(_ALARM / sides * (0.5 if both else 1.0) / max(number, 1))
            for each, at, test in zip(levels, which, tests, strict=True):
                each[at] = level * (1.0 + _SLACK / test.seen)
    return levels


def _sums(test: Tests) -> BoolArray:
    """The sums over columns, of kinds that also have columns by themselves."""
    wide = np.array([len(columns) > 1 for columns in test.columns])
    return np.asarray(wide & np.isin(test.kinds, ["tails", "zeros", "skewed"]))


def _harms(test: Tests, rows: RowParameters) -> BoolArray:
    """What moves means must move one by half its standard error; the others, which harm intervals and predictions, must
    be no smaller than a tenth of a standard deviation of what rows have."""
    error = rows.bias_stderr[test.group] / rows.scale[test.group]
    with np.errstate(invalid="ignore"):
        moved = np.any(~(np.abs(test.shift) < _HARM * error), axis=1)
    effect = np.abs(test.z) / np.sqrt(len(test.h)) > _EFFECT
    return np.asarray(np.where(test.kinds == "zeros", moved, effect | _of_margins(test)))


def _strongest(
    tests: Sequence[Tests], told: Sequence[BoolArray], levels: Sequence[FloatArray]
) -> tuple[tuple[str, float], ...]:
    """Kinds of findings, from the strongest down; each is what is left when those before it are taken off."""
    kinds = [np.array(_kind(test)) for test in tests]
    z = [test.z * each for test, each in zip(tests, told, strict=True)]
    found: list[tuple[str, float]] = []
    over: set[str] = set()
    taken = [np.zeros(len(test.z), dtype=bool) for test in tests]
    while True:
        best = max((float(np.abs(left).max()), i, int(np.abs(left).argmax())) for i, left in enumerate(z))
        if best[0] == 0.0 or (found and best[0] < _WEAK * found[0][1]):
            return tuple(found)
        kind = str(kinds[best[1]][best[2]])
        found.append((kind, best[0]))
        done = {"heavy", "groups"} if kind in ("heavy", "groups") else {kind}
        over |= done  # tails are long or short, and what a test shows is said once
        for i, test in enumerate(tests):
            taken[i] |= told[i] & (kinds[i] == kind)
            z[i] = _after(test, taken[i]) * told[i] * ~np.isin(kinds[i], list(over))
            z[i] *= np.abs(z[i]) > levels[i]


def _after(test: Tests, taken: BoolArray) -> FloatArray:
    """The z of all tests when what some of them explain is taken off."""
    if not taken.any():
        return test.z
    among = test.together[np.ix_(taken, taken)] + 1e-3 * np.eye(int(taken.sum()))
    along = np.linalg.solve(among, test.together[taken])
    left = 1.0 - (along * test.together[taken]).sum(axis=0)
    after = (test.z - test.z[taken] @ along) / np.sqrt(np.maximum(left, _OWN))
    return np.asarray(np.clip(after, -np.abs(test.z), np.abs(test.z)) * (left > _OWN))


# --- words ----------------------------------------------------------------------------------------


def words_of(misfit: Misfit) -> list[tuple[float, Doubt]]:
    """(z, finding) of everything but margins."""
    told = [(z, doubt) for kind, z in misfit.found if (doubt := _doubt(misfit, kind)) is not None]
    if misfit.dependent:
        told.append((misfit.neighbours.z, _dependent(misfit.neighbours)))
    return told


def _doubt(misfit: Misfit, kind: str) -> Doubt | None:
    if kind == "zeros":
        return _zeros(misfit)
    if kind == "bent":
        return _bent(misfit)
    if kind == "heavy" and misfit.chosen("skewed"):
        first = (
            "Give the columns shape='free'; if this is still said then, take errors with stderr='jackknife', and do not"
        )
        return replace(_HEAVY, remedy=f"{first} rely on intervals of single cells.")
    return {"groups": _GROUPS, "heavy": _HEAVY}.get(kind)


_ALL_THE_SAME = "take errors with stderr='jackknife', and do not rely on intervals of single cells."
_GROUPS = Doubt(
    "groups",
    (),
    "rows do not gather about one centre as a normal law's do: they may come from two or more groups.",
    "Means, correlations and filled cells then describe a mixture of them. Fit each group by itself, or learn them with"
    " unrelu.RectifiedGaussianMixture.",
)
_HEAVY = Doubt(
    "heavy tails",
    (),
    "rows lie farther out in all columns together than a normal law's: standard errors are too small, and intervals of"
    " filled cells and predictions are too narrow in such rows.",
    f"T{_ALL_THE_SAME[1:]}",
)


def long_tails(columns: BoolArray) -> Doubt:
    """Of single columns."""
    return Doubt(
        "heavy tails",
        tuple(np.flatnonzero(columns).tolist()),
        "values lie farther out, and nearer to the middle, than a normal law's: standard errors are too small, and"
        " intervals of filled cells are off.",
        "Give these columns shape='free', and take errors with stderr='jackknife'.",
    )


def _bent(misfit: Misfit) -> Doubt:
    pairs = [(test.columns[k], float(test.z[k])) for test, k in misfit.chosen("bent")]
    columns = tuple(sorted({column for pair, _ in pairs for column in pair}))
    return Doubt(
        "bent",
        columns,
        "some columns follow others along a curve, not a straight line: correlations tell the straight part only, and"
        " filled cells and predictions are off where the curve is far from it.",
        "Look at these columns in pairs, and leave out of predictions and filling what is bent.",
    )


def _zeros(misfit: Misfit) -> Doubt:
    tests = misfit.chosen("zeros")
    single = sorted((test.columns[k][0], float(test.size[k])) for test, k in tests if len(test.columns[k]) == 1)
    pooled = [(test, k) for test, k in tests if len(test.columns[k]) > 1]
    strongest, at = (pooled or tests)[0]
    share, error = 100.0 * strongest.size[at], 100.0 * strongest.error[at]
    columns = tuple(column for column, _ in single) or tuple(strongest.columns[at])
    return Doubt(
        "zeros for another reason",
        columns,
        f"more cells are at their limit than the rest of their rows and the other cells allow: roughly {share:.0f} %"
        f" +- {error:.0f} % of the cells are there for another reason, and means come out too low.",
        "If they are failures or true absences that you can tell from the others, mark them as missing (NaN).",
        tuple(size for _, size in single) if single else (),
    )


def _dependent(neighbours: Neighbours) -> Doubt:
    return Doubt(
        "dependent rows",
        (),
        f"neighbouring rows are alike (correlation {neighbours.correlation:.2f}): if they are of one day, site or"
        f" series, standard errors are too small by a factor of about {neighbours.factor:.1f}.",
        "Take errors with stderr='jackknife' and groups= of the days, sites or stretches of time that rows belong to.",
    )
