"""Networks that widen: a whole generator from its samples, beside rivals; noise, outlier rows and refusals.

sizes.py      120 <- 30 <- 6 and larger: units, weights, inputs, seconds; the number of inputs given or not
unequal.py    units that are off in 10 to 90 % of the rows
linear.py     outputs without a rectifier
samples.py    samples of the recovered generator against fresh rows, by a two-sample test
rivals.py     successive projection, non-negative factors and an autoencoder: fresh rows rebuilt, and weights
noise.py      noise, outlier rows and single precision
refusals.py   tables that cannot be recovered: errors and warnings, and seconds until then
networks.py   networks to recover, and their rows
recovered.py  a recovered network, and its distance from the truth

    python -m benchmarks.generators [STUDY ...] [--seeds N]

Sines are those of the worst column of A2 after matching; errors of z are relative, after the best affine map. Seconds
are those of two threads of linear algebra.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies import run_modules
from benchmarks.table import Claim

STUDIES = ("sizes", "unequal", "linear", "samples", "rivals", "noise", "refusals")


def run(chosen: Sequence[str] = (), most: int = 10**9) -> list[Claim]:
    return run_modules("generators", STUDIES, chosen, most)
