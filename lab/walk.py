"""An optimization in steps: one problem under one schedule after another, as bars beside the roof of the machine."""

from __future__ import annotations

from ..base.durations import shown_time
from ..base.html_table import html_table
from ..base.records import dataclass
from ..base.svg import element, label, picture
from .problem import Problem
from .trial import OURS, Bench, How, measure

_WIDTH, _BAR, _ROW, _LEFT, _RIGHT = 720, 16, 24, 250, 60
_TEXT = "font-family:sans-serif;font-size:12px;fill:currentColor"
_NEW, _OLD, _ROOF = "#d9480f", "#868e96", "#4c6ef5"


@dataclass(frozen=True)
class Step:
    """One step: its name, seconds, and the share of the roof that binds."""

    name: str
    seconds: float
    of_roof: float


class Walk:
    """The steps of one problem so far; a notebook shows them as a chart and a table."""

    def __init__(self, problem: Problem, bench: Bench) -> None:
        self.problem, self._bench = problem, bench
        self.steps: list[Step] = []

    def step(self, name: str, how: How = None) -> Walk:
        """Measure the problem under a schedule or a kernel, None for that of the compiler; add it, and return the walk.

        Raises:
            UserError: The schedule cannot run, or a result is wrong.
        """
        (row, *_) = measure(self.problem, self._bench, how).rows
        self.steps.append(Step(name, row.timings[OURS].median, row.of_roof))
        return self

    def _repr_html_(self) -> str:
        first = self.steps[0].seconds if self.steps else 0.0
        cells = [
            (one.name, shown_time(one.seconds), f"{first / one.seconds:.1f}x", f"{one.of_roof:.1%}")
            for one in self.steps
        ]
        table = html_table(
            self.problem.text, ("step", "time", "to the first", "of the roof"), cells
        )
        return f"{self.svg()}{table}"

    def svg(self) -> str:
        """Return a bar for each step, the last one in another color, and the roof as a line."""
        height = _ROW * len(self.steps) + 28
        scale = _WIDTH - _LEFT - _RIGHT
        lines = []
        for number, one in enumerate(self.steps):
            top, width = number * _ROW + 4, max(one.of_roof * scale, 1.0)
            color = _NEW if one is self.steps[-1] else _OLD
            lines += [
                label(one.name, _LEFT - 8, top + 12, text_anchor="end", style=_TEXT),
                element("rect", x=_LEFT, y=top, width=width, height=_BAR, fill=color),
                label(f"{one.of_roof:.0%}", _LEFT + width + 6, top + 12, style=_TEXT),
            ]
        end, bottom = _LEFT + scale, height - 24
        roof = label("roof of the machine", end, height - 8, text_anchor="middle", style=_TEXT)
        line = element("line", x1=end, y1=0, x2=end, y2=bottom, stroke=_ROOF, stroke_dasharray=4)
        return picture(_WIDTH, height, *lines, line, roof, role="img")
