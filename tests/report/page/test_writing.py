"""Pages: whole, safe, and with the parts that there are rows for."""

from __future__ import annotations

import builtins
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import unrelu
from unrelu.errors import MissingDependencyError, OutputError
from unrelu.report.page import making

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "\"'><img src=x onerror=window.hacked=1>",
    "</script><b>",
    "x" * 10_000,
    "\u202eright to left\u2028",
    "=HYPERLINK(0)",
    "{{ 7 * 7 }}",
]


class Elements(HTMLParser):
    """Names and attributes of a page's elements, and the texts of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found, self.scripts, self.texts, self._in_script = [], [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self._in_script = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            self.scripts.append(data)
        else:
            self.texts.append(data)


@pytest.fixture(scope="module")
def rows():
    return unrelu.synthetic.random_model(7, random_state=0).sample(300, random_state=1)


def page_of(path, X, **wanted):
    learner = unrelu.RectifiedGaussianLearner().fit(X)
    learner.write_html(path, X, **{"n_simulations": 0, **wanted})
    return path.read_text("utf-8")


def facts_in(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


@pytest.fixture(scope="module")
def checked_facts(rows, tmp_path_factory):
    """Of the rows, with 19 simulated tables."""
    return facts_in(page_of(tmp_path_factory.mktemp("checked") / "page.html", rows, n_simulations=19))


def test_hostile_names_make_no_element(rows, tmp_path):
    page = page_of(tmp_path / "page.html", pd.DataFrame(rows, columns=HOSTILE), title=HOSTILE[0])
    calm = page_of(tmp_path / "calm.html", pd.DataFrame(rows, columns=list("abcdefg")))
    mine, others = Elements(page), Elements(calm)
    assert [tag for tag, _ in mine.found] == [tag for tag, _ in others.found]
    assert not [name for _, attributes in mine.found for name in attributes if name.startswith("on")]
    assert len(mine.scripts) == 4  # the style, the numbers, the chart library, the program
    assert facts_in(page)["columns"]["name"] == HOSTILE
    assert "{{ 7 * 7 }}" in page
    assert "x" * 61 not in page.replace(re.search(r'id="data">.*?</script>', page, re.S)[0], "").replace("x" * 299, "")


def test_only_our_scripts_may_run_and_nothing_may_be_asked_for(rows, tmp_path):
    page = page_of(tmp_path / "page.html", rows)
    policy = dict(Elements(page).found[3][1])["content"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src" not in policy
    assert making.script_hash(Elements(page).scripts[3]) in policy
    outside = [a for tag, a in Elements(page).found if "src" in a or (a.get("href") or "#")[0] != "#"]
    assert outside == []


def test_parts_without_rows_are_left_out(rows, checked_facts, tmp_path):
    whole = checked_facts
    assert whole["check"]["fits"] in (True, False)
    assert whole["outliers"]["n_rows"] == 300
    assert whole["filling"]["columns"]
    learner = unrelu.RectifiedGaussianLearner().fit(rows)
    learner.write_html(tmp_path / "model.html")
    page = (tmp_path / "model.html").read_text("utf-8")
    alone = facts_in(page)
    assert (alone["table"], alone["check"], alone["outliers"], alone["filling"]) == (None, None, None, None)
    assert 'id="columns"' in page
    assert 'id="pairs"' in page
    assert 'id="outliers"' not in page
    assert "aive" not in "".join(Elements(page).texts)


def test_the_most_outlying_row_and_cell_are_found(rows, tmp_path):
    X = rows.copy()
    X[17, 3] += 30.0
    outliers = facts_in(page_of(tmp_path / "page.html", X))["outliers"]
    assert outliers["rows"][0]["row"] == 18
    assert (outliers["cells"][0]["row"], outliers["cells"][0]["column"]) == (18, "x3")


def test_filled_in_values_are_those_of_imputation(rows, tmp_path):
    facts = facts_in(page_of(tmp_path / "page.html", rows))["filling"]
    imputer = unrelu.FloorImputer().fit(rows)
    filled = imputer.transform(rows)
    for column in facts["columns"]:
        j = column["column"]
        assert column["mean"] == pytest.approx(filled[rows[:, j] == 0.0, j].mean(), rel=1e-3)
        assert 0.0 <= column["explained"] <= 1.0


def test_one_column_makes_a_page(tmp_path):
    page = page_of(tmp_path / "page.html", np.maximum(np.random.default_rng(0).standard_normal((200, 1)), 0.0))
    assert facts_in(page)["pairs"] is None
    assert 'id="pairs"' not in page


@pytest.mark.parametrize("size", [1e-120, 1e120])
def test_huge_and_tiny_numbers_make_a_page(size, rows, checked_facts, tmp_path):
    facts = facts_in(page_of(tmp_path / "page.html", size * rows, n_simulations=19))
    plain = checked_facts
    np.testing.assert_allclose(np.array(facts["columns"]["mean"]) / size, plain["columns"]["mean"], rtol=1e-4)
    assert facts["pairs"]["order"] == plain["pairs"]["order"]
    explained = [[column["explained"] for column in each["filling"]["columns"]] for each in (facts, plain)]
    np.testing.assert_allclose(*explained, atol=2e-3)


@pytest.mark.slow
def test_two_thousand_columns_make_a_page(tmp_path):
    X = unrelu.synthetic.random_model(2000, k=10, random_state=0).sample(500, random_state=1)
    page = page_of(tmp_path / "page.html", X, n_simulations=None)
    assert len(page) < 6_000_000
    facts = facts_in(page)
    assert (facts["check"], facts["outliers"], facts["filling"]) == (None, None, None)
    assert len(facts["left_out"]) == 3


def test_an_imputer_and_cell_limits_make_pages(rows, tmp_path):
    unrelu.FloorImputer().fit(rows).write_html(tmp_path / "imputer.html", rows, n_simulations=19)
    assert facts_in((tmp_path / "imputer.html").read_text("utf-8"))["check"]["fits"] is not None
    unrelu.FloorImputer.from_model(unrelu.synthetic.random_model(7, random_state=0)).write_html(
        tmp_path / "model.html", rows, n_simulations=19
    )
    few = rows[:60, :3]
    limits = np.where(few == 0.0, 0.0, np.nan)
    learner = unrelu.RectifiedGaussianLearner("full_likelihood", floor=limits).fit(few)
    learner.write_html(tmp_path / "cells.html", few, n_simulations=0)
    facts = facts_in((tmp_path / "cells.html").read_text("utf-8"))
    assert facts["outliers"] is None
    assert facts["table"]["share_floored"] == pytest.approx(np.mean(few == 0.0))


def test_a_frame_whose_cells_state_limits_makes_a_page(rows, tmp_path):
    limits = np.where(np.arange(len(rows)) % 2, 0.3, 0.6)
    cells = [f"<{limit}" if x <= limit else f"{x}" for x, limit in zip(rows[:, 0], limits, strict=True)]
    page = page_of(tmp_path / "page.html", pd.DataFrame({"As": cells, "Pb": rows[:, 1], "Zn": rows[:, 2]}))
    left_out = facts_in(page)["left_out"]
    assert "outlying rows (unrelu score)" in left_out


def test_a_page_is_written_whole_or_not_at_all(rows, tmp_path, monkeypatch):
    learner = unrelu.RectifiedGaussianLearner().fit(rows)
    target = tmp_path / "page.html"
    target.write_text("old")
    monkeypatch.setattr(making, "rendered", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learner.write_html(target, rows, n_simulations=0)
    assert target.read_text() == "old"
    monkeypatch.undo()
    with pytest.raises(OutputError, match="missing"):
        learner.write_html(tmp_path / "missing" / "page.html", rows, n_simulations=0)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(("module", "called"), [("jinja2", "Jinja2"), ("plotly.offline", "Plotly")])
def test_what_is_missing_is_named(module, called, rows, tmp_path, monkeypatch):
    learner, real = unrelu.RectifiedGaussianLearner().fit(rows), builtins.__import__

    def without(name, *args, **kwargs):
        if name == module:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    making._chart_script.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=rf'{called}: pip install "unrelu\[report\]"'):
        learner.write_html(tmp_path / "page.html", rows)
    assert list(tmp_path.iterdir()) == []
