"""recover: clean rows, latent vectors and outliers of a known layer; bad rows skipped if wanted; bad input one line."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse

import unrelu
from tests.references.commands import answer_of, rows_in
from unrelu.tables import open_samples, write_table

N, D, K = 40, 20, 2
NAMES = [f"s{j}" for j in range(D - 1)] + ["Fe, total"]


class Layer:
    """A layer, clean outputs of it, and the same with 15 % of the values corrupted."""

    def __init__(self, floor=0.0):
        rng = np.random.default_rng(5)
        self.weights, self.bias = rng.standard_normal((D, K)), 0.3 + 0.3 * rng.standard_normal(D) + floor
        self.latent = rng.standard_normal((N, K))
        self.clean = np.maximum(self.latent @ self.weights.T + self.bias, floor)
        self.wrong = rng.random((N, D)) < 0.15
        self.wrong[:, 3] |= rng.random(N) < 0.3
        self.table = np.where(self.wrong, self.clean + 6.0, self.clean)


@pytest.fixture
def layer(folder):
    layer = Layer()
    np.savez("w.npz", weights=layer.weights, bias=layer.bias)
    write_table("v.csv", layer.table, NAMES)
    return layer


# --- what comes out -------------------------------------------------------------------------------


def test_corrupted_rows_come_back_clean(run, folder, layer):
    result = run("recover", "w.npz", "v.csv", "-o", "x.csv", "--latent", "c.csv", "--outliers", "e.csv")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    np.testing.assert_allclose(rows_in("x.csv"), layer.clean, atol=1e-8)
    np.testing.assert_allclose(rows_in("c.csv"), layer.latent, atol=1e-8)
    np.testing.assert_allclose(rows_in("e.csv"), 6.0 * layer.wrong, atol=1e-8)
    np.testing.assert_array_equal(rows_in("e.csv") != 0.0, layer.wrong)
    assert open_samples("x.csv").feature_names == open_samples("e.csv").feature_names == tuple(NAMES)
    assert open_samples("c.csv").feature_names == ("c0", "c1")
    assert sorted(os.listdir(folder)) == ["c.csv", "e.csv", "v.csv", "w.npz", "x.csv"]


def test_the_terminal_tells_what_was_found(run, layer):
    text = run("recover", "w.npz", "v.csv").stdout
    for words in ("Recovered 40 rows through w.npz", "40 x 20", "2 per row", "robust, prior none", "noise scale"):
        assert words in text
    assert f"{layer.wrong.mean():.1%} of the values" in text
    worst = [line.split() for line in text.splitlines() if line.strip().endswith("%")]
    assert worst[0] == ["s3", f"{layer.wrong[:, 3].mean():.1%}"]
    assert "Clean table written to clean.csv" in text


def test_json_has_the_same_facts(run, layer):
    answer = answer_of(run("recover", "w.npz", "v.csv", "-o", "x.npy", "--latent", "c.npy", "--json"))
    assert (answer["clean"], answer["latent"], answer["outliers"], answer["picture"]) == ("x.npy", "c.npy", None, None)
    report = answer["report"]
    assert (report["n_rows"], report["n_features"], report["n_components"], report["bad_rows"]) == (N, D, K, [])
    assert (report["method"], report["prior"], report["ambiguous_rows"]) == ("robust", "none", [])
    assert report["share_outliers"] == pytest.approx(layer.wrong.mean())
    assert report["noise_scale"] < 1e-6
    shares = dict(zip(NAMES, layer.wrong.mean(axis=0), strict=True))
    assert len(answer["columns"]) == 10
    assert [item["share"] for item in answer["columns"]] == sorted(shares.values(), reverse=True)[:10]
    assert all(item["share"] == shares[item["column"]] for item in answer["columns"])
    assert answer["ambiguous"] == answer["bad_rows"] == answer["warnings"] == []


def test_the_same_as_in_python_whatever_the_seed_and_the_options(run, layer):
    noisy = layer.table + 0.05 * np.random.default_rng(0).standard_normal((N, D))
    np.save("noisy.npy", noisy)
    options = ["--prior", "sparse", "--noise-scale", 0.05, "--seed", 3, "-o", "x.npy", "--latent", "c.npy"]
    answer = answer_of(run("recover", "w.npz", "noisy.npy", *options, "--json"))
    method = unrelu.recovery.RobustLatent(unrelu.recovery.SparsePrior(), 0.05)
    same = unrelu.ReLULatentRecovery(layer.weights, layer.bias, method, random_state=3)
    np.testing.assert_array_equal(np.load("c.npy"), same.transform(noisy))
    np.testing.assert_array_equal(np.load("x.npy"), same.denoise(noisy))
    assert answer["report"]["prior"] == "sparse"
    assert answer["report"]["share_outliers"] == same.recover_rows(noisy).flagged.mean()
    assert answer["report"]["noise_scale"] == 0.05


def test_program_47(run, layer):
    options = ["--method", "lasso", "--penalty", 0.05, "--intercept", "-o", "x.npy", "--outliers", "e.npy"]
    answer = answer_of(run("recover", "w.npz", "v.csv", *options, "--json"))
    same = unrelu.ReLULatentRecovery(layer.weights, layer.bias, unrelu.recovery.LatentLasso(0.05, True))
    np.testing.assert_array_equal(np.load("x.npy"), same.denoise(layer.table))
    np.testing.assert_array_equal(np.load("e.npy"), same.recover_rows(layer.table).outliers)
    assert (answer["report"]["method"], answer["report"]["prior"]) == ("lasso", "none")


@pytest.mark.parametrize("kind", ["tsv", "parquet", "npz"])
def test_kinds_of_tables(run, layer, kind):
    write_table(f"v.{kind}", layer.table[:4])
    result = run("recover", "w.npz", f"v.{kind}", "-o", f"x.{kind}")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(rows_in(f"x.{kind}"), layer.clean[:4], atol=1e-8)


def test_several_tables_a_sparse_one_and_standard_input(run, folder, layer):
    write_table("a.csv", layer.table[:3], NAMES)
    write_table("b.csv", layer.table[3:5, ::-1], NAMES[::-1])
    assert run("recover", "w.npz", "a.csv", "b.csv", "-o", "x.csv").exit_code == 0
    np.testing.assert_allclose(rows_in("x.csv"), layer.clean[:5], atol=1e-8)
    scipy.sparse.save_npz("s.npz", scipy.sparse.csr_array(layer.table[:5]))
    assert run("recover", "w.npz", "s.npz", "-o", "y.npy").exit_code == 0
    np.testing.assert_allclose(np.load("y.npy"), layer.clean[:5], atol=1e-8)
    text = (folder / "a.csv").read_text()
    assert run("recover", "w.npz", "-", "-o", "z.npy", input=text).exit_code == 0
    np.testing.assert_allclose(np.load("z.npy"), layer.clean[:3], atol=1e-8)


def test_one_row_and_missing_values(run, layer):
    layer.table[0, ::5] = np.nan
    write_table("v.csv", layer.table[:1], NAMES)
    result = run("recover", "w.npz", "v.csv", "--outliers", "e.csv")
    assert "4 missing cells filled in" in " ".join(result.stdout.split())
    np.testing.assert_allclose(rows_in("clean.csv"), layer.clean[:1], atol=1e-8)
    missing = np.isnan(layer.table[0])
    np.testing.assert_array_equal(np.isnan(rows_in("e.csv")[0]), missing)
    report = answer_of(run("recover", "w.npz", "v.csv", "--json"))["report"]
    assert report["share_outliers"] == pytest.approx(layer.wrong[0, ~missing].mean())
    assert report["share_missing"] == pytest.approx(0.2)


def test_floors(run, folder):
    layer = Layer(floor=0.5)
    np.savez("w.npz", weights=layer.weights, bias=layer.bias)
    np.savez("own.npz", weights=layer.weights, bias=layer.bias, floor=0.5)
    write_table("v.csv", layer.table[:5], NAMES)
    each = ",".join(f"{name}=0.5" for name in NAMES[:-1])
    for options in (
        ["w.npz", "v.csv", "--floor", 0.5],
        ["w.npz", "v.csv", "--floor", f"0.5,{each}"],
        ["own.npz", "v.csv"],
    ):
        assert run("recover", *options).exit_code == 0
        np.testing.assert_allclose(rows_in("clean.csv"), layer.clean[:5], atol=1e-8)
    np.save("off.npy", np.full((1, D), 0.5))
    assert "v has no positive entry" in run("recover", "own.npz", "off.npy").stderr
    result = run("recover", "own.npz", "v.csv", "--floor", 0.5)
    assert (result.exit_code, result.stderr) == (2, "Error: own.npz has its own floor: leave --floor out.\n")


def test_a_picture(run, folder, layer):
    layer.table[3] = 0.0
    write_table("v.csv", layer.table, NAMES)
    result = run("recover", "w.npz", "v.csv", "--skip-bad-rows", "--picture", "p.png")
    assert result.exit_code == 0, result.stderr
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "Picture written to p.png" in result.stdout


# --- models, and columns by name ------------------------------------------------------------------


@pytest.fixture
def factors(layer):
    """What unrelu factor makes of clean rows of the same layer, with names."""
    more = np.random.default_rng(1).standard_normal((200, K)) @ layer.weights.T + layer.bias
    recovery = unrelu.ReLUMatrixRecovery(K).fit(np.maximum(more, 0.0))
    recovery.feature_names_in_ = np.array(NAMES, dtype=object)
    recovery.save("factors.npz")
    return recovery


def test_factors_are_a_memory(run, layer, factors):
    answer = answer_of(run("recover", "factors.npz", "v.csv", "-o", "x.npy", "--json"))
    assert answer["report"]["prior"] == "gaussian"
    np.testing.assert_array_equal(np.load("x.npy"), unrelu.denoise(factors, layer.table))
    np.testing.assert_allclose(np.load("x.npy"), layer.clean, atol=0.01)
    assert (
        "--components is for a model that unrelu fit wrote"
        in run("recover", "factors.npz", "v.csv", "--components", 1).stderr
    )


def test_a_fitted_distribution_of_some_rank(run, layer):
    distribution = unrelu.RectifiedGaussian.from_weights(layer.weights, layer.bias)
    distribution.save("distribution.npz")
    answer = answer_of(run("recover", "distribution.npz", "v.csv", "--components", 2, "-o", "x.npy", "--json"))
    assert (answer["report"]["n_components"], answer["report"]["prior"]) == (2, "gaussian")
    np.testing.assert_array_equal(np.load("x.npy"), unrelu.denoise(distribution, layer.table, n_components=2))
    assert (
        "--components must be at most 20, the columns of distribution.npz; got 21"
        in run("recover", "distribution.npz", "v.csv", "--components", 21).stderr
    )
    assert "distribution.npz has its own floor" in run("recover", "distribution.npz", "v.csv", "--floor", 1).stderr


def test_columns_are_found_by_name(run, layer, factors):
    order = np.random.default_rng(0).permutation(D)
    shuffled = np.column_stack([np.arange(N), layer.table[:, order]])
    write_table("v.csv", shuffled, ["site", *(NAMES[j] for j in order)])
    assert run("recover", "factors.npz", "v.csv", "-o", "x.csv").exit_code == 0
    np.testing.assert_allclose(rows_in("x.csv"), layer.clean, atol=0.01)
    assert open_samples("x.csv").feature_names == tuple(NAMES)
    assert run("recover", "factors.npz", "v.csv", "--drop", '"Fe, total",s2', "-o", "x.csv").exit_code == 0
    np.testing.assert_allclose(rows_in("x.csv"), np.delete(layer.clean, [2, D - 1], axis=1), atol=0.01)
    np.save("v.npy", layer.table)  # without names: by position
    assert run("recover", "factors.npz", "v.npy", "-o", "x.csv").exit_code == 0
    np.testing.assert_allclose(rows_in("x.csv"), layer.clean, atol=0.01)
    assert open_samples("x.csv").feature_names == tuple(NAMES)


def test_names_in_an_npz_file(run, refused, layer):
    np.savez("w.npz", weights=layer.weights, bias=layer.bias, feature_names=np.array(NAMES))
    write_table("v.csv", layer.table[:4, ::-1], NAMES[::-1])
    assert run("recover", "w.npz", "v.csv").exit_code == 0
    np.testing.assert_allclose(rows_in("clean.csv"), layer.clean[:4], atol=1e-8)
    for names in (NAMES[:-1], ["s0", *NAMES[:-1]], range(D)):
        np.savez("w.npz", weights=layer.weights, bias=layer.bias, feature_names=np.array(names))
        assert "w.npz: feature_names is not one text for each row of weights" in refused(
            run("recover", "w.npz", "v.csv")
        )


def test_columns_that_do_not_fit_are_refused(run, refused, layer, factors):
    write_table("v.csv", layer.table[:, 1:], NAMES[1:])
    line = refused(run("recover", "factors.npz", "v.csv"))
    assert "v.csv: no column 's0'" in line
    assert "factors.npz has the columns s0, s1" in line
    assert "factors.npz has no column 'Zn'" in refused(run("recover", "factors.npz", "v.csv", "--columns", "Zn"))
    assert "No column of factors.npz is left" in refused(
        run("recover", "factors.npz", "v.csv", "--columns", "s1", "--drop", "s1")
    )
    line = refused(run("recover", "w.npz", "v.csv"))
    assert "w.npz has 20 columns, the table 19: choose the same ones" in line
    np.save("v.npy", layer.table[:, :7])
    assert "factors.npz has 20 columns, the table 7" in refused(run("recover", "factors.npz", "v.npy"))


# --- rows that cannot be recovered, or in two ways ------------------------------------------------


@pytest.fixture
def bad_rows(layer):
    layer.table[3] = 0.0
    layer.table[5] = -1.0
    layer.table[35] = np.nan
    layer.table[36] = np.where(np.arange(D) == 4, 2.0, 0.0)
    layer.table[37, 2] = np.inf
    np.save("v.npy", layer.table)
    return [3, 5, 35, 36, 37]


def test_bad_rows_are_named_and_counted_before_the_long_work(run, refused, layer, bad_rows, monkeypatch):
    monkeypatch.setattr(unrelu.recovery.RobustLatent, "recover", lambda *_: pytest.fail("the long work"))
    line = refused(run("recover", "w.npz", "v.npy", "-o", "x.npy"))
    assert "5 of 40 rows cannot be recovered. Row 4 has no positive entry" in line
    assert line.endswith("--skip-bad-rows leaves such rows empty and recovers the others.")
    assert not os.path.exists("x.npy")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (3, "has no positive entry"),
        (5, "has no positive entry"),
        (35, "is missing everywhere (NaN)"),
        (36, "2 latent numbers need at least as many. Give a prior, such as --prior gaussian"),
        (37, "holds infinite values: mark them as missing"),
    ],
)
def test_every_kind_of_bad_row_has_its_words(run, refused, layer, bad_rows, row, words):
    np.save("one.npy", layer.table[row : row + 1])
    for options in ([], ["--skip-bad-rows"]):  # nothing would be left
        assert words in refused(run("recover", "w.npz", "one.npy", *options))


def test_bad_rows_can_be_skipped(run, layer, bad_rows):
    options = ["--skip-bad-rows", "-o", "x.csv", "--latent", "c.csv", "--outliers", "e.csv"]
    result = run("recover", "w.npz", "v.npy", *options)
    assert result.exit_code == 0, result.stderr
    assert "Recovered 35 rows" in result.stdout
    assert "5: rows 4, 6, 36, 37, 38" in result.stdout
    good = np.delete(np.arange(N), bad_rows)
    np.testing.assert_allclose(rows_in("x.csv")[good], layer.clean[good], atol=1e-8)
    for name in ("x.csv", "c.csv", "e.csv"):
        assert rows_in(name).shape[0] == N
        assert np.isnan(rows_in(name)[bad_rows]).all()
    answer = answer_of(run("recover", "w.npz", "v.npy", *options, "--json"))
    assert [item["row"] - 1 for item in answer["bad_rows"]] == bad_rows
    assert answer["bad_rows"][2]["reason"].startswith("is missing everywhere (NaN)")
    assert (len(answer["report"]["bad_rows"]), answer["report"]["share_missing"]) == (5, 0.0)
    assert answer["report"]["share_outliers"] == pytest.approx(layer.wrong[good].mean())
    # With a prior a row with few values is as good as any.
    answer = answer_of(run("recover", "w.npz", "v.npy", *options, "--prior", "gaussian", "--json"))
    assert [item["row"] for item in answer["bad_rows"]] == [4, 6, 36, 38]


@pytest.fixture
def undetermined(layer):
    """Row 33 has two values above the floor, but of outputs that tell the same: only the recovery finds out."""
    layer.weights[1], layer.bias[1] = layer.weights[0], layer.bias[0]
    np.savez("w.npz", weights=layer.weights, bias=layer.bias)
    layer.clean = np.maximum(layer.latent @ layer.weights.T + layer.bias, 0.0)
    layer.table = layer.clean.copy()
    layer.table[33] = np.nan
    layer.table[33, :2] = 1.0
    np.save("v.npy", layer.table)


def test_a_row_found_to_be_undetermined_stops_the_work(run, refused, layer, undetermined, monkeypatch):
    monkeypatch.setattr("unrelu.recovery.latent_rows.available_cores", lambda: 2)
    line = refused(run("recover", "w.npz", "v.npy", "-o", "out.npz"))
    assert "1 of 40 rows cannot be recovered. Row 34 is not determined. The 2 entries" in line
    assert "--prior gaussian" in line
    assert "prior='gaussian'" not in line
    write_table("long.npy", np.concatenate([layer.table, layer.table]))
    line = refused(run("recover", "w.npz", "long.npy", "-o", "out.npz"))
    assert "1 of the first 64 rows cannot be recovered. Row 34" in line


def test_an_undetermined_row_does_not_lose_its_neighbours(run, layer, undetermined):
    answer = answer_of(run("recover", "w.npz", "v.npy", "--skip-bad-rows", "-o", "x.npy", "--json"))
    assert [item["row"] for item in answer["bad_rows"]] == [34]
    found = np.load("x.npy")
    assert np.isnan(found[33]).all()
    np.testing.assert_allclose(np.delete(found, 33, axis=0), np.delete(layer.clean, 33, axis=0), atol=1e-8)


def test_an_ambiguous_row_comes_with_both_candidates(run, folder):
    np.savez("w.npz", weights=np.ones((6, 1)), bias=np.zeros(6))
    rows = np.tile([[3.0] * 6], (40, 1))
    rows[35] = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    np.save("v.npy", rows)
    result = run("recover", "w.npz", "v.npy", "--latent", "c.npy")
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: Two latent vectors explain row")
    assert result.stderr.endswith(
        " row 36 about equally well: the better one is used, the other is its rival. [ambiguous-optimum]\n"
    )
    assert "1: row 36" in result.stdout
    answer = answer_of(run("recover", "w.npz", "v.npy", "--latent", "c.npy", "--json"))
    (shown,) = answer["ambiguous"]
    assert shown["row"] == 36
    np.testing.assert_allclose(sorted([shown["latent"][0], shown["rival"][0]]), [1.0, 2.0])
    assert shown["latent"][0] == np.load("c.npy")[35, 0]
    assert len(answer["report"]["ambiguous_rows"]) == len(answer["warnings"]) == 1


def test_an_interruption_leaves_nothing(run, folder, layer, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(unrelu.recovery.RobustLatent, "recover", interrupted)
    result = run("recover", "w.npz", "v.csv", "--latent", "c.csv")
    assert (result.exit_code, result.stderr) == (130, "Interrupted: nothing half-written is left.\n")
    assert sorted(os.listdir(folder)) == ["v.csv", "w.npz"]


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "robist"], "Did you mean 'robust'?"),
        (["--prior", "gausian"], "Did you mean 'gaussian'?"),
        (["--penalty", "0", "--method", "lasso"], "--penalty must be a finite number above 0, got 0.0"),
        (["--penalty=-1", "--method", "lasso"], "--penalty must be a finite number above 0"),
        (["--penalty", "nan", "--method", "lasso"], "--penalty must be a finite number above 0"),
        (["--noise-scale", "0"], "--noise-scale must be a finite number above 0"),
        (["--penalty", "1"], "--penalty belongs to --method lasso"),
        (["--intercept"], "--intercept belongs to --method lasso"),
        (["--method", "lasso", "--prior", "gaussian"], "--prior belongs to --method robust"),
        (["--method", "lasso", "--noise-scale", "1"], "--noise-scale belongs to --method robust"),
        (["--components", "2"], "--components is for a model that unrelu fit wrote, and w.npz is none"),
        (["--floor", "half"], "'half' is not a finite number"),
        (["--columns", "S1"], "Did you mean 's1'?"),
        (["--latent", "c.xlsx"], "c.xlsx: unknown kind of file. Known are .csv"),
        (["--outliers", "e"], "unknown kind of file"),
        (["--picture", "p.doc"], "unknown kind of picture"),
        (["--latent", "nowhere/c.csv"], "nowhere does not exist"),
        (["--latent", "./x.csv"], "two outputs"),
        (["--outliers", "v.csv"], "also an input"),
        (["--latent", "w.npz"], "also an input"),
        (["w.npz"], "w.npz is given both as WEIGHTS and as a table"),
        (["nowhere.csv"], "nowhere.csv: no such file"),
    ],
)
def test_unusable_arguments_are_refused(run, refused, folder, layer, arguments, words):
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    assert words in refused(run("recover", "w.npz", "v.csv", *arguments, "-o", "x.csv"))
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before


A, B = np.arange(6.0).reshape(3, 2) ** 2, np.zeros(3)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"weights": A.T, "bias": B[:2]}, "fewer rows (2) than columns (3)"),
        ({"weights": A[:, [0, 0]], "bias": B}, "weights has rank 1, less than its 2 columns"),
        ({"weights": A, "bias": B[:2]}, "bias must have one number per row of weights (3), got (2,)"),
        ({"weights": A[0], "bias": B}, "weights must be a d x k array, got shape (2,)"),
        ({"weights": A + np.inf, "bias": B}, "weights must be finite"),
        ({"weights": A, "bias": B + np.nan}, "bias must be finite"),
        ({"weights": A, "bias": B, "floor": np.zeros(2)}, "floor must be a number or one number per column"),
        ({"weights": A + 1j, "bias": B}, "weights holds values of type complex128, not numbers"),
        ({"weights": A.astype(str), "bias": B}, "not numbers"),
        ({"weights": A}, "w.npz holds no array 'bias'. Give what unrelu fit or unrelu factor wrote, or an npz file"),
        ({"W": A, "bias": B}, "w.npz holds no array 'weights'"),
        ({"weights": A.astype(object), "bias": B}, "is not a file of weights, or is damaged"),
    ],
)
def test_unusable_layers_are_refused(run, refused, folder, arrays, words):
    np.savez("w.npz", **arrays)
    np.save("v.npy", np.ones((4, len(arrays.get("bias", B)))))
    line = refused(run("recover", "w.npz", "v.npy", "-o", "x.csv"))
    assert words in line
    assert "w.npz" in line
    assert "prior='" not in line


def test_a_prior_helps_layers_that_are_not_determined(run, folder):
    for weights in (np.arange(6.0).reshape(2, 3) ** 2, A[:, [0, 0]]):
        np.savez("w.npz", weights=weights, bias=np.ones(len(weights)))
        np.save("v.npy", np.ones((4, len(weights))))
        assert "--prior gaussian" in run("recover", "w.npz", "v.npy").stderr
        assert run("recover", "w.npz", "v.npy", "--prior", "gaussian").exit_code == 0


def test_files_that_are_no_layer_are_refused(run, refused, folder, layer):
    whole = (folder / "w.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "text.npz").write_text("my thesis")
    (folder / "empty.npz").write_bytes(b"")
    np.save("one.npy", layer.weights)
    for name in ("cut.npz", "text.npz", "empty.npz", "one.npy"):
        line = refused(run("recover", name, "v.csv", "-o", "x.csv"))
        assert f"{name} is not a file of weights, or is damaged. Give what unrelu fit" in line
    assert "There is no file of weights nowhere.npz" in refused(run("recover", "nowhere.npz", "v.csv"))
    assert ". is a folder, not a file of weights" in refused(run("recover", ".", "v.csv"))
    write_table("v.npy", layer.clean)
    assert run("factor", "v.npy", "--components", 2, "--max-iter", 2, "--state", "s.npz", "-o", "f.npz").exit_code == 0
    assert "s.npz is the state of a run of unrelu factor" in refused(run("recover", "s.npz", "v.csv"))


def test_damaged_models_and_tables_are_refused(run, refused, folder, layer, factors):
    whole = (folder / "factors.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[:-200])
    assert "damaged" in refused(run("recover", "cut.npz", "v.csv", "-o", "x.csv"))
    (folder / "bad.csv").write_text((folder / "v.csv").read_text() + "abc" + ",1" * (D - 1) + "\n")
    assert "'abc' is not a number" in refused(run("recover", "w.npz", "bad.csv", "-o", "x.csv"))
    (folder / "empty.csv").write_text("")
    assert "empty" in refused(run("recover", "w.npz", "empty.csv", "-o", "x.csv"))


@pytest.mark.parametrize("command", [["fit"], ["factor", "--components", "1"]])
def test_models_with_margins_are_no_layers(run, refused, skewed, command):
    assert run(*command, skewed, "--floor", "As=0.5", "--margins", "boxcox", "-o", "shaped.npz").exit_code == 0
    line = refused(run("recover", "shaped.npz", skewed, "-o", "out.npz"))
    assert "The columns of shaped.npz have margins, and a layer has none" in line
