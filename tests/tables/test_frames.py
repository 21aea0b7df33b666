"""Tables of other libraries, given to estimators as they are."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import unrelu
from tests.warned import warns
from unrelu.contracts import CellLimits
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.tables import ArraySamples, read_frame

ROWS = unrelu.synthetic.random_model(3, random_state=0).sample(300, random_state=1).round(4)
NAMES = ["a", "b", "c"]


def learned(table, **more) -> np.ndarray:
    return unrelu.RectifiedGaussianLearner().fit(table, **more).distribution_.covariance


def with_limits(frame_of):
    """ROWS as a frame whose first column is text: what is 0 says "<0"."""
    texts = [f"{value}" if value > 0.0 else "<0" for value in ROWS[:, 0].tolist()]
    return frame_of({"a": texts, "b": ROWS[:, 1], "c": ROWS[:, 2]})


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame, lambda data: pl.DataFrame(data).lazy()])
def test_frames_with_limits_as_text(frame_of):
    learner = unrelu.RectifiedGaussianLearner().fit(with_limits(frame_of))
    np.testing.assert_array_equal(learner.distribution_.covariance, learned(pd.DataFrame(ROWS, columns=NAMES)))
    assert learner.feature_names_in_.tolist() == NAMES
    samples = read_frame(with_limits(frame_of))
    assert samples.limits == CellLimits(((0, 0.0),))
    np.testing.assert_array_equal(next(samples.blocks()).values, ROWS)


def test_weights_go_with_frames_of_text_and_with_sparse_matrices():
    weights = np.random.default_rng(0).uniform(0.5, 1.5, 300)
    expected = learned(ROWS, sample_weight=weights)
    np.testing.assert_array_equal(learned(with_limits(pd.DataFrame), sample_weight=weights), expected)
    np.testing.assert_allclose(learned(scipy.sparse.csr_array(ROWS), sample_weight=weights), expected, rtol=1e-9)
    with pytest.raises(InvalidParameterError, match="weights of their own"):
        ArraySamples(ROWS, weights).weighted(weights)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_sparse_matrices(kind):
    np.testing.assert_allclose(learned(kind(ROWS)), learned(ROWS), rtol=1e-9)


@pytest.mark.parametrize("short", ["float16", "bfloat16"])
def test_short_floats(short):
    if short == "bfloat16":
        short = pytest.importorskip("ml_dtypes").bfloat16
    values = ROWS.astype(short)
    np.testing.assert_allclose(learned(values), learned(values.astype(np.float32)), rtol=1e-5)
    assert next(ArraySamples(values).blocks()).values.dtype == np.float32


def test_lazy_frames_of_numbers():
    np.testing.assert_array_equal(learned(pl.DataFrame(ROWS, schema=NAMES).lazy()), learned(ROWS))


def test_several_limits_in_a_frame_are_those_of_cells():
    frame = pd.DataFrame({"a": ["<0.1", "<0.5", "0.3", 2.0, None], "b": [1.0, 2.0, 3.0, 4.0, 5.0]})
    block = next(read_frame(frame).blocks())
    np.testing.assert_array_equal(block.values[:, 0], [0.1, 0.5, 0.3, 2.0, np.nan])
    np.testing.assert_array_equal(block.censoring[:, 0], [-1, -1, 0, 0, 0])
    with pytest.raises(InvalidDataError, match=r"column 'a': 2 different limits.*limits='cell' keeps"):
        read_frame(frame, limits="one")
    values = next(read_frame(frame, limits="highest").blocks()).values
    np.testing.assert_array_equal(values[:, 0], [0.5, 0.5, 0.5, 2.0, np.nan])


def test_words_in_a_frame_are_missing_with_a_warning():
    frame = pd.DataFrame({"a": ["ND", "0,5", "1,5"], "b": [1, 2, 3]})
    with warns("nondetect", match=r"column 'a' \(1\)"):
        values = next(read_frame(frame, decimal=",").blocks()).values
    np.testing.assert_array_equal(values, [[np.nan, 1], [0.5, 2], [1.5, 3]])
    assert read_frame(frame, decimal=",", nondetect="floor").limits == CellLimits(((0, 0.5),))


@pytest.mark.parametrize("library", [pd, pl])
def test_all_columns_of_text_are_named_with_a_line_that_works(library):
    rng = np.random.default_rng(0)
    columns = {"site": ["A", "B"] * 50, "a": rng.normal(size=100).clip(0), "when": ["2020-01-01"] * 100}
    days = [datetime.date(2020, 1, 1)] * 100
    X = library.DataFrame({**columns, "day": library.Series(days).astype("datetime64[ns]") if library is pd else days})
    with pytest.raises(
        InvalidDataError, match=r"Columns 'site' \(text, row 0 .*: 'A'\), 'when' .*, 'day' \(dates"
    ) as shown:
        unrelu.RectifiedGaussianLearner(margins="normal").fit(X)
    line = str(shown.value).rpartition("Leave them out: ")[2].rstrip(".")
    learner = unrelu.RectifiedGaussianLearner(margins="normal").fit(eval(line, {"X": X}))
    assert learner.n_features_in_ == 1
    with pytest.raises(InvalidDataError, match="'when'"):
        read_frame(X)


def test_all_columns_of_text_of_an_array_are_named_with_a_line_that_works():
    rng = np.random.default_rng(0)
    X = np.column_stack([["A", "B"] * 50, rng.normal(size=(100, 2)).clip(0).astype(str), ["mg"] * 100])
    with pytest.raises(
        InvalidDataError, match=r"Columns number 0 \(text, row 0 .*: 'A'\), number 3 .*np.delete"
    ) as shown:
        unrelu.RectifiedGaussianLearner(margins="normal").fit(X)
    line = str(shown.value).rpartition("Leave them out: ")[2].rstrip(".")
    assert unrelu.RectifiedGaussianLearner(margins="normal").fit(eval(line)).n_features_in_ == 2


def test_a_model_says_which_columns_hold_text():
    model = unrelu.RectifiedGaussian([0.0, 0.0], np.eye(2), feature_names=["a", "b"])
    with pytest.raises(InvalidDataError, match=r"Column 'b' holds text \(row 0 .*: 'x'\), not numbers. Leave it out"):
        model.impute(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))


def test_other_text_is_refused_by_row():
    frame = with_limits(pd.DataFrame)
    frame.loc[7, "a"] = "north"
    with pytest.raises(
        InvalidDataError, match=r"Row 7 \(the first is 0\), column 'a': 'north' is not a number. .* to NaN"
    ):
        unrelu.RectifiedGaussianLearner().fit(frame)
    with pytest.raises(InvalidDataError, match="column 'a': 'north' is not a number"):
        read_frame(frame)
    with pytest.raises(InvalidParameterError, match="Expected a pandas or polars frame"):
        read_frame(ROWS)
