"""`query_format(op, ctx)`: the layouts an op can run in. Rules are registered by op class: op definitions do not depend
on layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.class_table import ClassTable
from ..ir.format import plain
from ..ir.op import Op
from ..ops.convolution import DepthwiseConvolution, DirectConvolution
from ..ops.matmul import MatmulCore
from ..ops.matmul_nbits import MatmulNBits
from ..ops.movement import Reorder
from ..ops.winograd import WinogradConvolution
from .channel_windows import depthwise_formats
from .context import LowerContext
from .direct_convolution import convolution_formats
from .format_choice import FormatChoice
from .matmul import matmul_formats
from .nbits_formats import nbits_formats
from .winograd import winograd_formats

FormatRule = Callable[[Any, LowerContext], list[FormatChoice]]
"""(op of the class, context) -> its choices, the plain one first if it has one."""


def plain_formats(op: Op, ctx: LowerContext) -> list[FormatChoice]:
    """Plain everywhere: the default for ops without a rule."""
    inputs, outputs = (tuple(plain(x.details.rank) for x in e) for e in (op.inputs, op.outputs))
    return [FormatChoice(inputs, outputs)]


def reorder_formats(op: Reorder, ctx: LowerContext) -> list[FormatChoice]:
    """Return the conversion from the input's layout to the requested one."""
    return [FormatChoice((op.inputs[0].details.format,), (op.format,))]


RULES = ClassTable[FormatRule](
    {
        Op: plain_formats,
        Reorder: reorder_formats,
        MatmulCore: matmul_formats,
        MatmulNBits: nbits_formats,
        DirectConvolution: convolution_formats,
        DepthwiseConvolution: depthwise_formats,
        WinogradConvolution: winograd_formats,
    }
)
"""The layouts on offer, by op class; `@RULES.register(MyOp)` adds a rule for an op of one's own."""


def query_format(op: Op, ctx: LowerContext) -> list[FormatChoice]:
    """Layouts the op can run in, each with its extra cost compared with the best one."""
    return (RULES.find(op) or plain_formats)(op, ctx)
