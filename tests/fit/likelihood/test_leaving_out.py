"""The jackknife of the full likelihood: against fits that really leave groups out, however rows come."""

import numpy as np
import pandas as pd
import pytest

import unrelu
from tests.references.commands import invoke
from tests.warned import warns
from unrelu import RectifiedGaussianLearner
from unrelu.contracts import Block, RowLabels
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.pair_moments import AllButGroup, GroupedMomentsQuestion, PairMomentsQuestion
from unrelu.tables import ArraySamples

MODEL = unrelu.RectifiedGaussian([0.2, -0.3, 0.5], 0.5 * np.eye(3) + 0.5)
UPPER = np.triu_indices(3, 1)


def learner(**options):
    return RectifiedGaussianLearner("full_likelihood", margins="normal", stderr="jackknife", **options)


def numbers(fitted):
    return np.concatenate([fitted.mean_, fitted.std_, fitted.correlation_[UPPER]])


def errors(fitted):
    return np.concatenate([fitted.mean_stderr_, fitted.std_stderr_, fitted.correlation_stderr_[UPPER]])


def left_out(x, groups, weights=None, **options):
    """The jackknife as its textbook has it, each time from the start."""

    def fit(rows):
        plain = RectifiedGaussianLearner("full_likelihood", margins="normal", **options)
        return numbers(plain.fit(x[rows], sample_weight=None if weights is None else weights[rows]))

    whole, w = fit(np.ones(len(x), dtype=bool)), np.ones(len(x)) if weights is None else weights
    h = np.array([w.sum() / w[groups == g].sum() for g in np.unique(groups)])[:, None]
    pseudo = h * whole - (h - 1.0) * np.array([fit(groups != g) for g in np.unique(groups)])
    centre = np.sum(pseudo / h, axis=0)
    return np.sqrt(np.mean((pseudo - centre) ** 2 / (h - 1.0), axis=0))


@pytest.mark.parametrize("n_components", [None, 1])
def test_errors_are_those_of_fits_without_the_groups(n_components):
    x = MODEL.sample(300, random_state=0)
    x[::9, 1] += 3.0  # what no normal distribution has
    groups = np.minimum(np.arange(300) // 25, 7)  # the last one is larger
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    with np.testing.suppress_warnings() as noted:
        noted.filter(unrelu.errors.AssumptionWarning)
        fitted = learner(n_components=n_components).fit(x, groups=groups, sample_weight=weights)
        wanted = left_out(x, groups, weights, n_components=n_components)
    np.testing.assert_allclose(errors(fitted), wanted, rtol=0.03)  # the correction's step is that of all rows
    assert (fitted.report_.stderr, fitted.report_.stderr_degrees) == ("jackknife", 7)


def test_the_model_is_the_same_and_dealt_groups_do_not_depend_on_blocks():
    x = MODEL.sample(600, random_state=0)
    plain = RectifiedGaussianLearner("full_likelihood", margins="normal").fit(x)
    whole, parts = learner().fit(x), learner().fit(ArraySamples(x, block_rows=37))
    assert whole.report_.stderr_degrees == 19
    np.testing.assert_allclose(numbers(whole), numbers(plain), rtol=1e-6)
    np.testing.assert_allclose(errors(parts), errors(whole), rtol=1e-4)
    assert whole.report_.log_likelihood == pytest.approx(plain.report_.log_likelihood, abs=1e-6)
    # 20 groups know an error to a sixth.
    assert np.sqrt(np.mean(errors(whole) ** 2) / np.mean(errors(plain) ** 2)) == pytest.approx(1.0, abs=0.25)


def test_clustered_rows_have_wider_errors():
    rng = np.random.default_rng(0)
    days = np.arange(1000) // 10  # more than 60: dealt to 20 groups
    x = np.maximum(MODEL.sample(1000, random_state=1) + 0.5 * rng.standard_normal((100, 3))[days], 0.0)
    model = RectifiedGaussianLearner("full_likelihood", margins="normal").fit(x)
    apart, whole_days = learner().fit(x), learner().fit(x, groups=days)
    assert whole_days.report_.stderr_degrees <= 19
    assert (whole_days.mean_stderr_ > 1.3 * model.mean_stderr_).all()
    assert (apart.mean_stderr_ < 1.3 * model.mean_stderr_).any()


def test_limits_of_cells_have_a_jackknife(laboratories):
    values, censoring, _ = laboratories(MODEL, 300)
    floor, ceiling = np.where(censoring == -1, values, -np.inf), np.where(censoring == 1, values, np.inf)
    groups = np.arange(300) % 8
    fitted = learner(floor=floor, ceiling=ceiling).fit(values, groups=groups)

    def fit(rows):
        plain = RectifiedGaussianLearner("full_likelihood", margins="normal", floor=floor[rows], ceiling=ceiling[rows])
        return numbers(plain.fit(values[rows]))

    moved = np.array([fit(groups != g) for g in range(8)])
    wanted = np.sqrt(7.0 / 8.0 * np.sum((moved - moved.mean(axis=0)) ** 2, axis=0))
    np.testing.assert_allclose(errors(fitted), wanted, rtol=0.05)


def test_likelihood_and_errors_where_columns_have_margins():
    truth = unrelu.RectifiedGaussian([0.3, 0.0], [[1.0, 0.5], [0.5, 1.0]], 0.5, margins=[unrelu.margins.Log()] * 2)
    x = truth.sample(400, random_state=1)
    options = {"method": "full_likelihood", "floor": 0.5, "margins": "log"}
    plain = RectifiedGaussianLearner(**options).fit(x)
    fitted = RectifiedGaussianLearner(**options, stderr="jackknife").fit(x, groups=np.arange(400) % 10)
    assert fitted.report_.log_likelihood == pytest.approx(plain.report_.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(fitted.mean_stderr_, plain.mean_stderr_, rtol=0.7)


def test_rows_outside_a_group_are_those_the_record_left_out():
    x = MODEL.sample(500, random_state=0)
    question = GroupedMomentsQuestion(PairMomentsQuestion((0.0,) * 3, (0.0,) * 3))
    labels = {few: tuple(f"day {k}" for k in range(few)) for few in (7, 90)}
    for groups in (None, *(RowLabels((np.arange(500) % few).astype(np.int32), labels[few]) for few in labels)):
        block = Block(x, 3, groups=groups)
        record = question(block)
        for label, part in zip(record.labels, record.parts, strict=True):
            assert np.count_nonzero(~AllButGroup(label).of(block)) == part.n_rows
    assert AllButGroup("elsewhere").of(Block(x, groups=RowLabels(np.zeros(500, np.int32), ("here",)))).all()


def test_groups_that_cannot_be_left_out_are_named():
    x, groups = MODEL.sample(60, random_state=0), np.arange(60) % 6
    x[groups != 2, 1] = 0.0
    with pytest.raises(InvalidDataError, match=r"without group '2' \(10 rows\) a column cannot be learned.*column 1"):
        learner().fit(x, groups=groups)
    with pytest.raises(InvalidDataError, match="rows are in one group"):
        learner().fit(MODEL.sample(60, random_state=0), groups=np.zeros(60))
    with warns("few-groups"):
        learner().fit(MODEL.sample(200, random_state=0), groups=np.arange(200) % 3)


def test_methods_that_cannot_name_those_that_can():
    x = MODEL.sample(100, random_state=0)
    wanted = "use stderr='model', method='one_pass' or method='full_likelihood'"
    for method in ("robust", "robust_cells", "median"):
        with pytest.raises(InvalidParameterError, match=wanted):
            RectifiedGaussianLearner(method, margins="normal", stderr="jackknife").fit(x)
    with pytest.raises(InvalidParameterError, match="use fit, or method='one_pass'"):
        learner().partial_fit(x)


def test_the_command_line_has_it(tmp_path):
    x = MODEL.sample(300, random_state=0)
    frame = pd.DataFrame(x, columns=["As", "Pb", "Zn"]).assign(day=np.arange(300) // 25)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    table, model = str(tmp_path / "rows.csv"), str(tmp_path / "model.npz")
    options = ["--method", "full_likelihood", "--stderr", "jackknife", "--groups", "day", "--margins", "normal"]
    told = invoke("fit", table, *options, "-o", model)
    assert told.exit_code == 0, told.output
    assert unrelu.load(tmp_path / "model.npz").feature_names == ("As", "Pb", "Zn")
