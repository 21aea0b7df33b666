"""One trial: what is drawn, from which streams, and what an oracle sees."""

from __future__ import annotations

import numpy as np
import pytest

from unrelu.contracts import Assumptions
from unrelu.errors import NotSemidefiniteError
from unrelu.methods import OnePass
from unrelu.papers import runner
from unrelu.papers.runner import draw, fit_errors, rows_for
from unrelu.papers.study import Curve, Setting


def test_a_draw_depends_on_its_entropy_alone():
    setting = Setting(200, 3, inlier=0.9)
    one, same, other = draw(setting, (0, 1, 2, 3)), draw(setting, (0, 1, 2, 3)), draw(setting, (0, 1, 2, 4))
    np.testing.assert_array_equal(one[1], same[1])
    assert one[3] == same[3] != other[3]
    assert not np.array_equal(one[0].mean, other[0].mean)


def test_outliers_replace_rows_and_change_nothing_else():
    _, clean, all_inlier, _ = draw(Setting(5000, 4), (7,))
    _, mixed, is_inlier, _ = draw(Setting(5000, 4, inlier=0.8), (7,))
    assert all_inlier.all()
    np.testing.assert_array_equal(mixed[is_inlier], clean[is_inlier])
    outliers = mixed[~is_inlier]
    assert abs(len(outliers) / 5000 - 0.2) < 4 * np.sqrt(0.16 / 5000)
    assert abs(outliers.mean() - 5.0) < 4 / np.sqrt(outliers.size)
    assert abs(outliers.std() - 1.0) < 4 / np.sqrt(outliers.size)


def test_the_model_is_as_the_papers_say():
    truth, *_ = draw(Setting(10, 6, condition_number=25.0), (0,))
    np.testing.assert_allclose(np.linalg.cond(truth.covariance), 25.0)
    assert (truth.mean >= 0.0).all()
    np.testing.assert_allclose(draw(Setting(10, 6), (0,))[0].covariance, np.eye(6), atol=1e-12)


class Recording:
    """Learns as OnePass does, and remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[int, Assumptions]] = []
        self.seeds: list[int] = []

    def learn(self, evidence, assumptions, seed):
        learned = OnePass().learn(evidence, assumptions)
        self.given.append((learned.report.n_rows, assumptions))
        self.seeds.append(seed)
        return learned


def test_an_oracle_learns_from_the_inlier_rows():
    drawn = draw(Setting(3000, 3, inlier=0.8), (1,))
    method = Recording()
    everything, oracle = (fit_errors(Curve("c", method, oracle=o), drawn) for o in (False, True))
    (all_rows, assumed), (inlier_rows, _) = method.given
    assert all_rows == 3000
    assert inlier_rows == drawn[2].sum() < 3000
    assert assumed == Assumptions(floor=(0.0,) * 3, nonnegative_mean=True)
    assert oracle["weights"] < 0.1 * everything["weights"]


def test_a_repeated_fit_counts_its_shortest_time(monkeypatch):
    method, clock = Recording(), iter([0.0, 3.0, 10.0, 11.0, 20.0, 22.0])
    drawn = draw(Setting(100, 2), (1,))
    monkeypatch.setattr(runner.time, "process_time", lambda: next(clock))
    assert fit_errors(Curve("c", method), drawn, repeats=3)["seconds"] == 1.0
    assert len(method.given) == 3


def test_the_seed_of_a_run_reaches_the_method():
    method, drawn = Recording(), draw(Setting(100, 2), (1,))
    fit_errors(Curve("c", method), drawn)
    assert method.seeds == [drawn[3]]


def test_outliers_in_one_block_are_the_same_rows():
    drawn = draw(Setting(500, 3, inlier=0.8), (4,))
    anywhere, block, oracle = (
        rows_for(Curve("c", OnePass(), **how), drawn) for how in ({}, {"in_block": True}, {"oracle": True})
    )
    _, rows, is_inlier, _ = drawn
    inlier = int(is_inlier.sum())
    np.testing.assert_array_equal(block[:inlier], oracle)
    np.testing.assert_array_equal(block[inlier:], rows[~is_inlier])
    np.testing.assert_array_equal(np.sort(block, axis=0), np.sort(anywhere, axis=0))


def test_a_matrix_that_is_no_covariance_has_errors_too():
    """Algorithm 1 as written may give one; the papers' errors of it are those of its entries."""
    drawn = draw(Setting(500, 3), (4,))
    truth = drawn[0]
    covariance = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])

    class Literal:
        def learn(self, evidence, assumptions, seed):
            raise NotSemidefiniteError("no", truth.mean + 1.0, covariance)

    errors = fit_errors(Curve("c", Literal()), drawn)
    assert errors["bias"] == pytest.approx(1.0)  # sqrt(3) / |W|, W orthonormal
    assert errors["weights"] == pytest.approx(np.linalg.norm(covariance - np.eye(3)) / 3.0)
    assert (errors["kl"], errors["tv_bound"]) == (np.inf, 1.0)
