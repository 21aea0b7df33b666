"""The verdicts and the means as a page to read (markdown)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unrelu.papers.experiments.claims import Verdict
from unrelu.papers.experiments.design import Panel
from unrelu.papers.experiments.experiment import Study
from unrelu.papers.experiments.results import Results


def checklist_page(study: Study, results: Results, verdicts: Sequence[Verdict]) -> str:
    """The paper's claims, each with its verdict, rule and numbers; then notes, learners and all means."""
    experiment, plan = study.experiment, study.plan
    held = sum(verdict.held for verdict in verdicts)
    kind = "quick plan" if study.quick else "full plan"
    lines = [
        f"# {experiment.title}",
        "",
        f"{experiment.paper}. {kind.capitalize()}, {plan.runs} runs a point, seed {study.seed}.",
        "",
        f"## Claims: {held} of {len(verdicts)} held",
        "",
        "| verdict | claim | where |",
        "| --- | --- | --- |",
        *(f"| **{v.word}** | {v.claim.says} | {v.claim.where} |" for v in verdicts),
        "",
        "The claims are the paper's, in our words; every verdict is computed from this run alone, by a rule fixed"
        " beforehand. Numbers are means over the runs, in the order of the points; a/b compares two curves.",
        "",
        "## How each was judged",
        *(line for number, verdict in enumerate(verdicts, 1) for line in _judged(number, verdict)),
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


def _judged(number: int, verdict: Verdict) -> Iterator[str]:
    finding = verdict.finding
    met = len(finding.parts) - len(finding.failed)
    yield from ("", f"{number}. **{verdict.word}** ({met} of {len(finding.parts)}): {verdict.claim.says}", "")
    yield f"   Rule: {verdict.claim.check.rule}."
    yield ""
    yield from (f"   - {'yes' if part.held else 'NO'}: {part.text}" for part in finding.parts)


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
