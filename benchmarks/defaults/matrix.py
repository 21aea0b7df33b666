"""The matrix: errors of the default over the best of its own options and over its rivals'; wrong answers and warnings.

An error is the root mean square over all tables of a place (kind x rows x share hidden). The best of its own options is
the one with the least error on the other tables of the place, for each of them in turn: the least of ten noisy errors
of one and the same tables would be too small. A table is off where its means or its correlations are off by more than
two of their standard errors (root mean square over columns or pairs); it was warned of where the fit warned or had
a diagnostic.
"""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np

from benchmarks.cells.accuracy import set_threads
from benchmarks.defaults.answers import OWN, QUANTITIES, RIVALS, ROBUST, Answer, Default, default, own, rms
from benchmarks.defaults.kinds import KINDS, SHARES, SIZES, Kind, draw
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.contracts import FloatArray
from unrelu.passes.engine import available_cores

TABLES, QUICK = 20, 6  # a place; with so few, half hidden only
WITHIN, WARNED, FALSE = 1.10, 0.95, 0.05


@dataclass(frozen=True)
class Place:
    kind: Kind
    n: int
    share: float

    @property
    def name(self) -> str:
        return f"{self.kind}, n={self.n:,}, {self.share:.0%}"


@dataclass(frozen=True, eq=False)
class Trial:
    """One table: the answers of the default, of its own options and of its rivals."""

    ours: Default
    own: dict[str, Answer]
    rivals: dict[str, Answer]


def trial(task: tuple[Place, int]) -> Trial:
    place, seed = task
    options = OWN | ROBUST if place.kind.dirty else OWN
    table = draw(place.kind, place.n, place.share, seed)
    return Trial(
        default(table, seed),
        {name: own(table, given) for name, given in options.items()},
        {name: rival(table) for name, rival in RIVALS.items()},
    )


def places(most: int) -> list[Place]:
    shares = SHARES if most > QUICK else (0.5,)
    return [Place(kind, n, share) for kind in KINDS for n in SIZES for share in shares]


@dataclass(frozen=True, eq=False)
class Summary:
    """The trials of a place, and their errors by quantity."""

    place: Place
    trials: list[Trial]

    def errors(self, quantity: int, name: str = "") -> FloatArray:
        """Mean squared errors of every table: the default's, or those of an option or a rival."""
        answers = [t.ours if not name else (t.own | t.rivals)[name] for t in self.trials]
        return np.array([answer.errors[quantity] for answer in answers])

    def error(self, quantity: int, name: str = "") -> float:
        return math.sqrt(self.errors(quantity, name).mean())

    def best(self, quantity: int) -> tuple[float, str]:
        """(error of the best of its own options, its name)."""
        found = {name: self.errors(quantity, name) for name in self.trials[0].own}
        answered = {name: each for name, each in found.items() if np.isfinite(each).all()}
        if not answered:
            return math.nan, ""
        several, names = np.array(list(answered.values())), list(answered)
        others = several.sum(axis=1, keepdims=True) - several
        picked = np.take_along_axis(several, others.argmin(axis=0)[None], axis=0)
        return math.sqrt(picked.mean()), names[int(several.sum(axis=1).argmin())]

    def ratio(self, quantity: int) -> float:
        return self.error(quantity) / self.best(quantity)[0]

    def surely(self, quantity: int) -> float:
        """The ratio less two of its standard errors, by a jackknife of its logarithm over the tables."""
        n, ratio = len(self.trials), self.ratio(quantity)
        if n < 3 or not 0.0 < ratio < math.inf:
            return ratio
        rest = [Summary(self.place, self.trials[:i] + self.trials[i + 1 :]).ratio(quantity) for i in range(n)]
        return ratio * math.exp(-2.0 * math.sqrt(n - 1) * float(np.log(rest).std()))

    @property
    def n_refused(self) -> int:
        return sum(any(word.startswith("refused") for word in t.ours.warned) for t in self.trials)

    @property
    def z(self) -> tuple[float, float]:
        """Root mean squares of means and correlations in standard errors."""
        ours = [t.ours for t in self.trials]
        return rms(np.array([t.z_means for t in ours])), rms(np.array([t.z_correlations for t in ours]))


def run(most: int) -> list[Claim]:
    everywhere, seeds = places(most), range(min(TABLES, most))
    tasks = [(place, seed) for place in everywhere for seed in seeds]
    with ProcessPoolExecutor(available_cores(), get_context("spawn"), set_threads) as pool:
        found = dict(zip(tasks, pool.map(trial, tasks, chunksize=4), strict=True))
    summaries = [Summary(place, [found[place, seed] for seed in seeds]) for place in everywhere]
    print_errors(summaries)
    print_warnings(summaries)
    return print_claims(*claims_of(summaries))


def figure(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}" if value < 1e3 else f"{value:.0e}"


def print_errors(summaries: list[Summary]) -> None:
    for quantity, name in enumerate(QUANTITIES):
        named = [rival for rival in RIVALS if np.isfinite(summaries[0].error(quantity, rival))]
        rows = []
        for each in summaries:
            best, option = each.best(quantity)
            ours = each.error(quantity)
            if math.isnan(ours):
                continue
            beside = [figure(ours / each.error(quantity, rival)) for rival in named]
            rows.append([each.place.name, figure(ours), figure(ours / best), *beside, option])
        show(
            f"Errors of {name}: the default's, and over those of others ({len(summaries[0].trials)} tables a place)",
            ["", "error", "/ best own", *(f"/ {rival}" for rival in named), "best own"],
            rows,
        )


def print_warnings(summaries: list[Summary]) -> None:
    rows = []
    for each in summaries:
        ours = [t.ours for t in each.trials]
        words = [word for t in ours for word in t.warned]
        often = ", ".join(sorted(set(words), key=words.count, reverse=True)[:3])
        off = [bool(t.warned) for t in ours if t.off]
        rows.append(
            [
                each.place.name,
                *(figure(z) for z in each.z),
                f"{np.mean([t.off for t in ours]):.0%}",
                f"{np.mean([bool(t.warned) for t in ours]):.0%}",
                "" if not off else f"{np.mean(off):.0%}",
                str(sum(t.absurd for t in ours)) if each.place.kind.positive else "",
                often,
            ]
        )
    header = ["", "rms z means", "rms z correlations", "wrong", "warned", "warned of wrong", "absurd", "warnings"]
    show("Wrong by more than two standard errors, and warnings", header, rows)


def worst(summaries: list[Summary], quantity: int) -> tuple[float, str]:
    """(the ratio to the best of its own options that is surely largest, where it is and how many are too large)."""
    found = {each.place.name: (each.surely(quantity), each.ratio(quantity)) for each in summaries}
    found = {name: both for name, both in found.items() if not math.isnan(both[1])}
    name = max(found, key=lambda key: found[key][0])
    surely, seen = (sum(both[k] > WITHIN for both in found.values()) for k in (0, 1))
    note = f"{name}: {found[name][1]:.3g}; above {WITHIN:g} in {seen} of {len(found)} places, surely in {surely}"
    return found[name][0], note


def claims_of(summaries: list[Summary]) -> list[Claim]:
    claims = []
    for quantity, name in enumerate(QUANTITIES):
        for dirty, words in ((False, "no bad rows or cells"), (True, "bad rows or cells")):
            figure, note = worst([each for each in summaries if each.place.kind.dirty is dirty], quantity)
            label = f"{name}: default / best of its own options less noise, worst place, {words}"
            claims.append(Claim(label, figure, most=WITHIN, note=note))
        for rival in RIVALS:
            ratios = np.array([each.error(quantity) / each.error(quantity, rival) for each in summaries])
            if np.isfinite(ratios).any():
                note = (
                    f"worst {np.nanmax(ratios):.3g}; ahead in {np.sum(ratios < 1.0)} of {np.sum(ratios >= 0.0)} places"
                )
                claims.append(Claim(f"  default / {rival}, median place", float(np.nanmedian(ratios)), note=note))
    unclean = [t.ours for each in summaries if not each.place.kind.clean for t in each.trials]
    clean = [t.ours for each in summaries if each.place.kind.clean for t in each.trials]
    off = [bool(t.warned) for t in unclean if t.off]
    systematic = [each for each in summaries if max(each.z) > 2.0]
    silent = [each.place.name for each in systematic if np.mean([bool(t.ours.warned) for t in each.trials]) < WARNED]
    alarms = [bool(t.warned) for t in clean]
    absurd = sum(t.ours.absurd for each in summaries for t in each.trials)
    refused = sum(each.n_refused for each in summaries)
    return [
        *claims,
        Claim(
            "share with a warning, of tables that are wrong",
            float(np.mean(off)) if off else 1.0,
            least=WARNED,
            note=f"{len(off)} wrong",
        ),
        Claim(
            "places that are wrong, with a warning in fewer than 95 % of their tables",
            len(silent),
            most=0.0,
            note=f"of {len(systematic)}: {'; '.join(silent)}",
        ),
        Claim(
            "share with a warning, of clean tables",
            float(np.mean(alarms)),
            most=FALSE,
            note=f"{sum(alarms)} of {len(alarms)}",
        ),
        Claim("absurd values of positive columns: filled, drawn, predicted, sampled", absurd, most=0.0),
        Claim("tables that the default refuses", refused, most=0.0),
    ]
