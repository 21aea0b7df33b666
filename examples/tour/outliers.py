"""
Outlier rows: learn without them, and find them
===============================================

One row in five is of another kind, and no gap shows it. ``method="robust"`` gives
the fit that the inlier rows alone would have given; ``FloorOutlierDetector`` gives
every row a p-value.
"""

import matplotlib.pyplot as plt
import numpy as np

import unrelu

truth = unrelu.synthetic.random_model(5, condition_number=10, random_state=0)
X = truth.sample(2000, random_state=1)
X[:400] = np.maximum(np.random.default_rng(2).normal(2.0, 1.0, (400, 5)), 0.0)

# %%
# The plain fit warns: such a mixture is skewed. The robust one has nothing to
# complain of.

robust = unrelu.RectifiedGaussianLearner("robust").fit(X)
fits = {
    "all rows": unrelu.RectifiedGaussianLearner("one_pass").fit(X),
    "robust": robust,
    "inlier rows alone": unrelu.RectifiedGaussianLearner("one_pass").fit(X[400:]),
}
for name, learner in fits.items():
    error = np.abs(learner.correlation_ - truth.correlation).max()
    print(f"{name}: largest error of a correlation {error:.2f}")
for group in robust.report_.groups:
    print(group)

# %%
# Rows and cells that are outlying, by a model that is not bent by them.

detector = unrelu.FloorOutlierDetector().fit(X)
p_values = detector.p_values(X)
flagged = p_values < 0.01
print(f"flagged: {flagged[:400].mean():.0%} of the outliers,", end=" ")
print(f"{flagged[400:].mean():.1%} of the others")
print("cells of the first row, in standard deviations:")
print(detector.cell_residuals(X[:1]).round(1))

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].plot(X[400:, 0], X[400:, 1], ".", markersize=3, color="0.7", label="inlier")
axes[0].plot(X[:400, 0], X[:400, 1], "x", ms=3, color="#d55e00", label="outlier")
axes[0].set(title="two of five columns", xlabel="first", ylabel="second")
axes[0].legend(frameon=False, markerscale=3)
weights = [robust.row_weights_[400:], robust.row_weights_[:400]]
bins = np.linspace(0.0, 1.0, 41)
axes[1].hist(weights, bins=bins, stacked=True, color=["0.7", "#d55e00"])
axes[1].set(xlabel="weight of a row", ylabel="rows", yscale="log")
plt.show()
