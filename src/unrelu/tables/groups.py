"""Rows with the group that each belongs to: labels as people give them, beside any table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from unrelu.contracts import Block, BoolArray, RowLabels, Samples
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.rows import RowsOf
from unrelu.tables.cells import PLAIN_MISSING
from unrelu.validation import counted, row_label, suggestion

_LONG_CELLS, _LONG_ROWS = 2**22, 2**16
_WHOLE = re.compile(r"-?\d+\.0+")


class LabelledRows(RowsOf):
    """The rows of ``samples`` with groups, or with some rows or cells left out.

    ``labels``: the group of every row. ``kept``: other rows have a weight of 0, or other cells (n x d) are missing.
    ``long``: longer blocks, so that each group's rows in one fill a matrix product.
    """

    def __init__(
        self, samples: Samples, labels: RowLabels | None = None, kept: BoolArray | None = None, long: bool = False
    ) -> None:
        super().__init__(samples)
        self._labels, self._kept, self._long = labels, kept, long
        self._beside = None if labels is None else len(labels.index)
        self._check(samples.n_rows)

    def _convert(self, block: Block) -> Block:
        rows = slice(block.first_row, block.first_row + block.n_rows)
        if self._labels is not None:
            block = replace(block, groups=RowLabels(self._labels.index[rows], self._labels.labels))
        if self._kept is None:
            return block
        kept = self._kept[rows]
        if kept.ndim == 2:
            return replace(block, values=np.where(kept, block.values, block.values.dtype.type(np.nan)))
        weights = np.ones(len(kept)) if block.weights is None else block.weights
        return replace(block, weights=np.where(kept, weights, 0.0))

    def _blocks(self) -> Iterator[Block]:
        if not self._long:
            yield from self._samples.blocks()
            return
        held: list[Block] = []
        for block in self._samples.blocks():
            if block.groups is not None:
                yield block
                continue
            held.append(block)
            rows = sum(len(each.values) for each in held)
            if rows * self.n_features >= _LONG_CELLS or rows >= _LONG_ROWS:
                yield _joined(held)
                held = []
        if held:
            yield _joined(held)

    def _other_number(self, more: str, n_rows: int) -> Exception:
        labels, rows = counted(self._beside or 0, "label"), counted(n_rows, "row")
        return InvalidParameterError(f"groups has {labels}, the table {more}{rows}: give one per row.")


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    weights = [block.weights for block in blocks if block.weights is not None]
    censoring = [block.censoring for block in blocks if block.censoring is not None]
    return replace(
        blocks[0],
        values=np.concatenate([block.values for block in blocks]),
        weights=np.concatenate(weights) if weights else None,
        censoring=np.concatenate(censoring) if censoring else None,
    )


def split_groups(table: Any, groups: Any) -> tuple[Any, RowLabels]:
    """The table without its column of labels, and the labels: ``groups`` is that column's name, or the labels."""
    if not isinstance(groups, str):
        return table, row_labels(groups)
    if not hasattr(table, "columns"):
        rows = table if isinstance(table, Samples) else Samples()  # whose error says that there are no columns
        rest, cells = rows.split_column(groups)
        return rest, row_labels(cells, groups)
    if groups not in list(table.columns):
        names = map(str, table.columns)
        raise InvalidParameterError(
            f"groups: no column {groups!r}. {suggestion(groups, names, most=8)}", parameter="groups"
        )
    return table[[name for name in table.columns if name != groups]], row_labels(table[groups], groups)


def row_labels(given: Any, name: str | None = None) -> RowLabels:
    """One label per row, as texts in order: 1, 1.0 and "1" are the same one."""
    labels = np.asarray(given)
    if labels.ndim != 1:
        raise InvalidParameterError(
            f"groups must be one label per row or a column's name, got an array of shape {labels.shape}."
        )
    if labels.dtype.kind in "mM":
        labels = np.where(np.isnat(labels), "", labels.astype(np.str_))
    if labels.dtype == object:  # these need not sort
        places: dict[Any, int] = {}
        index = np.fromiter((places.setdefault(label, len(places)) for label in labels), np.intp, len(labels))
        kinds = list(places)
    else:
        distinct, index = np.unique(labels, return_inverse=True)
        kinds = distinct.tolist()
    distinct_texts, again = np.unique(np.array([_text(kind) for kind in kinds], dtype=np.str_), return_inverse=True)
    codes, texts = again[index].astype(np.int32), tuple(distinct_texts.tolist())
    if texts and not texts[0]:
        missing = codes == 0
        where = "" if name is None else f" (column {name!r})"
        raise InvalidDataError(
            f"The group of {counted(int(missing.sum()), 'row')} is missing{where}, first in"
            f" {row_label(int(missing.argmax()))}. Give these rows a label, or leave them out.",
            rows=[int(missing.argmax())],
        )
    return RowLabels(codes, texts)


def _text(label: Any) -> str:
    """A label as text, empty where it is missing."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    equal = label == label  # NaN and NaT differ from themselves; with pandas' NA this is NA
    if label is None or not isinstance(equal, bool | np.bool_) or not equal:
        return ""
    text = str(label).strip()
    if isinstance(label, str) and text in PLAIN_MISSING:
        return ""
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text  # as some kinds of files write whole numbers
