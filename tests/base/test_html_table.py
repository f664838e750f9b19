"""Tables for notebooks: every text is escaped, and long tables are cut."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from graphc.base.html_table import MAX_ROWS, html_table


@pytest.mark.parametrize("count", [0, 1, MAX_ROWS, MAX_ROWS + 3])
def test_rows(count: int) -> None:
    html = html_table("a <b>", ("x&y", "n"), [("<&>", n) for n in range(count)], "note")
    root = ElementTree.fromstring(f"<div>{html}</div>")
    cells = [cell.text for cell in root.iter("td")]
    shown = min(count, MAX_ROWS)
    assert cells == [text for n in range(shown) for text in ("<&>", str(n))]
    assert [cell.text for cell in root.iter("th")] == ["x&y", "n"]
    notes = [p.text for p in root.findall("p")]
    assert notes == [None, "3 more rows. note" if count > MAX_ROWS else "note"]
    assert root.find("p/b").text == "a <b>"
