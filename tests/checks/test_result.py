"""One sentence that says what was found and what to do."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

import unrelu
from unrelu.checks.fit_check import Remedy

MODEL = unrelu.RectifiedGaussian([0.5, 0.2, 0.0], np.eye(3), feature_names=["As", "Pb", "Fe"])


@cache
def fitting():
    return unrelu.check_model(MODEL, MODEL.sample(100, random_state=0), n_simulations=19)


def misfit(columns=(), pairs=(), **more):
    adjusted, paired = np.ones(3), np.ones((3, 3))
    adjusted[list(columns)] = 0.05
    for i, j in pairs:
        paired[i, j] = paired[j, i] = 0.05
    given = {"refitted": True, "p_value": 0.05, "column_adjusted": adjusted, "pair_adjusted": paired}
    return replace(fitting(), **{**given, **more})


def test_a_model_that_fits():
    assert fitting().fits
    assert fitting().misfits == ([], [])
    assert fitting().verdict.startswith("The given model fits: ")
    assert "100 rows, 19 simulated tables" in repr(fitting())


def test_only_what_was_tried_and_helps_is_advised():
    assert misfit([1]).verdict.endswith("not normal: Pb.")
    assert "of few different values: Pb" in misfit([1], coarse=(False, True, False)).verdict
    less = Remedy("margins='monotone'", 0.2, note="2 of 3 failing columns then fit")
    best = Remedy("margins='auto'", 0.31, helps=True, note="7 of 8 failing columns then fit")
    verdict = misfit([1], tried=(best, less)).verdict
    assert (
        "Pb. margins='auto' was tried and helps: 7 of 8 failing columns then fit (log density of rows held" in verdict
    )
    assert "+0.31 each" in verdict
    assert "monotone" not in verdict
    none = replace(less, note="the rows have heavy tails and no outliers")
    told = misfit([1], tried=(none, Remedy("method='robust'", 0.1, note=none.note))).advice
    assert told == f"Nothing that was tried helps (margins='monotone', method='robust'): {none.note}."
    assert fitting().advice == ""


def test_pairs_of_columns_that_fit_are_named_and_others_not():
    assert misfit([], [(0, 2)]).misfits == ([], [(0, 2)])
    assert "not related as in the model: As and Fe." in misfit([], [(0, 2)]).verdict
    assert misfit([1], [(0, 1), (1, 2)]).misfits == ([1], [])


def test_a_given_model_is_to_be_fitted():
    verdict = misfit([1], [(0, 2)], refitted=False).verdict
    assert verdict.count("fit a model to this table") == 1
    assert "tried" not in verdict


def test_the_worst_come_first():
    check = replace(misfit([2]), column_p_value=np.array([0.5, np.nan, 0.05]))
    assert check.worst_columns() == [2, 0]
    assert misfit([], [(1, 2)]).worst_pairs(1) == [(1, 2)]
