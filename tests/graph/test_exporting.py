"""Graphs for other programs."""

import sys

import networkx
import pandas as pd
import pytest

from unrelu.errors import MissingDependencyError, OutputError
from unrelu.graph.learning import Edge, check_edges_file, networkx_graph, write_edges

NAN = float("nan")
EDGES = (Edge("As", "Pb", -0.4, 0.05, 0.9, NAN), Edge("Pb", "Zn & co", 0.2, 0.06, 1.0, NAN))
NODES = ["As", "Pb", "Zn & co", "alone"]


def test_networkx_has_every_column_and_every_number_that_is_not_missing():
    graph = networkx_graph(EDGES, NODES)
    assert list(graph.nodes) == NODES
    assert graph.edges["Pb", "As"] == {"weight": 0.4, "partial_correlation": -0.4, "stderr": 0.05, "stability": 0.9}


def test_graphml_reads_back(tmp_path):
    write_edges(tmp_path / "graph.graphml", EDGES, NODES)
    again = networkx.read_graphml(tmp_path / "graph.graphml")
    expected = networkx_graph(EDGES, NODES)
    assert list(again.nodes) == NODES
    assert {frozenset(e[:2]): e[2] for e in again.edges(data=True)} == {
        frozenset(e[:2]): e[2] for e in expected.edges(data=True)
    }


@pytest.mark.parametrize("name", ["edges.csv", "edges.parquet", "edges.tsv.gz"])
def test_tables_read_back(name, tmp_path):
    write_edges(tmp_path / name, EDGES, NODES)
    read = (
        pd.read_parquet
        if name.endswith("parquet")
        else lambda path: pd.read_csv(path, sep="\t" if "tsv" in name else ",")
    )
    table = read(tmp_path / name)
    assert list(table) == list(Edge._fields)
    assert table["second"].tolist() == ["Pb", "Zn & co"]
    assert table["partial_correlation"].tolist() == [-0.4, 0.2]
    assert table["q_value"].isna().all()


def test_no_edges_are_a_table_too(tmp_path):
    write_edges(tmp_path / "edges.csv", (), NODES)
    assert list(pd.read_csv(tmp_path / "edges.csv")) == list(Edge._fields)


def test_without_networkx_the_message_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "unrelu\[graph\]"'):
        networkx_graph(EDGES, NODES)
    with pytest.raises(MissingDependencyError):
        check_edges_file(tmp_path / "graph.graphml")
    check_edges_file(tmp_path / "edges.csv")
    write_edges(tmp_path / "edges.csv", EDGES, NODES)


def test_unknown_kinds_of_files_are_refused_before_the_work(tmp_path):
    with pytest.raises(OutputError, match=r"edges\.docx"):
        check_edges_file(tmp_path / "edges.docx")
