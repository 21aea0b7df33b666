"""The page of benchmarks says what its files say, the files are of benchmarks that there are, and a run writes them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from benchmarks import table
from benchmarks.__main__ import NAMES
from benchmarks.studies import show
from benchmarks.table import FOLDER, HEADER, WHEN, Claim, write

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "benchmarks.md").read_text()
NUMBER = re.compile(r"(?<![\w.])\d*\.?\d+(?:e-?\d+)?(?![\w])")
ROWS = re.findall(
    r"^\|(.*)\|([^|]*)\|([^|]*)\| \[\w[^|]*\]\(([\w./-]+)\) \|$", PAGE.split("## All figures")[0], re.MULTILINE
)


def numbers(text: str) -> list[str]:
    return NUMBER.findall(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))


def figures_in(path: Path) -> str:
    """A page, or the cells of a csv file, parted by blanks."""
    text = path.read_text()
    return " ".join(cell for row in csv.reader(text.splitlines()) for cell in row) if path.suffix == ".csv" else text


def is_rounded(shown: str, value: str) -> bool:
    """Is what is shown a number rounded to the digits that are shown?

    >>> is_rounded(".74", "0.7409"), is_rounded("4e-12", "3.876e-12"), is_rounded("1.20", "1.26")
    (True, True, False)
    """
    mantissa, _, power = shown.partition("e")
    unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    return abs(float(shown) - float(value)) <= 0.5000001 * unit


def missing(shown: str, source: str) -> list[str]:
    """Numbers that are no rounding of one in the source."""
    there = numbers(source)
    return [each for each in numbers(shown) if not any(is_rounded(each, value) for value in there)]


def test_figures_of_the_page_are_those_of_its_files():
    assert len(ROWS) >= 15
    for what, ours, others, name in ROWS:
        source = figures_in(DOCS / name)
        assert missing(re.sub(r"limit/2|none of 5", "", f"{ours} {others}"), source) == [], what


def test_a_figure_of_another_file_is_missed():
    assert missing(".99; 1.004; 4e-12", "x 0.9851 y 1.0041 3.9e-12") == []
    assert missing(".98; 4e-11", "0.9951 3.9e-12") == [".98", "4e-11"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.csv")), ids=lambda path: path.stem)
def test_files_are_whole(path):
    with path.open(newline="") as file:
        header, *rows = list(csv.reader(file))
    assert rows
    assert header[-2:] == WHEN
    assert (header == [*HEADER, *WHEN]) == ("-" not in path.stem)
    assert {len(row) for row in rows} == {len(header)}
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", row[-2]) and re.fullmatch(r"[0-9a-f]{7,}\+?", row[-1]) for row in rows)
    assert path.stem.split("-")[0] in (*NAMES, "scale", "gpu")
    assert f"(benchmarks/{path.name})" in PAGE
    if header[0] == "claim":
        assert all(float(row[1]) == float(row[1]) for row in rows)
        for _, figure, least, most, holds, *_ in rows:
            kept = float(least or "-inf") <= float(figure) <= float(most or "inf")
            assert holds == ({True: "yes", False: "no"}[kept] if least or most else "")


def test_a_run_replaces_what_it_measures(tmp_path):
    table.printed.clear()
    write("speed", [Claim("a", 1.0, most=2.0), Claim("  of b", 3.0, most=2.0, note="x, y")], tmp_path)
    show("Seconds (of two): medians", ["kind", "s"], [["one", "0.10"]])
    write("speed", [Claim("a", 1.5, most=2.0)], tmp_path)
    with (tmp_path / "speed.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert [row[:6] for row in rows] == [
        HEADER,
        ["a", "1.5", "", "2", "yes", ""],
        ["a, of b", "3", "", "2", "no", "x, y"],
    ]
    assert (tmp_path / "speed-seconds.csv").read_text().startswith("kind,s,date,commit\none,0.10,20")
    assert table.printed == []
