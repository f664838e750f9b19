"""A sweep over two settings as a picture: shades in a terminal, an SVG, or an HTML page that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..base.durations import shown_time
from ..base.errors import UserError
from ..base.records import dataclass
from ..base.svg import element, label, picture
from ..graph_ir.ir.schedule import Parameter
from .grid import Point

SHADES = " ░▒▓█"
REFUSED = "·"
CELL_WIDTH, CELL_HEIGHT, MARGIN = 84, 34, 90


@dataclass(frozen=True)
class HeatMap:
    """Cells [row][column]: the best point with these values of two settings, None where all were refused."""

    title: str
    row: str
    column: str
    rows: Sequence[Parameter]
    columns: Sequence[Parameter]
    cells: Sequence[Sequence[Point | None]]

    @property
    def best(self) -> float:
        """Return the shortest time of all cells."""
        return min(point.seconds for line in self.cells for point in line if point)

    def share(self, point: Point) -> float:
        """Return the speed of a cell relative to the best, 0 to 1."""
        return self.best / point.seconds

    def _repr_html_(self) -> str:
        """Return the map, for notebooks."""
        return svg(self)


def heat_map(title: str, points: Sequence[Point]) -> HeatMap:
    """Return the map of a sweep over one setting or more: the last two that vary. Raise UserError if none ran."""
    if all(point.refused for point in points):
        raise UserError(
            f"every point of the sweep was refused, the first as {points[0].refused}; choose other values"
        )
    names = [*points[0].settings]
    varying = [name for name in names if len({point.settings[name] for point in points}) > 1]
    row, column = (["", "", *(varying or names[:1])])[-2:]
    rows, columns = (_values(points, name) for name in (row, column))
    cells = [[_best(points, {row: y, column: x}) for x in columns] for y in rows]
    return HeatMap(title, row, column, rows, columns, cells)


def _values(points: Sequence[Point], name: str) -> list[Parameter]:
    return list(dict.fromkeys(point.settings[name] for point in points)) if name else [""]


def _best(points: Sequence[Point], wanted: dict[str, Parameter]) -> Point | None:
    wanted.pop("", None)
    here = [
        point for point in points if not point.refused and wanted.items() <= point.settings.items()
    ]
    return min(here, key=lambda point: point.seconds, default=None)


def text_lines(found: HeatMap) -> list[str]:
    """Return lines of shades: full for the best time, empty below a fifth of its speed, a dot where it was refused."""
    wide = max(len(str(value)) for value in found.columns) + 2
    label = max(len(f"{found.row}={value}") for value in found.rows) if found.row else 0
    head = " " * label + "".join(str(value).rjust(wide) for value in found.columns)
    lines = [f"{found.column}".rjust(label) + head[label:]]
    for value, cells in zip(found.rows, found.cells, strict=True):
        name = f"{found.row}={value}" if found.row else ""
        shades = (_shade(found, point) * (wide - 1) for point in cells)
        lines.append(name.ljust(label) + "".join(f" {shade}" for shade in shades))
    return lines


def _shade(found: HeatMap, point: Point | None) -> str:
    if point is None:
        return REFUSED
    return SHADES[round(found.share(point) * (len(SHADES) - 1))]


def svg(found: HeatMap) -> str:
    """Return the map as SVG: time in each cell, the prediction of the cost model and the schedule in its tooltip."""
    width = MARGIN + CELL_WIDTH * len(found.columns) + 10
    height = MARGIN + CELL_HEIGHT * len(found.rows)
    middle = {"text_anchor": "middle"}
    lines = [
        label(found.title, width / 2, 20, font_weight="bold", **middle),
        label(found.column, width / 2, 45, **middle),
    ]
    for number, value in enumerate(found.columns):
        lines.append(label(str(value), _x(number) + CELL_WIDTH / 2, 70, **middle))
    for number, (value, cells) in enumerate(zip(found.rows, found.cells, strict=True)):
        y = MARGIN - 10 + CELL_HEIGHT * number
        if found.row:
            lines.append(label(f"{found.row}={value}", MARGIN - 8, y + 21, text_anchor="end"))
        lines += [_cell(found, point, _x(column), y) for column, point in enumerate(cells)]
    return picture(width, height, *lines, font_family="sans-serif", font_size=12)


def _x(column: int) -> int:
    return MARGIN + CELL_WIDTH * column


def _cell(found: HeatMap, point: Point | None, x: int, y: int) -> str:
    share = found.share(point) if point else 0.0
    color = f"hsl(210 70% {96 - 56 * share:.0f}%)" if point else "#eeeeee"
    ink = "#ffffff" if share > 0.6 else "#222222"
    text = shown_time(point.seconds) if point else "refused"
    tip = "" if point is None else f"{point.schedule}\npredicted {point.predicted or 0:.0f} cycles"
    box = element("rect", x=x, y=y, width=CELL_WIDTH - 2, height=CELL_HEIGHT - 2, fill=color)
    inside = label(text, x + CELL_WIDTH / 2 - 1, y + 21, fill=ink, text_anchor="middle")
    return element("g", element("title", escape(tip)), box, inside)


def html(found: HeatMap) -> str:
    """Return a page with the map."""
    return (
        f'<!doctype html><meta charset="utf-8"><title>{escape(found.title)}</title>\n{svg(found)}\n'
    )
