"""``unrelu peel``: a table of a network's outputs in, the layers below the last one out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli.options import ColumnsOption, DropOption, JsonOption, listed_items
from unrelu.cli.outcome import Answer, counted
from unrelu.errors import (
    CannotPeelError,
    DoubtfulUnitsWarning,
    InvalidDataError,
    InvalidParameterError,
    UnitsNotFoundWarning,
)

if TYPE_CHECKING:
    from rich.table import Table as ShownTable

    from unrelu.cli.factor_table import Table
    from unrelu.cli.progress import Meter
    from unrelu.contracts import FloatArray
    from unrelu.report.peel_summary import Network

_METHODS = ("facets", "separable")

# The library speaks of its parameters; here they are options.
_OPTIONS = {
    "n_hidden=": "--widths ",
    "n_hidden": "--widths",
    "rank=": "--widths ",
    "output_bias=True": "--output-bias",
    "method='facets'": "--method facets",
    "method='separable'": "--method separable",
}


def peel(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Tables of outputs (csv, tsv, parquet, feather, npy, npz, scipy's sparse npz), globs of them, or - for"
            " csv on stdin.",
            metavar="PATHS",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file of layers to write.")] = Path("layers.npz"),
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
        typer.Option("--method", help="facets (the default), or separable for A >= 0 and few units (with --linear)."),
    ] = None,
    hidden_method: Annotated[
        str, typer.Option("--hidden-method", help="How the innermost units' law is learned: a --method of unrelu fit.")
    ] = "one_pass",
    columns: ColumnsOption = None,
    drop: DropOption = None,
    hidden: Annotated[
        Path | None,
        typer.Option("--hidden", help="Also write the innermost units: a table, empty in rows not explained."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Also draw weights and units: a png, svg or pdf file.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seeds the search.")] = 0,
    as_json: JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer:
    """Learn the layers of a network x = ReLU(A h + b), h = ReLU(...), from a table of its outputs x alone.

    The innermost units are rectified Gaussian, and their law is learned. If a layer cannot be peeled off, those above
    it are written nevertheless, with exit code 2.
    """
    from unrelu.cli.factor_table import read_table
    from unrelu.cli.progress import meter

    files = _Files(output, hidden, picture)
    files.check(paths)
    plan = _Plan(_widths(widths), linear, output_bias, method, hidden_method, seed)
    plan.check()
    begin = time.perf_counter()
    with meter() as shown:
        shown.stage("Reading rows")
        table = read_table(paths, listed_items(columns), listed_items(drop), shown)
        found = _found(_checked(table, linear), table.names, plan, shown)
    files.write(found)
    if found.failure is not None:
        raise _with_what_was_written(found, files) from found.failure
    _warn(found.network, plan)
    return _answer(found.network, files, time.perf_counter() - begin)


# --- before the long work -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Files:
    """What is to be written, where wanted."""

    output: Path
    hidden: Path | None
    picture: Path | None

    def check(self, inputs: list[str]) -> None:
        """Everything about outputs that can be refused before the long work."""
        from unrelu.cli.outputs import check_kinds, check_outputs

        check_outputs([self.output, self.hidden, self.picture], inputs)
        check_kinds((self.hidden,), self.picture)

    def write(self, found: _Found) -> None:
        """Each file whole or not at all."""
        from unrelu.report.peel_summary import unit_names
        from unrelu.report.pictures import write_picture
        from unrelu.samples import write_table

        drawn = None if self.picture is None else _drawn(found, self.picture.suffix)
        found.save(self.output)
        if self.hidden is not None:
            write_table(self.hidden, found.units, unit_names(found.units.shape[1]))
        if self.picture is not None and drawn is not None:
            write_picture(self.picture, drawn)

    @property
    def written(self) -> dict[str, Path]:
        """The files wanted, and what is in them."""
        every = {"Layers": self.output, "Hidden units": self.hidden, "Picture": self.picture}
        return {what: path for what, path in every.items() if path is not None}


@dataclass(frozen=True)
class _Plan:
    """What is asked for."""

    widths: list[int | str]
    linear: bool
    output_bias: bool
    method: str | None
    hidden_method: str
    seed: int

    def check(self) -> None:
        from unrelu.methods import method_named
        from unrelu.validation import check_choice

        method_named(self.hidden_method)
        check_choice("method", self.method or "facets", _METHODS)
        for name, given in (("--output-bias", self.output_bias), ("--method", self.method is not None)):
            if given and not self.linear:
                raise InvalidParameterError(f"{name} is for outputs that are not rectified: add --linear.")
        if self.linear and len(self.widths) > 1:
            raise InvalidParameterError(
                f"--linear learns one layer, and --widths names {len(self.widths)}: give one number, or auto."
            )
        if self.output_bias and self.method == "separable":
            raise InvalidParameterError("--method separable finds no --output-bias: leave one of them out.")


def _widths(text: str) -> list[int | str]:
    """The numbers of units, or auto, of a comma-separated list."""
    found: list[int | str] = []
    for item in (item.strip() for item in text.split(",")):
        if item != "auto" and not (item.isascii() and item.isdecimal() and int(item) >= 1):
            raise InvalidParameterError(
                "--widths must be whole numbers of at least 1, or auto, outermost layer first, such as 30,8; got"
                f" {text!r}."
            )
        found.append(item if item == "auto" else int(item))
    return found


def _checked(table: Table, linear: bool) -> FloatArray:
    """The table as an array, if layers can be learned from such values."""
    import numpy as np

    from unrelu.kernels.row_block import LARGEST
    from unrelu.validation import label_columns

    n, d = table.shape
    values = table.part(np.arange(n), np.arange(d))
    if n < 2:
        raise InvalidDataError("The table has one row: at least two are needed, and hundreds are better.")
    unusable = np.asarray(~(np.abs(values) <= LARGEST).all(axis=0))
    if unusable.any():
        raise InvalidDataError(
            f"Missing, infinite or huge values in {label_columns(unusable, table.names)}: layers are learned from whole"
            " rows. Leave such rows out, or the columns with --drop."
        )
    negative = np.asarray((values < 0.0).any(axis=0))
    if negative.any() and not linear:
        raise InvalidDataError(
            f"Negative values in {label_columns(negative, table.names)}: the outputs of a rectifier are not below 0. If"
            " the outermost layer has none, x = A h, add --linear."
        )
    if not values.any():
        raise InvalidDataError("Every value of the table is 0: there is nothing to learn.")
    return values


# --- the long work --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Found:
    """What was learned: how to save it, the same in plain numbers, and the innermost units of every row of the table.

    Units are NaN in rows that the layers do not explain. ``failure`` is why there are fewer layers than asked for.
    """

    save: Callable[[Path], None]
    network: Network
    units: FloatArray
    failure: CannotPeelError | None = None


def _found(values: FloatArray, names: tuple[str, ...] | None, plan: _Plan, shown: Meter) -> _Found:
    try:
        with warnings.catch_warnings():
            for told_in_our_words in (UnitsNotFoundWarning, DoubtfulUnitsWarning):
                warnings.simplefilter("ignore", told_in_our_words)
            return (_linear if plan.linear else _peeled)(values, names, plan, shown)
    except CannotPeelError:
        raise
    except (InvalidDataError, InvalidParameterError) as error:
        words = str(error)
        for parameter, option in _OPTIONS.items():
            words = words.replace(parameter, option)
        raise type(error)(words) from error


def _linear(values: FloatArray, names: tuple[str, ...] | None, plan: _Plan, shown: Meter) -> _Found:
    import numpy as np

    from unrelu.estimators.two_layer import TwoLayerReLULearner
    from unrelu.report.peel_summary import Network

    (width,) = plan.widths
    options: dict[str, Any] = {"hidden_method": plan.hidden_method, "random_state": plan.seed}
    learner = TwoLayerReLULearner(width, plan.method or "facets", output_bias=plan.output_bias, **options)
    shown.stage("Layer 1: finding units (the first run also compiles)")
    learner._fit_told(values, lambda units, _: shown.tell(_progress(units, 0 if isinstance(width, str) else width)))
    units = learner.transform(values)
    units[learner.outlier_rows_] = np.nan
    if names is not None:
        learner.feature_names_in_ = np.array(names, dtype=object)
    return _Found(learner.save, Network.of_learner(learner), units)


def _peeled(values: FloatArray, names: tuple[str, ...] | None, plan: _Plan, shown: Meter) -> _Found:
    """The layers; those above one that cannot be peeled off, if there are any."""
    import numpy as np

    from unrelu.estimators.peeling import Peeled, peel_told
    from unrelu.report.peel_summary import Network

    failure = None
    try:
        peeled = peel_told(values, plan.widths, plan.hidden_method, plan.seed, _Watch(shown))
    except CannotPeelError as error:
        if not (isinstance(error.peeled, Peeled) and error.peeled.layers):
            raise
        peeled, failure = error.peeled, error
    units = np.full((len(values), peeled.hidden.shape[1]), np.nan)
    units[peeled.rows] = peeled.hidden
    save = partial(peeled.save, details={"feature_names": names})
    return _Found(save, Network.of_peeled(peeled, names), units, failure)


class _Watch:
    """Tells the terminal which layer is being peeled off, and how many of its units were found."""

    def __init__(self, shown: Meter) -> None:
        self._shown, self._finding = shown, False

    def __call__(self, layer: int, units: int | None, of: int) -> None:
        if units is None:
            self._shown.stage(f"Layer {layer}: undoing the rectifier (the first run also compiles)")
            self._finding = False
            return
        if not self._finding:
            self._shown.stage(f"Layer {layer}: finding units")
            self._finding = True
        self._shown.tell(_progress(units, of))


def _progress(units: int, of: int) -> str:
    return f"{units:,} of {of:,} units found" if of else f"{counted(units, 'unit')} found"


# --- what comes out -------------------------------------------------------------------------------


def _warn(network: Network, plan: _Plan) -> None:
    """In the words of this command."""
    from unrelu.report.peel_summary import unit_names
    from unrelu.validation import listed, warn

    inner = network.layers[-1]
    bias = ", or add --output-bias if x = A h + a" if plan.linear and not plan.output_bias else ""
    if inner.units_found < inner.n_hidden:
        warn(
            f"{inner.units_found:,} of {inner.n_hidden:,} hidden units were found: the others are hardly ever off, or"
            " hardly ever on, or off only where another one is. Those found can be used, but the weights are not"
            f" determined. Add rows, or lower --widths{bias}.",
            UnitsNotFoundWarning,
        )
    if inner.doubtful_units:
        names = unit_names(inner.n_hidden)
        warn(
            f"Units that do not look like rectified Gaussians: {listed(names[unit] for unit in inner.doubtful_units)}."
            f" They may be coincidences of several, and weights may be wrong. Add rows, or lower --widths{bias}.",
            DoubtfulUnitsWarning,
        )


def _with_what_was_written(found: _Found, files: _Files) -> CannotPeelError:
    """The failure, and where the layers above it are."""
    written = ", ".join(str(path) for path in files.written.values())
    count = len(found.network.layers)
    above = "The layer above it was" if count == 1 else f"The {count} layers above it were"
    error = found.failure
    assert error is not None, "asked for after a failure only"
    return CannotPeelError(f"{error} {above} written to {written}.", error.peeled, error.report)


def _drawn(found: _Found, kind: str) -> bytes:
    from unrelu.report.peel_picture import peel_picture
    from unrelu.report.pictures import rendered

    return rendered(peel_picture(found.network, found.units), kind)


def _answer(network: Network, files: _Files, seconds: float) -> Answer:
    from unrelu.report.peel_summary import network_facts, network_tables

    layers = network.layers
    facts = {
        **{"layers_file" if name == "output" else name: path for name, path in asdict(files).items()},
        "seconds": round(seconds, 3),
        **network_facts(network),
    }
    shown: list[str | ShownTable] = [
        f"Learned {counted(len(layers), 'layer')} from {layers[0].n_rows:,} x {layers[0].n_outputs:,} outputs in"
        f" {seconds:.2f} s.",
        *network_tables(network),
        *[f"{what} written to {path}" for what, path in files.written.items()],
    ]
    return Answer(facts, shown)
