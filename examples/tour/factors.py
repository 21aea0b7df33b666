"""
Factors: the whole matrix from what is above the floor
======================================================

Three things drive forty columns, and half of the table is cut off at 0. What is
left determines the rest exactly.
"""

import matplotlib.pyplot as plt
import numpy as np

import unrelu

rng = np.random.default_rng(0)
T = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 40))
T += 0.3 * rng.standard_normal(40)
X = np.maximum(T, 0.0)
print(f"{np.mean(X == 0):.0%} of the table are zeros")

# %%
# The number of components is chosen by cells that are held out.

recovery = unrelu.ReLUMatrixRecovery("auto").fit(X)
hidden = recovery.hidden()
error = np.abs(hidden - T).max()
print(f"{recovery.n_components_} components; largest error {error:.0e}")

# %%
# Singular values of the table show no such number.

figure, axes = plt.subplots(
    1, 3, figsize=(11, 3.8), layout="constrained", width_ratios=[1, 1, 1.2]
)
names = {"the table": (X, "o-"), "recovered": (hidden, "s-")}
for axis, (name, (matrix, style)) in zip(axes, names.items(), strict=False):
    ends = {"vmin": -5, "vmax": 5, "cmap": "RdBu_r"}
    shown = axis.imshow(matrix[:60], aspect="auto", interpolation="nearest", **ends)
    axis.set(title=name, xlabel="column", ylabel="row")
    values = np.linalg.svd(matrix - matrix.mean(axis=0), compute_uv=False)[:10]
    axes[2].semilogy(range(1, 11), values, style, label=name, markersize=4)
figure.colorbar(shown, ax=axes[1], label="value")
axes[2].set(title="singular values", xlabel="number", ylim=(1e-1, 1e3))
axes[2].legend(frameon=False)
plt.show()
