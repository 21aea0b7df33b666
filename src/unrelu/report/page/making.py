"""A page, part by part: all its facts, every long step told to a watch, and the file of them."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from unrelu._version import __version__
from unrelu.contracts import FloatArray, LearningReport, Step, Watch, unwatched
from unrelu.estimators import FloorImputer, RectifiedGaussianLearner, check_model
from unrelu.estimators.prepare import with_cell_limits
from unrelu.limits import is_by_cell
from unrelu.model import RectifiedGaussian
from unrelu.passes.rows import ArraySamples, Rows, as_rows
from unrelu.posterior.cells import Cells
from unrelu.report.page import rows
from unrelu.report.page.columns import ColumnFacts, Looked, picture
from unrelu.report.page.pairs import PairMatrix, component_facts, scatter_facts
from unrelu.report.page.writing import check_report, rendered
from unrelu.storage import FilePath, atomic_write
from unrelu.validation import counted

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "plotly")


@dataclass(frozen=True)
class Order:
    """What is wanted of a page.

    ``title``: what the table is called; ``command``: how the page was asked for; ``n_simulations`` of the check of the
    fit, 0 for none, None for as many as the number of columns allows. ``ids`` say which row is which. ``words`` turns
    the library's words into those of whoever reads the page.
    """

    title: str
    command: str = ""
    n_simulations: int | None = None
    seed: int = 0
    ids: Mapping[str, Sequence[str]] = field(default_factory=dict)
    words: Callable[[str], str] = str
    watch: Watch = unwatched


@dataclass(frozen=True, eq=False)
class Asked:
    """Who answers: a fitted learner, or a model alone, and the table, if there is one."""

    model: RectifiedGaussian
    learner: RectifiedGaussianLearner | None
    table: Any = None
    floor_tolerance: float = 0.0
    imputer: FloorImputer | None = None

    @classmethod
    def of(cls, learner: Any, table: Any = None) -> Asked:
        """A learner, or an imputer that was made from a model; ``table`` is what was learned, or None."""
        fitted = learner if getattr(learner, "report_", None) is not None else None
        imputer = learner if isinstance(learner, FloorImputer) else None
        if table is not None and is_by_cell(learner.floor, learner.ceiling):
            rows = as_rows(table)
            table = rows if isinstance(rows, Rows) else ArraySamples(np.asarray(table, dtype=np.float64))
            table = with_cell_limits(table, learner.floor, learner.ceiling)
        return cls(learner.distribution_, fitted, table, float(learner.floor_tolerance), imputer)

    @property
    def report(self) -> LearningReport | None:
        return None if self.learner is None else self.learner.report_

    def error(self, name: str) -> FloatArray | None:
        """Standard errors, where they are known."""
        return None if self.learner is None else getattr(self.learner, name)

    def blocks(self) -> Iterator[Cells]:
        """The rows, as the model meets them."""
        imputer = self.imputer or FloorImputer.from_model(self.model, floor_tolerance=self.floor_tolerance)
        return imputer.cells(self.table)

    @property
    def has_cell_limits(self) -> bool:
        return isinstance(self.table, Rows) and bool(self.table.limits_by_cell)

    def check(self, number: int, order: Order) -> Any:
        """The check of the fit."""
        if self.learner is not None:
            return self.learner.watched_by(order.watch).check(self.table, n_simulations=number)
        options: dict[str, Any] = {
            "floor_tolerance": self.floor_tolerance,
            "random_state": order.seed,
            "watch": order.watch,
        }
        return check_model(self.model, self.table, n_simulations=number, **options)


def write_report(path: FilePath, asked: Asked, order: Order) -> dict[str, Any]:
    """Make a page and write it, whole or not at all; its facts."""
    check_report()
    made = page_facts(asked, order)
    page = rendered(made)
    with atomic_write(path) as stream:
        stream.write(page)
    facts: dict[str, Any] = made["facts"]
    return facts


def report_of(learner: Any, path: FilePath, X: Any, wanted: dict[str, Any]) -> None:
    """The page of a fitted learner, for its method ``report``; ``wanted`` are parts of an order."""
    write_report(path, Asked.of(learner, X), Order(**wanted))


def page_facts(asked: Asked, order: Order) -> dict[str, Any]:
    """Everything that the page says, in plain numbers and words."""
    begin, number = time.perf_counter(), rows.simulations(asked.model.n_features, order.n_simulations)
    model, looked, told = asked.model, None, order.watch
    if asked.table is not None:
        told(Step("Looking at the rows"))
        looked = Looked.at(asked.blocks(), model.n_features, order.seed)
    told(Step("Drawing columns"))
    columns = ColumnFacts.of(model, looked, asked.error("bias_stderr_"))
    pictures = [picture(model, j, looked) for j in range(model.n_features)]
    pairs = PairMatrix.of(model, looked, asked.error("correlation_stderr_")) if model.n_features > 1 else None
    facts: dict[str, Any] = {
        "title": order.title,
        "table": None if looked is None else looked.facts(),
        "columns": columns.facts(),
        "pairs": None if pairs is None else pairs.facts(),
        "scatter": None if pairs is None or looked is None else scatter_facts(model, looked),
        "components": None if pairs is None else component_facts(pairs.latent, pairs.naive),
        **_of_rows(asked, looked, order, number),
        "doubts": rows.doubt_facts(asked.report, columns.names, order.words),
        "made": _made(asked, order),
    }
    facts["made"]["seconds"] = round(time.perf_counter() - begin, 2)
    return {"facts": facts, "pictures": pictures}


def _of_rows(asked: Asked, looked: Looked | None, order: Order, number: int) -> dict[str, Any]:
    """What only rows can tell: does the model fit (by ``number`` tables), which rows are odd, what is hidden."""
    if looked is None:
        return {"check": None, "odd": None, "filling": None, "left_out": ["everything that needs the rows"]}
    d, left_out = asked.model.n_features, []
    check = odd = filled = None
    if number:
        check = rows.check_told(lambda: asked.check(number, order), order.words)
    else:
        left_out.append("the check of the fit (unrelu check)")
    if d <= rows.MOST_COLUMNS and not asked.has_cell_limits:
        how = (asked.floor_tolerance, order.seed)
        odd = rows.odd_facts(asked.model, asked.table, asked.blocks(), order.ids, how, order.watch)
    else:
        left_out.append("strange rows (unrelu score)")
    if d <= rows.MOST_COLUMNS:
        order.watch(Step("Filling in cells"))
        filled = rows.filling_facts(asked.model, looked)
    else:
        left_out.append("what is under the floor, cell by cell (unrelu impute)")
    return {"check": check, "odd": odd, "filling": filled, "left_out": left_out}


def _made(asked: Asked, order: Order) -> dict[str, Any]:
    """How the page came about."""
    learner = asked.learner
    parameters = {} if learner is None else {name: _short(value) for name, value in learner.get_params(False).items()}
    report = asked.report
    return {
        "method": None if report is None else report.method,
        "parameters": parameters,
        "command": order.command,
        "seed": order.seed,
        "time": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": {"unrelu": __version__, "python": platform.python_version(), **{n: version(n) for n in _LIBRARIES}},
    }


def _short(value: Any) -> str:
    """A parameter in a few words."""
    if isinstance(value, np.ndarray | list | tuple) and np.size(value) > 6:
        return f"{counted(int(np.size(value)), 'value')}"
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
