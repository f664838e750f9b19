"""A bar chart of a record as SVG: how many times faster than a baseline each engine runs each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.svg import element, label, picture
from .records import Record

UNIT = ", ms"
COLORS = ("#d9480f", "#868e96", "#4c6ef5", "#20a4a0")
"""Colors of the bars in a group: graphc first, then the other engines."""

_ROW, _BAR, _GAP = 15, 11, 10
_LEFT, _RIGHT, _TOP, _WIDTH = 150, 60, 64, 860
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #343a40 }
.title { font-size: 15px; font-weight: 600 }
.value { font-size: 11px }
.axis { stroke: #adb5bd; stroke-width: 1 }
@media (prefers-color-scheme: dark) { text { fill: #dee2e6 } }"""


def bar_chart(record: Record, title: str, baseline: str, labels: Mapping[str, str]) -> str:
    """SVG of a record's times relative to the column `baseline`; `labels` names the columns in the legend."""
    engines = [column.name for column in record.columns if column.name.endswith(UNIT)]
    engines.remove(baseline)
    engines.sort(key=lambda name: name != f"graphc{UNIT}")
    speeds = {name: _speeds(record, name, baseline) for name in engines}
    most = max(speed for column in speeds.values() for speed in column if speed)
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    names = [str(row[0]) for row in record.rows]
    height = _TOP + len(names) * (len(engines) * _ROW + _GAP) + 24
    lines = [
        element("title", text=title),
        f"<style>\n{_STYLE}\n</style>",
        label(title, 8, 20, class_="title"),
        *_legend([labels.get(name, name.removesuffix(UNIT)) for name in engines]),
    ]
    for index, name in enumerate(names):
        top = _TOP + index * (len(engines) * _ROW + _GAP)
        lines.append(label(name, _LEFT - 8, top + len(engines) * _ROW / 2 + 4, text_anchor="end"))
        lines += _bars(top, [speeds[engine][index] for engine in engines], scale)
    versions = ", ".join(f"{package} {version}" for package, version in record.versions.items())
    note = f"{record.cpu}; {record.date}; {versions}"
    axis = element("line", class_="axis", x1=_LEFT, y1=_TOP - 4, x2=_LEFT, y2=height - 24)
    lines += [axis, label(note, 8, height - 8, class_="value")]
    return picture(_WIDTH, height, "\n", "\n".join(lines), "\n", role="img") + "\n"


def _speeds(record: Record, engine: str, baseline: str) -> list[float | None]:
    pairs = zip(record.column(engine), record.column(baseline), strict=True)
    return [float(base) / float(own) if own and base else None for own, base in pairs]


def _legend(labels: Sequence[str]) -> list[str]:
    lines, x = [], 8.0
    for text, color in zip(labels, COLORS, strict=False):
        box = element("rect", x=x, y=32, width=12, height=12, fill=color)
        lines += [box, label(text, x + 18, 43)]
        x += 36 + 7.5 * len(text)
    return lines


def _bars(top: float, speeds: Sequence[float | None], scale: float) -> list[str]:
    lines = []
    for number, (speed, color) in enumerate(zip(speeds, COLORS, strict=False)):
        if speed is not None:
            y, width = top + number * _ROW, speed * scale
            lines += [
                element("rect", x=_LEFT, y=y, width=width, height=_BAR, fill=color),
                label(f"{speed:.1f}x", _LEFT + width + 5, y + 10, class_="value"),
            ]
    return lines
