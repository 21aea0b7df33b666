"""Tables that fit are left alone; lognormal columns are named."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
from scipy.special import ndtri

import unrelu
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

TABLES = 50  # of each size, 200 in all
SIZES = ((5, 300), (5, 5000), (20, 300), (20, 5000))
COLUMNS = 1000


def diagnostics(table: FloatArray) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(table).report_
    return [diagnostic.kind for diagnostic in report.diagnostics]


def clean_tables() -> list[Claim]:
    kinds: Counter[str] = Counter()
    warned = 0
    for d, n in SIZES:
        for seed in range(TABLES):
            found = diagnostics(unrelu.synthetic.random_model(d, random_state=seed).sample(n, random_state=1000 + seed))
            kinds.update(found)
            warned += bool(found)
    total = TABLES * len(SIZES)
    note = ", ".join(f"{kind} {count}" for kind, count in kinds.items()) or "none"
    return [Claim(f"share of {total} clean tables with a diagnostic", warned / total, most=0.01, note=note)]


def skewed_columns() -> list[Claim]:
    claims = []
    for n in (300, 1000, 5000):
        for floored in (0.2, 0.5, 0.8):
            z = np.random.default_rng(n).normal(size=(COLUMNS, n))
            level = ndtri(floored)
            clean = [bool(diagnostics(np.maximum(column - level, 0.0)[:, None])) for column in z]
            raw = np.exp(0.5 * z) - np.exp(0.5 * level)
            named = ["skewed" in diagnostics(np.maximum(column, 0.0)[:, None]) for column in raw]
            where = f"n={n:,}, {floored:.0%} floored"
            least = 0.95 if (n, floored) == (1000, 0.5) else None
            claims.append(Claim(f"lognormal (s=.5) columns named, {where}", float(np.mean(named)), least=least))
            claims.append(Claim(f"  normal columns with a diagnostic, {where}", float(np.mean(clean)), most=0.01))
    return claims


def run() -> list[Claim]:
    return [*clean_tables(), *skewed_columns()]
