"""``unrelu demo``: a layer of a network learned from its activations, compared with the truth."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unrelu.cli import options
from unrelu.cli.frame import Job, Output, output_folder
from unrelu.cli.outcome import Answer, command

if TYPE_CHECKING:
    from rich.table import Table

_INPUTS = ["hidden ReLU activations of a network on scikit-learn's digits"]


@command()
def demo(
    output: Annotated[Path, options.output("The folder to write to, created if missing.")] = Path("unrelu-demo"),
    seed: Annotated[int, "Seed of the network's training.", {"min": 0, "max": 2**32 - 1}] = 0,
) -> Answer | None:
    """Learn a network's hidden layer from its ReLU activations alone, and compare with the truth.

    Needs no file and no network connection. Writes model.npz and demo.png.
    """
    model_path = output / "model.npz"
    with output_folder(output):
        picture = Output("picture", output / "demo.png", "Picture", "spare picture")
        job = Job(Output("model", model_path, "Model"), picture)
        from unrelu.contracts import Step

        with job.fitting() as watch:  # the text below tells of the doubts in one line
            watch(Step("Training a network on images of digits"))
            from unrelu.report import demo as digits
            from unrelu.report.model import fit_details

            layer = digits.trained_layer(seed=seed)
            kept = layer.learnable()
            watch(Step("Learning its hidden layer (the first run also compiles)"))
            learner, result, errors, seconds = digits.learned_layer(kept, seed)
            watch(Step("Drawing"))
            details = {"inputs": _INPUTS, **fit_details(learner)}
            job.write(
                model=lambda path: learner.distribution_.save(path, details=details),
                picture=lambda: digits.layer_picture(result),
            )
    dropped = [name for name in layer.names if name not in kept.names]
    share, skewness = float((kept.pre_activations <= 0.0).mean()), digits.mean_absolute_skewness(kept.pre_activations)
    doubtful = len({column for doubt in learner.report_.doubts for column in doubt.columns})
    facts = {
        "rows": len(layer.pre_activations),
        "units": len(kept.names),
        "units_dropped": dropped,
        "training_accuracy": layer.accuracy,
        "share_floored": share,
        "mean_absolute_skewness": skewness,
        "units_in_doubt": doubtful,
        "errors": {name: asdict(error) for name, error in errors.items()},
        "seconds": {name: round(value, 6) for name, value in seconds.items()},
        "seed": seed,
    }
    shown: list[str | Table] = [
        f"A network with one hidden layer was trained on {len(layer.pre_activations):,} images of digits"
        f" (training accuracy {layer.accuracy:.1%}).",
        f"Seen: the ReLU activations of {len(kept.names)} units, {share:.1%} of them 0.",
        *([f"Left out, as never above 0 or constant: {', '.join(dropped)}."] if dropped else []),
        "Wanted: the moments of the pre-activations, which are known here and serve as the truth.",
        digits.comparison_table(errors, seconds),
        "Errors of mean and std are in units of each unit's true standard deviation.",
        f"The pre-activations are not exactly normal (mean absolute skewness {skewness:.2f});",
        "the last line shows what as many exactly normal rows would give.",
        *([f"unrelu fit would warn of it ({doubtful} units)."] if doubtful else []),
    ]
    return job.answer(facts, shown, [f"Next: unrelu info {model_path}"])
