"""The last layer of YOLOv5, which the tool keeps as a module: boxes from the feature maps of several strides."""

from __future__ import annotations

from ...graph_ir.ir.graph import GraphTensor
from .scope import Handler, Node

GRIDS = (("pnnx_4", "pnnx_6"), ("pnnx_2", "pnnx_3"), ("pnnx_0", "pnnx_1"))
"""The attributes with anchors and grid [1, anchors, H, W, 2] of each map; the tool numbers what has no name."""

STRIDES = "pnnx_5"


def _detect(node: Node) -> GraphTensor:
    """[N, boxes, 5 + classes]: center and size in pixels, then how sure it is and of which class."""
    maps = node.tensors()
    strides = node.weight(STRIDES)
    if len(maps) != len(GRIDS) or strides.details.plain_dims != (len(GRIDS),):
        rule = f"there must be {len(GRIDS)} feature maps and their strides"
        raise node.rule(rule, f"{len(maps)} and {strides.details}")
    found = []
    for i, x in enumerate(maps):
        stride = node.reshaped(node.sliced(strides, 0, i, 1), ())
        found.append(_boxes(node, x, i, stride))
    return node.make("concat", *found, axis=1)


def _boxes(node: Node, x: GraphTensor, number: int, stride: GraphTensor) -> GraphTensor:
    """[N, anchors * H * W, 5 + classes] of one map."""
    anchors, grid = (node.weight(key, x.details.dtype) for key in GRIDS[number])
    weight, bias = (node.weight(f"m.{number}.{key}", x.details.dtype) for key in ("weight", "bias"))
    y = node.helper("convolution", x, weight)
    y = node.helper("add", y, node.reshaped(bias, (bias.details.elements, 1, 1)))
    batch, channels, *sizes = y.details.plain_dims
    dims = grid.details.plain_dims
    count = dims[1] if len(dims) == 5 else 0
    if anchors.details.plain_dims != dims or [*dims[2:4]] != sizes or channels % max(count, 1):
        raise node.rule(
            "anchors and grid must be [1, anchors, H, W, 2] of their map",
            f"{anchors.details}, {grid.details} and {y.details}",
        )
    apart = node.reshaped(y, (batch, count, channels // count, *sizes))
    y = node.helper("sigmoid", node.transposed(apart, (0, 1, 3, 4, 2)))
    two = node.constant(2, y.details.dtype)
    center = node.helper("add", node.helper("mul", node.sliced(y, 4, 0, 2), two), grid)
    center = node.helper("mul", center, node.converted(stride, y.details.dtype))
    size = node.helper("square", node.helper("mul", node.sliced(y, 4, 2, 2), two))
    size = node.helper("mul", size, anchors)
    rest = node.sliced(y, 4, 4, channels // count - 4)
    boxes = node.helper("concat", center, size, rest, axis=4)
    whole = boxes.details.plain_dims
    return node.reshaped(boxes, (batch, whole[1] * whole[2] * whole[3], whole[4]))


HANDLERS: dict[str, Handler] = {"models.yolo.Detect": Handler(_detect, ("*",))}
