"""``python tools/minimum_versions.py``: the lowest versions that pyproject.toml allows, as pip's arguments.

Of the packages that the library and its extras need, and that the tests import; not of linters.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOR_TESTS = ("hypothesis", "pandas", "polars", "pytest", "pytest-xdist")


def lowest(requirement: str) -> str:
    """``name>=1.2`` as ``name==1.2``.

    >>> lowest("numpy>=2.2")
    'numpy==2.2'
    """
    name, _, version = requirement.partition(">=")
    return f"{name}=={version}"


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tests = [each for each in extras["dev"] if each.partition(">=")[0] in FOR_TESTS]
    named = [each for extra in ("files", "cli", "plot") for each in extras[extra] if not each.startswith("unrelu[")]
    wanted = [*project["dependencies"], *named, *tests]
    sys.stdout.write(" ".join(map(lowest, wanted)) + "\n")


if __name__ == "__main__":
    main()
