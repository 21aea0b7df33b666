"""``unrelu demo``: a layer of a network learned from its activations, compared with the truth."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from unrelu.cli.frame import Job, Output
from unrelu.cli.options import JsonOption, output_option, seed_option
from unrelu.cli.outcome import Answer, command
from unrelu.cli.outputs import output_folder

if TYPE_CHECKING:
    from unrelu.cli.digits import HiddenLayer
    from unrelu.contracts import Watch
    from unrelu.estimators import RectifiedGaussianLearner
    from unrelu.report.comparison import MomentErrors, Moments
    from unrelu.report.layer_picture import LayerResult

T = TypeVar("T")

NAIVE, LEARNED = "np.mean, np.cov", "unrelu"
IDEAL = "unrelu, on exactly normal rows"


@command()
def demo(
    output: Annotated[Path, output_option("The folder to write to, created if missing.")] = Path("unrelu-demo"),
    seed: Annotated[int, seed_option("Seed of the network's training.", 2**32 - 1)] = 0,
    as_json: JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Learn a network's hidden layer from its ReLU activations alone, and compare with the truth.

    Needs no file and no network connection. Writes model.npz and demo.png.
    """
    model_path = output / "model.npz"
    with output_folder(output):
        picture = Output("picture", output / "demo.png", "Picture", "spare picture")
        job = Job(Output("model", model_path, "Model"), picture)
        with job.watch() as watch:
            layer, kept, learned = _learned(seed, watch)
            from unrelu.report.layer_picture import layer_picture

            job.write(model=partial(_save, learned.learner), picture=lambda: layer_picture(learned.result))
    facts = {**_facts(layer, kept, learned), "seed": seed}
    return job.answer(facts, _shown(facts, learned), [f"Next: unrelu info {model_path}"])


@dataclass(frozen=True, eq=False)
class _Comparison:
    """A learner of the activations, what its picture shows, and errors and times of several estimates."""

    learner: RectifiedGaussianLearner
    result: LayerResult
    errors: dict[str, MomentErrors]
    seconds: dict[str, float]


def _learned(seed: int, watch: Watch) -> tuple[HiddenLayer, HiddenLayer, _Comparison]:
    from unrelu.contracts import Step
    from unrelu.errors import DoubtfulTableWarning

    watch(Step("Training a network on images of digits"))
    from unrelu.cli.digits import trained_layer

    layer = trained_layer(seed=seed)
    kept = layer.learnable()
    watch(Step("Learning its hidden layer (the first run also compiles)"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # the text below tells of them in one line
        learned = _compare(kept, seed)
    watch(Step("Drawing"))
    return layer, kept, learned


def _compare(layer: HiddenLayer, seed: int) -> _Comparison:
    """Learn the activations; errors and times of plain moments, of unrelu, and of unrelu on ideal rows."""
    from unrelu import RectifiedGaussian, RectifiedGaussianLearner
    from unrelu.report.comparison import Moments, moment_errors
    from unrelu.report.layer_picture import LayerResult
    from unrelu.samples import ArraySamples

    seen = layer.activations
    named = ArraySamples(seen, feature_names=layer.names)
    RectifiedGaussianLearner().fit(seen)  # loads (the first time: compiles) the kernels, which is not timed
    naive, naive_seconds = _timed(lambda: Moments.of_rows(seen))
    learner, seconds = _timed(lambda: RectifiedGaussianLearner().fit(named))
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
    return _Comparison(learner, result, errors, {NAIVE: naive_seconds, LEARNED: seconds})


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    outcome = work()
    return outcome, time.perf_counter() - start


def _save(learner: RectifiedGaussianLearner, path: Path) -> None:
    from unrelu.report.summaries import fit_details

    inputs = ["hidden ReLU activations of a network on scikit-learn's digits"]
    learner.distribution_.save(path, details={"inputs": inputs, **fit_details(learner)})


def _facts(layer: HiddenLayer, kept: HiddenLayer, learned: _Comparison) -> dict[str, Any]:
    from unrelu.report.comparison import mean_absolute_skewness

    return {
        "rows": len(layer.pre_activations),
        "units": len(kept.names),
        "units_dropped": [name for name in layer.names if name not in kept.names],
        "training_accuracy": layer.accuracy,
        "share_floored": float((kept.pre_activations <= 0.0).mean()),
        "mean_absolute_skewness": mean_absolute_skewness(kept.pre_activations),
        "units_in_doubt": len({column for doubt in learned.learner.report_.doubts for column in doubt.columns}),
        "errors": {name: asdict(error) for name, error in learned.errors.items()},
        "seconds": {name: round(value, 6) for name, value in learned.seconds.items()},
    }


def _shown(facts: dict[str, Any], learned: _Comparison) -> list[Any]:
    from unrelu.report.tables import comparison_table

    dropped = facts["units_dropped"]
    return [
        f"A network with one hidden layer was trained on {facts['rows']:,} images of digits"
        f" (training accuracy {facts['training_accuracy']:.1%}).",
        f"Seen: the ReLU activations of {facts['units']} units, {facts['share_floored']:.1%} of them 0.",
        *([f"Left out, as never above 0 or constant: {', '.join(dropped)}."] if dropped else []),
        "Wanted: the moments of the pre-activations, which are known here and serve as the truth.",
        comparison_table(learned.errors, learned.seconds),
        "Errors of mean and std are in units of each unit's true standard deviation.",
        f"The pre-activations are not exactly normal (mean absolute skewness {facts['mean_absolute_skewness']:.2f});",
        "the last line shows what as many exactly normal rows would give.",
        *([f"unrelu fit would warn of it ({facts['units_in_doubt']} units)."] if facts["units_in_doubt"] else []),
    ]
