"""``unrelu recover``: a known layer and its corrupted outputs in, clean outputs and latent vectors out."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.methods import METHODS
from unrelu.cli.outcome import Answer, command
from unrelu.errors import InputFileError, InvalidParameterError

if TYPE_CHECKING:
    from rich.table import Table

    from unrelu.cli.recover_layer import KnownLayer
    from unrelu.estimators import ReLULatentRecovery
    from unrelu.recovery.latent.methods import LatentMethod
    from unrelu.recovery.latent.recover import LatentRows

_PRIORS = ("none", "gaussian", "sparse", "nonnegative")


@command({"the result has both, as latent and rival": "the better one is used, --json has both"})
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
        list[str], options.tables("Tables of corrupted outputs", more=" Empty cells and NaN are missing values.")
    ],
    components: Annotated[
        int | None,
        typer.Option("--components", min=1, help="Latent numbers per row, for a model of unrelu fit; all by default."),
    ] = None,
    method: Annotated[str, typer.Option("--method", help="How to recover: see below.")] = "robust",
    prior: Annotated[
        str | None,
        typer.Option(
            "--prior",
            help=f"What is known of c: {', '.join(_PRIORS)} (robust). By default gaussian for a model, none for an npz"
            " file of arrays.",
        ),
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
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave rows empty that cannot be recovered, instead of stopping.")
    ] = False,
    floor: Annotated[
        list[str] | None, options.floor_option("The floor, where WEIGHTS does not tell: a number (0 by default)")
    ] = None,
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output_option("The clean table to write, its kind by extension.")] = Path(
        "clean.csv"
    ),
    latent: Annotated[
        Path | None, typer.Option("--latent", help="Also write the latent vectors: a table, as --output.")
    ] = None,
    outliers: Annotated[
        Path | None,
        typer.Option("--outliers", help="Also write by how much values are off: a table, 0 where they are not."),
    ] = None,
    picture: Annotated[Path | None, options.picture_option("the table beside the clean one")] = None,
    seed: Annotated[int, options.seed_option("Seeds the search.")] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Recover the latent vectors c behind corrupted outputs v = max(floor, A c + b) + outliers + noise of a layer.

    The layer A, b is known, or was learned by unrelu fit or unrelu factor. Writes the outputs as they were before
    corruption, max(floor, A c + b): outliers corrected, missing cells filled in.
    """
    _refuse_as_table(weights, paths)
    job = Job(
        Output("clean", output, "Clean table", reading.table_kind),
        Output("latent", latent, "Latent vectors", reading.table_kind),
        Output("outliers", outliers, "Outliers", reading.table_kind),
        Output("picture", picture, "Picture", "picture"),
        tables=paths,
        files=[weights],
    )
    method_options = _Options(method, prior, noise_scale, penalty, intercept)
    method_options.check()
    from unrelu.cli.inputs import ids_of, matched_table
    from unrelu.cli.outputs import write_rows
    from unrelu.cli.recover_layer import loaded_layer
    from unrelu.report.factor_summary import component_names
    from unrelu.report.recover_picture import RecoverResult, recover_picture

    layer = loaded_layer(weights, components, floor)
    table, at = matched_table(weights, layer.names, len(layer.bias), paths, reading)
    job.reads(table)
    names = layer.part(at).names or table.feature_names
    layer = replace(layer.part(at), names=names).with_floor(floor)
    recovery = _recovery(layer, method_options, floor_tolerance, seed)
    with job.watch() as watch:
        rows = recovery.watched_by(watch).recover_rows(table, skip_bad_rows=skip_bad_rows)
    job.write(
        clean=lambda path: write_rows(path, rows.clean, names, ids_of(table)),
        latent=lambda path: write_rows(path, rows.latent, component_names(rows.latent.shape[1]), ids_of(table)),
        outliers=lambda path: write_rows(path, rows.outliers, names, ids_of(table)),
        picture=lambda: recover_picture(RecoverResult.of(rows, layer.floor, table, names)),
    )
    return _answer(job, rows, layer)


def _refuse_as_table(weights: Path, paths: list[str]) -> None:
    for path in [path for path in paths if os.path.exists(path) and weights.exists()]:
        if os.path.samefile(path, weights):
            raise InputFileError(f"{path} is given both as WEIGHTS and as a table: give the layer first, then tables.")


@dataclass(frozen=True)
class _Options:
    """How to recover, as asked for."""

    method: str
    prior: str | None
    noise_scale: float | None
    penalty: float | None
    intercept: bool

    def check(self) -> None:
        from unrelu.validation import check_choice

        check_choice("method", self.method, list(METHODS["recover"]))
        check_choice("prior", self.prior or "none", _PRIORS)
        robust = {"--prior": self.prior not in (None, "none"), "--noise-scale": self.noise_scale is not None}
        lasso = {"--penalty": self.penalty is not None, "--intercept": self.intercept}
        foreign, other = (robust, "robust") if self.method == "lasso" else (lasso, "lasso")
        for name in [name for name, given in foreign.items() if given]:
            raise InvalidParameterError(f"{name} belongs to --method {other}: leave it out, or choose that method.")
        self.chosen(fitted=False)

    def chosen(self, *, fitted: bool) -> LatentMethod:
        """The method; for a layer that was ``fitted`` latent numbers are Gaussian where nothing else is said."""
        from unrelu.recovery import LatentLasso, RobustLatent
        from unrelu.recovery.latent.methods import prior_named

        if self.method == "lasso":
            return LatentLasso(self.penalty, self.intercept)
        prior = self.prior or ("gaussian" if fitted else "none")
        return RobustLatent(prior_named(None if prior == "none" else prior), self.noise_scale)


def _recovery(layer: KnownLayer, asked: _Options, tolerance: float, seed: int) -> ReLULatentRecovery:
    from unrelu.estimators import ReLULatentRecovery

    method = asked.chosen(fitted=layer.fitted)
    known = layer.weights, layer.bias, method
    try:
        return ReLULatentRecovery(*known, floor=layer.floor, floor_tolerance=tolerance, random_state=seed).fit()
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{layer.path}: {error}") from error


def _answer(job: Job, rows: LatentRows, layer: KnownLayer) -> Answer | None:
    from unrelu.report.recover_summary import outlier_table, recovery_facts, recovery_json, strangest_columns
    from unrelu.report.tables import fact_table
    from unrelu.validation import counted

    columns = strangest_columns(rows, layer.names)
    done = int(rows.done.sum())
    shown: list[str | Table] = [
        f"Recovered {counted(done, 'row')} through {layer.path} in {job.seconds:.2f} s.",
        fact_table(recovery_facts(rows)),
        *([outlier_table(columns)] if columns else []),
    ]
    return job.answer({"weights": layer.path, **recovery_json(rows, columns)}, shown)
