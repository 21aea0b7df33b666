"""
What the floor hides: means for cells, draws for statistics
===========================================================

A cell at its floor was below it; the rest of its row says how far. :class:`unrelu.FloorImputer` fills it in by its
mean, by a quantile, or by draws.
"""

import matplotlib.pyplot as plt
import numpy as np

import unrelu

model = unrelu.RectifiedGaussian([0.0, 0.6, 1.2, 1.8], 0.75 + 0.25 * np.eye(4), floor=-np.inf)
truth = model.sample(1500, random_state=0)
X = np.maximum(truth, 0.0)
hidden = X == 0.0
print(f"{hidden.mean():.0%} of the cells are hidden")

# %%
imputer = unrelu.FloorImputer(floor=0.0).fit(X)
filled = imputer.transform(X)
low, high = imputer.quantile(X, 0.05), imputer.quantile(X, 0.95)
print(f"error of hidden cells {np.sqrt(np.mean((filled - truth)[hidden] ** 2)):.2f},", end=" ")
print(f"at the column's own mean below its floor {truth[hidden].std():.2f}")
print(f"{np.mean((truth >= low) & (truth <= high), where=hidden):.0%} of the hidden values in their 90 % intervals")

# %%
# A table of means has too little spread and too strong correlations. Whatever is computed from the completed table
# should be computed from draws, and averaged.

draws = imputer.draw(X, n_draws=10, random_state=0)
print("spread of the first column: true", truth[:, 0].std().round(3), "means", filled[:, 0].std().round(3), end=" ")
print("draws", draws[:, :, 0].std(axis=1).mean().round(3))

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
some = np.random.default_rng(1).choice(np.flatnonzero(hidden[:, 0]), 120, replace=False)
axes[0].vlines(truth[some, 0], low[some, 0], high[some, 0], color="0.8", linewidth=1)
axes[0].plot(truth[some, 0], filled[some, 0], "o", markersize=3, color="#0b5cad")
axes[0].plot([-2.5, 0.0], [-2.5, 0.0], color="0.5", linewidth=1)
axes[0].set(title="hidden cells, 90 % intervals", xlabel="what the floor hid", ylabel="filled in")
bins = np.linspace(-3.5, 3.5, 50)
axes[1].hist(truth[:, 0], bins=bins, color="0.85", label="truth")
axes[1].hist(filled[:, 0], bins=bins, histtype="step", color="#d55e00", label="means")
axes[1].hist(draws[0, :, 0], bins=bins, histtype="step", color="#0b5cad", label="one draw")
axes[1].set(title="the column, completed", xlabel="value")
axes[1].legend(frameon=False)
plt.show()
