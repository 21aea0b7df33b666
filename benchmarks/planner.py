"""Is the planner right? Fits at the planned number of rows, and the errors that it predicted.

For every model and error, ``unrelu.guarantees.rows_needed`` plans rows so that the error stays within a target with
probability .95; the figure is the .95-quantile of the errors of many fits at that number of rows, over the target.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.table import Claim
from unrelu import RectifiedGaussian, RectifiedGaussianLearner
from unrelu.metrics import parameter_errors
from unrelu.papers.guarantees import expected_errors, rows_needed
from unrelu.synthetic import random_model

REPETITIONS = 600  # the quantile then has an error of about 2 %
TARGET = 0.05
PROBABILITY = 0.95


def correlated_model() -> RectifiedGaussian:
    """Twenty columns with a common cause: correlations of both signs, .74 in size on average; means of both signs."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((20, 20)) / np.sqrt(20.0) + rng.standard_normal((20, 1))
    return RectifiedGaussian.from_weights(weights, np.clip(rng.standard_normal(20), -1.0, 1.0))


MODELS: dict[str, Callable[[], RectifiedGaussian]] = {
    "d=5, means >= 0": lambda: random_model(5, random_state=0),
    "d=5, means of both signs": lambda: random_model(5, condition_number=4.0, mean="signed", random_state=3),
    "d=20, correlated": correlated_model,
}


def run() -> list[Claim]:
    claims = []
    for name, make in MODELS.items():
        model = make()
        claims += [check(name, model, "bias"), check(name, model, "weights")]
    return [*claims, seconds()]


def check(name: str, model: RectifiedGaussian, quantity: str) -> Claim:
    target = {"bias": "bias_error", "weights": "weight_error"}[quantity]
    plan = rows_needed(model, probability=PROBABILITY, **{target: TARGET})
    errors = errors_of_fits(model, plan.rows, REPETITIONS, quantity)
    mean = float(np.mean(errors)) / expected_errors(model, plan.rows)[quantity]
    return Claim(
        f".95-quantile of the {'mean' if quantity == 'bias' else 'weight'} error / planned, {name}",
        float(np.quantile(errors, PROBABILITY)) / TARGET,
        most=1.1,
        least=0.9,
        note=f"n={plan.rows:,} for {TARGET:g}; mean error / expected {mean:.3f}; {REPETITIONS} fits",
    )


def errors_of_fits(model: RectifiedGaussian, n: int, repetitions: int, quantity: str) -> list[float]:
    errors = []
    for repetition in range(repetitions):
        learner = RectifiedGaussianLearner("one_pass", margins="normal").fit(model.sample(n, random_state=repetition))
        errors.append(parameter_errors(learner.distribution_, model)[quantity])
    return errors


def seconds() -> Claim:
    model = random_model(50, condition_number=4.0, random_state=0)
    rows_needed(model, bias_error=TARGET, weight_error=TARGET)  # compiles
    start = time.perf_counter()
    plan = rows_needed(model, bias_error=TARGET, weight_error=TARGET)
    elapsed = time.perf_counter() - start
    return Claim("seconds to plan, d=50", elapsed, most=10.0, note=f"n={plan.rows:,}: {elapsed:.1f} s")
