"""
Rain at stations: zeros, neighbours and gaps
============================================

Half of the days are dry at each of 24 stations. This page estimates how rain at the
stations depends on each other, draws the graph of direct neighbours, fills gaps in
the records, and draws synthetic days.

.. image:: images/sphx_glr_rain_at_stations_001.png
   :alt: Correlation against distance; graphs of stations with and without the floor
"""

# %%
# The table
# ---------
#
# The table is simulated, so that the truth is known. Rain is a monotone function of
# a latent normal variable, and a dry day is one on which that variable lies below a
# threshold; rain has long been modelled so (Glasbey and Nevison 1997). Here the
# latent variables of two stations depend on each other directly if no third station
# lies in the circle between them, each with a partial correlation of 0.28, and
# otherwise through their neighbours alone.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

import unrelu
from unrelu.errors import about

rng = np.random.default_rng(0)
days, d = 1500, 24
names = [f"S{j:02}" for j in range(1, d + 1)]
place = rng.uniform([0.0, 0.0], [120.0, 80.0], (d, 2))  # km
distance = np.linalg.norm(place[:, None] - place, axis=2)
middle = (place[:, None] + place) / 2
to_middle = np.linalg.norm(middle[:, :, None] - place, axis=3)
others_in_circle = (to_middle < distance[:, :, None] / 2 - 1e-9).sum(axis=2)
edges = (others_in_circle == 0) & (distance > 0)

precision = np.eye(d) - 0.97 * edges / np.linalg.eigvalsh(edges.astype(float))[-1]
covariance = np.linalg.inv(precision)
sd = np.sqrt(np.diag(covariance))
correlation = covariance / np.outer(sd, sd)
weather = rng.multivariate_normal(np.zeros(d), correlation, size=days)
threshold = stats.norm.ppf(rng.uniform(0.4, 0.65, d))
mm = np.round(4.0 * np.expm1(0.9 * np.maximum(weather - threshold, 0.0)), 1)
rain = pd.DataFrame(mm, columns=names)
print(rain.iloc[:5, :8])
print(f"{(mm == 0).mean():.0%} of the values are 0")

# %%
# For a file of your own, days in rows and stations in columns, empty cells for
# gaps:
#
# .. code-block:: python
#
#     rain = pd.read_csv("yours.csv", index_col="date")
#
# Correlation between stations
# ----------------------------
#
# Zeros need no option: 0 is the default floor. How rain is distributed above it is
# estimated from each column ("monotone"). The correlations are those of the latent
# variables.

graph = unrelu.RectifiedGaussianGraph().fit(rain)
print({margin.kind for margin in graph.margins_}, graph.report_.diagnostics)
pairs = np.triu_indices(d, 1)
found = {
    "unrelu": graph.correlation_,
    "np.corrcoef": np.corrcoef(rain, rowvar=False),
    "np.corrcoef of log(1 + mm)": np.corrcoef(np.log1p(rain), rowvar=False),
}
for name, matrix in found.items():
    error = np.sqrt(np.mean((matrix - correlation)[pairs] ** 2))
    print(f"{name:27} off by {error:.3f}")

# %%
# The graph of neighbours
# -----------------------
#
# Two stations are joined if they depend on each other given all others. The same
# search on the table as it is, without the floor, joins stations that only share
# neighbours.

naive = unrelu.RectifiedGaussianGraph(floor=None, margins="normal")
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", about("repeated-minimum", "skewed"))
    graphs = {
        "unrelu": graph.adjacency_,
        "without floor": naive.fit(rain).adjacency_,
        "without floor, log(1 + mm)": naive.fit(np.log1p(rain)).adjacency_,
    }
for name, adjacency in graphs.items():
    right, wrong = (adjacency & edges).sum() // 2, (adjacency & ~edges).sum() // 2
    print(f"{name:27} {right} of {edges.sum() // 2} edges, and {wrong} wrong ones")

# %%
# The strongest edges, with standard errors and the share of random halves of the
# days in which each is found again:

print(pd.DataFrame(graph.edges_).iloc[:4, :5].round(3).to_string(index=False))

# %%
# In the picture at the top, solid blue edges are right, orange ones are wrong.

figure, axes = plt.subplots(
    1, 3, figsize=(11, 3.9), layout="constrained", width_ratios=[1.1, 1, 1]
)
blue, orange = "#0b5cad", "#d55e00"
bins = np.arange(5.0, 120.0, 10.0)
nearby = np.abs(distance[pairs] - bins[:, None]) < 5.0
for name, matrix, look in (
    ("truth", correlation, {"color": "black", "ls": ":", "lw": 2}),
    ("unrelu", graph.correlation_, {"color": blue, "marker": "o"}),
    ("np.corrcoef", found["np.corrcoef"], {"color": orange, "marker": "x"}),
):
    means = [matrix[pairs][each].mean() for each in nearby]
    axes[0].plot(bins, means, label=name, **look)
axes[0].set(
    xlabel="distance, km", ylabel="correlation, mean within 5 km", ylim=(0, 0.7)
)
axes[0].legend(frameon=False)
for axis, name in zip(axes[1:], ("unrelu", "without floor"), strict=True):
    for i, j in np.argwhere(np.triu(graphs[name])):
        kind = {"color": blue} if edges[i, j] else {"color": orange, "ls": "--"}
        axis.plot(*place[[i, j]].T, lw=1.5, zorder=1, **kind)
    axis.plot(*place.T, "o", ms=6, mfc="white", color="0.2")
    wrong = (graphs[name] & ~edges).sum() // 2
    axis.set_title(f"{name}: {wrong} wrong edges", fontsize="medium")
    axis.set(xlabel="east, km", ylabel="north, km", aspect="equal")
plt.show()

# %%
# Gaps
# ----
#
# Three stations fail for 200 days each. ``fill="missing"`` fills gaps and leaves
# dry days dry; a gap gets the mean of what the station would have recorded. Beside
# it: the nearest station, and inverse squared distances.

gap = np.zeros((days, d), dtype=bool)
for station in (3, 9, 17):
    start = rng.integers(days - 200)
    gap[start : start + 200, station] = True
broken = rain.mask(gap)
imputer = unrelu.FloorImputer(fill="missing").fit(broken)
weights = np.where(distance > 0, 1.0 / np.maximum(distance, 1.0) ** 2, 0.0)
known = broken.notna().to_numpy()
blend = (broken.fillna(0.0).to_numpy() @ weights) / (known @ weights)
nearest = np.argsort(np.where(distance > 0, distance, np.inf), axis=1)[:, 0]
draws = imputer.draw(broken, 20, random_state=0)
filled = {
    "unrelu, mean": imputer.transform(broken)[gap],
    "unrelu, a draw": draws[0][gap],
    "inverse distance": blend[gap],
    "nearest station": mm[:, nearest][gap],
}
print(
    f"{'recorded':17} dry {(mm[gap] == 0).mean():4.0%}, sd {mm[gap].std():4.1f} mm"
)
for name, value in filled.items():
    error = np.sqrt(np.mean((value - mm[gap]) ** 2))
    print(
        f"{name:17} dry {(value == 0).mean():4.0%}, sd {value.std():4.1f} mm,",
        end=" ",
    )
    print(f"off by {error:.1f} mm")
low, high = (imputer.quantile(broken, level)[gap] for level in (0.05, 0.95))
inside = ((mm[gap] >= low.round(1)) & (mm[gap] <= high.round(1))).mean()
print(f"{inside:.0%} of the values lie in their 90 % intervals, zeros included")

# %%
# The mean is nearest to the truth day by day, and it is never dry: use it for
# totals. A draw is dry as often as the station was, and as variable: use draws for
# anything that counts wet days or asks for extremes, 20 of them to see how
# uncertain it is.
#
# Synthetic days
# --------------
#
# The model draws days with the zeros, amounts and dependence of the table, in steps
# of 0.1 mm.

synthetic = pd.DataFrame(graph.sample(days, random_state=0), columns=names)
both = [((x["S01"] == 0) & (x["S02"] == 0)).mean() for x in (rain, synthetic)]
print(synthetic.iloc[:3, :8])
print(f"S01 and S02 dry together: {both[0]:.0%} recorded, {both[1]:.0%} synthetic")

# %%
# Where not to use it
# -------------------
#
# - Days follow each other: a wet day makes the next one likelier to be wet. The
#   model takes rows as independent. Correlations stay right, their errors are too
#   small: give weeks or months as ``groups`` to a learner with
#   ``stderr="jackknife"``. Sequences need a model of time.
# - At places without a station there is no column. Kriging and other models of
#   distance fill maps; this model uses no distances.
# - Extremes at two stations together: the Gaussian copula makes them independent in
#   the limit (Sibuya 1960). For joint extremes use models of extremes.
# - Hourly rain, or snow that gauges miss, has zeros of other kinds.
#
# What next: `graphs <../../graphs.html>`_, `what is filled in below a floor
# <../../imputation.html#which-cells-and-what-below-the-floor>`_, `margins and
# synthetic tables <../../margins.html>`_, `errors for clustered rows
# <../../fitting.html#standard-errors>`_.
#
# Sources: C. A. Glasbey, I. M. Nevison, Rainfall modelling using a latent Gaussian
# variable, Lecture Notes in Statistics 122 (1997), 233-242. M. Sibuya, Bivariate
# extreme statistics I, Annals of the Institute of Statistical Mathematics 11
# (1960), 195-210.
