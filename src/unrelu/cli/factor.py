"""``unrelu factor``: a table in, the low-rank matrix behind it out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli.options import ColumnsOption, DropOption, FloorOption, JsonOption, ToleranceOption, floors, listed_items
from unrelu.cli.outcome import Answer
from unrelu.errors import InvalidParameterError, UnreluWarning, WeakColumnsWarning, WeakRowsWarning

if TYPE_CHECKING:
    from rich.table import Table as ShownTable

    from unrelu.cli.factor_table import Table
    from unrelu.cli.progress import Meter
    from unrelu.contracts import FloatArray
    from unrelu.estimators.matrix import ReLUMatrixRecovery
    from unrelu.recovery.matrix.factors import Factors
    from unrelu.recovery.matrix.state import Keeper, SavedState


def factor(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Tables (csv, tsv, parquet, feather, npy, npz, scipy's sparse npz), globs of them, or - for csv on"
            " stdin.",
            metavar="PATHS",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The factors file to write.")] = Path("factors.npz"),
    rank: Annotated[
        str, typer.Option("--rank", metavar="auto|INTEGER", help="Components; auto chooses by held-out cells.")
    ] = "auto",
    method: Annotated[str, typer.Option("--method", help="censored_als, or tobit_em (with noise).")] = "censored_als",
    gauge: Annotated[
        str, typer.Option("--gauge", help="How T is split: centered, orthogonal, bayes, or zero (no bias).")
    ] = "centered",
    floor: FloorOption = ["0.0"],  # noqa: B006 - typer copies it
    floor_tolerance: ToleranceOption = 0.0,
    columns: ColumnsOption = None,
    drop: DropOption = None,
    hidden: Annotated[
        Path | None,
        typer.Option("--hidden", help="Also write T, below the floor as well: a table, its kind by extension."),
    ] = None,
    latent: Annotated[
        Path | None, typer.Option("--latent", help="Also write the rows' latent vectors: a table, as --hidden.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Also draw the table, T and components: a png, svg or pdf file.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="Keep the state in this file while working, and go on from it if it exists."),
    ] = None,
    tol: Annotated[float, typer.Option("--tol", help="Relative residual at which a fit counts as exact.")] = 1e-12,
    max_iter: Annotated[int, typer.Option("--max-iter", min=1, help="Most iterations of this run.")] = 500,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Chooses the held-out cells of --rank auto.")] = 0,
    as_json: JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer:
    """Recover the low-rank matrix T = C A' + 1 b' behind a table x = max(T, floor), below the floor as well.

    A value at the floor only says that T is not above it. Cells may be missing; cells below the floor are an error.
    """
    from unrelu.cli.factor_table import read_table
    from unrelu.cli.progress import meter

    files = _Files(output, hidden, latent, picture, state)
    files.check(paths)
    recovery = _recovery(_rank(rank), method, gauge, floor_tolerance, tol, max_iter, seed)
    begin = time.perf_counter()
    with meter() as shown:
        shown.stage("Reading rows")
        table = read_table(paths, listed_items(columns), listed_items(drop), shown)
    own_floors = floors(floor, table.shape[1], table.names)
    table.check([level - floor_tolerance for level in own_floors])
    recovery.floor = own_floors
    before, keeper = (None, None) if state is None else _state(state, table, recovery)
    _fit(recovery, table, before, keeper)
    _complete(recovery, table, before, state)
    files.write(recovery, table)
    return _answer(recovery, files, before, time.perf_counter() - begin)


# --- before the long work -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Files:
    """What is to be written, where wanted."""

    output: Path
    hidden: Path | None
    latent: Path | None
    picture: Path | None
    state: Path | None

    def check(self, inputs: list[str]) -> None:
        """Everything about outputs that can be refused before the long work."""
        from unrelu.cli.outputs import check_kinds, check_outputs

        check_outputs([self.output, self.hidden, self.latent, self.picture, self.state], inputs)
        check_kinds((self.hidden, self.latent), self.picture)

    def write(self, recovery: ReLUMatrixRecovery, table: Table) -> None:
        """Each file whole or not at all; the state goes last, and only if there is nothing to go on with."""
        from unrelu.report.factor_summary import component_names
        from unrelu.report.pictures import write_picture
        from unrelu.samples import write_table

        drawn = None if self.picture is None else _drawn(recovery, table, self.picture.suffix)
        recovery.save(self.output)
        if self.hidden is not None:
            write_table(self.hidden, _hidden_blocks(recovery), table.names)
        if self.latent is not None:
            write_table(self.latent, recovery.latent_, component_names(recovery.rank_))
        if self.picture is not None and drawn is not None:
            write_picture(self.picture, drawn)
        if self.state is not None and recovery.report_.converged:
            self.state.unlink(missing_ok=True)


def _rank(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        rank = int(text)
    except ValueError:
        rank = 0
    if rank < 1:
        raise InvalidParameterError(f"--rank must be a whole number of at least 1, or auto; got {text!r}.")
    return rank


def _recovery(
    rank: int | str, method: str, gauge: str, tolerance: float, tol: float, max_iter: int, seed: int
) -> ReLUMatrixRecovery:
    """The estimator; its floor is known once the columns are."""
    from unrelu.estimators.matrix import ReLUMatrixRecovery
    from unrelu.recovery.matrix.factors import GAUGES
    from unrelu.recovery.matrix.methods import matrix_method
    from unrelu.validation import check_choice, check_positive

    if method == "likelihood":
        raise InvalidParameterError(
            "--method likelihood needs the density of the biases, which is a Python object: in Python, use"
            " unrelu.ReLUMatrixRecovery with method=unrelu.papers.Likelihood(scipy.stats.norm(0, 1)), say."
        )
    matrix_method(method)
    check_choice("gauge", gauge, GAUGES)
    check_positive("--tol", tol)
    options: dict[str, Any] = {"floor_tolerance": tolerance, "tol": tol, "max_iter": max_iter, "random_state": seed}
    return ReLUMatrixRecovery(rank, method, gauge, **options)


def _state(path: Path, table: Table, recovery: ReLUMatrixRecovery) -> tuple[SavedState | None, Keeper]:
    """The state to go on from, if there is one, and who keeps it from now on."""
    from unrelu.recovery.matrix.state import Keeper, SavedState, fingerprint

    facts = fingerprint(
        table.cells(),
        floor=recovery.floor,
        floor_tolerance=recovery.floor_tolerance,
        rank=recovery.rank,
        method=recovery.method,
        gauge=recovery.gauge,
        **({"seed": recovery.random_state} if recovery.rank == "auto" else {}),
    )
    before = SavedState.load(path) if path.exists() else None
    if before is not None:
        before.check_belongs(facts, path)
        recovery.rank = before.factors.rank
    return before, Keeper(path, facts, before)


# --- the long work --------------------------------------------------------------------------------


def _fit(recovery: ReLUMatrixRecovery, table: Table, before: SavedState | None, keeper: Keeper | None) -> None:
    """Fit with progress; an interruption says how to go on."""
    from unrelu.cli.progress import meter

    try:
        with meter() as shown, keeper or nullcontext(), warnings.catch_warnings():
            for told_in_our_words in (WeakColumnsWarning, WeakRowsWarning):
                warnings.simplefilter("ignore", told_in_our_words)
            watch = _Watch(shown, keeper, 0 if before is None else before.iterations)
            shown.stage("Choosing the rank" if recovery.rank == "auto" else "Recovering (the first run also compiles)")
            start = None if before is None else before.factors
            recovery._fit_from(table.values, start, watch.iteration, watch.rank)
    except KeyboardInterrupt:
        if keeper is not None:
            typer.echo(keeper.how_to_go_on(), err=True)
        raise


class _Watch:
    """Tells the terminal of every iteration and every rank tried, and the keeper of the state."""

    def __init__(self, shown: Meter, keeper: Keeper | None, iterations: int) -> None:
        self._shown, self._keeper, self._before = shown, keeper, iterations
        self._ranks: list[str] = []
        self._recovering = False

    def rank(self, rank: int, error: float) -> None:
        self._ranks.append(f"{rank}: {error:.2g}")
        self._shown.tell(f"held-out error by rank {', '.join(self._ranks[-4:])}")
        if self._keeper is not None:
            self._keeper.hear_rank(rank, error)

    def iteration(self, iteration: int, residual: float, factors: Factors) -> None:
        if not self._recovering:
            self._shown.stage("Recovering")
            self._recovering = True
        self._shown.tell(f"iteration {self._before + iteration:,}, residual {residual:.2e}")
        if self._keeper is not None:
            self._keeper(iteration, residual, factors)


def _complete(recovery: ReLUMatrixRecovery, table: Table, before: SavedState | None, state: Path | None) -> None:
    """Names, what an earlier run has done, and warnings that speak of options."""
    import numpy as np

    from unrelu.validation import label_columns, warn

    if table.names is not None:
        recovery.feature_names_in_ = np.array(table.names, dtype=object)
    if before is not None:
        done = recovery.report_.iterations + before.iterations
        recovery.report_ = replace(recovery.report_, iterations=done, rank_errors=before.rank_errors)
        recovery.n_iter_ = done
    report = recovery.report_
    if report.weak_columns:
        weak = label_columns(~recovery.column_identifiable_, table.names)
        warn(
            f"Not determined by their values above the floor: {weak}. What is said of them is filled in. Lower --rank,"
            " add rows or leave them out with --drop.",
            WeakColumnsWarning,
        )
    if report.weak_rows:
        warn(
            f"{report.weak_rows:,} of {report.n_rows:,} rows have too few values above the floor to determine their"
            " latent vectors: these are filled in.",
            WeakRowsWarning,
        )
    if not report.converged:
        go_on = "keep the state with --state FILE" if state is None else f"run the same command again, from {state}"
        warn(
            f"Not converged after {report.iterations:,} iterations: relative residual {report.residual:.3g}."
            f" To go on, raise --max-iter or {go_on}.",
            UnreluWarning,
        )


# --- what comes out -------------------------------------------------------------------------------


def _hidden_blocks(recovery: ReLUMatrixRecovery) -> Iterator[FloatArray]:
    """T in blocks of rows: that of a sparse table may not fit in memory."""
    from unrelu.samples import rows_per_block

    n = len(recovery.latent_)
    size = rows_per_block(n, recovery.n_features_in_)
    for first in range(0, n, size):
        yield recovery.latent_[first : first + size] @ recovery.components_ + recovery.bias_


def _drawn(recovery: ReLUMatrixRecovery, table: Table, kind: str) -> bytes:
    from unrelu.report.factor_picture import FactorResult, factor_picture
    from unrelu.report.pictures import rendered

    return rendered(factor_picture(FactorResult.of(recovery, table.part)), kind)


def _answer(recovery: ReLUMatrixRecovery, files: _Files, before: SavedState | None, seconds: float) -> Answer:
    from unrelu.report.factor_summary import (
        column_labels,
        component_summaries,
        component_table,
        rank_table,
        recovery_facts,
    )
    from unrelu.report.tables import fact_table

    report, names = recovery.report_, column_labels(recovery)
    components = component_summaries(recovery)
    resumed = None if before is None else {"iteration": before.iterations, "residual": before.residual}
    state_kept = files.state is not None and not report.converged
    facts = {
        "factors": files.output,
        "hidden": files.hidden,
        "latent": files.latent,
        "picture": files.picture,
        "state": files.state if state_kept else None,
        "resumed": resumed,
        "seconds": round(seconds, 3),
        "report": asdict(report),
        "weak_columns": [names[j] for j in report.weak_columns],
        "components": [asdict(component) for component in components],
    }
    written = {"Factors": files.output, "T": files.hidden, "Latent vectors": files.latent, "Picture": files.picture}
    shown: list[str | ShownTable] = [
        f"Recovered the matrix behind {report.n_rows:,} x {report.n_features:,} values in {seconds:.2f} s.",
        *([] if before is None else [f"Resumed at iteration {before.iterations:,}, residual {before.residual:.3g}."]),
        fact_table(recovery_facts(report, names)),
        *([rank_table(report)] if report.rank_errors else []),
        component_table(components),
        *[f"{what} written to {path}" for what, path in written.items() if path is not None],
        *_about_state(files.state, state_kept),
    ]
    return Answer(facts, shown)


def _about_state(state: Path | None, kept: bool) -> list[str]:
    if state is None:
        return []
    return [f"State kept in {state}: run the same command again to go on." if kept else f"State {state} removed: done."]
