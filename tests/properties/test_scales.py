"""Tables of every scale, from 1e-307 to 1e300: refused by name, or answered as in ordinary units."""

import numpy as np
import pytest

from unrelu import FloorImputer, RectifiedGaussianLearner
from unrelu.errors import InvalidDataError

METHODS = ("one_pass", "full_likelihood", "robust", "robust_cells")
SHAPES = ("normal", "log", "monotone", "auto")
EXPONENTS = (-323, -307, -306, -305, -300, -200, -141, -139, -100, 100, 138, 141, 200, 300)
pytestmark = pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")


def table(margin, seed=0):
    """(rows, floor): a sixth of the cells at the floor or missing, the same whatever the units."""
    rng = np.random.default_rng(seed)
    z = rng.multivariate_normal(np.zeros(3), [[1.0, 0.6, 0.3], [0.6, 1.0, 0.4], [0.3, 0.4, 1.0]], size=80)
    x, floor = (np.maximum(z + 1.0, 0.0), 0.0) if margin == "normal" else (np.maximum(np.exp(z), 0.4), 0.4)
    x[rng.random(x.shape) < 0.03] = np.nan
    return x, np.full(3, floor)


def answers(x, floor, method, margin):
    """(correlations, filled cells, log densities, quartiles) of a fit."""
    learner = RectifiedGaussianLearner(method, margins=margin, floor=floor.tolist()).fit(x)
    imputer = FloorImputer.from_model(learner)
    quartiles = [column["upper_quartile"] for column in learner.distribution_.column_summary()]
    return learner.correlation_, imputer.transform(x), learner.score_samples(x), np.array(quartiles)


def check_scale(method, margin, exponent, columns, seed=0):
    x, floor = table(margin, seed)
    unit = np.ones(3)
    unit[columns] = float(f"1e{exponent}")
    with np.errstate(over="ignore"):
        scaled, low = np.clip(x * unit, -1e308, 1e308), floor * unit
    refusal = None
    try:
        r, filled, densities, quartiles = answers(scaled, low, method, margin)
    except InvalidDataError as refused:
        refusal = str(refused)
    if refusal is not None:
        assert abs(exponent) > 138, refusal
        assert all(f"column {column}" in refusal for column in columns)
        assert "constant" in refusal
        return False
    expected = answers(x, floor, method, margin)
    assert np.isfinite(densities).all()
    np.testing.assert_allclose(r, expected[0], atol=1e-3)
    np.testing.assert_allclose(filled / unit, expected[1], rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(quartiles / unit, expected[3], rtol=1e-2)
    return True


@pytest.mark.parametrize("margins", SHAPES)
def test_whole_tables_at_any_scale(margins):
    answered = [exponent for exponent in EXPONENTS if check_scale("one_pass", margins, exponent, [0, 1, 2])]
    assert {-139, -100, 100, 138} <= set(answered)


@pytest.mark.parametrize("method", METHODS[1:])
def test_every_method_at_a_few_scales(method):
    for margin, exponent in (("normal", -307), ("normal", 100), ("log", -305), ("monotone", -307), ("monotone", -100)):
        check_scale(method, margin, exponent, [0, 1, 2])


def test_bad_cells_are_the_same_at_any_scale():
    """Densities of so small values are no larger beside those of their bins than others."""
    assert check_scale("robust_cells", "auto", -139, [0, 1, 2])
    assert check_scale("robust_cells", "auto", -135, [2])
    assert check_scale("robust_cells", "auto", 138, [2])


def test_single_columns_at_any_scale():
    for margin, exponent in (("normal", -300), ("normal", -130), ("monotone", -306), ("monotone", 130), ("auto", 300)):
        check_scale("one_pass", margin, exponent, [1])


@pytest.mark.parametrize("margins", ["normal", "monotone", "auto"])
@pytest.mark.parametrize("spread", [1e-300, 1e-17, 1e-15, 1e-13, 1e-10])
def test_tiny_spreads_around_a_large_mean(margins, spread):
    x, _ = table("normal")
    x[:, 1] = 1.0 + spread * x[:, 1]
    if margins == "monotone" and len(np.unique(x[:, 1][~np.isnan(x[:, 1])])) == 1:
        with pytest.raises(InvalidDataError, match=r"'monotone' of column 1: 1 different values"):
            RectifiedGaussianLearner("one_pass", margins=margins, floor=None).fit(x)
        return
    learner = RectifiedGaussianLearner("one_pass", margins=margins, floor=None).fit(x)
    assert np.isfinite(learner.score_samples(x)).all()
    assert np.isfinite(FloorImputer.from_model(learner).transform(x)).all()
    quartile = learner.distribution_.column_summary()[1]["upper_quartile"]
    assert abs(quartile - 1.0) <= 5.0 * spread + 1e-15


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("margins", SHAPES)
def test_all_scales(method, margins):
    rng = np.random.default_rng(METHODS.index(method))
    for exponent in [*EXPONENTS, *rng.integers(-307, 301, size=12).tolist()]:
        check_scale(method, margins, exponent, [0, 1, 2])
        check_scale(method, margins, exponent, [int(rng.integers(3))])
