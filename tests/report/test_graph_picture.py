"""Pictures of graphs: what is drawn, and that it can be distinguished."""

from __future__ import annotations

import numpy as np
import pytest

from unrelu.graph.learning import Edge, GraphPath
from unrelu.report.graph import graph_picture, path_picture
from unrelu.report.pictures import LEARNED, NAIVE, rendered

NAN = float("nan")


def edge(first, second, partial=0.3, stability=1.0):
    return Edge(first, second, partial, 0.05, stability, NAN)


def tree(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        edge(f"c{rng.integers(j)}", f"c{j}", float(rng.choice([-1, 1]) * rng.uniform(0.1, 0.5))) for j in range(1, n)
    ]


def parts(figure):
    axes = figure.axes[0]
    lines, dots = sorted(axes.collections, key=lambda each: each.get_zorder())
    return lines, dots, [text.get_text() for text in axes.texts]


def test_sign_is_the_colour_strength_the_width_and_degree_the_size():
    edges = [edge("a", "b", 0.5), edge("b", "c", -0.2), edge("b", "d", 0.3)]
    lines, dots, names = parts(graph_picture(edges, list("abcde")))
    from matplotlib.colors import to_hex

    assert [to_hex(colour).upper() for colour in lines.get_colors()] == [NAIVE, LEARNED, LEARNED]  # the weakest first
    assert np.all(np.diff(lines.get_linewidths()) > 0.0)
    sizes = dict(zip(names, dots.get_sizes(), strict=True))
    assert sizes["b"] > sizes["a"] == sizes["c"]
    assert "e" not in names


def test_columns_without_edges_are_named_below():
    figure = graph_picture([edge("a", "b")], ["a", "b", *[f"$lone{j}" for j in range(20)]])
    assert figure.get_supxlabel().startswith("Without an edge: \\$lone0")
    assert figure.get_supxlabel().endswith("and 8 more")
    rendered(figure)


def test_unstable_edges_are_faint_behind_the_others_and_counted_below():
    edges = [edge("a", "b", 0.5, 0.4), edge("b", "c", -0.2, 0.5), edge("c", "d", 0.1), edge("d", "e", 0.3, 0.1)]
    figure = graph_picture(edges, list("abcdef"))
    lines, dots, names = parts(figure)
    np.testing.assert_allclose(lines.get_alpha(), [0.3, 0.3, 0.8, 0.8])
    widths = lines.get_linewidths()
    assert max(widths[:2]) < min(widths[2:])
    assert figure.get_supxlabel().splitlines() == [
        "Faint lines: 2 of the edges, found in fewer than half of the halves of the rows",
        "Without an edge: f",
    ]
    assert set(names) == set("abcde")
    sizes = dict(zip(names, dots.get_sizes(), strict=True))
    assert sizes["a"] == sizes["e"] < sizes["b"] < sizes["c"]  # by stable edges
    rendered(figure)
    alone = graph_picture([edge("a", "b", 0.5, 0.1)], ["a", "b"])
    assert rendered(alone)
    assert len(parts(alone)[2]) == 2
    unasked = graph_picture([edge("a", "b", 0.5, NAN)], ["a", "b"])
    assert unasked.get_supxlabel() == ""


@pytest.mark.parametrize("n", [20, 200])
def test_columns_do_not_lie_on_each_other(n):
    figure = graph_picture(tree(n), [f"c{j}" for j in range(n)])
    figure.canvas.draw()
    _, dots, names = parts(figure)
    at = figure.axes[0].transData.transform(dots.get_offsets())
    apart = np.linalg.norm(at[:, None] - at[None], axis=-1) + 1e9 * np.eye(len(at))
    radius = np.sqrt(dots.get_sizes() / np.pi) * figure.dpi / 72.0
    assert np.mean(apart.min(axis=1) > radius) > 0.95
    assert len(names) == (20 if n == 20 else 40)


def test_parts_lie_side_by_side():
    edges = [edge("a", "b"), edge("b", "c"), edge("x", "y"), edge("y", "z")]
    _, dots, names = parts(graph_picture(edges, list("abcxyz")))
    at = dict(zip(names, np.asarray(dots.get_offsets()), strict=True))
    first, second = (np.array([at[name] for name in part]) for part in ("abc", "xyz"))
    overlap = (first.min(axis=0) < second.max(axis=0)) & (second.min(axis=0) < first.max(axis=0))
    assert not overlap.all()


def test_communities_have_colours():
    groups = [edge(a, b) for group in ("abcd", "wxyz") for k, a in enumerate(group) for b in group[k + 1 :]]
    _, dots, names = parts(graph_picture([*groups, edge("a", "w", 0.05)], list("abcdwxyz")))
    colour = dict(zip(names, map(tuple, dots.get_facecolors()), strict=True))
    assert len({colour[name] for name in "abcd"}) == 1
    assert colour["a"] != colour["w"]


def test_the_same_graph_gives_the_same_picture():
    first, again = (rendered(graph_picture(tree(30), [f"c{j}" for j in range(30)])) for _ in range(2))
    assert first == again


def test_a_graph_without_edges_is_a_picture():
    assert rendered(graph_picture([], ["a", "b"])).startswith(b"\x89PNG")


def test_the_path_has_a_panel_for_what_was_looked_at():
    path = GraphPath(np.geomspace(0.5, 0.05, 6), np.arange(6), 2, instability=np.linspace(0.0, 0.2, 6))
    figure = path_picture(path)
    assert [axes.get_ylabel() for axes in figure.axes] == ["edges", "instability"]
    assert figure.axes[0].get_title(loc="left") == "2 edges at the penalty 0.199"
    low, high = figure.axes[0].get_xlim()
    assert low > high
    assert rendered(figure)
    both = GraphPath(np.array([0.5, 0.0]), np.array([0, 3]), 1, criterion=np.array([3.0, np.nan]))
    assert rendered(path_picture(both))
    assert rendered(path_picture(GraphPath(np.ones(1), np.zeros(1, dtype=np.int64), 0)))
