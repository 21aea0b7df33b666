"""Tables for notebooks: compact, and safe."""

from __future__ import annotations

import unrelu
from unrelu.notebook import facts_html, model_html


def test_texts_of_tables_are_escaped_and_cut():
    html = model_html(["<script>", "x" * 10_000], {"mean": [0.5, float("nan")]})
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert len(html) < 1500
    assert "<b>" not in facts_html("t", {"<b>": "<i>"}).replace("<b>t</b>", "")


def test_models_show_their_first_columns():
    html = unrelu.synthetic.random_model(30, random_state=0)._repr_html_()
    assert "RectifiedGaussian of 30 columns" in html
    assert "... and 20 more" in html


def test_results_show_plain_numbers():
    X = unrelu.synthetic.random_model(3, random_state=0).sample(300, random_state=1)
    learner = unrelu.RectifiedGaussianLearner().fit(X)
    check = learner.check(X, n_simulations=19)._repr_html_()
    assert "The model" in check
    assert "p_value" in check
    report = learner.report_._repr_html_()
    assert "full_likelihood" in report
    assert "share_floored_by_column" not in report
