"""Recover what is behind a table: ``unrelu factor``, ``graph``, ``recover`` and ``peel``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import BAD_INPUT, INTERRUPTED, Answer, Job, command
from unrelu.cli.options import RARE
from unrelu.errors import CannotPeelError, InputFileError, InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from unrelu.contracts import FloatArray, Progress, Samples
    from unrelu.estimators import RectifiedGaussianGraph
    from unrelu.recovery.latent_methods import LatentMethod
    from unrelu.recovery.layers.peeled import Peeled
    from unrelu.recovery.matrix_estimator import ReLUMatrixRecovery
    from unrelu.recovery.two_layer_estimator import TwoLayerReLULearner

_MOST_DRAWN = 1000  # rows that are drawn beside the table's
_PRIORS = ("none", "gaussian", "sparse", "nonnegative")


@command
def factor(
    job: Job,
    paths: options.Tables,
    components: Annotated[str, "The rank. auto chooses it by held-out cells.", {"metavar": "N|auto"}] = "auto",
    method: Annotated[
        str,
        "How to recover the matrix. censored_als: least squares, exact where there is no noise; tobit_em: normal noise"
        " inside the rectifier, its size, standard errors.",
        {"metavar": "censored_als|tobit_em"},
    ] = "censored_als",
    gauge: Annotated[
        str,
        "How T is split into C A' and b, which T leaves open. centered: b is T's mean; orthogonal: b is orthogonal to"
        " A; bayes: between both; zero: no b.",
        {"metavar": "centered|orthogonal|bayes|zero", **RARE},
    ] = "centered",
    tol: Annotated[float, "Relative residual at which a fit counts as exact.", RARE] = 1e-12,
    max_iter: Annotated[int, "Most iterations of this run.", {"min": 1, **RARE}] = 500,
    floor: options.Floor = None,
    margins: options.NormalMargin = None,
    floor_tolerance: options.Tolerance = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The factors file to write.", "Factors", fact="factors")] = Path(
        "factors.npz"
    ),
    hidden: Annotated[Path | None, options.also("Also write T, below the floor as well.", "T", "table")] = None,
    latent: Annotated[Path | None, options.also("Also write latent vectors.", "Latent vectors", "table")] = None,
    state: Annotated[
        Path | None,
        options.also("Keep the state in this file while working, and go on from it if it exists.", kind="kept"),
        RARE,
    ] = None,
    picture: Annotated[Path | None, options.picture("the table, T and components")] = None,
    seed: Annotated[int, "Chooses the held-out cells of --components auto.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Recover the low-rank matrix behind a table cut at its floor.

    The table is x = max(T, floor) with T = C A' + 1 b' of low rank; T is found below the floor as well. A value at the
    floor only says that T is not above it. Cells may be missing; a value below its floor is an error.
    """
    count = options.number_or_auto("--components", components)
    from unrelu.recovery.matrix_estimator import ReLUMatrixRecovery
    from unrelu.report.recovery import factor_picture
    from unrelu.report.tables import facts, numbered, rows

    recovery = ReLUMatrixRecovery(
        count, method, gauge, floor_tolerance=floor_tolerance, tol=tol, max_iter=max_iter, random_state=seed
    )
    table = job.opened(floor)
    recovery.set_params(floor=options.limits("--floor", floor or ["0.0"]), margins=options.margins(margins, "normal"))
    with job.progress() as progress:
        recovery.with_progress(progress).fit(table, state=state)
    job.write(
        factors=recovery.save,
        hidden=(_hidden_blocks(recovery), table.feature_names),
        latent=(recovery.latent_, numbered("c", recovery.n_components_)),
        picture=lambda: factor_picture(recovery, table),
    )
    report = recovery.report_
    lines = [f"Recovered the matrix behind {report.n_rows:,} x {report.n_features:,} values in {job.seconds:.2f} s."]
    found = {"state": None if report.converged else state, "resumed": None, **facts(recovery)}
    if report.resumed is not None:
        iterations, residual = report.resumed
        found["resumed"] = {"iteration": iterations, "residual": residual}
        lines.append(f"Resumed at iteration {iterations:,}, residual {residual:.3g}.")
    last = []
    if state is not None and report.converged:
        state.unlink(missing_ok=True)  # by now all is written, and there is nothing to go on with
        last = [f"State {state} removed: done."]
    elif state is not None:
        last = [f"State kept in {state}: run the same command again to go on."]
    return job.answer(found, [*lines, *rows(recovery)], last)


def _hidden_blocks(recovery: ReLUMatrixRecovery) -> Iterator[FloatArray]:
    """T in blocks of rows: that of a sparse table may not fit in memory."""
    from unrelu.tables import rows_per_block

    if recovery.margins_ is not None:  # its table was in memory
        yield recovery.hidden()
        return
    n = len(recovery.latent_)
    size = rows_per_block(n, recovery.n_features_in_)
    for first in range(0, n, size):
        yield recovery.hidden_rows(first, first + size)


@command
def graph(
    job: Job,
    paths: Annotated[
        list[str],
        options.tables("Tables", " Or a file of unrelu fit --record --stderr jackknife, or unrelu merge --record."),
    ],
    selection: Annotated[
        str,
        "Which edges to take. likely: pairs more likely dependent than not; ebic: least extended BIC; auto: that one of"
        " these which halves of the rows agree on; stars: edges that subsets of the rows agree on; fdr: false discovery"
        " rate of 10 %, for many more rows than columns; or a penalty of the graphical lasso, from 0 to 1.",
        {"metavar": "auto|likely|ebic|stars|fdr|NUMBER"},
    ] = "auto",
    groups: Annotated[str | None, "The column of labels of rows that belong together.", {"metavar": "COLUMN"}] = None,
    fitting: options.FittingWithoutComponents = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[
        Path, options.output("One line per edge. As --output of unrelu predict, or a graphml file.", "Edges", "edges")
    ] = Path("edges.csv"),
    saved: Annotated[
        Path | None,
        options.also("Also save the graph as a file for unrelu.load.", "Graph", "archive", "graph", "--save"),
        RARE,
    ] = None,
    picture: Annotated[Path | None, options.picture("the graph")] = None,
    path_picture: Annotated[Path | None, options.picture("how it was chosen", "Picture of the path"), RARE] = None,
    seed: Annotated[int, "Seed of the subsets of the rows, and of the methods that draw.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Find which columns depend on each other given all others.

    Edges are partial correlations of the values before censoring. The graph is chosen without cross-validation,
    refitted without a penalty, and written with standard errors.
    """
    wanted: str | float = selection
    with suppress(ValueError):
        wanted = float(selection)
    if path_picture is not None and wanted == "fdr":
        raise InvalidParameterError("--path-picture has nothing to draw: --selection fdr takes no path.")
    from unrelu.estimators import RectifiedGaussianGraph
    from unrelu.graph.learning import networkx_module, write_edges
    from unrelu.report import graph as drawing
    from unrelu.report.tables import facts, rows

    if picture is not None:
        networkx_module()
    with job.progress(diagnostics=False) as progress:
        found = _of_record(paths, wanted, seed, fitting, progress)
        if found is None:
            table = job.opened(fitting.floor)
            found = RectifiedGaussianGraph(wanted, **fitting.parameters(seed)).with_progress(progress)
            found.fit(table, groups=groups)
    edges, names = drawing.labelled_edges(found)
    path = found.path_
    job.write(
        output=lambda target: write_edges(target, edges, names),
        graph=found.save,
        picture=lambda: drawing.graph_picture(edges, names),
        path_picture=lambda: drawing.path_picture(path) if path is not None else None,
    )
    return job.answer(facts(found), rows(found, f"{job.seconds:.2f} s"), fitted=found)


def _of_record(
    paths: list[str], selection: str | float, seed: int, fitting: options.FitOptions, progress: Progress
) -> RectifiedGaussianGraph | None:
    """The graph of a file that holds a learner; None where the files are tables."""
    from unrelu.storage import load
    from unrelu.storage.format import stated_format

    if len(paths) != 1 or not Path(paths[0]).is_file() or not (stated_format(paths[0]) or "").startswith("unrelu."):
        return None
    from unrelu.estimators import RectifiedGaussianGraph
    from unrelu.estimators.fitted import FittedModel

    fitting.refuse_with(Path(paths[0]))
    content = load(paths[0])
    if not isinstance(content, FittedModel):
        raise InvalidParameterError(
            f"{paths[0]} holds a {type(content).__name__}, which has no standard errors: give a table, or a file of"
            " unrelu fit --record."
        )
    return RectifiedGaussianGraph.from_learned(content.with_progress(progress), selection, random_state=seed)


@command
def recover(
    job: Job,
    weights: Annotated[
        Path,
        typer.Argument(
            help="The layer: a file of unrelu fit or unrelu factor. Or an npz file with arrays weights (d x k), bias"
            " (d), and where wanted floor and feature_names.",
            metavar="WEIGHTS",
        ),
    ],
    paths: Annotated[
        list[str], options.tables("Tables of corrupted outputs", more=" Empty cells and NaN are missing values.")
    ],
    components: Annotated[
        int | None, "Latent numbers per row. For a model of unrelu fit; all by default.", {"min": 1}
    ] = None,
    method: Annotated[
        str,
        "How to recover the latent vectors. robust: up to nearly half of a row's values may be outliers; lasso: program"
        " (47) of Mazumdar and Rawat 2018, as written.",
        {"metavar": "robust|lasso"},
    ] = "robust",
    prior: Annotated[
        str | None,
        "Prior of c, with --method robust. By default gaussian for a model, none for an npz file of arrays.",
        {"metavar": "|".join(_PRIORS), **RARE},
    ] = None,
    noise_scale: Annotated[float | None, "Standard deviation of the noise, with --method robust.", RARE] = None,
    penalty: Annotated[
        float | None, "lambda of program (47), with --method lasso. The theorem's rule by default.", RARE
    ] = None,
    intercept: Annotated[
        bool, "Take the mean of the nonlinear part out of the outliers, with --method lasso.", RARE
    ] = False,
    skip_bad_rows: Annotated[bool, "Leave rows empty that cannot be recovered. By default they are an error."] = False,
    floor: Annotated[list[str] | None, options.floor("The floor, for an npz file without one; 0 by default")] = None,
    floor_tolerance: options.Tolerance = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The clean table.", "Clean table", "table", "clean")] = Path("clean.csv"),
    latent: Annotated[Path | None, options.also("Also write latent vectors.", "Latent vectors", "table")] = None,
    outliers: Annotated[Path | None, options.also("Also write sizes of outliers.", "Outliers", "table")] = None,
    picture: Annotated[Path | None, options.picture("the table beside the clean one")] = None,
    seed: Annotated[int, "Seed of the search.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Recover latent vectors behind corrupted outputs of a layer.

    The outputs are v = max(floor, A c + b) + outliers + noise, of a layer A, b that is given, or learned by unrelu fit
    or unrelu factor. Writes max(floor, A c + b): outliers corrected, missing cells filled in.
    """
    for path in [path for path in paths if os.path.exists(path) and weights.exists()]:
        if os.path.samefile(path, weights):
            raise InputFileError(f"{path} is given both as WEIGHTS and as a table: give the layer first, then tables.")
    from unrelu.cli.inputs import loaded_layer, matched_table
    from unrelu.limits import floor_per_column
    from unrelu.recovery import LatentLasso, RobustLatent
    from unrelu.recovery.latent_estimator import ReLULatentRecovery
    from unrelu.recovery.latent_methods import find_prior
    from unrelu.report.recovery import recover_picture
    from unrelu.report.tables import facts, numbered, rows
    from unrelu.validation import check_choice

    check_choice("method", method, ("robust", "lasso"))
    check_choice("prior", prior or "none", _PRIORS)
    robust = {"--prior": prior not in (None, "none"), "--noise-scale": noise_scale is not None}
    lasso = {"--penalty": penalty is not None, "--intercept": intercept}
    foreign, other = (robust, "robust") if method == "lasso" else (lasso, "lasso")
    for option in [option for option, given in foreign.items() if given]:
        raise InvalidParameterError(f"{option} belongs to --method {other}: leave it out, or choose that method.")
    slopes, bias, own_floor, own_names, fitted = loaded_layer(weights, components, floor)
    table, at = matched_table(job, weights, own_names, len(bias))
    names = table.feature_names if own_names is None else tuple(own_names[j] for j in at)
    limit = floor_per_column(options.limits("--floor", floor), len(at), names) if floor else own_floor[at]
    how: LatentMethod = LatentLasso(penalty, intercept)
    if method == "robust":  # latent numbers of a fitted layer are Gaussian by default
        named = prior or ("gaussian" if fitted else "none")
        how = RobustLatent(find_prior(None if named == "none" else named), noise_scale)
    layer = slopes[at], bias[at], how
    try:
        recovery = ReLULatentRecovery(*layer, floor=limit, floor_tolerance=floor_tolerance, random_state=seed)
        recovery.fit()
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{weights}: {error}", parameter=error.parameter) from error
    with job.progress() as progress:
        found = recovery.with_progress(progress).recover_rows(table, skip_bad_rows=skip_bad_rows)
    job.write(
        clean=(found.clean, names),
        latent=(found.latent, numbered("c", found.latent.shape[1])),
        outliers=(found.outliers, names),
        picture=lambda: recover_picture(found, limit, table, names),
    )
    shown = rows(found, f"{weights} in {job.seconds:.2f} s", names)
    return job.answer({"weights": weights, **facts(found, names)}, shown)


@command
def peel(
    job: Job,
    paths: Annotated[list[str], options.tables("Tables of outputs")],
    widths: Annotated[
        str,
        "Hidden units of each layer, outermost first, as 30,8. auto where a number is to be found.",
        {"metavar": "WIDTHS"},
    ] = "auto",
    inputs: Annotated[
        str | None,
        "Inputs of a generator, fewer than the innermost units. The network is recovered down to them.",
        {"metavar": "N|auto"},
    ] = None,
    max_seconds: Annotated[float | None, "Time for the search; what it found is written."] = None,
    linear: Annotated[bool, "The outputs are x = A h, not rectified. They may be negative."] = False,
    output_bias: Annotated[bool, "With --linear: the outputs are x = A h + a.", RARE] = False,
    method: Annotated[
        str | None,
        "With --linear: how to find the weights. facets: by default, of any sign, by facets of the rows; separable: few"
        " units with weights >= 0, by extreme rows, without --inputs.",
        {"metavar": "facets|separable", **RARE},
    ] = None,
    hidden_method: Annotated[
        str, "How to fit the innermost units' distribution, as unrelu fit.", {"metavar": "METHOD", **RARE}
    ] = "one_pass",
    floor: Annotated[list[str] | None, options.floor("The floor of the outputs; 0 by default")] = None,
    floor_tolerance: options.Tolerance = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The file of layers to write.", "Layers", fact="layers_file")] = Path(
        "layers.npz"
    ),
    hidden: Annotated[Path | None, options.also("Also write innermost units.", "Hidden units", "table")] = None,
    latent: Annotated[Path | None, options.also("With --inputs: also write them.", "Inputs", "table")] = None,
    picture: Annotated[Path | None, options.picture("weights, units and inputs")] = None,
    seed: Annotated[int, "Seed of the search.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Recover the layers of a ReLU network from its outputs alone.

    The network is x = ReLU(A h + b), h = ReLU(...); its innermost units are rectified Gaussian. If a layer cannot be
    peeled off, those above it are written nevertheless, with exit code 2. So are the units found when --max-seconds
    are over; an interrupt of a search with --inputs writes them as well (exit code 130).
    """
    q = None if inputs is None else options.number_or_auto("--inputs", inputs)
    layers = _widths(widths)
    given = {"--output-bias": output_bias, "--method": method is not None, "--inputs": q is not None}
    given |= {"--floor": floor is not None, "--floor-tolerance": floor_tolerance > 0.0, "--latent": latent is not None}
    _refuse_together({name for name, there in given.items() if there}, linear, layers, method, q)
    import numpy as np

    from unrelu.methods import method_named
    from unrelu.recovery.layers.facets import INTERRUPTED as STOPPED
    from unrelu.recovery.two_layer_estimator import check_limits
    from unrelu.report.layers import Network, peel_picture
    from unrelu.report.pictures import cells_of, evenly
    from unrelu.report.tables import facts, numbered, rows
    from unrelu.validation import counted

    check_limits(None, max_seconds)
    method_named(hidden_method)
    own = {"n_inputs": q, "max_seconds": max_seconds, "hidden_method": hidden_method, "random_state": seed}
    table = job.opened(floor)
    content: TwoLayerReLULearner | Peeled
    failure = None
    with job.progress() as progress:
        if linear:
            first_two = (layers[0], method or "facets")
            content, units, z = _linear(table, first_two, {**own, "output_bias": output_bias}, progress)
        else:
            of_floor = {"floor": options.limits("--floor", floor or ["0.0"]), "floor_tolerance": floor_tolerance}
            content, units, z, failure = _rectified(table, layers, {**own, **of_floor}, progress)
    network = Network.of(content).with_inputs(z)
    has_inputs = network.input_weights is not None
    lacking = not has_inputs and job.leave_out("latent", "The inputs were not found: no table of them is written.")

    def beside() -> tuple[FloatArray, FloatArray]:
        """Some rows of the table that the network explains, and as many of the network."""
        used = np.flatnonzero(np.isfinite(units).all(axis=1))
        rows = cells_of(table, used[evenly(len(used), _MOST_DRAWN)], np.arange(table.n_features))
        return rows, content.sample(len(rows), seed)

    job.write(
        layers_file=content.save,
        hidden=(units, numbered("h", units.shape[1])),
        latent=(z, numbered("z", z.shape[1])),
        picture=lambda: peel_picture(network, units, beside() if has_inputs else None),
    )
    first, last, count = network.layers[0], network.layers[-1], len(network.layers)
    if failure is not None:
        above = "The layer above it was" if count == 1 else f"The {count} layers above it were"
        where = f"{above} written to {', '.join(str(path) for path in job.files.values() if path)}."
        raise CannotPeelError(f"{failure} {where}", failure.peeled, failure.report) from failure
    headline = f"Learned {counted(count, 'layer')} from {first.n_rows:,} x {first.n_features:,} outputs"
    if last.ended is not None:
        headline = f"{last.ended}: {last.units_found:,} of {last.n_hidden:,} hidden units found"
    code = 0
    if last.ended is not None or lacking:
        code = INTERRUPTED if last.ended == STOPPED else BAD_INPUT
    return job.answer(facts(network), [f"{headline} in {job.seconds:.2f} s.", *rows(network)], code=code)


def _refuse_together(
    given: set[str], linear: bool, widths: list[int | str], method: str | None, q: int | str | None
) -> None:
    from unrelu.validation import check_choice

    depth, innermost = len(widths), widths[-1]
    if "--latent" in given and q is None:
        raise InvalidParameterError("--latent writes the inputs: say how many there are, with --inputs.")
    if "--latent" in given and isinstance(q, int) and isinstance(innermost, int) and q >= innermost:
        raise InvalidParameterError(
            f"--latent: {q} inputs behind {innermost} units are not looked for; --inputs must be below --widths."
        )
    check_choice("method", method or "facets", ("facets", "separable"))
    for name in ("--output-bias", "--method"):
        if name in given and not linear:
            raise InvalidParameterError(f"{name} is for outputs that are not rectified: add --linear.")
    for name in ("--floor", "--floor-tolerance"):
        if name in given and linear:
            raise InvalidParameterError(f"{name} is for outputs that are rectified: leave it out, or --linear.")
    if linear and depth > 1:
        raise InvalidParameterError(f"--linear learns one layer, and --widths names {depth}: give one number, or auto.")
    for name in ("--output-bias", "--inputs"):
        if name in given and method == "separable":
            raise InvalidParameterError(f"--method separable finds no {name}: leave one of them out.")


def _linear(
    table: Samples, first_two: tuple[int | str, str], own: dict[str, Any], progress: Progress
) -> tuple[TwoLayerReLULearner, FloatArray, FloatArray]:
    """The learner of the layer x = A h + a, and units and inputs of every row of the table.

    Both are NaN in rows that the layers do not explain; inputs have no columns where none were found.
    """
    import numpy as np

    from unrelu.recovery.two_layer_estimator import TwoLayerReLULearner

    learner = TwoLayerReLULearner(*first_two, **own).with_progress(progress).fit(table)
    units = learner.hidden_units(table)
    z = learner.transform(table) if hasattr(learner, "input_weights_") else units[:, :0]
    for found in (units, z):
        found[learner.outlier_rows_] = np.nan
    return learner, units, z


def _rectified(
    table: Samples, widths: list[int | str], own: dict[str, Any], progress: Progress
) -> tuple[Peeled, FloatArray, FloatArray, CannotPeelError | None]:
    """The layers of rectified outputs, units and inputs; the error where a layer cannot be peeled off."""
    import numpy as np

    import unrelu
    from unrelu.recovery.layers.peeled import Peeled

    failure = None
    try:
        peeled = unrelu.peel(table, widths, progress=progress, **own)
    except InvalidDataError as error:
        if error.parameter == "floor":
            error.add_note("If the outermost layer has no rectifier, x = A h, add --linear.")
        if not (isinstance(error, CannotPeelError) and isinstance(error.peeled, Peeled) and error.peeled.layers):
            raise
        peeled, failure = error.peeled, error
    z = peeled.hidden[:, :0] if peeled.inputs is None else peeled.inputs
    of_all = []
    for rows in (peeled.hidden, z):
        every = np.full((len(peeled.outlier_rows), rows.shape[1]), np.nan)
        every[~peeled.outlier_rows] = rows
        of_all.append(every)
    return peeled, of_all[0], of_all[1], failure


def _widths(text: str) -> list[int | str]:
    """The numbers of units, or auto, of a comma-separated list."""
    try:
        return [options.number_or_auto("--widths", item.strip()) for item in text.split(",")]
    except InvalidParameterError:
        raise InvalidParameterError(
            f"--widths must be whole numbers of at least 1, or auto, outermost layer first, such as 30,8; got {text!r}."
        ) from None
