"""The studies that run by themselves: hidden pixels, the two files of real data, and values that a floor hid."""

import numpy as np
import pytest

from benchmarks import held_out_pixels
from benchmarks.real import hidden, margins


@pytest.fixture(scope="module")
def comparison():
    return held_out_pixels.compare(seed=1, rank=5)


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
    held_out_pixels.draw(comparison, str(tmp_path / "digits.png"), digits=3)
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")


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
    found = margins.compare(sediments)
    assert found.scores["normal"] < found.scores["log"] - 1.0
    assert abs(found.scores["auto"] - found.scores["log"]) < 0.2
    assert max(found.margins, found.zeros, found.correlations) < 0.08  # about 1.4 / sqrt(300)
    margins.main([str(sediments.parent)])
    told = capsys.readouterr().out
    assert "casco_pah.csv: mean log density" in told
    assert "proteomics_pxd000501_ibaq.csv is not in" in told  # one sentence, and no error


@pytest.mark.slow
@pytest.mark.skipif(not margins.FOLDER.exists(), reason="the real tables are not here")
def test_margins_of_the_real_tables():
    for name in margins.LABELS:
        found = margins.compare(margins.FOLDER / name)
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
    (path / hidden.CASCO).write_text("\n".join(lines))
    signal = 24.0 + 3.0 * rng.multivariate_normal(np.zeros(3), v[:3, :3], size=500)
    runs = 2.0 ** (np.repeat(signal, 3, axis=1) + 0.5 * rng.standard_normal((500, 9)))
    names = [f"whole_set{s}_tech{t}" for s in (1, 2, 3) for t in (1, 2, 3)]
    lines = [",".join(["Protein.IDs", *names])]
    lines += [f"p{i}," + ",".join(f"{cell:.6g}" for cell in row) for i, row in enumerate(runs)]
    (path / hidden.PROTEINS).write_text("\n".join(lines))
    return path


def test_what_the_floor_hid_is_recovered(folder):
    for found in (
        hidden.sediments(folder / hidden.CASCO),
        hidden.proteins(folder / hidden.PROTEINS),
    ):
        errors, (imputer, x) = found.errors(), (found.imputer, found.filled[hidden.OURS])
        itself = errors.pop(hidden.ITSELF, 0.0)
        ours = errors.pop(hidden.OURS)
        assert itself < ours < 0.85 * min(errors.values())
        assert (x[found.hidden] < np.broadcast_to(imputer.floor_, x.shape)[found.hidden]).all()
        share = found.covered()
        assert abs(share - 0.9) < (0.05 if itself == 0.0 else 0.15)  # replicates have a noise of their own
        mean, sd, _ = np.array(list(found.columns().values())).T
        assert mean[0] < 0.2 * mean[-1]  # learned, and with rows dropped
        assert sd[0] < 0.5 * sd[-1]


def test_the_truth_of_other_years_is_not_looked_at(folder):
    assert len(hidden.sediments(folder / hidden.CASCO).whole) == 350


def test_what_the_floor_hid_does_without_files(folder, tmp_path, capsys, monkeypatch):
    table = hidden.sediments(folder / hidden.CASCO)
    monkeypatch.setattr(hidden, "units", lambda: table)
    hidden.main([str(tmp_path / "hid.png"), str(tmp_path)])
    told = capsys.readouterr().out
    assert "casco_pah.csv is not in" in told
    assert "within their 90 % intervals" in told
    assert (tmp_path / "hid.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_sums_behind_a_networks_zeros_are_recovered():
    errors = hidden.units().errors()
    assert errors[hidden.OURS] < 0.8 * min(error for name, error in errors.items() if name != "the imputer")


@pytest.mark.slow
@pytest.mark.skipif(not hidden.FOLDER.exists(), reason="the real tables are not here")
def test_what_the_floor_hid_in_the_real_tables():
    casco = hidden.sediments(hidden.FOLDER / hidden.CASCO)
    proteins = hidden.proteins(hidden.FOLDER / hidden.PROTEINS)
    assert casco.errors()[hidden.OURS] < 0.8 * casco.errors()["limit/2"]
    assert casco.columns()["learned"][2] < 0.5 * casco.columns()["limit/2"][2]
    assert proteins.errors()[hidden.OURS] < 0.8 * proteins.errors()["the column's mean below the floor"]
