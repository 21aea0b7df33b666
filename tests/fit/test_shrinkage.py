"""Correlations to score rows by: near the best mixture, always invertible, and the estimate where that will do."""

import numpy as np
import pytest
from scipy.linalg import eigvalsh, toeplitz

import unrelu
from tests.warned import warns
from unrelu import FloorOutlierDetector, RectifiedGaussian, RectifiedGaussianLearner
from unrelu.contracts import PairCorrelations
from unrelu.fit.nearest import nearest_correlation
from unrelu.fit.shrinkage import Target, enough_factors, factor_target, scoring_correlation
from unrelu.posterior.density import Density


def factor_model(d, k, seed):
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((d, k))
    loadings *= np.sqrt(rng.uniform(0.4, 0.9, (d, 1))) / np.linalg.norm(loadings, axis=1, keepdims=True)
    return loadings @ loadings.T + np.diag(1.0 - np.sum(loadings**2, axis=1))


def one_pair(d):
    r = np.eye(d)
    r[0, 1] = r[1, 0] = 0.95
    return r


TRUTHS = {
    "factors": factor_model(15, 2, 0),
    "autoregressive": toeplitz(0.8 ** np.arange(15)),
    "independent": np.eye(15),
    "one pair": one_pair(15),
}


def sampled(truth, n, seed):
    """The correlations of n rows without a floor, and their standard errors."""
    rows = np.random.default_rng(seed).multivariate_normal(np.zeros(len(truth)), truth, n)
    r = np.corrcoef(rows.T)
    return PairCorrelations(r, (1.0 - r**2) / np.sqrt(n))


def lost(r, truth):
    """Mean loss of log density of rows of the truth, scored by r: the Kullback-Leibler divergence."""
    ratio = np.linalg.solve(r, truth)
    return 0.5 * (np.trace(ratio) - len(r) - np.linalg.slogdet(ratio)[1])


@pytest.mark.parametrize("n", [40, 200, 1000])
@pytest.mark.parametrize("name", TRUTHS)
def test_scores_lose_little_more_than_with_the_best_amount(name, n):
    truth = TRUTHS[name]
    losses = []
    for seed in range(8):
        pairs = sampled(truth, n, seed)
        got, shrinkage = scoring_correlation(pairs, pairs.correlation, n)
        assert 0.0 < shrinkage.amount <= 1.0
        assert shrinkage.smallest_eigenvalue == pytest.approx(np.linalg.eigvalsh(got)[0])
        # The line from the estimate to the target, by what was mixed; the best place on it, known to an oracle.
        target = pairs.correlation + (got - pairs.correlation) / shrinkage.amount
        line = [lost((1.0 - a) * pairs.correlation + a * target, truth) for a in np.linspace(0.01, 1.0, 34)]
        losses.append([lost(got, truth), min(line), lost(pairs.correlation, truth)])
    mine, best, raw = np.mean(losses, axis=0)
    assert mine < best + 0.15 * (raw - best) + 0.01
    assert mine < 1.02 * raw


def test_the_target_has_as_many_factors_as_the_truth():
    found = [scoring_correlation(sampled(TRUTHS["factors"], 400, seed), np.eye(15), 400)[1] for seed in range(3)]
    assert [shrinkage.target_rank for shrinkage in found] == [0, 0, 0]  # of the assembled matrix, here the identity
    for seed in range(3):
        pairs = sampled(TRUTHS["factors"], 400, seed)
        assert scoring_correlation(pairs, pairs.correlation, 400)[1].target_rank == 2


@pytest.mark.parametrize("k", [0, 1, 3])
def test_a_target_answers_as_its_matrix_does(k):
    loadings = np.random.default_rng(k).uniform(-0.55, 0.55, (12, k))
    target, r = Target(loadings), TRUTHS["autoregressive"][:12, :12]
    dense = loadings @ loadings.T + np.diag(1.0 - np.sum(loadings**2, axis=1))
    inverse = np.linalg.inv(dense)
    np.testing.assert_allclose(target.matrix, dense)
    np.testing.assert_allclose(target.inverse, inverse)
    np.testing.assert_allclose(target.inverse_diagonal, np.diagonal(inverse))
    values = eigvalsh(r, dense)  # of T^-1 R, as of A R A'
    np.testing.assert_allclose(np.linalg.eigvalsh(target.whitened(r)), values)
    assert target.largest_of(r) == pytest.approx(values[-1])


def test_a_strong_pair_among_independent_columns_stays():
    pairs = sampled(TRUTHS["one pair"], 200, 0)
    got, shrinkage = scoring_correlation(pairs, pairs.correlation, 200)
    assert got[0, 1] == pytest.approx(pairs.correlation[0, 1], abs=0.02)  # its own error is .007
    others = np.triu_indices(13, 1)
    assert np.abs(got[2:, 2:][others]).max() < 0.2 * np.abs(pairs.correlation[2:, 2:][others]).max()
    assert shrinkage.target_rank == 1


def test_uncertain_pairs_are_shrunken_more():
    """Errors beyond those of n rows, which do not fit together, as floors make them."""
    pairs = sampled(toeplitz(0.25 ** np.arange(15)), 400, 1)
    found = [
        scoring_correlation(PairCorrelations(pairs.correlation, factor * pairs.stderr), pairs.correlation, 400)[1]
        for factor in (1.0, 1.2, 1.5)
    ]
    amounts = [shrinkage.amount for shrinkage in found]
    assert len({shrinkage.target_rank for shrinkage in found}) == 1
    assert amounts == sorted(amounts)
    assert amounts[0] < 0.7 * amounts[2]


def test_pairs_that_contradict_each_other_are_shrunken_more():
    """Pairs that are indefinite, and the same once they are made to agree."""
    noise = np.triu(np.random.default_rng(0).normal(0.0, 0.12, (15, 15)), 1)
    r = TRUTHS["factors"] + noise + noise.T
    stderr = (1.0 - np.minimum(r**2, 1.0)) / np.sqrt(200)
    assert np.linalg.eigvalsh(r)[0] < -0.05
    x, _, _ = nearest_correlation(r, stderr, len(r))
    got, shrinkage = scoring_correlation(PairCorrelations(r, stderr), x, 200)
    _, agreed = scoring_correlation(PairCorrelations(x, stderr), x, 200)
    assert shrinkage.target_rank == agreed.target_rank
    assert shrinkage.amount > 1.5 * agreed.amount
    assert np.linalg.eigvalsh(got)[0] > 0.005


def test_nothing_is_shrunken_where_errors_do_not_matter():
    truth = TRUTHS["autoregressive"]
    pairs = PairCorrelations(truth, (1.0 - truth**2) / 1000.0)
    got, shrinkage = scoring_correlation(pairs, truth, 1e6)
    assert got is truth
    assert (shrinkage.amount, shrinkage.target_rank) == (0.0, 0)
    assert shrinkage.smallest_eigenvalue == pytest.approx(np.linalg.eigvalsh(truth)[0])


@pytest.mark.parametrize("name", ["autoregressive", "factors"])
def test_shrinkage_falls_below_the_errors_as_rows_grow(name):
    """The mean that it brings, in standard errors: within noise, and gone where 4 x the loss, d (d + 1)/n, is .04."""
    moved = []
    for n in (500, 2000, 5900, 6100):
        pairs = sampled(TRUTHS[name], n, 5)
        got, _ = scoring_correlation(pairs, pairs.correlation, n)
        off = ~np.eye(15, dtype=bool)
        moved.append(np.sqrt(np.mean(((got - pairs.correlation)[off] / pairs.stderr[off]) ** 2)))
    assert max(moved) < 1.5
    assert moved[-1] == 0.0


def test_a_rank_is_scored_with_its_noise():
    truth = TRUTHS["factors"]
    pairs = PairCorrelations(truth, (1.0 - truth**2) / 100.0)
    values, vectors = np.linalg.eigh(truth)
    singular = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    got, shrinkage = scoring_correlation(pairs, singular, 10_000, rank=2)
    np.testing.assert_allclose(got, truth, atol=0.01)
    assert (shrinkage.amount, shrinkage.target_rank) == (1.0, 2)


@pytest.mark.parametrize(
    "pairs",
    [
        PairCorrelations(np.ones((3, 3)), np.zeros((3, 3))),
        PairCorrelations(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros((2, 2))),
        PairCorrelations(np.array([[1.0, np.nan, 0.5], [np.nan, 1.0, 0.2], [0.5, 0.2, 1.0]]), np.full((3, 3), np.nan)),
        PairCorrelations(np.ones((1, 1)), np.zeros((1, 1))),
    ],
)
@pytest.mark.parametrize("n", [2.0, 100.0, 1e9])
def test_matrices_without_an_inverse_or_errors_get_both(pairs, n):
    nearest_one = np.nan_to_num(pairs.correlation)
    for rank in (None, 1):
        got, shrinkage = scoring_correlation(pairs, nearest_one, n, rank)
        assert np.isfinite(got).all()
        assert np.linalg.eigvalsh(got)[0] > 0.0
        np.testing.assert_allclose(np.diagonal(got), 1.0)
        assert 0.0 <= shrinkage.amount <= 1.0


# --- learned models -------------------------------------------------------------------------------


def table(truth, n, seed, mean=0.6):
    return RectifiedGaussian(np.full(len(truth), mean), truth).sample(n, random_state=seed)


@pytest.mark.parametrize(("n", "truth"), [(60, factor_model(20, 2, 1)), (150, toeplitz(0.8 ** np.arange(50)))])
def test_a_table_of_three_rows_a_column_does_not_flag_itself(n, truth):
    flagged, largest = 0, 0.0
    for seed in range(2):
        X = table(truth, n, seed)
        detector = FloorOutlierDetector("one_pass", false_alarm_rate=0.05).fit(X)
        flagged += np.sum(detector.predict(X) == -1)
        largest = max(largest, np.abs(detector.cell_residuals(X)[X > 0.0]).max())
    assert flagged < 0.05 * 2 * n + 4.0 * np.sqrt(0.05 * 2 * n)
    assert largest < 6.0


def skewed():
    """200 x 20 logs of concentrations that rise and fall together, of longer tails than a normal's; 24 % floored."""
    rng = np.random.default_rng(1)
    common = rng.standard_t(5, (200, 1))
    return np.maximum(np.linspace(0.3, 2.5, 20) + 1.5 * common + 0.1 * rng.standard_t(3, (200, 20)), 0.0)


def test_a_table_that_is_not_normal_flags_what_strays_and_no_more():
    X = skewed()
    learner = RectifiedGaussianLearner("one_pass", margins="normal").fit(X)
    assert learner.report_.nearest.smallest_eigenvalue < 0.0
    detector = FloorOutlierDetector.from_model(learner)
    alone = Density(learner.mean_, learner.std_, learner.correlation_, np.zeros(20))
    seen = X > 0.0
    assert np.abs(alone.cell_residuals(X)[seen]).max() > 1000.0  # by the estimate itself
    assert np.abs(detector.cell_residuals(X)[seen]).max() < 50.0
    # One cell in 20 of a t with 3 degrees of freedom: P(|t| > 4 sd) = .006 a cell, 11 % of the rows.
    assert np.mean(detector.predict(X) == -1) < 0.2


def test_a_factor_model_is_scored_with_its_noise():
    X = table(TRUTHS["factors"], 400, 3)
    detector = FloorOutlierDetector.from_model(RectifiedGaussianLearner(n_components=2).fit(X))
    assert np.sum(detector.predict(X) == -1) < 4 + 4 * 2
    fresh = table(TRUTHS["factors"], 2000, 4)
    assert np.mean(detector.predict(fresh) == -1) < 0.03


def test_log_densities_of_fresh_rows_are_near_those_of_the_truth():
    truth = RectifiedGaussian(np.zeros(15), TRUTHS["autoregressive"])
    fresh = truth.sample(500, random_state=1)
    learner = RectifiedGaussianLearner("one_pass").fit(truth.sample(100, random_state=0))
    best = Density.of(truth).log_density(fresh).mean()
    alone = Density(learner.mean_, learner.std_, learner.correlation_, np.zeros(15)).log_density(fresh)
    assert best - 2.0 < learner.score(fresh) < best
    assert alone.mean() < learner.score(fresh) - 0.5


def with_gaps(X):
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    return X


DOUBTFUL = {
    "collinear": lambda X: np.column_stack([X, 2.0 * X[:, 0]]),
    "constant": lambda X: np.column_stack([X, np.full(len(X), 2.0)]),
    "all constant": lambda X: np.column_stack([np.full(len(X), 3.0), np.full(len(X), 2.0)]),
    "few rows": lambda X: X[:8],
    "one column": lambda X: X[:, :1],
    "gaps": with_gaps,
}


@pytest.mark.parametrize("components", [None, 1])
@pytest.mark.parametrize("name", DOUBTFUL)
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_tables_far_from_the_model_have_finite_scores(name, components):
    X = DOUBTFUL[name](table(TRUTHS["factors"][:10, :10], 100, 2))
    learner = RectifiedGaussianLearner(n_components=components).fit(X)
    assert np.isfinite(learner.score_samples(X)).all()
    detector = FloorOutlierDetector.from_model(learner)
    assert np.mean(detector.predict(X) == -1) < 0.1
    assert not np.isinf(detector.cell_residuals(X)).any()


@pytest.mark.parametrize("method", ["one_pass", "robust"])
def test_what_rows_are_scored_by_is_saved(tmp_path, method):
    X = table(TRUTHS["factors"][:6, :6], 200, 1)
    learner = RectifiedGaussianLearner(method).fit(X)
    assert learner.report_.shrinkage.amount > 0.0
    assert np.abs(learner.scoring_covariance_ - learner.covariance_).max() > 1e-3
    np.testing.assert_allclose(np.diagonal(learner.scoring_covariance_), np.diagonal(learner.covariance_))
    learner.save(tmp_path / "learner")
    loaded = unrelu.load(tmp_path / "learner")
    np.testing.assert_array_equal(loaded.score_samples(X), learner.score_samples(X))
    assert loaded.report_ == learner.report_
    learner.distribution_.save(tmp_path / "model")
    model = unrelu.load(tmp_path / "model")
    assert model == learner.distribution_
    np.testing.assert_array_equal(
        model.marginal([4, 1]).scoring_covariance, model.scoring_covariance[np.ix_([4, 1], [4, 1])]
    )
    detectors = [FloorOutlierDetector.from_model(given) for given in (learner, model)]
    np.testing.assert_array_equal(detectors[0].p_values(X), detectors[1].p_values(X))


def test_models_with_other_scores_are_other_models():
    model = RectifiedGaussian([0.0, 0.0], np.eye(2))
    assert model.scoring is model
    other = RectifiedGaussian([0.0, 0.0], np.eye(2), scoring_covariance=[[1.0, 0.1], [0.1, 1.0]])
    assert model != other
    assert other.scoring == RectifiedGaussian([0.0, 0.0], [[1.0, 0.1], [0.1, 1.0]])


def test_a_singular_model_without_rows_says_how_it_scores(recwarn):
    Density.of(RectifiedGaussian([0.0, 0.0], [[1.0, 0.999999], [0.999999, 1.0]])).warn_if_singular()
    assert not recwarn
    singular = RectifiedGaussian([1.0, 1.0], np.ones((2, 2)))
    with warns("singular", match=r"no inverse: .* noise of its own, of 0.0001"):
        detector = FloorOutlierDetector.from_model(singular)
    np.testing.assert_array_equal(detector.predict([[2.0, 2.0], [2.0, 2.1]]), [1, -1])


@pytest.mark.parametrize("n", [100, 400, 4000])
@pytest.mark.parametrize("name", ["factors", "autoregressive"])
def test_factors_alone_where_they_cost_no_more_than_errors(name, n):
    """Of 20 tables each: where factors are said to be enough, they are, and otherwise they are not, but for a factor 2
    of log density, as amounts are estimates."""
    for seed in range(20):
        pairs = sampled(TRUTHS[name], n, seed)
        k = enough_factors(pairs, n, 2)
        by_factors = lost(factor_target(pairs, n, 2 if k is None else k).matrix, TRUTHS[name])
        by_pairs = lost(pairs.correlation, TRUTHS[name])
        assert by_factors > 0.5 * by_pairs if k is None else by_factors < 2.0 * by_pairs
    assert k == (2 if name == "factors" else None if n == 4000 else k)
