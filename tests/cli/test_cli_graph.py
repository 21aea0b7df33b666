"""graph: edges of a table or a record, as text, JSON, files and pictures."""

from __future__ import annotations

import json
import sys

import networkx
import numpy as np
import pandas as pd
import pytest

import unrelu
from tests.graph.tables import chain, floored
from unrelu.tables import write_table

NAMES = [f"taxon {j}" for j in range(8)]
ROWS = floored(chain(8), 600, 5)
CHAIN = {(f"taxon {j}", f"taxon {j + 1}") for j in range(7)}


@pytest.fixture
def taxa(folder):
    write_table(folder / "taxa.csv", ROWS, NAMES)
    return folder / "taxa.csv"


def test_edges_are_those_of_the_estimator(run, taxa):
    result = run("graph", taxa, "-o", "edges.csv", "--json")
    assert result.exit_code == 0, result.stderr
    facts, written = json.loads(result.stdout), pd.read_csv("edges.csv")
    assert {tuple(row) for row in written[["first", "second"]].to_numpy()} == CHAIN
    graph = unrelu.RectifiedGaussianGraph().fit(pd.DataFrame(ROWS, columns=NAMES))
    np.testing.assert_allclose(written["partial_correlation"], [edge.partial_correlation for edge in graph.edges_])
    assert (facts["n_edges"], facts["selection"], facts["n_rows"]) == (7, "auto", 600)
    assert (facts["rule"], facts["n_stable"], facts["n_left_out"]) == ("likely", 7, 0)
    assert facts["agreement"] == pytest.approx(graph.graph_.agreement)
    np.testing.assert_allclose(written["stability"], [edge.stability for edge in graph.edges_])
    assert [edge["stability"] for edge in facts["edges"]] == written["stability"].tolist()
    assert facts["penalty"] == pytest.approx(graph.path_.penalty)
    assert facts["columns"][0] == {"name": "taxon 0", "degree": 1}
    assert facts["edges"][0]["q_value"] is None
    assert len(facts["path"]["penalties"]) == len(facts["path"]["n_edges"])


def test_the_terminal_tells_edges_and_files(run, taxa):
    files = ("-o", "graph.graphml", "--picture", "graph.png", "--path-picture", "path.svg", "--save", "graph.npz")
    result = run("graph", taxa, *files)
    text = " ".join(result.stdout.split())
    assert "7 edges between 8 columns, from 600 rows" in text
    assert "to start with)." in text
    assert "7 of them are stable: at least half of 20 halves of the rows have them by the same rule (likely)" in text
    assert "taxon 0" in text
    for shown in ("Edges written to graph.graphml", "Picture written to graph.png", "Picture of the path written"):
        assert shown in text
    assert networkx.read_graphml("graph.graphml").number_of_edges() == 7
    assert len(unrelu.load("graph.npz").edges_) == 7
    for name, start in (("graph.png", b"\x89PNG"), ("path.svg", b"<?xml")):
        with open(name, "rb") as file:
            assert file.read().startswith(start)


@pytest.mark.parametrize("selection", ["fdr", "0.15"])
def test_other_selections(run, taxa, selection):
    result = run("graph", taxa, "--selection", selection, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert {(edge["first"], edge["second"]) for edge in facts["edges"]} >= {("taxon 0", "taxon 1")}
    assert (facts["path"] is None) == (selection == "fdr")


def test_progress_is_shown_on_a_terminal(on_terminal, taxa):
    drawn, printed = on_terminal("graph", taxa, "--selection", "stars")
    assert "subsets" in drawn
    assert "edges between 8 columns" in " ".join(printed.split())


def test_records_of_sites_give_the_graph_of_all_rows(run, taxa):
    days = np.arange(600) // 30
    for site, rows in (("a", slice(0, 300)), ("b", slice(300, 600))):
        pd.DataFrame(ROWS[rows], columns=NAMES).assign(day=[f"d{day}" for day in days[rows]]).to_csv(
            f"{site}.csv", index=False
        )
        fitted = run(
            "fit",
            f"{site}.csv",
            "--record",
            f"{site}.npz",
            "-o",
            f"{site}.model",
            "--stderr",
            "jackknife",
            "--groups",
            "day",
        )
        assert fitted.exit_code == 0, fitted.stderr
    assert run("merge", "a.npz", "b.npz", "--record", "all.npz").exit_code == 0
    merged = run("graph", "all.npz", "--selection", "stars", "-o", "merged.csv")
    assert merged.exit_code == 0, merged.stderr
    pd.concat([pd.read_csv("a.csv"), pd.read_csv("b.csv")]).to_csv("whole.csv", index=False)
    assert run("graph", "whole.csv", "--groups", "day", "--selection", "stars", "-o", "whole.edges.csv").exit_code == 0
    pd.testing.assert_frame_equal(pd.read_csv("merged.csv"), pd.read_csv("whole.edges.csv"), rtol=1e-6)


def test_refusals(run, taxa, refused, monkeypatch):
    assert "--selection must be 'auto', 'likely', 'ebic', 'stars', 'fdr' or a penalty" in refused(
        run("graph", taxa, "--selection", "strs")
    )
    assert "takes no path" in refused(run("graph", taxa, "--selection", "fdr", "--path-picture", "p.png"))
    assert "edges.docx" in refused(run("graph", taxa, "-o", "edges.docx"))
    assert "at least two columns" in refused(run("graph", taxa, "--columns", "taxon 1"))
    unrelu.RectifiedGaussian([0.0, 0.0], np.eye(2)).save("model.npz")
    assert "holds a RectifiedGaussian" in refused(run("graph", "model.npz"))
    unrelu.RectifiedGaussianLearner().fit(ROWS).save("learner.npz")
    assert "--floor belongs to a fit" in refused(run("graph", "learner.npz", "--floor", "1"))
    assert "--stderr jackknife" in refused(run("graph", "learner.npz", "--selection", "stars"))
    monkeypatch.setitem(sys.modules, "networkx", None)
    assert 'pip install "unrelu[graph]"' in refused(run("graph", taxa, "--picture", "graph.png"))
    assert 'pip install "unrelu[graph]"' in refused(run("graph", taxa, "-o", "graph.graphml"))


def test_a_graph_without_edges_is_said(run, folder):
    write_table(folder / "apart.csv", floored(chain(4, 0.0), 300, 2), list("abcd"))
    result = run("graph", "apart.csv", "--picture", "graph.png", "--path-picture", "path.png", "-o", "edges.csv")
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "0 edges between 4 columns" in text
    assert "Without an edge: a, b, c, d." in text
    assert len(pd.read_csv("edges.csv")) == 0


def test_edges_that_halves_do_not_share_are_a_diagnostic(run, folder):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 20)) + rng.normal(size=(40, 20))
    write_table(folder / "factors.csv", rows, [f"x{j}" for j in range(20)])
    given = ("graph", "factors.csv", "--floor", "none", "--margins", "normal", "--selection", "likely")
    facts = json.loads(run(*given, "--json").stdout)
    unstable = facts["n_edges"] - facts["n_stable"]
    assert 2 * unstable > facts["n_edges"]
    assert [diagnostic["kind"] for diagnostic in facts["report"]["diagnostics"]].count("unstable-edges") == 1
    text = " ".join(run(*given).stdout.split())
    assert "The answer may be wrong: " in text
    assert f"{facts['n_stable']} of them are stable" in text
