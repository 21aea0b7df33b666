"""Margins of the two files of real data, and synthetic tables: ``python -m benchmarks.real.margins [FOLDER]``.

It reads casco_pah.csv (219 sediment samples, 22 hydrocarbons) and proteomics_pxd000501_ibaq.csv (7,363 proteins, 18
runs) from FOLDER or UNRELU_DATA. Both write 0 for what was not detected: the floor of a column is its smallest positive
value. Every margin learns from two thirds of the rows and is scored, by the mean log density in the table's units, on
the others.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import ks_2samp, spearmanr

import unrelu
from benchmarks.real.files import FOLDER
from unrelu.errors import UnreluWarning

LABELS = {"casco_pah.csv": ["Sample_ID", "Sample_Year", "Region"], "proteomics_pxd000501_ibaq.csv": ["Protein.IDs"]}
SHAPES = ("normal", "log", "boxcox", "monotone", "auto")
SYNTHETIC_ROWS = 20_000


@dataclass(frozen=True)
class Comparison:
    """Scores by margin, the model of margins="auto", and how far a synthetic table drawn from it is from the table."""

    scores: dict[str, float]
    model: unrelu.RectifiedGaussian
    margins: float
    zeros: float
    correlations: float


@dataclass(frozen=True)
class Table:
    """Values, floors and names."""

    values: np.ndarray
    floor: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Table:
        samples = unrelu.tables.open_samples([path], id=LABELS[path.name])
        values = np.concatenate([block.values for block in samples.blocks()])
        return cls(values, np.nanmin(np.where(values > 0.0, values, np.nan), axis=0), samples.feature_names)

    def rows(self, chosen: np.ndarray) -> unrelu.tables.ArraySamples:
        return unrelu.tables.ArraySamples(self.values[chosen], feature_names=self.names)

    def fitted(self, chosen: np.ndarray, margin: str) -> unrelu.RectifiedGaussianLearner:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreluWarning)  # of few rows, and of what margins="normal" does not fit
            return unrelu.RectifiedGaussianLearner(floor=self.floor, margins=margin).fit(self.rows(chosen))


def compare(path: Path, seed: int = 0) -> Comparison:
    """Everything about one table."""
    table = Table.read(path)
    held_out = np.random.default_rng(seed).random(len(table.values)) < 1 / 3
    scores = {margin: table.fitted(~held_out, margin).score(table.rows(held_out)) for margin in SHAPES}
    model = table.fitted(np.arange(len(held_out)), "auto").distribution_
    real, synthetic = np.maximum(table.values, table.floor), model.sample(SYNTHETIC_ROWS, random_state=seed)
    return Comparison(
        scores,
        model,
        float(np.mean([ks_2samp(a, b).statistic for a, b in zip(real.T, synthetic.T, strict=True)])),
        float(np.abs((real <= table.floor).mean(axis=0) - (synthetic <= table.floor).mean(axis=0)).max()),
        float(np.abs(spearmanr(real).statistic - spearmanr(synthetic).statistic).mean()),
    )


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0]) if arguments else FOLDER
    for name in LABELS:
        if not (folder / name).exists():
            print(f"{name} is not in the folder of real tables (UNRELU_DATA): nothing to show of it.")
            continue
        found = compare(folder / name)
        print(f"{name}: mean log density of held-out rows")
        print("  " + ", ".join(f"{margin} {score:.1f}" for margin, score in found.scores.items()))
        for column in found.model.column_summary()[:5]:
            print(
                f"  {column['column'][:24]:24s} {column['margin']:8s} floored {column['share_floored']:.0%},"
                f" median {column['median']:.3g} ({column['lower_quartile']:.3g} to {column['upper_quartile']:.3g})"
            )
        print(
            f"  a synthetic table: columns {found.margins:.3f} apart (Kolmogorov and Smirnov, on average), shares of"
            f" zeros by at most {found.zeros:.3f}, rank correlations by {found.correlations:.3f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
