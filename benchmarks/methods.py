"""The papers' learners against the authors' figures, and every method side by side.

``python -m benchmarks.methods`` writes the comparison to docs/methods.md.
"""

from __future__ import annotations

import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.table import Claim
from unrelu import RectifiedGaussian, RectifiedGaussianLearner, methods, metrics, synthetic
from unrelu.contracts import Assumptions, Block, Evidence, Question, R, Samples
from unrelu.errors import UnreluError
from unrelu.papers.batches import count_exceedances
from unrelu.passes.engine import LocalEngine
from unrelu.tables import ArraySamples

AUTHORS = {  # d, n, condition number: mean and weight error of the authors' code, means of few runs
    (5, 200_000, 1.0): (0.0205, 0.0356),
    (5, 500_000, 25.0): (0.0088, 0.0144),
    (25, 500_000, 1.0): (0.0123, 0.0260),
}


def run() -> list[Claim]:
    claims = [claim for setting in AUTHORS for claim in against_authors(*setting)]
    return [*claims, *times_of_filters(), joint_counts()]


def seconds(task: object, repeat: int = 3) -> float:
    """The best of a few runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        task()  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return min(times)


def against_authors(d: int, n: int, kappa: float) -> list[Claim]:
    errors, times = [], []
    repetitions = 10 if d == 5 else 5
    for repetition in range(repetitions):
        truth = synthetic.random_model(d, condition_number=kappa, random_state=repetition)
        x = truth.sample(n, random_state=100 + repetition)
        learner = RectifiedGaussianLearner(method=methods.TruncatedSGD(), random_state=repetition)
        times.append(seconds(lambda learner=learner, x=x: learner.fit(x), repeat=1))
        error = metrics.parameter_errors(learner.distribution_, truth)
        errors.append((error["bias"], error["weights"]))
    mean = np.mean(errors, axis=0)
    where = f"d={d}, n={n:,}, kappa={kappa:g}"
    claims = [
        Claim(
            f"TruncatedSGD {name} error / authors', {where}",
            mean[k] / AUTHORS[d, n, kappa][k],
            most=1.3,
            note=f"{mean[k]:.4f} against {AUTHORS[d, n, kappa][k]:.4f}; mean of {repetitions}",
        )
        for k, name in enumerate(("mean", "weight"))
    ]
    if d == 25:
        claims.append(Claim(f"TruncatedSGD, s, {where}", float(np.median(times[1:])), most=2.0, note="authors: 203 s"))
    return claims


def times_of_filters() -> list[Claim]:
    x = synthetic.random_model(5, random_state=0).sample(20_000, random_state=1)
    claims = []
    for name, paper in (("median", 34.44), ("trimmed_mean", 60.78)):
        learner = RectifiedGaussianLearner(method=methods.FilteredGradient(filter=name))
        learner.fit(x)
        claims.append(
            Claim(
                f"FilteredGradient {name}, s, d=5, n=20,000",
                seconds(lambda learner=learner: learner.fit(x), repeat=5),
                most=0.05,
                note=f"Bulusu et al. 2022, Table 1: {paper} s",
            )
        )
    return claims


def joint_counts() -> Claim:
    x = np.random.default_rng(0).standard_normal((1_000_000, 200))
    question, block = partial(count_exceedances, np.zeros(200)), Block(x)
    question(Block(x[:2000]))

    def product() -> np.ndarray:
        indicators = (x > 0.0).astype(np.float32)
        return indicators.T @ indicators

    ours, theirs = seconds(lambda: question(block)), seconds(product)
    single = (x > 0.0).astype(np.float32)
    alone = seconds(lambda: single.T @ single)
    return Claim(
        "joint exceedance counts / float32 product, n=1,000,000, d=200",
        ours / theirs,
        most=1.0,
        note=f"{ours:.2f} s against {theirs:.2f} s from the table to the counts (product alone {alone:.2f} s)",
    )


# --- the comparison ---------------------------------------------------------------------------------------


class CountingEngine(LocalEngine):
    """Counts passes over the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def collect(self, samples: Samples, question: Question[R]) -> R:
        self.passes += 1
        return super().collect(samples, question)


class ProcessEngine:
    """Blocks answered in other processes, as on a cluster: questions and records travel by pickle."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def collect(self, samples: Samples, question: Question[R]) -> R:
        records = list(self._pool.map(question, list(samples.blocks())))
        merged = records[0]
        for record in records[1:]:
            merged = merged.merge(record)
        return merged


@dataclass
class Row:
    """One method's line of the table."""

    name: str
    method: methods.Method
    cells: list[str] = field(default_factory=list)


def compare() -> str:
    """The table of docs/methods.md."""
    rows = [
        Row('`OnePass()`, "one_pass"', methods.OnePass()),
        Row('`Robust()`, "robust"', methods.Robust()),
        Row('`FullLikelihood()`, "full_likelihood" (without the assumption b >= 0)', methods.FullLikelihood()),
        Row('`TruncatedSGD()`, "sgd" (Wu et al. 2019)', methods.TruncatedSGD()),
        Row('`MedianBias()`, "median" (Wu et al. 2019, footnote 4)', methods.MedianBias()),
        Row("`FilteredGradient(filter=None)` (Bulusu et al. 2022)", methods.FilteredGradient(filter=None)),
        Row('`FilteredGradient()`, "filtered_gradient" (Bulusu et al. 2022)', methods.FilteredGradient()),
        Row(
            '`FilteredGradient(filter="trimmed_mean")` (Bulusu et al. 2022)',
            methods.FilteredGradient(filter="trimmed_mean"),
        ),
        Row(
            "`FilteredGradient(filter=None, stochastic=True)`, one value a step (Bulusu et al. 2022)",
            methods.FilteredGradient(filter=None, stochastic=True),
        ),
        Row(
            "`FilteredGradient(stochastic=True)`, the median of ten (Bulusu et al. 2022)",
            methods.FilteredGradient(stochastic=True),
        ),
    ]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for row in rows:
            row.cells = [*accuracy(row.method), passes(row.method), mean_sign(row.method), cluster(row.method, pool)]
    head = ["method", "mean / weight error, clean", "with 5 % outliers N(5, 1)", "time, s", "passes", "mean sign"]
    lines = [f"| {' | '.join([*head, 'in other processes'])} |", "| --- " * 7 + "|"]
    return "\n".join([*lines, *(f"| {row.name} | {' | '.join(row.cells)} |" for row in rows)])


def learn(method: methods.Method, x: np.ndarray, engine: object = None) -> RectifiedGaussian:
    block_rows = len(x) if engine is None else len(x) // 4
    evidence = Evidence(ArraySamples(x, block_rows=block_rows), engine or LocalEngine())  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bounded = not isinstance(method, methods.FullLikelihood)  # which has no such bound
        return method.learn(evidence, Assumptions((0.0,) * x.shape[1], nonnegative_mean=bounded)).distribution


def accuracy(method: methods.Method) -> list[str]:
    errors: dict[str, list[tuple[float, float]]] = {"clean": [], "dirty": []}
    times = []
    for repetition in range(5):
        truth = synthetic.random_model(5, random_state=repetition)
        clean = truth.sample(20_000, random_state=repetition)
        dirty, _ = synthetic.contaminate(
            clean,
            0.05,
            lambda n, rng: np.maximum(rng.normal(5.0, 1.0, (n, 5)), 0.0),
            random_state=repetition,
            fixed=True,
        )
        for name, x in (("clean", clean), ("dirty", dirty)):
            start = time.perf_counter()
            error = metrics.parameter_errors(learn(method, x), truth)
            times.append(time.perf_counter() - start)
            errors[name].append((error["bias"], error["weights"]))
    cells = ["{:.3f} / {:.3f}".format(*np.mean(errors[name], axis=0)) for name in ("clean", "dirty")]
    return [*cells, f"{np.median(times):.3f}"]


def passes(method: methods.Method) -> str:
    engine = CountingEngine()
    learn(method, synthetic.random_model(3, random_state=0).sample(2000, random_state=0), engine)
    return str(engine.passes)


def mean_sign(method: methods.Method) -> str:
    truth = RectifiedGaussian([-1.0, 0.5], np.eye(2))
    try:
        learned = learn_signed(method, truth.sample(20_000, random_state=0))
    except UnreluError:
        return "non-negative (refuses others)"
    return "any" if abs(learned.mean[0] + 1.0) < 0.1 else "non-negative"


def learn_signed(method: methods.Method, x: np.ndarray) -> RectifiedGaussian:
    return method.learn(Evidence(ArraySamples(x), LocalEngine()), Assumptions((0.0,) * x.shape[1])).distribution


def cluster(method: methods.Method, pool: ProcessPoolExecutor) -> str:
    x = synthetic.random_model(3, random_state=0).sample(2000, random_state=0)
    here, there = learn(method, x), learn(method, x, ProcessEngine(pool))
    return "same model" if np.allclose(here.covariance, there.covariance, rtol=1e-10, atol=1e-12) else "NOT the same"


if __name__ == "__main__":
    TEXT = f"""# Methods side by side

`python -m benchmarks.methods` writes this page: d = 5, n = 20,000, orthonormal W, b = ReLU(N(0, I)), means of five
runs. The errors are |b^ - b|/|W|_F and |S^ - W W'|_F/|W|_F^2. For the last column other processes compute the sums of
four blocks, which are merged, as on a cluster. [How to choose](choosing.md) says which method is for what.

{compare()}

Only `OnePass`, `Robust` and `FullLikelihood` give standard errors and take row weights; only `OnePass` has partial_fit
and merge, it and `FullLikelihood` a jackknife; only `FullLikelihood` takes limits of single cells. Filters dampen
outlier rows, `Robust` removes their effect: [robust.md](robust.md). `RobustCells` ("robust_cells") does so for single
cells: [cells.md](cells.md).
By default the papers' methods differ from the papers in a few places, most of them with an option that gives the
paper's: [papers.md](papers.md#where-our-defaults-differ-from-the-papers).
"""
    Path("docs/methods.md").write_text(TEXT)
    print(TEXT)
