"""A real cluster of processes on this machine."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="package")
def client():
    """Two workers with one thread each; no client is active until a test says so."""
    dask = pytest.importorskip("dask", reason='the cluster tests need Dask: pip install "unrelu[dask]"')
    distributed = pytest.importorskip("distributed", reason='the cluster tests need Dask: pip install "unrelu[dask]"')
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 3}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as found,
    ):
        yield found
