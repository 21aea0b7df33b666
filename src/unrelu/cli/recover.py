"""``unrelu recover``: a known layer and its corrupted outputs in, clean outputs and latent vectors out."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrelu.cli.options import ColumnsOption, DropOption, JsonOption, listed_items
from unrelu.cli.outcome import Answer, counted
from unrelu.errors import InputFileError, InvalidParameterError

if TYPE_CHECKING:
    from rich.table import Table as ShownTable

    from unrelu.cli.factor_table import Table
    from unrelu.cli.recover_layer import KnownLayer
    from unrelu.recovery.latent.recover import LatentMethod
    from unrelu.report.recover_summary import RecoveredRows

_METHODS, _PRIORS = ("robust", "lasso"), ("none", "gaussian", "sparse", "nonnegative")


def recover(
    weights: Annotated[
        Path,
        typer.Argument(
            help="The layer: a file of unrelu fit or unrelu factor, or an npz file with arrays weights (d x k), bias"
            " (d), and where wanted floor and feature_names.",
            metavar="WEIGHTS",
        ),
    ],
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Tables of corrupted outputs (csv, tsv, parquet, feather, npy, npz, scipy's sparse npz), globs of"
            " them, or - for csv on stdin. Empty cells and NaN are missing values.",
            metavar="PATHS",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The clean table to write, its kind by extension.")
    ] = Path("clean.csv"),
    latent: Annotated[
        Path | None, typer.Option("--latent", help="Also write the latent vectors: a table, as --output.")
    ] = None,
    outliers: Annotated[
        Path | None,
        typer.Option("--outliers", help="Also write by how much values are off: a table, 0 where they are not."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Also draw the table beside the clean one: png, svg or pdf.")
    ] = None,
    method: Annotated[str, typer.Option("--method", help="robust, or lasso (program (47) of the paper).")] = "robust",
    prior: Annotated[
        str | None,
        typer.Option(
            "--prior",
            help=f"What is known of c: {', '.join(_PRIORS)} (robust). By default gaussian for a model, none for an npz"
            " file of arrays.",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option("--rank", min=1, help="Latent numbers per row, for a model of unrelu fit; all by default."),
    ] = None,
    noise_scale: Annotated[
        float | None, typer.Option("--noise-scale", help="Standard deviation of the noise, where it is known (robust).")
    ] = None,
    penalty: Annotated[
        float | None, typer.Option("--penalty", help="lambda of program (47); the theorem's rule by default (lasso).")
    ] = None,
    intercept: Annotated[
        bool, typer.Option("--intercept", help="Take the mean of the nonlinear part out of the outliers (lasso).")
    ] = False,
    floor: Annotated[
        list[str] | None,
        typer.Option(
            "--floor",
            metavar="FLOOR",
            help="The floor, where WEIGHTS does not tell: a number (0 by default), or one per column as As=0.5,Pb=1.",
        ),
    ] = None,
    columns: ColumnsOption = None,
    drop: DropOption = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave rows empty that cannot be recovered, instead of stopping.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seeds the search.")] = 0,
    as_json: JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer:
    """Recover the latent vectors c behind corrupted outputs v = max(floor, A c + b) + outliers + noise of a layer.

    The layer A, b is known, or was learned by unrelu fit or unrelu factor. Writes the outputs as they were before
    corruption, max(floor, A c + b): outliers corrected, missing cells filled in.
    """
    from unrelu.cli.progress import meter
    from unrelu.cli.recover_layer import loaded_layer, matched
    from unrelu.cli.recover_rows import recovered_rows, warn_of_rivals

    files = _Files(output, latent, outliers, picture)
    files.check(weights, paths)
    options = _Options(method, prior, noise_scale, penalty, intercept)
    options.check()
    begin = time.perf_counter()
    layer = loaded_layer(weights, rank, floor)
    options = options.completed(layer.fitted)
    with meter() as shown:
        layer, table = matched(layer, paths, listed_items(columns), listed_items(drop), shown)
        layer = layer.with_floor(floor)
        rows = recovered_rows(layer, table, options.chosen(), seed, skip_bad_rows, shown)
    warn_of_rivals(rows)
    files.write(rows, table, layer)
    return _answer(rows, layer, files, options, time.perf_counter() - begin)


# --- before the long work -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Files:
    """What is to be written, where wanted."""

    output: Path
    latent: Path | None
    outliers: Path | None
    picture: Path | None

    def check(self, weights: Path, paths: list[str]) -> None:
        """Everything about files that can be refused before the long work."""
        from unrelu.cli.outputs import check_kinds, check_outputs

        for path in [path for path in paths if os.path.exists(path) and weights.exists()]:
            if os.path.samefile(path, weights):
                raise InputFileError(
                    f"{path} is given both as WEIGHTS and as a table: give the layer first, then tables."
                )
        check_outputs([self.output, self.latent, self.outliers, self.picture], [weights, *paths])
        check_kinds((self.output, self.latent, self.outliers), self.picture)

    def write(self, rows: RecoveredRows, table: Table, layer: KnownLayer) -> None:
        """Each file whole or not at all."""
        from unrelu.report.factor_summary import component_names
        from unrelu.report.pictures import write_picture
        from unrelu.samples import write_table

        drawn = None if self.picture is None else _drawn(rows, table, layer, self.picture.suffix)
        write_table(self.output, rows.clean, layer.names)
        if self.latent is not None:
            write_table(self.latent, rows.latent, component_names(rows.latent.shape[1]))
        if self.outliers is not None:
            write_table(self.outliers, rows.outliers, layer.names)
        if self.picture is not None and drawn is not None:
            write_picture(self.picture, drawn)


@dataclass(frozen=True)
class _Options:
    """How to recover, as asked for."""

    method: str
    prior: str | None
    noise_scale: float | None
    penalty: float | None
    intercept: bool

    def check(self) -> None:
        from unrelu.validation import check_choice, check_positive

        check_choice("method", self.method, _METHODS)
        check_choice("prior", self.prior or "none", _PRIORS)
        for name, value in (("--noise-scale", self.noise_scale), ("--penalty", self.penalty)):
            if value is not None:
                check_positive(name, value)
        robust = {"--prior": self.prior not in (None, "none"), "--noise-scale": self.noise_scale is not None}
        lasso = {"--penalty": self.penalty is not None, "--intercept": self.intercept}
        foreign, other = (robust, "robust") if self.method == "lasso" else (lasso, "lasso")
        for name in [name for name, given in foreign.items() if given]:
            raise InvalidParameterError(f"{name} belongs to --method {other}: leave it out, or choose that method.")

    def completed(self, fitted: bool) -> _Options:
        """With the prior that is used where none is named."""
        return replace(self, prior=self.prior or ("gaussian" if fitted and self.method == "robust" else "none"))

    def chosen(self) -> LatentMethod:
        from unrelu.recovery import LatentLasso, RobustLatent
        from unrelu.recovery.latent.priors import prior_named

        if self.method == "lasso":
            return LatentLasso(self.penalty, self.intercept)
        return RobustLatent(prior_named(None if self.prior == "none" else self.prior), self.noise_scale)


# --- what comes out -------------------------------------------------------------------------------


def _drawn(rows: RecoveredRows, table: Table, layer: KnownLayer, kind: str) -> bytes:
    from unrelu.report.pictures import rendered
    from unrelu.report.recover_picture import RecoverResult, recover_picture

    return rendered(recover_picture(RecoverResult.of(rows, table.part, layer.floor, layer.names)), kind)


def _answer(rows: RecoveredRows, layer: KnownLayer, files: _Files, options: _Options, seconds: float) -> Answer:
    from unrelu.report.recover_summary import outlier_table, recovery_facts, recovery_report, strangest_columns
    from unrelu.report.tables import fact_table

    report = recovery_report(rows, options.method, options.prior or "none")
    columns = strangest_columns(rows, layer.names)
    facts = {
        "weights": layer.path,
        **{"clean" if name == "output" else name: path for name, path in asdict(files).items()},
        "seconds": round(seconds, 3),
        "report": asdict(report),
        "columns": [asdict(column) for column in columns],
        "ambiguous": [{"row": i, "latent": rows.latent[i], "rival": rival} for i, rival in sorted(rows.rivals.items())],
        "bad_rows": [{"row": i, "reason": why} for i, why in sorted(rows.failed.items())],
    }
    written = zip(("Clean table", "Latent vectors", "Outliers", "Picture"), asdict(files).values(), strict=True)
    shown: list[str | ShownTable] = [
        f"Recovered {counted(report.n_rows - report.n_bad, 'row')} through {layer.path} in {seconds:.2f} s.",
        fact_table(recovery_facts(rows, report)),
        *([outlier_table(columns)] if columns else []),
        *[f"{what} written to {path}" for what, path in written if path is not None],
    ]
    return Answer(facts, shown)
