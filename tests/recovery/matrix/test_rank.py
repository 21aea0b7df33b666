"""The number of components by held-out cells."""

import numpy as np
import pytest

from unrelu.errors import InvalidDataError
from unrelu.recovery.matrix.descent import CensoredALS, Task
from unrelu.recovery.matrix.factors import Cells
from unrelu.recovery.matrix.matrix import _SHARE, _smallest_as_good, choose_components, fit_task


def draw(seed, k, noise, n=200, d=40):
    rng = np.random.default_rng(seed)
    T = rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + 0.5 * rng.standard_normal(d)
    return np.maximum(T + noise * rng.standard_normal(T.shape), 0.0)


def choose(X, seed=0, **options):
    task = Task(Cells(X), 1, **options)
    return choose_components(task, lambda trial: fit_task(trial, CensoredALS(), "centered").factors, seed)


@pytest.mark.parametrize(
    ("seed", "k", "noise"),
    [
        *((seed, seed + 1, 0.0) for seed in range(4)),
        (1, 2, 0.3),
        *(pytest.param(seed, seed + 1, 0.3, marks=pytest.mark.slow) for seed in (0, 2, 3)),
    ],
)
def test_the_true_rank_is_found(seed, k, noise):
    assert choose(draw(seed, k, noise), seed)[0] == k


def test_errors_are_those_of_cells_that_were_not_shown():
    X, seen = draw(5, 2, 0.3), []

    def fit(task):
        fitted = fit_task(task, CensoredALS(), "centered").factors
        seen.append((task, fitted))
        return fitted

    _, errors, _ = choose_components(Task(Cells(X), 1), fit, 9)
    hidden = Cells(X, (_SHARE, 9)).hidden(0, len(X))
    for (task, fitted), (number, error) in zip(seen, errors, strict=True):
        assert task.n_components == number
        np.testing.assert_array_equal(np.isnan(task.cells.rows(0, len(X))), hidden)
        misses = (X - np.maximum(fitted.matrix(), 0.0))[hidden]
        assert error == pytest.approx(np.linalg.norm(misses) / np.linalg.norm(X[hidden]), rel=1e-12)
    assert [number for number, _ in errors] == list(range(1, len(errors) + 1))


def test_the_search_ends_at_an_exact_fit_and_reports_progress():
    reported = []
    task = Task(Cells(draw(6, 3, 0.0)), 1, progress=reported.append)
    fit = lambda trial: fit_task(trial, CensoredALS(), "centered").factors  # noqa: E731
    _, errors, _ = choose_components(task, fit, 0)
    assert any(step.state is None and step.words.startswith("2 components, iteration") for step in reported)
    reported = [step for step in reported if step.state is not None]  # the others are of iterations
    assert tuple(step.state for step in reported) == errors
    assert [(step.stage, step.done) for step in reported] == [
        ("Choosing the number of components", k) for k in (1, 2, 3)
    ]
    assert reported[1].words == f"held-out error by number 1: {errors[0][1]:.2g}, 2: {errors[1][1]:.2g}"
    assert len(errors) == 3
    assert errors[-1][1] < 1e-6


def test_noise_does_not_buy_rank():
    """The smallest rank within a standard error of the best, from the rows' differences."""
    rng = np.random.default_rng(0)
    good = rng.random(400)
    as_good = good + 0.1 * rng.standard_normal(400)
    worse = good + 0.05 + 0.1 * rng.standard_normal(400)
    assert _smallest_as_good([worse, as_good - as_good.mean() + good.mean() + 1e-4, good], 400.0) == 2
    assert _smallest_as_good([worse, worse, good], 400.0) == 3
    assert _smallest_as_good([good, good], 400.0) == 1


def test_seeds_choose_other_cells():
    X = draw(7, 2, 0.0)
    first, again, other = choose(X, 0), choose(X, 0), choose(X, 1)
    assert first[:2] == again[:2]
    assert first[1] != other[1]


def test_missing_cells_do_not_count():
    X = draw(8, 2, 0.0)
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    assert choose(X)[0] == 2


def test_a_table_no_rank_fits_is_refused():
    with pytest.raises(InvalidDataError, match="No component can be fitted: too few values above the floor"):
        choose(np.zeros((20, 5)))
