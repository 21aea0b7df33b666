"""Which rows of a table to read: comparisons of columns, joined by and, or, not.

The text is parsed as a Python expression and never run: whatever is not a comparison is refused. A column compared with
a text is compared as text, with a number as a number. A cell that is missing meets no comparison, and no opposite of
one, as in SQL (Kleene's logic).
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import cached_property, reduce
from typing import Any

from unrelu.errors import InvalidParameterError

_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
_EXAMPLE = "site == 'A' and (dose > 3 or year in [2023, 2024]); a name with spaces stands in `backquotes`"

Column = tuple[str, bool]
"""A column's name, and whether it is compared as text."""
Answer = Callable[[Mapping[Column, Any]], Any]
"""Whether rows meet a condition, told from their cells."""


class Condition:
    """Comparisons of a row's cells.

    >>> import pyarrow as pa
    >>> condition = Condition("site == 'A' and dose > 3")
    >>> sorted(condition.columns)
    [('dose', False), ('site', True)]
    >>> cells = {("dose", False): pa.array([1.0, 4.0, None]), ("site", True): pa.array(["A", "A", "A"])}
    >>> condition.holds(cells).to_pylist()
    [False, True, None]
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.columns, self._answer = self._read(self._tree)

    def __reduce__(self) -> tuple[Any, ...]:
        return Condition, (self.text,)

    def holds(self, cells: Mapping[Column, Any]) -> Any:
        """Whether rows meet the condition, as an Arrow array; null where that is not known. ``cells``: Arrow arrays."""
        return self._answer(cells)

    @cached_property
    def _quoted(self) -> dict[str, str]:
        """What stands in backquotes, by a name that Python can parse."""
        return {f"__{k}__": name for k, name in enumerate(dict.fromkeys(re.findall(r"`([^`]+)`", self.text)))}

    @cached_property
    def _tree(self) -> ast.expr:
        text = self.text
        for name, quoted in self._quoted.items():
            text = text.replace(f"`{quoted}`", name)
        try:
            return ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self._refusal("cannot be read") from error

    def _refusal(self, why: str) -> InvalidParameterError:
        return InvalidParameterError(f"where={self.text!r} {why}. Write comparisons such as {_EXAMPLE}.")

    def _read(self, node: ast.expr) -> tuple[frozenset[Column], Answer]:
        """The columns of an expression, and what it says of their cells."""
        from pyarrow import compute

        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            columns, inner = self._read(node.operand)
            return columns, lambda cells: compute.invert(inner(cells))
        if isinstance(node, ast.BoolOp):
            parts = [self._read(each) for each in node.values]
            join = compute.and_kleene if isinstance(node.op, ast.And) else compute.or_kleene
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            parts = [self._compared(*pair) for pair in zip(sides, node.ops, sides[1:], strict=False)]
            join = compute.and_kleene
        else:
            raise self._refusal("holds what is no comparison")
        columns = frozenset().union(*(columns for columns, _ in parts))
        return columns, lambda cells: reduce(join, [answer(cells) for _, answer in parts])

    def _compared(self, left: ast.expr, by: ast.cmpop, right: ast.expr) -> tuple[frozenset[Column], Answer]:
        """The columns of one comparison, and what it says."""
        import pyarrow as pa
        from pyarrow import compute

        several = isinstance(by, ast.In | ast.NotIn)
        if not (several or type(by) in _COMPARED):
            raise self._refusal("holds what is no comparison")
        names = [self._name(side) for side in (left, right)]
        constants = [self._constant(side, several) for side, name in zip((left, right), names, strict=True) if not name]
        if not any(names) or (several and (names[0] is None or names[1] is not None)):
            raise self._refusal("compares no column")
        flat = [item for each in constants for item in (each if isinstance(each, list) else [each])]
        as_text = {isinstance(item, str) for item in flat}
        if len(as_text) > 1:
            raise self._refusal("compares a column with text and numbers at once")
        text = as_text == {True}

        def answer(cells: Mapping[Column, Any]) -> Any:
            sides = [cells[name, text] if name else constants[0] for name in names]
            if not several:
                return getattr(compute, _COMPARED[type(by)])(*sides)
            inside = compute.is_in(sides[0], value_set=pa.array(sides[1], pa.string() if text else pa.float64()))
            inside = inside if isinstance(by, ast.In) else compute.invert(inside)
            return compute.if_else(compute.is_valid(sides[0]), inside, None)

        return frozenset((name, text) for name in names if name), answer

    def _name(self, node: ast.expr) -> str | None:
        return self._quoted.get(node.id, node.id) if isinstance(node, ast.Name) else None

    def _constant(self, node: ast.expr, several: bool) -> Any:
        """A number, a text, or a list of them."""
        if several and isinstance(node, ast.List | ast.Tuple | ast.Set) and node.elts:
            return [self._constant(each, False) for each in node.elts]
        sign = 1.0
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, node = operator.neg(sign), node.operand
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and sign > 0.0 and not several:
            return node.value
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float) and not several:
            return sign * float(node.value)
        raise self._refusal("compares with what is no number, text or list of them")
