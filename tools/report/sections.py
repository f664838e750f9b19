"""The parts of the report that are text: the headline, the table of kernels, the table of passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...base.durations import shown_time
from ..profile import KernelTime, Profile
from ..profile_summary import TypeTime, by_type, headline, type_of, unattributed
from .svg import escaped

Cell = tuple[str, float | None]
"""Text, and the number that the column is sorted by if it is not text."""

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
        f"{_type_chart(by_type(profile), profile)}"
    )


def _type_chart(types: Sequence[TypeTime], profile: Profile) -> str:
    """A bar whose parts are the types of ops, and a row for each with its figures."""
    total = max(profile.seconds, 1e-12)
    parts = "".join(
        f'<i class="part{number % 8}" style="flex-grow:{1000 * x.seconds / total:.2f}" '
        f'title="{escaped(f"{x.type}: {shown_time(x.seconds)}")}"></i>'
        for number, x in enumerate(types)
    )
    rows = [
        [
            (f'<i class="swatch part{number % 8}"></i>{escaped(x.type)}', None),
            (shown_time(x.seconds), x.seconds),
            (f"{100 * x.seconds / total:.1f} %", x.seconds),
            (str(x.kernels), float(x.kernels)),
            (f"{100 * x.of_roof:.0f} %", x.of_roof),
            (f"{x.gflop / max(x.seconds, 1e-12):.1f}", 0.0),
            (f"{x.nbytes / 1e9 / max(x.seconds, 1e-12):.1f}", 0.0),
        ]
        for number, x in enumerate(types)
    ]
    others = {"outside kernels": profile.outside, "unattributed: runs vary": unattributed(profile)}
    for name, seconds in others.items():
        if seconds > 0:
            parts += f'<i class="others" style="flex-grow:{1000 * seconds / total:.2f}"></i>'
            share = f"{100 * seconds / total:.1f} %"
            swatch, empty = f'<i class="swatch others"></i>{name}', [("", 0.0)] * 4
            rows.append([(swatch, None), (shown_time(seconds), seconds), (share, seconds), *empty])
    heads = ("op type", "time", "share", "kernels", "of roof", "GFLOP/s", "GB/s")
    return (
        f'<section id="types"><div class="bar">{parts}</div><table><thead><tr>{_heads(heads)}</tr></thead>'
        f"<tbody>{''.join(f'<tr>{_cells(row)}</tr>' for row in rows)}</tbody></table></section>"
    )


COLUMNS = ("node", "type", "time", "share", "of roof", "roof", "GFLOP/s", "GB/s", "busy")


def kernel_table(profile: Profile) -> str:
    """Return the table of kernels, the longest first; a click on a heading sorts it by that column."""
    busy = profile.busy()
    kernels = sorted(profile.kernels, key=lambda kernel: -kernel.seconds)
    rows = "".join(_kernel_row(k, profile.seconds, busy.get(k.node, 0.0)) for k in kernels)
    heads = _heads(COLUMNS, sortable=True)
    return (
        f'<div class="scroll"><table id="table"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _kernel_row(kernel: KernelTime, total: float, busy: float) -> str:
    seconds = max(kernel.seconds, 1e-12)
    gflops, gbytes = kernel.gflop / seconds, kernel.nbytes / 1e9 / seconds
    share = kernel.seconds / max(total, 1e-12)
    node = escaped(kernel.node)
    cells: list[Cell] = [
        (f'<span title="{node}">{node}</span>', None),
        (escaped(type_of(kernel.ops)), None),
        (shown_time(kernel.seconds), kernel.seconds),
        (f"{100 * share:.1f} %", share),
        (f"{100 * kernel.of_roof:.0f} %", kernel.of_roof),
        (escaped(kernel.roof), None),
        (f"{gflops:.1f}", gflops),
        (f"{gbytes:.1f}", gbytes),
        (f"{100 * busy:.0f} %", busy),
    ]
    return f'<tr class="node" data-node="{node}" tabindex="0">{_cells(cells)}</tr>'


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
