"""
A generator of digits, from its pictures alone
==============================================

Weights, means and the inputs that each picture was drawn from.

``python examples/generator_of_digits.py [PICTURE]`` trains a small variational autoencoder on scikit-learn's digits, in
NumPy, and keeps its decoder, x = ReLU(A2 ReLU(A1 z + b1) + b2): 6 normal inputs z, 24 hidden units, 64 pixels. It draws
8,000 pictures, throws their z away, and hands the pictures to :func:`unrelu.peel`, which is told the number of units.
What it gives back is compared with the truth, up to what no picture can tell: the order and scale of the units, and an
affine map of z (a rotation, and how far the mean and covariance of 8,000 normal z are from 0 and I).

Units are off in 3 to 84 % of the pictures, and the pixels at the border are on in few or in none; the weights of pixels
that are on in too few pictures are not determined. The number of epochs was chosen with an eye on recovery: after 300
up to 11 of the 24 units are off in more than nine tenths of the pictures, and one of three seeds was not recovered.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits

import unrelu

INPUTS, UNITS, ROWS = 6, 24, 8000
EPOCHS, BATCH, RATE, PRICE = 800, 100, 2e-3, 0.15  # PRICE of a nat that the code tells of a picture
STEPS = 10  # of a walk
_ENCODER = 64


@dataclass(frozen=True, eq=False)
class Generator:
    """x = ReLU(A2 h + b2), h = ReLU(A1 z + b1)."""

    A1: np.ndarray
    b1: np.ndarray
    A2: np.ndarray
    b2: np.ndarray

    def units(self, z: np.ndarray) -> np.ndarray:
        return np.maximum(z @ self.A1.T + self.b1, 0.0)

    def pictures(self, z: np.ndarray) -> np.ndarray:
        return np.maximum(self.units(z) @ self.A2.T + self.b2, 0.0)


class Autoencoder:
    """A variational autoencoder: a picture's code is N(mean, diag(exp(log_variance))), and the generator reads it.

    The error of a black pixel is squared; a white one is at the floor, and only a sum above the floor is an error. So
    pixels below the floor learn, too.
    """

    def __init__(self, pixels: int, rng: np.random.Generator, inputs: int = INPUTS, units: int = UNITS) -> None:
        def layer(n_in: int, n_out: int) -> list[np.ndarray]:
            return [rng.standard_normal((n_in, n_out)) * np.sqrt(2.0 / n_in), np.zeros(n_out)]

        margins = [(pixels, _ENCODER), (_ENCODER, 2 * inputs), (inputs, units), (units, pixels)]
        self.weights = [each for margin in margins for each in layer(*margin)]
        self.weights[2][:, inputs:] *= 0.1  # codes begin with about the same, small variance
        self.weights[3][inputs:] = -1.0

    def generator(self, x: np.ndarray) -> tuple[Generator, np.ndarray]:
        """The decoder as a generator of normal inputs, and the inputs of ``x``.

        Codes of all pictures together are not quite N(0, I): their mean and covariance become part of A1 and b1.
        """
        (A1, b1, A2, b2), (_, codes, log_variance) = self.weights[4:], self.encode(x)
        covariance = np.cov(codes, rowvar=False) + np.diag(np.exp(log_variance).mean(axis=0))
        center, root = codes.mean(axis=0), np.linalg.cholesky(covariance)
        inputs = np.linalg.solve(root, (codes - center).T).T
        return Generator(A1.T @ root, b1 + center @ A1, A2.T, b2), inputs

    def encode(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hidden sums of the encoder, and the means and log variances of the codes."""
        E1, e1, E2, e2, *_ = self.weights
        sums = x @ E1 + e1
        mean, log_variance = np.split(np.maximum(sums, 0.0) @ E2 + e2, 2, axis=1)
        return sums, mean, np.clip(log_variance, -8.0, 4.0)

    def gradient(self, x: np.ndarray, noise: np.ndarray) -> list[np.ndarray]:
        """Of sum (error^2) + PRICE * (divergence of the code from N(0, I)), averaged over the rows."""
        (_, _, E2, _, D1, d1, D2, d2), (sums, mean, log_variance) = self.weights, self.encode(x)
        spread = np.exp(log_variance / 2.0)
        z = mean + spread * noise
        inner = z @ D1 + d1
        h, code = np.maximum(inner, 0.0), np.maximum(sums, 0.0)
        outer = h @ D2 + d2
        by_outer = 2.0 / len(x) * np.where((x == 0.0) & (outer < 0.0), 0.0, outer - x)
        by_inner = by_outer @ D2.T * (inner > 0.0)
        by_z = by_inner @ D1.T
        by_mean = by_z + PRICE / len(x) * mean
        by_log_variance = 0.5 * (by_z * noise * spread + PRICE / len(x) * (spread**2 - 1.0))
        by_code = np.hstack([by_mean, by_log_variance])
        by_sums = by_code @ E2.T * (sums > 0.0)
        pairs = ((x, by_sums), (code, by_code), (z, by_inner), (h, by_outer))
        return [each for values, by in pairs for each in (values.T @ by, by.sum(axis=0))]


def trained(x: np.ndarray, seed: int = 0, epochs: int = EPOCHS) -> Autoencoder:
    """By Adam, with a rate that falls to 0 over the second half."""
    rng = np.random.default_rng(seed)
    network = Autoencoder(x.shape[1], rng)
    first, second = ([np.zeros_like(each) for each in network.weights] for _ in range(2))
    batches = len(x) // BATCH
    steps = epochs * batches
    for step in range(steps):
        if step % batches == 0:
            order = rng.permutation(len(x))
        rows = order[step % batches * BATCH :][:BATCH]
        rate = RATE * min(1.0, 2.0 * (1.0 - step / steps))
        gradient = network.gradient(x[rows], rng.standard_normal((BATCH, len(network.weights[4]))))
        for weight, slope, m, v in zip(network.weights, gradient, first, second, strict=True):
            m += 0.1 * (slope - m)
            v += 0.001 * (slope**2 - v)
            mean, square = m / (1.0 - 0.9 ** (step + 1)), v / (1.0 - 0.999 ** (step + 1))
            weight -= rate * mean / (np.sqrt(square) + 1e-8)
    return network


# %%
# What was found, in the coordinates of the truth.


@dataclass(frozen=True, eq=False)
class Comparison:
    """What was found, and the truth in its coordinates.

    ``true`` has the units in the order and scale, and the inputs in the affine coordinates, of what was found: true.A2
    is to be compared with peeled.layers[0].weights, ``inputs`` with peeled.inputs. ``codes`` are what the encoder makes
    of the digits it was trained on, in these coordinates.
    """

    peeled: unrelu.Peeled
    true: Generator
    inputs: np.ndarray
    codes: np.ndarray

    def errors(self) -> dict[str, float]:
        """Largest errors relative to the largest value, of what is determined."""
        layer, inner = self.peeled.layers[0], self.peeled.inner
        again = self.peeled.transform(self.true.pictures(self.codes))
        pairs = {
            "A2": (layer.weights, self.true.A2),
            "b2": (layer.bias, self.true.b2),
            "A1": (inner.weights, self.true.A1),
            "b1": (inner.bias, self.true.b1),
            "inputs of the pictures": (self.peeled.inputs, self.inputs),
            "inputs of digits, from reconstructions": (again, self.codes),
        }
        return {name: float(np.nanmax(np.abs(a - b)) / np.abs(b).max()) for name, (a, b) in pairs.items()}

    def walk(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Pictures on the line between the inputs of two digits, by the generator and by the one found."""
        share = np.linspace(0.0, 1.0, STEPS)[:, np.newaxis]
        z = (1.0 - share) * self.codes[start] + share * self.codes[end]
        return self.true.pictures(z), self.peeled.inverse_transform(z)


def compared(generator: Generator, peeled: unrelu.Peeled, z: np.ndarray, codes: np.ndarray) -> Comparison:
    """``z`` are the inputs of the pictures that were peeled."""
    layer, z = peeled.layers[0], z[~peeled.outlier_rows]
    known, rows = layer.column_identifiable, np.isfinite(peeled.inputs).all(axis=1)
    lengths = np.linalg.norm(generator.A2[known], axis=0)
    order = linear_sum_assignment(-(layer.weights[known].T @ (generator.A2[known] / lengths)))[1]
    scale = lengths[order] / np.linalg.norm(layer.weights[known], axis=0)
    with_one = np.column_stack([peeled.inputs[rows], np.ones(int(rows.sum()))])
    *turn, shift = np.linalg.lstsq(with_one, z[rows])[0]  # z = inputs turn + shift
    A1, b1 = generator.A1[order] @ np.transpose(turn), generator.b1[order] + generator.A1[order] @ shift
    true = Generator(scale[:, np.newaxis] * A1, scale * b1, generator.A2[:, order] / scale, generator.b2)
    return Comparison(peeled, true, (z - shift) @ np.linalg.inv(turn), (codes - shift) @ np.linalg.inv(turn))


def draw(found: Comparison, digits: np.ndarray, labels: np.ndarray, path: str | None = None) -> None:
    """Weights, the errors that chose the number of inputs, and pictures: the truth on the left, found on the right."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(13, 8), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.2, 1.0])
    _draw_weights(found, top.subplots(1, 5, width_ratios=[2, 2, 1, 1, 2]))
    some = [int(np.flatnonzero(labels == label)[0]) for label in range(10)]
    reconstructions = found.true.pictures(found.codes[some])
    z, walks = np.random.default_rng(2).standard_normal((10, INPUTS)), found.walk(some[0], some[6])
    strips = (
        ("digits", digits[some]),
        (
            "drawn from the inputs found for them",
            found.peeled.inverse_transform(found.peeled.transform(reconstructions)),
        ),
        ("ten inputs, the generator", found.true.pictures(z)),
        ("the same inputs, the generator found", found.peeled.inverse_transform(z)),
        ("a walk from 0 to 6, the generator", walks[0]),
        ("the same walk, the generator found", walks[1]),
    )
    for axis, (name, pictures) in zip(np.ravel(bottom.subplots(3, 2)), strips, strict=True):
        strip = np.hstack([np.pad(picture.reshape(8, 8), 1) for picture in pictures])
        axis.imshow(strip, cmap="gray_r", vmin=0.0, vmax=1.0)
        axis.set_title(name, fontsize="medium")
        axis.set(xticks=[], yticks=[], frame_on=False)
    if path:
        figure.savefig(path, dpi=100)


def _draw_weights(found: Comparison, axes: np.ndarray) -> None:
    layer, inner = found.peeled.layers[0], found.peeled.inner
    for axis, weights, title in (
        (axes[0], np.where(layer.column_identifiable[:, np.newaxis], found.true.A2, np.nan), "A2 of the generator"),
        (axes[1], layer.weights, "A2 found (grey: not determined)"),
        (axes[2], found.true.A1, "A1"),
        (axes[3], inner.weights, "A1 found"),
    ):
        end = float(np.nanmax(np.abs(weights)))
        axis.set_facecolor("0.8")
        axis.imshow(weights, cmap="RdBu_r", vmin=-end, vmax=end, aspect="auto", interpolation="nearest")
        axis.set_title(title, fontsize="medium")
    tried, residuals = zip(*inner.choice, strict=True)
    axes[4].semilogy(tried, residuals, "o-")
    axes[4].set_title(f"inputs that explain the units: {inner.n_inputs}", fontsize="medium")
    axes[4].set(xlabel="inputs tried", ylabel="relative residual", xticks=tried)


# %%
# From digits to a generator, and from its pictures back to its weights.


def main(arguments: list[str]) -> Comparison | None:
    digits, labels = load_digits(return_X_y=True)
    digits /= digits.max()
    began = time.perf_counter()
    network = trained(digits)
    generator, codes = network.generator(digits)
    error = np.sqrt(((generator.pictures(codes) - digits) ** 2).sum() / (digits**2).sum())
    print(f"Trained in {time.perf_counter() - began:.0f} s: digits are rebuilt to {error:.0%} of their size.")
    z = np.random.default_rng(1).standard_normal((ROWS, INPUTS))
    pictures, off = generator.pictures(z), (generator.units(z) == 0.0).mean(axis=0)
    on = (pictures > 0.0).mean(axis=0)
    never, seldom = int((on == 0.0).sum()), int((on < 0.1).sum())
    print(f"{ROWS:,} pictures: units are off in {off.min():.0%} to {off.max():.0%} of them;", end=" ")
    print(f"{never} pixels are never on, {seldom - never} others in less than a tenth.")

    began = time.perf_counter()
    peeled = unrelu.peel(pictures, widths=[UNITS], n_inputs="auto")
    report = peeled.layers[0].report
    print(f"Peeled in {time.perf_counter() - began:.0f} s: {report.units_found} of {UNITS} units.")
    if not report.converged:
        return None
    found = compared(generator, peeled, z, codes)
    known = int(peeled.layers[0].column_identifiable.sum())
    inputs = int(np.isfinite(peeled.inputs).all(axis=1).sum())
    print(f"{peeled.inner.n_inputs} inputs, known of {inputs:,} pictures; weights of {known} pixels; largest errors:")
    for name, error in found.errors().items():
        print(f"  {error:.0e}  {name}")
    fresh = generator.pictures(np.random.default_rng(3).standard_normal((ROWS, INPUTS)))
    error = peeled.relative_error(fresh)
    print(f"Fresh pictures of the generator, rebuilt by the one found: relative error {error:.0e}.")
    draw(found, digits, labels, *arguments[:1])
    if arguments:
        print(f"Picture: {arguments[0]}")
    return found


# %%
# The figures as printed, and the picture, which a file's name on the command line keeps:

if __name__ == "__main__":
    main(sys.argv[1:])
