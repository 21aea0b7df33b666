"""What a floor hid, where the truth is known: ``python -m benchmarks.real.hidden [PICTURE] [FOLDER]``.

It reads casco_pah.csv and proteomics_pxd000501_ibaq.csv from FOLDER or UNRELU_DATA, and does without a file that is not
there; digits come with scikit-learn.

* Sediments: samples of the years whose laboratory measured down to .1 ng/g, 22 hydrocarbons. A laboratory that stops at
  1.0 is played: logarithms, floored there.
* Proteins: log2 intensities of three samples, the lowest 50, 30 and 10 % hidden, as by instruments of different
  sensitivity. The truth is the mean of two technical replicates that the imputer does not see, so that even the hidden
  measurement itself has an error.
* Units: the rectified units of a small network that reads digits; behind their zeros are negative sums.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

import unrelu
from benchmarks.real.files import FOLDER
from unrelu.errors import UnreluWarning

CASCO, PROTEINS = "casco_pah.csv", "proteomics_pxd000501_ibaq.csv"
HIDDEN_SHARES, UNITS = (0.5, 0.3, 0.1), 24
OURS, ITSELF = "the imputer", "the hidden measurement itself"


@dataclass(frozen=True, eq=False)
class Recovered:
    """A table before it was floored, the truth of its cells, what was filled in, and what was learned."""

    name: str
    whole: np.ndarray
    truth: np.ndarray
    filled: dict[str, np.ndarray]
    imputer: unrelu.FloorImputer

    @property
    def hidden(self) -> np.ndarray:
        return np.asarray(self.whole <= self.imputer.floor_)

    @property
    def intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """Of 90 %, for every hidden cell."""
        x = np.maximum(self.whole, self.imputer.floor_)
        return self.imputer.quantile(x, 0.05)[self.hidden], self.imputer.quantile(x, 0.95)[self.hidden]

    def errors(self) -> dict[str, float]:
        """Root mean square errors of hidden cells, by what was filled in."""
        return {name: _root((x - self.truth)[self.hidden]) for name, x in self.filled.items()}

    def covered(self) -> float:
        """The share of hidden values within their intervals."""
        (low, high), truth = self.intervals, self.truth[self.hidden]
        return float(np.mean((truth >= low) & (truth <= high)))

    def columns(self) -> dict[str, tuple[float, ...]]:
        """Errors of means, of standard deviations and of correlations: root mean squares over columns and pairs."""
        learned, rows = self.imputer, ~self.hidden.any(axis=1)
        found = {"learned": (learned.mean_, learned.std_, learned.correlation_)}
        found |= {name: _summary(x) for name, x in self.filled.items() if name not in (OURS, ITSELF)}
        if rows.sum() > 2 * self.whole.shape[1]:
            found["rows with a hidden cell dropped"] = _summary(self.whole[rows])
        true = _summary(self.whole)
        return {name: tuple(_root(a - b) for a, b in zip(of, true, strict=True)) for name, of in found.items()}


def _root(error: np.ndarray) -> float:
    pairs = error[np.triu_indices(len(error), 1)] if error.ndim == 2 else error
    return float(np.sqrt(np.mean(pairs**2)))


def _summary(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return x.mean(axis=0), x.std(axis=0), np.corrcoef(x, rowvar=False)


def recovered(
    name: str, whole: np.ndarray, floor: np.ndarray, rivals: dict[str, np.ndarray], truth: np.ndarray | None = None
) -> Recovered:
    """Floor a table, learn from what is left, and fill it in; ``rivals`` put one value a column into hidden cells."""
    x, hidden = np.maximum(whole, floor), whole <= floor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # real columns are not quite normal
        # Logarithms and sums of inputs are nearly normal. The full likelihood, which small tables get by default, is
        # further off in the sediments (.56, one pass .43) and nearer in the proteins (1.15 and 1.18).
        imputer = unrelu.FloorImputer("one_pass", floor=floor, margins="normal").fit(x)
    u = (floor - imputer.mean_) / imputer.std_
    tail = imputer.mean_ - imputer.std_ * np.exp(norm.logpdf(u) - norm.logcdf(u))
    filled = {OURS: imputer.transform(x), "the column's mean below the floor": np.where(hidden, tail, x)}
    filled |= {rival: np.where(hidden, value, x) for rival, value in rivals.items()}
    if truth is not None:
        filled[ITSELF] = whole
    return Recovered(name, whole, whole if truth is None else truth, filled, imputer)


def sediments(path: Path) -> Recovered:
    table = pd.read_csv(path)
    table = table[table["Sample_Year"] <= 2002].iloc[:, 3:].to_numpy(float)
    logs = np.log(table[(table > 0.0).all(axis=1)])  # of the few rows with a zero nobody knows the truth
    floor = np.zeros(logs.shape[1])
    return recovered("sediments, log(ng/g)", logs, floor, {"limit/2": floor - np.log(2.0)})


def proteins(path: Path) -> Recovered:
    runs = pd.read_csv(path).filter(like="whole_")
    runs = np.log2(runs[(runs > 0.0).all(axis=1)])  # proteins detected in all nine runs
    shown, *others = (runs.filter(like=f"tech{k}").to_numpy(float) for k in (1, 2, 3))
    floor = np.array([np.quantile(run, share) for run, share in zip(shown.T, HIDDEN_SHARES, strict=True)])
    return recovered("proteins, log2 intensity", shown, floor, {"limit/2": floor - 1.0}, np.mean(others, axis=0))


def units(seed: int = 0) -> Recovered:
    digits = load_digits()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network = MLPClassifier((UNITS,), random_state=seed, max_iter=100).fit(digits.data / 16.0, digits.target)
    sums = digits.data / 16.0 @ network.coefs_[0] + network.intercepts_[0]
    sums = sums[:, (sums > 0.0).mean(axis=0) > 0.02]  # a unit that is never active tells nothing
    floor = np.zeros(sums.shape[1])
    return recovered("units of a network", sums, floor, {"the floor": floor})


def draw(tables: list[Recovered], path: str | None = None) -> None:
    """Recovered against hidden values, with intervals, of some cells."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(4.6 * len(tables), 4.8), layout="constrained")
    for axis, table in zip(np.ravel(figure.subplots(1, len(tables))), tables, strict=True):
        some = np.random.default_rng(0).permutation(int(table.hidden.sum()))[:250]
        cells = (table.truth[table.hidden], table.filled[OURS][table.hidden], *table.intervals)
        true, value, low, high = (each[some] for each in cells)
        axis.vlines(true, low, high, color="0.85", linewidth=1)
        axis.plot(true, value, ".", markersize=4)
        ends = [min(true.min(), value.min()), max(true.max(), value.max())]
        axis.plot(ends, ends, color="0.5", linewidth=1)
        errors = table.errors()
        rival = min((name for name in errors if name not in (OURS, ITSELF)), key=errors.__getitem__)
        axis.set_title(f"{table.name}: error {errors[OURS]:.2f}\n{rival}: {errors[rival]:.2f}", fontsize="medium")
        axis.set(xlabel="what the floor hid", ylabel="recovered, with 90 % intervals")
    if path:
        figure.savefig(path, dpi=110)


def main(arguments: list[str]) -> list[Recovered]:
    folder = Path(arguments[1]) if len(arguments) > 1 else FOLDER
    tables = []
    for name, of in ((CASCO, sediments), (PROTEINS, proteins)):
        if (folder / name).exists():
            tables.append(of(folder / name))
        else:
            print(f"{name} is not in the folder of real tables (UNRELU_DATA): nothing to show of it.")
    tables.append(units())
    for table in tables:
        hidden = table.hidden
        print(f"{table.name}: {hidden.sum():,} of {hidden.size:,} cells in {len(hidden):,} rows hidden;", end=" ")
        print(f"{table.covered():.0%} within their 90 % intervals")
        for name, error in table.errors().items():
            print(f"  hidden cells off by {error:.3f}  {name}")
        for name, (mean, sd, correlation) in table.columns().items():
            print(f"  means off by {mean:.3f}, sds by {sd:.3f}, correlations by {correlation:.3f}  {name}")
    draw(tables, *arguments[:1])
    if arguments:
        print(f"Picture: {arguments[0]}")
    return tables


if __name__ == "__main__":
    main(sys.argv[1:])
