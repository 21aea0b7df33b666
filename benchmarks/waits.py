"""Long fits of users, on tables like theirs: seconds, the longest time without progress, and the result."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import Claim
from unrelu import FloorOutlierDetector, RectifiedGaussianLearner, ReLUMatrixRecovery
from unrelu.contracts import Step

# Seconds that the same fits took on the same machine before they became faster (November 2026); the bound is a third.
BEFORE = {"spend": 8.4, "score": 8.7, "factors": 58.2}


def run() -> list[Claim]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these tables do not follow the model
        return [*spending(), *scoring(), *choosing()]


def spend(n: int, seed: int = 0) -> NDArray[np.float64]:
    """Logged spend in five kinds of goods: four groups of customers, heavy tails, rounded, an excess of zeros."""
    rng = np.random.default_rng(seed)
    group = rng.choice(4, n, p=[0.45, 0.3, 0.15, 0.1])
    mean = rng.normal(4.0, 1.5, (4, 5))
    spread = rng.standard_t(4, (n, 1)) * 0.7
    logged = mean[group] + spread + rng.standard_t(5, (n, 5)) * rng.uniform(0.5, 1.3, (4, 5))[group]
    bought = rng.random((n, 5)) >= rng.uniform(0.02, 0.6, (4, 5))[group]
    return np.log1p(np.where(bought, np.round(np.expm1(np.clip(logged, 0.0, 12.0)), 2), 0.0))


def proteins(n: int, runs: int, seed: int = 0, missing: float = 0.08) -> NDArray[np.float64]:
    """Logged intensities above a detection limit, in runs of seven conditions; a third of the proteins are in few."""
    rng = np.random.default_rng(seed)
    condition = np.arange(runs) * 7 // runs
    x = rng.normal(3.5, 2.5, (n, 1)) + 0.8 * rng.normal(size=(n, 7))[:, condition] + 0.3 * rng.normal(size=runs)
    x += 0.4 * rng.standard_t(4, (n, runs)) + rng.normal(0.0, 0.5, (n, 3)) @ rng.normal(0.0, 0.5, (3, runs))
    x[: n // 3] -= np.where(rng.random((n // 3, 7)) < 0.5, 6.0, 0.0)[:, condition]
    x = np.maximum(x, 0.0)
    x[rng.random(x.shape) < missing] = np.nan
    return x


class Silence:
    """A progress callback that measures the longest time without a call."""

    def __init__(self) -> None:
        self._last, self.longest = time.perf_counter(), 0.0

    def __call__(self, step: Step) -> None:  # noqa: ARG002 - when, not what
        now = time.perf_counter()
        self._last, self.longest = now, max(self.longest, now - self._last)


def time_of(name: str, work: Callable[[Silence], Any], most: float, found: Callable[[Any], str]) -> list[Claim]:
    silence, start = Silence(), time.perf_counter()
    done = work(silence)
    seconds = time.perf_counter() - start
    return [
        Claim(f"{name}, seconds", seconds, most=most, note=found(done)),
        Claim(f"{name}, longest time without progress, seconds", silence.longest, most=2.0),
    ]


def spending() -> list[Claim]:
    x = spend(20_000)
    RectifiedGaussianLearner("robust", margins="normal").fit(x[:500])  # compiled or loaded from the cache
    return time_of(
        "robust fit of 20,000 x 5 logged spend",
        lambda progress: RectifiedGaussianLearner("robust", margins="normal").with_progress(progress).fit(x),
        BEFORE["spend"] / 3.0,
        lambda model: " ".join(f"{group.kind} {group.share:.3f}" for group in model.report_.groups),
    )


def scoring() -> list[Claim]:
    x = proteins(3400, 49)
    FloorOutlierDetector(margins="normal").fit(x[:500])

    def work(progress: Silence) -> Any:
        return FloorOutlierDetector(margins="normal").with_progress(progress).fit(x).score_table(x, cells_of="flagged")

    return time_of(
        "score of 3,400 x 49 proteins",
        work,
        BEFORE["score"] / 3.0,
        lambda found: f"{found.flagged.mean():.3f} flagged",
    )


def choosing() -> list[Claim]:
    x = proteins(7000, 18, missing=0.0)
    ReLUMatrixRecovery("auto").fit(x[:200])
    return time_of(
        "factors of 7,000 x 18, their number chosen",
        lambda progress: ReLUMatrixRecovery("auto").with_progress(progress).fit(x),
        BEFORE["factors"] / 3.0,
        lambda fit: f"{fit.n_components_} components, residual {fit.report_.residual:.4f}",
    )
