"""Two and more layers: exactness and time against rivals, fewer latents than units, noise, outlier rows, peeling.

    python -m benchmarks.layers                    every study; each prints a table and its claims
    python -m benchmarks.layers noise outliers     some of them
    python -m benchmarks.layers noise --seeds 2    a trial: at most so many draws of each problem

W (p x k), b, A (d x p) and z are standard normal, x = A ReLU(W z + b); "A >= 0" takes the absolute value of A. Unless a
study says otherwise d = 40, n = 2000, k = p. Errors are the sine of the worst column of A after matching, 1 where not
every unit was found. Linear algebra runs on one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.rivals.layers import (
    LP_ROWS,
    OUTLIERS,
    Layers,
    distribution_ratios,
    facets_without_trimming,
    fit_layers,
    linear_programs,
    misses,
    nmf,
    oracle_weights,
    right_units,
    sines,
    successive_projection,
    try_peeling,
    worst_sine,
)
from benchmarks.studies import command, print_claims, run_each, show
from benchmarks.table import Claim
from unrelu.errors import CannotPeelError

RIGHT = 1e-6  # sine between a found unit's heights and the true ones


def run(names: Sequence[str] = (), most: int = 10**9) -> list[Claim]:
    """The studies of these names, all without any; ``most`` draws of each problem."""
    fit_layers(Layers.draw(3, 3, 0, n=300).X, 3)  # compiles
    return run_each("layers", STUDIES, names, most)


# --- without noise ----------------------------------------------------------------------------------


def exact(most: int) -> list[Claim]:
    """Twenty draws of each size, signed and non-negative; rivals in five of them."""
    rows, claims = [], []
    for p in (5, 10, 15, 20):
        for positive in (False, True):
            draws = [Layers.draw(p, p, seed, positive) for seed in range(min(20, most))]
            fits = [fit_layers(layers.X, p) for layers in draws]
            errors = [worst_sine(fit.weights, layers.A) for fit, layers in zip(fits, draws, strict=True)]
            what = f"p={p}, {_sign(positive)}"
            seconds = [fit.seconds for fit in fits]
            rows.append([what, "facets", *_figures(errors, seconds)])
            rivals = {"successive projection": successive_projection} | ({"sklearn NMF": nmf} if positive else {})
            best = 1.0
            for name, rival in rivals.items():
                timed = [_time(rival, layers.X, p) for layers in draws[:5]]
                sizes = [worst_sine(found, layers.A) for (found, _), layers in zip(timed, draws, strict=False)]
                best = min(best, float(np.median(sizes)))
                rows.append([what, name, *_figures(sizes, [took for _, took in timed])])
            good = sum(error <= 1e-7 for error in errors)
            claims += [
                Claim(
                    f"draws with the worst column's sine <= 1e-7, {what}, of {len(draws)}",
                    good,
                    least=len(draws),
                    note=misses(fits, draws, errors, 1e-7) or f"largest {max(errors):.1e}",
                ),
                Claim("  median / best rival's", float(np.median(errors)) / best),
                Claim("  seconds, slowest", max(seconds), most=3.0, note=f"median {np.median(seconds):.2f}"),
            ]
    show("d=40, n=2000, k=p, no noise", ["", "", "draws", "median sine", "largest", "<= 1e-7", "s", "slowest"], rows)
    return print_claims(*claims)


def _figures(errors: Sequence[float], seconds: Sequence[float]) -> list[str]:
    return [
        f"{len(errors)}",
        f"{np.median(errors):.1e}",
        f"{max(errors):.1e}",
        f"{sum(error <= 1e-7 for error in errors)}",
        f"{np.median(seconds):.2f}",
        f"{max(seconds):.2f}",
    ]


def _time(method: Callable[[np.ndarray, int], np.ndarray], X: np.ndarray, p: int) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    found = method(X, p)
    return found, time.perf_counter() - start


def programs(most: int) -> list[Claim]:
    """The design's linear programs from 60 random rows, p=20: facets found, and in what time."""
    rows, ratios = [], []
    for seed in range(min(3, most)):
        layers = Layers.draw(20, 20, seed)
        fit, solved = fit_layers(layers.X, 20), linear_programs(layers, seed)
        ratios.append(solved.seconds / fit.seconds)
        ours = 0 if fit.learner is None else fit.learner.report_.units_found
        rows += [
            [f"seed {seed}", "facets", f"{ours}", "", f"{worst_sine(fit.weights, layers.A):.1e}", f"{fit.seconds:.2f}"],
            ["", "programs", f"{solved.found}", f"{solved.right}", f"{solved.worst:.1e}", f"{solved.seconds:.2f}"],
        ]
    show(f"p=20, {LP_ROWS} linear programs (HiGHS)", ["", "", "facets", "true", "worst sine", "s"], rows)
    return print_claims(Claim(f"seconds of {LP_ROWS} linear programs / facet search, p=20", float(np.median(ratios))))


def large(most: int) -> list[Claim]:
    """p=k=40, n=10,000, d=100."""
    draws = [Layers.draw(40, 40, seed, d=100, n=10_000) for seed in range(min(3, most))]
    fits = [fit_layers(layers.X, 40) for layers in draws]
    errors = [worst_sine(fit.weights, layers.A) for fit, layers in zip(fits, draws, strict=True)]
    rows = [
        [f"{seed}", f"{error:.1e}", f"{fit.seconds:.1f}"]
        for seed, (fit, error) in enumerate(zip(fits, errors, strict=True))
    ]
    show("p=k=40, d=100, n=10,000", ["seed", "worst sine", "s"], rows)
    return print_claims(
        Claim(
            f"worst column's sine, p=40, n=10,000, d=100, {len(draws)} draws",
            max(errors),
            most=1e-6,
            note=misses(fits, draws, errors, 1e-6),
        ),
        Claim("  seconds, slowest", max(fit.seconds for fit in fits), most=60.0),
    )


def few_latents(most: int) -> list[Claim]:
    """p=20 and fewer latents: units found, right ones among them, and the warnings about wrong ones."""
    rows, claims = [], []
    for k, draws in ((10, min(20, most)), (5, min(10, most))):
        complete = wrong_all = unnamed = silent = found_all = right_all = 0
        for seed in range(draws):
            layers = Layers.draw(20, k, seed)
            fit = fit_layers(layers.X, 20)
            units, doubtful = np.zeros((len(layers.X), 0)), np.zeros(0, dtype=bool)
            if fit.learner is not None:
                units = fit.learner.transform(layers.X)
                doubtful = np.isin(np.arange(units.shape[1]), fit.learner.report_.doubtful_units)
            right = right_units(units, layers.H, RIGHT)
            complete += int(right.sum() == 20)
            found_all, right_all = found_all + len(right), right_all + int(right.sum())
            wrong_all, unnamed = wrong_all + int((~right).sum()), unnamed + int((~right & ~doubtful).sum())
            silent += int(fit.silent and not right.all())
            warned = ", ".join(
                word for word, is_so in (("missing", fit.not_found), ("doubtful", fit.doubtful)) if is_so
            )
            if warned or right.sum() < 20 or k == 5:
                rows.append(
                    [
                        f"{k}",
                        f"{seed}",
                        f"{len(right)}",
                        f"{right.sum()}",
                        f"{(~right & doubtful).sum()} of {(~right).sum()}",
                        f"{(right & doubtful).sum()}",
                        warned or "nothing",
                        f"{fit.seconds:.1f}",
                    ]
                )
        name = f"p=20, k={k}"
        least = round(0.95 * draws) if k == 10 else None
        claims += [
            Claim(f"draws with all 20 facets, {name}, of {draws}", complete, least=least),
            Claim("  share of true units found", right_all / 20 / draws, note=f"{found_all / draws:.1f} a draw found"),
            Claim("  fits with a wrong unit that warned of nothing", silent, most=0),
            Claim("  wrong units not named doubtful", unnamed, most=0, note=f"of {wrong_all} wrong ones"),
        ]
    header = ["k", "seed", "found", "right", "wrong, named doubtful", "right, named doubtful", "warned of", "s"]
    show("p=20, fewer latents than units (k=10: draws with wrong units or warnings)", header, rows)
    return print_claims(*claims)


# --- noise and outliers -----------------------------------------------------------------------------


def noise(most: int) -> list[Claim]:
    """Noise of a share of the signal; the oracle knows which hidden units are off in which row."""
    rows, claims = [], []
    for p in (10, 5, 20):
        for positive in (False, True):
            for share, bound in ((0.001, 0.001), (0.01, 0.01), (0.03, 0.05)):
                clean = [Layers.draw(p, p, seed, positive) for seed in range(min(10 if p == 10 else 3, most))]
                draws = [layers.noisy(share, seed) for seed, layers in enumerate(clean)]
                fits = [fit_layers(layers.X, p) for layers in draws]
                errors = [worst_sine(fit.weights, layers.A) for fit, layers in zip(fits, draws, strict=True)]
                best = [worst_sine(oracle_weights(layers), layers.A) for layers in draws]
                ratios = np.array(errors) / best
                what = f"p={p}, {_sign(positive)}"
                rows.append(
                    [
                        what,
                        f"{100 * share:g} %",
                        f"{len(draws)}",
                        f"{np.median(errors):.5f}",
                        f"{max(errors):.5f}",
                        f"{sum(error <= bound for error in errors)}",
                        f"{np.median(best):.5f}",
                        f"{max(best):.5f}",
                        f"{sum(error <= bound for error in best)}",
                        f"{np.median(ratios):.2f}",
                        f"{np.median([fit.seconds for fit in fits]):.2f}",
                    ]
                )
                missed = misses(fits, draws, errors, bound)
                note = f"oracle {max(best):.2g}" + (f"; {missed}" if missed else "")
                name = f"worst column's sine, {100 * share:g} % noise, {what}, worst of {len(draws)}"
                claims += [
                    Claim(name, max(errors), most=bound if p == 10 else None, note=note),
                    Claim("  median draw", float(np.median(errors)), most=bound if p == 10 else None),
                    Claim("  median of sine / oracle's", float(np.median(ratios))),
                ]
    header = ["", "noise", "draws", "median sine", "largest", "in bound", "oracle", "largest", "in bound"]
    show("noise, d=40, n=2000, k=p", [*header, "sine / oracle's", "s"], rows)
    return print_claims(*claims)


def outliers(most: int) -> list[Claim]:
    """p=10: rows replaced, without and with 1 % noise, beside the same draws without outliers, a facet search in plain
    principal components, and (A >= 0 there) scikit-learn's NMF."""
    rows, claims = [], []
    for share in (0.0, 0.01):
        clean = [Layers.draw(10, 10, seed).noisy(share, seed) for seed in range(min(2, most))]
        base = [worst_sine(fit_layers(layers.X, 10).weights, layers.A) for layers in clean]
        rows.append([f"{100 * share:g} %", "none", "", f"{max(base):.1e}", "1", "", "", "", ""])
        for kind in OUTLIERS:
            for part in (0.05, 0.1):
                draws = [layers.with_outliers(kind, part, seed) for seed, layers in enumerate(clean)]
                fits = [fit_layers(layers.X, 10) for layers in draws]
                errors = [worst_sine(fit.weights, layers.A) for fit, layers in zip(fits, draws, strict=True)]
                ratio = float(np.max(np.array(errors) / base))
                plain = worst_sine(facets_without_trimming(draws[0].X, 10), draws[0].A)
                positive = Layers.draw(10, 10, 0, True).noisy(share, 0).with_outliers(kind, part, 0)
                rival = worst_sine(nmf(positive.X, 10), positive.A)
                failed = [seed for seed, error in enumerate(errors) if error > 0.1]
                silent = sum(fits[seed].silent for seed in failed)
                seconds = [fit.seconds for fit in fits]
                rows.append(
                    [
                        f"{100 * share:g} %",
                        kind,
                        f"{100 * part:.0f} %",
                        f"{max(errors):.1e}",
                        f"{ratio:.2g}",
                        f"{plain:.1e}",
                        f"{rival:.2f}",
                        f"{len(failed)}" + (f" ({silent} silent)" if failed else ""),
                        f"{np.median(seconds):.1f}",
                    ]
                )
                name = f"worst column's sine, {100 * part:.0f} % rows {kind}, {100 * share:g} % noise"
                note = f"{ratio:.2g} x that without outliers; {misses(fits, draws, errors, 0.1)}".rstrip("; ")
                claims.append(Claim(name, max(errors), note=note))
    header = ["noise", "outliers", "rows", "worst sine", "/ without", "untrimmed", "NMF, A >= 0", "failed", "s"]
    show(f"outlier rows, p=k=10, {min(2, most)} draws; rivals in the first", header, rows)
    return print_claims(*claims)


# --- peeling ----------------------------------------------------------------------------------------


def peeling(most: int) -> list[Claim]:
    """x = ReLU(A2 h + b2), d=100, n=5000, b2 standard normal: A2 on identifiable outputs, and the units'
    distribution against the one-layer learner's on the true units."""
    rows, claims = [], []
    for p in (8, 12, 20):
        errors, seconds, ratios, notes = [], [], [], []
        for seed in range(min(2, most)):
            layers = Layers.draw(p, p, seed, d=100, n=5000)
            b2 = np.random.default_rng([seed, 4]).standard_normal(100)
            peeled, took = try_peeling(np.maximum(layers.X + b2, 0.0), [p])
            seconds.append(took)
            if isinstance(peeled, CannotPeelError):
                errors.append(1.0)
                notes.append(f"seed {seed}: {peeled}")
                rows.append([f"{p}", f"{seed}", "", "1", "", "", "", "", f"{took:.1f}"])
                continue
            layer = peeled.layers[0]
            identified = layer.column_identifiable
            errors.append(worst_sine(layer.weights[identified], layers.A[identified]))
            ratio, found, reference = distribution_ratios(peeled, layers)
            ratios.append(max(ratio.values()))
            shift = float(np.abs(layer.bias - b2)[identified].max())
            figures = [f"{100 - identified.sum()}", f"{errors[-1]:.1e}", f"{shift:.1e}"]
            distributions = [f"{found['bias']:.4f} / {reference['bias']:.4f}", f"{found['weights']:.4f}"]
            distributions[1] += f" / {reference['weights']:.4f}"
            rows.append([f"{p}", f"{seed}", *figures, *distributions, f"{ratios[-1]:.4f}", f"{took:.1f}"])
        what = f"peeling d=100, p=k={p}, n=5000"
        claims += [
            Claim(f"worst column's sine of A2, {what}", max(errors), most=1e-6, note="; ".join(notes)),
            Claim(
                "  error of the units' distribution / one-layer learner's", max(ratios, default=float("nan")), most=1.1
            ),
            Claim("  seconds", max(seconds)),
        ]
    header = [
        "p",
        "seed",
        "outputs without weights",
        "worst sine",
        "b2 off by",
        "distribution: mean",
        "distribution: covariance",
    ]
    show(
        "peeling one layer (distribution: peeled / learned from the true units)", [*header, "largest ratio", "s"], rows
    )
    return print_claims(*claims)


def deep(most: int) -> list[Claim]:
    """Two rectified layers above the innermost one, as information."""
    rows, claims = [], []
    for d, p2, p1, n in DEEP:
        for seed in range(min(1, most)):
            inner = Layers.draw(p1, p1, seed, d=p2, n=n)
            rng = np.random.default_rng([seed, 5])
            A2, b1, b2 = rng.standard_normal((d, p2)), rng.standard_normal(p2), rng.standard_normal(d)
            units = np.maximum(inner.X + b1, 0.0)
            peeled, took = try_peeling(np.maximum(units @ A2.T + b2, 0.0), [p2, p1])
            outer = inmost = 1.0
            note = ""
            layers = peeled.peeled.layers if isinstance(peeled, CannotPeelError) else peeled.layers
            if isinstance(peeled, CannotPeelError):
                note = str(peeled)
            if layers:
                identified = layers[0].column_identifiable
                outer = worst_sine(layers[0].weights[identified], A2[identified])
                partners = sines(layers[0].weights[identified], A2[identified])[1]
            if len(layers) == 2:
                scale = np.linalg.norm(A2[identified], axis=0)
                seen = layers[1].column_identifiable
                inmost = worst_sine(layers[1].weights[seen], (inner.A * scale[:, None])[partners][seen])
            rows.append([f"{d} <- {p2} <- {p1}", f"{n}", f"{outer:.1e}", f"{inmost:.1e}", f"{took:.0f}", note[:90]])
            claims += [
                Claim(f"worst column's sine of A2, three layers {d} <- {p2} <- {p1}, n={n}", outer, note=note),
                Claim("  of A1", inmost, note=f"{took:.0f} s"),
            ]
    show("peeling two layers", ["widths", "n", "A2 worst sine", "A1 worst sine", "s", ""], rows)
    return claims


# --- printing ---------------------------------------------------------------------------------------

DEEP = ((80, 12, 4, 2000),)
STUDIES: dict[str, Callable[[int], list[Claim]]] = {
    "exact": exact,
    "programs": programs,
    "large": large,
    "few_latents": few_latents,
    "noise": noise,
    "outliers": outliers,
    "peeling": peeling,
    "deep": deep,
}


def _sign(positive: bool) -> str:
    return "A >= 0" if positive else "signed A"


if __name__ == "__main__":
    sys.exit(command("layers", STUDIES, run))
