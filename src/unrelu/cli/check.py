"""``unrelu check``, ``unrelu report`` and ``unrelu info``: does a model fit, a page about it, what is in a file."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command, one_line
from unrelu.errors import InvalidParameterError, OutputError

_MISFIT = 1  # the exit code of check --strict


@command()
def check(
    table: Annotated[
        str, typer.Argument(help="The table, or a quoted glob of tables, as in unrelu fit.", metavar="TABLE")
    ],
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="A model file, taken as given; by default the table is learned."),
    ] = None,
    simulations: Annotated[int, "Tables that are simulated: p-values are at least 1/(N + 1).", {"min": 19}] = 199,
    level: Annotated[float, "The p-value from which on a model does not fit."] = 0.05,
    strict: Annotated[bool, "Exit with code 1 if the model does not fit; it is 0 otherwise."] = False,
    fitting: options.FitOptions = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[
        Path | None,
        options.output("Also write one line per column: csv, tsv (also gzipped), parquet, feather or arrow."),
    ] = None,
    picture: Annotated[Path | None, options.picture("columns and pairs that fit worst")] = None,
    seed: Annotated[int, "Seed of the rows looked at and of the simulated tables.", {"min": 0}] = 0,
) -> Answer | None:
    """Check whether the model fits a table: every column, every pair of columns, and one sentence on what to do.

    A p-value is the share of simulated tables of the model, each learned like this one, that are as far from their
    model. At most 5,000 rows are looked at.
    """
    outputs = Output("output", output, "Columns", "columns"), Output("picture", picture, "Picture", "picture")
    job = Job(*outputs, tables=[table], files=[model])
    from unrelu.cli.inputs import model_and_table
    from unrelu.estimators import RectifiedGaussianLearner, check_model
    from unrelu.report.check import check_columns, check_facts, check_picture, check_shown
    from unrelu.tables.write import write_columns

    wanted: dict[str, Any] = {"n_simulations": simulations, "level": level}
    with job.fitting() as watch:
        law, rows = model_and_table([table], model, reading, fitting)
        job.reads(rows)
        if law is None:
            learner = RectifiedGaussianLearner(**fitting.parameters(seed)).watched_by(watch).fit(rows)
            found = learner.check(rows, **wanted)
        else:
            wanted |= {"floor_tolerance": fitting.floor_tolerance, "random_state": seed, "watch": watch}
            found = check_model(law, rows, **wanted)
    job.write(
        output=lambda path: write_columns(path, [check_columns(found)]),
        picture=lambda: check_picture(found),
    )
    answer = job.answer({"model": model, **check_facts(found)}, check_shown(found, job.seconds, one_line))
    return answer if answer is None or found.fits or not strict else replace(answer, code=_MISFIT)


@command()
def report(
    paths: options.Tables,
    model: options.Model = None,
    simulations: Annotated[
        int | None,
        "Tables simulated to check the fit, 19 or more, 0 for no check; by default as many as the number"
        " of columns allows.",
        {"min": 0},
    ] = None,
    fitting: options.FitOptions = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The page to write.")] = Path("report.html"),
    seed: Annotated[int, "Seed of the fit, of the rows looked at and of the simulated tables.", {"min": 0}] = 0,
) -> Answer | None:
    """Make one page about a table: what is under its floor, whether the model fits, which rows are odd.

    The page is one file for a browser, works without a network, and holds names, numbers and a sample of rows. Needs
    the extra: pip install "unrelu[report]".
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"{output}: a report is a page for a browser: give a name that ends in .html.")
    job = Job(Output("output", output, "Report"), tables=paths, files=[model])
    from unrelu.cli.inputs import ids_of, knowing, model_and_table
    from unrelu.estimators import RectifiedGaussianLearner
    from unrelu.report.page.making import Asked, Order, write_report
    from unrelu.report.page.writing import check_report

    check_report()

    made: dict[str, Any] = {}
    with job.fitting() as watch:
        law, table = model_and_table(paths, model, reading, fitting)
        if law is None:
            learner = RectifiedGaussianLearner(**fitting.parameters(seed)).watched_by(watch).fit(table)
            asked = Asked.of(learner, table)
        else:
            imputer = knowing(law, table, fitting.floor_tolerance).watched_by(watch)
            asked = Asked(imputer.distribution_, None, table, fitting.floor_tolerance, imputer)
        order = Order(
            title=Path(paths[0]).name if len(paths) == 1 else f"{Path(paths[0]).name} and {len(paths) - 1} more",
            command=shlex.join(["unrelu", *sys.argv[1:]]),
            n_simulations=simulations,
            seed=seed,
            ids=ids_of(job.reads(table)),
            words=one_line,
            watch=watch,
        )
        job.write(output=lambda path: made.update(write_report(path, asked, order)))
    return _page_answer(job, made, model, output)


def _page_answer(job: Job, made: dict[str, Any], model: Path | None, output: Path) -> Answer | None:
    """The most important of what the page says: it has the rest."""
    from unrelu.report.page.writing import percent
    from unrelu.validation import counted

    table, check, odd, size = made["table"], made["check"] or {}, made["odd"] or {}, output.stat().st_size
    facts = {
        "model": model,
        "bytes": size,
        "table": table,
        "fits": check.get("fits"),
        "verdict": check.get("verdict"),
        "flagged_rows": odd.get("flagged"),
        "doubts": made["doubts"],
        "left_out": made["left_out"],
    }
    shown = [
        f"A page of {size / 1e6:.1f} MB about {counted(table['n_rows'], 'row')} of"
        f" {counted(table['n_columns'], 'column')}, {percent(table['share_floored'])} of the cells at their floor, in"
        f" {job.seconds:.2f} s.",
        *([check["verdict"]] if check else []),
        *([f"Doubtful: {', '.join(doubt['kind'] for doubt in made['doubts'])}."] if made["doubts"] else []),
        *([f"Flagged {counted(odd['flagged'], 'row')} as strange."] if odd else []),
        *([f"Left out: {'; '.join(made['left_out'])}."] if made["left_out"] else []),
    ]
    return job.answer(facts, shown)


@command()
def info(
    file: Annotated[
        Path,
        typer.Argument(
            help="Any file that unrelu wrote: a model, factors, layers, a state, an estimator.", metavar="FILE"
        ),
    ],
    table: Annotated[
        list[str] | None,
        "Also the log-likelihood, AIC and BIC of a model on the rows of this table: compare models by them.",
        {"metavar": "PATHS"},
    ] = None,
    reading: options.TableOptions = options.EVERYTHING,
) -> Answer:
    """Show what is in a file: of a model its columns, bias, norms, correlations, and how it was learned.

    Of a factors file: the components, and how they were recovered. Of a saved state: how far it has come. Of a file of
    layers: how each was found, and the innermost units. Of any other: its parameters and its report.
    """
    if reading != options.EVERYTHING and not table:
        raise InvalidParameterError("How to read a table is said, but there is none: give it with --table.")
    from unrelu import storage
    from unrelu.report.contents import contents
    from unrelu.report.model import likelihood_words

    content, header = storage.load(file), storage.stated_header(file)
    facts, shown = contents(content, header, file)
    if not table:
        return Answer(facts, shown)
    found = _likelihood(content, header, file, table, reading)
    words = f"Log-likelihood of {', '.join(table)}: {likelihood_words(found)}."
    return Answer({**facts, "table": table, "likelihood": found}, [*shown, words])


def _likelihood(
    content: Any, header: Any, file: Path, paths: list[str], reading: options.TableOptions
) -> dict[str, Any]:
    """Of the rows of a table under the law in a file, or under its mixture of laws."""
    from unrelu.cli.inputs import knowing, law_in, matched_table
    from unrelu.estimators import RectifiedGaussianMixture
    from unrelu.report.model import density_facts

    if isinstance(content, RectifiedGaussianMixture):
        names = getattr(content, "feature_names_in_", None)
        named = None if names is None else names.tolist()
        rows, _ = matched_table(file, named, content.n_features_in_, paths, reading)
        return density_facts(content.score_samples(rows), content.n_parameters_)
    law, details = law_in(file), header.get("details")
    rows, at = matched_table(file, law.feature_names, law.n_features, paths, reading)
    details = details if isinstance(details, dict) else {}
    told = getattr(content, "report_", details.get("report"))
    found = told.get("n_components") if isinstance(told, dict) else getattr(told, "n_components", None)
    rank = found or getattr(content, "n_components", details.get("n_components"))
    model = knowing(law.marginal(at), rows, getattr(content, "floor_tolerance", 0.0))
    if isinstance(rank, int) and rank <= len(at):
        model.set_params(n_components=rank)
    return density_facts(model.score_samples(rows), model.n_parameters_)
