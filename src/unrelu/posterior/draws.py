"""Completed tables: hidden cells drawn from their posterior, in the user's units; and models drawn from a fit's errors.

Proper imputations (Rubin 1987) are drawn from models that are drawn themselves. A fit gives every column a covariance
of its mean and scale, and every pair a standard error of its correlation. If all cells were seen, n rows would leave
errors, in units of the scales and with R^(1/2) the symmetric root of the correlations, of

    R^(1/2) g / sqrt(n)            for the means, g independent standard normals,
    R^(1/2) G R^(1/2) / sqrt(n)    for the covariances, G symmetric and normal, its diagonal twice as variable.

Hidden cells add to that. Correlations are drawn as those of R^(1/2) exp(D^(1/2) G D^(1/2) / sqrt(n)) R^(1/2), which is
definite wherever R is, and for two columns is a normal step of Fisher's z; D makes the first-order errors of a column's
correlations, on average over its pairs, those of the fit. Means and log scales take from the draw of complete rows as
much as these explain of their error, and the rest from normals of their own, so that they have the fit's covariance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.kernels.hidden_draws import draw_rows
from unrelu.passes.engine import map_in_threads
from unrelu.posterior.cells import EVERYTHING, Cells, Filling, Model
from unrelu.posterior.density import RIDGE, Density, row_shares
from unrelu.posterior.marginals import finite, within
from unrelu.validation import RandomState, generator, integer, warn

_NUMBERS = 2**22  # at a time
_ROUNDING = 3.0 * RIDGE  # of a singular model's variances: the ridge, and what rounding makes of it
_ROUNDS, _CONVERGED = 30, 1e-3  # of the errors of drawn models
_MOST = 0.5  # d D / n: larger errors say nothing, and exp would leave double precision
_LEAST = 1e-12


def drawn(
    models: Model | Sequence[Model],
    cells: Cells,
    n_draws: int = 1,
    random_state: RandomState = None,
    filling: Filling = EVERYTHING,
) -> FloatArray:
    """n_draws x n x d. Row i has the stream of (seed, i): the same in any batch, and other rows' apart."""
    out, first = np.empty((number_of(n_draws), *cells.given.shape)), 0
    for _, part in drawn_parts(models, [cells], n_draws, random_state, filling):
        out[:, first : first + part.shape[1]] = part
        first += part.shape[1]
    return out


def drawn_parts(
    models: Model | Sequence[Model],
    parts: Iterable[Cells],
    n_draws: int = 1,
    random_state: RandomState = None,
    filling: Filling = EVERYTHING,
) -> Iterator[tuple[Cells, FloatArray]]:
    """The same for rows that come in parts, as many at a time as fit into memory, with their n_draws x rows x d draws.

    ``models``: one for all draws, or one for each, of the same margins and limits; each then has streams of its own.
    """
    number, seed = number_of(n_draws), seed_of(random_state)
    each = list(models) if isinstance(models, Sequence) else [models]
    model, distributions = each[0], [Density.of(one) for one in each]
    seeds = [seed]
    if isinstance(models, Sequence):
        states = (np.random.SeedSequence([seed, k]).generate_state(1, np.uint64)[0] for k in range(number))
        seeds = [int(state % 2**62) for state in states]
    size, first, walked = max(1, _NUMBERS // (number * model.n_features)), 0, 0
    for part in parts:
        for _, cells in part.parts(size):
            out = np.broadcast_to(filling.start(model, cells), (number, *cells.given.shape)).copy()
            for distribution, stream, share in zip(
                distributions, seeds, np.split(out, len(distributions)), strict=True
            ):
                walked += _draw(model, distribution, cells, (stream, first), share, filling)
            first += len(cells.given)
            yield cells, out
    if walked:
        warn(
            f"{walked:,} of {number * first:,} draws of rows come from a random walk, as too many hidden cells of these"
            " rows pull in different directions for independent draws: draws of one row may be a little alike.",
            "dependent-draws",
        )


def number_of(n_draws: int) -> int:
    """The number of draws, checked."""
    number = integer("n_draws", n_draws)
    if number < 1:
        raise InvalidParameterError(f"n_draws, the number of draws of each row, must be 1 or more; got {number}.")
    return number


def _draw(
    model: Model, density: Density, cells: Cells, place: tuple[int, int], out: FloatArray, filling: Filling
) -> int:
    """Fill ``out``, and return how many draws came from a random walk; ``place``: the seed and the first row."""
    seed, first = place
    rounding = _ROUNDING if density.is_singular else 0.0
    column_of = np.cumsum(density.varying) - 1

    def fill(rows: slice) -> int:
        part, into = cells.of_rows(rows), out[:, rows]
        x, censoring, mean, scale = density.part(part.latent, part.censoring)
        found = np.empty((len(x), len(out), x.shape[1]))
        given = (mean, scale, density.precision, rounding)
        walked: int = draw_rows(x, censoring, *given, seed, first + rows.start, found)
        for j, at, cut in filling.groups(model, part):
            f = None if model.margins is None else finite(model.margins[j].from_latent)
            constant = np.full(int(at.sum()), density.mean[j])
            for draw in range(len(out)):
                y = found[at, draw, column_of[j]] if density.varying[j] else constant
                shown = within(y if f is None else f(y), part, at, j)
                into[draw, :, j][at] = np.clip(shown, model.floor[j], model.ceiling[j]) if cut else shown
        return walked

    return sum(map_in_threads(fill, row_shares(len(cells.given))))


def seed_of(random_state: RandomState) -> int:
    """The seed of the rows' streams: a seed is itself, and a generator gives one and moves on."""
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and int(random_state) >= 0:
        return int(random_state) % 2**62
    return int(generator(random_state).integers(2**62))


def square_root(r: FloatArray) -> FloatArray:
    """A square A with A A' = r, correlations that may be singular.

    The Cholesky factor where the matrix is clearly definite, else the symmetric root: both depend on the matrix alone,
    so that a seed gives the same rows up to rounding on every machine.
    """
    try:
        lower = np.linalg.cholesky(r)
        if np.diagonal(lower).min() ** 2 > 1e-10:
            return np.asarray(lower, dtype=np.float64)
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(r)
    values[values < len(r) * np.finfo(float).eps * values[-1]] = 0.0
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T, dtype=np.float64)


# --- models -------------------------------------------------------------------------------------------------------


def models_from_errors(
    model: Model,
    mean_std_covariance: FloatArray,
    correlation_stderr: FloatArray,
    n_rows: float,
    streams: Iterable[np.random.Generator],
) -> list[Model] | None:
    """Models drawn from the errors of a fit to ``n_rows`` rows, one from each stream; None where a column has none.

    ``model`` is of latent values; ``mean_std_covariance`` is d x 2 x 2, of (mean, scale), ``correlation_stderr`` d x d,
    NaN for pairs without an error. Rows are completed by a drawn model's own covariance.
    """
    at = np.flatnonzero(model.std > 0.0)
    d, n, square = len(at), n_rows, np.ix_(at, at)
    variance, scale = mean_std_covariance[at], model.std[at]
    if not np.isfinite(variance).all():
        return None
    if d == 0:
        return [model for _ in streams]
    r = model.scoring.correlation[square]  # that rows are completed by
    values, vectors = np.linalg.eigh(r)
    root = np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
    inflation = _inflation(r, root, n * np.nan_to_num(correlation_stderr[square], nan=1.0) ** 2, n)
    # Covariances of R^(1/2) D^(1/2) G D^(1/2) R^(1/2) are those of a Wishart matrix of R^(1/2) D R^(1/2).
    unit = np.diagonal(root @ (inflation[:, None] * root)) * np.sqrt(2.0 / n)
    # mean + a u + b v and scale exp(c v) of independent standard normals u, v have the fit's errors.
    c = np.sqrt(variance[:, 1, 1]) / scale
    b = np.divide(variance[:, 0, 1] / scale, c, out=np.zeros_like(c), where=c > 0.0)
    a = np.sqrt(np.maximum(variance[:, 0, 0] - b * b, 0.0))
    # The shares of the variances of mean and log scale that complete rows would have.
    complete = scale**2 / n
    of_means = complete / np.maximum(variance[:, 0, 0], _LEAST * complete)
    of_scales = 0.5 * complete / np.maximum(variance[:, 1, 1], _LEAST * complete)
    shared = np.minimum(np.stack([of_means, of_scales]), 1.0)

    def drawn(rng: np.random.Generator) -> Model:
        g = rng.standard_normal((d, d))
        step = (g + g.T) * np.sqrt(np.outer(inflation, inflation) / (2.0 * n))
        values, vectors = np.linalg.eigh(step)
        covariance = root @ ((vectors * np.exp(values)) @ vectors.T) @ root
        size = np.sqrt(np.diagonal(covariance))
        correlation = covariance / np.outer(size, size)
        complete = np.stack([root @ rng.standard_normal(d), np.diagonal(root @ step @ root) / unit])
        u, v = np.sqrt(shared) * complete + np.sqrt(1.0 - shared) * rng.standard_normal((2, d))
        mean, stds, whole = model.mean.copy(), model.std.copy(), np.zeros_like(model.covariance)
        mean[at] += a * u + b * v
        stds[at] *= np.exp(c * v)
        whole[square] = correlation * np.outer(stds[at], stds[at])
        return model.with_parts(mean=mean, covariance=whole, scoring_covariance=None)

    return [drawn(rng) for rng in streams]


def _inflation(r: FloatArray, root: FloatArray, wanted: FloatArray, n_rows: float) -> FloatArray:
    """D, one number per column; ``wanted`` are the squared errors of correlations, times the number of rows."""
    d, inflation = len(r), np.ones(len(r))
    if d == 1:
        return inflation
    for _ in range(_ROUNDS):
        n = root @ (inflation[:, None] * root)
        own, other = np.diagonal(n)[:, None], np.diagonal(n)[None]
        # Of H_ij - r_ij (H_ii + H_jj) / 2, with covariances N_ik N_jl + N_il N_jk of H_ij and H_kl.
        variance = own * other + n * n + 0.5 * r * r * (own**2 + other**2 + 2.0 * n * n) - 2.0 * r * n * (own + other)
        ratio = np.log(np.maximum(wanted, _LEAST) / np.maximum(variance, _LEAST))
        np.fill_diagonal(ratio, 0.0)
        change = 0.5 * ratio.sum(axis=1) / (d - 1)
        inflation *= np.exp(np.clip(change, -1.0, 1.0))
        if np.abs(change).max() < _CONVERGED:
            break
    return np.asarray(np.minimum(inflation, max(_MOST * n_rows / d, _LEAST)))
