"""``unrelu merge``: records of several tables in, the model of all their rows out."""

from __future__ import annotations

import os
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrelu.cli import options
from unrelu.cli.fit import fit_answer, kept_record, model_details
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import DoubtfulTableWarning, InvalidParameterError, ModelFileError

if TYPE_CHECKING:
    from unrelu.estimators import RectifiedGaussianLearner


@command()
def merge(
    files: Annotated[
        list[Path], typer.Argument(help="Records of unrelu fit --record, or saved learners.", metavar="RECORDS")
    ],
    output: Annotated[Path, options.output_option("The model file to write.")] = Path("model.npz"),
    record: Annotated[Path | None, typer.Option("--record", help="Also write the record of all rows.")] = None,
    picture: Annotated[Path | None, options.picture_option("the model")] = None,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Learn a model from records of disjoint rows, as if all rows had been in one table.

    Rows stay where they are: a site runs unrelu fit --record, with the same columns, floors and other settings as all,
    and only that file travels. What it tells of the rows is in docs/scale.md.
    """
    outputs = Output("model", output, "Model"), Output("record", record, "Record")
    job = Job(*outputs, Output("picture", picture, "Picture", "picture"), files=files)
    from unrelu.report.model_picture import model_picture

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # the answer has them in one table
        learner = _merged(files)
        law, shares = learner.distribution_, learner.report_.share_floored_by_column
    job.write(
        model=partial(law.save, details=model_details(learner, [str(file) for file in files])),
        record=lambda path: kept_record(learner).save(path),
        picture=lambda: model_picture(law, shares),
    )
    return fit_answer(job, learner, None)


def _merged(files: list[Path]) -> RectifiedGaussianLearner:
    """The learner of all rows; files that are the same, or do not agree, are named."""
    from unrelu.estimators.merging import merge as joined

    learners = [_learner_in(file) for file in files]
    for k, file in enumerate(files):
        for j in range(k):
            if os.path.samefile(file, files[j]) or _same_rows(learners[k], learners[j]):
                raise InvalidParameterError(f"{files[j]} and {file} are of the same rows: give every record once.")
    merged = learners[0]
    for file, learner in zip(files[1:], learners[1:], strict=True):
        try:
            merged = joined([merged, learner])
        except InvalidParameterError as error:
            raise InvalidParameterError(f"{files[0]} and {file}: {error}") from error
    return merged


def _learner_in(file: Path) -> RectifiedGaussianLearner:
    from unrelu import storage
    from unrelu.estimators import RectifiedGaussianLearner

    content = storage.load(file)
    if isinstance(content, RectifiedGaussianLearner) and hasattr(content, "record_"):
        return content
    raise ModelFileError(
        f"{file} holds a {type(content).__name__} without a record: give what unrelu fit --record wrote, or a learner"
        " with method='one_pass' that was saved."
    )


def _same_rows(one: RectifiedGaussianLearner, other: RectifiedGaussianLearner) -> bool:
    """Whether two records agree in every digit, as those of different rows never do."""
    import numpy as np

    from unrelu.statistics.grouped_moments import whole_of

    first, second = whole_of(one.record_), whole_of(other.record_)
    return first.n_rows == second.n_rows and all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in ("origin", "count", "cross")
    )
