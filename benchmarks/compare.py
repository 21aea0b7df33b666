"""``python -m benchmarks.compare BASE [NAME ...]``: every figure of another commit and of this tree, in one run.

Benchmarks run in turn, each for the base and then for the head, so that both meet the same machine. Every tree brings
its own benchmarks and sources; claims are matched by name. Exit 1 if a figure that held at the base misses at the head.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.__main__ import NAMES
from benchmarks.table import Claim

HERE = Path(__file__).resolve().parents[1]

# Runs inside either tree, where benchmarks.NAME.run() gives claims.
RUNNER = """
import json, sys
from importlib import import_module
claims = import_module(f"benchmarks.{sys.argv[1]}").run()
fields = ("name", "figure", "most", "least", "note")
rows = [{field: getattr(claim, field) for field in fields} for claim in claims]
open(sys.argv[2], "w").write(json.dumps(rows, default=float))
"""


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The tree of a commit, in a folder that is removed again."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "base"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=HERE, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=HERE, check=False)


def measure(tree: Path, name: str) -> dict[str, Claim] | None:
    """The claims of one benchmark of a tree, by name; an indented name goes on from the one above. None: it failed."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "claims.json"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)])}
        command = [sys.executable, "-c", RUNNER, name, str(answer)]
        done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=False)
        if done.returncode or not answer.exists():
            print(f"{name} failed in {tree.name} with exit code {done.returncode}", file=sys.stderr)
            return None
        rows = [Claim(**row) for row in json.loads(answer.read_text())]
    claims: dict[str, Claim] = {}
    above = ""
    for claim in rows:
        above = above if claim.name.startswith("  ") else claim.name
        claims[claim.name if above == claim.name else f"{above}: {claim.name.strip()}"] = claim
    return claims


def compare(base: dict[str, Claim], head: dict[str, Claim]) -> list[tuple[str, ...]]:
    """One row per claim: base, head, their ratio, and whether each holds."""
    words = {True: "ok", False: "MISSED", None: ""}
    rows = []
    for name in {**base, **head}:
        old, new = base.get(name), head.get(name)
        ratio = f"{new.figure / old.figure:.3f}" if old and new and old.figure else ""
        figures = ("" if claim is None else f"{claim.figure:.4g}" for claim in (old, new))
        holds = ("absent" if claim is None else words[claim.holds] for claim in (old, new))
        rows.append((name, *figures, ratio, *holds))
    return rows


def worse(base: dict[str, Claim], head: dict[str, Claim]) -> list[str]:
    """Figures that held at the base and miss at the head, or are gone from it."""
    return [name for name, claim in base.items() if claim.holds and (name not in head or head[name].holds is False)]


def render(rows: list[tuple[str, ...]]) -> str:
    table = [("claim", "base", "head", "head/base", "base", "head"), *rows]
    widths = [max(len(row[k]) for row in table) for k in range(6)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table)


def main(commit: str, names: list[str]) -> int:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"Unknown benchmark {', '.join(unknown)}. There are: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    lost: list[str] = []
    with checked_out(commit) as tree:
        for name in names or NAMES:
            base, head = measure(tree, name), measure(HERE, name)
            if head is None:
                lost.append(name)
            print(f"\n{name}\n{render(compare(base or {}, head or {}))}", flush=True)
            lost += worse(base or {}, head or {})
    print("\n" + (f"Held at {commit} and missed now: {'; '.join(lost)}" if lost else "Nothing that held is missed."))
    return 1 if lost else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"{__doc__}\nBASE is missing.")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
