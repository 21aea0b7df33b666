"""Mixtures: responsibilities, rounds of EM that climb, records that merge, and the BIC."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from unrelu import RectifiedGaussian
from unrelu.contracts import Assumptions, Block, Evidence
from unrelu.errors import InvalidDataError
from unrelu.fit.robust_rows.mixture import (
    TO_GAIN,
    IndependentComponent,
    Mixture,
    NoiseComponent,
    RepeatedRowComponent,
    Setting,
    column_edges,
    gaussian_from,
    moments_of,
    normalized,
    run_em,
    run_em_on_all,
)
from unrelu.fit.robust_rows.table import prior_record
from unrelu.passes.engine import LocalEngine
from unrelu.passes.tiles import SubsampleQuestion
from unrelu.tables import ArraySamples

INLIER = RectifiedGaussian([0.3, -0.5, 1.0], [[1.0, 0.5, 0.2], [0.5, 1.5, -0.3], [0.2, -0.3, 0.8]])
OUTLIERS = RectifiedGaussian([2.0, 2.0, 2.0], np.eye(3))
N, SHARE = 3000, 0.3


@pytest.fixture(scope="module")
def table():
    """Overlapping outliers: rows 0 to 899, then genuine ones."""
    n_outliers = round(SHARE * N)
    return np.vstack([OUTLIERS.sample(n_outliers, random_state=0), INLIER.sample(N - n_outliers, random_state=1)])


@pytest.fixture(scope="module")
def setting(table):
    assumptions = Assumptions((0.0,) * 3)
    return Setting(assumptions, prior_record(table, assumptions, np.random.default_rng(0)))


def component(setting, rows):
    return gaussian_from(setting.question(Block(rows)), setting)


def evidence(x, weights=None):
    return Evidence(ArraySamples(x, weights=weights), LocalEngine())


@pytest.fixture(scope="module")
def mixture(table, setting):
    """Two components from the wrong rows: half of the genuine ones, and any."""
    first, second = component(setting, table[1500:]), component(setting, table[:1500])
    return Mixture((first, second), np.array([0.6, 0.4]))


@pytest.fixture(scope="module")
def of_all_kinds(table, setting):
    one = component(setting, table[900:])
    edges = column_edges(table, np.zeros(3))
    flat = IndependentComponent.flat(edges)
    scattered = flat.refitted(flat.record(Block(table)))
    parts = (
        one,
        RepeatedRowComponent(table[5], np.zeros(3), 20.0),
        scattered,
        NoiseComponent(-20.0, one.density.log_scale, np.zeros(3)),
    )
    return Mixture(parts, np.array([0.5, 0.1, 0.3, 0.1]))


def test_shares_are_a_softmax_without_overflow():
    joint = np.random.default_rng(0).normal(0.0, 300.0, (200, 4))
    joint[0] = [-1e300, 2.0, 2.0, -1e300]
    shares, sums = normalized(joint)
    expected = np.logaddexp.reduce(joint, axis=1)
    np.testing.assert_allclose(sums, expected, rtol=1e-13)
    np.testing.assert_allclose(shares, np.exp(joint - expected[:, None]), rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(shares[0], [0.0, 0.5, 0.5, 0.0])


class TestPosterior:
    def rows(self, table):
        extra = np.array([[1e8, 1e8, 1e8], [0.0, 0.0, 0.0], [np.nan, np.nan, np.nan], [np.nan, 50.0, 0.0]])
        return np.vstack([table[:200], extra])

    def test_responsibilities_sum_to_one(self, table, of_all_kinds):
        share, _ = of_all_kinds.posterior(self.rows(table))
        np.testing.assert_allclose(share.sum(axis=1), 1.0, rtol=1e-14)
        assert (share >= 0.0).all()

    def test_responsibilities_are_shares_of_the_density(self, table, of_all_kinds):
        rows = table[:200]
        share, density = of_all_kinds.posterior(rows)
        parts = [
            p * np.exp(c.log_density(rows)) for p, c in zip(of_all_kinds.shares, of_all_kinds.components, strict=True)
        ]
        np.testing.assert_allclose(np.exp(density), np.sum(parts, axis=0), rtol=1e-10)
        np.testing.assert_allclose(share, (np.array(parts) / np.sum(parts, axis=0)).T, rtol=1e-10, atol=1e-300)

    def test_the_atom_takes_its_row_and_the_unexplained_takes_the_far_one(self, table, of_all_kinds):
        share, _ = of_all_kinds.posterior(self.rows(table))
        assert share[5, 1] > 0.99
        assert np.delete(share[:, 1], 5).max() == 0.0
        assert share[200, 2] + share[200, 3] > 1.0 - 1e-12

    def test_a_row_without_values_says_nothing(self, table, mixture):
        """Its responsibilities are the shares."""
        share, density = mixture.posterior(np.full((1, 3), np.nan))
        np.testing.assert_allclose(share[0], mixture.shares, rtol=1e-12)
        assert density[0] == pytest.approx(0.0, abs=1e-12)


class TestMoments:
    def sums(self, moments):
        arrays = [moments.totals, np.array([moments.weight, moments.log_likelihood])]
        for record in moments.records:
            if hasattr(record, "cross"):
                about = record._about(np.zeros(3))
                arrays += [about.count, about.cross, about.masked_sum, about.masked_square]
            elif record is not None:
                arrays.append(record)
        return arrays

    @pytest.mark.parametrize("weighted", [False, True])
    def test_two_halves_make_the_whole(self, table, of_all_kinds, weighted):
        ask = partial(moments_of, of_all_kinds)
        w = np.random.default_rng(0).gamma(2.0, size=N) if weighted else None
        cut = 1234
        halves = [Block(table[:cut], 0, None if w is None else w[:cut])]
        halves.append(Block(table[cut:], cut, None if w is None else w[cut:]))
        merged = ask(halves[0]).merge(ask(halves[1]))
        whole = self.sums(ask(Block(table, 0, w)))
        assert len(whole) == 2 + 4 + 1
        for got, expected in zip(self.sums(merged), whole, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)

    def test_totals_are_sums_of_responsibilities(self, table, mixture):
        moments = moments_of(mixture, Block(table))
        share, density = mixture.posterior(table)
        np.testing.assert_allclose(moments.totals, share.sum(axis=0), rtol=1e-12)
        assert moments.log_likelihood == pytest.approx(density.sum())
        assert moments.weight == N
        for k, record in enumerate(moments.records):
            assert record.weight == pytest.approx(share[:, k].sum())

    def test_weights_are_repetitions(self, table, mixture):
        rows = table[:400]
        times = np.random.default_rng(0).integers(1, 4, 400)
        weighted = moments_of(mixture, Block(rows, 0, times.astype(float)))
        repeated = moments_of(mixture, Block(np.repeat(rows, times, axis=0)))
        for got, expected in zip(self.sums(weighted), self.sums(repeated), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-9)

    def test_rows_of_weight_zero_are_absent(self, table, mixture):
        spoiled = np.vstack([table, np.full((100, 3), 1e5)])
        weights = np.repeat([1.0, 0.0], [N, 100])
        got = moments_of(mixture, Block(spoiled, 0, weights))
        expected = moments_of(mixture, Block(table))
        for one, other in zip(self.sums(got), self.sums(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-9)


class TestEM:
    def test_what_has_no_parameters_learns_nothing(self, table, of_all_kinds):
        moments = moments_of(of_all_kinds, Block(table))
        parts = of_all_kinds.refitted(moments.merge(moments)).components
        assert [part is before for part, before in zip(parts, of_all_kinds.components, strict=True)] == [
            part.n_parameters == 0 for part in of_all_kinds.components
        ]

    def test_rounds_climb(self, table, mixture):
        """A round may lose, since components are not quite maximum likelihood: shrinkage by the share s of sampling
        error costs s/2 of log-likelihood a pair of columns, at most 1/2."""
        levels = []
        for _ in range(60):
            moments = moments_of(mixture, Block(table))
            mixture = mixture.refitted(moments)
            levels.append(moments.log_likelihood)
        gains = np.diff(levels)
        assert gains.min() > -0.5 * 3 * 2  # three pairs, two components
        assert levels[-1] - levels[0] > 100.0
        assert gains[-20:].min() > -2e-3  # at the end no more than the level at which EM counts as settled
        assert abs(gains[-1]) < 0.1 * gains[-20]

    def test_ends_where_shares_and_responsibilities_agree(self, table, mixture):
        settled = run_em(evidence(table), mixture, 300)
        assert settled.is_within(TO_GAIN)
        share, density = settled.mixture.posterior(table)
        # One row of prior, and what the last round moved: to_gain of log-likelihood is sqrt(2 to_gain) standard errors.
        error = np.sqrt(share.mean(axis=0) * (1.0 - share.mean(axis=0)) / N)
        np.testing.assert_allclose(settled.mixture.shares, share.mean(axis=0), atol=1.0 / N + 0.1 * error.max())
        assert density.sum() == pytest.approx(settled.log_likelihood, abs=0.01)

    def test_finds_the_two_groups(self, table, mixture):
        settled = run_em(evidence(table), mixture, 300)
        found = settled.mixture
        inlier = found.main_component
        # Overlap makes shares and means less sure than counting would: by three at most, so fifteen for five sigma.
        allowed = 15.0 * np.sqrt(SHARE * (1.0 - SHARE) / N)
        assert found.shares[found.main] == pytest.approx(1.0 - SHARE, abs=allowed)
        assert (np.abs(inlier.mean - INLIER.mean) < 15.0 * INLIER.std / np.sqrt((1.0 - SHARE) * N)).all()
        # Rows are told apart as well as the true parameters can.
        parts = [
            replace(inlier, mean=model.mean, std=model.std, correlation=model.correlation)
            for model in (INLIER, OUTLIERS)
        ]
        truth, _ = Mixture(tuple(parts), np.array([1.0 - SHARE, SHARE])).posterior(table)
        share, _ = found.posterior(table)
        for rows in (slice(0, 900), slice(900, N)):
            assert share[rows, found.main].mean() == pytest.approx(truth[rows, 0].mean(), abs=allowed)

    @pytest.mark.parametrize(("seed", "n_outliers"), [pytest.param(16, 946, marks=pytest.mark.slow), (31, 958)])
    def test_settled_is_settled(self, seed, n_outliers):
        """Shrinkage lets the log-likelihood fall for a few rounds before it climbs on: ten times the level at which EM
        counts as settled is allowed."""
        rows = [
            OUTLIERS.sample(n_outliers, random_state=2 * seed),
            INLIER.sample(N - n_outliers, random_state=2 * seed + 1),
        ]
        x = np.vstack(rows)
        assumptions = Assumptions((0.0,) * 3)
        setting = Setting(assumptions, prior_record(x, assumptions, np.random.default_rng(0)))
        first, second = component(setting, x[1500:]), component(setting, x[:1500])
        settled = run_em(evidence(x), Mixture((first, second), np.array([0.6, 0.4])), 300)
        mixture, levels = settled.mixture, []
        for _ in range(40):
            moments = moments_of(mixture, Block(x))
            mixture = mixture.refitted(moments)
            levels.append(moments.log_likelihood)
        assert max(levels) - settled.log_likelihood < 0.1

    def test_stops_after_the_rounds_it_was_given(self, table, mixture):
        settled = run_em(evidence(table), mixture, 4)
        assert settled.rounds == 4
        assert not settled.is_within(TO_GAIN)
        further = settled.run_on(evidence(table))
        assert settled.rounds < further.rounds <= settled.rounds + 10
        assert further.log_likelihood > settled.log_likelihood

    def test_bic(self, table, mixture):
        settled = run_em(evidence(table), mixture, 5)
        assert settled.mixture.n_parameters == 2 * 9 + 1
        expected = -2.0 * settled.log_likelihood + 19 * np.log(N)
        assert settled.bic == pytest.approx(expected)
        weighted = run_em(evidence(table, np.full(N, 2.0)), mixture, 5)
        assert weighted.weight == 2 * N
        assert weighted.bic == pytest.approx(-2.0 * weighted.log_likelihood + 19 * np.log(2 * N))

    def test_hoped_bic_foresees_where_em_will_end(self, table, mixture):
        early = run_em(evidence(table), mixture, 12)
        assert early.to_gain > 0.1  # else there is nothing to foresee
        end = early
        while not end.is_within(TO_GAIN):
            end = end.run_on(evidence(table))
        assert early.hoped_bic == pytest.approx(early.bic - 2.0 * early.to_gain)
        assert early.hoped_bic < early.bic
        assert abs(early.hoped_bic - end.bic) < 0.5 * abs(early.bic - end.bic)

    def test_one_component_settles_at_once(self, table, setting):
        settled = run_em(evidence(table), Mixture((component(setting, table),), np.ones(1)), 50)
        assert settled.is_within(TO_GAIN)
        assert settled.rounds <= 5

    def test_blocks_do_not_matter(self, table, mixture):
        whole = run_em(evidence(table), mixture, 6)
        parts = run_em(Evidence(ArraySamples(table, block_rows=700), LocalEngine()), mixture, 6)
        np.testing.assert_allclose(parts.mixture.shares, whole.mixture.shares, rtol=1e-8)
        np.testing.assert_allclose(parts.mixture.main_component.mean, whole.mixture.main_component.mean, atol=1e-8)


class TestAllRows:
    def sampled(self, table, size):
        return evidence(table).collect(SubsampleQuestion.under(Assumptions((0.0,) * 3), size, 0))

    def test_rows_beyond_the_sample_are_read_until_they_agree(self, table, mixture):
        sample, steps = self.sampled(table, 500), []
        settled = run_em(evidence(sample.values), mixture, 40)
        found, rounds = run_em_on_all(evidence(table), settled, sample, None, steps.append)
        assert 1 <= len(steps) == rounds - settled.rounds
        assert [step.done for step in steps] == list(range(1, len(steps) + 1))
        assert {step.stage for step in steps} == {"Reading all rows"}
        expected = run_em(evidence(table), settled.mixture, len(steps)).mixture
        np.testing.assert_array_equal(found.shares, expected.shares)

    def test_a_sample_of_all_rows_needs_no_more_rounds(self, table, mixture):
        sample, steps = self.sampled(table, len(table)), []
        settled = run_em(evidence(table), mixture, 5)
        assert run_em_on_all(evidence(table), settled, sample, None, steps.append) == (settled.mixture, 5)
        assert steps == []

    def test_some_of_the_columns(self, table):
        """A mixture of two columns, asked of the whole table."""
        part = np.array([2, 0])
        inner = np.ascontiguousarray(table[:, part])
        assumptions = Assumptions((0.0,) * 2)
        setting = Setting(assumptions, prior_record(inner, assumptions, np.random.default_rng(0)))
        start = Mixture((component(setting, inner[:1500]), component(setting, inner[1500:])), np.array([0.6, 0.4]))
        alone, within = run_em(evidence(inner), start, 4), run_em(evidence(table), start, 4, columns=part)
        assert within.log_likelihood == pytest.approx(alone.log_likelihood, rel=1e-12)
        np.testing.assert_allclose(within.mixture.shares, alone.mixture.shares, rtol=1e-10)


class TestParts:
    def test_groups_are_told_from_the_inlier_rows_down(self, of_all_kinds):
        shy = Mixture(of_all_kinds.components, np.array([0.1, 0.2, 0.5, 0.2]))
        kinds = ["gaussian", "independent", "repeated row", "unexplained"]
        assert [group.kind for group in shy.groups] == kinds
        assert [group.share for group in shy.groups] == [0.1, 0.5, 0.2, 0.2]

    def test_parts_that_do_not_fit_together_are_refused(self, of_all_kinds):
        with pytest.raises(InvalidDataError, match=r"shares has shape \(3,\) for 4 components"):
            Mixture(of_all_kinds.components, np.ones(3) / 3).check_columns(np.arange(3), 3)
        narrow = RepeatedRowComponent(np.zeros(2), np.zeros(2), 0.0)
        with pytest.raises(InvalidDataError, match="different numbers of columns"):
            of_all_kinds.with_component(narrow, 0.1).check_columns(np.arange(3), 3)
        for columns in ([0, 1, 1], [0, 1, 5], [-1, 0, 1], [0, 1]):
            with pytest.raises(InvalidDataError, match="columns holds"):
                of_all_kinds.check_columns(np.array(columns), 5)
        of_all_kinds.check_columns(np.array([4, 0, 2]), 5)

    def test_finished_mixtures_judge_alike_without_a_prior(self, of_all_kinds, table):
        finished = of_all_kinds.finished()
        np.testing.assert_array_equal(finished.joint(table[:50]), of_all_kinds.joint(table[:50]))
        assert finished.main_component.setting.prior is None

    def test_main_is_the_largest_gaussian(self, of_all_kinds, mixture):
        assert mixture.main == 0
        assert Mixture(mixture.components, np.array([0.2, 0.8])).main == 1
        assert of_all_kinds.main == 0
        shy = Mixture(of_all_kinds.components, np.array([0.1, 0.2, 0.5, 0.2]))
        assert shy.main_component is of_all_kinds.components[0]

    def test_with_and_without(self, mixture, of_all_kinds):
        extra = of_all_kinds.components[1]
        more = mixture.with_component(extra, 0.1)
        np.testing.assert_allclose(more.shares, [0.54, 0.36, 0.1])
        back = more.without(2)
        np.testing.assert_allclose(back.shares, mixture.shares)
        assert back.components == mixture.components

    def test_a_share_never_vanishes(self, table, mixture):
        """The log of a share of 0 would end all hope for a component."""
        moments = moments_of(mixture, Block(table))
        empty = type(moments)(moments.records, np.array([float(N), 0.0]), float(N), 0.0)
        shares = mixture.refitted(empty).shares
        assert shares[1] > 0.0
        assert shares.sum() == pytest.approx(1.0)
