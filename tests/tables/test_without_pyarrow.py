"""Where pyarrow is not installed: arrays, frames, NumPy's files and models work, and other files say what they need."""

from __future__ import annotations

import subprocess
import sys

HIDDEN = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refused())
import numpy as np
import unrelu
X = np.maximum(np.random.default_rng(0).normal(size=(60, 2)), 0.0)
"""


def output_of(code: str, folder) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + code], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrays_frames_and_models(tmp_path):
    """And fitting an array imports neither files nor pictures, nor what the command line needs."""
    code = """
unrelu.RectifiedGaussianLearner().fit(X)
print([name for name in ("matplotlib", "typer", "rich") if name in sys.modules])
import pandas as pd
learner = unrelu.RectifiedGaussianLearner(method="one_pass").fit(X)
learner.save("model.npz")
loaded = unrelu.RectifiedGaussianLearner.load("model.npz")
text = pd.DataFrame({"As": ["0.5", "<0.1", "2"], "Pb": [1.0, 2.0, 3.0]})
rows = unrelu.tables.read_frame(text)
print(np.array_equal(loaded.mean_, learner.mean_), rows.limits, next(rows.blocks()).values[1].tolist())
unrelu.RectifiedGaussianGraph().fit(np.vstack([X, X]))
"""
    shown = "True CellLimits(floor=((0, 0.1),), ceiling=()) [0.1, 2.0]"
    assert output_of(code, tmp_path).splitlines() == ["[]", shown]


def test_files_of_numpy(tmp_path):
    code = """
for name, where in (("x.npy", "`0` > 0.5"), ("x.npz", "As > 0.5")):
    unrelu.tables.write_table(name, X, ["As", "Pb"])
    samples = unrelu.tables.open_samples(name, where=where)
    rows = np.concatenate([block.values for block in samples.blocks()])
    print(name, np.array_equal(rows, X[X[:, 0] > 0.5]))
"""
    assert output_of(code, tmp_path) == "x.npy True\nx.npz True\n"


def test_other_files_say_what_they_need(tmp_path):
    for name in ("x.csv", "x.parquet", "x.xlsx"):
        (tmp_path / name).write_text("a,b\n1,2\n")
    code = """
tables = unrelu.tables
for number, call in enumerate([
    lambda: tables.open_samples("x.csv"),
    lambda: tables.open_samples("x.parquet"),
    lambda: tables.open_samples("x.xlsx"),
    lambda: tables.open_samples("-"),
    lambda: tables.write_table("y.csv.gz", X),
    lambda: tables.write_table("y.feather", X),
    lambda: tables.write_table("-", X),
]):
    try:
        call()
    except unrelu.errors.MissingDependencyError as error:
        print(number, error)
"""
    said = output_of(code, tmp_path).splitlines()
    assert [line.partition(" ")[0] for line in said] == list("0123456")
    needed = 'table files other than npy and npz need pyarrow: pip install "unrelu[files]".'
    assert all(line.endswith(needed) for line in said)
    assert not (tmp_path / "y.feather").exists()
