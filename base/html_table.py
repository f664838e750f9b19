"""Tables as HTML, which notebooks show for models, graphs, kernels and profiles (`_repr_html_`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MAX_ROWS = 200
"""Rows that a notebook is given; the number of the others is stated below the table."""


def html_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[object]], note: str = ""
) -> str:
    """Return a table with a title above and a note below; every text is escaped."""
    cells = [[str(cell) for cell in row] for row in rows]
    lines = [f"<p><b>{escape(title)}</b></p>", "<table><thead>", _row("th", head), "</thead>"]
    lines += ["<tbody>", *(_row("td", row) for row in cells[:MAX_ROWS]), "</tbody></table>"]
    if len(cells) > MAX_ROWS:
        note = f"{len(cells) - MAX_ROWS} more rows. {note}".strip()
    if note:
        lines.append(f"<p>{escape(note)}</p>")
    return "\n".join(lines)


def _row(tag: str, cells: Sequence[str]) -> str:
    style = ' style="text-align:left"'
    return "<tr>" + "".join(f"<{tag}{style}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
