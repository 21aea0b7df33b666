"""``unrelu peel``: a table of a network's outputs in, the layers below the last one out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.methods import METHODS
from unrelu.cli.outcome import Answer, command
from unrelu.errors import CannotPeelError, InvalidParameterError

if TYPE_CHECKING:
    from unrelu.contracts import FloatArray, Samples, Watch
    from unrelu.report.peel_summary import Network


@command(
    {
        "n_components": "--widths",
        "If these columns have another floor": "If the outermost layer has no rectifier, x = A h, add --linear; if"
        " these columns have another floor",
        "Leave such rows out, or the columns": "Leave such rows out, or the columns with --drop",
        "Add rows, or lower the number of units": "Add rows, lower --widths, or (with --linear) allow for an"
        " --output-bias",
        "ower the width": "ower --widths",
        "more units than that, or a bias": "more units than that, or (with --linear) an --output-bias",
    }
)
def peel(
    paths: Annotated[list[str], options.tables("Tables of outputs")],
    widths: Annotated[
        str,
        typer.Option(
            "--widths",
            metavar="WIDTHS",
            help="Hidden units of every layer to peel off, outermost first, as 30,8; auto for a number not known.",
        ),
    ] = "auto",
    linear: Annotated[
        bool, typer.Option("--linear", help="The outputs are x = A h, not rectified: negative values are allowed.")
    ] = False,
    output_bias: Annotated[
        bool, typer.Option("--output-bias", help="The outputs are x = A h + a (with --linear).")
    ] = False,
    method: Annotated[
        str | None,
        typer.Option("--method", help="How to find the weights: see below."),
    ] = None,
    hidden_method: Annotated[
        str, typer.Option("--hidden-method", help="How the innermost units' law is learned: a --method of unrelu fit.")
    ] = "one_pass",
    floor: Annotated[
        list[str] | None, options.floor_option("The floor of the outputs: a number (0 by default)")
    ] = None,
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output_option("The file of layers to write.")] = Path("layers.npz"),
    hidden: Annotated[
        Path | None,
        typer.Option("--hidden", help="Also write the innermost units: a table, empty in rows not explained."),
    ] = None,
    picture: Annotated[Path | None, options.picture_option("weights and units")] = None,
    seed: Annotated[int, options.seed_option("Seeds the search.")] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Learn the layers of a network x = ReLU(A h + b), h = ReLU(...), from a table of its outputs x alone.

    The innermost units are rectified Gaussian, and their law is learned. If a layer cannot be peeled off, those above
    it are written nevertheless, with exit code 2.
    """
    job = Job(
        Output("layers_file", output, "Layers"),
        Output("hidden", hidden, "Hidden units", reading.table_kind),
        Output("picture", picture, "Picture", "picture"),
        tables=paths,
    )
    plan = _Plan(_widths(widths), linear, output_bias, method, hidden_method, floor, floor_tolerance, seed)
    plan.check()
    from unrelu.cli.inputs import ids_of, opened
    from unrelu.cli.outputs import write_rows
    from unrelu.report.peel_picture import peel_picture
    from unrelu.report.peel_summary import unit_names

    table = job.reads(opened(paths, reading, floor))
    with job.watch() as watch:
        found = plan.of_linear(table, watch) if linear else plan.of_rectified(table, watch)
    job.write(
        layers_file=found.save,
        hidden=lambda path: write_rows(path, found.units, unit_names(found.units.shape[1]), ids_of(table)),
        picture=lambda: peel_picture(found.network, found.units),
    )
    if found.failure is not None:
        raise _with_what_was_written(found, found.failure, job) from found.failure
    return _answer(job, found.network)


@dataclass(frozen=True, eq=False)
class _Found:
    """What was learned: how to save it, the same in plain numbers, and the innermost units of every row of the table.

    Units are NaN in rows that the layers do not explain. ``failure`` is why there are fewer layers than asked for.
    """

    save: Callable[[Path], None]
    network: Network
    units: FloatArray
    failure: CannotPeelError | None = None


@dataclass(frozen=True)
class _Plan:
    """What is asked for."""

    widths: list[int | str]
    linear: bool
    output_bias: bool
    method: str | None
    hidden_method: str
    floor: list[str] | None
    floor_tolerance: float
    seed: int

    def check(self) -> None:
        from unrelu.methods import method_named
        from unrelu.validation import check_choice

        method_named(self.hidden_method)
        check_choice("method", self.method or "facets", list(METHODS["peel"]))
        for name, given in (("--output-bias", self.output_bias), ("--method", self.method is not None)):
            if given and not self.linear:
                raise InvalidParameterError(f"{name} is for outputs that are not rectified: add --linear.")
        for name, of_floor in (("--floor", self.floor is not None), ("--floor-tolerance", self.floor_tolerance > 0.0)):
            if of_floor and self.linear:
                raise InvalidParameterError(f"{name} is for outputs that are rectified: leave it out, or --linear.")
        if self.linear and len(self.widths) > 1:
            raise InvalidParameterError(
                f"--linear learns one layer, and --widths names {len(self.widths)}: give one number, or auto."
            )
        if self.output_bias and self.method == "separable":
            raise InvalidParameterError("--method separable finds no --output-bias: leave one of them out.")

    def of_linear(self, table: Samples, watch: Watch) -> _Found:
        """The layer x = A h + a."""
        import numpy as np

        from unrelu.estimators import TwoLayerReLULearner
        from unrelu.report.peel_summary import Network

        own: dict[str, Any] = {"hidden_method": self.hidden_method, "random_state": self.seed}
        learner = TwoLayerReLULearner(self.widths[0], self.method or "facets", output_bias=self.output_bias, **own)
        learner.watched_by(watch).fit(table)
        units = learner.transform(table)
        units[learner.outlier_rows_] = np.nan
        return _Found(learner.save, Network.of_learner(learner), units)

    def of_rectified(self, table: Samples, watch: Watch) -> _Found:
        """The layers; those above one that cannot be peeled off, if there are any."""
        import numpy as np

        import unrelu
        from unrelu.report.peel_summary import Network

        own: dict[str, Any] = {"hidden_method": self.hidden_method, "random_state": self.seed, "watch": watch}
        floor = options.limits("--floor", self.floor or ["0.0"])
        failure = None
        try:
            peeled = unrelu.peel(table, self.widths, floor=floor, floor_tolerance=self.floor_tolerance, **own)
        except CannotPeelError as error:
            if not (isinstance(error.peeled, unrelu.Peeled) and error.peeled.layers):
                raise
            peeled, failure = error.peeled, error
        units = np.full((len(peeled.outlier_rows), peeled.hidden.shape[1]), np.nan)
        units[~peeled.outlier_rows] = peeled.hidden
        return _Found(peeled.save, Network.of_peeled(peeled), units, failure)


def _widths(text: str) -> list[int | str]:
    """The numbers of units, or auto, of a comma-separated list."""
    try:
        return [options.number_or_auto("--widths", item.strip()) for item in text.split(",")]
    except InvalidParameterError:
        raise InvalidParameterError(
            f"--widths must be whole numbers of at least 1, or auto, outermost layer first, such as 30,8; got {text!r}."
        ) from None


def _with_what_was_written(found: _Found, failure: CannotPeelError, job: Job) -> CannotPeelError:
    """The failure, and where the layers above it are."""
    count = len(found.network.layers)
    above = "The layer above it was" if count == 1 else f"The {count} layers above it were"
    written = ", ".join(map(str, job.written))
    return CannotPeelError(f"{failure} {above} written to {written}.", failure.peeled, failure.report)


def _answer(job: Job, network: Network) -> Answer | None:
    from unrelu.report.peel_summary import network_facts, network_tables
    from unrelu.validation import counted

    first = network.layers[0]
    headline = f"Learned {counted(len(network.layers), 'layer')} from {first.n_rows:,} x {first.n_outputs:,} outputs"
    return job.answer(network_facts(network), [f"{headline} in {job.seconds:.2f} s.", *network_tables(network)])
