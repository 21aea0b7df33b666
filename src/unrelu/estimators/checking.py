"""Checks of a learner or of a given model: does it fit, and which remedy helps where it does not?

Remedies are tried on the table, and compared on one scale: each is fitted to one half of the rows and gives the other
half a log density, in the units of the table, and the other way round. The density of a method includes its models of
outlier rows, bad cells and groups, so that all densities can be compared: a remedy may help where rows that it has not
seen are clearly likelier than under the present model. It helps if fewer columns and pairs then fail, by a check of its
own with few simulated tables.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone

from unrelu.checks.fit_check import Columns, FitCheck, Remedy, Simulations, check_fit, sampled_rows
from unrelu.checks.fit_check import Rows as SampledRows
from unrelu.contracts import Assumptions, Block, FloatArray, Progress, Samples, Step, no_progress
from unrelu.errors import UnreluError
from unrelu.estimators.base import Table, columns_of
from unrelu.estimators.mixture import RectifiedGaussianMixture
from unrelu.estimators.preparation import prepare
from unrelu.fit.one_pass import learn_record
from unrelu.margins import Margins
from unrelu.methods import Auto, FullLikelihood, OnePass, Robust, RobustCells, method_named
from unrelu.model import RectifiedGaussian
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables.prepared import prepared
from unrelu.validation import counted, refuse_old_names

_INLIER = 0.5  # weights from which on a robust fit's rows are inliers
_SIMULATIONS = 39  # tables by which a remedy is checked
_MOST_ROWS, _MOST_CELLS = (3000, 1000, 1000), (60_000, 20_000, 20_000)  # that remedies are tried on, by stage
_MOST_COLUMNS = 60  # beyond which only margins are tried
_MOST_OUTLIERS = 0.25  # rows that may be left out: more are a group of interest, fewer are none
_APART, _UNLIKE = 1.0, 0.5  # groups: distance of means in a column, and of correlations
_FARTHEST = 20.0  # the most that one row counts, in log density
_CLEAR, _LEAST = 2.5, 5.0  # standard errors of a gain, and log density of all rows, from which it counts
_NEARLY = 0.9  # of the largest gain
_TAILS = "the rows have heavy tails and no outliers"

_CELLS, _GROUPS, _ROWS = "margins and cells", "groups", "rows"  # stages in which remedies are tried

Recheck: TypeAlias = Callable[[Any], FitCheck]


def check_learner(
    learner: Any, samples: Samples, assumptions: Assumptions, wanted: Mapping[str, Any], progress: Progress
) -> FitCheck:
    """The check of a learner with the parameters of a fitted one, each column with the margin of the fit.

    Outlier rows and bad cells of the robust methods are left out; the rest is fitted as these methods do, in one pass.
    """
    simulations = Simulations(**wanted)
    rows = sampled_rows(samples, assumptions, simulations.seed, progress)
    limits: dict[str, Any] = {name: list(levels) for name, levels in assumptions.limits.items()}
    fitting: Any = clone(learner).set_params(stderr="model", margins=_kinds(learner.margins_), **limits)
    method = method_named(learner.method)
    if isinstance(method, Auto) and learner.report_.method == "one_pass":
        fitting.set_params(method="one_pass")
    elif isinstance(method, FullLikelihood | Auto):  # the same model, but for factors, learned faster
        k = getattr(learner.report_, "n_components", None)
        fitting.set_params(n_components=k, **({"method": "one_pass"} if k is None else {}))
    found = _checked(fitting, rows, simulations, progress)
    if found.fits:
        return found
    few = replace(simulations, number=min(simulations.number, max(_SIMULATIONS, math.ceil(1.0 / simulations.level))))

    def recheck(other: Any) -> FitCheck:
        """A check with few tables, in which each column keeps the kind of margin that a fit to the table chooses."""
        if other.margins == "auto":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other.set_params(margins=_kinds(clone(other).fit(rows.values).margins_))
        return _checked(other, rows, few, progress)

    return replace(found, tried=tried_remedies(fitting, rows.values, found, recheck, progress))


def _kinds(margins: Margins | None) -> Any:
    return "normal" if margins is None else [margin.kind for margin in margins]


def _checked(fitting: Any, rows: SampledRows, simulations: Simulations, progress: Progress) -> FitCheck:
    """The check of a learner that has limits and margins for each column."""
    method = method_named(fitting.method)
    if isinstance(method, Robust | RobustCells):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # diagnostics were issued when the table was learned
            fitted = clone(fitting).with_progress(progress).fit(rows.values)
        inlier = fitted.row_weights_ >= _INLIER
        if isinstance(method, RobustCells):
            rows = replace(rows, values=np.where(fitted.cell_weights_ >= _INLIER, rows.values, np.nan))
        rows = replace(rows, values=rows.values[inlier], n_outliers=int(np.count_nonzero(~inlier)))
        fitting = clone(fitting).set_params(method="one_pass")
    given, quick = rows.assumptions, isinstance(method_named(fitting.method), OnePass)

    def fit(values: FloatArray, at: Columns) -> RectifiedGaussian:
        """A fit as that of the table; of normal columns in one pass, without standard errors of margins."""
        if not quick or isinstance(fitting.margins, list):
            distribution: RectifiedGaussian = _of_columns(fitting, at).fit(values).distribution_
            return distribution
        floor, negated = (tuple(np.asarray(each)[at].tolist()) for each in (given.floor, given.sign < 0.0))
        rank = min(int(fitting.n_components), len(at)) if isinstance(fitting.n_components, Integral) else None
        own = replace(given, floor=floor, negated=negated, n_components=rank)
        record = PairMomentsQuestion.under(own, margins=False)(Block(values * given.sign[at]))
        return learn_record(record, own).distribution.negated(np.array(negated))

    return check_fit(rows, fit, simulations, progress)


@refuse_old_names
def check_model(
    model: Any,
    X: Table,
    *,
    floor_tolerance: float = 0.0,
    n_simulations: int = 199,
    level: float = 0.05,
    random_state: int = 0,
    progress: Progress = no_progress,
) -> FitCheck:
    """Does a model that was not fitted to X fit it? ``model`` is a RectifiedGaussian, or has one as ``distribution_``.

    Rows of the model are simulated, and nothing is fitted. For a model that was fitted to X such p-values are too
    large; use :meth:`unrelu.RectifiedGaussianLearner.check`.

    >>> import unrelu
    >>> model = unrelu.RectifiedGaussian([1.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
    >>> unrelu.check_model(model, model.sample(500, random_state=1)).fits
    True
    >>> unrelu.check_model(model, 1.3 * model.sample(500, random_state=1)).fits
    False
    """
    distribution, columns = columns_of(model, floor_tolerance)
    columns = replace(columns, margins=None)  # rows are compared in the table's units
    simulations = Simulations(n_simulations, random_state, level)
    table = prepare(X, columns=columns, tolerance=floor_tolerance, smallest=2, sparse=True)
    rows = sampled_rows(prepared(table, columns), columns.assumptions, random_state, progress)
    if columns.names is not None:
        rows = replace(rows, names=columns.names)
    return check_fit(rows, distribution, simulations, progress)


# --- remedies -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Trial:
    """A remedy, the options that it sets, and its result: ``refused`` is the reason why it does not help, though rows
    are likelier."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    groups: int = 0
    gains: FloatArray | None = None
    refused: str = ""
    monotone: bool = False  # margins that fit any column

    @property
    def gain(self) -> float:
        return -np.inf if self.gains is None else float(np.mean(self.gains))

    @property
    def is_clear(self) -> bool:
        """Whether the gain is more than chance; a model without n_components needs a check in any case."""
        if self.gains is None or not np.isfinite(self.gains).all():
            return False
        if "n_components" in self.options:
            return True
        total = float(self.gains.sum())
        return total > _LEAST and total > _CLEAR * float(np.sqrt(len(self.gains)) * self.gains.std())


def tried_remedies(
    learner: Any, values: FloatArray, found: FitCheck, recheck: Recheck, progress: Progress
) -> tuple[Remedy, ...]:
    """The remedies that were tried, those that help first; ``learner`` has limits and margins for each column.

    Margins and bad cells come first, then groups, then outlier rows, until a remedy is found.
    """
    kept = [j for j in range(len(found.names)) if j not in dict(found.left_out)]
    order, compared = np.random.default_rng(0).permutation(len(values)), dict[_Trial, Remedy]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for stage, rows, cells in zip((_CELLS, _GROUPS, _ROWS), _MOST_ROWS, _MOST_CELLS, strict=True):
            table = values[order[: min(rows, cells // len(kept))]][:, kept]
            try:
                base = _crossed(lambda x: _of_columns(learner, kept).fit(x), table)[0]
            except UnreluError:  # halves of the rows are too few
                break
            trials = []
            for trial in trials_of(stage, learner, found, kept):
                progress(Step("Trying remedies", words=trial.name))
                trials.append(_run(trial, learner, kept, table, base))
            compared = _compared(trials, compared, learner, found, recheck)
            # Where heavy tails make rows likelier than margins do, margins only bend columns to the tails of rows.
            tails = max((remedy.gain for remedy in compared.values() if remedy.note == _TAILS), default=-np.inf)
            for trial, remedy in compared.items():
                bent = "margins" in trial.options and (trial.monotone or not remedy.fits)
                if remedy.helps and remedy.gain < tails and bent:
                    compared[trial] = replace(remedy, helps=False, fits=False, note=_TAILS)
            # The stage of groups shows whether monotone margins only bend columns to the tails of rows.
            enough = (
                remedy.helps if trial.groups else remedy.fits and not (stage == _CELLS and trial.monotone)
                for trial, remedy in compared.items()
            )
            if any(enough):
                break
    return tuple(sorted(compared.values(), key=lambda remedy: (-remedy.helps, -remedy.fits, -remedy.gain)))


def trials_of(stage: str, learner: Any, found: FitCheck, kept: list[int]) -> list[_Trial]:
    """The remedies of a stage that differ from the present model."""
    method, few = method_named(learner.method), len(kept) <= _MOST_COLUMNS
    trials = []
    if stage == _CELLS:
        failing = {*found.misfits[0]}
        if failing:
            trials.append(_Trial("margins='auto'", {"margins": "auto"}))
        if any(found.margins[j] != "monotone" for j in failing):
            monotone = ["monotone" if j in failing else margin for j, margin in enumerate(found.margins)]
            where = "" if len(failing) == len(kept) else " for these columns"
            trials.append(_Trial(f"margins='monotone'{where}", {"margins": monotone}))
        if learner.n_components is not None:
            trials.append(_Trial("A model without n_components", {"n_components": None}))
        if few and not isinstance(method, RobustCells):
            trials.append(_Trial("method='robust_cells'", {"method": "robust_cells"}))
    if stage == _GROUPS and few:
        trials.append(_Trial("RectifiedGaussianMixture(2)", groups=2))
    if stage == _ROWS and isinstance(method, Robust | RobustCells):
        trials.append(_Trial("method='one_pass'", {"method": "one_pass"}))
    if stage == _ROWS and few and not isinstance(method, Robust):
        trials.append(_Trial("method='robust'", {"method": "robust"}))
    return trials


def _of_columns(learner: Any, kept: Sequence[int] | Columns, **options: Any) -> Any:
    """The learner of some of the columns, with other options."""
    every = {**{name: getattr(learner, name) for name in ("floor", "ceiling", "margins")}, **options}
    own = {name: [each[j] for j in kept] if isinstance(each, list) else each for name, each in every.items()}
    rank = own.get("n_components", learner.n_components)
    own["n_components"] = min(rank, len(kept)) if isinstance(rank, Integral) else rank
    fitting: Any = clone(learner).set_params(**own)
    return fitting


def _crossed(fit: Callable[[FloatArray], Any], table: FloatArray) -> tuple[FloatArray, list[Any]]:
    """Log densities of rows by the fit to the other half, and both fits."""
    middle = len(table) // 2
    fits = [fit(half) for half in (table[middle:], table[:middle])]
    found = []
    for fitted, part in zip(fits, (table[:middle], table[middle:]), strict=True):
        groups = isinstance(fitted, RectifiedGaussianMixture)
        found.append(fitted.score_samples(part) if groups else fitted.densities_with_outliers(part))
    return np.concatenate(found), fits


def _run(trial: _Trial, learner: Any, kept: list[int], table: FloatArray, base: FloatArray) -> _Trial:
    def fit(x: FloatArray) -> Any:
        fitting = _of_columns(learner, kept, **trial.options)
        if not trial.groups:
            return fitting.fit(x)
        same = {name: getattr(fitting, name) for name in ("floor", "ceiling", "margins", "floor_tolerance")}
        return RectifiedGaussianMixture(trial.groups, n_init=1, random_state=learner.random_state, **same).fit(x)

    try:
        densities, fits = _crossed(fit, table)
    except UnreluError:  # the remedy does not take this table
        return trial
    monotone = False
    if "margins" in trial.options:
        margins = [each.distribution_.margins for each in fits]
        kinds = [["normal"] * len(kept) if each is None else [margin.kind for margin in each] for each in margins]
        present = [learner.margins[j] for j in kept] if isinstance(learner.margins, list) else ["normal"] * len(kept)
        if all(each == present for each in kinds):
            return trial
        monotone = any("monotone" in each for each in kinds)
    refused = why_refused(fits)
    return replace(trial, gains=np.clip(densities - base, -_FARTHEST, _FARTHEST), refused=refused, monotone=monotone)


def why_refused(fits: Sequence[Any]) -> str:
    """The reason why fits are no remedy, though they make rows likelier; none is empty."""
    kinds = {each.kind for fitted in fits for each in getattr(fitted.report_, "diagnostics", ())}
    if kinds & {"heavy-tails", "tails-not-outliers"}:
        return _TAILS
    if "many-bad-cells" in kinds:
        return "more than a third of a column would be bad"
    for fitted in fits:
        if isinstance(fitted, RectifiedGaussianMixture):
            # Groups differ in means or correlations; where they differ in width alone, it is heavy tails.
            one, other = (distribution.latent for distribution in fitted.distributions_[:2])
            spread = np.hypot(one.std, other.std)
            means = np.abs(one.mean - other.mean) / np.where(spread > 0.0, spread, 1.0)
            if means.max() <= _APART and np.abs(one.correlation - other.correlation).max() <= _UNLIKE:
                return _TAILS
            if fitted.weights_.min() < _MOST_OUTLIERS:
                return "one of two groups is so small that its rows may be outliers"
        elif (share := getattr(fitted.report_, "share_downweighted", 0.0)) > _MOST_OUTLIERS:
            return f"method={fitted.method!r} leaves out {share:.0%} of the rows, a group rather than outliers"
    return ""


def _compared(
    trials: list[_Trial], before: dict[_Trial, Remedy], learner: Any, found: FitCheck, recheck: Recheck
) -> dict[_Trial, Remedy]:
    """Remedies of the trials, beside those of ``before``; the likeliest are checked, until one fits."""
    compared = dict(before)
    likeliest = max((trial.gain for trial in trials if trial.is_clear), default=0.0)
    fitted = [trial for trial in trials if trial.gains is not None]
    favoured = {trial: _NEARLY if trial.options.get("margins") == "auto" else 1.0 for trial in fitted}
    for trial in sorted(fitted, key=lambda each: -each.gain / favoured[each]):
        remedy = compared[trial] = Remedy(trial.name, trial.gain, note=trial.refused if trial.is_clear else "")
        if not trial.is_clear or trial.refused:
            continue
        # Another remedy may explain what this one leaves out, or bends.
        less = any(other.fits and other.gain > _NEARLY * trial.gain for other in compared.values())
        less |= trial.options.get("method") == "robust_cells" and trial.gain < _NEARLY * likeliest
        if trial.groups:
            compared[trial] = replace(remedy, helps=True, note="the rows look like two groups")
        elif not less:
            every = list(range(len(found.names)))
            compared[trial] = _with_effect(remedy, found, recheck(_of_columns(learner, every, **trial.options)))
    return compared


def _with_effect(remedy: Remedy, before: FitCheck, after: FitCheck) -> Remedy:
    """The remedy with the misfits that it removes, in words."""
    if after.fits:
        return replace(remedy, helps=True, fits=True, note="the model then fits")
    (columns, pairs), (still, others) = before.misfits, after.misfits
    if len(still) + len(others) >= len(columns) + len(pairs):
        return remedy
    counts = (("columns", columns, still), ("pairs", pairs, others))
    better = [
        f"{len({*failed} - {*fails})} of {len(failed)} failing {what}"
        for what, failed, fails in counts
        if {*failed} - {*fails}
    ]
    new = len({*others} - {*pairs})
    more = f", and {counted(new, 'other pair')} then {'fails' if new == 1 else 'fail'}" if new else ""
    return replace(remedy, helps=True, note=f"{' and '.join(better) or 'some'} then fit{more}")
