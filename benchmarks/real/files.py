"""The two files of real data, where they are present: rows that a model flags in the table that it was learned from.

Casco: 219 x 22 concentrations; values below 1.0, the limit of the least sensitive years, are set to it; logarithms.
Before: scored by the learned correlations as they are. After: by the model's own shrunken ones.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import unrelu
from benchmarks.table import Claim
from unrelu.contracts import FloatArray
from unrelu.model import RectifiedGaussian

FOLDER = Path(os.environ.get("UNRELU_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
FALSE_ALARMS = 0.01


def present(name: str) -> pd.DataFrame | None:
    path = FOLDER / name
    if path.exists():
        return pd.read_csv(path)
    print(f"{name} is not in {FOLDER.name}/ (or $UNRELU_DATA): left out.", file=sys.stderr)
    return None


def flags(model: RectifiedGaussian, table: FloatArray) -> tuple[float, float]:
    """(share of rows flagged, largest residual in standard deviations)."""
    detector = unrelu.FloorOutlierDetector.from_model(model, false_alarm_rate=FALSE_ALARMS)
    residuals = detector.cell_residuals(table)
    # A floored cell is outlying only if the model expects more than the floor.
    sizes = np.where(table > 0.0, np.abs(residuals), np.maximum(-residuals, 0.0))
    return float(np.mean(detector.predict(table) == -1)), float(np.nanmax(sizes))


def casco() -> list[Claim]:
    data = present("casco_pah.csv")
    if data is None:
        return []
    table = np.log(np.maximum(data.iloc[:, 3:].to_numpy(float), 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(table)
        distribution = learner.distribution_
        before = flags(RectifiedGaussian(distribution.mean, distribution.covariance, distribution.floor), table)
        after = flags(distribution, table)
        robust = unrelu.FloorOutlierDetector(margins="normal", false_alarm_rate=FALSE_ALARMS).fit(table)
        kept = robust.row_weights_ > 0.5
        flagged = robust.predict(table) == -1
    diagnostics = ", ".join(diagnostic.kind for diagnostic in learner.report_.diagnostics) or "none"
    return [
        Claim("Casco: own rows flagged at 1 %, before", before[0], note=f"diagnostics: {diagnostics}"),
        Claim("  after", after[0], most=before[0] / 3.0, note=f"shrunken by {learner.report_.shrinkage.amount:.2f}"),
        Claim("  largest residual in sd, before", before[1]),
        Claim("  after", after[1], most=50.0),
        Claim(
            "  robust: rows flagged of those that it kept",
            float(np.mean(flagged[kept])),
            note=f"{kept.mean():.0%} kept",
        ),
    ]


def proteins() -> list[Claim]:
    data = present("proteomics_pxd000501_ibaq.csv")
    if data is None:
        return []
    numbers = data.select_dtypes("number").to_numpy(float)
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logs = np.log2(numbers)
        floor = np.quantile(logs[numbers > 0.0], 0.02)
        table = np.maximum(logs, floor)
        learner = unrelu.RectifiedGaussianLearner("one_pass", margins="normal", floor=floor).fit(table)
    diagnostics = ", ".join(diagnostic.kind for diagnostic in learner.report_.diagnostics) or "none"
    floored = learner.report_.share_floored
    return [Claim("Proteins, log2, zeros at the floor: share floored", floored, note=f"diagnostics: {diagnostics}")]


def run() -> list[Claim]:
    return [*casco(), *proteins()]
