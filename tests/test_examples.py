"""The gallery: its pages run and show what they say, say where not to use them, and need no file that is not here."""

import ast
import re
import runpy
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from unrelu.errors import UnreluWarning

EXAMPLES = Path(__file__).parents[1] / "examples"
PAGES = sorted([*EXAMPLES.glob("tables/*.py"), *EXAMPLES.glob("layers/*.py")])
TOUR = sorted(EXAMPLES.glob("tour/*.py"))
DOCS = EXAMPLES.parent / "docs"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run an example as a script, in an empty folder; its variables."""

    def run_path(path):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(plt, "show", lambda: None)
        plt.close("all")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreluWarning)  # some show what is said of a table
            found = runpy.run_path(str(path), run_name="__main__")
        assert len(plt.get_fignums()) == 1
        assert list(tmp_path.iterdir()) == []
        plt.close("all")
        return found

    return run_path


@pytest.mark.slow
@pytest.mark.parametrize("path", TOUR, ids=lambda path: path.stem)
def test_the_tour_runs_and_draws(path, run, capsys):
    """`make docs` runs it as well, for the gallery."""
    run(path)
    assert capsys.readouterr().out


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_shows_a_picture_first_and_says_where_not_to_use_it(path):
    text = path.read_text()
    title, line, intro, picture = re.match(r'"""\n(.+)\n(=+)\n\n(.+?)\n\n(.+?)\n"""\n', text, re.DOTALL).groups()
    assert len(title) == len(line)
    assert intro.count(". ") == 1  # two sentences
    assert picture.startswith(f".. image:: images/sphx_glr_{path.stem}_001.png\n   :alt: ")
    assert re.search(r'#     .*"(yours\.csv|activations\.npy|outputs\.npy)"', text)  # a table of one's own
    *_, end = text.split("# %%\n")
    assert end.startswith("# Where not to use it\n# -----")
    links = re.findall(r"<\.\./\.\./(\w+)\.html", end)
    assert len(links) >= 3
    assert [link for link in links if not (DOCS / f"{link}.md").exists()] == []
    assert "Source" in end


@pytest.mark.parametrize("path", [*PAGES, *TOUR], ids=lambda path: path.stem)
def test_examples_use_public_names_alone_and_run_as_notebooks(path):
    tree = ast.parse(path.read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {name for name in modules if name.startswith("unrelu")} <= {"unrelu", "unrelu.errors"}
    assert "sys" not in modules  # a notebook's arguments are not ours
    assert [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_")] == []


def test_water_quality(run):
    found = run(EXAMPLES / "tables" / "water_quality.py")
    slope, low, high = found["intervals"]["multiple imputation"]
    assert low < -0.9 < high
    assert abs(slope + 0.9) < min(
        abs(found["others"][name][0] + 0.9) for name in ("half-limits", "non-detects left out")
    )
    assert found["others"]["half-limits"][0] > found["others"]["without limits"][0] + 0.1
    assert (found["filled"][found["metals"]].to_numpy() < found["limits"].to_numpy())[found["hidden"]].all()
    assert 0.82 < found["inside"][found["hidden"]].mean() < 0.96
    above = (found["truth"]["Cd"] > found["standard"]).mean()
    assert found["least"] < above < found["most"]
    assert (found["halved"]["Cd"] > found["standard"]).mean() < above


def test_biomonitoring(run):
    found = run(EXAMPLES / "tables" / "biomonitoring.py")
    off, upper = found["off"], found["upper"]
    assert off["unrelu"] < 0.6 * min(off["LOD/sqrt(2)"], off["detects alone"])
    below = (upper[["upper limit", "by LOD/sqrt(2)"]].lt(upper["true percentile"], axis=0)).sum()
    assert below["upper limit"] <= 4 < below["by LOD/sqrt(2)"]
    assert np.argmin(found["p"]) == 5
    assert found["cells"].loc[5, "U3"] == found["cells"].loc[5, found["names"]].abs().max()


def test_proteomics(run, capsys):
    found = run(EXAMPLES / "tables" / "proteomics.py")
    sharp, gradual, changes = found["at_a_limit"], found["gradual"], found["estimates"]
    assert sharp["unrelu"] < 0.75 * min(sharp["half-minimum"], sharp["missing at random"])
    assert gradual["unrelu"] > max(gradual["half-minimum"], gradual["missing at random"])  # as the page says
    error = {name: np.sqrt(np.mean((each - found["whole"]) ** 2)) for name, each in changes.items()}
    assert error.pop("unrelu, 20 draws") < 0.5 * min(error.values())
    first, second = re.findall("warning of the imputer: (.*)", capsys.readouterr().out)
    assert first == "ties"
    assert {"excess-zeros", "empty-gap"} <= set(second.split(", "))


def test_rain_at_stations(run):
    found = run(EXAMPLES / "tables" / "rain_at_stations.py")
    edges, graphs = found["edges"], found["graphs"]
    wrong = {name: (graph != edges).sum() // 2 for name, graph in graphs.items()}
    assert wrong["unrelu"] <= 1
    assert min(wrong["without floor"], wrong["without floor, log(1 + mm)"]) >= 5
    truth = found["mm"][found["gap"]]
    error = {name: np.sqrt(np.mean((x - truth) ** 2)) for name, x in found["filled"].items()}
    assert error["unrelu, mean"] == min(error.values())
    assert abs((found["filled"]["unrelu, a draw"] == 0).mean() - (truth == 0).mean()) < 0.08
    assert abs(found["both"][0] - found["both"][1]) < 0.06


def test_a_layer_of_a_classifier(run):
    found = run(EXAMPLES / "layers" / "layer_of_a_classifier.py")
    layer, true = found["layer"], found["true"]
    plain = found["hidden"][found["seen"]].mean(axis=0) - true.mean(axis=0)
    assert np.abs(layer.mean_ - true.mean(axis=0)).mean() < 0.2 * np.abs(plain).mean()
    zero, truth = found["zero"], found["truth"]
    assert np.sqrt(np.mean((found["filled"] - truth)[zero] ** 2)) < 0.5 * np.sqrt(np.mean(truth[zero] ** 2))
    transposed, confidence = found["others"]["transposed digits"]
    assert np.mean(transposed < found["threshold"]) > 0.9
    assert np.mean(found["own"][0] < found["threshold"]) < 0.15
    assert confidence.mean() > 0.8  # the network notices nothing


def test_a_generator(run):
    found = run(EXAMPLES / "layers" / "generator.py")
    assert np.abs(found["layer"].weights - found["truth"]).max() < 1e-6
    assert found["again"] < 1e-8
    error = {name: np.abs(x - found["clean"]).max() for name, x in found["ways"].items()}
    assert error["restored"] < 1e-6 < error["PCA, 20 components"]
    assert (found["restored"].flagged == found["replaced"]).mean() > 0.99
