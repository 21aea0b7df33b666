"""
Detection limits: what the correlations were before the limits
==============================================================

Concentrations are skewed, and laboratories report nothing below a limit. Here 600 samples of eight substances are
made up, so that the truth is known, and a third to two thirds of each column are lost below its limit.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import unrelu

rng = np.random.default_rng(0)
names = ["As", "Cd", "Co", "Cr", "Cu", "Ni", "Pb", "Zn"]
sources = rng.standard_normal((8, 3))
covariance = sources @ sources.T + 0.4 * np.eye(8)
logs = rng.multivariate_normal(rng.normal(0.0, 1.0, 8), covariance, size=600)
limits = np.exp([np.quantile(column, share) for column, share in zip(logs.T, np.linspace(0.35, 0.65, 8), strict=True)])
table = pd.DataFrame(np.maximum(np.exp(logs), limits), columns=names)

# %%
# Floors go by name. ``margins="log"`` says that logarithms are normal; ``"auto"`` would find that out.

floor = dict(zip(names, limits, strict=True))
learner = unrelu.RectifiedGaussianLearner(floor=floor, margins="log").fit(table)
for column in learner.distribution_.column_summary()[:3]:
    print(f"{column['column']}: {column['share_floored']:.0%} below the limit, median {column['median']:.3g}")

# %%
# What else is done with such a table: take it as it is, or put half the limit in place of what is hidden.

pairs = np.triu_indices(8, 1)
truth = (covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance))))[pairs]
half = np.log(np.where(table.to_numpy() <= limits, limits / 2, table))
found = {
    "the table as it is": np.corrcoef(np.log(table), rowvar=False)[pairs],
    "half the limit": np.corrcoef(half, rowvar=False)[pairs],
    "unrelu": learner.correlation_[pairs],
}
for name, guess in found.items():
    print(f"{name}: correlations off by {np.sqrt(np.mean((guess - truth) ** 2)):.3f}")

# %%
# Bars are two standard errors long on each side.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
for axis, (name, guess) in zip(axes, found.items(), strict=True):
    error = 2.0 * learner.correlation_stderr_[pairs] if name == "unrelu" else None
    axis.plot([-1, 1], [-1, 1], color="0.7", linewidth=1)
    axis.errorbar(truth, guess, error, fmt="o", markersize=4, linewidth=1, color="#0b5cad")
    axis.set(title=f"{name}: off by {np.sqrt(np.mean((guess - truth) ** 2)):.3f}", xlabel="true correlation")
axes[0].set_ylabel("found")
if sys.argv[1:]:  # the README's picture: python examples/tour/detection_limits.py docs/detection_limits.png
    figure.savefig(sys.argv[1], dpi=110)
plt.show()
