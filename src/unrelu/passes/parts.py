"""Parts of a table that another process reads: what an engine hands to its workers.

Samples that can be read so have ``parts(ask)``: their parts in order, each with its number of rows, or None where only
this process can read them. ``ask(function, items)`` is how they may have workers find out what they need for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from unrelu.contracts import Block, Samples
from unrelu.tables.groups import OfSamples

Ask = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


@dataclass(frozen=True, eq=False)
class Part:
    """Some neighbouring rows. ``read(*needs)``, which can be pickled, gives their blocks, counted from 0.

    ``needs`` are arrays, or what the engine computes before.
    """

    read: Callable[..., Iterable[Block]]
    n_rows: int
    needs: tuple[Any, ...] = ()


@runtime_checkable
class Parted(Protocol):
    """Samples that others may read."""

    def parts(self, ask: Ask) -> list[Part] | None: ...


@dataclass(frozen=True, eq=False)
class PartRows:
    """Blocks as rows of the table that they are part of, from ``first_row`` on; ``n_rows`` is the table's."""

    n_features: int
    n_rows: int | None
    feature_names: tuple[str, ...] | None
    limits_by_cell: tuple[int, ...] = ()
    first_row: int = 0
    held: Iterable[Block] = ()

    @classmethod
    def none_of(cls, samples: Samples, n_rows: int | None) -> PartRows:
        """No row yet, but what is known of all."""
        own = getattr(samples, "limits_by_cell", ())
        return cls(samples.n_features, n_rows, samples.feature_names, own)

    def blocks(self) -> Iterator[Block]:
        for block in self.held:
            yield replace(block, first_row=self.first_row + block.first_row)


def source_of(samples: Samples) -> Samples:
    """The rows where they live."""
    return samples.source if isinstance(samples, OfSamples) else samples


def told_over(samples: Samples, source: Samples) -> Samples:
    """``source`` told as ``samples`` tells its own source."""
    return samples.over(source) if isinstance(samples, OfSamples) else source
