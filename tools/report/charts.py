"""The plots of the report as SVG: kernels under the roofs, the arena over the steps of the program, and phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ...base.dims import evaluate
from ...base.durations import shown_time
from ...base.svg import element, heat, label, picture
from ...graph_ir.ir.graph import Graph
from ...graph_ir.passes.plan_memory import MEMORY_PLAN
from ..profile import Profile

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760.0, 380.0, 70.0, 40.0, 16.0, 150.0
LETTER, LINE, MIN_LETTERS = 6.4, 14.0, 6
"""Width and height of a letter of the names of blocks, and the shortest name that is shown."""

Scale = Callable[[float], float]


def roofline_chart(profile: Profile) -> str:
    """Kernels as points, FLOP per byte against GFLOP/s, both logarithmic, under the roofs of compute and memory."""
    roofs, peaks = profile.roofline, profile.peaks()
    highest = max(peaks.values())
    points = [
        (k, max(k.gflop * 1e9 / k.nbytes, 1e-3) if k.nbytes else 1e-3, max(k.gflop / k.seconds, 1e-3))
        for k in profile.kernels
        if k.seconds > 0
    ]  # fmt: skip
    balances = [highest / x.gbytes_per_second for x in roofs.levels]
    x_of, x_ticks = _log_scale(
        [*balances, *(x for _, x, _ in points), 0.1, 100], LEFT, WIDTH - RIGHT
    )
    y_of, y_ticks = _log_scale(
        [highest * 2, roofs.gflops / 100, *(y for *_, y in points)], HEIGHT - BOTTOM, TOP
    )
    fastest = max(x.gbytes_per_second for x in roofs.levels)
    lines: list[str] = []
    for number, (name, peak) in enumerate(peaks.items()):
        line = _line(x_of(peak / fastest), y_of(peak), WIDTH - RIGHT, y_of(peak), "roof")
        lines += [line, *_key(number, f"{name} {peak:.0f} GFLOP/s")]
    for number, (level, balance) in enumerate(zip(roofs.levels, balances, strict=True), 1):
        bottom = max(x_ticks[0], y_ticks[0] / level.gbytes_per_second)
        rate, kind = level.gbytes_per_second, f"roof roof{number}"
        lines += [
            _line(x_of(bottom), y_of(bottom * rate), x_of(balance), y_of(highest), kind),
            *_key(len(peaks) + number - 1, f"{level.name} {rate:.0f} GB/s", kind),
        ]
    longest = max((k.seconds for k, _, _ in points), default=1.0)
    dots = [
        element(
            "circle",
            element("title", text=f"{k.node}: {y:.1f} GFLOP/s, {x:.2f} FLOP/byte, {100 * k.of_roof:.0f} % of {k.roof}"),
            cx=x_of(x), cy=y_of(y), r=4 + 6 * math.sqrt(k.seconds / longest),
            **heat(k.seconds / longest), class_="node", data_node=k.node, tabindex=0,
        )
        for k, x, y in points
    ]  # fmt: skip
    axes = _axes(x_of, x_ticks, y_of, y_ticks, "FLOP / byte", "GFLOP/s")
    return picture(WIDTH, HEIGHT, *axes, *lines, *dots, class_="chart roofline")


def memory_chart(graph: Graph, sizes: Mapping[str, int] = MappingProxyType({})) -> str:
    """The arena: a block per tensor from the step that writes it to the last that reads it; live bytes as a line.

    `sizes`: values of dynamic dimensions, by name.
    """
    plan = MEMORY_PLAN.of(graph)
    bytes_of = {life: evaluate(life.size, sizes) for life in plan.lives}
    runs = [op.kind not in ("source", "sink") for op in graph.ops]
    before = [sum(runs[:i]) for i in range(len(runs) + 1)]  # steps that run before an op
    spans = {life: (before[life.begin], before[life.end + 1]) for life in plan.lives}
    steps, top = before[-1], max(evaluate(plan.arena_bytes, sizes), 1)
    x_of = _linear_scale(0, max(steps, 1), LEFT, WIDTH - RIGHT)
    y_of = _linear_scale(0, top, HEIGHT - BOTTOM, TOP)
    biggest = max(bytes_of.values(), default=1)
    blocks = []
    for life, (begin, end) in spans.items():
        offset, size = evaluate(plan.offset(life), sizes), bytes_of[life]
        names = ", ".join(x.name for x in life.tensors) or life.name
        box = element(
            "rect",
            element("title", text=f"{names}: arena[{offset}:{offset + size}]"),
            x=x_of(begin), y=y_of(offset + size), width=x_of(end) - x_of(begin),
            height=y_of(offset) - y_of(offset + size), **heat(0.5 * size / biggest),
            class_="node block", data_node=life.owner.name, tabindex=0,
        )  # fmt: skip
        blocks.append(box)
        room = int((x_of(end) - x_of(begin) - 8) / LETTER)
        if room >= MIN_LETTERS and y_of(offset) - y_of(offset + size) > LINE:
            text = names if len(names) <= room else f"{names[: room - 3]}..."
            kind = "layout block-name"
            blocks.append(label(text, x_of(begin) + 4, y_of(offset) - 4, class_=kind))
    live = [
        sum(bytes_of[x] for x, (begin, end) in spans.items() if begin <= i < end)
        for i in range(steps)
    ]
    path = "".join(
        f"{'L' if i else 'M'}{x_of(i):.1f} {y_of(n):.1f}H{x_of(i + 1):.1f}"
        for i, n in enumerate(live)
    )
    y_ticks = [top * part / 4 for part in range(5)]
    texts = [
        label(_bytes(tick), LEFT - 6, y_of(tick) + 4, text_anchor="end") for tick in y_ticks
    ]  # fmt: skip
    frame = [_line(LEFT, y_of(t), WIDTH - RIGHT, y_of(t), "grid") for t in y_ticks]
    axis = label(
        "steps of the program", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, text_anchor="middle"
    )
    line = element("path", d=path or "M0 0", class_="live")
    return picture(WIDTH, HEIGHT, *frame, *blocks, line, *texts, axis, class_="chart memory")


def phase_chart(phases: Sequence[tuple[str, float]]) -> str:
    """The phases of the compilation as bars of (name, seconds)."""
    total = max(sum(seconds for _, seconds in phases), 1e-9)
    rows = []
    for number, (name, seconds) in enumerate(phases):
        y = 24.0 * number
        rows += [
            label(name, LEFT - 6, y + 16, text_anchor="end"),
            element("rect", x=LEFT, y=y + 3, height=18, **heat(seconds / total),
                    width=max((WIDTH - LEFT - RIGHT) * seconds / total, 1.0)),
            label(shown_time(seconds),
                  LEFT + (WIDTH - LEFT - RIGHT) * seconds / total + 6, y + 16),
        ]  # fmt: skip
    return picture(WIDTH, 24.0 * len(phases) + 4, *rows, class_="chart phases")


def _log_scale(values: Sequence[float], begin: float, end: float) -> tuple[Scale, list[float]]:
    """(value -> pixel, ticks at powers of ten)."""
    low = math.floor(math.log10(min(values)))
    high = max(math.ceil(math.log10(max(values))), low + 1)
    pixels = _linear_scale(low, high, begin, end)
    return lambda value: pixels(math.log10(value)), [10.0**e for e in range(low, high + 1)]


def _linear_scale(low: float, high: float, begin: float, end: float) -> Scale:
    return lambda value: begin + (value - low) / (high - low) * (end - begin)


def _axes(
    x_of: Scale, x_ticks: Sequence[float], y_of: Scale, y_ticks: Sequence[float], x_name: str, y_name: str
) -> list[str]:  # fmt: skip
    parts = []
    for tick in x_ticks:
        parts += [
            _line(x_of(tick), TOP, x_of(tick), HEIGHT - BOTTOM, "grid"),
            label(f"{tick:g}", x_of(tick), HEIGHT - BOTTOM + 19, text_anchor="middle"),
        ]
    for tick in y_ticks:
        parts += [
            _line(LEFT, y_of(tick), WIDTH - RIGHT, y_of(tick), "grid"),
            label(f"{tick:g}", LEFT - 6, y_of(tick) + 4, text_anchor="end"),
        ]
    parts.append(label(x_name, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, text_anchor="middle"))
    parts.append(label(y_name, LEFT + 6, TOP + 12))
    return parts


def _key(row: int, text: str, kind: str = "roof") -> list[str]:
    """A sample of the line of a roof and its name, to the right of the plot, one below the other."""
    x, y = WIDTH - RIGHT + 12, TOP + 18.0 * row + 12
    return [_line(x, y - 4, x + 26, y - 4, kind), label(text, x + 32, y)]


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"
