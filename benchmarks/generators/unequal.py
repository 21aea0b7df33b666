"""Units that are off in 10 to 90 % of the rows, evenly: how many are found; none may be wrong and unnamed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.generators.networks import SIZES, Network, Rows, Size
from benchmarks.generators.recovered import Recovered, nearest_sines, recover, warm_up
from benchmarks.generators.sizes import HEADER, figures, size_claims
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim

SEEDS, LEAST_OFF, MOST_OFF = 5, 0.1, 0.9


def run(most: int = 10**9) -> list[Claim]:
    warm_up()
    rows, claims = [], []
    for size in SIZES[:2]:
        fits = [recover(unequal(size, seed), size.q) for seed in range(min(SEEDS, most))]
        what = f"{size}, off in {LEAST_OFF:.0%} to {MOST_OFF:.0%}"
        rows.append([what, *figures(fits)])
        claims += size_claims(what, fits, seconds=None)
        share = float(np.mean([fit.right() for fit in fits])) / size.p
        claims.append(Claim("  share of units found", share, note=lost(fits)))
    show("unequal units", HEADER, rows)
    return print_claims(*claims)


def unequal(size: Size, seed: int) -> Rows:
    shares = np.linspace(LEAST_OFF, MOST_OFF, size.p)
    return Network.draw(size, seed).with_shares_off(shares).rows(size.n, seed)


def lost(fits: Sequence[Recovered]) -> str:
    """Shares of rows in which the units that were not found are off."""
    shares = []
    for seed, fit in enumerate(fits):
        if fit.parts is None or fit.complete:
            continue
        hidden, H = fit.parts.hidden, fit.truth.H[fit.parts.rows]
        gone = nearest_sines(H, hidden) > 1e-3 if hidden.shape[1] else np.ones(H.shape[1], dtype=bool)
        shares.append(f"seed {seed}: {', '.join(f'{share:.2f}' for share in (H == 0.0).mean(axis=0)[gone])}")
    return "; ".join(shares) and f"not found are units off in {'; '.join(shares)}"
