"""The examples run, and show what they say they show."""

import numpy as np
import pytest

from examples import digits_held_out


@pytest.fixture(scope="module")
def comparison():
    return digits_held_out.compare(seed=1, rank=5)


def test_the_floor_predicts_hidden_pixels_best(comparison):
    errors = comparison.errors()
    rivals = min(errors["PCA"], errors["NMF"])
    assert errors["floor modelled"] < rivals
    assert errors["floor and noise"] < rivals


def test_errors_are_over_hidden_pixels_only(comparison):
    truth = comparison.pixels[comparison.hidden]
    for name, guess in comparison.predicted.items():
        wanted = np.sqrt(((guess[comparison.hidden] - truth) ** 2).sum() / (truth**2).sum())
        assert comparison.errors()[name] == pytest.approx(wanted, rel=1e-12)
    assert abs(comparison.hidden.mean() - 0.1) < 0.005


def test_the_picture_is_drawn(comparison, tmp_path):
    digits_held_out.draw(comparison, str(tmp_path / "digits.png"), digits=3)
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
