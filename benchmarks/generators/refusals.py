"""Tables that cannot be recovered, or not that way: errors and warnings, and after how many seconds.

Every one must end within a minute, with a warning or an error of unrelu's that names what is wrong; or be right.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import unrelu
from benchmarks.generators.networks import SIZES, Network, Rows, Size, draw
from benchmarks.generators.recovered import RIGHT, Recovered, recover, warm_up
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim

SECONDS = 60.0
PATIENCE = 2.0 * SECONDS


class Call(NamedTuple):
    """Rows, ``n_inputs``, and the table in another form or another number of units."""

    rows: Rows
    n_inputs: int | str | None
    X: Any = None
    width: int | None = None


def with_units(size: Size, change: Callable[[Network], Network]) -> Rows:
    return change(Network.draw(size, 0)).rows(size.n, 0)


def with_bias(network: Network, bias: float) -> Network:
    """The network with the first unit's bias so many of its standard deviations from 0."""
    b1 = network.b1.copy()
    b1[0] = bias * np.linalg.norm(network.A1[0])
    return replace(network, b1=b1)


def with_duplicate(network: Network) -> Network:
    """The network with a second unit that is twice the first one."""
    A1, b1 = network.A1.copy(), network.b1.copy()
    A1[1], b1[1] = 2.0 * A1[0], 2.0 * b1[0]
    return replace(network, A1=A1, b1=b1)


def constant_outputs(network: Network) -> Network:
    """One output is 1 in all rows, another 0."""
    A2, b2 = network.A2.copy(), network.b2.copy()
    A2[:2], b2[:2] = 0.0, (1.0, -1.0)
    return replace(network, A2=A2, b2=b2)


def with_nan(rows: Rows) -> np.ndarray:
    X = rows.X.copy()
    X[3, 5] = np.nan
    return X


def cases(size: Size) -> dict[str, Callable[[], Call]]:
    p, q = size.p, size.q

    def rows(**other: int) -> Rows:
        return draw(size._replace(**other), 0)

    return {
        "q given as p": lambda: Call(rows(), p),
        "q is p, as many inputs as units": lambda: Call(rows(p=q + 2, q=q + 2), q + 2),
        "q one too small": lambda: Call(rows(), q - 1),
        "q one too large": lambda: Call(rows(), q + 1),
        "q half of the true one": lambda: Call(rows(), q // 2),
        "q twice the true one": lambda: Call(rows(), 2 * q),
        "q = 0": lambda: Call(rows(), 0),
        "p one too small": lambda: Call(rows(), q, width=p - 1),
        "p one too large": lambda: Call(rows(), q, width=p + 1),
        "10 rows a unit": lambda: Call(rows(n=10 * p), q),
        "3 rows a unit": lambda: Call(rows(n=3 * p), q),
        "a unit that is never off": lambda: Call(with_units(size, lambda net: with_bias(net, 8.0)), q),
        "a unit that is never on": lambda: Call(with_units(size, lambda net: with_bias(net, -8.0)), q),
        "d < 2 p": lambda: Call(rows(d=3 * p // 2), q),
        "d < p": lambda: Call(rows(d=p - 1), q),
        "duplicated units": lambda: Call(with_units(size, with_duplicate), q),
        "constant outputs": lambda: Call(with_units(size, constant_outputs), q),
        "integers": lambda: whole_numbers(rows(), q),
        "NaN": lambda: Call(rows(), q, X=with_nan(rows())),
        "text": lambda: Call(rows(), q, X=[["a", "b"], ["c", "d"]]),
        "three layers: z rectified": lambda: Call(with_rectified_inputs(rows()), q),
        "no network: independent values": lambda: Call(noise_alone(rows()), q),
    }


def whole_numbers(rows: Rows, q: int) -> Call:
    """Rounded to steps of a tenth of the root mean square."""
    return Call(rows, q, X=np.rint(10.0 * rows.X / np.sqrt((rows.X**2).mean())).astype(int))


def with_rectified_inputs(rows: Rows) -> Rows:
    net, z = rows.network, np.maximum(rows.z, 0.0)
    H = net.hidden(z)
    T = H @ net.A2.T + net.b2
    return Rows(net, z, H, T, net.outputs(T), rows.inlier)


def noise_alone(rows: Rows) -> Rows:
    """Independent normal values cut off at 0: any unit found is wrong."""
    X = np.random.default_rng(0).standard_normal(rows.X.shape)
    H = np.abs(np.random.default_rng(1).standard_normal(rows.H.shape))
    return replace(rows, H=H, X=np.maximum(X, 0.0))


def run(_: int = 10**9, size: Size = SIZES[0]) -> list[Claim]:
    """One draw of each."""
    warm_up()
    rows, unanswered, slow = [], [], []
    slowest = 0.0
    for name, case in cases(size).items():
        call = case()
        fit = recover(*call, max_seconds=PATIENCE)
        slowest = max(slowest, fit.seconds)
        if not is_answered(fit):
            unanswered.append(name)
        if fit.seconds > SECONDS:
            slow.append(name)
        print(f"[{name}: {fit.seconds:.1f} s, {answer_of(fit)}]", file=sys.stderr, flush=True)
        units = f"{fit.units_found} of {call.width or call.rows.H.shape[1]}"
        rows.append([name, units, f"{fit.right()}", f"{fit.wrong_unnamed()}", f"{fit.seconds:.1f}", answer_of(fit)])
    show(f"{size}: refusals", ["", "units", "right", "wrong, unnamed", "s", "errors and warnings"], rows)
    return print_claims(
        Claim(
            f"tables that are neither right nor named, of {len(rows)}",
            len(unanswered),
            0,
            note=joined_names(unanswered),
        ),
        Claim("  seconds, slowest", slowest, SECONDS, note=joined_names(slow)),
    )


def is_answered(fit: Recovered) -> bool:
    """Whether unrelu warned or refused by an error of its own, or all is right."""
    if fit.warned:
        ours = {*unrelu.errors.__all__, *(kind for kinds in unrelu.errors.KINDS.values() for kind in kinds)}
        return all(name in ours for name, _ in fit.warned)
    return fit.complete and fit.sine <= RIGHT


def answer_of(fit: Recovered, most: int = 170) -> str:
    texts = " | ".join(f"{name}: {words}" for name, words in dict(fit.warned).items())
    return texts[:most] or ("right" if is_answered(fit) else "NOTHING")


def joined_names(names: list[str]) -> str:
    return ", ".join(names)
