"""Every figure that the project claims, measured: ``make bench`` prints them as one table.

    accuracy.py      error of correlations over that of the exact pairwise likelihood (which lives in tests/references)
    calibration.py   squared z-scores and coverage of standard errors and intervals
    speed.py         against np.cov on the same array; growth with the rows; the pair solver on one core
    memory.py        peak memory beside the array
    startup.py       import, --help, first fit of a fresh install, later processes
    methods.py       the papers' learners against the authors' figures; ``python -m benchmarks.methods`` compares all
    planner.py       does the planned number of rows reach the planned error?
    robust.py        the robust learner on many kinds of outliers, some; ``python -m benchmarks.robust`` runs all
    robust_limits.py many columns with few rows, single cells replaced
    studies.py       parts shared by benchmarks of several studies
    latent.py        latent vectors against rivals, oracle and Theorem 4; needs ``pip install "unrelu[benchmark]"``
    layers.py        two layers and more: exactness, noise, outlier rows, peeling; ``python -m benchmarks.layers noise``
    generators/      networks that widen: exactness, seconds, rivals, refusals; ``python -m benchmarks.generators``
    defaults/        the call without options on twelve kinds of table; ``python -m benchmarks.defaults``
    report.py        the report page: megabytes, seconds to make, seconds until Chromium has drawn it
    pictures.py      the pictures of docs/benchmarks.md, from the figures in docs/benchmarks

Run some of them with ``python -m benchmarks accuracy speed``; ``--csv`` writes their figures to docs/benchmarks.
Further subjects are packages of that name: cells, graphs, margins, posterior, real, scale.
"""
