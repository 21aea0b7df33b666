"""``unrelu score``: which rows of a table do not belong, how surely, and which of their cells say so."""

from __future__ import annotations

import csv
import gzip
import io
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from unrelu.cli.options import DropOption, JsonOption, ToleranceOption, floors, listed_items
from unrelu.cli.outcome import Answer, counted
from unrelu.errors import InputFileError, InvalidDataError, InvalidParameterError, OutputError

if TYPE_CHECKING:
    from rich.table import Table

    from unrelu.cli.progress import Meter
    from unrelu.contracts import FloatArray, RobustReport, Samples
    from unrelu.distribution import RectifiedGaussian
    from unrelu.robust.detection import OutlierScores
    from unrelu.robust.scoring import Driver, Rows, StrangeCells

_KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".feather", ".arrow")
_ROWS_AT_A_TIME = 100_000


def score(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Tables (csv, tsv, parquet, feather, npy, npz), globs of them, or - for csv on stdin.",
            metavar="PATHS",
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Judge by this model file; by default the table's genuine rows are learned."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=f"Also write one line per row: {', '.join(_KINDS)}."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=0, help="How many of the strangest rows to show.")] = 10,
    false_alarm_rate: Annotated[
        float, typer.Option("--false-alarm-rate", help="The share of the rows of a clean table that are flagged.")
    ] = 0.01,
    floor: Annotated[
        list[str] | None,
        typer.Option(
            "--floor",
            metavar="FLOOR",
            help="The floor: a number (0 by default), or floors of single columns such as As=0.5,Pb=1.",
        ),
    ] = None,
    floor_tolerance: ToleranceOption = 0.0,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="NAMES", help="Columns to use, as a,b,c; all (or the model's) by default."),
    ] = None,
    drop: DropOption = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Also draw the scores: a png, svg or pdf file.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the fit and of the simulated rows.")] = 0,
    as_json: JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer:
    """Score every row of a table, and show the strangest ones and their strangest cells.

    A p-value is the share of the model's own rows that are as strange; the score is a row's log density.
    """
    from unrelu.cli.progress import meter

    _check_request([*paths, *([] if model is None else [str(model)])], output, picture, false_alarm_rate)
    if model is not None and floor is not None:
        raise InvalidParameterError(f"--floor belongs to a fit, and {model} has its own: leave one of them out.")
    start = time.perf_counter()
    choice = (listed_items(columns), listed_items(drop))
    with meter() as shown:
        if model is None:
            judge = _fitted(paths, choice, floor or ["0.0"], floor_tolerance, seed, shown)
        else:
            judge = _loaded(paths, choice, model, floor_tolerance, seed, shown)
        verdict = _judged(judge, false_alarm_rate, top, output is not None, shown)
    drawn = None if picture is None else _drawn(judge, verdict, picture)
    if output is not None:
        _write_scores(output, judge, verdict)
    if picture is not None and drawn is not None:
        from unrelu.report.pictures import write_picture

        write_picture(picture, drawn)
    outputs = {"model": model, "output": output, "picture": picture}
    return _answer(judge, verdict, outputs, time.perf_counter() - start)


def _check_request(inputs: list[str], output: Path | None, picture: Path | None, rate: float) -> None:
    """Everything that can be refused before the long work."""
    from unrelu.cli.outputs import check_outputs
    from unrelu.estimators.outliers import check_false_alarm_rate

    check_false_alarm_rate("--false-alarm-rate", rate)
    check_outputs([output, picture], inputs)
    if output is not None and not output.name.lower().endswith(_KINDS):
        raise OutputError(f"{output}: unknown kind of file for scores. Known are {', '.join(_KINDS)}.")
    if picture is not None:
        from unrelu.report.pictures import check_picture

        check_picture(picture)


# --- the model and its table ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Judge:
    """A table, the model that judges its rows, and what only a fit to the same rows can tell."""

    samples: Samples
    law: RectifiedGaussian
    scorer: OutlierScores
    lowest: tuple[float, ...]
    weights: FloatArray | None = None
    report: RobustReport | None = None


def _fitted(
    paths: list[str], choice: tuple[list[str], list[str]], floor: list[str], tolerance: float, seed: int, shown: Meter
) -> _Judge:
    """The robust fit to the table itself."""
    from unrelu.cli.progress import MeteredEngine
    from unrelu.contracts import Assumptions
    from unrelu.evidence import SampleEvidence
    from unrelu.methods import Robust
    from unrelu.robust.detection import OutlierScores
    from unrelu.robust.learning import RobustLearned
    from unrelu.samples import open_samples

    samples = open_samples(paths, columns=choice[0] or None, drop=choice[1] or None)
    own_floors = floors(floor, samples.n_features, samples.feature_names)
    assumptions = Assumptions(own_floors, floor_tolerance=tolerance)
    evidence = SampleEvidence(samples, MeteredEngine(shown, samples.n_rows))
    try:
        learned = cast(RobustLearned, Robust(seed=seed).learn(evidence, assumptions))
    except InvalidDataError as error:
        # The library names its parameter; here the way out is another command.
        advice = "fit a model of other rows and give it as --model"
        raise InvalidDataError(str(error).replace("use method='one_pass'", advice)) from error
    scorer = OutlierScores.of(learned, tolerance, seed)
    report = cast("RobustReport", learned.report)
    return _Judge(samples, learned.distribution, scorer, assumptions.lowest, learned.row_weights, report)


def _loaded(
    paths: list[str], choice: tuple[list[str], list[str]], model: Path, tolerance: float, seed: int, shown: Meter
) -> _Judge:
    """A model from a file; its columns are found in the table by name, or by position where it has no names."""
    from unrelu.distribution import RectifiedGaussian
    from unrelu.robust.detection import OutlierScores
    from unrelu.samples import open_samples

    law = RectifiedGaussian.load(model)
    keep, drop = choice
    if law.feature_names is None:
        samples = open_samples(paths, columns=keep or None, drop=drop or None)
        if samples.n_features != law.n_features:
            raise InvalidParameterError(
                f"{model} has {counted(law.n_features, 'column')} without names, the table {samples.n_features:,}:"
                " choose the same ones, in the same order, with --columns or --drop."
            )
    else:
        law = _part_of(law, keep, drop, model)
        try:
            samples = open_samples(paths, columns=law.feature_names)
        except InputFileError as error:
            raise InputFileError(f"{error} {model} speaks of {_few(law.feature_names or ())}.") from error
    shown.stage("Simulating rows of the model (the first run also compiles)")
    scorer = OutlierScores.of_model(law, tolerance, seed)
    return _Judge(samples, law, scorer, tuple((law.floor - tolerance).tolist()))


def _part_of(law: RectifiedGaussian, keep: list[str], drop: list[str], model: Path) -> RectifiedGaussian:
    """The model of the columns that are wanted, in their order."""
    names = law.feature_names or ()
    unknown = [name for name in [*keep, *drop] if name not in names]
    if unknown:
        raise InvalidParameterError(f"{model} has no column {unknown[0]!r}: it speaks of {_few(names)}.")
    wanted = [name for name in dict.fromkeys(keep or names) if name not in drop]
    if not wanted:
        raise InvalidParameterError(f"No column of {model} is left: drop fewer columns.")
    return law.marginal(wanted)


def _few(names: tuple[str, ...]) -> str:
    from unrelu.validation import listed

    return listed(names, most=8)


# --- judging --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Verdict:
    """One score and p-value per row. ``top``: the strangest rows; ``cells``: of those, and of all flagged if wanted."""

    scores: FloatArray
    p_values: FloatArray
    threshold: float
    false_alarm_rate: float
    top: Rows
    cells: StrangeCells

    @property
    def flagged(self) -> Any:
        return self.scores < self.threshold


def _judged(judge: _Judge, rate: float, top: int, every_flagged: bool, shown: Meter) -> _Verdict:
    import numpy as np

    from unrelu.engines.local import LocalEngine
    from unrelu.robust.scoring import ScoreQuestion, StrangeCells, StrangeCellsQuestion, score_threshold

    samples, engine = judge.samples, LocalEngine(progress=shown.advance)
    shown.stage("Scoring rows", samples.n_rows)
    scored = engine.collect(samples, ScoreQuestion(judge.scorer, judge.lowest))
    scored.screening.check(judge.lowest, samples.feature_names)
    scores, threshold = scored.scores, score_threshold(judge.scorer, rate)
    strangest = np.argsort(scores, kind="stable")[:top].astype(np.int64)
    wanted = np.union1d(strangest, np.flatnonzero(scores < threshold)) if every_flagged else np.sort(strangest)
    cells = StrangeCells((), {})
    if len(wanted):
        shown.stage("Looking at the cells of the strangest rows", len(scores))
        question = StrangeCellsQuestion(judge.scorer, judge.law, wanted, frozenset(strangest.tolist()))
        cells = engine.collect(samples, question)
    return _Verdict(scores, judge.scorer.p_value(scores), threshold, rate, strangest, cells)


# --- what comes out -------------------------------------------------------------------------------


def _in_words(drivers: list[Driver], names: tuple[str, ...]) -> str:
    """Cells as people read them, "As +7.2, Pb -4.1"."""
    return ", ".join(f"{names[column]} {size:+.1f}" for column, size in drivers)


def _write_scores(path: Path, judge: _Judge, verdict: _Verdict) -> None:
    """One line per row: its number, score, p-value, whether it is flagged, its weight in the fit, strangest cells."""
    import pyarrow as pa

    from unrelu.storage import atomic_write

    kind, batches = path.name.lower(), _score_batches(judge, verdict)
    schema = batches[0].schema
    with atomic_write(path) as stream:
        if kind.endswith(".parquet"):
            from pyarrow import parquet

            with parquet.ParquetWriter(stream, schema, write_page_checksum=True) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        elif kind.endswith((".feather", ".arrow")):
            with pa.ipc.new_file(stream, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        elif kind.endswith(".gz"):
            # no time and no name inside: the same rows give the same bytes
            with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=stream, mtime=0) as packed:
                _write_text(cast(IO[bytes], packed), batches, "\t" if ".tsv" in kind else ",")
        else:
            _write_text(stream, batches, "\t" if kind.endswith(".tsv") else ",")


def _score_batches(judge: _Judge, verdict: _Verdict) -> list[Any]:
    import numpy as np
    import pyarrow as pa

    from unrelu.report.summaries import labels

    names, flagged = labels(judge.law), verdict.flagged
    batches = []
    for start in range(0, len(flagged), _ROWS_AT_A_TIME):
        at = slice(start, start + _ROWS_AT_A_TIME)
        rows = np.arange(start, start + len(flagged[at]))
        texts = [_in_words(verdict.cells.drivers(row), names) if flagged[row] else None for row in rows.tolist()]
        columns = {
            "row": rows,
            "score": verdict.scores[at],
            "p_value": verdict.p_values[at],
            "outlier": flagged[at].astype(np.int8),
            **({} if judge.weights is None else {"weight": judge.weights[at]}),
            "drivers": pa.array(texts, pa.string()),
        }
        batches.append(pa.RecordBatch.from_pydict(columns))
    return batches


def _write_text(stream: IO[bytes], batches: list[Any], delimiter: str) -> None:
    from pyarrow import csv as arrow_csv

    header = io.StringIO()
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(batches[0].schema.names)
    stream.write(header.getvalue().encode())
    options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
    for batch in batches:
        text = io.BytesIO()
        arrow_csv.write_csv(batch, text, options)
        stream.write(text.getvalue())


def _drawn(judge: _Judge, verdict: _Verdict, picture: Path) -> bytes:
    import numpy as np

    from unrelu.report.outlier_picture import OutlierResult, outlier_picture
    from unrelu.report.pictures import rendered
    from unrelu.report.summaries import labels

    whole = [verdict.cells.whole[row] for row in verdict.top.tolist()]
    result = OutlierResult(
        verdict.scores,
        judge.scorer.tail.scores,
        verdict.threshold,
        verdict.false_alarm_rate,
        verdict.top,
        np.array(whole).reshape(len(whole), judge.law.n_features),
        labels(judge.law),
    )
    return rendered(outlier_picture(result), picture.suffix)


def _answer(judge: _Judge, verdict: _Verdict, outputs: dict[str, Path | None], seconds: float) -> Answer:
    from unrelu.report.summaries import labels

    names, flagged = labels(judge.law), verdict.flagged
    n, found = len(flagged), int(flagged.sum())
    expected = n * verdict.false_alarm_rate
    strangest = [
        {
            "row": row,
            "score": float(verdict.scores[row]),
            "p_value": float(verdict.p_values[row]),
            "outlier": bool(flagged[row]),
            **({} if judge.weights is None else {"weight": float(judge.weights[row])}),
            "drivers": [{"column": names[j], "residual": size} for j, size in verdict.cells.drivers(row)],
        }
        for row in verdict.top.tolist()
    ]
    facts = {
        **outputs,
        "seconds": round(seconds, 3),
        "rows": n,
        "flagged": found,
        "expected_if_clean": expected,
        "false_alarm_rate": verdict.false_alarm_rate,
        "threshold": verdict.threshold,
        "strangest": strangest,
        "report": None if judge.report is None else asdict(judge.report),
    }
    judged_by = "the model of their genuine rows" if outputs["model"] is None else str(outputs["model"])
    shown: list[str | Table] = [
        f"Scored {counted(n, 'row')} of {counted(judge.law.n_features, 'column')} by {judged_by} in {seconds:.2f} s.",
        f"Flagged {counted(found, 'row')} ({found / n:.2%}); a clean table of that size would have about"
        f" {expected:,.{0 if expected >= 10 else 1}f} (false alarm rate {verdict.false_alarm_rate:g}).",
        *([_strangest_table(verdict, judge.weights, names)] if len(verdict.top) else []),
        *([f"Scores written to {outputs['output']}"] if outputs["output"] is not None else []),
        *([f"Picture written to {outputs['picture']}"] if outputs["picture"] is not None else []),
    ]
    return Answer(facts, shown)


def _strangest_table(verdict: _Verdict, weights: FloatArray | None, names: tuple[str, ...]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("row", "score", "p-value", "flagged", *(["weight"] if weights is not None else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("strangest cells, in standard deviations given the others", overflow="fold")
    for row in verdict.top.tolist():
        p = verdict.p_values[row]
        table.add_row(
            f"{row:,}",
            f"{verdict.scores[row]:.4g}",
            f"{p:.2g}" if p >= 1e-99 else "< 1e-99",
            "yes" if verdict.flagged[row] else "no",
            *([f"{weights[row]:.2f}"] if weights is not None else []),
            Text(_in_words(verdict.cells.drivers(row), names)),
        )
    return table
