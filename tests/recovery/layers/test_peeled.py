"""Files of peeled layers: what is saved comes back, but for the rows' units; damaged files are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import unrelu
from tests.archives import rewrite
from unrelu import Peeled
from unrelu.errors import CannotPeelError, InvalidDataError, ModelFileError

D, P = 12, 2


@pytest.fixture(scope="module")
def peeled():
    """One layer, learned, with one output that is never on."""
    rng = np.random.default_rng(0)
    bias = np.where(np.arange(D) == 5, -50.0, 0.3)
    h = np.maximum(rng.standard_normal((400, P)), 0.0)
    return unrelu.peel(np.maximum(h @ rng.standard_normal((P, D)) + bias, -0.5), [P], floor=-0.5)


@pytest.fixture(scope="module")
def deeper(peeled):
    """Two layers: the second is made up, of units of the first."""
    outer = peeled.layers[0]
    inner = replace(
        outer,
        weights=np.array([[0.6], [0.8]]),
        bias=np.array([0.1, -0.2]),
        floor=np.zeros(2),
        column_identifiable=np.array([True, True]),
        report=replace(outer.report, n_hidden=1, units_found=1, rows_off=(7,), doubtful_units=(0,)),
        matrix_report=replace(
            outer.matrix_report, n_features=2, n_components=1, component_errors=((1, 0.5), (2, 0.25))
        ),
    )
    distribution = unrelu.RectifiedGaussian([0.5], [[2.0]])
    return Peeled(
        (outer, inner), np.ones((len(peeled.hidden), 1)), peeled.outlier_rows, distribution, tuple("abcdefghijkl")
    )


def _same(one, two):
    assert len(one.layers) == len(two.layers)
    for first, second in zip(one.layers, two.layers, strict=True):
        for name in ("weights", "bias", "floor", "column_identifiable"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        assert first.report == second.report
        assert first.matrix_report == second.matrix_report
    np.testing.assert_array_equal(one.outlier_rows, two.outlier_rows)
    assert one.feature_names == two.feature_names
    assert one.report == two.report


def test_what_is_saved_comes_back(peeled, deeper, tmp_path):
    assert not peeled.layers[0].column_identifiable[5]
    for given in (peeled, deeper):
        given.save(tmp_path / "p.npz")
        again = Peeled.load(tmp_path / "p.npz")
        _same(given, again)
        np.testing.assert_array_equal(again.sample(5, 0), given.sample(5, 0))
        np.testing.assert_array_equal(again.hidden_distribution.covariance, given.hidden_distribution.covariance)
        assert again.hidden.shape == (0, given.hidden.shape[1])
        assert isinstance(unrelu.load(tmp_path / "p.npz"), Peeled)


def test_layers_without_a_distribution_come_back(peeled, tmp_path):
    with pytest.raises(CannotPeelError) as caught:
        unrelu.peel(peeled.output(peeled.hidden)[:, peeled.layers[0].column_identifiable], [P, P], floor=-0.5)
    caught.value.peeled.save(tmp_path / "p.npz")
    again = Peeled.load(tmp_path / "p.npz")
    _same(caught.value.peeled, again)
    assert again.hidden_distribution is None
    with pytest.raises(InvalidDataError, match="nothing to sample"):
        again.sample()


def test_details_are_in_the_header(peeled, tmp_path):
    peeled.save(tmp_path / "p.npz", details={"source": ["a.csv", "b.csv"]})
    with np.load(tmp_path / "p.npz") as archive:
        assert json.loads(archive["header"].tobytes())["details"] == {"source": ["a.csv", "b.csv"]}


def test_nothing_peeled_is_not_saved(peeled, tmp_path):
    with pytest.raises(InvalidDataError, match="No layer was peeled"):
        Peeled((), peeled.hidden, peeled.outlier_rows, None).save(tmp_path / "p.npz")
    assert not list(tmp_path.iterdir())


def _without(name):
    return lambda arrays, header: arrays.pop(name)


def _array(name, change):
    def damage(arrays, header):
        arrays[name] = change(arrays[name])

    return damage


def _header(change):
    return lambda arrays, header: change(header)


def _no_layers(change):
    def damage(arrays, header):
        change(header)
        for name in [name for name in arrays if name.startswith("layers.")]:
            del arrays[name]
            header["arrays"].remove(name)
        header["hidden_distribution"]["n_features"] = 1

    return damage


def _reversed(arrays, header):
    header["layers"].reverse()
    for name in [name for name in arrays if name.startswith("layers.0.")]:
        other = name.replace("layers.0.", "layers.1.")
        arrays[name], arrays[other] = arrays[other], arrays[name]


def _layer(number, change):
    return _header(lambda h: change(h["layers"][number]))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_without("layers.1.weights"), "damaged"),
        (_without("outlier_rows"), "damaged"),
        (_without("hidden_distribution.covariance"), "damaged"),
        (_array("layers.0.weights", lambda a: a[:, :1]), "a layer's report is of another layer"),
        (_array("layers.0.weights", lambda a: a[1:]), "bias has shape (12,) instead of (11,)"),
        (_array("layers.1.bias", lambda a: a.astype(str)), "bias holds"),
        (_array("layers.1.bias", lambda a: a * np.nan), "bias of a layer holds values that are not finite"),
        (_array("layers.0.weights", lambda a: np.where(np.arange(D)[:, None] == 3, np.inf, a)), "weights of a layer"),
        (_array("layers.0.floor", lambda a: a * np.nan), "floor holds values that are not finite"),
        (_array("layers.0.column_identifiable", lambda a: a.astype(float)), "identifiable holds float64 values"),
        (_array("outlier_rows", lambda a: a[1:]), "outlier_rows does not mark 400 rows"),
        (_array("hidden", lambda a: np.ones((0, 3))), "the innermost layer has 1 units"),
        (_array("hidden_distribution.covariance", lambda a: -a), "covariance"),
        (_array("hidden_distribution.mean", lambda a: a * np.nan), "mean"),
        (_header(lambda h: h.pop("layers")), "there is no place for its array layers.0.weights"),
        (_no_layers(lambda h: h.pop("layers")), "its header lacks 'layers'"),
        (_no_layers(lambda h: h.update(layers=[], feature_names=None)), "it holds no layer"),
        (_header(lambda h: h.update(feature_names=["As"])), "does not name its 12"),
        (_layer(1, lambda f: f.pop("report")), "its header lacks 'report'"),
        (_layer(1, lambda f: f["matrix_report"].pop("n_components")), "its header lacks 'n_components'"),
        (_layer(1, lambda f: f["matrix_report"].update(n_features=3)), "report is of another layer"),
        (_header(lambda h: h["layers"].reverse()), "a layer's report is of another layer"),
        (_reversed, "layer 2 has 12 outputs"),
        (_header(lambda h: h.update(format_version=6)), "newer"),
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


def test_files_from_before_the_first_release_are_refused_with_the_reason(tmp_path, peeled):
    peeled.save(tmp_path / "layers.npz")
    rewrite(tmp_path / "layers.npz", facts={"format_version": 1})
    with pytest.raises(ModelFileError, match="is from before the first release"):
        Peeled.load(tmp_path / "layers.npz")


# --- report ---------------------------------------------------------------------------------------


def test_the_report_has_both_steps_of_every_layer(deeper):
    report = deeper.report
    assert [layer.n_hidden for layer in report.layers] == [2, 1]
    assert [step.n_features for step in report.rectifiers] == [12, 2]
    assert (report.n_rows, report.n_outlier_rows) == (400, int(deeper.outlier_rows.sum()))
    assert report.converged
    assert not replace(deeper, hidden_distribution=None).report.converged
    outer, inner = deeper.layers
    slow = replace(outer, matrix_report=replace(outer.matrix_report, converged=False))
    assert not replace(deeper, layers=(slow, inner)).report.converged


def test_a_layer_is_cut_off_at_its_floor(peeled):
    identified = peeled.layers[0].column_identifiable
    np.testing.assert_array_equal(peeled.layers[0].floor, np.full(D, -0.5))
    assert (peeled.sample(200, 0)[:, identified] >= -0.5).all()
    assert (peeled.sample(200, 0)[:, identified] == -0.5).any()
