"""What benchmarks/defaults judges by is right where the answer is known."""

import warnings

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import rankdata

import unrelu
from benchmarks.__main__ import NAMES
from benchmarks.defaults import STUDIES
from benchmarks.defaults.answers import REFUSED, RIVALS, Answer, Default, count_absurd, default, own
from benchmarks.defaults.kinds import KINDS, NAMED, SHARES, D, draw
from benchmarks.defaults.matrix import Place, Summary, Trial, claims_of, places
from benchmarks.rivals import ros

NOTHING = np.zeros(D)


def answer(errors=(1.0, 1.0, 1.0), z=0.0, warned=(), absurd=0):
    return Default(errors, np.full(D, z), NOTHING, warned, absurd)


def test_it_is_one_of_the_benchmarks():
    assert "defaults" in NAMES
    assert set(STUDIES) == {"matrix", "intervals", "rubin", "time"}
    assert len(places(10**9)) == 12 * 3 * 3


# --- tables -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("share", SHARES)
def test_as_many_cells_are_hidden_as_asked(kind, share):
    table = draw(kind, 20_000, share, 1)
    outliers = 0.05 if kind.dirty else 0.0  # which are never hidden
    assert table.hidden.mean(axis=0) == pytest.approx(share, abs=4.0 * 0.5 / np.sqrt(20_000) + outliers * share)
    assert not (table.scored & ~table.hidden).any()
    assert (table.behind <= table.limit)[table.scored].all() or kind.name == "ties"
    assert kind.positive == (bool((table.behind > 0.0).all()) and "floor" in table.options)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_truth_is_that_of_other_rows(kind):
    table = draw(kind, 50_000, 0.5, 2)
    scores = ndtri((np.apply_along_axis(rankdata, 0, table.behind) - 0.5) / len(table.x))
    assert np.abs(np.corrcoef(scores, rowvar=False) - table.correlation).max() < 5.0 * 1.5 / np.sqrt(50_000)
    values = table.x if kind.name == "counts" else table.behind
    assert np.abs((values.mean(axis=0) - table.mean) / table.sd).max() < 5.0 / np.sqrt(50_000)
    assert values.std(axis=0) == pytest.approx(table.sd, rel=0.1)
    logs = np.log(table.behind).std(axis=0) if kind.positive else values.std(axis=0)
    assert logs == pytest.approx(table.scale, rel=0.1)
    assert 0.4 < table.correlation[0, 1] < 0.8


@pytest.mark.parametrize(
    ("name", "wrong"), [("zero-inflated", 0.25), ("outlier rows", 0.05), ("bad cells", 0.03), ("normal", 0.0)]
)
def test_what_is_not_inlier(name, wrong):
    table = draw(NAMED[name], 20_000, 0.5, 3)
    changed = table.x != np.maximum(table.behind, table.limit)
    above = table.behind > table.limit
    share = changed[above].mean() if name == "zero-inflated" else changed.mean()
    assert share == pytest.approx(wrong, abs=0.01)
    if name == "outlier rows":
        assert set(changed.sum(axis=1)) == {0, D}


def test_every_laboratory_has_its_limit():
    table = draw(NAMED["several limits"], 2000, 0.5, 0)
    for column in (table.limit / table.limit.min(axis=0)).T:
        assert len(np.unique(column)) == 2
    np.testing.assert_array_equal(table.options["floor"], table.limit)


def test_errors_of_cells_are_in_deviations():
    table = draw(NAMED["lognormal"], 200, 0.5, 0)
    assert table.cell_errors(table.behind) == 0.0
    assert table.cell_errors(table.behind * np.exp(table.scale)) == pytest.approx(1.0)
    assert np.isfinite(table.cell_errors(-table.behind))
    assert np.isnan(draw(NAMED["counts"], 200, 0.5, 0).cell_errors(table.behind))


# --- rivals -----------------------------------------------------------------------------------------


def test_plotting_positions_by_hand():
    one = ros.positions(np.array([1.0, 4.0, 2.0, 1.0, 8.0]), np.array([True, False, False, True, False]))
    assert one == pytest.approx([0.4 / 3, 0.7, 0.55, 0.8 / 3, 0.85])
    two = ros.positions(np.array([1.0, 2.0, 5.0, 8.0]), np.array([True, False, True, False]))
    assert two == pytest.approx([0.1875, 0.5625, 0.375, 0.875])


def test_order_statistics_go_on_along_their_line():
    z = ndtri(ros.positions(np.array([1.0, 4.0, 2.0, 1.0, 8.0]), np.array([True, False, False, True, False])))
    values = np.where([True, False, False, True, False], 7.0 + 3.0 * ndtri(0.4), 7.0 + 3.0 * z)
    found = ros.fill(values, np.array([True, False, False, True, False]))
    assert found == pytest.approx(7.0 + 3.0 * z)


def test_rivals_by_hand():
    table = draw(NAMED["lognormal"], 400, 0.5, 0)
    for name, ask in RIVALS.items():
        answer = ask(table)
        assert np.isfinite(answer.errors[0]), name
        assert np.isnan(answer.errors[2]) == (name in ("np.corrcoef", "Spearman")), name
    half = np.where(table.hidden, table.limit / 2.0, table.x)
    off = (np.corrcoef(np.log(half), rowvar=False) - table.correlation)[np.triu_indices(D, 1)]
    wanted = (np.mean(off**2), np.mean(((half.mean(axis=0) - table.mean) / table.sd) ** 2), table.cell_errors(half))
    assert RIVALS["limit/2"](table).errors == pytest.approx(wanted)
    ranks = np.corrcoef(np.apply_along_axis(rankdata, 0, table.x), rowvar=False)
    off = (2.0 * np.sin(np.pi * ranks / 6.0) - table.correlation)[np.triu_indices(D, 1)]
    assert RIVALS["Spearman"](table).errors[0] == pytest.approx(np.mean(off**2))
    raw = (np.corrcoef(table.x, rowvar=False) - table.correlation)[np.triu_indices(D, 1)]
    assert RIVALS["np.corrcoef"](table).errors[0] == pytest.approx(np.mean(raw**2))


# --- what is made of it -----------------------------------------------------------------------------


def test_the_default_is_the_call_without_options():
    table = draw(NAMED["normal"], 300, 0.5, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = unrelu.RectifiedGaussianLearner().fit(table.x)
    off = (learner.correlation_ - table.correlation)[np.triu_indices(D, 1)]
    assert default(table).errors[0] == pytest.approx(np.mean(off**2), rel=1e-9)


def test_an_option_that_refuses_is_as_far_off_as_can_be():
    table = draw(NAMED["normal"], 60, 0.5, 0)
    assert own(table, {"margins": "log", "method": "one_pass"}) is REFUSED
    assert np.isfinite(own(table, {"margins": "normal", "method": "one_pass"}).errors).all()


def test_absurd_values_are_counted():
    table = draw(NAMED["lognormal"], 100, 0.5, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        imputer = unrelu.FloorImputer(margins="log", **table.options).fit(table.x)
    filled = imputer.transform(table.x)
    assert count_absurd(table, imputer, filled, 0) == 0
    filled[3, 2], filled[4, 0], filled[5, 1] = -1e-9, np.nan, 10.1 * table.x[:, 1].max()
    assert count_absurd(table, imputer, filled, 0) == 3


def test_the_best_option_is_chosen_by_other_tables():
    a, b = (Answer((1.0, 1.0, np.nan)), Answer((9.0, 9.0, np.nan)))
    trials = [Trial(answer(), {"a": first, "b": second}, {}) for first, second in ((a, b), (b, a), (a, b))]
    found, name = Summary(Place(KINDS[0], 60, 0.5), trials).best(0)
    # The others of the first table like both equally (then the first counts), those of the second like a better.
    assert name == "a"
    assert found == pytest.approx(np.sqrt((1.0 + 9.0 + 1.0) / 3.0))


def test_a_ratio_that_may_be_noise_is_not_held_against_it():
    """Log ratios of single tables are 0 and log 3: their jackknife is nearly that of a mean."""
    trials = [Trial(answer(errors=(error, 1.0, 1.0)), {"a": Answer((1.0, 1.0, 1.0))}, {}) for error in (1.0, 9.0) * 8]
    summary = Summary(Place(KINDS[0], 60, 0.5), trials)
    assert summary.ratio(0) == pytest.approx(np.sqrt(5.0))
    error = 0.5 * 4.0 / np.sqrt(15) / 5.0  # of log sqrt(m): half of that of m = 5 over m
    assert summary.surely(0) == pytest.approx(np.sqrt(5.0) * np.exp(-2.0 * error), rel=0.01)
    assert summary.surely(1) == 1.0


def held(summaries):
    return {claim.name: claim.holds for claim in claims_of(summaries)}


def test_claims_can_be_missed():
    rivals = {name: Answer((1.0, 1.0, 1.0)) for name in RIVALS}

    def summary(name, ours):
        return Summary(Place(NAMED[name], 200, 0.5), [Trial(ours, {"a": Answer((1.0, 1.0, 1.0))}, rivals)] * 4)

    good = [
        summary("normal", answer()),
        summary("t5", answer(z=3.0, warned=("tails",))),
        summary("bad cells", answer()),
    ]
    assert all(holds is not False for holds in held(good).values())
    bad = [
        summary("normal", answer(warned=("skewed",))),
        summary("t5", answer(errors=(1.0, 1.3, 1.0), z=3.0)),
        summary("lognormal", answer(absurd=1)),
        summary("bad cells", answer(errors=(1.3, 1.0, 1.0), warned=("refused: InvalidDataError",))),
    ]
    missed = {name for name, holds in held(bad).items() if holds is False}
    assert missed == {
        "correlations: default / best of its own options less noise, worst place, bad rows or cells",
        "means: default / best of its own options less noise, worst place, no bad rows or cells",
        "share with a warning, of tables that are wrong",
        "places that are wrong, with a warning in fewer than 95 % of their tables",
        "share with a warning, of clean tables",
        "absurd values of positive columns: filled, drawn, predicted, sampled",
        "tables that the default refuses",
    }
