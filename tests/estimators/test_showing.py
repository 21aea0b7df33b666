"""Notebooks: scikit-learn's diagram, and what was learned below it."""

from __future__ import annotations

import pytest
from sklearn import config_context

import unrelu
from tests.contracts.test_estimators import CASES, fitted


@pytest.mark.parametrize("name", CASES)
def test_every_estimator_shows_its_report(name):
    estimator = fitted(CASES[name])
    html = estimator._repr_html_()
    assert "sk-estimator" in html
    assert "<b>report_</b>" in html
    assert estimator._repr_mimebundle_()["text/html"].count("<table>") >= 1


def test_an_estimator_that_was_not_fitted_shows_the_diagram_alone():
    assert "<b>report_</b>" not in unrelu.RectifiedGaussianLearner()._repr_html_()
    with config_context(display="text"):
        assert "text/html" not in unrelu.RectifiedGaussianLearner()._repr_mimebundle_()
