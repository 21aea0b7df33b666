"""
Does the model fit?
===================

A fit always gives an answer. ``check`` says whether the table looks like tables of the model, column by column and pair
by pair, with p-values from simulated tables that are fitted in the same way.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm

import unrelu

rng = np.random.default_rng(0)
y = rng.multivariate_normal(np.zeros(3), 0.5 + 0.5 * np.eye(3), size=800)
table = pd.DataFrame(np.maximum(y + 0.3, 0.0), columns=["normal", "also normal", "skewed"])
table["skewed"] = np.maximum(np.exp(y[:, 2]), 0.6)

# %%
# Taken for normal, the third column is not what the model expects, and the fit says so by itself.

floor = {"skewed": 0.6}
plain = unrelu.RectifiedGaussianLearner(floor=floor).fit(table)
for diagnostic in plain.report_.diagnostics:
    print(diagnostic.kind, diagnostic.columns, diagnostic.remedy)
check = plain.check(table, n_simulations=99)
print(check.verdict)

# %%
# With a margin for it, nothing is left to find.

with_margins = unrelu.RectifiedGaussianLearner(floor=floor, margins={"skewed": "auto"}).fit(table)
print([margin.kind for margin in with_margins.margins_])
print(with_margins.check(table, n_simulations=99).verdict)

# %%
# The same in a picture: the column against both models, above its floor.

x = np.linspace(0.6, 6.0, 300)
figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
seen = table["skewed"][table["skewed"] > 0.6]
axis.hist(seen, bins=40, range=(0.6, 6.0), weights=np.full(len(seen), 40 / 5.4 / len(table)), color="0.85")
axis.plot(x, norm.pdf(x, plain.mean_[2], plain.std_[2]), color="#d55e00", label="taken for normal")
curve = with_margins.margins_[2]
latent, slope = curve.to_latent(x), np.exp(curve.log_slope(x))
axis.plot(
    x, norm.pdf(latent, with_margins.mean_[2], with_margins.std_[2]) * slope, color="#0b5cad", label="margin learned"
)
axis.set(xlabel="skewed", ylabel="density above the floor")
axis.legend(frameon=False)
plt.show()
