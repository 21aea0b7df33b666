"""The examples run, and show what they say they show."""

import runpy
import warnings
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from examples import (
    digits_held_out,
    digits_memory,
    generator_of_digits,
    graph_behind_a_floor,
    margins_of_real_tables,
    peel_network,
    what_the_floor_hid,
)
from unrelu.errors import UnreluWarning


@pytest.fixture(scope="module")
def comparison():
    return digits_held_out.compare(seed=1, rank=5)


def test_the_floor_predicts_hidden_pixels_best(comparison):
    errors = comparison.errors()
    rivals = min(errors["PCA"], errors["NMF"])
    assert errors["floor modelled"] < rivals
    assert errors["floor and noise"] < rivals


def test_errors_are_over_hidden_pixels_only(comparison):
    truth = comparison.pixels[comparison.hidden]
    for name, guess in comparison.predicted.items():
        wanted = np.sqrt(((guess[comparison.hidden] - truth) ** 2).sum() / (truth**2).sum())
        assert comparison.errors()[name] == pytest.approx(wanted, rel=1e-12)
    assert abs(comparison.hidden.mean() - 0.1) < 0.005


def test_the_picture_is_drawn(comparison, tmp_path):
    digits_held_out.draw(comparison, str(tmp_path / "digits.png"), digits=3)
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def memory():
    return digits_memory.main(["--rows", "40", "--learned", "500"])


@pytest.mark.slow
def test_corrupted_images_are_recalled(memory):
    errors, replaced = memory.images.errors(), memory.images.errors_where_replaced()
    rivals = ("nearest row learned", "PCA", "least squares", "median filter")
    for recalled in ("recalled", digits_memory.BY_DIGIT):
        assert errors[recalled] < 0.7 * errors["corrupted"]
        assert errors[recalled] < min(errors[name] for name in rivals)
    assert replaced[digits_memory.BY_DIGIT] < 0.9 * min(replaced[name] for name in rivals)
    assert memory.images.share_right > 0.85


@pytest.mark.slow
def test_a_network_reads_from_recalled_activations_as_from_clean_ones(memory):
    errors, accuracy = memory.learn_layer.errors(), memory.accuracy
    assert errors["recalled"] < 0.2 * errors["corrupted"]
    assert errors["recalled"] < 0.4 * min(errors["PCA"], errors["least squares"], errors["nearest row learned"])
    assert errors["recalled"] < 1.2 * errors["told which"]
    assert memory.learn_layer.share_found > 0.75
    assert memory.learn_layer.share_right > 0.9
    assert accuracy["corrupted"] < accuracy["clean"] - 0.05
    assert accuracy["recalled"] > accuracy["clean"] - 0.05


@pytest.mark.slow
def test_the_memory_picture_is_drawn(memory, tmp_path):
    digits_memory.draw(memory, str(tmp_path / "memory.png"), digits=3)
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def peeled():
    return peel_network.compare(widths=(8, 40))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_trained_networks_weights_are_found_from_its_outputs(peeled):
    errors = peeled.errors()
    assert peeled.identified.mean() > 0.9
    assert max(errors["weights"], errors["biases"], errors["hidden units"]) < 1e-6
    assert errors["correlations"] < 0.3


@pytest.mark.slow
def test_the_picture_of_weights_is_drawn(peeled, tmp_path):
    peel_network.draw(peeled, str(tmp_path / "peeled.png"))
    assert (tmp_path / "peeled.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def sediments(tmp_path_factory):
    """A table as casco_pah.csv is: ids, skewed columns, zeros for what was not detected."""
    rng = np.random.default_rng(0)
    x = np.exp(2.0 * rng.multivariate_normal(np.zeros(3), 0.6 + 0.4 * np.eye(3), size=300))
    lines = ["Sample_ID,Sample_Year,Region,a,b,c"]
    lines += [f"s{i},1991,Casco,{a:.4g},{b:.4g},{c:.4g}" for i, (a, b, c) in enumerate(np.where(x < 0.5, 0.0, x))]
    path = tmp_path_factory.mktemp("data") / "casco_pah.csv"
    path.write_text("\n".join(lines))
    return path


def test_margins_fit_skewed_tables_and_give_synthetic_ones(sediments, capsys):
    found = margins_of_real_tables.compare(sediments)
    assert found.scores["normal"] < found.scores["log"] - 1.0
    assert abs(found.scores["auto"] - found.scores["log"]) < 0.2
    assert max(found.margins, found.zeros, found.correlations) < 0.08  # about 1.4 / sqrt(300)
    margins_of_real_tables.main([str(sediments.parent)])
    told = capsys.readouterr().out
    assert "casco_pah.csv: mean log density" in told
    assert "proteomics_pxd000501_ibaq.csv is not in" in told  # one sentence, and no error


@pytest.mark.slow
@pytest.mark.skipif(not margins_of_real_tables.FOLDER.exists(), reason="the real tables are not here")
def test_margins_of_the_real_tables():
    for name in margins_of_real_tables.LABELS:
        found = margins_of_real_tables.compare(margins_of_real_tables.FOLDER / name)
        assert found.scores["auto"] > found.scores["normal"] + 50.0
        assert max(found.margins, found.zeros) < 0.08


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """casco_pah.csv and the proteins' file with the model's own tables in them, and truths for all cells."""
    rng, path = np.random.default_rng(1), tmp_path_factory.mktemp("truths")
    v = 0.9 + 0.1 * np.eye(4)
    x = np.exp(np.arange(4.0) + 1.5 * rng.multivariate_normal(np.zeros(4), v, size=400))
    lines = ["Sample_ID,Sample_Year,Region,a,b,c,d"]
    lines += [
        f"s{i},{1991 if i < 350 else 2010},Casco," + ",".join(f"{cell:.6g}" for cell in r) for i, r in enumerate(x)
    ]
    (path / what_the_floor_hid.CASCO).write_text("\n".join(lines))
    signal = 24.0 + 3.0 * rng.multivariate_normal(np.zeros(3), v[:3, :3], size=500)
    runs = 2.0 ** (np.repeat(signal, 3, axis=1) + 0.5 * rng.standard_normal((500, 9)))
    names = [f"whole_set{s}_tech{t}" for s in (1, 2, 3) for t in (1, 2, 3)]
    lines = [",".join(["Protein.IDs", *names])]
    lines += [f"p{i}," + ",".join(f"{cell:.6g}" for cell in row) for i, row in enumerate(runs)]
    (path / what_the_floor_hid.PROTEINS).write_text("\n".join(lines))
    return path


def test_what_the_floor_hid_is_recovered(folder):
    for found in (
        what_the_floor_hid.sediments(folder / what_the_floor_hid.CASCO),
        what_the_floor_hid.proteins(folder / what_the_floor_hid.PROTEINS),
    ):
        errors, (imputer, x) = found.errors(), (found.imputer, found.filled[what_the_floor_hid.OURS])
        itself = errors.pop(what_the_floor_hid.ITSELF, 0.0)
        ours = errors.pop(what_the_floor_hid.OURS)
        assert itself < ours < 0.85 * min(errors.values())
        assert (x[found.hidden] < np.broadcast_to(imputer.floor_, x.shape)[found.hidden]).all()
        share = found.covered()
        assert abs(share - 0.9) < (0.05 if itself == 0.0 else 0.15)  # replicates have a noise of their own
        mean, sd, _ = np.array(list(found.columns().values())).T
        assert mean[0] < 0.2 * mean[-1]  # learned, and with rows dropped
        assert sd[0] < 0.5 * sd[-1]


def test_the_truth_of_other_years_is_not_used(folder):
    assert len(what_the_floor_hid.sediments(folder / what_the_floor_hid.CASCO).whole) == 350


def test_what_the_floor_hid_does_without_files(folder, tmp_path, capsys, monkeypatch):
    table = what_the_floor_hid.sediments(folder / what_the_floor_hid.CASCO)
    monkeypatch.setattr(what_the_floor_hid, "units", lambda: table)
    what_the_floor_hid.main([str(tmp_path / "hid.png"), str(tmp_path)])
    told = capsys.readouterr().out
    assert "casco_pah.csv is not in" in told
    assert "within their 90 % intervals" in told
    assert (tmp_path / "hid.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_sums_behind_a_networks_zeros_are_recovered():
    errors = what_the_floor_hid.units().errors()
    assert errors[what_the_floor_hid.OURS] < 0.8 * min(error for name, error in errors.items() if name != "the imputer")


@pytest.mark.slow
@pytest.mark.skipif(not what_the_floor_hid.FOLDER.exists(), reason="the real tables are not here")
def test_what_the_floor_hid_in_the_real_tables():
    sediments = what_the_floor_hid.sediments(what_the_floor_hid.FOLDER / what_the_floor_hid.CASCO)
    proteins = what_the_floor_hid.proteins(what_the_floor_hid.FOLDER / what_the_floor_hid.PROTEINS)
    assert sediments.errors()[what_the_floor_hid.OURS] < 0.8 * sediments.errors()["limit/2"]
    assert sediments.columns()["learned"][2] < 0.5 * sediments.columns()["limit/2"][2]
    assert proteins.errors()[what_the_floor_hid.OURS] < 0.8 * proteins.errors()["the column's mean below the floor"]


@pytest.fixture
def autoencoder():
    return generator_of_digits.Autoencoder(9, np.random.default_rng(0))


def test_the_autoencoders_gradient_is_that_of_its_loss(autoencoder):
    rng = np.random.default_rng(1)
    x, noise = np.maximum(rng.standard_normal((40, 9)), 0.0), rng.standard_normal((40, generator_of_digits.INPUTS))

    def loss():
        _, mean, log_variance = autoencoder.encode(x)
        D1, d1, D2, d2 = autoencoder.weights[4:]
        sums = np.maximum((mean + np.exp(log_variance / 2.0) * noise) @ D1 + d1, 0.0) @ D2 + d2
        error = np.where(x > 0.0, sums - x, np.maximum(sums, 0.0))
        told = 0.5 * (mean**2 + np.exp(log_variance) - log_variance - 1.0)
        return ((error**2).sum() + generator_of_digits.PRICE * told.sum()) / len(x)

    for weight, slope in zip(autoencoder.weights, autoencoder.gradient(x, noise), strict=True):
        at = np.unravel_index(np.abs(slope).argmax(), slope.shape)
        sides = []
        for step in (1e-5, -2e-5):
            weight[at] += step
            sides.append(loss())
        weight[at] += 1e-5
        assert (sides[0] - sides[1]) / 2e-5 == pytest.approx(slope[at], rel=1e-5)


def test_the_generators_inputs_are_normal(autoencoder):
    x = np.abs(np.random.default_rng(1).standard_normal((200, 9)))
    generator, inputs = autoencoder.generator(x)
    _, codes, log_variance = autoencoder.encode(x)
    D1, d1, _, _ = autoencoder.weights[4:]
    assert np.allclose(generator.units(inputs), np.maximum(codes @ D1 + d1, 0.0))
    to_inputs = np.linalg.lstsq(codes - codes.mean(axis=0), inputs)[0]
    within = to_inputs.T @ np.diag(np.exp(log_variance).mean(axis=0)) @ to_inputs
    assert np.allclose(np.cov(inputs, rowvar=False) + within, np.eye(generator_of_digits.INPUTS))


def test_the_truth_is_put_in_the_coordinates_of_what_was_found():
    rng, (p, q) = np.random.default_rng(0), (generator_of_digits.UNITS, generator_of_digits.INPUTS)
    margins = (p, q), (p,), (64, p), (64,)
    true = generator_of_digits.Generator(*(rng.standard_normal(margin) for margin in margins))
    z, order, scale = rng.standard_normal((500, q)), rng.permutation(p), rng.uniform(0.5, 2.0, p)
    turn, shift, known = rng.standard_normal((q, q)), rng.standard_normal(q), np.arange(64) != 5
    inner = SimpleNamespace(
        weights=scale[:, None] * true.A1[order] @ turn.T, bias=scale * (true.b1[order] + true.A1[order] @ shift)
    )
    weights = np.where(known[:, None], true.A2[:, order] / scale, np.nan)
    layer = SimpleNamespace(weights=weights, bias=np.where(known, true.b2, np.nan), column_identifiable=known)
    outliers = np.arange(500) == 3
    inputs = (z[~outliers] - shift) @ np.linalg.inv(turn)
    inputs[7] = np.nan
    peeled = SimpleNamespace(
        layers=[layer],
        inner=inner,
        inputs=inputs,
        outlier_rows=outliers,
        transform=lambda x: (z[:20] - shift) @ np.linalg.inv(turn),
    )
    found = generator_of_digits.compared(true, peeled, z, z[:20])
    assert max(found.errors().values()) < 1e-10
    inner.weights[0, 0] += 0.1
    assert found.errors()["A1"] > 1e-3


@pytest.mark.slow
def test_a_generator_is_recovered_from_its_pictures(tmp_path, capsys):
    found = generator_of_digits.main([str(tmp_path / "generator.png")])
    assert max(found.errors().values()) < 1e-6
    assert found.peeled.inner.n_inputs == generator_of_digits.INPUTS
    true, drawn = found.walk(0, 6)
    known = found.peeled.layers[0].column_identifiable
    assert np.abs(true - drawn)[:, known].max() < 1e-6
    assert "24 of 24 units" in capsys.readouterr().out
    assert (tmp_path / "generator.png").read_bytes().startswith(b"\x89PNG")


TOUR = sorted((Path(__file__).parents[1] / "examples" / "tour").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", TOUR, ids=lambda path: path.stem)
def test_the_tour_runs_and_draws(path, tmp_path, monkeypatch, capsys):
    """As scripts; `make docs` runs them as well, for the gallery."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(path)])
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # some show what is said of a table
        runpy.run_path(str(path), run_name="__main__")
    assert len(plt.get_fignums()) == 1
    assert capsys.readouterr().out
    plt.close("all")


def test_the_graph_behind_a_floor_is_found_where_plain_correlations_miss_it(tmp_path, capsys):
    found = graph_behind_a_floor.main([str(tmp_path / "network.png")])
    f1 = found.f1()
    assert f1[graph_behind_a_floor.OURS] > 0.95
    assert f1[graph_behind_a_floor.PLAIN] < f1[graph_behind_a_floor.OURS] - 0.2
    assert "55% zeros" in capsys.readouterr().out
    assert (tmp_path / "network.png").read_bytes().startswith(b"\x89PNG")
