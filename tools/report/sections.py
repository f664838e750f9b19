"""The parts of the report that are text: the headline, the table of kernels, the table of passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...base.durations import shown_time
from ...base.svg import escaped
from ..profile import Profile
from ..profile_summary import Cell, headline, kernel_cells, type_cells

MAX_NAMES = 3
"""Ops that a row of the table of passes names; a click shows all."""


def summary(profile: Profile) -> str:
    """Return the headline and the time by type of op."""
    whole, roofs = headline(profile), profile.roofline
    peaks = " / ".join(f"{gflops:.0f}" for gflops in profile.peaks().values())
    cards = (
        (shown_time(whole.seconds), "a run"),
        (f"{100 * whole.of_roof:.0f} %", "of the roof"),
        (f"{whole.gflops:.1f}", f"GFLOP/s of {peaks}"),
        (f"{whole.gbytes_per_second:.1f}", "GB/s"),
        (str(len(profile.kernels)), "kernels"),
    )
    threads = "1 thread" if profile.threads == 1 else f"{profile.threads} threads"
    conditions = (
        f"{roofs.cpu}, {roofs.isa}, {threads}",
        f"median of {profile.runs} runs",
        f"timestamps cost {100 * profile.overhead:.2f} %",
        *(f"{name} = {number}" for name, number in profile.sizes.items()),
    )
    shown = "".join(
        f'<div class="card"><strong>{escaped(value)}</strong><span>{escaped(text)}</span></div>'
        for value, text in cards
    )
    return (
        f'<div class="cards">{shown}</div><p class="soft">{escaped("; ".join(conditions))}</p>'
        f"{_type_chart(profile)}"
    )


def _type_chart(profile: Profile) -> str:
    """A bar whose parts are the types of ops, and a row for each with its figures."""
    heads = ("op type", "time", "share", "kernels", "of roof", "GFLOP/s", "GB/s")
    total = max(profile.seconds, 1e-12)
    parts, rows = "", []
    for number, row in enumerate(type_cells(profile)):
        name, seconds = escaped(row["op type"][0]), row["time"][1] or 0.0
        kind = f"part{number % 8}" if "kernels" in row else "others"
        grow, title = f"flex-grow:{1000 * seconds / total:.2f}", f"{name}: {row['time'][0]}"
        if seconds or "kernels" in row:
            parts += f'<i class="{kind}" style="{grow}" title="{title}"></i>'
            swatch: Cell = f'<i class="swatch {kind}"></i>{name}', None
            rows.append([swatch, *(row.get(head, ("", 0.0)) for head in heads[1:])])
    return (
        f'<section id="types"><div class="bar">{parts}</div><table><thead><tr>{_heads(heads)}</tr></thead>'
        f"<tbody>{''.join(f'<tr>{_cells(row)}</tr>' for row in rows)}</tbody></table></section>"
    )


COLUMNS = ("node", "type", "time", "share", "of roof", "roof", "GFLOP/s", "GB/s", "busy")


def kernel_table(profile: Profile) -> str:
    """Return the table of kernels, the longest first; a click on a heading sorts it by that column."""
    rows = "".join(map(_kernel_row, kernel_cells(profile)))
    heads = _heads(COLUMNS, sortable=True)
    return (
        f'<div class="scroll"><table id="table"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _kernel_row(row: Mapping[str, Cell]) -> str:
    node = escaped(row["node"][0])
    cells = [(escaped(text), number) for text, number in (row[name] for name in COLUMNS[1:])]
    named: Cell = f'<span title="{node}">{node}</span>', None
    return f'<tr class="node" data-node="{node}" tabindex="0">{_cells([named, *cells])}</tr>'


def _heads(names: Iterable[str], sortable: bool = False) -> str:
    focus = ' tabindex="0"' if sortable else ""
    return "".join(f"<th{focus}>{escaped(name)}</th>" for name in names)


def _cells(cells: Iterable[Cell]) -> str:
    """Cells of HTML; those with a number are aligned to the right, and sorted by it."""
    return "".join(
        f"<td>{text}</td>"
        if number is None
        else f'<td class="number" data-value="{number:.6g}">{text}</td>'
        for text, number in cells
    )


def pass_table(passes: Sequence[dict[str, Any]]) -> str:
    """Return the passes that changed the graph, and the names of the others."""
    changed = [(i, stage) for i, stage in enumerate(passes) if stage["text"]]
    idle = [f"{x['number']} {x['pass']}" for x in passes if not x["text"]]
    rows = "".join(_pass_row(i, stage) for i, stage in changed)
    heads = _heads(("pass", "before", "after", "graph", "removed", "added"))
    others = (
        f"<details><summary>{len(idle)} passes changed nothing</summary>{escaped(', '.join(idle))}</details>"
        if idle
        else ""
    )
    return (
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{others}"
        '<pre id="pass-text" hidden></pre>'
    )


def _pass_row(number: int, stage: dict[str, Any]) -> str:
    cells = [
        f"<td>{stage['number']} {escaped(stage['pass'])}</td>",
        f'<td class="number">{stage["before"]}</td><td class="number">{stage["after"]}</td>',
        f'<td><button data-pass="{number}">show</button></td>',
        *(f"<td>{''.join(_names(stage[key]))}</td>" for key in ("removed", "added")),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _names(names: Sequence[str]) -> Iterator[str]:
    """A few names, and all of them behind a click."""
    if len(names) <= MAX_NAMES:
        yield escaped(", ".join(names))
        return
    yield f"<details><summary>{escaped(', '.join(names[:MAX_NAMES]))}, ... ({len(names)})</summary>"
    yield f"{escaped(', '.join(names[MAX_NAMES:]))}</details>"
