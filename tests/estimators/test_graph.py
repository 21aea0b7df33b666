"""RectifiedGaussianGraph: what it finds, however the rows come, and what it makes of bad tables."""

import re
import sys
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import unrelu
from tests.graph.tables import chain, chain_edges, floored
from tests.warned import lines_of, refuse, warns
from unrelu import RectifiedGaussianGraph, RectifiedGaussianLearner
from unrelu.errors import InvalidDataError, InvalidParameterError, MissingDependencyError
from unrelu.tables import open_samples

X = floored(chain(6), 800, 3)
DAYS = np.arange(800) % 20
SELECTIONS = ["auto", "likely", "ebic", "fdr", 0.15]


@cache
def of_rows(selection="auto"):
    """The graph of X by that rule, for tests that only look at it."""
    return RectifiedGaussianGraph(selection).fit(X)


@parametrize_with_checks([RectifiedGaussianGraph()])
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([RectifiedGaussianGraph(0.2, floor=-1e6)])
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_scikit_learn_checks_without_floor(estimator, check):
    check(estimator)


def same_graph(first, second, rtol=1e-7):
    np.testing.assert_array_equal(first.adjacency_, second.adjacency_)
    for name in ("precision_", "partial_correlation_", "partial_correlation_stderr_", "stability_"):
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_chain_is_found(selection):
    graph = of_rows(selection)
    np.testing.assert_array_equal(graph.adjacency_, chain_edges(6))
    on = chain_edges(6)
    z = (graph.partial_correlation_[on] - 0.4) / graph.partial_correlation_stderr_[on]
    assert np.all(np.abs(z) < 4.0)
    assert len(graph.edges_) == 5
    sizes = [abs(edge.partial_correlation) for edge in graph.edges_]
    assert sizes == sorted(sizes, reverse=True)


def test_stars_finds_a_long_chain():
    graph = RectifiedGaussianGraph("stars").fit(floored(chain(16), 800, 3))
    np.testing.assert_array_equal(graph.adjacency_, chain_edges(16))
    assert graph.stability_[chain_edges(16)].min() > 0.7
    assert graph.path_.instability[graph.path_.chosen] <= 0.05


def test_stars_says_so_where_subsets_of_few_columns_never_agree():
    with warns("trivial-graph", match="leaves no edge though.*'auto'"):
        assert len(RectifiedGaussianGraph("stars").fit(X).edges_) == 0


def test_precision_is_of_latent_units_with_zeros_off_the_graph():
    graph = RectifiedGaussianGraph().fit(X * np.arange(1.0, 7.0))
    scale = graph.std_
    plain = of_rows()
    np.testing.assert_allclose(graph.precision_ * np.outer(scale, scale),
                               plain.precision_ * np.outer(plain.std_, plain.std_), atol=1e-6)  # fmt: skip
    off = ~chain_edges(6) & ~np.eye(6, dtype=bool)
    assert not graph.precision_[off].any()
    assert not graph.partial_correlation_[off].any()
    assert np.isnan(graph.partial_correlation_stderr_[off]).all()
    on = chain_edges(6) | np.eye(6, dtype=bool)
    np.testing.assert_allclose(np.linalg.inv(graph.precision_)[on], graph.covariance_[on], rtol=1e-6)


def test_floors_cost_rows():
    model = chain(6)
    unfloored = unrelu.RectifiedGaussian(model.mean, model.covariance, floor=-np.inf).sample(800, random_state=3)
    whole = RectifiedGaussianGraph(floor=None).fit(unfloored).graph_.effective_rows
    cut = RectifiedGaussianGraph().fit(np.maximum(unfloored, 0.0)).graph_.effective_rows
    assert whole == pytest.approx(800, rel=0.02)
    assert 450 < cut < 720


def test_the_jackknife_agrees_with_the_model_where_the_model_holds():
    jackknife = RectifiedGaussianGraph("fdr").fit(X)
    model = RectifiedGaussianGraph.from_learned(RectifiedGaussianLearner().fit(X), "fdr")
    upper = np.triu_indices(6, 1)
    ratio = jackknife.partial_correlation_stderr_[upper] / model.partial_correlation_stderr_[upper]
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.2)  # 15 pairs, each to 16 %


def test_fdr_gives_all_partial_correlations():
    graph = RectifiedGaussianGraph("fdr").fit(X)
    np.testing.assert_allclose(graph.precision_, np.linalg.inv(graph.covariance_), rtol=1e-6)
    assert np.all(np.isfinite(graph.partial_correlation_stderr_))
    assert all(edge.q_value <= 0.1 for edge in graph.edges_)
    assert graph.path_ is None


# --- however the rows come ----------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["auto", "fdr", "stars"])
def test_any_split_gives_the_same_graph(selection, tmp_path):
    whole = of_rows(selection)
    parts = RectifiedGaussianGraph(selection)
    for rows in np.split(X, [100, 350]):
        parts.partial_fit(rows)
    same_graph(parts, whole)
    for k, rows in enumerate(np.split(X, [300])):
        pd.DataFrame(rows).to_csv(tmp_path / f"part{k}.csv", index=False)
    same_graph(RectifiedGaussianGraph(selection).fit(open_samples([str(tmp_path / "*.csv")])), whole)


def test_sites_that_share_records_alone_give_the_graph_of_all_rows():
    days = [f"day {k}" for k in np.arange(800) // 40]
    whole = RectifiedGaussianGraph("stars").fit(X, groups=days)
    sites = [RectifiedGaussianGraph("stars").fit(X[at], groups=days[at]) for at in (slice(0, 400), slice(400, 800))]
    same_graph(unrelu.merge(sites), whole)


def test_a_learner_and_its_record_give_the_graph_of_their_rows():
    whole = of_rows("stars")
    learner = RectifiedGaussianLearner(stderr="jackknife").fit(X)
    for learned in (learner, learner.record_):
        same_graph(RectifiedGaussianGraph.from_learned(learned, "stars"), whole)
    named = RectifiedGaussianGraph.from_learned(learner.record_, feature_names=list("abcdef"))
    assert {edge.first for edge in named.edges_} <= set("abcdef")


def test_a_learner_without_groups_gives_all_but_stars():
    learner = RectifiedGaussianLearner().fit(X)
    for selection in SELECTIONS:
        graph = RectifiedGaussianGraph.from_learned(learner, selection)
        np.testing.assert_array_equal(graph.adjacency_, chain_edges(6))
        jackknifed = of_rows(selection)
        on = chain_edges(6)
        ratio = graph.partial_correlation_stderr_[on] / jackknifed.partial_correlation_stderr_[on]
        assert 0.6 < np.nanmedian(ratio) < 1.6
    with pytest.raises(InvalidParameterError, match="stderr='jackknife'"):
        RectifiedGaussianGraph.from_learned(learner, "stars")


def test_what_no_graph_is_made_from():
    with pytest.raises(InvalidParameterError, match="fitted RectifiedGaussianLearner or its record_, got ndarray"):
        RectifiedGaussianGraph.from_learned(X)
    with pytest.raises(InvalidParameterError, match="n_components=2"):
        RectifiedGaussianGraph.from_learned(RectifiedGaussianLearner(n_components=2).fit(X))
    with pytest.raises(InvalidParameterError, match="2 names for the 6 columns"):
        RectifiedGaussianGraph.from_learned(
            RectifiedGaussianLearner("one_pass").fit(X).record_, feature_names=["a", "b"]
        )


def test_weights_are_repeated_rows():
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    weighted = RectifiedGaussianGraph(0.15).fit(X, sample_weight=weights)
    repeated = RectifiedGaussianGraph(0.15).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.partial_correlation_, repeated.partial_correlation_, rtol=1e-6)


def test_saved_graphs_can_go_on(tmp_path):
    RectifiedGaussianGraph("stars").fit(X[:500]).save(tmp_path / "graph")
    again = unrelu.load(tmp_path / "graph")
    assert again.path_.penalty == RectifiedGaussianGraph("stars").fit(X[:500]).path_.penalty
    same_graph(again.partial_fit(X[500:]), of_rows("stars"))


# --- other tables ---------------------------------------------------------------------------------------


def test_outlier_rows_do_not_matter_to_the_robust_method():
    rng = np.random.default_rng(1)
    dirty = X.copy()
    dirty[:80] = rng.exponential(6.0, (80, 1)) + rng.random((80, 6))
    graph = RectifiedGaussianGraph(method="robust").fit(dirty)
    clean = RectifiedGaussianGraph().fit(X[80:])
    on = chain_edges(6)
    np.testing.assert_allclose(graph.stability_[on], clean.stability_[on], atol=0.35)
    assert 0.7 < np.mean(graph.partial_correlation_stderr_[on] / clean.partial_correlation_stderr_[on]) < 1.4
    np.testing.assert_array_equal(graph.adjacency_, chain_edges(6))
    assert graph.row_weights_[:80].mean() < 0.2
    groups = np.arange(len(X)) % 15
    graph = RectifiedGaussianGraph(method="robust").fit(dirty, groups=groups)
    np.testing.assert_array_equal(graph.adjacency_, chain_edges(6))


def test_skewed_columns_with_free_margins():
    graph = RectifiedGaussianGraph(margins="monotone").fit(np.expm1(1.5 * X))
    np.testing.assert_array_equal(graph.adjacency_, chain_edges(6))


def test_a_ceiling_is_a_floor_upside_down():
    turned = X.copy()
    turned[:, 2] *= -1.0
    graph = RectifiedGaussianGraph(ceiling={"2": 0.0}).fit(pd.DataFrame(turned, columns=list("012345")))
    plain = of_rows()
    sign = np.where(np.arange(6) == 2, -1.0, 1.0)
    np.testing.assert_allclose(graph.partial_correlation_, plain.partial_correlation_ * np.outer(sign, sign), atol=1e-8)


def test_the_full_likelihood_has_no_subsets():
    rows = X[:300, :4]
    graph = RectifiedGaussianGraph(method="full_likelihood").fit(rows)
    np.testing.assert_array_equal(graph.adjacency_, chain_edges(4))
    assert np.isnan(graph.stability_).all()
    with pytest.raises(InvalidParameterError, match="'one_pass' or 'robust'"):
        RectifiedGaussianGraph("stars", method="full_likelihood").fit(rows)


# --- what halves of the rows say ------------------------------------------------------------------------


def factor_table(n, d, n_factors, seed):
    """Columns that share factors: no sparse graph, and 30 % floored."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(d, n_factors)) / np.sqrt(n_factors)
    rows = rng.normal(size=(n, n_factors)) @ loadings.T + rng.normal(size=(n, d)) * rng.uniform(0.3, 1.0, d)
    return np.maximum(rows - np.quantile(rows, 0.3, axis=0), 0.0)


@cache
def of_factors(selection):
    """The graph of a few rows of columns that share factors, and what is said of unstable edges."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        graph = RectifiedGaussianGraph(selection, margins="normal").fit(factor_table(70, 36, 5, 1))
    return graph, lines_of(told, "unstable-edges")


@cache
def fitted_halves(labels):
    """Learners of the rows of ten random halves of the days, and of what is left of each."""
    rng, found = np.random.default_rng(0), []
    for _ in range(10):
        order = rng.permutation(20)
        for some in (order[:10], order[10:]):
            rows = np.isin(DAYS, [labels[k] for k in some])
            found.append(RectifiedGaussianLearner(margins="normal", method="one_pass").fit(X[rows]))
    return found


@pytest.mark.parametrize("selection", ["likely", "ebic", "fdr", 0.15])
def test_stability_is_the_share_of_halves_that_have_an_edge_by_the_same_rule(selection):
    """Against graphs fitted to the rows of each half."""
    graph = RectifiedGaussianGraph(selection, margins="normal").fit(X, groups=DAYS)
    halves = fitted_halves(tuple(int(label) for label in graph.record_.labels))
    found = [RectifiedGaussianGraph.from_learned(half, selection).adjacency_ for half in halves]
    assert graph.graph_.n_subsets == 20
    # Rows' worth, and with "fdr" errors, of the whole stand for those of a half.
    np.testing.assert_allclose(graph.stability_, np.mean(found, axis=0), atol=0.2)
    assert np.abs(graph.stability_ - np.mean(found, axis=0)).mean() < 0.05
    first, second = np.array(found[0::2]), np.array(found[1::2])
    assert graph.graph_.agreement == pytest.approx((first & second).sum() / np.sum(found) * 2.0, abs=0.1)


def test_the_default_is_the_rule_that_halves_agree_on():
    likely = RectifiedGaussianGraph(margins="normal").fit(floored(chain(12), 400, 1))
    assert (likely.graph_.rule, likely.graph_.n_left_out) == ("likely", 0)
    same_graph(likely, RectifiedGaussianGraph("likely", margins="normal").fit(floored(chain(12), 400, 1)))
    found = {selection: of_factors(selection)[0].graph_ for selection in ("auto", "likely", "ebic")}
    assert found["likely"].agreement < 1 / 3
    assert found["auto"].rule == "ebic"
    assert found["auto"].agreement == found["ebic"].agreement > 1.5 * found["likely"].agreement


def test_edges_that_halves_do_not_share_are_left_out_and_told():
    graph, (said,) = of_factors("auto")
    assert re.search(r"Of \d+ edges by 'ebic' \d+ are found .* left out\.", said)
    left_out = graph.graph_.n_left_out
    assert left_out > graph.n_features_in_
    assert f"those {left_out} are left out" in said
    assert all(edge.stability >= 0.5 for edge in graph.edges_)
    assert [diagnostic.kind for diagnostic in graph.report_.diagnostics].count("unstable-edges") == 1
    # The remedy that the message names.
    every, (said,) = of_factors("ebic")
    assert f"Take the {len(graph.edges_)} with a stability of 0.5" in said
    assert len(every.edges_) == len(graph.edges_) + left_out
    np.testing.assert_array_equal(graph.adjacency_, every.adjacency_ & (every.stability_ >= 0.5))


def test_more_rows_are_the_other_remedy():
    with warnings.catch_warnings():
        refuse("unstable-edges")
        graph = RectifiedGaussianGraph(margins="normal").fit(factor_table(1000, 20, 2, 3))
    assert graph.graph_.n_left_out == 0
    assert graph.graph_.agreement > 0.6


def test_clean_tables_with_ten_rows_a_column_are_not_doubted():
    for seed in range(3):
        with warnings.catch_warnings():
            refuse("unstable-edges")
            graph = RectifiedGaussianGraph(margins="normal").fit(floored(chain(12), 120, seed))
        assert "unstable-edges" not in [diagnostic.kind for diagnostic in graph.report_.diagnostics]


def test_without_halves_the_sparser_rule_is_for_few_rows():
    assert RectifiedGaussianGraph(margins="normal").fit(X[:30]).graph_.rule == "likely"
    few = RectifiedGaussianLearner(margins="normal", method="one_pass").fit(floored(chain(40), 70, 0))
    graph = RectifiedGaussianGraph.from_learned(few)
    assert graph.graph_.rule == "ebic"
    assert np.isnan(graph.stability_).all()
    assert np.isnan(graph.graph_.agreement)


# --- bad input --------------------------------------------------------------------------------------------


def test_more_columns_than_rows_work_and_say_what_makes_sense():
    rows = floored(chain(28), 26, 0)
    with warns(
        "more-columns-than-rows", match=r"28 columns but only 26 rows.*'auto', 'likely', 'ebic'.*'stars'.*'fdr'"
    ):
        graph = RectifiedGaussianGraph().fit(rows)
    assert np.linalg.eigvalsh(graph.precision_)[0] > 0.0
    with warns("more-columns-than-rows"):
        RectifiedGaussianGraph("stars").fit(rows)
    with (
        pytest.raises(InvalidParameterError, match=r"'fdr'.*'likely', 'ebic' or 'stars'"),
        warns("more-columns-than-rows"),
    ):
        RectifiedGaussianGraph("fdr").fit(rows)


def test_correlations_without_an_inverse_are_told_with_advice_for_graphs():
    rows = np.maximum(np.random.default_rng(0).normal(size=(300, 3)) @ np.ones((3, 12)), 0.0)
    rows += 1e-3 * np.random.default_rng(1).random(rows.shape) * (rows > 0.0)
    with warns("singular", match="leave out columns that others determine") as told:
        graph = RectifiedGaussianGraph().fit(rows)
    assert not [each for each in told if "n_components" in str(each.message)]
    assert "singular" in [diagnostic.kind for diagnostic in graph.report_.diagnostics]
    assert np.all(np.isfinite(graph.precision_))
    few = RectifiedGaussianGraph().fit(floored(chain(15), 50, 0))
    assert "few-rows" not in [diagnostic.kind for diagnostic in few.report_.diagnostics]


@pytest.mark.filterwarnings("ignore::unrelu.errors.AssumptionWarning")
@pytest.mark.parametrize("selection", SELECTIONS)
def test_duplicated_columns_are_tied_and_told(selection):
    with warns("perfect-correlation", match="column 0 and column 6"):
        graph = RectifiedGaussianGraph(selection).fit(np.column_stack([X, X[:, 0]]))
    assert graph.adjacency_[0, 6]
    assert graph.partial_correlation_[0, 6] > 0.9
    assert np.all(np.isfinite(graph.precision_))


def test_a_column_never_above_its_floor_is_named():
    empty = X.copy()
    empty[:, 4] = 0.0
    with pytest.raises(InvalidDataError, match="column 4"):
        RectifiedGaussianGraph().fit(empty)


def test_a_constant_column_has_no_edges():
    constant = X.copy()
    constant[:, 4] = 2.0
    with warns("constant-column"):
        graph = RectifiedGaussianGraph().fit(constant)
    assert not graph.adjacency_[4].any()
    assert graph.adjacency_[0, 1]


def test_one_column_is_refused_and_two_are_not():
    with pytest.raises(InvalidDataError, match="at least two columns"):
        RectifiedGaussianGraph().fit(X[:, :1])
    for selection in SELECTIONS:
        assert len(RectifiedGaussianGraph(selection).fit(X[:, :2]).edges_) == 1
        apart = RectifiedGaussianGraph(selection).fit(floored(chain(2, 0.0), 500, 0))
        assert len(apart.edges_) == 0


def test_too_few_rows_for_subsets():
    with pytest.raises(InvalidDataError, match=r"20 rows are too few.*'auto'"):
        RectifiedGaussianGraph("stars").fit(X[:20])
    assert np.isnan(RectifiedGaussianGraph().fit(X[:20]).stability_).all()


def test_an_unknown_selection_is_told_before_the_rows_are_read():
    with pytest.raises(InvalidParameterError, match="Did you mean 'stars'"):
        RectifiedGaussianGraph("star").fit(None)


def test_without_networkx_the_rest_works(monkeypatch, tmp_path):
    graph = of_rows()
    assert graph.to_networkx().number_of_edges() == 5
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        graph.to_networkx()
    graph.write_edges(tmp_path / "edges.csv")
    assert len(pd.read_csv(tmp_path / "edges.csv")) == 5
