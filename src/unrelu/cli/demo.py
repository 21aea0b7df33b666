"""``unrelu demo``: a layer of a network learned from its activations, compared with the truth."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from unrelu.cli.options import JsonOption
from unrelu.cli.outcome import Answer
from unrelu.errors import MissingDependencyError

if TYPE_CHECKING:
    from unrelu.cli.digits import HiddenLayer
    from unrelu.estimators import RectifiedGaussianLearner
    from unrelu.report.comparison import MomentErrors, Moments
    from unrelu.report.layer_picture import LayerResult

T = TypeVar("T")

NAIVE, LEARNED = "np.mean, np.cov", "unrelu"
IDEAL = "unrelu, on exactly normal rows"


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to, created if missing.")] = Path(
        "unrelu-demo"
    ),
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of the network's training.")] = 0,
    as_json: JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer:
    """Learn a network's hidden layer from its ReLU activations alone, and compare with the truth.

    Needs no file and no network connection. Writes model.npz and demo.png.
    """
    from unrelu.cli.outputs import check_outputs, output_folder
    from unrelu.cli.progress import meter

    model_path, picture_path = output / "model.npz", output / "demo.png"
    with output_folder(output):
        check_outputs([model_path, picture_path])
        with meter() as shown:
            shown.stage("Training a network on images of digits")
            from unrelu.cli.digits import trained_layer

            layer = trained_layer(seed=seed)
            kept = layer.learnable()
            shown.stage("Learning its hidden layer (the first run also compiles)")
            learner, result, errors, seconds = _compare(kept, seed)
            shown.stage("Drawing")
            picture = _drawn(result)
        _save(learner, kept, model_path)
        if isinstance(picture, bytes):
            from unrelu.report.pictures import write_picture

            write_picture(picture_path, picture)
    facts = _facts(layer, kept, errors, seconds)
    facts |= {
        "model": model_path,
        "picture": picture_path if isinstance(picture, bytes) else None,
        "seed": seed,
    }
    left_out = None if isinstance(picture, bytes) else str(picture)
    return Answer(facts, _shown(facts, errors, seconds, left_out))


def _compare(
    layer: HiddenLayer, seed: int
) -> tuple[RectifiedGaussianLearner, LayerResult, dict[str, MomentErrors], dict[str, float]]:
    """Learn the activations; errors and times of plain moments, of unrelu, and of unrelu on ideal rows."""
    from unrelu import RectifiedGaussian, RectifiedGaussianLearner
    from unrelu.report.comparison import Moments, moment_errors
    from unrelu.report.layer_picture import LayerResult

    seen = layer.activations
    RectifiedGaussianLearner().fit(seen)  # loads (the first time: compiles) the kernels, which is not timed
    naive, naive_seconds = _timed(lambda: Moments.of_rows(seen))
    learner, seconds = _timed(lambda: RectifiedGaussianLearner().fit(seen))
    learned = Moments.of_model(learner.distribution_)
    true = Moments.of_rows(layer.pre_activations)
    ideal = RectifiedGaussian(true.mean, true.std[:, None] * true.correlation * true.std)
    repeated = RectifiedGaussianLearner().fit(ideal.sample(len(seen), random_state=seed))
    estimates: dict[str, Moments] = {
        NAIVE: naive,
        LEARNED: learned,
        IDEAL: Moments.of_model(repeated.distribution_),
    }
    result = LayerResult(layer.pre_activations, layer.names, true, naive, learned, learner.bias_stderr_)
    errors = {name: moment_errors(estimate, true) for name, estimate in estimates.items()}
    return learner, result, errors, {NAIVE: naive_seconds, LEARNED: seconds}


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    outcome = work()
    return outcome, time.perf_counter() - start


def _drawn(result: LayerResult) -> bytes | MissingDependencyError:
    """The picture, or why there is none: the demo goes on without matplotlib."""
    from unrelu.report.layer_picture import layer_picture
    from unrelu.report.pictures import rendered

    try:
        return rendered(layer_picture(result))
    except MissingDependencyError as missing:
        return missing


def _save(learner: RectifiedGaussianLearner, layer: HiddenLayer, path: Path) -> None:
    from unrelu import RectifiedGaussian
    from unrelu.report.summaries import fit_details

    learned = learner.distribution_
    named = RectifiedGaussian(learned.bias, learned.covariance, learned.floor, layer.names)
    shares = (layer.pre_activations <= 0.0).mean(axis=0)
    errors = (learner.bias_stderr_, learner.row_norms_stderr_, learner.correlation_stderr_)
    details = {
        "inputs": ["hidden ReLU activations of a network on scikit-learn's digits"],
        **fit_details(named, learner.report_, shares, *errors),
    }
    named.save(path, details=details)


def _facts(
    layer: HiddenLayer, kept: HiddenLayer, errors: dict[str, MomentErrors], seconds: dict[str, float]
) -> dict[str, Any]:
    from unrelu.report.comparison import mean_absolute_skewness

    return {
        "rows": len(layer.pre_activations),
        "units": len(kept.names),
        "units_dropped": [name for name in layer.names if name not in kept.names],
        "training_accuracy": layer.accuracy,
        "share_floored": float((kept.pre_activations <= 0.0).mean()),
        "mean_absolute_skewness": mean_absolute_skewness(kept.pre_activations),
        "errors": {name: asdict(error) for name, error in errors.items()},
        "seconds": {name: round(value, 6) for name, value in seconds.items()},
    }


def _shown(
    facts: dict[str, Any], errors: dict[str, MomentErrors], seconds: dict[str, float], left_out: str | None
) -> list[Any]:
    from unrelu.report.tables import comparison_table

    dropped = facts["units_dropped"]
    return [
        f"A network with one hidden layer was trained on {facts['rows']:,} images of digits"
        f" (training accuracy {facts['training_accuracy']:.1%}).",
        f"Seen: the ReLU activations of {facts['units']} units, {facts['share_floored']:.1%} of them 0.",
        *([f"Left out, as never above 0 or constant: {', '.join(dropped)}."] if dropped else []),
        "Wanted: the moments of the pre-activations, which are known here and serve as the truth.",
        comparison_table(errors, seconds),
        "Errors of mean and std are in units of each unit's true standard deviation.",
        f"The pre-activations are not exactly normal (mean absolute skewness {facts['mean_absolute_skewness']:.2f});",
        "the last line shows what as many exactly normal rows would give.",
        f"Model written to {facts['model']}",
        f"Picture written to {facts['picture']}" if left_out is None else f"The picture was left out. {left_out}",
        f"Next: unrelu info {facts['model']}",
    ]
