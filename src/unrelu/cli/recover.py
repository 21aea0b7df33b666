"""``unrelu recover``: a known layer and its corrupted outputs in, clean outputs and latent vectors out."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import InputFileError, InvalidParameterError

if TYPE_CHECKING:
    from unrelu.recovery.latent_methods import LatentMethod

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
        int | None, "Latent numbers per row, for a model of unrelu fit; all by default.", {"min": 1}
    ] = None,
    method: Annotated[str, "How to recover: see below."] = "robust",
    prior: Annotated[
        str | None,
        f"What is known of c: {', '.join(_PRIORS)} (robust). By default gaussian for a model, none for an npz"
        " file of arrays.",
    ] = None,
    noise_scale: Annotated[float | None, "Standard deviation of the noise, where it is known (robust)."] = None,
    penalty: Annotated[float | None, "lambda of program (47); the theorem's rule by default (lasso)."] = None,
    intercept: Annotated[bool, "Take the mean of the nonlinear part out of the outliers (lasso)."] = False,
    skip_bad_rows: Annotated[bool, "Leave rows empty that cannot be recovered, instead of stopping."] = False,
    floor: Annotated[
        list[str] | None, options.floor("The floor, where WEIGHTS does not tell: a number (0 by default)")
    ] = None,
    floor_tolerance: options.Tolerance = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The clean table to write, its kind by extension.")] = Path("clean.csv"),
    latent: Annotated[Path | None, "Also write the latent vectors: a table, as --output."] = None,
    outliers: Annotated[Path | None, "Also write by how much values are off: a table, 0 where they are not."] = None,
    picture: Annotated[Path | None, options.picture("the table beside the clean one")] = None,
    seed: Annotated[int, "Seeds the search.", {"min": 0}] = 0,
) -> Answer | None:
    """Recover the latent vectors c behind corrupted outputs v = max(floor, A c + b) + outliers + noise of a layer.

    The layer A, b is known, or was learned by unrelu fit or unrelu factor. Writes the outputs as they were before
    corruption, max(floor, A c + b): outliers corrected, missing cells filled in.
    """
    for path in [path for path in paths if os.path.exists(path) and weights.exists()]:
        if os.path.samefile(path, weights):
            raise InputFileError(f"{path} is given both as WEIGHTS and as a table: give the layer first, then tables.")
    job = Job(
        Output("clean", output, "Clean table", reading.table_kind),
        Output("latent", latent, "Latent vectors", reading.table_kind),
        Output("outliers", outliers, "Outliers", reading.table_kind),
        Output("picture", picture, "Picture", "picture"),
        tables=paths,
        files=[weights],
    )
    methods = _methods(method, prior, noise_scale, penalty, intercept)
    from unrelu.cli.inputs import ids_of, loaded_layer, matched_table
    from unrelu.recovery.latent_estimator import ReLULatentRecovery
    from unrelu.report.factor import component_names
    from unrelu.report.recovery import RecoverResult, recover_picture, recovery_facts, recovery_shown
    from unrelu.report.tables import write_rows

    layer = loaded_layer(weights, components, floor)
    table, at = matched_table(weights, layer.names, len(layer.bias), paths, reading)
    job.reads(table)
    names = layer.part(at).names or table.feature_names
    layer = replace(layer.part(at), names=names).with_floor(floor)
    known = layer.weights, layer.bias, methods[layer.fitted]
    try:
        recovery = ReLULatentRecovery(*known, floor=layer.floor, floor_tolerance=floor_tolerance, random_state=seed)
        recovery.fit()
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{weights}: {error}") from error
    with job.watch() as watch:
        rows = recovery.watched_by(watch).recover_rows(table, skip_bad_rows=skip_bad_rows)
    job.write(
        clean=lambda path: write_rows(path, rows.clean, names, ids_of(table)),
        latent=lambda path: write_rows(path, rows.latent, component_names(rows.latent.shape[1]), ids_of(table)),
        outliers=lambda path: write_rows(path, rows.outliers, names, ids_of(table)),
        picture=lambda: recover_picture(RecoverResult.of(rows, layer.floor, table, names)),
    )
    facts = {"weights": weights, **recovery_facts(rows, names)}
    return job.answer(facts, recovery_shown(rows, names, f"{weights} in {job.seconds:.2f} s"))


def _methods(
    name: str, prior: str | None, noise_scale: float | None, penalty: float | None, intercept: bool
) -> dict[bool, LatentMethod]:
    """The method, checked; for a fitted layer (True) latent numbers are Gaussian where nothing else is said."""
    from unrelu.recovery import LatentLasso, RobustLatent
    from unrelu.recovery.latent_methods import prior_named
    from unrelu.validation import check_choice

    check_choice("method", name, list(options.METHODS["recover"]))
    check_choice("prior", prior or "none", _PRIORS)
    robust = {"--prior": prior not in (None, "none"), "--noise-scale": noise_scale is not None}
    lasso = {"--penalty": penalty is not None, "--intercept": intercept}
    foreign, other = (robust, "robust") if name == "lasso" else (lasso, "lasso")
    for option in [option for option, given in foreign.items() if given]:
        raise InvalidParameterError(f"{option} belongs to --method {other}: leave it out, or choose that method.")
    if name == "lasso":
        return dict.fromkeys((False, True), LatentLasso(penalty, intercept))
    words = {fitted: prior or ("gaussian" if fitted else "none") for fitted in (False, True)}
    return {
        fitted: RobustLatent(prior_named(None if word == "none" else word), noise_scale)
        for fitted, word in words.items()
    }
