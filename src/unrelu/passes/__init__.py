"""Engines run one pass: they ask a question of every block and merge the answers in block order."""

from __future__ import annotations

from unrelu.contracts import Engine, Samples, Watch, unwatched
from unrelu.passes.local import LocalEngine


def engine_for(samples: Samples, watch: Watch = unwatched, stage: str = "Reading rows") -> Engine:
    """Who asks these rows: this process, unless they say where they are read (``engine``).

    >>> from unrelu.tables import ArraySamples
    >>> type(engine_for(ArraySamples([[1.0]]))).__name__
    'LocalEngine'
    """
    chosen = samples.source.engine
    return LocalEngine(watch, stage) if chosen is None else chosen(watch, stage)
