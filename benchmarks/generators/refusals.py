"""Tables that cannot be recovered, or not that way: what is said, and after how many seconds.

Every one must end within a minute, with a warning or an error of unrelu's that names what is wrong; or be right.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import unrelu
from benchmarks.generators.networks import SIZES, Network, Rows, Size, drawn
from benchmarks.generators.recovered import RIGHT, Recovered, recover, warm_up
from benchmarks.studies import show, told
from benchmarks.table import Claim

SECONDS = 60.0
PATIENCE = 2.0 * SECONDS


class Asked(NamedTuple):
    """Rows, the number of inputs asked for, and the table in another form or another number of units."""

    rows: Rows
    n_inputs: int | str | None
    X: Any = None
    width: int | None = None


def with_units(size: Size, change: Callable[[Network], Network]) -> Rows:
    return change(Network.draw(size, 0)).rows(size.n, 0)


def biased(network: Network, bias: float) -> Network:
    """The first unit's bias so many of its standard deviations from 0."""
    b1 = network.b1.copy()
    b1[0] = bias * np.linalg.norm(network.A1[0])
    return replace(network, b1=b1)


def duplicated(network: Network) -> Network:
    """The second unit is twice the first one."""
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


def cases(size: Size) -> dict[str, Callable[[], Asked]]:
    p, q = size.p, size.q

    def rows(**other: int) -> Rows:
        return drawn(size._replace(**other), 0)

    return {
        "q asked for is p": lambda: Asked(rows(), p),
        "q is p, as many inputs as units": lambda: Asked(rows(p=q + 2, q=q + 2), q + 2),
        "q one too small": lambda: Asked(rows(), q - 1),
        "q one too large": lambda: Asked(rows(), q + 1),
        "q half of the true one": lambda: Asked(rows(), q // 2),
        "q twice the true one": lambda: Asked(rows(), 2 * q),
        "q = 0": lambda: Asked(rows(), 0),
        "p one too small": lambda: Asked(rows(), q, width=p - 1),
        "p one too large": lambda: Asked(rows(), q, width=p + 1),
        "10 rows a unit": lambda: Asked(rows(n=10 * p), q),
        "3 rows a unit": lambda: Asked(rows(n=3 * p), q),
        "a unit that is never off": lambda: Asked(with_units(size, lambda net: biased(net, 8.0)), q),
        "a unit that is never on": lambda: Asked(with_units(size, lambda net: biased(net, -8.0)), q),
        "d < 2 p": lambda: Asked(rows(d=3 * p // 2), q),
        "d < p": lambda: Asked(rows(d=p - 1), q),
        "duplicated units": lambda: Asked(with_units(size, duplicated), q),
        "constant outputs": lambda: Asked(with_units(size, constant_outputs), q),
        "integers": lambda: whole_numbers(rows(), q),
        "NaN": lambda: Asked(rows(), q, X=with_nan(rows())),
        "text": lambda: Asked(rows(), q, X=[["a", "b"], ["c", "d"]]),
        "three layers: z rectified": lambda: Asked(rectified_inputs(rows()), q),
        "no network: independent values": lambda: Asked(noise_alone(rows()), q),
    }


def whole_numbers(rows: Rows, q: int) -> Asked:
    """Rounded to steps of a tenth of the root mean square."""
    return Asked(rows, q, X=np.rint(10.0 * rows.X / np.sqrt((rows.X**2).mean())).astype(int))


def rectified_inputs(rows: Rows) -> Rows:
    net, z = rows.network, np.maximum(rows.z, 0.0)
    H = net.hidden(z)
    T = H @ net.A2.T + net.b2
    return Rows(net, z, H, T, net.seen(T), rows.inlier)


def noise_alone(rows: Rows) -> Rows:
    """Normal values cut off at 0, each by itself: nothing that is found is right."""
    X = np.random.default_rng(0).standard_normal(rows.X.shape)
    H = np.abs(np.random.default_rng(1).standard_normal(rows.H.shape))
    return replace(rows, H=H, X=np.maximum(X, 0.0))


def run(_: int = 10**9, size: Size = SIZES[0]) -> list[Claim]:
    """One draw of each."""
    warm_up()
    rows, unanswered, slow = [], [], []
    slowest = 0.0
    for name, case in cases(size).items():
        asked = case()
        fit = recover(*asked, max_seconds=PATIENCE)
        slowest = max(slowest, fit.seconds)
        if not answered(fit):
            unanswered.append(name)
        if fit.seconds > SECONDS:
            slow.append(name)
        print(f"[{name}: {fit.seconds:.1f} s, {what_was_said(fit)}]", file=sys.stderr, flush=True)
        units = f"{fit.units_found} of {asked.width or asked.rows.H.shape[1]}"
        rows.append([name, units, f"{fit.right()}", f"{fit.wrong_unnamed()}", f"{fit.seconds:.1f}", what_was_said(fit)])
    show(f"{size}: what is said", ["", "units", "right", "wrong, unnamed", "s", ""], rows)
    return told(
        Claim(f"tables that are neither right nor named, of {len(rows)}", len(unanswered), 0, note=listed(unanswered)),
        Claim("  seconds, slowest", slowest, SECONDS, note=listed(slow)),
    )


def answered(fit: Recovered) -> bool:
    """Whether unrelu said something, and nobody else did, or all is right."""
    if fit.said:
        ours = {*unrelu.errors.__all__, *(kind for kinds in unrelu.errors.KINDS.values() for kind in kinds)}
        return all(name in ours for name, _ in fit.said)
    return fit.complete and fit.sine <= RIGHT


def what_was_said(fit: Recovered, most: int = 170) -> str:
    said = " | ".join(f"{name}: {words}" for name, words in dict(fit.said).items())
    return said[:most] or ("right" if answered(fit) else "NOTHING")


def listed(names: list[str]) -> str:
    return ", ".join(names)
