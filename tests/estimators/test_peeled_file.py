"""Files of peeled layers: what is saved comes back, but for the rows' units; damaged files are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import unrelu
from unrelu.errors import CannotPeelError, InvalidDataError, ModelFileError
from unrelu.estimators.peeled_file import FORMAT
from unrelu.estimators.peeling import Peeled

D, P = 12, 2


@pytest.fixture(scope="module")
def peeled():
    """One layer, learned, with one output that is never on."""
    rng = np.random.default_rng(0)
    bias = np.where(np.arange(D) == 5, -50.0, 0.3)
    h = np.maximum(rng.standard_normal((400, P)), 0.0)
    return unrelu.peel(np.maximum(h @ rng.standard_normal((P, D)) + bias, 0.0), [P])


@pytest.fixture(scope="module")
def deeper(peeled):
    """Two layers: the second is made up, of units of the first."""
    outer = peeled.layers[0]
    inner = replace(
        outer,
        weights=np.array([[0.6], [0.8]]),
        bias=np.array([0.1, -0.2]),
        column_identifiable=np.array([True, True]),
        report=replace(outer.report, n_hidden=1, units_found=1, rows_off=(7,), doubtful_units=(0,)),
        matrix_report=replace(outer.matrix_report, n_features=2, rank=1, rank_errors=((1, 0.5), (2, 0.25))),
    )
    law = unrelu.RectifiedGaussian([0.5], [[2.0]])
    return Peeled((outer, inner), np.ones((len(peeled.hidden), 1)), peeled.rows, law)


def _same(one, two):
    assert len(one.layers) == len(two.layers)
    for first, second in zip(one.layers, two.layers, strict=True):
        for name in ("weights", "bias", "column_identifiable"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        assert first.report == second.report
        assert first.matrix_report == second.matrix_report
    np.testing.assert_array_equal(one.rows, two.rows)


def test_what_is_saved_comes_back(peeled, deeper, tmp_path):
    assert not peeled.layers[0].column_identifiable[5]
    for given in (peeled, deeper):
        given.save(tmp_path / "p.npz")
        again = Peeled.load(tmp_path / "p.npz")
        _same(given, again)
        np.testing.assert_array_equal(again.sample(5, 0), given.sample(5, 0))
        np.testing.assert_array_equal(again.hidden_distribution.covariance, given.hidden_distribution.covariance)
        assert again.hidden.shape == (0, given.hidden.shape[1])


def test_layers_without_a_law_come_back(peeled, tmp_path):
    with pytest.raises(CannotPeelError) as caught:
        unrelu.peel(peeled.output(peeled.hidden)[:, peeled.layers[0].column_identifiable], [P, P])
    caught.value.peeled.save(tmp_path / "p.npz")
    again = Peeled.load(tmp_path / "p.npz")
    _same(caught.value.peeled, again)
    assert again.hidden_distribution is None
    with pytest.raises(InvalidDataError, match="nothing to sample"):
        again.sample()


def test_details_are_in_the_header(peeled, tmp_path):
    peeled.save(tmp_path / "p.npz", details={"feature_names": ["As", "Pb"]})
    assert FORMAT.header(tmp_path / "p.npz")["details"] == {"feature_names": ["As", "Pb"]}


def test_nothing_peeled_is_not_saved(peeled, tmp_path):
    with pytest.raises(InvalidDataError, match="No layer was peeled"):
        Peeled((), peeled.hidden, peeled.rows, None).save(tmp_path / "p.npz")
    assert not list(tmp_path.iterdir())


def _without(name):
    return lambda arrays, header: arrays.pop(name)


def _array(name, change):
    def damage(arrays, header):
        arrays[name] = change(arrays[name])

    return damage


def _header(change):
    return lambda arrays, header: change(header)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_without("weights_2"), "damaged"),
        (_without("rows"), "damaged"),
        (_without("hidden_covariance"), "damaged"),
        (_array("weights_1", lambda a: a[:, :1]), "weights_1 has shape (12, 1) instead of (12, 2)"),
        (_array("bias_2", lambda a: a.astype(str)), "bias_2 holds"),
        (_array("bias_2", lambda a: a * np.nan), "bias_2 holds values that are not finite"),
        (_array("weights_1", lambda a: np.where(np.arange(D)[:, None] == 3, np.inf, a)), "weights_1 holds values"),
        (_array("identifiable_1", lambda a: a.astype(float)), "identifiable_1 holds float64 values"),
        (_array("rows", lambda a: a[1:]), "rows has shape (399,) instead of (400,)"),
        (_array("hidden_covariance", lambda a: -a), "covariance"),
        (_array("hidden_bias", lambda a: a * np.nan), "bias"),
        (_header(lambda h: h.pop("layers")), "its header lacks 'layers'"),
        (_header(lambda h: h.update(layers=[])), "it holds no layer"),
        (_header(lambda h: h["layers"][1].pop("report")), "its header lacks 'report'"),
        (_header(lambda h: h["layers"][1]["matrix_report"].pop("rank")), "its header lacks 'rank'"),
        (_header(lambda h: h["layers"][1]["matrix_report"].update(n_features=3)), "layer 2 has 3 outputs"),
        (_header(lambda h: h.update(format_version=2)), "newer"),
        (_header(lambda h: h.update(format="unrelu.TwoLayerReLULearner")), "not an unrelu model file"),
    ],
)
def test_damaged_files_are_refused(deeper, tmp_path, damage, words):
    path = tmp_path / "p.npz"
    deeper.save(path)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes().decode())
    damage(arrays, header)
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
    with pytest.raises(ModelFileError) as caught:
        Peeled.load(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match="There is no model file"):
        Peeled.load(tmp_path / "nowhere.npz")
    (tmp_path / "text.npz").write_text("my thesis")
    with pytest.raises(ModelFileError, match="is not an unrelu model file"):
        Peeled.load(tmp_path / "text.npz")
