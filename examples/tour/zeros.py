"""
Many zeros: rain, spend, and a synthetic table
==============================================

Half of the days are dry at each of five stations. A dry day is one on which the weather was below the
floor of rain, more or less far; how rain is skewed above it is learned with ``margins="auto"``.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import spearmanr

import unrelu

rng = np.random.default_rng(0)
place = np.linspace(0.0, 1.0, 5)
correlation = np.exp(-np.abs(place[:, None] - place[None, :]))
weather = rng.multivariate_normal(np.zeros(5), correlation, size=1500)
mm = np.round(4.0 * np.maximum(np.expm1(1.2 * weather), 0.0), 1)
rain = pd.DataFrame(mm, columns=[f"station {i}" for i in range(5)])
print(f"{(rain == 0).to_numpy().mean():.0%} of the days are dry")

# %%
# Zeros need no option: 0 is the default floor.

learner = unrelu.RectifiedGaussianLearner(margins="auto").fit(rain)
print([margin.kind for margin in learner.margins_])
pairs = np.triu_indices(5, 1)
for name, found in {"np.corrcoef": np.corrcoef(rain, rowvar=False), "unrelu": learner.correlation_}.items():
    print(f"{name}: correlations off by {np.sqrt(np.mean((found - correlation)[pairs] ** 2)):.3f}")

# %%
# The model draws tables with the same zeros, margins and dependence, rounded as the stations round.

synthetic = pd.DataFrame(learner.sample(1500, random_state=0), columns=rain.columns)
print("dry:", (rain == 0).mean().round(2).tolist(), (synthetic == 0).mean().round(2).tolist())
print(f"rank correlations {np.abs(spearmanr(rain).statistic - spearmanr(synthetic).statistic)[pairs].max():.3f} apart")

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharex=True, sharey=True, layout="constrained")
for axis, days, title in zip(axes, (rain, synthetic), ("as measured", "synthetic"), strict=True):
    axis.plot(days["station 0"] + 0.1, days["station 1"] + 0.1, ".", markersize=3, alpha=0.5, color="#0b5cad")
    axis.set(xscale="log", yscale="log", title=title, xlabel="station 0, mm + 0.1")
axes[0].set_ylabel("station 1, mm + 0.1")
plt.show()
