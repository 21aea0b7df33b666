"""
Water quality: a laboratory table with "<" cells
================================================

Half of the cadmium values in this table are non-detects, below one of two detection
limits. This page summarizes the table, imputes the non-detects, and estimates a
regression slope and the share of samples above a quality standard, each with an
interval that counts the non-detects.

.. image:: images/sphx_glr_water_quality_001.png
   :alt: Cadmium against pH with three regression lines, and intervals of the slope
"""

# %%
# The table
# ---------
#
# The table is simulated, so that the truth is known: 300 samples of surface water,
# pH and four metals in µg/L. Logarithms are normal, and log cadmium falls by 0.9
# for each unit of pH. The laboratory bought a better instrument after 180 samples,
# so that most metals have two limits.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

import unrelu

rng = np.random.default_rng(0)
n, metals = 300, ["As", "Cd", "Pb", "Zn"]
pH = rng.normal(6.8, 0.5, n).round(2)
logs = np.log([2.0, 0.08, 0.6, 12.0]) + np.outer(pH - 6.8, [-0.2, -0.9, -0.8, -0.5])
logs += np.outer(rng.standard_normal(n), [0.5, 0.8, 0.8, 0.6])  # what metals share
logs += 0.7 * rng.standard_normal((n, 4))
truth = pd.DataFrame(np.exp(logs), columns=metals)

old, new = [2.0, 0.1, 1.0, 5.0], [0.5, 0.05, 0.2, 5.0]
limits = pd.DataFrame([old] * 180 + [new] * 120, columns=metals)
detected = truth >= limits
table = truth.map("{:.3g}".format).where(detected, limits.map("<{:g}".format))
table["pH"] = pH
print(table.iloc[177:183])

# %%
# A table of your own needs one line instead: every text cell such as ``<0.1`` is
# read as a non-detect below 0.1, and ``index_col`` keeps the sample's name out of
# the model:
#
# .. code-block:: python
#
#     table = pd.read_csv("yours.csv", index_col="sample")

# %%
# Summary
# -------
#
# The learner maximizes the Tobit likelihood: a detected value contributes its
# density, a non-detect the probability of lying below its own limit. Positive
# columns are lognormal by default. No diagnostic means that the table gives no sign
# against the model.

learner = unrelu.RectifiedGaussianLearner().fit(table)
columns = pd.DataFrame(learner.distribution_.column_summary()).set_index("column")
halved = truth.where(detected, limits / 2)
summary = pd.DataFrame(
    {
        "non-detects": 1.0 - detected.mean(),
        "median": columns["median"][metals],
        "mean": columns["mean"][metals],
        "mean by half-limits": halved.mean(),
        "true mean": truth.mean(),
    }
)
print(summary.round(3))
print("diagnostics:", learner.report_.diagnostics)

# %%
# Means are not where half-limits fail: one half happens to be about right for the
# mean of a lognormal column. Variances, correlations and slopes are where they fail
# (Helsel 2005).
#
# Imputation
# ----------
#
# The imputer fills every non-detect with its expected value, given its limit and
# the rest of its row. The quantiles say how uncertain that value is.

imputer = unrelu.FloorImputer().set_output(transform="pandas").fit(table)
filled = imputer.transform(table)
low, high = (imputer.quantile(table, level)[:, :4] for level in (0.05, 0.95))
print(filled.iloc[177:183].round(3))

hidden = ~detected.to_numpy()
inside = (truth.to_numpy() >= low) & (truth.to_numpy() <= high)
print(f"{inside[hidden].mean():.0%} of the non-detects lie in their 90 % intervals")
for name, guess in {"imputer": filled[metals], "half-limits": halved}.items():
    error = np.sqrt(np.mean((np.log(guess).to_numpy() - logs)[hidden] ** 2))
    print(f"{name}: non-detects off by a factor of {np.exp(error):.2f}")

# %%
# Multiple imputation of a slope
# ------------------------------
#
# How does log cadmium change with pH? A regression on the filled table would take
# imputed values for measured ones, and its interval would be too short. Multiple
# imputation takes 20 completed tables, each drawn with parameters of its own, and
# pools the 20 regressions by Rubin's rules (Rubin 1987): the variance is the mean
# of their variances plus the variance between them.


def pooled(estimates, variances):
    """Rubin's rules: the estimate, and both ends of its 95 % interval."""
    m, within = len(estimates), np.mean(variances)
    between = (1 + 1 / m) * np.var(estimates, ddof=1)
    t = stats.t.ppf([0.5, 0.025, 0.975], (m - 1) * (1 + within / between) ** 2)
    return np.mean(estimates) + t * np.sqrt(within + between)


def regressed(cadmium, rows=slice(None)):
    """Slope of log cadmium on pH, its variance, and the line's intercept."""
    line = stats.linregress(pH[rows], np.log(np.asarray(cadmium)[rows]))
    return line.slope, line.stderr**2, line.intercept


draws = imputer.draw(table, 20, random_state=0)[:, :, 1]  # cadmium
lines = np.array([regressed(draw) for draw in draws])
seen, lost = ~hidden[:, 1], hidden[:, 1]
others = {
    "half-limits": regressed(halved["Cd"]),
    "non-detects left out": regressed(truth["Cd"], seen),
    "without limits": regressed(truth["Cd"]),
}
intervals = {"multiple imputation": pooled(lines[:, 0], lines[:, 1])}
for name, (slope, variance, _) in others.items():
    intervals[name] = slope + np.array([0.0, -1.97, 1.97]) * np.sqrt(variance)
print(pd.DataFrame(intervals, index=["slope", "from", "to"]).T.round(2))

# %%
# Half-limits and leaving out pull the slope towards zero. "Without limits" is the
# regression on the values that the laboratory did not report. The picture at the
# top shows the samples with three lines, and the four intervals:

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
blue, orange = "#0b5cad", "#d55e00"
left.plot(pH[seen], truth["Cd"][seen], "o", ms=4, color="0.4", label="detected")
left.vlines(
    pH[lost], low[lost, 1], high[lost, 1], color="#56b4e9", lw=0.8, alpha=0.7
)
left.plot(
    pH[lost], filled["Cd"][lost], "_", ms=6, color=blue, label="imputed, 90 %"
)
ends = np.array([pH.min(), pH.max()])
for name, (slope, _, intercept), style in (
    ("multiple imputation", lines.mean(axis=0), {"color": blue}),
    ("half-limits", others["half-limits"], {"color": orange, "ls": "--"}),
    ("truth", (-0.9, 0.0, np.log(0.08) + 0.9 * 6.8), {"color": "black", "ls": ":"}),
):
    left.plot(ends, np.exp(intercept + slope * ends), lw=2, label=name, **style)
left.set(yscale="log", xlabel="pH", ylabel="cadmium, µg/L", ylim=(0.004, 5))
left.yaxis.set_major_formatter("{x:g}")
left.legend(frameon=False, ncols=2, loc="upper right", fontsize="small")
for place, (slope, least, most) in enumerate(intervals.values()):
    colour = [blue, orange, orange, "0.4"][place]
    right.plot([least, most], [place, place], lw=2, color=colour)
    right.plot(slope, place, "o", color=colour)
right.axvline(-0.9, color="black", ls=":")
right.set_yticks(range(4), intervals)
right.invert_yaxis()
right.set(xlabel="slope of log cadmium per unit of pH, 95 % intervals")
right.set_title("dotted: the truth", fontsize="medium")
plt.show()

# %%
# Exceedance of a standard
# ------------------------
#
# The European Union's annual average standard for cadmium in soft inland water is
# 0.08 µg/L (Directive 2008/105/EC, Annex I). The page takes it as a line for single
# samples. A sample with "<0.1" may lie above it, so that counting needs the model:
# every draw says which samples do.

standard = 0.08
above = (draws > standard).mean(axis=1)
share, least, most = pooled(above, above * (1.0 - above) / n)
print(
    f"multiple imputation: {share:.0%} of the samples ({least:.0%} to {most:.0%})"
)
for name, guess in {
    "detected": truth["Cd"][seen],
    "half-limits": halved["Cd"],
}.items():
    print(f"{name}: {(guess > standard).sum() / n:.0%}")
print(f"truth: {(truth['Cd'] > standard).mean():.0%}")

chance = pd.Series((draws > standard).mean(axis=0), name="probability")
print(table.join(chance)[lost].nlargest(3, "probability"))

# %%
# Where not to use it
# -------------------
#
# - For one substance and a regulatory limit of its mean (UCL95), use NADA2 or
#   EnvStats in R: the regulator knows their methods.
# - Samples of one stream over years, or of neighbouring streams, depend on each
#   other. The model takes rows as independent. Name the streams in ``fit(table,
#   groups=...)`` with ``stderr="jackknife"`` for errors that hold; trends and maps
#   need a model of time or space.
# - Below the limits nothing checks the lognormal distribution. With more than four
#   non-detects in five, the answer rests on it.
# - A regression on the draws is right only for columns that were in the imputer's
#   table.
#
# What next: `how tables are read <../../tables.html>`_, `how well imputation does
# <../../imputation.html>`_, `whether the model fits <../../check.html>`_, `how to
# choose <../../choosing.html>`_.
#
# Sources: D. R. Helsel, More than obvious: better methods for interpreting
# nondetect data, Environmental Science & Technology 39 (2005), 419A-423A. D. B.
# Rubin, Multiple imputation for nonresponse in surveys, Wiley 1987. Directive
# 2008/105/EC as amended by 2013/39/EU.
