"""One trial: a true model and rows are drawn, and every curve learns from the same rows.

The streams of a trial derive from (seed, panel, point, run) alone, so that a run that was stopped and started again
gives the same numbers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from unrelu.contracts import Assumptions, BoolArray, FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.engines.local import LocalEngine
from unrelu.errors import NotSemidefiniteError
from unrelu.evidence import SampleEvidence
from unrelu.methods import Method
from unrelu.metrics import parameter_errors
from unrelu.papers.experiments.design import Axis, Curve, Setting
from unrelu.papers.experiments.measures import SECONDS
from unrelu.samples import ArraySamples
from unrelu.synthetic import random_model

_OUTLIER_MEAN, _OUTLIER_SD = 5.0, 1.0  # Bulusu et al. 2022, section 5


@dataclass(frozen=True)
class Trial:
    """One run of one point; ``key`` is (panel, point, run), counted from 0."""

    axis: Axis
    setting: Setting
    key: tuple[int, int, int]

    @property
    def run(self) -> int:
        return self.key[2]


@dataclass(frozen=True, eq=False)
class Draw:
    """What a trial's curves learn from, and the truth they are measured against."""

    truth: RectifiedGaussian
    rows: FloatArray
    is_genuine: BoolArray
    method_seed: int


def draw(setting: Setting, entropy: tuple[int, ...]) -> Draw:
    """The true model and the rows of a setting.

    W has uniformly random orthonormal singular vectors, b is the positive part of a normal vector, and every row is
    replaced with probability 1 - p by independent N(5, 1) cells. A cell of an outlier below 0 (one in three million)
    becomes 0: the rows stay possible values of a ReLU.

    >>> drawn = draw(Setting(rows=1000, columns=3, genuine=0.9), (0, 0, 0, 0))
    >>> drawn.rows.shape, bool(0.85 < drawn.is_genuine.mean() < 0.95), bool((drawn.rows >= 0.0).all())
    ((1000, 3), True, True)
    """
    streams = np.random.SeedSequence(entropy).spawn(4)
    model_rng, rows_rng, outlier_rng, method_rng = (np.random.default_rng(stream) for stream in streams)
    truth = random_model(setting.columns, condition_number=setting.condition_number, random_state=model_rng)
    rows = truth.sample(setting.rows, rows_rng)
    is_genuine = outlier_rng.random(setting.rows) < setting.genuine
    replaced = (int(np.count_nonzero(~is_genuine)), setting.columns)
    rows[~is_genuine] = np.maximum(outlier_rng.normal(_OUTLIER_MEAN, _OUTLIER_SD, replaced), 0.0)
    return Draw(truth, rows, is_genuine, int(method_rng.integers(2**31)))


def seen_by(curve: Curve, drawn: Draw) -> FloatArray:
    """The rows that a curve learns from."""
    genuine = drawn.rows[drawn.is_genuine]
    if curve.oracle:
        return genuine
    return np.concatenate([genuine, drawn.rows[~drawn.is_genuine]]) if curve.in_block else drawn.rows


def measured(curve: Curve, drawn: Draw, repeats: int = 1) -> dict[str, float]:
    """The errors of one curve and its seconds, by the names of the measures.

    Seconds are of computing, which other work on the machine does not lengthen, in the fastest repeat.
    """
    rows = seen_by(curve, drawn)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        errors = _errors(curve.method, rows, drawn)
        seconds.append(time.process_time() - start)
    return {**errors, SECONDS.name: min(seconds)}


def _errors(method: Method, rows: FloatArray, drawn: Draw) -> dict[str, float]:
    """Of the model, or of the papers' matrix as it is where no model has it."""
    evidence = SampleEvidence(ArraySamples(rows, block_rows=len(rows)), LocalEngine())
    assumptions = Assumptions(floor=(0.0,) * rows.shape[1], nonnegative_bias=True)
    try:
        return parameter_errors(method.learn(evidence, assumptions, drawn.method_seed).distribution, drawn.truth)
    except NotSemidefiniteError as found:
        w_squared = float(np.trace(drawn.truth.covariance))
        bias = float(np.linalg.norm(np.asarray(found.bias) - drawn.truth.bias)) / w_squared**0.5
        weights = float(np.linalg.norm(np.asarray(found.covariance) - drawn.truth.covariance)) / w_squared
        return {"bias": bias, "weights": weights, "kl": float("inf"), "tv_bound": 1.0}
