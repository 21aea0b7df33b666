"""``unrelu demo``: a layer of a network learned from its activations, compared with the truth."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unrelu.cli import options
from unrelu.cli.frame import Job, Output, output_folder
from unrelu.cli.outcome import Answer, command

if TYPE_CHECKING:
    from unrelu.report.demo import HiddenLayer, LearnedLayer

_INPUTS = ["hidden ReLU activations of a network on scikit-learn's digits"]


@command()
def demo(
    output: Annotated[Path, options.output("The folder to write to, created if missing.")] = Path("unrelu-demo"),
    seed: Annotated[int, options.option("Seed of the network's training.", min=0, max=2**32 - 1)] = 0,
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
            learned = digits.learned_layer(kept, seed)
            watch(Step("Drawing"))
            details = {"inputs": _INPUTS, **fit_details(learned.learner)}
            job.write(
                model=lambda path: learned.learner.distribution_.save(path, details=details),
                picture=lambda: digits.layer_picture(learned.result),
            )
    facts = {**_facts(layer, kept, learned), "seed": seed}
    return job.answer(facts, _shown(facts, learned), [f"Next: unrelu info {model_path}"])


def _facts(layer: HiddenLayer, kept: HiddenLayer, learned: LearnedLayer) -> dict[str, Any]:
    from unrelu.report.demo import mean_absolute_skewness

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


def _shown(facts: dict[str, Any], learned: LearnedLayer) -> list[Any]:
    from unrelu.report.demo import comparison_table

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
