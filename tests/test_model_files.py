"""Files of models with margins. What all model files have in common is tested in test_storage.py."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import unrelu
from unrelu.errors import InvalidParameterError, ModelFileError
from unrelu.margins import BoxCox, Log, Monotone, Normal, Seen
from unrelu.model import RectifiedGaussian, read_header

FREE = Monotone(np.array([0.0, 1.0, 4.0]), np.array([-0.4, 0.3, 2.0]), Seen(0.0, 4.0, 1.0))
SHAPES = [Log(Seen(0.5, 20.0)), FREE, BoxCox(0.3, 0.0, 2.0), Normal()]


@pytest.fixture
def model():
    covariance = np.full((4, 4), 0.3) + 0.7 * np.eye(4)
    floor, ceiling = [0.5, 0.0, -np.inf, -np.inf], [np.inf, np.inf, 3.0, np.inf]
    return RectifiedGaussian([0.1, 0.0, 1.0, -2.0], covariance, floor, list("abcd"), ceiling, None, SHAPES)


def rewritten(path, change=lambda header: None, **arrays):
    """The file with another header, or other arrays, written without our code."""
    with np.load(path, allow_pickle=False) as archive:
        content = dict(archive)
    header = json.loads(content.pop("header").tobytes())
    change(header)
    content = {name: array for name, array in (content | arrays).items() if array is not None}
    with open(path, "wb") as stream:
        np.savez(stream, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **content)
    return path


def test_a_model_with_margins_is_saved_and_loaded(tmp_path, model):
    model.save(tmp_path / "m", details={"site": "north"})
    for again in (
        RectifiedGaussian.load(tmp_path / "m"),
        unrelu.load(tmp_path / "m"),
        pickle.loads(pickle.dumps(model)),
    ):
        assert again == model
        assert again.margins == tuple(SHAPES)
        assert hash(again) == hash(model)
        assert_array_equal(again.sample(20, 1), model.sample(20, 1))
    header = read_header(tmp_path / "m")
    assert (header["format_version"], header["details"]) == (5, {"site": "north"})
    assert header["margins"][2] == {
        "margin": "boxcox",
        **{"exponent": 0.3, "origin": 0.0, "unit": 2.0, "exponent_stderr": pytest.approx(np.nan, nan_ok=True)},
        "seen": {"low": -np.inf, "high": np.inf, "step": 0.0},
    }
    assert model != RectifiedGaussian(model.mean, model.covariance, model.floor, list("abcd"), model.ceiling)


@pytest.mark.parametrize("more", [{}, {"floor": -np.inf}, {"floor": -np.inf, "ceiling": 1.0}, {"margins": [Normal()]}])
def test_what_a_model_does_not_have_is_not_in_its_file(tmp_path, more):
    model = RectifiedGaussian([0.0], [[1.0]], **more)
    model.save(tmp_path / "m")
    assert RectifiedGaussian.load(tmp_path / "m") == model
    assert (read_header(tmp_path / "m")["margins"] is not None) == ("margins" in more)
    with np.load(tmp_path / "m") as archive:
        assert ("ceiling" in archive.files) == ("ceiling" in more)


SEEN = {"low": 0.0, "high": 1.0, "step": 0.0}
WILD = {"exponent": 1.0, "origin": 0.0, "unit": 1e-320, "exponent_stderr": 0.1, "margin": "boxcox", "seen": SEEN}


def margin(header, index):
    return header["margins"][index]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda h: margin(h, 0).update(margin="spline"),
            "it holds a margin 'spline', which this version cannot read",
        ),
        (lambda h: margin(h, 0).update(margin=["log"]), "it holds a margin"),
        (lambda h: margin(h, 0).update(exponent=1.0), "margins.0 has 'exponent', which this version cannot read"),
        (lambda h: margin(h, 2).update(unit=0.0), "positive unit"),
        (lambda h: margin(h, 2).update(exponent=np.inf), "margins.2.exponent is inf"),
        (lambda h: margin(h, 2).update(unit=1e-310), "beyond precision: its unit is 1e-310"),
        (lambda h: margin(h, 2).update(unit=1e300), "beyond precision: its unit"),
        (lambda h: margin(h, 2).update(origin=-1e300), "beyond precision: its origin"),
        (lambda h: margin(h, 2).update(exponent=1e300), "beyond precision: its exponent"),
        (lambda h: margin(h, 0)["seen"].update(step=1e-320), "its step is 9.99"),
        (lambda h: margin(h, 2).update(exponent="half"), "margins.2.exponent is 'half', not of type float"),
        (lambda h: margin(h, 2).pop("exponent"), "its header lacks 'exponent'"),
        (lambda h: h["margins"].pop(), "margins has 3 items instead of 4"),
        (lambda h: h["margins"].__setitem__(0, "log"), "it holds a margin 'log'|margins.0 is 'log'"),
        (lambda h: h["margins"].__setitem__(0, SEEN), "it holds a margin None"),
        (lambda h: h.update(margins=3), "no place for its array margins.1.values"),
        (lambda h: margin(h, 0).update(seen=3), "margins.0.seen is 3 instead of names"),
        (lambda h: h.update(format_version=6), r"newer unrelu \(format 6\); this one reads up to 5"),
    ],
)
def test_damaged_margins_are_refused(tmp_path, model, change, message):
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match=message):
        RectifiedGaussian.load(rewritten(tmp_path / "m", change))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"margins.1.values": np.array([0.0, 2.0, 1.0])}, "finite and rising"),
        ({"margins.1.values": np.array([0.0, np.nan, 1.0])}, "not finite"),
        ({"margins.1.scores": np.array([0.0, 1.0])}, "has shape"),
        ({"margins.1.scores": None}, "is damaged"),
        ({"margins.1.values": np.array([0.0, 5e-324, 1e-323])}, "its spread of values"),
        ({"margins.1.values": np.array([-1.7e308, 0.0, 1.7e308])}, "its values is 1.7e"),
        ({"margins.1.scores": np.array([0.0, 1e-310, 2e-310])}, "its spread of scores"),
    ],
)
def test_damaged_knots_are_refused(tmp_path, model, arrays, message):
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match=message):
        RectifiedGaussian.load(rewritten(tmp_path / "m", **arrays))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda columns: columns["margins"][0].update(margin="spline"), "'spline', which this version cannot read"),
        (lambda columns: columns["margins"].pop(), "columns.margins has 2 items instead of 3"),
        (lambda columns: columns["margins"].__setitem__(0, WILD), "beyond precision: its unit"),
        (lambda columns: columns.update(margins=[1, 2, 3]), "it holds a margin 1, which this version cannot read"),
    ],
)
@pytest.mark.parametrize("name", ["learner", "detector", "mixture", "matrix"])
def test_damaged_margins_of_estimators_are_refused(tmp_path, name, change, message):
    X = np.maximum(np.exp(np.random.default_rng(0).standard_normal((60, 3))), 0.5)
    X[:, 1] = 0.4 + X[:, 0] * np.abs(X[:, 1])
    estimator = {
        "learner": unrelu.RectifiedGaussianLearner(margins="log", floor=0.5),
        "detector": unrelu.FloorOutlierDetector("one_pass", margins="log", floor=0.5),
        "mixture": unrelu.RectifiedGaussianMixture(1, n_init=1, margins="log", floor=0.5),
        "matrix": unrelu.ReLUMatrixRecovery(1, margins="log", floor=0.5, max_iter=3),
    }[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X).save(tmp_path / "m")
    assert unrelu.load(tmp_path / "m")._columns.margins == estimator._columns.margins
    with pytest.raises(ModelFileError, match=message):
        unrelu.load(rewritten(tmp_path / "m", lambda header: change(header["columns"])))


# --- the model itself, with margins ----------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["log", [Log()], ["log"] * 4, [Log] * 4, [Seen()] * 4, [None] * 4])
def test_margins_must_be_margins(wrong):
    with pytest.raises(InvalidParameterError, match=r"margins must be 4 objects of unrelu\.margins, one each"):
        RectifiedGaussian(np.zeros(4), np.eye(4), margins=wrong)


def test_latent_model_and_rows(model):
    latent = model.latent
    assert latent.margins is None
    assert_array_equal(latent.mean, model.mean)
    np.testing.assert_allclose(latent.floor, [np.log(0.5), -0.4, -np.inf, -np.inf])
    np.testing.assert_allclose(latent.ceiling, [np.inf, np.inf, float(SHAPES[2].to_latent(3.0)), np.inf])
    X = model.sample(300, 3, as_seen=False)
    Y = latent.sample(300, 3)
    np.testing.assert_allclose(model.to_latent(X)[:, [0, 2, 3]], Y[:, [0, 2, 3]], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.to_latent(X)[:, 1], np.minimum(Y[:, 1], 2.0), rtol=1e-9, atol=1e-9)
    assert_array_equal(model.to_latent(X) == latent.floor, model.floor == X)
    plain = RectifiedGaussian([0.0], [[1.0]])
    assert plain.latent is plain
    assert_array_equal(plain.to_latent([[-1.0], [2.0]]), [[0.0], [2.0]])


def test_marginals_keep_their_margins(model):
    assert model.marginal(["c", "a"]).margins == (SHAPES[2], SHAPES[0])
    assert model.marginal("d").margins == (Normal(),)
    assert "margins=['log', 'monotone', 'boxcox', 'normal']" in repr(model)
    with pytest.raises(InvalidParameterError, match="cannot be negated"):
        model.negated([True, False, False, False])


def test_the_summary_is_that_of_many_rows(model):
    X = model.sample(200_000, 0)
    for j, row in enumerate(model.column_summary(below="floor")):
        assert (row["column"], row["margin"], row["distribution"]) == ("abcd"[j], SHAPES[j].kind, "as seen")
        limited = (X[:, j] <= model.floor[j]) | (X[:, j] >= model.ceiling[j])
        assert abs(row["share_floored"] - limited.mean()) < 0.005
        assert abs(row["mean"] - X[:, j].mean()) < 0.01 * X[:, j].std() + 1e-3
        quartiles = np.quantile(X[:, j], [0.25, 0.5, 0.75])
        found = [row["lower_quartile"], row["median"], row["upper_quartile"]]
        np.testing.assert_allclose(found, quartiles, atol=0.015 * X[:, j].std())


def test_the_summary_of_small_numbers():
    margin = BoxCox(0.0, 0.0, 1e-9)
    model = RectifiedGaussian([1e-9], [[1e-20]], floor=-np.inf, margins=[margin])
    assert abs(model.column_summary()[0]["mean"] / 1e-9 - 1.0) < 0.02


def test_samples_are_rounded_as_the_table_is():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.poisson(1.2, 3000), np.round(rng.gamma(2.0, size=3000), 1), rng.beta(2.0, 2.0, 3000)])
    model = unrelu.RectifiedGaussianLearner(margins="monotone").fit(X).distribution_
    drawn = model.sample(30_000, 0)
    assert_array_equal(drawn[:, 0], np.rint(drawn[:, 0]))
    assert set(np.unique(drawn[:, 1])) <= set(np.unique(np.round(np.arange(0, 200) / 10, 1)))
    assert (drawn >= X.min(axis=0)).all()
    assert (drawn <= X.max(axis=0)).all()
    for value in (0.0, 1.0, 2.0):
        assert abs((drawn[:, 0] == value).mean() - (X[:, 0] == value).mean()) < 0.03
    assert abs((drawn[:, 0] == 0.0).mean() - (X[:, 0] == 0.0).mean()) < 0.02
    unrounded = model.sample(1000, 0, as_seen=False)
    assert (unrounded[:, 0] != np.rint(unrounded[:, 0])).any()
