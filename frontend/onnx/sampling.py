"""Columns summed back into images: Col2Im."""

from __future__ import annotations

from ..correspondence.compositions.sampling import columns_to_image
from ..op_builder import Value
from .scope import Handler, NodeContext


def _col2im(node: NodeContext) -> Value:
    image, block = node.ints(1, "an image shape"), node.ints(2, "a block shape")
    count = len(image)
    strides, dilations = (
        node.attr_ints(name, None) or (1,) * count for name in ("strides", "dilations")
    )
    pads = node.attr_ints("pads", None) or (0,) * (2 * count)
    padding = (pads[:count], pads[count:])
    return columns_to_image(node, node.tensor(0), image, block, strides, dilations, padding)


HANDLERS: dict[str, Handler] = {"Col2Im": _col2im}
