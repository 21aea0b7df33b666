"""Where pyarrow is not installed: arrays, frames, NumPy's files and models work, and other files say what they need."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
    code = """
import pandas as pd
learner = unrelu.RectifiedGaussianLearner(method="one_pass").fit(X)
learner.save("model.npz")
loaded = unrelu.RectifiedGaussianLearner.load("model.npz")
text = pd.DataFrame({"As": ["0.5", "<0.1", "2"], "Pb": [1.0, 2.0, 3.0]})
rows = unrelu.tables.read_frame(text)
print(np.array_equal(loaded.bias_, learner.bias_), rows.limits, next(rows.blocks()).values[1].tolist())
unrelu.RectifiedGaussianNetwork().fit(np.vstack([X, X]))
"""
    assert output_of(code, tmp_path) == "True CellLimits(floor=((0, 0.1),), ceiling=()) [0.1, 2.0]\n"


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_files_of_numpy(tmp_path, name):
    code = f"""
unrelu.tables.write_table("{name}", X, ["As", "Pb"])
samples = unrelu.tables.open_samples("{name}", where="`0` > 0.5" if "{name}" == "x.npy" else "As > 0.5")
rows = np.concatenate([block.values for block in samples.blocks()])
print(np.array_equal(rows, X[X[:, 0] > 0.5]))
"""
    assert output_of(code, tmp_path) == "True\n"


@pytest.mark.parametrize(
    "call",
    [
        "open_samples('x.csv')",
        "open_samples('x.parquet')",
        "open_samples('x.xlsx')",
        "open_samples('-')",
        "write_table('y.csv.gz', X)",
        "write_table('y.feather', X)",
        "write_table('-', X)",
    ],
)
def test_other_files_say_what_they_need(tmp_path, call):
    for name in ("x.csv", "x.parquet", "x.xlsx"):
        (tmp_path / name).write_text("a,b\n1,2\n")
    code = f"""
try:
    unrelu.tables.{call}
except unrelu.errors.MissingDependencyError as error:
    print(error)
"""
    said = output_of(code, tmp_path)
    assert said.endswith('table files other than npy and npz need pyarrow: pip install "unrelu[files]".\n')
    assert not (tmp_path / "y.feather").exists()
