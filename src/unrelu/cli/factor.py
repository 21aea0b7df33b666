"""``unrelu factor``: a table in, the low-rank matrix behind it out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command

if TYPE_CHECKING:
    from unrelu.contracts import FloatArray
    from unrelu.recovery.matrix_estimator import ReLUMatrixRecovery


@command(
    {
        "What components_, bias_ and hidden() say of them": "What is said of them",
        "add rows or leave them out": "add rows or leave them out with --drop",
        "latent vector: row_identifiable_ marks them, and latent_ holds a guess there": "latent vectors: these are"
        " filled in",
        "The best state is kept: raise max_iter, or go on from it with warm_start=True": "To go on, raise --max-iter,"
        " or run the same command again with --state FILE",
        "shape= goes with dense tables: pass X.toarray()": "--shape goes with dense tables: write it as one",
        "To go on, run the same again": "To go on, run the same command again",
        "the bias's density: give": "the density of the biases, which is a Python object: in Python, give",
    }
)
def factor(
    paths: options.Tables,
    components: Annotated[str, "How many; auto chooses by held-out cells.", {"metavar": "auto|INTEGER"}] = "auto",
    method: Annotated[str, "How to recover: see below."] = "censored_als",
    gauge: Annotated[
        str,
        "How T is split into C A' and b, which it does not tell: centered (b is T's mean), orthogonal (to A),"
        " bayes (between both), or zero (no b).",
    ] = "centered",
    tol: Annotated[float, "Relative residual at which a fit counts as exact."] = 1e-12,
    max_iter: Annotated[int, "Most iterations of this run.", {"min": 1}] = 500,
    floor: options.Floor = ["0.0"],  # noqa: B006 - typer copies it
    shape: options.NormalShape = None,
    floor_tolerance: options.Tolerance = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The factors file to write.")] = Path("factors.npz"),
    hidden: Annotated[Path | None, "Also write T, below the floor as well: a table, its kind by extension."] = None,
    latent: Annotated[Path | None, "Also write the rows' latent vectors: a table, as --hidden."] = None,
    state: Annotated[Path | None, "Keep the state in this file while working, and go on from it if it exists."] = None,
    picture: Annotated[Path | None, options.picture("the table, T and components")] = None,
    seed: Annotated[int, "Chooses the held-out cells of --components auto.", {"min": 0}] = 0,
) -> Answer | None:
    """Recover the low-rank matrix T = C A' + 1 b' behind a table x = max(T, floor), below the floor as well.

    A value at the floor only says that T is not above it. Cells may be missing; cells below the floor are an error.
    """
    job = Job(
        Output("factors", output, "Factors"),
        Output("hidden", hidden, "T", reading.table_kind),
        Output("latent", latent, "Latent vectors", reading.table_kind),
        Output("state", state, kind="kept"),
        Output("picture", picture, "Picture", "picture"),
        tables=paths,
    )
    count = options.number_or_auto("--components", components)
    from unrelu.cli.inputs import ids_of, opened
    from unrelu.recovery.matrix_estimator import ReLUMatrixRecovery
    from unrelu.report.factor import FactorResult, component_names, factor_facts, factor_picture, factor_tables
    from unrelu.report.tables import write_rows

    recovery = ReLUMatrixRecovery(
        count, method, gauge, floor_tolerance=floor_tolerance, tol=tol, max_iter=max_iter, random_state=seed
    )
    table = job.reads(opened(paths, reading, floor if floor != ["0.0"] else None))
    recovery.set_params(floor=options.limits("--floor", floor), shape=options.shapes(shape, "normal"))
    with job.watch() as watch:
        recovery.watched_by(watch).fit(table, state=state)
    job.write(
        factors=recovery.save,
        hidden=lambda path: write_rows(path, _hidden_blocks(recovery), table.feature_names, ids_of(table)),
        latent=lambda path: write_rows(path, recovery.latent_, component_names(recovery.n_components_), ids_of(table)),
        picture=lambda: factor_picture(FactorResult.of(recovery, table)),
    )
    report = recovery.report_
    told = [f"Recovered the matrix behind {report.n_rows:,} x {report.n_features:,} values in {job.seconds:.2f} s."]
    facts = {"state": None if report.converged else state, "resumed": None, **factor_facts(recovery)}
    if report.resumed is not None:
        iterations, residual = report.resumed
        facts["resumed"] = {"iteration": iterations, "residual": residual}
        told.append(f"Resumed at iteration {iterations:,}, residual {residual:.3g}.")
    last = []
    if state is not None and report.converged:
        state.unlink(missing_ok=True)  # by now all is written, and there is nothing to go on with
        last = [f"State {state} removed: done."]
    elif state is not None:
        last = [f"State kept in {state}: run the same command again to go on."]
    return job.answer(facts, [*told, *factor_tables(recovery)], last)


def _hidden_blocks(recovery: ReLUMatrixRecovery) -> Iterator[FloatArray]:
    """T in blocks of rows: that of a sparse table may not fit in memory."""
    from unrelu.tables import rows_per_block

    if recovery.shapes_ is not None:  # its table was in memory
        yield recovery.hidden()
        return
    n = len(recovery.latent_)
    size = rows_per_block(n, recovery.n_features_in_)
    for first in range(0, n, size):
        yield recovery.hidden_rows(first, first + size)
