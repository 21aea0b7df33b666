"""The house keeps to its numbers, and every module has its tests: where they mirror it, or in the table below."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "unrelu", ROOT / "tests"
MODULES = sorted(
    path for path in SOURCE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py", "_version.py")
)

MOST_LINES, MOST_BODY, MOST_IN_ALL, MOST_MATRIX_FILES = 600, 60, 52_500, 17

# Modules whose tests are not in tests/<room>/test_<module>.py or test_<room>_<module>.py.
TESTED_IN = {
    "bad_cells/detection.py": "bad_cells/test_law.py",
    "cli/inputs.py": "cli/test_cli_bad_input.py",
    "cli/options.py": "cli/test_cli_frame.py",
    "contracts.py": "contracts/test_methods.py",
    "engines/local.py": "engines/test_threads.py",
    "correlations/pair_algebra.py": "correlations/test_pairs_at_once.py",
    "correlations/pair_arrays.py": "correlations/test_pairs_at_once.py",
    "doubts/neighbours.py": "doubts/test_misfit.py",
    "errors.py": "test_package.py",
    "statistics/device_sums.py": "engines/test_device.py",
    "estimators/hooking.py": "samples/test_layer_rows.py",
    "estimators/base.py": "contracts/test_estimators.py",
    "estimators/learned_model.py": "estimators/test_learner.py",
    "estimators/reading.py": "estimators/test_hard_tables.py",
    "estimators/merging.py": "properties/test_splits.py",
    "estimators/peeling.py": "estimators/test_peel.py",
    "estimators/placing.py": "engines/test_device.py",
    "evidence.py": "properties/test_splits.py",
    "kernels/cell_shares.py": "kernels/test_cell_patterns.py",
    "kernels/batch_sums.py": "statistics/test_batch_means.py",
    "kernels/normal.py": "kernels/test_bivariate_normal.py",
    "kernels/pair_gather.py": "correlations/test_weighted_moments.py",
    "learning.py": "estimators/test_learner.py",
    "likelihood/correction.py": "likelihood/test_likelihood_learning.py",
    "likelihood/covariance_law.py": "likelihood/test_climbing.py",
    "likelihood/factor_law.py": "likelihood/test_climbing.py",
    "likelihood/scores.py": "likelihood/test_climbing.py",
    "likelihood/starts.py": "likelihood/test_likelihood_learning.py",
    "marginals/batching.py": "marginals/test_filtered_gradient.py",
    "marginals/columns.py": "marginals/test_papers_marginals.py",
    "marginals/filters.py": "marginals/test_papers_marginals.py",
    "marginals/sample_median.py": "marginals/test_papers_marginals.py",
    "marginals/truncated_sgd.py": "marginals/test_papers_marginals.py",
    "methods.py": "contracts/test_methods.py",
    "parameters.py": "test_distribution.py",
    "networks/contracts.py": "estimators/test_network.py",
    "papers/experiments/catalogue.py": "cli/test_cli_reproduce.py",
    "papers/experiments/checklist.py": "papers/experiments/test_runner.py",
    "papers/experiments/design.py": "papers/experiments/test_claims.py",
    "papers/experiments/experiment.py": "papers/experiments/test_runner.py",
    "papers/experiments/journal.py": "papers/experiments/test_runner.py",
    "papers/experiments/measures.py": "papers/experiments/test_claims.py",
    "papers/experiments/outlier_curves.py": "papers/experiments/test_trial.py",
    "papers/experiments/outliers_table.py": "papers/experiments/test_reproduction_picture.py",
    "papers/experiments/outliers.py": "papers/experiments/test_reproduction_picture.py",
    "papers/experiments/results.py": "papers/experiments/test_claims.py",
    "papers/experiments/wu2019.py": "papers/experiments/test_reproduction_picture.py",
    "papers/guarantees/checks.py": "papers/test_guarantees.py",
    "papers/guarantees/clean.py": "papers/test_guarantees.py",
    "papers/guarantees/curvature.py": "papers/test_open_constants.py",
    "papers/guarantees/error_law.py": "papers/test_guarantees.py",
    "papers/guarantees/influence.py": "papers/test_guarantees.py",
    "papers/guarantees/latent.py": "papers/test_latent_guarantees.py",
    "papers/guarantees/matrix.py": "papers/test_matrix_guarantees.py",
    "papers/guarantees/outliers.py": "papers/test_guarantees.py",
    "papers/guarantees/piecewise.py": "papers/test_matrix_guarantees.py",
    "papers/guarantees/planner.py": "papers/test_guarantees.py",
    "papers/likelihood/columns.py": "papers/test_likelihood.py",
    "papers/likelihood/density.py": "papers/test_likelihood.py",
    "papers/likelihood/gauge.py": "papers/test_likelihood.py",
    "papers/likelihood/normalized.py": "papers/test_normalized_likelihood.py",
    "papers/likelihood/nuclear.py": "papers/test_likelihood.py",
    "papers/likelihood/program.py": "papers/test_likelihood.py",
    "posterior/cells.py": "posterior/test_answers.py",
    "posterior/imputation.py": "posterior/test_answers.py",
    "posterior/marginal_values.py": "posterior/test_answers.py",
    "posterior/prediction.py": "posterior/test_answers.py",
    "kernels/drawn_rows.py": "posterior/test_draws.py",
    "posterior/hidden.py": "kernels/test_hidden_cells.py",
    "posterior/prepared.py": "posterior/test_row_scores.py",
    "recovery/latent/contracts.py": "estimators/test_latent.py",
    "recovery/latent/methods.py": "estimators/test_latent.py",
    "recovery/latent/recover.py": "estimators/test_latent.py",
    "recovery/layers/decoding.py": "recovery/layers/test_facets.py",
    "recovery/layers/ending.py": "estimators/test_generators.py",
    "recovery/layers/faces.py": "recovery/layers/test_deepening.py",
    "recovery/layers/implied.py": "recovery/layers/test_deepening.py",
    "recovery/layers/facet_fit.py": "recovery/layers/test_facets.py",
    "recovery/layers/inverting.py": "estimators/test_two_layer.py",
    "recovery/layers/peeling.py": "estimators/test_peel.py",
    "recovery/layers/separable.py": "recovery/layers/test_facets.py",
    "recovery/layers/subspace.py": "recovery/layers/test_facets.py",
    "recovery/layers/two_layers.py": "estimators/test_two_layer.py",
    "recovery/layers/units.py": "estimators/test_two_layer.py",
    "recovery/matrix/contracts.py": "recovery/matrix/test_descent.py",
    "recovery/matrix/losses.py": "recovery/matrix/test_newton.py",
    "recovery/matrix/methods.py": "estimators/test_matrix.py",
    "report/cells.py": "report/test_bad_cell_picture.py",
    "report/check.py": "report/test_check_picture.py",
    "report/contents.py": "cli/test_cli_info.py",
    "report/demo.py": "report/test_report_pictures.py",
    "report/factor.py": "report/test_factor_picture.py",
    "report/imputation.py": "report/test_imputation_picture.py",
    "report/layers.py": "report/test_peel_picture.py",
    "report/model.py": "report/test_report_tables.py",
    "report/network.py": "report/test_network_picture.py",
    "report/outliers.py": "report/test_outlier_picture.py",
    "report/page/columns.py": "report/page/test_column_curves.py",
    "report/page/making.py": "report/page/test_writing.py",
    "report/page/pairs.py": "report/page/test_pair_matrix.py",
    "report/page/rows.py": "report/page/test_writing.py",
    "report/prediction.py": "cli/test_cli_predict.py",
    "report/recovery.py": "report/test_recover_picture.py",
    "report/reproduction.py": "papers/experiments/test_reproduction_picture.py",
    "robust/clusters.py": "robust/test_clustering.py",
    "robust/detection.py": "estimators/test_outliers.py",
    "robust/learning.py": "robust/test_robust_method.py",
    "robust/mixture.py": "robust/test_mixture_em.py",
    "robust/scoring.py": "estimators/test_outliers.py",
    "robust/selection.py": "robust/test_reweighting.py",
    "samples/arrow_files.py": "samples/test_samples_arrow.py",
    "samples/blocks.py": "samples/test_samples_arrays.py",
    "samples/columns.py": "samples/test_samples_files.py",
    "samples/diagnosis.py": "samples/test_samples_csv.py",
    "samples/csv_file.py": "samples/test_samples_csv.py",
    "samples/parts.py": "engines/test_dask_engine.py",
    "samples/packed.py": "samples/test_samples_csv_dialect.py",
    "samples/reading.py": "samples/test_samples_limits.py",
    "samples/table_file.py": "samples/test_samples_files.py",
    "samples/text_columns.py": "samples/test_samples_cells.py",
    "statistics/column_tally.py": "statistics/test_batch_means.py",
    "statistics/histogram.py": "marginals/test_papers_marginals.py",
    "statistics/screening.py": "estimators/test_learner.py",
    "statistics/tiles.py": "statistics/test_pair_moments.py",
    "storage/archives.py": "test_storage.py",
    "storage/files.py": "test_storage.py",
    "storage/kinds.py": "golden/test_golden.py",
    "storage/records.py": "contracts/test_estimators.py",
}


def named(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def mirrors(path: Path) -> list[Path]:
    folder = TESTS / path.relative_to(SOURCE).parent
    return [folder / f"test_{path.stem}.py", folder / f"test_{path.parent.name}_{path.stem}.py"]


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_every_module_has_its_tests(path):
    mirrored = any(mirror.exists() for mirror in mirrors(path))
    assert mirrored != (named(path) in TESTED_IN), "tests mirror it, or the table names them: one of both"


def test_the_table_names_what_is_there():
    assert set(TESTED_IN) <= {named(path) for path in MODULES}
    assert [name for name in TESTED_IN.values() if not (TESTS / name).exists()] == []


def test_files_are_short():
    long = {named(path): n for path in MODULES if (n := path.read_text().count("\n")) > MOST_LINES}
    assert long == {}


def test_bodies_are_short():
    long = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                if body and (lines := body[-1].end_lineno - body[0].lineno + 1) > MOST_BODY:
                    long[f"{named(path)} {node.name}"] = lines
    assert long == {}


def test_the_house_is_small():
    without_papers = [path for path in SOURCE.rglob("*.py") if "papers" not in path.parts]
    assert sum(path.read_text().count("\n") for path in without_papers) <= MOST_IN_ALL
    assert len(list((SOURCE / "recovery" / "matrix").glob("*.py"))) <= MOST_MATRIX_FILES


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/papers.md", "docs/architecture.md"])
def test_pages_name_files_that_are_there(page):
    places = [ROOT, SOURCE, TESTS]
    named_files = re.findall(r"`([\w/]+(?:\.py|\.md|/))`", (ROOT / page).read_text())
    every = {path.name for place in (SOURCE, TESTS, ROOT / "benchmarks") for path in place.rglob("*.py")}
    assert named_files
    gone = [name for name in named_files if not any((place / name).exists() for place in places)]
    assert [name for name in gone if "/" in name or name not in every] == []


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.AST) -> set[str]:
    """Everything that a module defines or assigns, as a name or an attribute."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def borrowed(source: str) -> list[str]:
    """Private names of other modules that a source imports or reaches for."""
    tree = ast.parse(source)
    own, found = own_names(tree) | {"_getframe"}, []  # sys._getframe is documented
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unrelu"):
            found += [alias.name for alias in node.names if private(alias.name) and alias.name != "_version"]
        elif isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
            whose = node.value
            of_itself = isinstance(whose, ast.Name) and whose.id in ("self", "cls")
            of_its_base = isinstance(whose, ast.Call) and isinstance(whose.func, ast.Name) and whose.func.id == "super"
            if not (of_itself or of_its_base):
                found.append(node.attr)
    return found


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_no_module_reaches_into_another(path):
    assert borrowed(path.read_text()) == []


def test_reaching_into_another_module_is_noticed():
    assert borrowed("from unrelu.storage.records import _packed") == ["_packed"]
    assert borrowed("def f(learner):\n    return learner._record") == ["_record"]
    assert borrowed("class A:\n    def f(self, other):\n        self._x = other._x\n        return super()._y") == []
