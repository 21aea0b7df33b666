"""Robust latent recovery: exact without noise, as good as an oracle with it, honest about its errors and its
diagnostics."""

import warnings

import numpy as np
import pytest

import unrelu
from tests.references import latent as reference
from tests.warned import refuse, warns
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.recovery import RobustLatent


@pytest.fixture(autouse=True)
def _no_diagnostics():
    with warnings.catch_warnings():
        refuse("ambiguous-optimum")
        yield


@pytest.mark.parametrize("seed", range(10))
def test_exact_without_noise(seed):
    A, b, c, v, corrupted = reference.draw(np.random.default_rng(seed), 100, 10, share=0.4, outliers="one-sided")
    result = unrelu.recover_latent(A, b, v)
    assert np.abs(result.latent - c).max() < 1e-6
    assert np.array_equal(result.inliers, ~corrupted)
    assert np.abs(result.clean - np.maximum(A @ c + b, 0.0)).max() < 1e-6


@pytest.fixture(scope="module")
def noisy():
    """Twenty outputs with d = 200, k = 10, 20 % outliers, noise .05: (A, b, c, v, corrupted, result)."""
    drawn = [reference.draw(np.random.default_rng(seed), 200, 10, share=0.2, noise=0.05) for seed in range(20)]
    return [(*case, unrelu.recover_latent(case[0], case[1], case[3])) for case in drawn]


def test_as_accurate_as_the_oracle(noisy):
    errors = [np.linalg.norm(result.latent - c) for _, _, c, _, _, result in noisy]
    best = [np.linalg.norm(reference.oracle(A, b, v, c, bad) - c) for A, b, c, v, bad, _ in noisy]
    assert np.median(errors) <= 1.1 * np.median(best)


def test_noise_scale_is_near_the_truth(noisy):
    scales = np.array([result.noise_scale for *_, result in noisy])
    # sd of one is about .05 / sqrt(2 * 160); entries beyond 3 sd are left out, which lowers it by 1.3 %
    assert abs(scales.mean() - 0.05) < 0.05 * (0.014 + 4.0 / np.sqrt(320 * 20))


def test_noise_scale_counts_the_numbers_fitted():
    drawn = [reference.draw(np.random.default_rng(seed), 60, 10, noise=0.05) for seed in range(60)]
    scales = [unrelu.recover_latent(A, b, v).noise_scale for A, b, _, v, _ in drawn]
    assert abs(np.mean(scales) / 0.05 - 0.985) < 4.0 / np.sqrt(2 * 60 * 60)


def test_inliers_outliers_and_clean_are_consistent(noisy):
    for A, b, _, v, bad, result in noisy:
        assert np.allclose(result.clean, np.maximum(A @ result.latent + b, 0.0), atol=1e-12)
        assert (result.outliers[result.inliers] == 0.0).all()
        assert np.allclose(result.outliers[~result.inliers], (v - result.clean)[~result.inliers])
        assert not result.inliers[bad & (np.abs(v - result.clean) > 0.5)].any()
        assert result.inliers[~bad].mean() > 0.95
        assert result.unambiguous
        assert result.rival is None


def test_last_step_is_least_squares_on_active_inliers(noisy):
    for A, b, _, v, _, result in noisy[:5]:
        used = result.inliers & (result.clean > 0.0)
        assert np.abs(np.linalg.lstsq(A[used], (v - b)[used])[0] - result.latent).max() < 1e-8
        expected = result.noise_scale**2 * np.linalg.inv(A[used].T @ A[used])
        assert np.allclose(result.covariance, expected, rtol=1e-8)


def test_covariance_is_calibrated():
    k, squares = 4, []
    for seed in range(150):
        A, b, c, v, _ = reference.draw(np.random.default_rng(seed), 120, k, share=0.05, noise=0.05)
        result = unrelu.recover_latent(A, b, v)
        error = result.latent - c
        squares.append(error @ np.linalg.solve(result.covariance, error) / k)
    # chi2_k / k has variance 2/k; 3-sd rejection and the estimated scale raise the mean by some per cent
    assert abs(np.mean(squares) - 1.04) < 4.0 * np.sqrt(2.0 / k / len(squares))


def test_a_given_noise_scale_is_kept():
    A, b, c, v, _ = reference.draw(np.random.default_rng(0), 100, 4, share=0.2, noise=0.05)
    result = unrelu.recover_latent(A, b, v, RobustLatent(noise_scale=0.07))
    assert result.noise_scale == 0.07
    used = result.inliers & (result.clean > 0.0)
    assert np.allclose(result.covariance, 0.07**2 * np.linalg.inv(A[used].T @ A[used]), rtol=1e-8)
    assert np.linalg.norm(result.latent - c) < 0.1


def test_missing_entries_are_left_out():
    rng = np.random.default_rng(1)
    A, b, c, v, _ = reference.draw(rng, 150, 5, share=0.2, noise=0.02)
    missing = rng.random(150) < 0.3
    result = unrelu.recover_latent(A, b, np.where(missing, np.nan, v))
    alone = unrelu.recover_latent(A[~missing], b[~missing], v[~missing])
    assert np.array_equal(result.latent, alone.latent)
    assert np.array_equal(result.inliers[~missing], alone.inliers)
    assert np.isnan(result.outliers[missing]).all()
    assert not np.isnan(result.outliers[~missing]).any()
    assert not result.inliers[missing].any()
    assert np.allclose(result.clean, np.maximum(A @ result.latent + b, 0.0))
    assert np.linalg.norm(result.latent - c) < 0.05


@pytest.mark.parametrize("unit", [1e-12, 1e6])
def test_units_do_not_matter(unit):
    A, b, _, v, _ = reference.draw(np.random.default_rng(2), 80, 4, share=0.3, noise=0.02)
    result, plain = unrelu.recover_latent(A * unit, b * unit, v * unit), unrelu.recover_latent(A, b, v)
    assert np.allclose(result.latent, plain.latent, atol=1e-9)
    assert result.noise_scale == pytest.approx(unit * plain.noise_scale, rel=1e-9)
    assert np.allclose(unrelu.recover_latent(A * unit, b, v).latent * unit, plain.latent, atol=1e-9)


@pytest.mark.parametrize("size", [1e3, -1e6, 1e7])
def test_the_size_of_an_outlier_does_not_matter(size):
    A, b, c, v, _ = reference.draw(np.random.default_rng(3), 100, 10, noise=0.05)
    v[7] = size
    result = unrelu.recover_latent(A, b, v)
    assert np.linalg.norm(result.latent - c) < 0.1
    assert result.noise_scale == pytest.approx(0.05, rel=0.3)
    assert not result.inliers[7]


@pytest.mark.parametrize("size", [1e8, 1e10, -1e10, 1e200])
def test_the_size_of_a_huge_outlier_does_not_matter(size):
    A, b, c, v, _ = reference.draw(np.random.default_rng(3), 100, 10, noise=0.05)
    v[7] = size
    result = unrelu.recover_latent(A, b, v)
    assert np.linalg.norm(result.latent - c) < 0.1
    assert result.noise_scale == pytest.approx(0.05, rel=0.3)


@pytest.mark.parametrize("size", [1e-80, 1e80])
@pytest.mark.parametrize("method", ["robust", "lasso"])
def test_units_beyond_squares_are_refused(size, method):
    A, b, _, v, _ = reference.draw(np.random.default_rng(3), 100, 10, noise=0.05)
    with pytest.raises(InvalidDataError, match="v holds values so large or so small that squares leave"):
        unrelu.recover_latent(A, b, size * v, method)
    with pytest.raises(InvalidParameterError, match="The layer holds values so large or so small"):
        unrelu.recover_latent(size * A, size * b, v, method)


def noise_inside(seed, shift):
    """v = ReLU(A c + b + noise): no entry is negative, many are 0."""
    rng = np.random.default_rng(seed)
    A, b, c = rng.standard_normal((200, 8)), rng.standard_normal(200) + shift, rng.standard_normal(8)
    c /= np.linalg.norm(c)
    v = np.maximum(A @ c + b + 0.05 * rng.standard_normal(200), 0.0)
    return A, b, c, v, np.linalg.norm(reference.oracle(A, b, v, c, np.zeros(200, dtype=bool)) - c)


@pytest.mark.parametrize("shift", [0.0, -0.5, -1.0])
def test_noise_without_negative_entries(shift):
    errors, best = [], []
    for seed in range(5):
        A, b, c, v, oracle = noise_inside(seed, shift)
        result = unrelu.recover_latent(A, b, v)
        assert result.noise_scale == pytest.approx(0.05, rel=0.4)
        errors.append(np.linalg.norm(result.latent - c))
        best.append(oracle)
    assert np.median(errors) < 1.5 * np.median(best)


def test_a_given_noise_scale_helps_where_no_entry_is_negative():
    for seed in range(5):
        A, b, c, v, oracle = noise_inside(seed, -0.5)
        found = unrelu.recover_latent(A, b, v, RobustLatent(noise_scale=0.05)).latent
        assert np.linalg.norm(found - c) < 2.0 * oracle + 0.02


def two_explanations(noise):
    rng = np.random.default_rng(0)
    A, b, c = rng.standard_normal((40, 3)), rng.standard_normal(40), np.array([0.6, -0.4, -0.7])
    v = np.concatenate([np.maximum(A @ c + b, 0.0), np.maximum(b - A @ c, 0.0)])
    return np.vstack([A, A]), np.tile(b, 2), c, v + noise * rng.standard_normal(80)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_two_latent_vectors_that_explain_half_each(noise):
    A, b, c, v = two_explanations(noise)
    with warns("ambiguous-optimum", match="Two latent vectors"):
        result = unrelu.recover_latent(A, b, v)
    assert not result.unambiguous
    one, other = sorted([result.latent, result.rival], key=lambda x: x[0])
    assert np.abs(one + c).max() < 0.05
    assert np.abs(other - c).max() < 0.05


def test_a_majority_is_no_tie():
    A, b, c, v = two_explanations(0.02)
    v[70:] = np.maximum(A[70:] @ c + b[70:], 0.0)
    result = unrelu.recover_latent(A, b, v)
    assert result.unambiguous
    assert np.abs(result.latent - c).max() < 0.05


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_negative_outliers_are_not_taken_for_noise(share):
    for seed in range(10):
        A, b, c, v, corrupted = reference.draw(np.random.default_rng(seed), 100, 10, share=share)
        result = unrelu.recover_latent(A, b, v)
        assert np.abs(result.latent - c).max() < 1e-6
        assert not result.inliers[corrupted].any()


@pytest.mark.parametrize("share", [0.2, 0.35])
@pytest.mark.slow
def test_outliers_beside_noise_without_negative_entries(share):
    errors, best = [], []
    for seed in range(8):
        A, b, c, v, _ = noise_inside(seed, 0.0)
        rng = np.random.default_rng(100 + seed)
        corrupted = rng.random(200) < share
        v[corrupted] = np.abs(10.0 * rng.standard_normal(int(corrupted.sum())))
        errors.append(np.linalg.norm(unrelu.recover_latent(A, b, v).latent - c))
        best.append(np.linalg.norm(reference.oracle(A, b, v, c, corrupted) - c))
    assert np.median(errors) < 1.5 * np.median(best)


@pytest.mark.parametrize("hidden", ["missing", "off"])
def test_entries_that_do_not_determine_c(hidden):
    rng = np.random.default_rng(1)
    A, b, c = np.zeros((60, 4)), np.ones(60), np.array([0.5, -0.5, 0.3, 0.2])
    A[:30, :2], A[30:, 2:] = rng.standard_normal((30, 2)), rng.standard_normal((30, 2))
    b[30:] = 1.0 if hidden == "missing" else -50.0
    v = np.maximum(A @ c + b, 0.0) + 0.01 * rng.standard_normal(60)
    if hidden == "missing":
        v[30:] = np.nan
    with pytest.raises(InvalidDataError, match="do not determine 4 latent numbers"):
        unrelu.recover_latent(A, b, v)


def test_nearly_dependent_columns():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((200, 1)) + 0.01 * rng.standard_normal((200, 6))
    b, c = rng.standard_normal(200), rng.standard_normal(6)
    v = np.maximum(A @ c + b, 0.0) + 0.05 * rng.standard_normal(200)
    result = unrelu.recover_latent(A, b, v)
    used = result.inliers & (result.clean > 0.0)
    gap = np.linalg.lstsq(A[used], (v - b)[used])[0] - result.latent
    assert gap @ np.linalg.solve(result.covariance, gap) < 1e-6


def test_as_many_entries_as_numbers():
    A, b, c = np.eye(3) + 0.1, np.ones(3), np.array([0.2, -0.3, 0.5])
    assert np.abs(unrelu.recover_latent(A, b, A @ c + b).latent - c).max() < 1e-8
    assert unrelu.recover_latent([[2.0]], [1.0], [2.0]).latent == pytest.approx([0.5])


def test_layers_that_cannot_be_inverted():
    with pytest.raises(InvalidParameterError, match=r"fewer rows \(3\) than columns \(5\).*prior"):
        unrelu.recover_latent(np.ones((3, 5)), np.ones(3), np.ones(3))
    with pytest.raises(InvalidParameterError, match=r"rank 1, less than its 2 columns.*prior"):
        unrelu.recover_latent(np.ones((9, 2)), np.ones(9), np.ones(9))


def test_outputs_that_say_too_little():
    A, b, *_ = reference.draw(np.random.default_rng(4), 30, 5)
    for v in (np.zeros(30), -np.ones(30)):
        with pytest.raises(InvalidDataError, match="no positive entry"):
            unrelu.recover_latent(A, b, v)
    with pytest.raises(InvalidDataError, match=r"only 3 entries .* 5 latent numbers"):
        unrelu.recover_latent(A, b, np.concatenate([np.ones(3), np.zeros(27)]))
    with pytest.raises(InvalidDataError, match="missing everywhere"):
        unrelu.recover_latent(A, b, np.full(30, np.nan))
    with pytest.raises(InvalidDataError, match="infinite"):
        unrelu.recover_latent(A, b, np.full(30, np.inf))


def test_much_noise_is_no_reason_to_refuse():
    for seed in range(5):
        A, b, _, v, _ = reference.draw(np.random.default_rng(seed), 100, 10, noise=1.0)
        assert np.isfinite(unrelu.recover_latent(A, b, v).latent).all()


@pytest.mark.parametrize("noise_scale", [0.0, -1.0, np.nan, np.inf, "x"])
def test_bad_noise_scales(noise_scale):
    with pytest.raises(InvalidParameterError, match="noise_scale"):
        RobustLatent(noise_scale=noise_scale)
