"""The optimized graph as SVG: a box per node in layers from top to bottom, layouts on the edges, time as color."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...base.durations import shown_time
from ...base.records import dataclass
from ...base.svg import element, heat, label, picture
from ...graph_ir.ir.graph import Graph, GraphTensor, Op
from ...graph_ir.text.printer import print_format, print_tensor_type

BOX_WIDTH, LINE, PAD = 250.0, 15.0, 8.0
GAP_X, GAP_Y, MARGIN = 30.0, 26.0, 12.0
LABEL = 13.0  # height of a layout's text; each edge into a box has its own line above it
MAX_LABELS = 8
MAX_LETTERS = 36
SWEEPS = 2


@dataclass(frozen=True)
class Box:
    """A placed node: its lines of text and its upper left corner."""

    op: Op
    lines: tuple[str, ...]
    x: float
    y: float

    @property
    def height(self) -> float:
        """The height of the box in pixels."""
        return len(self.lines) * LINE + 2 * PAD


def graph_picture(graph: Graph, seconds: Mapping[str, float]) -> str:
    """The drawing. `seconds` by node name: nodes without a time (inputs, views) stay white."""
    boxes = arrange_boxes(graph, seconds)
    width = max((box.x for box in boxes.values()), default=0.0) + BOX_WIDTH + MARGIN
    height = max((box.y + box.height for box in boxes.values()), default=0.0) + MARGIN
    slowest = max(seconds.values(), default=0.0)
    edges = [
        _edge(boxes[tensor.producer_owner], boxes[op], tensor, number)
        for op in boxes
        for number, tensor in enumerate(_drawn(op))
    ]
    nodes = [_node(box, seconds.get(box.op.name), slowest) for box in boxes.values()]
    return picture(width, height, *edges, *nodes, class_="graph")


def standalone_picture(graph: Graph) -> str:
    """The drawing as a separate file, without times."""
    body = graph_picture(graph, {})
    opened = body.index(">") + 1
    return f"{body[:opened]}{element('style', stylesheet())}{body[opened:]}\n"


def stylesheet() -> str:
    """The style sheet of the drawing."""
    return Path(__file__).with_name("picture.css").read_text(encoding="utf-8")


def arrange_boxes(graph: Graph, seconds: Mapping[str, float]) -> dict[Op, Box]:
    """Every op except constants, in layers by the longest path from an input; within a layer near its operands."""
    shown = [op for op in graph.ops if not op.is_constant]
    layers: list[list[Op]] = []
    layer_of: dict[Op, int] = {}
    for op in shown:
        above = [layer_of[o] for x in op.inputs for o in [x.producer_owner] if o in layer_of]
        layer_of[op] = 1 + max(above, default=-1)
        while len(layers) <= layer_of[op]:
            layers.append([])
        layers[layer_of[op]].append(op)
    _order(layers)
    widest = max(map(len, layers), default=0) * (BOX_WIDTH + GAP_X)
    boxes: dict[Op, Box] = {}
    y = MARGIN
    for layer in layers:
        y += LABEL * max(min(len(_drawn(op)), MAX_LABELS) for op in layer)
        x = MARGIN + (widest - len(layer) * (BOX_WIDTH + GAP_X)) / 2
        for op in layer:
            boxes[op] = Box(op, _lines(op, seconds.get(op.name)), x, y)
            x += BOX_WIDTH + GAP_X
        y = max(boxes[op].y + boxes[op].height for op in layer) + GAP_Y
    return boxes


def _order(layers: Sequence[list[Op]]) -> None:
    """Sort each layer by the mean position of its ops' operands, for fewer crossings."""
    rank = {op: i for layer in layers for i, op in enumerate(layer)}
    for _ in range(SWEEPS):
        for layer in layers[1:]:
            means = {}
            for op in layer:
                above = [rank[o] for x in op.inputs for o in [x.producer_owner] if o in rank]
                means[op] = sum(above) / len(above) if above else rank[op]
            layer.sort(key=lambda op: means[op])
            rank.update((op, i) for i, op in enumerate(layer))


def _lines(op: Op, seconds: float | None) -> tuple[str, ...]:
    lines = [op.name, _summary(op)]
    lines += [f"{_layout(x)}  {x.name}" for x in dict.fromkeys(op.inputs) if x.is_constant]
    if seconds is not None:
        lines.append(shown_time(seconds))
    return (_short(lines[0], MAX_LETTERS - 4), *map(_short, lines[1:]))  # the name is bold


def _summary(op: Op) -> str:
    if op.kind != "fused":
        return op.op_name
    body = [inner for inner in op.attr("graph").ops if inner.kind not in ("source", "sink")]
    return ", ".join(inner.op_name for inner in body)


def _layout(tensor: GraphTensor) -> str:
    details = tensor.details
    dims = "x".join(map(str, details.plain_dims)) or "1"
    return f"{details.dtype} {dims} {print_format(details.format)}"


def _short(text: str, limit: int = MAX_LETTERS) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _node(box: Box, seconds: float | None, slowest: float) -> str:
    plain = {"fill": "#fff", "class": "plain"}
    fill = plain if seconds is None else heat(seconds / slowest if slowest else 0.0)
    lines = [
        label(line, box.x + PAD, box.y + PAD + (i + 0.75) * LINE, class_="name" if not i else "")
        for i, line in enumerate(box.lines)
    ]
    rect = element(
        "rect", x=box.x, y=box.y, width=BOX_WIDTH, height=box.height, rx=5, **fill
    )  # fmt: skip
    title = element("title", text=box.op.name)
    return element(
        "g", title, rect, *lines, class_=f"node {box.op.kind}", data_node=box.op.name, tabindex=0
    )


def _drawn(op: Op) -> list[GraphTensor]:
    """Inputs that are edges; constants are lines in the box."""
    return [x for x in dict.fromkeys(op.inputs) if not x.is_constant]


def _edge(source: Box, target: Box, tensor: GraphTensor, number: int) -> str:
    x1, y1 = source.x + BOX_WIDTH / 2, source.y + source.height
    x2 = target.x + BOX_WIDTH * (number + 1) / (len(_drawn(target.op)) + 1)
    y2 = target.y
    bend = (y2 - y1) / 2
    path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    text = label(
        _layout(tensor), x2 + 4, y2 - 6 - LABEL * (number % MAX_LABELS), class_="layout"
    )  # fmt: skip
    title = element("title", text=f"{tensor.name}: {print_tensor_type(tensor.details)}")
    return element("g", title, element("path", d=path), text, class_="edge")
