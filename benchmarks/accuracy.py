"""Root mean squared error of the correlations, over that of the exact pairwise likelihood on the same rows.

The reference maximizes the exact likelihood of every pair in r, with the same censored-likelihood marginals plugged
in. np.corrcoef on the floored rows is the common practice.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks.settings import SETTINGS, D, N, draw
from benchmarks.table import Claim
from tests.references.likelihood import PairLikelihood, pairwise_correlations
from unrelu import RectifiedGaussian, RectifiedGaussianLearner

REPETITIONS = 20
COMMON = 50  # joint rows from which a pair counts as common: rarer ones gain from the one-row prior


def run() -> list[Claim]:
    claims = []
    for name in SETTINGS:
        claims += correlations(name)
    return [*claims, rare_pairs()]


def correlations(name: str) -> list[Claim]:
    upper = np.triu_indices(D, 1)
    errors: dict[str, list[np.ndarray]] = {"unrelu": [], "pairs": [], "exact": [], "corrcoef": []}
    common = []
    seconds = {"unrelu": 0.0, "exact": 0.0}
    for repetition in range(REPETITIONS):
        truth, x = draw(name, repetition)
        start = time.perf_counter()
        learner = RectifiedGaussianLearner("one_pass", margins="normal").fit(x)
        middle = time.perf_counter()
        exact = pairwise_correlations(x, learner.mean_, learner.std_)
        end = time.perf_counter()
        if repetition > 0:  # the first one compiles
            seconds["unrelu"] += middle - start
            seconds["exact"] += end - middle
        estimates = {
            "unrelu": learner.correlation_,
            "pairs": learner._result().pairs.correlation,  # before they are made one semidefinite matrix
            "exact": exact,
            "corrcoef": np.corrcoef(x.T),
        }
        for method, estimate in estimates.items():
            errors[method].append((estimate - truth.correlation)[upper])
        common.append(((x > 0).T.astype(float) @ (x > 0))[upper] >= COMMON)

    def rmse(method: str, which: object = slice(None)) -> float:
        return float(np.sqrt(np.mean(np.square(np.concatenate(errors[method])[which]))))

    often = np.concatenate(common)
    return [
        Claim(
            f"correlation RMSE / exact pairwise likelihood, {name}",
            rmse("unrelu") / rmse("exact"),
            most=1.03,
            note=f"{rmse('unrelu'):.5f} against {rmse('exact'):.5f}; d={D}, n={N}, {REPETITIONS} repetitions;"
            f" {seconds['exact'] / seconds['unrelu']:.0f} x faster",
        ),
        Claim(
            f"  the pair estimates alone, pairs with {COMMON}+ joint rows",
            rmse("pairs", often) / rmse("exact", often),
            most=1.03,
            note=f"{rmse('pairs', often):.5f} against {rmse('exact', often):.5f}; {100 * often.mean():.0f} % of pairs",
        ),
        Claim("  np.corrcoef / ours", rmse("corrcoef") / rmse("unrelu"), note=f"np.corrcoef {rmse('corrcoef'):.4f}"),
    ]


def rare_pairs() -> Claim:
    """Pairs almost never above their floors together: the one-row prior is for these."""
    truth = RectifiedGaussian([-2.0, -2.0], np.eye(2))
    ours, exact = [], []
    for repetition in range(200):
        x = truth.sample(1000, random_state=repetition)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner = RectifiedGaussianLearner("one_pass", margins="normal").fit(x)
        ours.append(learner.correlation_[0, 1])
        pair = PairLikelihood(x[:, 0], x[:, 1], tuple(learner.mean_), tuple(learner.std_))
        exact.append(pair.maximize())
    rmse = [float(np.sqrt(np.mean(np.square(e)))) for e in (ours, exact)]
    return Claim(
        "correlation RMSE / exact pairwise likelihood, 98 % zeros, n=1000",
        rmse[0] / rmse[1],
        most=1.03,
        note=f"{rmse[0]:.3f} against {rmse[1]:.3f}: half a joint row expected, 200 repetitions",
    )
