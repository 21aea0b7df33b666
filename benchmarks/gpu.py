"""On a GPU: the pass, the whole fit, a layer of a running network, memory, and errors for bad input.

    PYTHONPATH=src python -m benchmarks.gpu [STUDY ...]

Needs a CUDA device and torch; CuPy is tried where it is installed. Tables are x = max(W z + b, 0) with 20 inputs and
noise, drawn on the device in single precision. Seconds are medians, with the device synchronized. docs/gpu.md has the
last table.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import unrelu
from benchmarks.studies import command, print_claims, show
from benchmarks.table import Claim
from unrelu.contracts import Assumptions
from unrelu.errors import UnreluError
from unrelu.fit.columns import fit_columns
from unrelu.fit.one_pass import fit_pairs
from unrelu.passes.device import DeviceEngine, place_of
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables.device import DeviceSamples

LONG, WIDE = (1_000_000, 1_000), (200_000, 5_000)
MOST_SECONDS_OF_PASS, MOST_SECONDS_OF_FIT = {LONG: 0.2, WIDE: 0.8}, {LONG: 1.5, WIDE: 15.0}
GIB = 2**30
LAYER = "20"  # of VGG-16: the rectifier behind its ninth convolution, 512 channels of 28 x 28 positions


def table(n: int, d: int, seed: int = 0) -> Any:
    """n x d floored values on the device, float32."""
    import torch

    stream = torch.Generator("cuda").manual_seed(seed)

    def normal(*size: int) -> Any:
        return torch.randn(*size, generator=stream, device="cuda")

    weights, mean = normal(20, d) / 20**0.5, 0.5 * normal(d)
    rows = torch.empty(n, d, device="cuda")
    for start in range(0, n, 100_000):
        part = rows[start : start + 100_000]
        part.copy_(normal(len(part), 20) @ weights + 0.7 * normal(len(part), d) + mean)
    return rows.clamp_(min=0.0)


def seconds(task: Callable[[], object], rounds: int = 5) -> float:
    import torch

    task()
    found = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        task()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return float(np.median(found))


def one_pass(x: Any) -> Any:
    zero = (0.0,) * x.shape[1]
    return DeviceEngine().collect(DeviceSamples(x), PairMomentsQuestion(zero, zero))


def passes() -> list[Claim]:
    import torch

    rows, claims = [], []
    for n, d in (LONG, WIDE):
        x = table(n, d)
        took = seconds(partial(one_pass, x))
        cov = seconds(lambda table=x: torch.cov(table.double().T))
        torch.cuda.empty_cache()
        base = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        one_pass(x)
        beside = torch.cuda.max_memory_allocated() - base
        rows.append([f"{n:,} x {d:,}", f"{took:.3f}", f"{cov:.3f}", f"{beside / GIB:.2f}"])
        claims += [
            Claim(f"pass over {n:,} x {d:,} (s)", took, MOST_SECONDS_OF_PASS[n, d]),
            Claim(f"pass over {n:,} x {d:,} / torch.cov in float64", took / cov, 3.5 if (n, d) == LONG else None),
            Claim(f"memory beside {n:,} x {d:,} (GiB)", beside / GIB, 2.0 + 12 * 8 * d * d / GIB),
        ]
        del x
        torch.cuda.empty_cache()
    show("passes", ["", "seconds", "torch.cov", "GiB beside the table"], rows)
    return print_claims(*claims)


def fits() -> list[Claim]:
    claims = []
    for n, d in (LONG, WIDE):
        x = table(n, d)
        took = seconds(partial(_fit, x), rounds=3 if d < 2000 else 1)
        claims.append(Claim(f"whole fit of {n:,} x {d:,} (s)", took, MOST_SECONDS_OF_FIT[n, d]))
        if (n, d) == LONG:
            here = x.cpu().numpy()
            unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(here[:20_000])  # compiled
            began = time.perf_counter()
            unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(here)
            cpu = time.perf_counter() - began
            name = f"the same fit by the CPU of this machine ({os.cpu_count()} cores, {cpu:.1f} s) / by the GPU"
            claims.append(Claim(name, cpu / took, None, 30.0))
    return print_claims(*claims)


def same() -> list[Claim]:
    import torch

    x = table(50_000, 300)
    here = x.cpu().numpy().astype(np.float64)
    reference = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(here)
    claims = []
    for name, given, bound in (("float64", x.double(), 1e-8), ("float32", x, 1e-5)):
        learned = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(given)
        off = np.abs(learned.correlation_ - reference.correlation_).max()
        errors = np.abs(learned.correlation_stderr_ - reference.correlation_stderr_).max()
        claims.append(
            Claim(f"correlations, GPU - CPU, {name}", float(off), bound, note=f"standard errors {errors:.1e}")
        )
    holes = x.double()
    holes[torch.rand(holes.shape, device="cuda") < 0.05] = torch.nan
    weights = torch.rand(len(x), device="cuda").double()
    ours = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(holes, sample_weight=weights)
    theirs = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(
        holes.cpu().numpy(), sample_weight=weights.cpu().numpy()
    )
    off = float(np.abs(ours.correlation_ - theirs.correlation_).max())
    claims.append(Claim("the same with 5 % missing and weights", off, 1e-8))
    parts = unrelu.RectifiedGaussianLearner("one_pass", margins="normal")
    for start in range(0, len(x), 7_000):
        parts.partial_fit(x[start : start + 7_000].double())
    claims.append(
        Claim("the same by partial_fit", float(np.abs(parts.correlation_ - reference.correlation_).max()), 1e-8)
    )
    try:
        import cupy
    except ImportError:
        print("  CuPy is not installed: left out")
    else:
        learned = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(cupy.asarray(here))
        off = float(np.abs(learned.correlation_ - reference.correlation_).max())
        claims.append(Claim("correlations, CuPy - CPU, float64", off, 1e-8))
    drawn = reference.distribution_.sample(200_000, random_state=0, like=x)
    again = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(drawn)
    z = np.abs(again.mean_ - reference.mean_) / again.mean_stderr_
    claims.append(Claim("rows drawn on the device: largest error of a mean, in standard errors", float(z.max()), 4.5))
    return print_claims(*claims)


def vgg() -> Any:
    """The convolutions of VGG-16 (Simonyan and Zisserman 2015), not trained."""
    from torch import nn

    layers: list[Any] = []
    width = 3
    for units in (64, 64, None, 128, 128, None, 256, 256, 256, None, 512, 512, 512, None, 512, 512, 512):
        if units is None:
            layers.append(nn.MaxPool2d(2))
        else:
            convolution = nn.Conv2d(width, units, 3, padding=1)
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
            layers += [convolution, nn.ReLU()]
            width = units
    return nn.Sequential(*layers)


def network() -> list[Claim]:
    """A layer of 512 channels over two million positions, learned while the network runs."""
    import torch

    torch.manual_seed(0)
    model = vgg().cuda().eval()
    images = [torch.randn(64, 3, 224, 224) for _ in range(42)]  # 28 x 28 positions of each in the layer

    def forward() -> None:
        with torch.no_grad():
            for batch in images:
                model(batch.cuda())

    def learn() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return unrelu.learn_layer(model, LAYER, images)

    plain, hooked = seconds(forward, 3), seconds(learn, 3)
    learner = learn()
    began = time.perf_counter()
    _ = learner.covariance_
    solved = time.perf_counter() - began
    print(f"  {learner.record_.n_rows:,} rows of {learner.n_features_in_} units; solved in {solved:.2f} s")
    return print_claims(
        Claim("overhead of the hook / forward pass", hooked / plain - 1.0, 0.3, note=f"{plain:.2f} s forward")
    )


def bad_input() -> list[Claim]:
    import torch

    x = table(5_000, 20).double()

    def with_cell(value: float) -> Any:
        other = x.clone()
        other[17, 2] = value
        return other

    def short_of_memory() -> Any:
        free, _ = torch.cuda.mem_get_info()
        wide = table(20_000, 6_000)
        ballast = torch.empty(int(free - wide.nbytes - 3.4 * GIB), dtype=torch.uint8, device="cuda")
        try:
            return one_pass(wide)
        finally:
            del ballast
            torch.cuda.empty_cache()

    def far_too_short() -> Any:
        wide = table(600, 20_000)
        free, _ = torch.cuda.mem_get_info()
        ballast = torch.empty(int(free - 4.0 * GIB), dtype=torch.uint8, device="cuda")
        try:
            return one_pass(wide)
        finally:
            del ballast
            torch.cuda.empty_cache()

    cases: dict[str, tuple[Callable[[], Any], str | None]] = {
        "infinite": (lambda: _fit(with_cell(np.inf)), "infinite or beyond"),
        "below the floor": (lambda: _fit(with_cell(-1.0)), "below the floor 0, in column 2 (1, first in row 17"),
        "NaN": (lambda: _fit(with_cell(np.nan)), None),
        "integers": (lambda: _fit((10 * x).int()), None),
        "bfloat16": (lambda: _fit(x.bfloat16()), None),
        "requires_grad": (lambda: _fit(x.clone().requires_grad_()), None),
        "not contiguous": (lambda: _fit(x.T.contiguous().T[::2]), None),
        "three axes": (lambda: _fit(x[None]), "2 dimensions"),
        "complex": (lambda: _fit(x.to(torch.complex64)), "Expected numbers"),
        "weights on the device, rows on the host": (
            lambda: unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(
                x.cpu(), sample_weight=torch.ones(5_000, device="cuda")
            ),
            "put both on one device",
        ),
        "little memory": (short_of_memory, None),
        "far too little memory": (far_too_short, "too little memory"),
    }
    claims = []
    for name, (task, message) in cases.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                task()
            message_seen = None
        except UnreluError as error:
            message_seen = str(error)
        good = message_seen is None if message is None else message_seen is not None and message in message_seen
        claims.append(Claim(f"bad input: {name}", float(good), None, 1.0, note=(message_seen or "learned")[:90]))
    return print_claims(*claims)


def _fit(x: Any) -> Any:
    return unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(x).covariance_


def stages() -> list[Claim]:
    """Where the time of the whole fits goes."""
    for n, d in (LONG, WIDE):
        x = table(n, d)
        began = time.perf_counter()
        record = one_pass(x)
        passed = time.perf_counter()
        place = place_of(x)
        assert place is not None
        fit_pairs(record, fit_columns(record, Assumptions((0.0,) * d)), place=place)
        paired = time.perf_counter()
        unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(x)
        whole = time.perf_counter() - paired
        first, second = passed - began, paired - passed
        print(f"  {n:,} x {d:,}: pass {first:.2f} s, marginals and pairs {second:.2f} s, whole fit {whole:.2f} s")
    return []


STUDIES = {"same": same, "bad_input": bad_input, "network": network, "passes": passes, "stages": stages, "fits": fits}


def run(chosen: tuple[str, ...] | list[str] = (), most: int = 10**9) -> list[Claim]:  # noqa: ARG001 - each study has one table of each size
    import torch

    print(f"  {torch.cuda.get_device_name()}, torch {torch.__version__}")
    claims: list[Claim] = []
    for study in chosen or STUDIES:  # with all of the machine's threads
        began = time.perf_counter()
        claims += STUDIES[study]()
        print(f"[gpu {study}: {time.perf_counter() - began:.0f} s]", flush=True)
    return claims


if __name__ == "__main__":
    sys.exit(command("gpu", STUDIES, run))
