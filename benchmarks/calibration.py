"""Are standard errors right? Squared z-scores average 1, and 95 % intervals cover 95 %."""

from __future__ import annotations

import numpy as np

from benchmarks.settings import SETTINGS, D, draw
from benchmarks.table import Claim
from unrelu import RectifiedGaussianLearner

REPETITIONS = 200


def run() -> list[Claim]:
    claims = []
    for name in SETTINGS:
        scores = z_scores(name)
        for quantity, z in scores.items():
            claims.append(Claim(f"mean squared z, {quantity}, {name}", float(np.mean(z**2)), 1.1, 0.9))
            covered = 100.0 * float(np.mean(np.abs(z) < 1.959964))
            claims.append(Claim(f"coverage of 95 % intervals (%), {quantity}, {name}", covered, 97.0, 93.0))
    return claims


def z_scores(name: str) -> dict[str, np.ndarray]:
    """(estimate - truth)/standard error, over all repetitions."""
    upper = np.triu_indices(D, 1)
    z: dict[str, list[np.ndarray]] = {"mean": [], "standard deviation": [], "correlation": []}
    for repetition in range(REPETITIONS):
        truth, x = draw(name, repetition)
        learner = RectifiedGaussianLearner("one_pass", margins="normal").fit(x)
        z["mean"].append((learner.mean_ - truth.mean) / learner.mean_stderr_)
        z["standard deviation"].append((learner.std_ - truth.std) / learner.std_stderr_)
        z["correlation"].append((learner.correlation_ - truth.correlation)[upper] / learner.correlation_stderr_[upper])
    return {quantity: np.concatenate(scores) for quantity, scores in z.items()}
