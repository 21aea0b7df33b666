"""``python tools/check_release.py dist``: is the release whole, and does it work in an empty environment?

The wheel and the sdist hold what they should and nothing else. Installed without extras into a fresh environment, the
library learns, and the command line names the extra that is missing.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "unrelu"
IN_SDIST = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/unrelu/__init__.py", "tests/test_package.py")

LEARN = """
import numpy as np, unrelu
truth = unrelu.synthetic.random_model(3, random_state=0)
learner = unrelu.RectifiedGaussianLearner().fit(truth.sample(5000, random_state=1))
assert np.abs(learner.mean_ - truth.mean).max() < 6 * learner.mean_stderr_.max(), "the learned mean is off"
unrelu.tables.write_table("x.npy", truth.sample(10))
unrelu.tables.open_samples("x.npy")
try:
    unrelu.tables.write_table("x.csv", truth.sample(10))
except unrelu.errors.MissingDependencyError as error:
    assert 'pip install "unrelu[files]"' in str(error), f"the error does not name the extra: {error}"
"""


def check_wheel(wheel: Path) -> None:
    """Every module, the marker of types, and nothing but the package and its metadata."""
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {f"unrelu/{path.relative_to(SOURCE).as_posix()}" for path in SOURCE.rglob("*.py")}
    page = {f"unrelu/report/page/page.{kind}" for kind in ("html", "css", "js")}
    missing = (modules | page | {"unrelu/py.typed"}) - names
    foreign = {name for name in names if not name.startswith("unrelu/") and ".dist-info/" not in name}
    assert not missing, f"{wheel.name} lacks {sorted(missing)}"
    assert not foreign, f"{wheel.name} holds {sorted(foreign)[:5]}"


def check_sdist(sdist: Path) -> None:
    """What is needed to build and to test, and nothing that is not in the repository."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()} - {""}
    missing = set(IN_SDIST) - names
    tracked = set(
        subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    )
    foreign = {
        name for name in names - tracked - {"PKG-INFO"} if not any(each.startswith(f"{name}/") for each in tracked)
    }
    assert not missing, f"{sdist.name} lacks {sorted(missing)}"
    assert not foreign, f"{sdist.name} holds {sorted(foreign)[:5]}, which is not in the repository"


def check_installed(wheel: Path) -> None:
    """In an environment of its own, without extras."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        bin_folder = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        python = bin_folder / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True)
        subprocess.run([python, "-c", LEARN], cwd=folder, check=True)
        done = subprocess.run(
            [bin_folder / "unrelu", "--help"], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, f"unrelu --help without extras exits with {done.returncode}"
        assert 'pip install "unrelu[cli]"' in done.stderr, f"unrelu --help does not say what is missing: {done.stderr}"
        assert "Traceback" not in done.stderr


def main(folder: Path) -> None:
    (wheel,), (sdist,) = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    check_wheel(wheel)
    check_sdist(sdist)
    check_installed(wheel)
    sys.stdout.write(f"{wheel.name} and {sdist.name}: whole; learns and asks for its extras in a fresh environment.\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
