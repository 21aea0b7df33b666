"""The axes that the papers' figures run along, and what they measure."""

from __future__ import annotations

from unrelu.papers.experiments.design import Axis, Measure

ROWS = Axis("rows", "n", "number of rows n", lambda setting: setting.rows, logarithmic=True)
COLUMNS = Axis("columns", "d", "dimension d", lambda setting: setting.columns)
CONDITION = Axis("condition", "κ", "condition number κ of W W'", lambda setting: setting.condition_number)
GENUINE = Axis("genuine", "p", "probability p of a genuine row", lambda setting: setting.genuine)
BIAS = Measure("bias", "bias", "error in bias  |b̂ − b| / |W|")
WEIGHTS = Measure("weights", "weights", "error in weights  |Ŝ − W W'| / |W|²")
KL = Measure("kl", "KL", "KL divergence")
TV = Measure("tv_bound", "sqrt(KL/2)", "sqrt(KL / 2), at most 1, which bounds the total variation distance")
SECONDS = Measure("seconds", "seconds", "seconds of computing")
