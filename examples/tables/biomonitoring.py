"""
Biomonitoring: metabolites below their limits of detection
==========================================================

Eight metabolites were measured in the urine of 250 workers, and a quarter to three
fifths of each column are non-detects. This page estimates correlations, upper
percentiles for a comparison with a limit value, and which samples of a new batch do
not belong.

.. image:: images/sphx_glr_biomonitoring_001.png
   :alt: Estimated against true correlations: LOD/sqrt(2), detects alone, unrelu
"""

# %%
# The table
# ---------
#
# The table is simulated, so that the truth is known. Logarithms are normal, as
# exposure data are commonly taken to be (Caudill et al. 2007); geometric standard
# deviations are 2 to 3. Survey files such as NHANES hold LOD/sqrt(2) in place of a
# non-detect and a column of codes, 1 for "below the limit" (CDC 2009). The table
# here has that form.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

import unrelu

rng = np.random.default_rng(0)
n, names = 250, [f"U{j}" for j in range(1, 9)]
sources = rng.standard_normal((8, 3))
covariance = 0.3 * sources @ sources.T + 0.2 * np.eye(8)
center = rng.normal(0.0, 1.0, 8)
sd = np.sqrt(np.diag(covariance))
correlation = covariance / np.outer(sd, sd)
logs = rng.multivariate_normal(center, covariance, size=n)
lod = np.exp(center + sd * stats.norm.ppf(np.linspace(0.3, 0.6, 8))).round(2)
below = np.exp(logs) < lod
delivered = pd.DataFrame(
    np.where(below, lod / np.sqrt(2), np.exp(logs)), columns=names
)
codes = pd.DataFrame(below.astype(int), columns=names)
shown = delivered.round(2).join(codes.add_suffix(" code"))
print(shown[["U1", "U1 code", "U2", "U2 code"]].head(4))

# %%
# Two lines undo the substitution. A coded cell becomes 0, which every estimator
# takes for a value below a positive limit, and the limits are given by name as
# ``floor``.

table = delivered.mask(codes == 1, 0.0)
floor = dict(zip(names, lod, strict=True))

# %%
# A file of your own that says ``<0.35`` for a non-detect needs one line, and no
# limits:
#
# .. code-block:: python
#
#     table = pd.read_csv("yours.csv", index_col="id")
#
# Correlations
# ------------
#
# The learner estimates the correlations of the logarithms before censoring, by
# maximum likelihood, with standard errors. Beside it: LOD/sqrt(2), and pairs of
# which both values were detected.

learner = unrelu.RectifiedGaussianLearner(floor=floor, margins="log").fit(table)
print("diagnostics:", learner.report_.diagnostics)
substituted = np.log(delivered)
pairs = np.triu_indices(8, 1)
found = {
    "LOD/sqrt(2)": np.corrcoef(substituted, rowvar=False)[pairs],
    "detects alone": substituted.mask(codes == 1).corr().to_numpy()[pairs],
    "unrelu": learner.correlation_[pairs],
}
true = correlation[pairs]
off = {name: np.sqrt(np.mean((guess - true) ** 2)) for name, guess in found.items()}
for name, error in off.items():
    print(f"{name:14} correlations off by {error:.3f}, root mean square")

# %%
# Substitution shrinks every correlation; pairs of detects lose most of it. Bars are
# two standard errors long on each side.

figure, axes = plt.subplots(
    1, 3, figsize=(10.5, 3.8), sharex=True, sharey=True, layout="constrained"
)
for axis, (name, guess) in zip(axes, found.items(), strict=True):
    axis.plot([-1, 1], [-1, 1], color="0.6", lw=1)
    error = 2.0 * learner.correlation_stderr_[pairs] if name == "unrelu" else None
    colour = "#0b5cad" if name == "unrelu" else "#d55e00"
    axis.errorbar(true, guess, error, fmt="o", ms=4, lw=1, color=colour)
    axis.set(title=f"{name}: off by {off[name]:.3f}", xlabel="true correlation")
axes[0].set_ylabel("estimate")
plt.show()

# %%
# An upper percentile
# -------------------
#
# EN 689 compares the upper limit, with 70 % confidence, of the 95th percentile with
# the occupational limit value (EN 689:2018). For a lognormal column the logarithm
# of that percentile is mean + 1.645 sd. The 20 completed tables of multiple
# imputation each give one, and Rubin's rules pool them (Rubin 1987).

z = stats.norm.ppf(0.95)


def percentile(logarithms):
    """The logarithm of the 95th percentile of each column, and its variance."""
    spread, rows = logarithms.std(axis=0, ddof=1), len(logarithms)
    return logarithms.mean(axis=0) + z * spread, spread**2 * (1 + z**2 / 2) / rows


imputer = unrelu.FloorImputer(floor=floor, margins="log").fit(table)
estimates = np.array([percentile(np.log(each)) for each in imputer.draw(table, 20)])
middle, within = estimates.mean(axis=0)
between = (1 + 1 / 20) * estimates[:, 0].var(axis=0, ddof=1)
t = stats.t.ppf(0.7, 19 * (1 + within / between) ** 2)
naive, variance = percentile(substituted.to_numpy())
upper = pd.DataFrame(
    {
        "LOD": lod,
        "non-detects": below.mean(axis=0),
        "95th percentile": np.exp(middle),
        "upper limit": np.exp(middle + t * np.sqrt(within + between)),
        "by LOD/sqrt(2)": np.exp(naive + stats.norm.ppf(0.7) * np.sqrt(variance)),
        "true percentile": np.exp(center + z * sd),
    },
    index=names,
)
print(upper.round(2).to_string())
for name in ("upper limit", "by LOD/sqrt(2)"):
    missed = (upper[name] < upper["true percentile"]).sum()
    print(f"{name}: {missed} of 8 below the true percentile, where 70 % leave 2.4")

# %%
# Samples that do not belong
# --------------------------
#
# A new batch of 40 samples arrives. In sample 5 a contaminated cup has made U3 ten
# times as high. The detector learns from the first table. It gives each row a
# p-value, and each cell its distance from what the rest of the row predicts, in
# standard deviations.

batch = np.exp(rng.multivariate_normal(center, covariance, size=40))
batch[5, 2] *= 10.0
batch = pd.DataFrame(np.where(batch < lod, 0.0, batch), columns=names)
detector = unrelu.FloorOutlierDetector(floor=floor, margins="log").fit(table)
p = detector.p_values(batch)
cells = pd.DataFrame(detector.cell_outlier_score(batch, signed=True), columns=names)
cells.insert(0, "p", p)
print(cells.nsmallest(3, "p").round(3).to_string())

# %%
# Of 40 samples that belong, the smallest p-value is about 0.02; ``predict`` flags
# those below 0.01. A p-value says how rare a row is, and the cells say where to
# look first. Neither says why.

# %%
# Where not to use it
# -------------------
#
# - For one substance and a handful of measurements use a tool made for them, such
#   as Expostats, which is Bayesian (Lavoué and others 2019).
# - Workers measured repeatedly are clusters of rows. Name them, ``fit(table,
#   groups=worker)`` with ``stderr="jackknife"``, or use a mixed model:
#   within-worker and between-worker variance are not separated here.
# - Creatinine or another adjustment belongs before the model, to values and limits
#   alike; the limits then differ by cell.
# - The upper percentile of a column that is not lognormal needs ``margins="auto"``
#   and a look at `check <../../check.html>`_.
#
# What next: `outlier rows <../../outliers.html>`_, `single bad cells
# <../../cells.html>`_, `limits that differ by cell <../../tables.html>`_, `how to
# choose <../../choosing.html>`_.
#
# Sources: S. P. Caudill and others, Percentile estimation using variable censored
# data, Chemosphere 68 (2007), 169-180. Centers for Disease Control and Prevention,
# Fourth national report on human exposure to environmental chemicals, 2009. EN
# 689:2018, Workplace exposure: strategy for testing compliance with occupational
# exposure limit values. J. Lavoué and others, Expostats: a Bayesian toolkit to aid
# the interpretation of occupational exposure measurements, Annals of Work Exposures
# and Health 63 (2019), 267-279. D. B. Rubin, Multiple imputation for nonresponse in
# surveys, Wiley 1987.
