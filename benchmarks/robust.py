"""The robust learner against its rivals on many kinds of outliers (benchmarks/zoo.py).

    python -m benchmarks.robust             everything, about an hour; writes docs/robust.md, .csv, .png and the claims
    python -m benchmarks.robust --redraw    docs/robust.md and robust.png anew from robust.csv; measures only the speed
    python -m benchmarks.robust --repetitions 1 --kinds "N(5,1),all zeros" --d 5     a trial; writes nothing

``make bench`` takes two repetitions of the cells with one outlier in five rows.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.speed import seconds
from benchmarks.table import Claim, render, write
from benchmarks.zoo import (
    CLEAN,
    DIMENSIONS,
    KINDS,
    MCD_SEEDS,
    METHODS,
    ROBUST,
    SHARES,
    TRIM,
    Cell,
    Cells,
    N,
    Place,
    measure,
    places,
    read_trials,
    write_trials,
)
from unrelu import RectifiedGaussianLearner, synthetic
from unrelu.report.pictures import INK, new_figure, rendered, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOCS = Path("docs")
REPETITIONS = 10
WORKERS = 2

SCALED = "rows scaled by 3"  # with few columns many still look like inliers: counts only where scores tell them
SEPARATED = {  # the smallest share of inlier rows at which the robust error must be nearly the oracle's
    "N(5,1)": 0.7,
    "point mass at 10": 0.7,
    "one coordinate +6": 0.7,
    SCALED: 0.7,
    "N(3,1)": 0.8,
    "all zeros": 0.8,
}
SEPARATED_BY_SCORES = ("N(5,1)", "point mass at 10", "one coordinate +6")
OVERLAPPING = {"N(2,1)": 1.5, "N(0,9)": 1.5, "Cauchy x 3": 2.5}  # most error / oracle's, at the share:
MIDDLE = 0.8
SURE = 0.99  # area under the ROC curve from which scores separate


def run() -> list[Claim]:
    cells = measure_all(places(shares=(MIDDLE,)), range(2))
    return [*(replace(claim, name=f"{claim.name} (2 repetitions)") for claim in claims_of(cells)), speed()]


# --- measuring ------------------------------------------------------------------------------------


@contextmanager
def single_threads() -> Iterator[None]:
    """Processes started meanwhile use one thread each: there are as many processes as cores."""
    given = {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def measure_all(wanted: Sequence[Place], seeds: Sequence[int]) -> Cells:
    start = time.perf_counter()
    cells: Cells = {}
    with single_threads(), ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(measure, place, seeds): place for place in wanted}
        for done in as_completed(waiting):
            place = waiting[done]
            cells[place] = Cell(place, tuple(done.result()))
            count = f"{len(cells)}/{len(wanted)}, {time.perf_counter() - start:.0f} s"
            print(f"[{count}] {summary(cells[place])}", file=sys.stderr, flush=True)
    return {place: cells[place] for place in wanted}


def summary(cell: Cell) -> str:
    other = cell.best_other()
    scores = f"false flags x {cell.false_flags:.2f}" if cell.place.kind == CLEAN else f"AUC {cell.auc:.4f}"
    ratios = f"robust {short(cell.ratio(ROBUST))}, {other} {short(cell.ratio(other))}"
    return f"{cell.place.name}: {ratios}, {scores}, {cell.seconds:.1f} s a robust fit"


def speed() -> Claim:
    n, d = 200_000, 50
    truth = synthetic.random_model(d, condition_number=10.0, random_state=0)
    x, _ = synthetic.contaminate(
        truth.sample(n, random_state=1),
        0.1,
        lambda count, rng: np.maximum(rng.normal(5.0, 1.0, (count, d)), 0.0),
        2,
        fixed=True,
    )
    robust, one_pass = (
        RectifiedGaussianLearner("robust", margins="normal"),
        RectifiedGaussianLearner("one_pass", margins="normal"),
    )
    for learner in (robust, one_pass):
        learner.fit(x[:N])  # compiled or loaded from the cache
    times = [(seconds(lambda: robust.fit(x)), seconds(lambda: one_pass.fit(x))) for _ in range(3)]
    middle = np.median(times, axis=0)
    return Claim(
        f"time of the robust fit / of the one-pass fit, n={n:,}, d={d}, 10 % outliers",
        float(middle[0] / middle[1]),
        most=25.0,
        note=f"{middle[0]:.2f} s against {middle[1]:.2f} s; medians of 3",
    )


# --- claims ---------------------------------------------------------------------------------------


def claims_of(cells: Cells) -> list[Claim]:
    """The claims that the measured cells allow."""
    claims: list[Claim] = []
    for d in sorted({place.d for place in cells}):
        here = {place: cell for place, cell in cells.items() if place.d == d}
        claims += [*clean_rows(here[Place(CLEAN, d, 1.0)]), *separated_kinds(here), *overlapping(here)]
    return [*claims, never_worse(cells), *scores_separate(cells)]


def clean_rows(cell: Cell) -> list[Claim]:
    seconds_each = f"{cell.seconds:.1f} s a robust fit"
    return [
        Claim(f"robust / oracle's error, clean, d={cell.place.d}", cell.ratio(ROBUST), most=1.1, note=seconds_each),
        Claim(f"false flags / nominal, clean, d={cell.place.d}", cell.false_flags, most=1.2, least=0.8),
    ]


def separated_kinds(cells: Cells) -> list[Claim]:
    """One claim for each kind, on its worst share."""
    claims = []
    for kind, least in SEPARATED.items():
        found = [cell for place, cell in cells.items() if place.kind == kind and place.share >= least]
        counted = [cell for cell in found if kind != SCALED or cell.auc >= SURE]
        if counted:
            note = f"; these have an AUC of {SURE:g} or more" if kind == SCALED else ""
            claims.append(worst_share("", counted, 1.25, note))
        others = [cell for cell in found if cell not in counted]
        if others:
            claims.append(worst_share("  not counted: ", others, None, f"; these have an AUC below {SURE:g}"))
    return claims


def worst_share(label: str, cells: Sequence[Cell], most: float | None, note: str) -> Claim:
    worst = max(cells, key=lambda cell: cell.ratio(ROBUST))
    shares = ", ".join(f"{cell.place.share:g}" for cell in cells)
    name = f"{label}robust / oracle's error, {worst.place.kind}, d={worst.place.d}"
    note = f"worst at p={worst.place.share:g} of {shares}{note}"
    return Claim(name, worst.ratio(ROBUST), most=most, note=note)


def overlapping(cells: Cells) -> list[Claim]:
    claims = []
    for place, cell in cells.items():
        if place.share == MIDDLE and place.kind in OVERLAPPING:
            name = f"robust / oracle's error, {place.kind}, d={place.d}, p={MIDDLE:g}"
            claims.append(Claim(name, cell.ratio(ROBUST), most=OVERLAPPING[place.kind], note=f"AUC {cell.auc:.3f}"))
        if place.share == MIDDLE and place.kind == "reversed correlations":
            name = f"robust / best other's error, {place.kind}, d={place.d}, p={MIDDLE:g}"
            other = cell.best_other()
            note = f"best other: {other}; the oracle's error is {1.0 / cell.ratio(other):.3f} of it"
            claims.append(Claim(name, cell.robust_over_best, most=1.0 / 3.0, note=note))
    return claims


def never_worse(cells: Cells) -> Claim:
    worst = max(cells.values(), key=lambda cell: cell.robust_over_best)
    note = f"{worst.place.name}, against {worst.best_other()}; largest of {len(cells)} cells"
    return Claim("robust / best other's error, worst cell", worst.robust_over_best, most=1.0, note=note)


def scores_separate(cells: Cells) -> list[Claim]:
    def counts(cell: Cell) -> bool:
        return cell.place.kind in SEPARATED_BY_SCORES or (cell.place.kind == SCALED and cell.auc >= SURE)

    found = [cell for cell in cells.values() if counts(cell)]
    if not found:
        return []
    worst = min(found, key=lambda cell: -math.inf if math.isnan(cell.auc) else cell.auc)
    note = f"{worst.place.name}; smallest of {len(found)} separated cells"
    return [Claim("area under the ROC curve of the scores, worst cell", worst.auc, least=SURE, note=note)]


# --- tables ---------------------------------------------------------------------------------------


def short(value: float) -> str:
    """
    >>> short(1.0234), short(37.2), short(123456.0), short(math.inf), short(math.nan)
    ('1.02', '37', '1e5', '∞', '')
    """
    if not math.isfinite(value):
        return "" if math.isnan(value) else "∞"
    if value < 1e4:
        return f"{value:.2f}" if value < 10.0 else f"{value:.0f}"
    return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def cell_at(cells: Cells, kind: str, d: int, share: float) -> Cell | None:
    return cells.get(Place(CLEAN, d, 1.0) if share == 1.0 else Place(kind, d, share))


def markdown_table(cells: Cells, d: int, shares: Sequence[float], text: Callable[[Cell], str]) -> str:
    lines = [f"| outliers | {' | '.join(f'p = {share:g}' for share in shares)} |", "| --- " * (len(shares) + 1) + "|"]
    for kind in KINDS:
        found = [cell_at(cells, kind, d, share) for share in shares]
        lines.append(f"| {kind} | {' | '.join('' if cell is None else text(cell) for cell in found)} |")
    return "\n".join(lines)


def with_name(cell: Cell) -> str:
    other = cell.best_other()
    return f"{short(cell.ratio(other))} ({other})"


def failures(cells: Cells) -> str:
    counts = {method: sum(cell.failures(method) for cell in cells.values()) for method in METHODS}
    raised = [f"{method} on {count} tables" for method, count in counts.items() if count]
    if not raised:
        return "No method raised an error on any table."
    return f"An error raised counts as infinite (∞): {', '.join(raised)}."


def document(cells: Cells) -> str:
    parts = [
        f"""# The robust learner on many kinds of outliers

`python -m benchmarks.robust` writes this page: {N:,} rows of a random model (condition number 10, means >= 0) with d
columns, of which the share p is inlier and the others are replaced by outliers, rectified at 0. The error is half the
sum of the error of the means and the error of W W'; figures are means over {REPETITIONS} tables, divided by the mean
error of the oracle, `one_pass` with `margins="normal"` on the inlier rows alone. Beside the robust method stand
`one_pass` (the same on all rows; at p = 1 it is the oracle and not counted), `MinCovDet` of scikit-learn (on the first
{MCD_SEEDS} tables), and Bulusu et al. 2022's `FilteredGradient` with its median and its trimmed filter
(trim={TRIM:g}); both filters assume non-negative means. Without outliers all kinds are the same tables.
{failures(cells)} [robust.csv](robust.csv) has every error, and
[the file of claims](benchmarks/robust.csv) the bounds that they must keep.

![Error over the oracle's error, every method](robust.png)"""
    ]
    for d in DIMENSIONS:
        parts += [
            f"## d = {d}",
            "Robust: error / oracle's error.",
            markdown_table(cells, d, SHARES, lambda cell: short(cell.ratio(ROBUST))),
            "The best other method: error / oracle's error.",
            markdown_table(cells, d, SHARES, with_name),
            "Area under the ROC curve of the robust fit's scores, outliers against inlier rows.",
            markdown_table(cells, d, SHARES[1:], lambda cell: f"{cell.auc:.4f}"),
        ]
    return "\n\n".join(parts) + "\n"


# --- picture --------------------------------------------------------------------------------------


def heat_map(cells: Cells) -> Figure:
    """A panel for each method and d: kinds of outliers x shares of inlier rows."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    figure = new_figure((15.5, 8.6))
    figure.suptitle("Error over the error of the oracle, which fits the inlier rows alone", fontsize=14, color=INK)
    colours = ScalarMappable(LogNorm(1.0, 300.0, clip=True), colormaps["YlGnBu"])
    grid = figure.subplots(len(DIMENSIONS), len(METHODS), sharex=True, sharey=True, squeeze=False)
    for d, row in zip(DIMENSIONS, grid, strict=True):
        for method, axes in zip(METHODS, row, strict=True):
            axes.set_title(f"{method}, d = {d}", fontsize=11, color=INK)
            draw_panel(axes, cells, method, d, colours)
    for axes in grid[-1]:
        axes.set_xlabel("share of inlier rows")
    bar = figure.colorbar(colours, ax=grid, shrink=0.6, aspect=40, extend="max", label="error / oracle's error")
    bar.set_ticks([1, 3, 10, 30, 100, 300], labels=["1", "3", "10", "30", "100", "300"])
    bar.ax.minorticks_off()
    return figure


def draw_panel(axes: Axes, cells: Cells, method: str, d: int, colours: object) -> None:
    found = [[cell_at(cells, kind, d, share) for share in SHARES] for kind in KINDS]
    ratios = np.array([[math.nan if cell is None else cell.ratio(method) for cell in row] for row in found])
    # An infinite ratio has the last colour.
    image = colours.to_rgba(np.ma.masked_invalid(np.where(np.isinf(ratios), 1e9, ratios)))  # type: ignore[attr-defined]
    axes.imshow(image, aspect="auto", interpolation="nearest")
    for (y, x), ratio in np.ndenumerate(ratios):
        brightness = image[y, x, :3] @ [0.3, 0.6, 0.1]
        colour = "white" if brightness < 0.5 else "black"
        axes.text(x, y, short(ratio), ha="center", va="center", fontsize=9, color=colour)
    axes.set_xticks(range(len(SHARES)), [f"{share:g}" for share in SHARES])
    axes.set_yticks(range(len(KINDS)), list(KINDS))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def draw() -> None:
    """The picture, from the file of raw errors."""
    write_picture(DOCS / "robust.png", rendered(heat_map(read_trials(DOCS / "robust.csv"))))


# --- the command ----------------------------------------------------------------------------------


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.robust", description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--kinds", type=kinds_named, default=tuple(KINDS), help=f"some of: {', '.join(KINDS)}")
    parser.add_argument("--d", type=int, choices=DIMENSIONS, help="only that many columns")
    parser.add_argument("--redraw", action="store_true", help="only write docs/robust.md and .png anew from .csv")
    return parser.parse_args(arguments)


def kinds_named(text: str) -> tuple[str, ...]:
    """
    >>> kinds_named("N(5,1),all zeros")
    ('N(5,1)', 'all zeros')
    """
    kinds = tuple(part.strip() for part in re.split(r",(?![^(]*\))", text))  # commas outside brackets
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; there are: {', '.join(KINDS)}")
    return kinds


def main(arguments: Sequence[str]) -> int:
    given = options(arguments)
    if given.redraw:
        everything, cells = True, read_trials(DOCS / "robust.csv")
    else:
        dimensions = DIMENSIONS if given.d is None else (given.d,)
        everything = (given.kinds, dimensions, given.repetitions) == (tuple(KINDS), DIMENSIONS, REPETITIONS)
        cells = measure_all(places(given.kinds, dimensions), range(given.repetitions))
    if everything:  # at once: what follows must not cost the hour before it
        write_trials(DOCS / "robust.csv", cells)
        draw()
    claims = [*claims_of(cells), speed()]
    print(render(claims))
    if everything:
        (DOCS / "robust.md").write_text(document(cells))
        write("robust", claims)
    return 1 if any(claim.holds is False for claim in claims) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
