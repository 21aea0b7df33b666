"""sample and simulate: rows out, block by block."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import unrelu
from unrelu.cli.using import contaminated
from unrelu.tables import open_samples


def _read(path) -> np.ndarray:
    return np.concatenate([block.values for block in open_samples(path).blocks()])


def test_sample_writes_csv_to_standard_output(program, model, truth):
    result = program("sample", model, "-n", 50, "--seed", 3)
    assert result.returncode == 0
    assert result.stderr == ""
    assert result.stdout.splitlines()[0] == "As,Pb,Fe"
    rows = np.loadtxt(io.StringIO(result.stdout), delimiter=",", skiprows=1)
    np.testing.assert_allclose(rows, truth.sample(50, random_state=3), rtol=1e-12)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.npy"])
def test_rows_do_not_depend_on_blocks_or_kind(run, folder, model, truth, name):
    result = run("sample", model, "-n", 9000, "-o", name, "--seed", 3, "--json")
    assert json.loads(result.stdout)["rows"] == 9000
    np.testing.assert_allclose(_read(folder / name), truth.sample(9000, random_state=3), rtol=1e-12)


def test_seeds_tell_draws_apart(run, folder, model):
    for name, seed in (("a.npy", 1), ("b.npy", 2)):
        run("sample", model, "-n", 10, "-o", name, "--seed", seed)
    assert not np.array_equal(_read(folder / "a.npy"), _read(folder / "b.npy"))


def test_a_reader_that_leaves_early_is_no_error(program, model, folder):
    import subprocess
    import sys

    command = f"{sys.executable} -m unrelu sample {model.name} -n 300000 | head -n 2"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert result.stdout.count("\n") == 2
    assert result.stderr == ""


def test_simulated_rows_lead_back_to_their_truth(run, folder):
    arguments = ["-n", 20000, "-d", 4, "-o", "rows.npy", "--truth", "truth.npz", "--seed", 5]
    result = run("simulate", *arguments)
    assert result.exit_code == 0
    assert "True model written to truth.npz" in result.stdout
    assert run("fit", "rows.npy", "-o", "model.npz").exit_code == 0
    true, learned = (unrelu.RectifiedGaussian.load(folder / name) for name in ("truth.npz", "model.npz"))
    errors = unrelu.metrics.parameter_errors(learned, true)
    assert errors["bias"] < 0.02
    assert errors["weights"] < 0.03


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-k", 2], {"components": 2, "condition_number": 10.0}),
        (["-k", 1], {"components": 1, "condition_number": 1.0}),
        (["--condition-number", 3, "--mean", "signed"], {"condition_number": 3.0, "mean": "signed"}),
    ],
)
def test_simulate_options_reach_the_model(run, folder, options, expected):
    arguments = ["-n", 20, "-d", 5, "-o", "rows.csv", "--truth", "truth.npz", "--seed", 0, "--json"]
    answer = json.loads(run("simulate", *arguments, *options).stdout)
    assert expected.items() <= answer.items()
    true = unrelu.RectifiedGaussian.load(folder / "truth.npz")
    k = answer["components"]
    eigenvalues = np.linalg.eigvalsh(true.covariance)[::-1]
    assert eigenvalues[0] / eigenvalues[k - 1] == pytest.approx(answer["condition_number"])
    assert bool((true.mean < 0.0).any()) == (answer["mean"] == "signed")


def test_outliers_replace_rows_and_change_no_other(run, folder):
    for name, share in (("clean.npy", 0.0), ("dirty.npy", 0.001)):
        run("simulate", "-n", 9000, "-d", 3, "-o", name, "--outliers", share, "--seed", 1)
    clean, dirty = _read(folder / "clean.npy"), _read(folder / "dirty.npy")
    changed = (clean != dirty).any(axis=1)
    assert changed.sum() == 9
    assert dirty[changed].mean() > 4.0


def test_a_small_share_of_many_blocks_does_not_vanish():
    blocks = [np.zeros((100, 2)) for _ in range(50)]
    dirty = np.concatenate(list(contaminated(blocks, 0.002, np.random.default_rng(0))))
    assert (dirty[:, 0] > 0.0).sum() == 10


def test_samples_of_margins_keep_range_steps_and_zeros(run, folder, skewed, skewed_rows):
    assert run("fit", skewed, "-o", "out.npz", "--floor", "As=0.5", "--margins", "monotone").exit_code == 0
    assert run("sample", "out.npz", "-n", 4000, "--seed", 1, "-o", "synthetic.csv").exit_code == 0
    drawn = _read("synthetic.csv")
    counts = [line.split(",")[2] for line in (folder / "synthetic.csv").read_text().splitlines()[1:]]
    assert all(text.isdecimal() for text in counts)  # no 3.0000000001
    assert (drawn >= skewed_rows.min(axis=0)).all()
    assert (drawn <= skewed_rows.max(axis=0)).all()
    shares = (skewed_rows <= [0.5, 0.0, 0.0]).mean(axis=0)
    error = np.sqrt(shares * (1.0 - shares) / 4000)
    np.testing.assert_array_less(np.abs((drawn <= [0.5, 0.0, 0.0]).mean(axis=0) - shares), 4.0 * error)
    assert run("sample", "out.npz", "-n", 400, "--seed", 1, "-o", "beyond.csv", "--beyond-range").exit_code == 0
    assert (_read("beyond.csv")[:, 2] % 1.0 > 0.0).any()


def test_decimals_are_written_as_the_table_had_them(run, folder, skewed_rows):
    tenths = np.round(skewed_rows[:, :2], 1)
    unrelu.RectifiedGaussianLearner(floor=[0.5, 0.0], margins="boxcox").fit(tenths).distribution_.save(folder / "m.npz")
    run("sample", "m.npz", "-n", 500, "--seed", 1, "-o", "synthetic.csv")
    cells = (folder / "synthetic.csv").read_text().replace("\n", ",").split(",")[2:-1]
    assert max(map(len, cells)) <= 5  # as 12.3, and not 0.30000000000000004
