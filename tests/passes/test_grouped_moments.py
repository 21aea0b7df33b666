"""Groups of rows against rows sliced by hand, and that no split of the rows changes them."""

import numpy as np
import pytest

from unrelu.contracts import Assumptions, Block, RowLabels
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.pair_moments import GROUPS, GroupedMomentsQuestion, PairMomentsQuestion, most_apart, whole_of
from unrelu.passes.tiles import row_keys

PLAIN = PairMomentsQuestion((0.0,) * 3, (0.0,) * 3)
ASK = GroupedMomentsQuestion(PLAIN)


def table(n=400, missing=False):
    rng = np.random.default_rng(1)
    x = np.maximum(rng.standard_normal((n, 3)) + 0.3, 0.0)
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x


def labelled(codes):
    texts, index = np.unique([f"day {code}" for code in codes], return_inverse=True)
    return RowLabels(index, tuple(texts.tolist()))


def asked(x, codes, cuts=(), weights=None):
    """The merged record of blocks between the cuts."""
    record = None
    for rows in np.split(np.arange(len(x)), cuts):
        groups = None if codes is None else labelled(codes[rows])
        part = ASK(Block(x[rows], int(rows[0]), None if weights is None else weights[rows], groups))
        record = part if record is None else record.merge(part)
    return record


def assert_same(first, second):
    for a, b in ((first, second), (second, first)):
        about = a._about(b.origin)
        for name in ("count", "cross", "masked_sum", "masked_square"):
            np.testing.assert_allclose(getattr(about, name), getattr(b, name), rtol=1e-10, atol=1e-9)
    assert (first.n_rows, first.observed is None) == (second.n_rows, second.observed is None)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n_labels", [7, 60, 61, 200])
def test_groups_are_the_rows_that_have_them(n_labels, missing):
    x = table(missing=missing)
    codes = np.random.default_rng(2).integers(n_labels, size=len(x))
    codes[:n_labels] = np.arange(n_labels)
    record = asked(x, codes)
    assert len(record.parts) == n_labels or (n_labels > 60 and GROUPS - 3 < len(record.parts) <= GROUPS)
    if n_labels <= 60:
        assert set(record.labels) == {f"day {code}" for code in range(n_labels)}
        for label, part in zip(record.labels, record.parts, strict=True):
            assert_same(part, PLAIN(Block(x[codes == int(label.split()[1])])))
    assert_same(record.whole, PLAIN(Block(x)))
    for part, others in zip(record.parts, record.left_out(), strict=True):
        assert_same(part.merge(others), record.whole)
        assert others.n_rows == len(x) - part.n_rows


@pytest.mark.parametrize("n_labels", [None, 7, 45, 90])
@pytest.mark.parametrize("cuts", [(1,), (40, 90, 300)])
def test_any_split_gives_the_same_groups(n_labels, cuts):
    x, weights = table(), np.random.default_rng(3).gamma(2.0, size=400)
    codes = None if n_labels is None else np.arange(400) % n_labels
    whole, parts = asked(x, codes, weights=weights), asked(x, codes, cuts, weights)
    assert whole.labels == parts.labels
    for first, second in zip(whole.parts, parts.parts, strict=True):
        assert_same(first, second)


def test_labels_stay_whole_when_they_are_dealt():
    x, codes = table(), np.arange(400) % 100
    record = asked(x, codes)
    assert [part.n_rows % 4 for part in record.parts] == [0] * len(record.parts), "4 rows of every label"
    again = record.merge(asked(x[codes == 3], codes[codes == 3]))
    grown = [after.n_rows - before.n_rows for before, after in zip(record.parts, again.parts, strict=True)]
    assert sorted(grown)[-2:] == [0, 4]


def test_rows_are_dealt_as_if_at_random():
    groups = (row_keys(0, np.arange(100_000)) % np.uint64(20)).astype(int)
    sizes = np.bincount(groups)
    assert abs(sizes - 5000).max() < 4.5 * np.sqrt(5000 * 0.95)
    for period in (2, 7, 20):  # whatever comes in turn is in all groups
        spread = np.bincount(groups[::period], minlength=20)
        assert spread.min() > 0.85 * spread.mean()
    assert np.bincount((groups[1:] - groups[:-1]) % 20).min() > 4500


def test_rows_seen_before_count_on():
    x = table()
    later = GroupedMomentsQuestion(PLAIN, rows_before=150)(Block(x[150:]))
    joined = asked(x[:150], None).merge(later)
    for first, second in zip(joined.parts, asked(x, None).parts, strict=True):
        assert_same(first, second)


def test_bad_cells_are_found_in_the_rows_where_they_are():
    x = table()
    x[[123, 321], 1] = -2.0
    for codes in (None, np.arange(400) % 5):
        with pytest.raises(InvalidDataError, match=r"column 1 \(2, first in row 123 \(the first is 0\)\)"):
            asked(x, codes, (100,)).whole.screening.check(Assumptions((0.0,) * 3), None)


def test_long_blocks_go_run_by_run(monkeypatch):
    x, codes = table(), np.arange(400) % 7
    at_once = asked(x, codes)
    monkeypatch.setattr("unrelu.passes.pair_moments._RUN_ROWS", 50)
    for first, second in zip(at_once.parts, asked(x, codes).parts, strict=True):
        assert_same(first, second)


def test_other_groups_do_not_join():
    x = table()
    with pytest.raises(InvalidParameterError, match="for all of them or for none"):
        asked(x, None).merge(asked(x, np.arange(400) % 5))


def test_effective_groups_and_plain_records():
    x = table()
    assert asked(x, np.arange(400) % 5).effective_groups == pytest.approx(5.0)
    assert asked(x, np.minimum(np.arange(400), 1)).effective_groups == pytest.approx(1.0, abs=0.01)
    assert whole_of(PLAIN(Block(x))).n_rows == whole_of(asked(x, None)).n_rows == 400
    assert most_apart(10_000) == GROUPS
