"""
Peeling: weights and hidden units from outputs alone
====================================================

A two-layer network is asked nothing; rows of its outputs are all there is. A hidden unit that is off puts a row on a
facet of the cone that the weights span, and facets show.
"""

import matplotlib.pyplot as plt
import numpy as np

import unrelu

rng = np.random.default_rng(0)
A2, A1 = rng.standard_normal((60, 8)), rng.standard_normal((8, 8))
h = np.maximum(rng.standard_normal((3000, 8)) @ A1.T + 0.2, 0.0)
X = np.maximum(h @ A2.T + 0.5 * rng.standard_normal(60), 0.0)

# %%
# Units come back up to their order and their scale, which no output can tell.

peeled = unrelu.peel(X, widths=[8])
layer = peeled.layers[0]
known = layer.column_identifiable
true = A2[known] / np.linalg.norm(A2[known], axis=0)
found = layer.weights[known] / np.linalg.norm(layer.weights[known], axis=0)
order = np.abs(found.T @ true).argmax(axis=0)
print(f"{layer.report.units_found} units; weights off by {np.abs(found[:, order] - true).max():.0e}")

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 4), layout="constrained", width_ratios=[1, 1, 1.3])
for axis, weights, title in ((axes[0], true, "weights"), (axes[1], found[:, order], "weights found")):
    axis.imshow(weights, cmap="RdBu_r", vmin=-0.4, vmax=0.4, aspect="auto", interpolation="nearest")
    axis.set(title=title, xlabel="unit", ylabel="output")
units = peeled.hidden[:, order]
scale = h.max(axis=0) / units.max(axis=0)
axes[2].plot(h[::5].ravel(), (units * scale)[::5].ravel(), ".", markersize=2, color="#0b5cad")
axes[2].set(title="hidden units of rows", xlabel="true", ylabel="found")
plt.show()
