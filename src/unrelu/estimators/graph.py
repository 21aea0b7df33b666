"""RectifiedGaussianGraph: the graph of partial correlations, with scikit-learn's interface.

The mathematics is in :mod:`unrelu.graph`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from unrelu.checks.findings import warn_of
from unrelu.contracts import Assumptions, Diagnostic, FloatArray, no_progress
from unrelu.errors import InvalidParameterError
from unrelu.estimators.base import Table, in_one_warning
from unrelu.estimators.fitted import FittedModel
from unrelu.estimators.learner import HoldsLearner, RectifiedGaussianLearner
from unrelu.fit.jackknife import fisher_interval
from unrelu.fit.one_pass import Learned
from unrelu.graph.learning import (
    OF_EDGES,
    Graph,
    LatentCorrelations,
    check_rows,
    check_selection,
    diagnostics_of_edges,
    in_columns,
    learn_graph,
    networkx_graph,
    rows_that_would_do,
    write_edges,
)
from unrelu.graph.subsets import RowGroups
from unrelu.methods import Method, method_named
from unrelu.passes.engine import engine_for
from unrelu.passes.pair_moments import (
    GroupedMoments,
    GroupedMomentsQuestion,
    PairMoments,
    PairMomentsQuestion,
    whole_of,
)
from unrelu.tables.groups import LabelledRows, split_groups
from unrelu.tables.prepared import prepared
from unrelu.validation import noting_warnings, warn, warn_of_noted

if TYPE_CHECKING:
    import networkx

_NO_WEIGHT = 1e-6  # of a row: it is an outlier
_OF_THE_GRAPH = (
    "adjacency_", "precision_", "partial_correlation_", "partial_correlation_stderr_", "stability_", "path_", "edges_",
    "graph_",
)  # fmt: skip
_NO_INVERSE = (
    "Partial correlations are of correlations with a little of the identity mixed in, and those of such columns rest on"
    " it: add rows, or leave out columns that others determine."
)


@contextmanager
def _without_advice_of_factors() -> Iterator[None]:
    """Without warnings whose remedy is a factor model, which has no partial correlations, and without diagnostics,
    which the graph issues itself."""
    with noting_warnings() as noted:
        yield
    warn_of_noted([line for line in noted if line[1] != "more-columns-than-rows"], but="AssumptionWarning")


class RectifiedGaussianGraph(HoldsLearner):
    """The graph of partial correlations behind a left-censored table: which columns depend on each other given all
    others.

    It learns x = max(y, floor), y ~ N(mean, covariance), and has an edge between two columns where y has a partial
    correlation given all other columns; edges are found as by the graphical lasso, column by column. It has the
    attributes and methods of a learner as well: ``distribution_``, ``mean_``, ``location_``, ``correlation_``,
    ``mahalanobis(X)``; these are of the learned model, whose covariance need not have the graph's zeros.

    Parameters
    ----------
    selection : "auto", "likely", "ebic", "stars", "fdr" or a number, default="auto"
        How edges are chosen. "ebic": the graph, on a path from sparse to dense, with the least extended BIC of its most
        likely partial correlations. "likely": starting there, the pairs whose edge is more likely than not, given the
        number of other edges and their strength. "auto": of these two, the rule on more of whose edges halves of the
        rows agree; where most edges are found again in fewer than half of the halves, only the other edges, and a
        warning says so. "stars": the densest graph on that path that subsets of the rows agree on. "fdr": pairs whose
        partial correlation, without any penalty, is not 0, at a false discovery rate of 10 %; for tables with many more
        rows than columns. A number from 0 to 1: the path's graph with that penalty, in units of a correlation.
    method : str or object from :mod:`unrelu.methods`, default="one_pass"
        How to learn; "robust" where rows may be outliers.
    floor, ceiling, margins, floor_tolerance
        As for :class:`unrelu.RectifiedGaussianLearner`; margins="monotone" for columns that are not normal.
    random_state : int, Generator or None, default=0
        Seeds the subsets of the rows, and the methods that draw.

    Attributes
    ----------
    edges_ : tuple of Edge
        first, second, partial_correlation, stderr, stability, q_value; the strongest first.
        ``pandas.DataFrame(graph.edges_)`` is a table.
    adjacency_ : bool array of shape (d, d)
        True where two columns have an edge.
    partial_correlation_, precision_ : arrays of shape (d, d)
        The most likely ones, of latent values, with zeros where there is no edge; with "fdr" those of all pairs.
    partial_correlation_stderr_ : array of shape (d, d)
        By a jackknife over groups of rows (the model's where there are no groups), given the graph: they do not account
        for its choice by the same rows. NaN where nothing was estimated.
    stability_ : array of shape (d, d)
        The share of 20 random halves of the rows in which two columns have an edge by the same rule; NaN where there
        are no halves: fewer than 40 rows or six groups, or a method other than "one_pass" and "robust".
    path_ : GraphPath or None
        Penalties, numbers of edges, criteria of the choice; ``path_.penalty`` is the chosen one, or the one that
        "likely" started from. None with "fdr".
    graph_ : Graph
        The whole result, with ``rule``, the selection that "auto" chose, and ``agreement``, the share of the edges of
        half the rows that the other half has, too.

    Examples
    --------
    >>> import numpy as np
    >>> import unrelu
    >>> chain = np.linalg.inv(np.eye(4) - 0.4 * (np.eye(4, k=1) + np.eye(4, k=-1)))
    >>> X = unrelu.RectifiedGaussian(np.zeros(4), chain).sample(2000, random_state=0)
    >>> graph = unrelu.RectifiedGaussianGraph().fit(X)
    >>> sorted((edge.first, edge.second) for edge in graph.edges_)
    [(0, 1), (1, 2), (2, 3)]
    >>> graph.partial_correlation_[0, 1].round(1)
    np.float64(0.4)
    """

    _derived: ClassVar[tuple[str, ...]] = (*FittedModel._derived, *_OF_THE_GRAPH)
    _graph: Graph | None = None

    def __init__(
        self,
        selection: str | float = "auto",
        *,
        method: str | Method = "one_pass",
        floor: Any = 0.0,
        ceiling: Any = None,
        margins: Any = "auto",
        floor_tolerance: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.selection = selection
        self.method = method
        self.floor = floor
        self.ceiling = ceiling
        self.margins = margins
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state

    @classmethod
    def stored(cls) -> dict[str, Any]:
        return {**super().stored(), "_graph": Graph | None}

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None, groups: Any = None) -> Self:  # noqa: ARG002
        """Learn the graph of the columns of X.

        X is an array, a data frame, or rows that are read block by block (:func:`unrelu.tables.open_samples`).
        ``groups``: one label per row or the name of a column, such as days or patients. Subsets of the rows and the
        jackknife keep rows with one label together. Without ``groups`` rows are dealt to 20 groups.
        """
        self._graph = self._learner = None
        self._forget()
        check_selection(self.selection)
        learner, one_pass, labels = self._own_learner(), self._takes_one_pass(), None
        if one_pass:
            learner.keeping_groups()
        elif groups is not None:
            X, labels = split_groups(X, groups)
        try:
            with _without_advice_of_factors():
                learner.fit(X, sample_weight=sample_weight, groups=groups if one_pass else None)
            self._hold(learner)._advise()
            record = learner.record_ if one_pass else self._kept_groups(X, sample_weight, labels)
            self._graph = self._learned_graph(record, learner.report_.diagnostics)
        except BaseException:
            self._learner = None
            self._forget()
            raise
        self._hold(learner)._solve("graph_")
        return self

    def partial_fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None, groups: Any = None) -> Self:  # noqa: ARG002
        """Add the rows of X to those seen before. The graph is computed when an attribute is next needed.

        >>> import numpy as np
        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> X = model.sample(600, random_state=1)
        >>> graph = unrelu.RectifiedGaussianGraph().partial_fit(X[:100]).partial_fit(X[100:])
        >>> again = unrelu.RectifiedGaussianGraph().fit(X)
        >>> np.allclose(graph.precision_, again.precision_, rtol=1e-8)
        True
        """
        check_selection(self.selection)
        learner = self._going_on(X)
        if self._takes_one_pass():
            learner.keeping_groups()
        self._hold(learner.partial_fit(X, sample_weight=sample_weight, groups=groups))
        self._graph = None
        return self

    @classmethod
    def from_learned(
        cls,
        learned: RectifiedGaussianLearner | PairMoments | GroupedMoments,
        selection: str | float = "auto",
        *,
        feature_names: Any = None,
        random_state: Any = 0,
    ) -> Self:
        """A graph from a fitted learner or a record, without the rows.

        "stars", and errors that do not rely on the model, take a learner with ``stderr="jackknife"`` or its record.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> X = model.sample(600, random_state=1)
        >>> learner = unrelu.RectifiedGaussianLearner(stderr="jackknife").fit(X)
        >>> graph = unrelu.RectifiedGaussianGraph.from_learned(learner, "fdr")
        >>> len(graph.edges_), len(unrelu.RectifiedGaussianGraph.from_learned(learner.record_).edges_)
        (1, 1)
        """
        check_selection(selection)
        if isinstance(learned, HoldsLearner):
            learned = learned.held_learner()
        if isinstance(learned, PairMoments | GroupedMoments):
            graph = cls(selection, floor=whole_of(learned).floor, random_state=random_state)
            learner = RectifiedGaussianLearner("one_pass", floor=graph.floor, random_state=random_state)
            learner.keeping_groups().of_record(learned, feature_names)
        elif isinstance(learned, RectifiedGaussianLearner):
            if learned.n_components is not None:
                raise InvalidParameterError(
                    f"With n_components={learned.n_components!r} the covariance has no inverse, and columns no partial"
                    " correlations: fit a learner without n_components."
                )
            same = {
                name: getattr(learned, name) for name in ("method", "floor", "ceiling", "margins", "floor_tolerance")
            }
            graph = cls(selection, random_state=random_state, **same)
            learned.report_  # noqa: B018 - computes a model learned in parts
            learner = copy(learned)
        else:
            raise InvalidParameterError(
                f"A graph is made from a fitted RectifiedGaussianLearner or its record_, got {type(learned).__name__}."
            )
        return graph.with_progress(vars(learner).get("_progress", no_progress))._of_learner(learner)

    def _of_learner(self, learner: RectifiedGaussianLearner) -> Self:
        """The graph of a learner."""
        self._hold(learner)
        self._graph = self._learned_graph(getattr(learner, "record_", None))
        return self._hold(learner)

    def _takes_one_pass(self) -> bool:
        """Whether the method has one question, so that records of groups of rows can be kept."""
        return method_named(self.method).question(Assumptions((0.0,))) is not None

    def _kept_groups(self, X: Any, sample_weight: ArrayLike | None, labels: Any) -> GroupedMoments | None:
        """The record of another pass over the inlier rows of a robust method; None of other methods."""
        kept: FloatArray | None = getattr(self.held_learner(), "row_weights_", None)
        if kept is None:
            return None
        kept = np.where(kept < _NO_WEIGHT, 0.0, kept)
        weights = kept if sample_weight is None else kept * np.asarray(sample_weight, dtype=np.float64)
        rows = prepared(LabelledRows(self._table(X, weights, reset=False), labels, long=True), self._columns)
        question = GroupedMomentsQuestion(PairMomentsQuestion.under(self._assumptions()))
        return engine_for(rows, self._progress, "Reading kept rows").collect(rows, question)

    @in_one_warning
    def _result(self) -> Learned:
        learner = self.held_learner()
        if learner.is_solved:
            return learner._result()
        with _without_advice_of_factors():
            learner.report_  # noqa: B018 - computes a model learned in parts
        self._advise()
        warn_of(learner.report_.diagnostics, self._names())
        return learner._result()

    def _advise(self) -> None:
        """Give diagnostics the remedies of a graph; a path of graphs allows for few rows by itself."""
        learner = self.held_learner()
        kept = [each for each in learner.report_.diagnostics if each.kind != "few-rows"]
        adapted = (replace(each, remedy=_NO_INVERSE) if each.kind == "singular" else each for each in kept)
        learner.set_diagnostics(tuple(adapted))

    def _learned_graph(self, record: PairMoments | GroupedMoments | None, others: tuple[Diagnostic, ...] = ()) -> Graph:
        """The graph of the learned model; ``record`` is by groups where halves of the rows are to agree; ``others`` are
        diagnostics that are issued with those of the graph."""
        learned, assumptions = self._result(), self._assumptions()
        scale, d = learned.rows.std, learned.distribution.n_features
        columns = np.flatnonzero(scale > 0.0)
        check_rows(learned.report.n_rows, d, len(columns))
        if d > (n_rows := learned.report.n_rows):
            warn(
                f"{d:,} columns but only {n_rows:,} rows: an edge must be strong to stand out. selection='auto',"
                " 'likely', 'ebic' and, if there are 25 rows and more, 'stars' make sense; 'fdr' and small penalties do"
                " not.",
                "more-columns-than-rows",
            )
        square = np.ix_(columns, columns)
        groups = None
        if isinstance(record, GroupedMoments):
            groups = RowGroups(record, assumptions, learned.pairs, columns, self._names())
        rows, pair_rows = rows_that_would_do(learned.pairs, learned.report.effective_rows)
        known = LatentCorrelations(learned.distribution.correlation[square], rows, pair_rows[square], groups)
        graph = learn_graph(known, self.selection, self._seed(), self._progress)
        of_edges = diagnostics_of_edges(graph)
        of_model = (each for each in learned.report.diagnostics if each.kind not in OF_EDGES)
        self.held_learner().set_diagnostics((*of_model, *of_edges))
        warn_of((*others, *of_edges), self._names())
        whole = in_columns(graph, columns, scale)
        return whole.negated(self._columns.sign) if self._columns.negated.any() else whole

    # --- what was learned -------------------------------------------------------------------------

    @in_one_warning
    def _solved_graph(self) -> Graph:
        """The graph, computed if it was learned in parts."""
        learned = self._result()
        if self._graph is None:
            record = getattr(self.held_learner(), "record_", None)
            if record is None:
                raise InvalidParameterError(f"No graph was learned by {learned.report.method!r}: fit the rows again.")
            self._graph = self._learned_graph(record)
            self._forget()
        return self._graph

    def _solve(self, name: str) -> None:
        if name not in _OF_THE_GRAPH:
            super()._solve(name)
            return
        graph = self._solved_graph()
        self.adjacency_, self.precision_ = graph.adjacency, graph.precision
        self.partial_correlation_, self.partial_correlation_stderr_ = graph.partial_correlation, graph.stderr
        self.stability_, self.path_ = graph.stability, graph.path
        self.edges_, self.graph_ = graph.edges(self._names()), graph

    def confidence_intervals(self, level: float = 0.95) -> dict[str, FloatArray]:
        """The intervals of the learner, and those of "partial_correlation" (d x d x 2), by Fisher's z.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> X = model.sample(600, random_state=1)
        >>> graph = unrelu.RectifiedGaussianGraph("fdr").fit(X)
        >>> low, high = graph.confidence_intervals()["partial_correlation"][0, 1]
        >>> bool(low < 0.6 < high)
        True
        """
        graph = self._solved_graph()
        ends = fisher_interval(graph.partial_correlation, graph.stderr, level, graph.degrees)
        return {**super().confidence_intervals(level), "partial_correlation": ends}

    def to_networkx(self) -> networkx.Graph:
        """The graph as a :class:`networkx.Graph`: nodes are columns, edges have their numbers as attributes."""
        return networkx_graph(self.edges_, list(self._names() or range(self.n_features_in_)))

    def write_edges(self, path: str | os.PathLike[str]) -> None:
        """Write one line per edge (csv, tsv, parquet, feather, arrow), or a .graphml file (with networkx)."""
        write_edges(path, self.edges_, list(self._names() or range(self.n_features_in_)))
