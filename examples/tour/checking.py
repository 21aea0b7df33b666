"""
Does the model fit?
===================

A fit always gives an answer. ``check`` says whether the table looks like tables of
the model, column by column and pair by pair, with p-values from simulated tables
that are fitted in the same way.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm

import unrelu

rng = np.random.default_rng(0)
y = rng.multivariate_normal(np.zeros(3), 0.5 + 0.5 * np.eye(3), size=800)
table = pd.DataFrame(
    np.maximum(y + 0.3, 0.0), columns=["first", "second", "skewed"]
)
table["skewed"] = np.maximum(np.exp(y[:, 2]), 0.6)

# %%
# Taken for normal, the third column is not what the model expects. The fit warns,
# and keeps what it found as diagnostics.

floor = {"skewed": 0.6}
plain = unrelu.RectifiedGaussianLearner(floor=floor, margins="normal").fit(table)
for diagnostic in plain.report_.diagnostics:
    print(diagnostic.kind, diagnostic.columns, diagnostic.remedy)
check = plain.check(table, n_simulations=99)
print(check.verdict)

# %%
# By default the fit learns how each column is distributed, and nothing is left to
# find.

learner = unrelu.RectifiedGaussianLearner(floor=floor).fit(table)
print([margin.kind for margin in learner.margins_])
print(learner.check(table, n_simulations=99).verdict)

# %%
# The same in a picture: the column against both models, above its floor.

x = np.linspace(0.6, 6.0, 300)
figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
seen = table["skewed"][table["skewed"] > 0.6]
weights = np.full(len(seen), 40 / 5.4 / len(table))
axis.hist(seen, bins=40, range=(0.6, 6.0), weights=weights, color="0.85")
normal = norm.pdf(x, plain.mean_[2], plain.std_[2])
axis.plot(x, normal, "--", color="#d55e00", label="taken for normal")
margin = learner.margins_[2]
density = norm.pdf(margin.to_latent(x), learner.mean_[2], learner.std_[2])
density *= np.exp(margin.log_slope(x))
axis.plot(x, density, color="#0b5cad", label="margin learned")
axis.set(xlabel="value of the third column", ylabel="density above the floor")
axis.legend(frameon=False)
plt.show()
