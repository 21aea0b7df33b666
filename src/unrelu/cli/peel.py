"""``unrelu peel``: a table of a network's outputs in, the layers below the last one out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import BAD_INPUT, INTERRUPTED, Answer, command
from unrelu.errors import CannotPeelError, InvalidParameterError

if TYPE_CHECKING:
    from unrelu.contracts import FloatArray, Samples, Watch
    from unrelu.recovery.layers.peeled import Peeled
    from unrelu.recovery.two_layer_estimator import TwoLayerReLULearner
    from unrelu.report.layers import Network

_MOST_DRAWN = 1000  # rows that are drawn beside the table's


@command(
    {
        "n_components": "--widths",
        "If these columns have another floor": "If the outermost layer has no rectifier, x = A h, add --linear; if"
        " these columns have another floor",
        "Leave such rows out, or the columns": "Leave such rows out, or the columns with --drop",
        "Add rows, or lower the number of units": "Add rows, lower --widths, or (with --linear) allow for an"
        " --output-bias",
        "ower the width": "ower --widths",
        "another width": "other --widths",
        "more units than that, or a bias": "more units than that, or (with --linear) an --output-bias",
    }
)
def peel(
    paths: Annotated[list[str], options.tables("Tables of outputs")],
    widths: Annotated[
        str,
        "Hidden units of every layer to peel off, outermost first, as 30,8; auto for a number not known.",
        {"metavar": "WIDTHS"},
    ] = "auto",
    inputs: Annotated[
        str | None,
        "Inputs z of the innermost layer, where it has fewer of them than units, as generators have: the"
        " network is recovered down to them.",
        {"metavar": "INTEGER|auto"},
    ] = None,
    max_seconds: Annotated[float | None, "Time for the search; what was found until then is written."] = None,
    linear: Annotated[bool, "The outputs are x = A h, not rectified: negative values are allowed."] = False,
    output_bias: Annotated[bool, "The outputs are x = A h + a (with --linear)."] = False,
    method: Annotated[str | None, "How to find the weights: see below."] = None,
    hidden_method: Annotated[str, "How the innermost units' law is learned: a --method of unrelu fit."] = "one_pass",
    floor: Annotated[list[str] | None, options.floor("The floor of the outputs: a number (0 by default)")] = None,
    floor_tolerance: options.Tolerance = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The file of layers to write.")] = Path("layers.npz"),
    hidden: Annotated[Path | None, "Also write the innermost units: a table, empty in rows not explained."] = None,
    latent: Annotated[Path | None, "Also write the inputs (with --inputs): a table, empty in rows without."] = None,
    picture: Annotated[Path | None, options.picture("weights, units and inputs")] = None,
    seed: Annotated[int, "Seeds the search.", {"min": 0}] = 0,
) -> Answer | None:
    """Learn the layers of a network x = ReLU(A h + b), h = ReLU(...), from a table of its outputs x alone.

    The innermost units are rectified Gaussian, and their law is learned. If a layer cannot be peeled off, those above
    it are written nevertheless, with exit code 2. So are the units found when --max-seconds are over; an interrupt of a
    search with --inputs writes them as well (exit code 130).
    """
    job = Job(
        Output("layers_file", output, "Layers"),
        Output("hidden", hidden, "Hidden units", reading.table_kind),
        Output("latent", latent, "Inputs", reading.table_kind),
        Output("picture", picture, "Picture", "picture"),
        tables=paths,
    )
    q = None if inputs is None else options.number_or_auto("--inputs", inputs)
    layers = _widths(widths)
    if latent is not None and q is None:
        raise InvalidParameterError("--latent writes the inputs: say how many there are, with --inputs.")
    if latent is not None and isinstance(q, int) and isinstance(layers[-1], int) and q >= layers[-1]:
        raise InvalidParameterError(
            f"--latent: {q} inputs behind {layers[-1]} units are not looked for; --inputs must be below --widths."
        )
    given = {"--output-bias": output_bias, "--method": method is not None, "--inputs": q is not None}
    given |= {"--floor": floor is not None, "--floor-tolerance": floor_tolerance > 0.0}
    _refuse_together({name for name, there in given.items() if there}, linear, len(layers), method)
    from unrelu.cli.inputs import ids_of, opened
    from unrelu.methods import method_named
    from unrelu.recovery.two_layer_estimator import checked_seconds
    from unrelu.report.layers import input_names, peel_picture, unit_names
    from unrelu.report.tables import write_rows

    checked_seconds(max_seconds)
    method_named(hidden_method)
    own = {"n_inputs": q, "max_seconds": max_seconds, "hidden_method": hidden_method, "random_state": seed}
    table = job.reads(opened(paths, reading, floor))
    with job.watch() as watch:
        if linear:
            found = _linear(table, (layers[0], method or "facets"), {**own, "output_bias": output_bias}, watch)
        else:
            of_floor = {"floor": options.limits("--floor", floor or ["0.0"]), "floor_tolerance": floor_tolerance}
            found = _rectified(table, layers, {**own, **of_floor}, watch)
    units, z, known = found.units, found.inputs, found.network.inner is not None
    lacking = not known and job.leave_out("latent", "The inputs were not found: no table of them is written.")
    job.write(
        layers_file=found.content.save,
        hidden=lambda path: write_rows(path, units, unit_names(units.shape[1]), ids_of(table)),
        latent=lambda path: write_rows(path, z, input_names(z.shape[1]), ids_of(table)),
        picture=lambda: peel_picture(found.network, units, found.beside(table, seed) if known else None),
    )
    if (failure := found.failure) is not None:
        count = len(found.network.layers)
        above = "The layer above it was" if count == 1 else f"The {count} layers above it were"
        where = f"{above} written to {', '.join(map(str, job.written))}."
        raise CannotPeelError(f"{failure} {where}", failure.peeled, failure.report) from failure
    return _answer(job, found.network, lacking)


def _refuse_together(given: set[str], linear: bool, depth: int, method: str | None) -> None:
    """Raise where options do not go together."""
    from unrelu.validation import check_choice

    check_choice("method", method or "facets", list(options.METHODS["peel"]))
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


@dataclass(frozen=True, eq=False)
class _Found:
    """What was learned: a file's content, the same in plain numbers, and units and inputs of every row of the table.

    Both are NaN in rows that the layers do not explain; inputs have no columns where none were found. ``failure`` is
    why there are fewer layers than asked for.
    """

    content: Peeled | TwoLayerReLULearner
    network: Network
    units: FloatArray
    inputs: FloatArray
    failure: CannotPeelError | None = None

    def beside(self, table: Samples, seed: int) -> tuple[FloatArray, FloatArray]:
        """Some rows of the table that the network explains, and as many of the network."""
        import numpy as np

        from unrelu.report.pictures import cells_of, evenly

        used = np.flatnonzero(np.isfinite(self.units).all(axis=1))
        rows = cells_of(table, used[evenly(len(used), _MOST_DRAWN)], np.arange(table.n_features))
        return rows, self.content.sample(len(rows), seed)


def _linear(table: Samples, asked: tuple[int | str, str], own: dict[str, Any], watch: Watch) -> _Found:
    """The layer x = A h + a."""
    import numpy as np

    from unrelu.recovery.two_layer_estimator import TwoLayerReLULearner
    from unrelu.report.layers import Network

    learner = TwoLayerReLULearner(*asked, **own).watched_by(watch).fit(table)
    network, units = Network.of_learner(learner), learner.hidden_units(table)
    z = units[:, :0] if network.inner is None else learner.transform(table)
    for found in (units, z):
        found[learner.outlier_rows_] = np.nan
    return _Found(learner, network.with_inputs(z), units, z)


def _rectified(table: Samples, widths: list[int | str], own: dict[str, Any], watch: Watch) -> _Found:
    """The layers; those above one that cannot be peeled off, if there are any."""
    import numpy as np

    import unrelu
    from unrelu.report.layers import Network

    failure = None
    try:
        peeled = unrelu.peel(table, widths, watch=watch, **own)
    except CannotPeelError as error:
        if not (isinstance(error.peeled, unrelu.Peeled) and error.peeled.layers):
            raise
        peeled, failure = error.peeled, error

    def of_all(rows: FloatArray) -> FloatArray:
        every = np.full((len(peeled.outlier_rows), rows.shape[1]), np.nan)
        every[~peeled.outlier_rows] = rows
        return every

    z = of_all(peeled.hidden[:, :0] if peeled.inputs is None else peeled.inputs)
    return _Found(peeled, Network.of_peeled(peeled).with_inputs(z), of_all(peeled.hidden), z, failure)


def _widths(text: str) -> list[int | str]:
    """The numbers of units, or auto, of a comma-separated list."""
    try:
        return [options.number_or_auto("--widths", item.strip()) for item in text.split(",")]
    except InvalidParameterError:
        raise InvalidParameterError(
            f"--widths must be whole numbers of at least 1, or auto, outermost layer first, such as 30,8; got {text!r}."
        ) from None


def _answer(job: Job, network: Network, lacking: bool) -> Answer | None:
    """The answer; ``lacking`` if something that was asked for is not there."""
    from unrelu.recovery.layers.facets import INTERRUPTED as STOPPED
    from unrelu.report.layers import network_facts, network_tables
    from unrelu.validation import counted

    first, last = network.layers[0], network.layers[-1]
    headline = f"Learned {counted(len(network.layers), 'layer')} from {first.n_rows:,} x {first.n_outputs:,} outputs"
    if last.ended is not None:
        headline = f"{last.ended}: {last.units_found:,} of {last.n_hidden:,} hidden units found"
    answer = job.answer(network_facts(network), [f"{headline} in {job.seconds:.2f} s.", *network_tables(network)])
    code = INTERRUPTED if last.ended == STOPPED else BAD_INPUT if last.ended is not None or lacking else 0
    return None if answer is None else replace(answer, code=code)
