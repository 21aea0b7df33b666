import numpy as np
import pytest

from tests.references import likelihood
from unrelu.contracts import Assumptions, Block
from unrelu.fit.columns import fit_columns
from unrelu.fit.one_pass import fit_pairs
from unrelu.passes.pair_moments import PairMomentsQuestion


def estimate(x, weights=None, near=None):
    assumptions = Assumptions((0.0,) * x.shape[1])
    record = PairMomentsQuestion.under(assumptions)(Block(x, 0, weights))
    rows = fit_columns(record, assumptions)
    return rows, fit_pairs(record, rows, near)


def simulate(seed, n, d, bias_size=0.8):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((d, d))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    mean = bias_size * rng.standard_normal(d)
    return np.maximum(rng.standard_normal((n, d)) @ w.T + mean, 0.0), w @ w.T


def test_stays_within_a_fraction_of_a_standard_error_of_the_exact_pairwise_likelihood():
    """Both estimate the same r; with .95+ of the information kept they differ by at most ~.2 standard errors rms."""
    x, _ = simulate(0, 4000, 5)
    rows, pairs = estimate(x)
    exact = likelihood.pairwise_correlations(x, rows.mean, rows.std)
    pairs_of = np.triu_indices(5, 1)
    difference = (pairs.correlation - exact)[pairs_of] / pairs.stderr[pairs_of]
    assert np.sqrt(np.mean(difference**2)) < 0.25


def test_squared_z_scores_average_one():
    """60 x 10 correlated z-scores: the mean of their squares has a standard error of about .08."""
    z = []
    for seed in range(60):
        x, truth = simulate(seed, 800, 5)
        _, pairs = estimate(x)
        upper = np.triu_indices(5, 1)
        z.append((pairs.correlation - truth)[upper] / pairs.stderr[upper])
    assert np.mean(np.square(z)) == pytest.approx(1.0, abs=0.25)


def test_missing_values_use_the_rows_that_see_both():
    """A pair seen together in 300 rows must give what those rows give, were the marginals the same."""
    x, _ = simulate(1, 3000, 2)
    x[300:1500, 0] = np.nan
    x[1500:, 1] = np.nan
    rows, pairs = estimate(x)
    together = x[:300]
    exact = likelihood.PairLikelihood(together[:, 0], together[:, 1], tuple(rows.mean), tuple(rows.std)).maximize()
    assert abs(pairs.correlation[0, 1] - exact) < 0.3 * pairs.stderr[0, 1]
    _, alone = estimate(together)
    assert pairs.stderr[0, 1] < alone.stderr[0, 1]


def test_standard_errors_hold_with_missing_values():
    z = []
    for seed in range(150):
        x, truth = simulate(seed, 900, 3)
        x[np.random.default_rng(1000 + seed).random(x.shape) < 0.4] = np.nan
        _, pairs = estimate(x)
        upper = np.triu_indices(3, 1)
        z.append((pairs.correlation - truth)[upper] / pairs.stderr[upper])
    assert np.mean(np.square(z)) == pytest.approx(1.0, abs=0.25)  # 450 z-scores: standard error about .07


def test_integer_weights_are_repeated_rows():
    x, _ = simulate(2, 300, 3)
    w = np.random.default_rng(0).integers(1, 4, 300)
    _, weighted = estimate(x, w.astype(float))
    _, repeated = estimate(np.repeat(x, w, axis=0))
    np.testing.assert_allclose(weighted.correlation, repeated.correlation, rtol=1e-9)


def test_weights_that_sum_to_one_are_not_outweighed_by_the_prior():
    x, _ = simulate(0, 2000, 3)
    w = np.random.default_rng(0).gamma(3.0, size=2000)
    _, weighted = estimate(x, w)
    _, normalized = estimate(x, w / w.sum())
    upper = np.triu_indices(3, 1)
    moved = (normalized.correlation - weighted.correlation)[upper] / weighted.stderr[upper]
    assert np.all(np.abs(moved) < 0.1)
    np.testing.assert_allclose(normalized.stderr[upper], weighted.stderr[upper], rtol=0.05)


def test_rare_pairs_are_pulled_off_the_useless_boundary():
    """Independent columns with 2 % above the floor: 1000 rows expect half a joint row, the likelihood says -1."""
    errors, claimed = [], []
    for seed in range(60):
        x = np.maximum(np.random.default_rng(seed).standard_normal((1000, 2)) - 2.0, 0.0)
        _, pairs = estimate(x)
        errors.append(pairs.correlation[0, 1])
        claimed.append(pairs.stderr[0, 1])
    assert np.sqrt(np.mean(np.square(errors))) < 0.4
    assert 0.2 < np.mean(claimed) < 0.5


def test_unequal_weights_widen_the_errors_by_kish():
    x, _ = simulate(3, 4000, 3)
    w = np.random.default_rng(0).gamma(1.0, size=4000)
    _, plain = estimate(x)
    _, weighted = estimate(x, w)
    kish = np.sqrt(4000 * (w**2).sum() / w.sum() ** 2)
    ratio = (weighted.stderr / np.where(plain.stderr > 0, plain.stderr, 1.0))[np.triu_indices(3, 1)]
    np.testing.assert_allclose(ratio, kish, rtol=0.1)


def test_uncensored_columns_give_the_sample_correlation():
    x = np.random.default_rng(4).multivariate_normal([50, 60], [[1, 0.6], [0.6, 2]], size=2000)
    _, pairs = estimate(x)
    r = np.corrcoef(x.T)[0, 1]
    assert pairs.correlation[0, 1] == pytest.approx(r, abs=1e-3 * (1 - r * r))  # up to the one-row prior, 1/n
    assert pairs.stderr[0, 1] == pytest.approx((1 - r * r) / np.sqrt(2000), rel=0.01)


@pytest.mark.parametrize("r", [0.97, -0.97, 0.999])
def test_strong_correlations(r):
    rng = np.random.default_rng(5)
    z = rng.standard_normal((20_000, 2))
    y = np.c_[z[:, 0], r * z[:, 0] + np.sqrt(1 - r * r) * z[:, 1]]
    _, pairs = estimate(np.maximum(y + 0.3, 0))
    assert abs(pairs.correlation[0, 1] - r) < 4 * pairs.stderr[0, 1]
    assert pairs.stderr[0, 1] < 0.01


def test_constant_columns_have_no_correlation():
    x, _ = simulate(6, 200, 3)
    x[:, 1] = 2.0
    with pytest.warns(UserWarning, match="Constant"):
        _, pairs = estimate(x)
    assert pairs.correlation[0, 1] == 0.0
    assert np.isnan(pairs.stderr[0, 1])
    assert pairs.stderr[0, 2] > 0


@pytest.mark.parametrize("start", [0.0, 0.3, 1.0, np.nan])
def test_starts_do_not_move_the_root(start):
    """From r itself, from elsewhere, and from starts that are none."""
    x, _ = simulate(1, 500, 5)
    x = np.column_stack([x, 2.0 * x[:, 0]])  # an exact image: no root is looked for
    _, pairs = estimate(x)
    for near in (np.full((6, 6), start), pairs.correlation):
        _, again = estimate(x, near=near)
        np.testing.assert_allclose(again.correlation, pairs.correlation, atol=1e-8)
        assert np.isnan(again.stderr).all()
        assert again.perfect_pairs == pairs.perfect_pairs == ((0, 5),)
