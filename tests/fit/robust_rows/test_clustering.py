"""The core of the mixture of rectified Gaussians: likelihood, starts, and tables with a catch."""

import numpy as np
import pytest

from tests.references.mixture import mixture_log_density
from tests.warned import warns
from unrelu import RectifiedGaussian, RectifiedGaussianLearner
from unrelu.contracts import Assumptions, Block, Evidence
from unrelu.errors import InvalidDataError
from unrelu.fit.robust_rows.clustering import Trial, fit_mixture, k_means
from unrelu.fit.robust_rows.table import prior_record, varying_columns
from unrelu.fit.shrinkage import error_share
from unrelu.passes.engine import LocalEngine
from unrelu.passes.tiles import SubsampleQuestion
from unrelu.tables import ArraySamples, open_samples, write_table

FIRST = RectifiedGaussian([0.0, 1.5, 0.3], [[1.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.0]])
SECOND = RectifiedGaussian([2.0, -0.3, 0.2], [[1.2, -0.4, 0.0], [-0.4, 0.8, 0.5], [0.0, 0.5, 1.0]])
SHARES = np.array([0.6, 0.4])


def draw(n, seed, models=(FIRST, SECOND), shares=SHARES):
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(models), n, p=shares)
    rows = np.stack([model.sample(n, rng) for model in models])
    return rows[labels, np.arange(n)], labels


def evidence_of(x, weights=None, block_rows=None):
    return Evidence(ArraySamples(x, weights, block_rows=block_rows or len(x)), LocalEngine())


def fit(x, n_components=2, seed=0, weights=None, block_rows=None, floor=0.0):
    evidence = evidence_of(x, weights, block_rows)
    return fit_mixture(evidence, Assumptions((floor,) * x.shape[1]), n_components, 3, seed)[0]


def trial_of(x, seed=0):
    assumptions = Assumptions((0.0,) * x.shape[1])
    subsample = evidence_of(x).collect(SubsampleQuestion.under(assumptions, len(x), seed))
    return Trial.of(subsample, np.arange(x.shape[1]), assumptions, np.random.default_rng(seed))


def parameters(fitted, d):
    models = [fitted.model_of(part, part, (0.0,) * d, None) for part in fitted.mixture.components]
    return np.stack([model.mean for model in models]), np.stack([model.covariance for model in models])


# --- likelihood -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def overlapping():
    x, _ = draw(1500, 1)  # so many that rows are scored by the correlations as they are
    return x, fit(x)


def test_log_likelihood_is_that_of_the_dense_reference(overlapping):
    x, fitted = overlapping
    expected, posterior = mixture_log_density(x, fitted.mixture.shares, *parameters(fitted, 3))
    share, density = fitted.probabilities(x), fitted.log_density(x)
    floored = np.count_nonzero(x == 0.0, axis=1)
    # Up to two floored cells are integrated exactly, up to the ridge of 1e-8 on the correlations; others to .002 each.
    np.testing.assert_allclose(density[floored < 3], expected[floored < 3], atol=1e-5)
    assert np.abs(density - expected).max() < 3 * 0.002
    np.testing.assert_allclose(share, posterior, atol=0.005)
    assert fitted.report.log_likelihood == pytest.approx(expected.sum(), abs=1e-4 * len(x))
    assert fitted.report.weight == len(x)


def test_gain_over_the_truth_is_that_of_maximum_likelihood(overlapping):
    """Twice the gain is chi-square with 19 degrees of freedom (Wilks): mean gain 9.5, standard deviation 3.1."""
    x, fitted = overlapping
    assert fitted.n_parameters == 19
    found, _ = mixture_log_density(x, fitted.mixture.shares, *parameters(fitted, 3))
    truth = np.stack([FIRST.mean, SECOND.mean]), np.stack([FIRST.covariance, SECOND.covariance])
    true, _ = mixture_log_density(x, SHARES, *truth)
    assert 0.0 < np.sum(found - true) < 9.5 + 4 * 3.1


def test_one_component_is_the_one_pass_fit():
    x = FIRST.sample(4000, random_state=3)
    fitted, learner = fit(x, 1), RectifiedGaussianLearner().fit(x)
    (mean,), (covariance,) = parameters(fitted, 3)
    # The prior, worth one row of the table, and the shrinkage move an estimate by some 1/sqrt(n) standard errors.
    assert np.all(np.abs(mean - learner.mean_) < 0.1 * learner.mean_stderr_)
    stds = np.sqrt(np.diagonal(covariance))
    assert np.all(np.abs(stds - learner.std_) < 0.1 * learner.std_stderr_)
    gap = np.abs(covariance / np.outer(stds, stds) - learner.correlation_)[np.triu_indices(3, 1)]
    assert np.all(gap < 0.3 * learner.correlation_stderr_[np.triu_indices(3, 1)])


# --- wherever the rows live -----------------------------------------------------------------------


@pytest.mark.slow  # several fits
def test_blocks_and_files_give_the_same_fit(tmp_path):
    x, _ = draw(900, 2)
    whole = parameters(fit(x), 3)
    for found, expected in zip(parameters(fit(x, block_rows=97), 3), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    write_table(tmp_path / "x.parquet", x)
    evidence = Evidence(open_samples(tmp_path / "x.parquet"), LocalEngine())
    found = parameters(fit_mixture(evidence, Assumptions((0.0,) * 3), 2, 3, 0)[0], 3)
    np.testing.assert_allclose(found[1], whole[1], rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_a_table_larger_than_the_sample_is_learned_from_all_rows():
    """Seeds choose other samples and starts; what they settle on differs by less than its own error.

    EM stops where .01 of log-likelihood are still to be gained, sqrt(2 * .01) = .14 standard errors in some direction;
    two such stops and the priors, drawn anew, make .4.
    """
    x, labels = draw(6000, 3)
    (one, _), (other, _) = (parameters(fit(x, seed=seed), 3) for seed in (0, 1))
    error = np.stack([RectifiedGaussianLearner().fit(x[labels == k]).mean_stderr_ for k in (0, 1)])
    assert np.abs((one - other) / error).max() < 0.4
    assert not np.array_equal(one, other)


def test_a_seed_gives_the_same_fit_again():
    x, _ = draw(500, 4)
    np.testing.assert_array_equal(parameters(fit(x), 3)[1], parameters(fit(x), 3)[1])


def test_weights_are_repeated_rows():
    x, _ = draw(400, 5)
    weights = np.random.default_rng(0).integers(1, 4, len(x))
    weighted, repeated = fit(x, weights=weights), fit(np.repeat(x, weights, axis=0))
    for one, other in zip(parameters(weighted, 3), parameters(repeated, 3), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)  # rounding, through some tens of rounds
    assert weighted.report.weight == repeated.report.weight == weights.sum()


# --- starts ---------------------------------------------------------------------------------------


def test_k_means_finds_groups_that_are_apart():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    labels = rng.integers(3, size=300)
    found = k_means(centres[labels] + rng.standard_normal((300, 2)), 3, rng)
    assert len(set(zip(labels.tolist(), found.tolist(), strict=True))) == 3  # the same groups, in some order


def test_k_means_with_fewer_distinct_rows_than_centres():
    assert k_means(np.zeros((5, 2)), 3, np.random.default_rng(0)).shape == (5,)


@pytest.mark.slow  # a study of starts
def test_both_kinds_of_start_are_sound_and_of_the_right_size():
    trial = trial_of(draw(1500, 6)[0])
    rng = np.random.default_rng(0)
    for k in (2, 3, 4):
        for start in (trial.seeded(k, rng), trial.grown(k)):
            assert len(start.mixture.components) == k
            assert trial.is_sound(start.mixture)


def test_components_of_one_repeated_row_or_of_none_are_not_sound():
    x = np.vstack([draw(200, 7)[0], np.tile([2.0, 2.0, 2.0], (40, 1))])
    trial = trial_of(x)
    assert len(trial.rows.values) == len(np.unique(x, axis=0))  # copies are one row of their weight
    is_copy = np.all(trial.rows.values == 2.0, axis=1)
    assert trial.rows.weights[is_copy] == 40.0
    plain, spike = trial.cluster(~is_copy), trial.cluster(is_copy)
    mixture = trial.one().with_component(spike, 0.2).without(0).with_component(plain, 0.8)
    np.testing.assert_array_equal(trial.collapsed(mixture), [True, False])
    assert not trial.is_sound(mixture)
    nowhere = trial.one().with_component(plain.widened(1e-6), 1e-6)
    assert not trial.collapsed(nowhere).any()
    assert not trial.is_sound(nowhere)


@pytest.mark.filterwarnings("ignore::unrelu.errors.DataWarning")
def test_a_component_of_floored_rows_is_sound():
    """Rows without any value above the floor are all alike, and may well be a group."""
    x = np.vstack([draw(200, 7)[0], np.zeros((60, 3))])
    trial = trial_of(x)
    silent = ~trial.seen
    assert silent.sum() == 1
    mixture = (
        trial.one().with_component(trial.cluster(silent), 0.3).without(0).with_component(trial.cluster(~silent), 0.7)
    )
    assert trial.is_sound(mixture)


def test_copies_do_not_take_a_component_that_groups_need():
    """15 copies of one row would be worth the likelihood of a spike; the two groups are there to be found."""
    apart = RectifiedGaussian(SECOND.mean + np.array([3.0, 0.0, 2.0]), SECOND.covariance)
    x, labels = draw(600, 8, models=(FIRST, apart))
    fitted = fit(np.vstack([x, np.tile([1.0, 1.0, 1.0], (15, 1))]))
    assert np.mean(fitted.probabilities(x).argmax(axis=1) == labels) > 0.97


def test_a_spike_that_cannot_be_avoided_is_named():
    x = np.repeat([[1.0, 2.0], [3.0, 1.0]], 25, axis=0)
    with warns("duplicated-rows", match="rests on one row"):
        fitted = fit(x)
    assert np.isfinite(fitted.report.log_likelihood)


# --- shrinkage and prior --------------------------------------------------------------------------


def test_one_uncertain_pair_does_not_shrink_the_others():
    r, se = np.full((4, 4), 0.5), np.full((4, 4), 0.05)
    certain = error_share(r, se)
    assert certain == pytest.approx(0.01)
    se[0, 1] = se[1, 0] = 1.0
    assert error_share(r, se) == pytest.approx(certain, rel=0.25)
    assert error_share(0.01 * r, se) == 1.0


def test_correlations_survive_a_column_that_a_component_hardly_sees():
    silent = RectifiedGaussian([1.0, 1.0, -3.2], [[1.0, 0.7, 0.0], [0.7, 1.0, 0.0], [0.0, 0.0, 1.0]])
    other = RectifiedGaussian([4.0, 4.0, 3.0], np.eye(3))
    x, labels = draw(1000, 9, models=(silent, other))
    assert np.count_nonzero(x[labels == 0, 2]) < 5
    covariance = parameters(fit(x), 3)[1][0]
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert correlation == pytest.approx(0.7, abs=4 * 0.51 / np.sqrt(500))  # (1 - r^2)/sqrt(n), some rows floored


def test_the_prior_is_one_row_that_varies_in_every_column():
    stray = np.where(np.arange(2000) == 77, 4.0, 3.0)
    x = np.c_[draw(2000, 10)[0], stray, np.where(np.arange(2000) == 78, 2.0, 0.0)]
    x[:15, 0] = 1e9  # outliers are not what a component should expect; some of 256 draws would be among them
    prior = prior_record(x, Assumptions((0.0,) * 5), np.random.default_rng(0), outliers=False)
    seen, _, spread = prior.positive_moments()
    assert prior.weight == pytest.approx(1.0)
    assert np.all((spread > 0.0) | (seen < 1.0))
    assert np.all(seen > 0.0)
    assert spread[0] < 2.0 * np.var(x[x[:, 0] < 1e9, 0])


def test_values_that_repeat_far_above_the_floor_are_no_hint_of_a_huge_std():
    """Ratings from 1 to 5, with a floor that only says that there is none."""
    rng = np.random.default_rng(0)
    x = np.c_[np.clip(np.round(rng.normal(3.0, 0.7, 500)), 1, 5), rng.normal(5.0, 1.0, 500)]
    fitted = fit(x, 1, floor=-1e6)
    assert fitted.mixture.main_component.std[0] == pytest.approx(x[:, 0].std(), rel=0.01)  # one row in 500


# --- columns that hardly vary ---------------------------------------------------------------------


def test_a_constant_column_changes_nothing_and_comes_back_as_a_constant():
    x, _ = draw(500, 11)
    with warns("constant-column", match="column 3"):
        fitted = fit(np.c_[x, np.full(500, 2.5)])
    mean, covariance = parameters(fitted, 4)
    np.testing.assert_array_equal(mean[:, 3], 2.5)
    np.testing.assert_array_equal(covariance[:, 3], 0.0)
    np.testing.assert_allclose(mean[:, :3], parameters(fit(x), 3)[0], rtol=1e-10)
    assert fitted.report.log_likelihood == pytest.approx(fit(x).report.log_likelihood)
    off = fitted.log_density(np.c_[x[:2], [2.5, 2.6]])
    assert off[1] < off[0] - 1000.0  # impossible under every component, but finite


@pytest.mark.filterwarnings("ignore::unrelu.errors.DataWarning")
def test_a_column_that_only_varies_outside_the_sample_is_fitted_to_all_rows():
    x, _ = draw(9000, 12)
    rare = np.zeros(9000)
    assumptions = Assumptions((0.0,) * 4)
    sampled = evidence_of(np.c_[x, rare]).collect(SubsampleQuestion.under(assumptions, 4000, 0)).rows
    rare[np.setdiff1d(np.arange(9000), sampled)[:3]] = [1.0, 2.0, 3.0]
    fitted = fit(np.c_[x, rare])
    np.testing.assert_array_equal(fitted.shared.columns, [3])
    alone = RectifiedGaussianLearner().fit(rare[:, None])
    assert fitted.shared.mean[0] == pytest.approx(alone.mean_[0])
    assert fitted.shared.std[0] == pytest.approx(alone.std_[0])
    probe = np.array([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 2.0], [1.0, 1.0, 1.0, np.nan]])
    at_floor, above, missing = fitted.log_density(probe)
    one_column = mixture_log_density(probe[:2, 3:], np.ones(1), alone.mean_[None], alone.covariance_[None])[0]
    np.testing.assert_allclose([at_floor - missing, above - missing], one_column, rtol=1e-6)


def test_a_column_with_a_stray_value_separates_no_groups():
    x, _ = draw(500, 13)
    stray = np.c_[x, np.where(np.arange(500) == 7, 4.0, 3.0)]
    np.testing.assert_allclose(parameters(fit(stray), 4)[0][:, :3], parameters(fit(x), 3)[0], rtol=1e-8)


@pytest.mark.parametrize(
    ("x", "n_components", "message"),
    [
        (np.tile([1.0, 2.0], (30, 1)), 2, "identical"),
        (np.zeros((30, 2)), 2, "identical"),
        (np.arange(6.0).reshape(3, 2), 2, "Only 3 rows .* n_components=2"),
        (np.c_[np.arange(30.0), np.full(30, np.nan)], 2, "No value at all in column 1"),
        (np.c_[np.arange(30.0), np.zeros(30)], 2, "Never above its floor in 30 rows: column 1"),
        (np.c_[np.arange(30.0), np.full(30, -1.0)], 2, "below the floor"),
        (np.c_[np.arange(30.0), np.full(30, np.inf)], 2, "infinite"),
    ],
)
def test_tables_that_cannot_be_learned(x, n_components, message):
    with pytest.raises(InvalidDataError, match=message):
        fit(x, n_components)


def test_rows_are_only_counted_where_they_have_weight():
    assumptions = Assumptions((0.0, 0.0))
    block = Block(np.arange(20.0).reshape(10, 2), 0, np.repeat([1.0, 0.0], [3, 7]))
    with pytest.raises(InvalidDataError, match="Only 3 rows"):
        varying_columns(SubsampleQuestion.under(assumptions, 100, 0)(block), assumptions, 2, None)
