"""One row per claim: what was measured, what it must be, whether it is; as text, and as the files of docs/benchmarks.

``docs/benchmarks/NAME.csv`` has the claims of a benchmark, ``NAME-TITLE.csv`` a table that it prints besides. Every
row says when it was measured and in which commit; a run replaces the rows that it measures anew.
"""

from __future__ import annotations

import csv
import datetime
import math
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
HEADER = ["claim", "figure", "at least", "at most", "holds", "note"]
WHEN = ["date", "commit"]

# Tables that studies have printed since the claims before them were written: title, header and rows.
printed: list[tuple[str, list[str], list[list[str]]]] = []


@dataclass(frozen=True)
class Claim:
    """``least`` and ``most`` bound the figure; None where that side is open, both None where nothing is promised."""

    name: str
    figure: float
    most: float | None = None
    least: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool | None:
        if self.most is None and self.least is None:
            return None
        above = self.least is None or self.figure >= self.least
        return above and (self.most is None or self.figure <= self.most)

    @property
    def bound(self) -> str:
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        if self.most is not None:
            return f"at most {self.most:g}"
        return "" if self.least is None else f"at least {self.least:g}"


def named(claims: Sequence[Claim]) -> Iterator[tuple[str, Claim]]:
    """Claims by their whole names: an indented name goes on from the one above.

    >>> [name for name, _ in named([Claim("error of T", 1e-9), Claim("  seconds", 0.1)])]
    ['error of T', 'error of T, seconds']
    """
    above = ""
    for claim in claims:
        indented = claim.name.startswith("  ")
        above = above if indented else claim.name
        yield f"{above}, {claim.name.strip()}" if indented else claim.name, claim


def render(claims: list[Claim]) -> str:
    """The table as text, which is Markdown as well: notes are long, and a page wraps them."""
    rows = [("claim", "measured", "must be", "", ""), ("---",) * 5]
    for claim in claims:
        verdict = {True: "ok", False: "MISSED", None: ""}[claim.holds]
        rows.append((claim.name, f"{claim.figure:.4g}", claim.bound, verdict, claim.note))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows
    ]
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(line.rstrip() for line in lines)


def write(benchmark: str, claims: Sequence[Claim], folder: Path = FOLDER) -> None:
    """The claims of a benchmark, and the tables printed on the way, as csv files."""
    when = [datetime.date.today().isoformat(), commit()]
    rows = {
        name: [
            name,
            f"{claim.figure:.4g}",
            *_bounds(claim),
            {True: "yes", False: "no", None: ""}[claim.holds],
            claim.note,
        ]
        for name, claim in named(claims)
        if not math.isnan(claim.figure)  # not measured: no browser, no package
    }
    path = folder / f"{benchmark}.csv"
    old = {row[0]: row for row in _read(path)[1:]}
    new = {name: [*row, *when] for name, row in rows.items()}
    if new:
        _write(path, [[*HEADER, *WHEN], *{**old, **new}.values()])
    for title, header, lines in printed:
        _write(folder / f"{benchmark}-{slug(title)}.csv", [[*header, *WHEN], *([*line, *when] for line in lines)])
    printed.clear()


def slug(title: str) -> str:
    """What a title says before it explains itself, as a part of a file's name.

    >>> slug("Networks that widen: medians over draws, and the slowest")
    'networks-that-widen'
    """
    return re.sub(r"[^a-z0-9]+", "-", re.split(r"[:;(]", title)[0].lower()).strip("-")


def commit() -> str:
    """The commit of this tree, with a + where the tree has changed since; "" outside a repository."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=FOLDER.parent, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/docs/benchmarks")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def _bounds(claim: Claim) -> list[str]:
    return ["" if bound is None else f"{bound:g}" for bound in (claim.least, claim.most)]


def _read(path: Path) -> list[list[str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.reader(file))


def _write(path: Path, rows: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
