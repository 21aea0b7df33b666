"""Parts shared by benchmarks of several studies: a table of figures, a line for each claim, and a command line."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module

from threadpoolctl import threadpool_limits

from benchmarks.table import Claim, named, printed, write


def show(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table of text, and keep it for the files of docs/benchmarks."""
    printed.append((title, header, rows))
    widths = [max(len(row[j]) for row in [header, *rows]) for j in range(len(header))]
    print(f"\n{title}")
    for row in [header, *rows]:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_claims(*claims: Claim) -> list[Claim]:
    """Print a line for each claim that has a bound; an indented name goes on from the one above."""
    for name, claim in named(claims):
        if claim.holds is not None:
            outcome = "met" if claim.holds else f"MISSED ({claim.note})" if claim.note else "MISSED"
            print(f"  claim: {name} {claim.bound}; measured {claim.figure:.4g}, {outcome}", flush=True)
    return list(claims)


def run_each(
    name: str, studies: Mapping[str, Callable[[int], list[Claim]]], chosen: Sequence[str], most: int
) -> list[Claim]:
    """The chosen studies, all without any, on one thread of linear algebra; ``most`` draws of each problem."""
    claims: list[Claim] = []
    with threadpool_limits(1):
        for study in chosen or studies:
            start = time.perf_counter()
            claims += studies[study](most)
            print(f"[{name} {study}: {time.perf_counter() - start:.0f} s]", file=sys.stderr, flush=True)
    return claims


def run_modules(name: str, studies: Sequence[str], chosen: Sequence[str], most: int) -> list[Claim]:
    """Studies that are modules of ``benchmarks.<name>``, each imported when its turn comes."""

    def study(module: str) -> Callable[[int], list[Claim]]:
        def run(most: int) -> list[Claim]:
            found: list[Claim] = import_module(f"benchmarks.{name}.{module}").run(most)
            return found

        return run

    return run_each(name, {module: study(module) for module in studies}, chosen, most)


def command(
    name: str,
    studies: Iterable[str],
    run: Callable[[Sequence[str], int], list[Claim]],
    quick: int | None = None,
    summary: Callable[[list[Claim]], str] | None = None,
) -> int:
    """Run the studies named on the command line, or all; 1 where a claim is missed.

    ``quick``: so many draws are what --quick means. ``summary`` of all claims is printed at the end.
    """
    names = list(studies)
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(names)}; all without any")
    parser.add_argument("--seeds", type=int, default=10**9, help="at most so many draws of each problem")
    if quick is not None:
        few = f"the same as --seeds {quick}"
        parser.add_argument("--quick", action="store_const", dest="seeds", const=quick, help=few)
    parser.add_argument("--csv", action="store_true", help="write the figures to docs/benchmarks as well")
    given = parser.parse_args()
    unknown = [study for study in given.studies if study not in names]
    if unknown:
        parser.error(f"Unknown study {', '.join(unknown)}. There are: {', '.join(names)}.")
    claims = run(given.studies, given.seeds)
    if given.csv:
        write(name, claims)
    if summary is not None:
        print(f"\n{summary(claims)}")
    return 1 if any(claim.holds is False for claim in claims) else 0
