"""One row per claim: what was measured, what it must be, whether it is."""

from __future__ import annotations

from dataclasses import dataclass


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


def render(claims: list[Claim]) -> str:
    """The table as text, which is Markdown as well: notes are long, and a page wraps them."""
    rows = [("claim", "measured", "must be", "", ""), ("---",) * 5]
    for claim in claims:
        verdict = {True: "ok", False: "MISSED", None: ""}[claim.holds]
        name = f"– {claim.name.strip()}" if claim.name.startswith(" ") else claim.name
        row = (name, f"{claim.figure:.4g}", claim.bound, verdict, claim.note)
        rows.append(tuple(cell.replace("|", r"\|") for cell in row))
    widths = [*(max(len(row[k]) for row in rows) for k in range(4)), 0]
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows
    )
