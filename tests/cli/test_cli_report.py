"""report: one page from a table, and what is said where there can be none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from unrelu.tables import write_table

QUICK = ("--simulations", "19")


def test_a_table_becomes_a_page(run, folder, rows):
    write_table(folder / "rows.csv", rows[:300], ["As", "Pb", "Fe"])
    result = run("report", "rows.csv", "-o", "page.html", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert "Report written to page.html" in result.stdout
    assert "300 rows of 3 columns" in result.stdout
    page = Path("page.html").read_text("utf-8")
    assert "rows.csv" in page
    assert len(page) < 6_000_000


def test_json_has_the_sentence_of_the_check(run, folder, rows):
    write_table(folder / "rows.csv", rows[:300], ["As", "Pb", "Fe"])
    facts = json.loads(run("report", "rows.csv", "--json", *QUICK).stdout)
    assert facts["output"] == "report.html"
    assert facts["table"]["n_rows"] == 300
    assert isinstance(facts["fits"], bool)
    assert facts["bytes"] == Path("report.html").stat().st_size


def test_a_model_of_other_rows_is_used(run, table, model):
    result = run("report", table, "--model", model, "--json", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["verdict"].startswith("The given model")


def test_ids_and_margins_reach_the_page(run, folder, skewed_rows):
    path = folder / "named.csv"
    rows = skewed_rows[:150]
    lines = [f"s{i}," + ",".join(map(repr, row.tolist())) for i, row in enumerate(rows)]
    path.write_text("site,As,rain,count\n" + "\n".join(lines) + "\n")
    result = run("report", path, "--id", "site", "--margins", "auto", "--floor", "As=0.5", "--simulations", "0")
    assert result.exit_code == 0, result.stderr
    assert "Left out: the check of the fit (unrelu check)." in result.stdout
    page = Path("report.html").read_text("utf-8")
    assert "<bdi>site</bdi>" in page


def test_bad_input_is_refused_in_one_line(run, refused, table, model, folder):
    assert "ends in .html" in refused(run("report", table, "-o", "page.pdf"))
    assert "nowhere" in refused(run("report", table, "-o", "nowhere/page.html"))
    assert "also an input" in refused(run("report", table, "--model", model, "-o", _linked(model, "model.html")))
    assert "is no table but a model" in refused(run("report", model))
    assert "belongs to a fit" in refused(run("report", table, "--model", model, "--floor", "1"))
    assert "--simulations must be" in refused(run("report", table, "--simulations", "3"))
    write_table(folder / "flat.csv", np.zeros((40, 2)), ["a", "b"])
    assert "Never above its floor" in refused(run("report", folder / "flat.csv"))
    assert not Path("report.html").exists()


def _linked(model: Path, name: str) -> Path:
    link = model.with_name(name)
    link.hardlink_to(model)
    return link
