"""The verdicts and the means as a page to read (markdown)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unrelu.papers.experiments.claims import Judgement, Verdict
from unrelu.papers.experiments.design import Panel
from unrelu.papers.experiments.experiment import Study
from unrelu.papers.experiments.results import Results


def checklist_page(study: Study, results: Results, judgements: Sequence[Judgement]) -> str:
    """The paper's claims, each with its verdicts, rule and numbers; then notes, learners and all means."""
    experiment, plan = study.experiment, study.plan
    kind = "quick plan" if study.quick else "full plan"
    lines = [
        f"# {experiment.title}",
        "",
        f"{experiment.paper}. {kind.capitalize()}, {plan.runs_in_words} runs a point, seed {study.seed}.",
        "",
        "## Claims",
        "",
        *(f"- **{judgement.summary}.** {judgement.reading.says}" for judgement in judgements),
        "",
        f"| claim | where | {' | '.join(judgement.reading.name for judgement in judgements)} |",
        f"| --- | --- | {' | '.join('---' for _ in judgements)} |",
        *(
            f"| {v[0].claim.says} | {v[0].claim.where} | {' | '.join(x.word for x in v)} |"
            for v in _abreast(judgements)
        ),
        "",
        "The claims are the paper's, in our words; every verdict is computed from this run alone, by the rule that is"
        " printed with it. docs/papers.md says which choices were made with results in sight. Numbers are means over"
        " the runs, in the order of the points; a/b compares two curves.",
        "",
        "## How each was judged",
        *(line for number, found in enumerate(_abreast(judgements), 1) for line in _judged(number, found, judgements)),
        "",
        "## Notes",
        "",
        *(f"- {note}" for note in experiment.notes),
        *(f"- {curve.name}: `{curve.method!r}`" for curve in experiment.curves),
        "",
        "## Means ± standard deviations over the runs",
        *(line for panel in plan.panels for line in _means(study, results, panel)),
    ]
    return "\n".join(lines) + "\n"


def _abreast(judgements: Sequence[Judgement]) -> list[tuple[Verdict, ...]]:
    """Claim by claim, its verdict under every reading."""
    return list(zip(*(judgement.verdicts for judgement in judgements), strict=True))


def _judged(number: int, found: tuple[Verdict, ...], judgements: Sequence[Judgement]) -> Iterator[str]:
    claim = found[0].claim
    yield from ("", f"{number}. {claim.says}", "", f"   Rule: {claim.check.rule}.")
    for verdict, judgement in zip(found, judgements, strict=True):
        parts = verdict.finding.parts
        met = f"{len(parts) - len(verdict.finding.failed)} of {len(parts)}"
        yield from ("", f"   {judgement.reading.name}: **{verdict.word}** ({met}).{_why(verdict)}", "")
        yield from (f"   - {'yes' if part.held else 'NO'}: {part.text}" for part in parts)


def _why(verdict: Verdict) -> str:
    return "" if verdict.held or not verdict.claim.otherwise else f" {verdict.claim.otherwise}"


def _means(study: Study, results: Results, panel: Panel) -> Iterator[str]:
    heads = [panel.axis.text(setting) for setting in panel.settings]
    yield from ("", f"Along {panel.axis.symbol}, with {panel.fixed}:", "")
    yield f"| measure | curve | {' | '.join(heads)} |"
    yield f"| --- | --- | {' | '.join('---' for _ in heads)} |"
    for measure in study.experiment.measures:
        for curve in study.experiment.curves:
            series = results.series(panel.axis, curve, measure)
            cells = [f"{mean:.3g} ± {std:.2g}" for mean, std in zip(series.mean, series.std, strict=True)]
            yield f"| {measure.short} | {curve.name} | {' | '.join(cells)} |"
