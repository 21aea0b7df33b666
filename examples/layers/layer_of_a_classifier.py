"""
A ReLU layer: the distribution behind its activations
=====================================================

A classifier reads handwritten digits, and four in ten activations of its hidden
layer are 0. This page learns the distribution of the sums before the rectifier from
the activations alone, and uses it to notice images that the network was not trained
for.

.. image:: images/sphx_glr_layer_of_a_classifier_001.png
   :alt: Means learned, sums behind zeros, scores of digits and of other images
"""

# %%
# The network
# -----------
#
# scikit-learn's digits are 1,797 images of 8 x 8 pixels (Alpaydin and Kaynak 1998).
# The network has one hidden layer of 24 rectified units. Its weights are used here
# only to tell the truth: the sums before the rectifier.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier

import unrelu
from unrelu.errors import AssumptionWarning

images, digits = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(images))
seen, held_out = order[:1300], order[1300:]
center = images[seen].mean(axis=0)

warnings.simplefilter("ignore", ConvergenceWarning)  # it reads well enough by then
network = MLPClassifier((24,), max_iter=60, random_state=0)
network.fit((images[seen] - center) / 16.0, digits[seen])


def sums(x):
    """What the hidden layer's units are before the rectifier."""
    return (x - center) / 16.0 @ network.coefs_[0] + network.intercepts_[0]


right = network.score((images[held_out] - center) / 16.0, digits[held_out])
hidden = np.maximum(sums(images), 0.0)
print(
    f"{right:.0%} of the held-out digits are read; {(hidden == 0).mean():.0%} zeros"
)

# %%
# For a layer of your own, save its activations, a row for each input:
#
# .. code-block:: python
#
#     hidden = np.load("activations.npy")
#
# A layer of a torch network needs no file: ``unrelu.learn_layer(model,
# "features.20", batches)`` learns it while the network runs.
#
# Learning the layer
# ------------------
#
# The imputer learns the model, x = max(0, y) with normal y, and can fill zeros in.
# Activations are sums of many inputs, so that ``margins="normal"`` is the natural
# choice.

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    layer = unrelu.FloorImputer("full_likelihood", margins="normal").fit(
        hidden[seen]
    )
for each in said:
    if issubclass(each.category, AssumptionWarning):
        print("diagnostics:", ", ".join(each.message.kinds))

true = sums(images[seen])
pairs = np.triu_indices(24, 1)
learned = {
    "unrelu": (layer.mean_, layer.std_, layer.correlation_),
    "activations as they are": (
        hidden[seen].mean(axis=0),
        hidden[seen].std(axis=0),
        np.corrcoef(hidden[seen], rowvar=False),
    ),
}
for name, (mean, sd, correlation) in learned.items():
    errors = (
        mean - true.mean(axis=0),
        sd - true.std(axis=0),
        (correlation - np.corrcoef(true, rowvar=False))[pairs],
    )
    off = ", ".join(f"{np.sqrt(np.mean(error**2)):.3f}" for error in errors)
    print(f"{name:24} means, sds and correlations off by {off}")

# %%
# The diagnostics are right: ten digits are ten groups, and no normal distribution.
# Means and correlations are good all the same, as they describe all digits
# together.
#
# Behind the zeros
# ----------------
#
# The sum behind a zero is what the other units say of it. The network knows that
# sum, the activations do not show it.

test = hidden[held_out]
zero = test == 0.0
filled, truth = layer.transform(test), sums(images[held_out])
low, high = layer.quantile(test, 0.05), layer.quantile(test, 0.95)
print(
    f"sums behind zeros off by {np.sqrt(np.mean((filled - truth)[zero] ** 2)):.2f},"
)
print(f"0 itself by {np.sqrt(np.mean(truth[zero] ** 2)):.2f}", end="; ")
inside = ((truth >= low) & (truth <= high))[zero].mean()
print(f"{inside:.0%} lie in their 90 % intervals")

# %%
# Images that the network does not know
# -------------------------------------
#
# A classifier gives every image a digit. Is an image like those it was trained on?
# The log density of its activations says so, in the spirit of Lee and others
# (2018), who use a normal distribution of activations for each class. Here one is
# learned, without labels, for all. The rival is the network's own confidence, its
# largest probability.

detector = unrelu.FloorOutlierDetector.from_model(layer)
rng = np.random.default_rng(1)
square = images[held_out].reshape(-1, 8, 8)
strangers = {
    "transposed digits": square.transpose(0, 2, 1).reshape(-1, 64),
    "shifted by two pixels": np.roll(square, 2, axis=2).reshape(-1, 64),
    "shuffled pixels": rng.permuted(images[held_out], axis=1),
    "noise": rng.uniform(0.0, 16.0, images[held_out].shape),
}


def scores(x):
    """The log density of the activations, and the confidence."""
    confidence = network.predict_proba((x - center) / 16.0).max(axis=1)
    return detector.score_samples(np.maximum(sums(x), 0.0)), confidence


own = scores(images[held_out])
others = {name: scores(x) for name, x in strangers.items()}
threshold = np.quantile(scores(images[seen])[0], 0.05)
label = np.repeat([1, 0], len(held_out))
print("area under the ROC curve:    log density  confidence")
for name, each in others.items():
    areas = [
        roc_auc_score(label, np.r_[a, b]) for a, b in zip(own, each, strict=True)
    ]
    print(f"{name:28} {areas[0]:11.3f} {areas[1]:11.3f}")
print(
    f"below the threshold: {np.mean(own[0] < threshold):.0%} of held-out digits,",
    end=" ",
)
print(
    f"{np.mean(others['transposed digits'][0] < threshold):.0%} of transposed ones"
)

# %%
# The network is confident about transposed digits, and their activations are far
# from anything it has seen. The threshold is taken from the scores of the training
# images, as the p-values of the detector trust the model, and the diagnostics said
# that it does not quite fit.

figure, (one, two, three) = plt.subplots(
    1, 3, figsize=(11, 3.8), layout="constrained"
)
blue, orange = "#0b5cad", "#d55e00"
one.axline((0, 0), slope=1, color="0.6", lw=1)
one.plot(
    true.mean(axis=0),
    hidden[seen].mean(axis=0),
    "x",
    color=orange,
    label="as they are",
)
one.plot(true.mean(axis=0), layer.mean_, "o", ms=4, color=blue, label="learned")
one.set(xlabel="mean of the sums of a unit", ylabel="estimate from activations")
one.legend(frameon=False)
some = rng.permutation(np.flatnonzero(zero))[:200]
two.vlines(
    truth.flat[some], low.flat[some], high.flat[some], color="#56b4e9", lw=0.8
)
two.plot(truth.flat[some], filled.flat[some], "o", ms=3, color=blue)
two.axline((-1, -1), slope=1, color="0.6", lw=1)
two.set(
    xlabel="sum behind a zero",
    ylabel="filled in, with 90 % interval",
    ylim=(-2.8, 0.2),
)
edges = np.linspace(-110.0, 0.0, 56)
for name, each, look in (
    ("held-out digits", own[0], {"color": blue}),
    (
        "transposed digits",
        others["transposed digits"][0],
        {"color": orange, "ls": "--"},
    ),
):
    three.hist(
        np.maximum(each, -110.0), bins=edges, histtype="step", label=name, **look
    )
three.axvline(threshold, color="0.4", ls=":", lw=1)
three.set(xlabel="log density of the activations", ylabel="images")
three.legend(frameon=False, loc="upper left")
plt.show()

# %%
# Where not to use it
# -------------------
#
# - A layer is normal before its rectifier only roughly. Where classes are far
#   apart, learn each class by itself, or a ``RectifiedGaussianMixture``.
# - Units that are always on, or always off, need no model: the former are seen, and
#   of the latter nothing is known.
# - Other activation functions (GELU, SiLU) do not cut values off. LeakyReLU hides
#   nothing.
# - Adversarial images are made to look ordinary to the network. This page does not
#   test them.
# - The full likelihood takes seconds for some tens of units. For thousands of
#   channels take ``method="one_pass"``, on a GPU if there is one.
#
# What next: `layers of torch networks, on a GPU <../../gpu.html>`_, `weights from
# outputs <../../peeling.html>`_, `outliers <../../outliers.html>`_, `the papers
# <../../papers.html>`_, `a generator <generator.html>`_.
#
# Sources: E. Alpaydin, C. Kaynak, Optical recognition of handwritten digits, UCI
# Machine Learning Repository 1998. K. Lee, K. Lee, H. Lee, J. Shin, A simple
# unified framework for detecting out-of-distribution samples and adversarial
# attacks, NeurIPS 2018. The model of a layer with normal inputs: S. Wu, A. G.
# Dimakis, S. Sanghavi, Learning distributions generated by one-layer ReLU networks,
# NeurIPS 2019.
