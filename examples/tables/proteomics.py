"""
Proteomics: values missing because they are low
===============================================

A targeted panel of 24 proteins has lost a third of its values below a detection
limit of each protein: they are missing not at random. This page imputes them,
estimates fold changes, and shows what happens where detection fades out gradually
instead of at a limit.

.. image:: images/sphx_glr_proteomics_001.png
   :alt: Imputed against hidden values, fold changes, errors of two kinds of limits
"""

# %%
# The table
# ---------
#
# The table is simulated, so that the truth is known: log2 intensities of 24
# proteins in 240 samples, half of them cases. Four pathways drive the proteins;
# eight proteins are higher by 0.8 in cases. The software reports NaN for what it
# did not detect.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

import unrelu
from unrelu.errors import AssumptionWarning

rng = np.random.default_rng(0)
n, d = 240, 24
names = [f"P{j:02}" for j in range(1, d + 1)]
case = np.repeat([0, 1], n // 2)
y = 22.0 + rng.normal(0.0, 1.5, d) + np.outer(case, 0.8 * (np.arange(d) < 8))
y += 0.8 * rng.standard_normal((n, 4)) @ rng.standard_normal((4, d))
y += 0.7 * rng.standard_normal((n, d))
limit = np.array([np.quantile(y[:, j], 0.1 + 0.1 * (j % 6)) for j in range(d)])
table = pd.DataFrame(np.where(y < limit, np.nan, y), columns=names)
print(table.iloc[:4, :6].round(2))
print(f"{table.isna().to_numpy().mean():.0%} missing")

# %%
# For a file of your own, samples in rows and proteins in columns:
#
# .. code-block:: python
#
#     table = np.log2(pd.read_csv("yours.csv", index_col="sample"))
#
# From missing to below the limit
# -------------------------------
#
# NaN means "missing at random" to every estimator here. These values are not: they
# are below the limit of their protein. The smallest detected value is the usual
# estimate of that limit. Two lines put it into the missing cells and say that it is
# a floor. The group of a sample goes into the table as well, so that imputation
# does not blur the difference between groups.

low = table.min()
floored = table.fillna(low).assign(case=case)
floor = {**low, "case": None}

# %%
# Imputation
# ----------
#
# Beside the imputer stand two common ways: half of the smallest value, which is 1
# less in log2, and a regression that takes values as missing at random. The fit
# warns that "case" has two values; that does not matter for a column that is always
# seen.


def three_ways(table, floored, floor):
    """The imputer, and the table filled in three ways."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        imputer = unrelu.FloorImputer(floor=floor, margins="normal").fit(floored)
        at_random = IterativeImputer(random_state=0).fit_transform(table)
    for each in said:
        if issubclass(each.category, AssumptionWarning):
            print("warning of the imputer:", ", ".join(each.message.kinds))
    return imputer, {
        "unrelu": imputer.transform(floored)[:, :d],
        "half-minimum": table.fillna(table.min() - 1.0).to_numpy(),
        "missing at random": at_random,
    }


def report(table, floored, imputer, filled):
    """Errors of the missing cells, in log2 units."""
    lost = table.isna().to_numpy()
    ends = [imputer.quantile(floored, level)[:, :d] for level in (0.05, 0.95)]
    inside = ((y >= ends[0]) & (y <= ends[1]))[lost].mean()
    print(f"the imputer's 90 % intervals hold {inside:.0%} of the missing values")
    errors = {
        name: np.sqrt(np.mean((x - y)[lost] ** 2)) for name, x in filled.items()
    }
    for name, error in errors.items():
        print(f"{name:18} off by {error:.2f}")
    return errors


imputer, filled = three_ways(table, floored, floor)
at_a_limit = report(table, floored, imputer, filled)

# %%
# Fold changes
# ------------
#
# The difference of means between cases and controls, in log2 units. Twenty
# completed tables, each drawn with parameters of its own, go through the same test,
# and Rubin's rules pool the results (Rubin 1987; in proteomics, Chion and others
# 2022).


def fold_change(x):
    """Cases less controls, and the variance of that difference."""
    groups = [x[..., case == each, :] for each in (1, 0)]
    means, variances = zip(
        *((g.mean(-2), g.var(-2, ddof=1) / 120) for g in groups), strict=True
    )
    return means[0] - means[1], variances[0] + variances[1]


changes, within = fold_change(imputer.draw(floored, 20)[:, :, :d])
between = (1 + 1 / 20) * changes.var(axis=0, ddof=1)
t = stats.t.ppf(0.975, 19 * (1 + within.mean(axis=0) / between) ** 2)
pooled, width = changes.mean(axis=0), t * np.sqrt(within.mean(axis=0) + between)
whole, _ = fold_change(y)
estimates = {"unrelu, 20 draws": pooled}
for name in ("half-minimum", "missing at random"):
    estimates[name] = fold_change(filled[name])[0]
estimates["detected values alone"] = np.diff(table.groupby(case).mean(), axis=0)[0]
for name, change in estimates.items():
    shrunk = np.polyfit(whole, change, 1)[0]
    error = np.sqrt(np.mean((change - whole) ** 2))
    print(f"{name:22} off by {error:.3f} from the whole table, slope {shrunk:.2f}")

# %%
# Gradual detection
# -----------------
#
# Detection in label-free mass spectrometry has no sharp limit. The probability to
# be detected rises with intensity along a logistic curve, which is incompatible
# with simple censoring (Li and Smyth 2023). The same samples, with such a curve in
# place of the limits:

chance = 1.0 / (1.0 + np.exp(-(y - limit) / 0.5))
faded = pd.DataFrame(
    np.where(rng.random(y.shape) < chance, y, np.nan), columns=names
)
rows = faded.fillna(faded.min()).assign(case=case)
imputer_faded, filled_faded = three_ways(faded, rows, {**faded.min(), "case": None})
gradual = report(faded, rows, imputer_faded, filled_faded)

# %%
# Here the imputer is the worst of the three, and its intervals are wrong. It takes
# a value that was missed by chance for one below the smallest value seen. The fit
# says so: *excess-zeros* are cells at their limit that the rest of their row puts
# far above it, and *empty-gap* is the empty range below the other values. Do not
# use the result after such a warning.

figure, (one, two, three) = plt.subplots(
    1, 3, figsize=(11, 3.8), layout="constrained"
)
blue, orange, green = "#0b5cad", "#d55e00", "#009e73"
some = rng.permutation(np.flatnonzero(table.isna().to_numpy()))[:250]
one.plot(y.flat[some], filled["half-minimum"].flat[some], "x", ms=4, color=orange)
one.plot(y.flat[some], filled["unrelu"].flat[some], "o", ms=3, color=blue)
one.axline((20, 20), slope=1, color="0.6", lw=1)
one.set(xlabel="hidden value, log2 intensity", ylabel="imputed")
one.set_title("sharp limits", fontsize="medium")
two.errorbar(whole, pooled, width, fmt="o", ms=4, lw=1, color=blue, label="unrelu")
two.plot(whole, estimates["half-minimum"], "x", color=orange, label="half-minimum")
two.plot(
    whole, estimates["missing at random"], "^", ms=4, color=green, label="at random"
)
two.axline((0, 0), slope=1, color="0.6", lw=1)
two.set(
    xlabel="fold change of the whole table, log2", ylabel="estimate, 95 % interval"
)
two.set_ylim(-1.2, 3.0)
two.legend(frameon=False, fontsize="small", loc="upper left")
two.set_title("sharp limits", fontsize="medium")
for name, colour, marker in zip(filled, (blue, orange, green), "ox^", strict=True):
    ends = [at_a_limit[name], gradual[name]]
    three.plot([0, 1], ends, marker=marker, color=colour, label=name)
three.set_xticks([0, 1], ["sharp limits", "gradual detection"])
three.set(
    xlim=(-0.3, 1.3), ylim=(0, None), ylabel="error of missing cells, log2 units"
)
three.legend(frameon=False, fontsize="small")
plt.show()

# %%
# Where not to use it
# -------------------
#
# - Where detection is gradual, as in label-free mass spectrometry of peptides: use
#   limpa in R, which estimates the detection curve. On real label-free data the 90
#   % intervals of this package cover 73 %, see `imputation
#   <../../imputation.html#on-real-tables>`_.
# - Where a protein is missing because its spot, vial or run failed: leave NaN
#   there, and floor only the others.
# - With more proteins than samples the joint model knows little of each pair.
#   Impute a panel or a pathway, or give ``n_components``.
# - Where nearly all values of a protein are missing in one group, no imputation
#   replaces a test for presence.
#
# It fits where limits are sharp: immunoassays and targeted assays with a stated
# LOD, values cut off by a threshold of the software.
#
# What next: `limits, zeros and diagnostics <../../real_tables.html>`_, `multiple
# imputation <../../imputation.html#means-or-draws>`_, `what each warning means
# <../../troubleshooting.html>`_, `graphs of proteins <../../graphs.html>`_.
#
# Sources: M. Li, G. K. Smyth, Neither random nor censored: estimating
# intensity-dependent probabilities for missing values in label-free proteomics,
# Bioinformatics 39 (2023), btad200. M. Chion and others, Accounting for multiple
# imputation-induced variability for differential analysis in mass
# spectrometry-based label-free quantitative proteomics, PLoS Computational Biology
# 18 (2022), e1010420. D. B. Rubin, Multiple imputation for nonresponse in surveys,
# Wiley 1987.
