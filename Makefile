# `make demo` and `make test` set up everything they need in .venv; only Python 3.11 or newer, pip and make are assumed.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || command -v python)
BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.ready-benchmark
DOCS_READY := .venv/.ready-docs
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal  # one worker for each core; tests/conftest.py gives each its share

.PHONY: help setup demo test test-all test-bounds test-browser test-torch test-minimum lint docs bench bench-compare build clean

help:
	@echo "make demo      learn a network layer from its activations, write a model and a picture"
	@echo "make test      linters, types, layers, bounds, tests (a few minutes)"
	@echo "make test-all  the same, with the slow studies"
	@echo "make test-bounds  the tests with every index of the kernels checked (slower; compiles into .numba-bounds)"
	@echo "make test-browser  the report page, and the site where make docs built it, in Chromium (apt-get install chromium chromium-driver; npm for axe-core)"
	@echo "make test-torch  layers of torch networks; installs torch"
	@echo "make test-minimum  the tests with the lowest versions that pyproject.toml allows, in .venv-minimum"
	@echo "make docs      the site in docs/_build/html: every example executed, no warnings, every link within it checked"
	@echo "make bench     accuracy, calibration, speed, memory, start-up, robustness and recovery, as one table"
	@echo "make bench-compare BASE=commit   every figure of another commit beside this one's; ONLY='accuracy speed' for some"
	@echo "make build     wheel and sdist in dist/, their contents checked, the wheel tried in a fresh environment"
	@echo "make clean     remove .venv and caches"

setup: $(READY)

$(READY): pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unrelu needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11")'
	"$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $(READY)

$(BENCH_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,benchmark]"
	@touch $(BENCH_READY)

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,docs]"
	@touch $(DOCS_READY)

demo: setup
	$(BIN)/unrelu demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/house.py --check

test: lint
	$(PYTEST) -m "not slow and not browser"

test-all: lint
	$(PYTEST) -m "not browser"

# Kernels that were compiled without the check are not looked at: these have a cache of their own.
test-bounds: setup
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=.numba-bounds $(PYTEST) -m "not slow and not browser"

# One process: one browser serves all tests. -rs says why tests were skipped where there is none.
test-browser: setup
	@command -v npm > /dev/null && npm install --prefix tests/browser --no-package-lock --no-audit --no-fund --silent || true
	$(BIN)/python -m pytest -rs tests/browser

# torch is no small thing to install, and only layers of its networks need it.
test-torch: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pytest tests/tables/test_layer_rows.py

test-minimum:
	"$(PYTHON)" -m venv .venv-minimum
	.venv-minimum/bin/python -m pip install --quiet --disable-pip-version-check $$("$(PYTHON)" tools/minimum_versions.py)
	.venv-minimum/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	.venv-minimum/bin/python -m pytest -n auto --dist worksteal -m "not slow and not browser"

docs: $(DOCS_READY)
	rm -rf docs/_build docs/gallery docs/reference
	MPLBACKEND=agg $(BIN)/python -m sphinx -W --keep-going --quiet -b html -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python tools/check_site.py docs/_build/html

bench: $(BENCH_READY)
	$(BIN)/python -m benchmarks

bench-compare: $(BENCH_READY)
	@test -n "$(BASE)" || { echo "Name the commit to compare with: make bench-compare BASE=main~1"; exit 2; }
	$(BIN)/python -m benchmarks.compare "$(BASE)" $(ONLY)

build: setup
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tools/check_release.py dist

clean:
	rm -rf .venv .venv-minimum .numba-bounds .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache tests/browser/node_modules
	rm -rf docs/_build docs/gallery docs/reference
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
