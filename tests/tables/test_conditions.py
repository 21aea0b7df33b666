"""What where= may say, and what it means; an independent Python reading of rows."""

from __future__ import annotations

import math

import pytest

from unrelu.errors import InvalidParameterError
from unrelu.tables.choose import Condition, compared_cells

SITES, DOSES, OTHERS = ["A", "B", "", "C c"], [1.0, 4.0, 5.0, math.nan], [2.0, 2.0, 5.0, 1.0]


def holds(text: str) -> list[bool | None]:
    condition = Condition(text)
    columns = {"site": SITES, "dose": DOSES, "Fe, total": OTHERS}
    cells = {(name, as_text): compared_cells(columns[name], as_text) for name, as_text in condition.columns}
    return [{0.0: False, 0.5: None, 1.0: True}[answer] for answer in condition.holds(cells).tolist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("site == 'A'", [True, False, None, False]),
        ('site != "A"', [False, True, None, True]),
        ("dose > 3", [False, True, True, None]),
        ("not dose > 3", [True, False, False, None]),
        ("dose > 3 or site == 'C c'", [False, True, True, True]),
        ("dose > 3 and site == 'C c'", [False, False, None, None]),
        ("1 <= dose < 5", [True, True, False, None]),
        ("-1 < dose", [True, True, True, None]),
        ("dose in [1, 5]", [True, False, True, None]),
        ("site not in ('A', 'B')", [False, False, None, True]),
        ("dose >= `Fe, total`", [False, True, True, None]),
        ("(site == 'A' or dose == 4) and not (`Fe, total` == 1)", [True, True, None, False]),
        ("site == 'A' and dose > 3 and True == dose", [False, False, False, False]),
    ],
)
def test_rows_that_meet_a_condition(text, expected):
    assert holds(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dose",
        "dose >",
        "dose = 3",
        "1 < 2",
        "dose + 1 > 2",
        "abs(dose) > 1",
        "__import__('os').system('true') == 0",
        "site.x == 1",
        "dose in 3",
        "dose in []",
        "dose in [1, 'a']",
        "[1] in dose",
        "dose is None",
        "dose > 1j",
        "lambda: 1",
        "(" * 500 + "dose > 1" + ")" * 500,
    ],
)
def test_what_is_no_comparison_is_refused(text):
    with pytest.raises(InvalidParameterError, match="Write comparisons such as site == 'A' and"):
        Condition(text)
