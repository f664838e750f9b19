"""The text of the problem that a tuned op solves, as `graphc dev kernel` reads it: in profiles and tuning files."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.contraction import Contraction
from ...base.dims import Size, bounds
from ..ir.op import Op
from ..ops.convolution import Convolution, DepthwiseConvolution
from ..ops.matmul import MatmulCore
from ..ops.matmul_nbits import MatmulNBits
from ..ops.pool import WindowReduce
from ..ops.window import Window
from ..ops.winograd import WinogradConvolution

AXES = "zhw"
"""The letters of the spatial axes of an image, of which an image with fewer has the last ones."""


def problem_of(
    op: MatmulCore | MatmulNBits | Convolution | WinogradConvolution | WindowReduce,
) -> str:
    """Return `matmul m128n768k768 f32` (or u8xs8), `conv n1c64h56w56o64k3s1p1 f32`: equal texts take equally long."""
    if isinstance(op, MatmulCore):
        batch = math.prod(op.outputs[0].details.plain_dims[:-2])
        lead = [("b", batch)] if batch != 1 else []
        sizes = _text(*lead, *zip("mnk", op.sizes, strict=True))
        return f"matmul {sizes} {_types(op.contraction)}"
    if isinstance(op, MatmulNBits):
        lead = [("e", op.experts)] if op.experts else []
        sizes = _text(*lead, *zip("mnk", op.sizes, strict=True))
        return f"matmul {sizes} {op.x.details.dtype}xu{op.bits}g{op.group}"
    if isinstance(op, WinogradConvolution):
        window, x = Window((3, 3), (1, 1), op.dilations, *op.padding), op.x.details.dtype
        return f"conv {_windows(op, window)} {x if x.is_float else f'{x}xs8'}"
    if isinstance(op, WindowReduce):
        return f"{op.op_name} {_windows(op, op.window)} {op.inputs[0].details.dtype}"
    kind = "dwconv" if isinstance(op, DepthwiseConvolution) else "conv"
    groups = f"g{op.groups}" if op.groups > 1 and kind == "conv" else ""
    return f"{kind} {_windows(op, op.window)}{groups} {_types(op.contraction)}"


def attention_problem(first: MatmulCore, second: MatmulCore) -> str:
    """Return `attention b1h12s128d64 f32`: with keys t and the width of values v where they differ from s and d."""
    queries, keys, depth = first.sizes
    width = second.sizes[1]
    *outer, heads = (1, *second.outputs[0].details.plain_dims[:-2])
    sizes = [("b", math.prod(outer)), ("h", heads), ("s", queries)]
    sizes += [("t", keys)] if keys != queries else []
    sizes += [("d", depth), *([("v", width)] if width != depth else [])]
    return f"attention {_text(*sizes)} {first.contraction.a}"


def _types(types: Contraction) -> str:
    """Return the type of operands and result, or those of both operands."""
    return str(types.a) if types.a == types.b == types.result else f"{types.a}x{types.b}"


def _windows(op: Op, window: Window) -> str:
    """Windows over an image; only where channels mix is the number of those of the result given."""
    (images, channels, *image), (_, outputs, *_) = (
        one.details.plain_dims for one in (op.inputs[0], op.outputs[0])
    )
    sizes = [("n", images), ("c", channels), *zip(AXES[-len(image) :], image, strict=True)]
    sizes += [] if isinstance(op, DepthwiseConvolution | WindowReduce) else [("o", outputs)]
    pads = window.before if window.before == window.after else (*window.before, *window.after)
    shape = {"k": window.kernel, "s": window.strides, "p": pads}
    shape |= {"d": window.dilations} if max(window.dilations) > 1 else {}
    return _text(*sizes) + "".join(f"{letter}{_each(each)}" for letter, each in shape.items())


def _text(*sizes: tuple[str, Size]) -> str:
    """Return letters with their sizes, a dynamic one by its range."""
    return "".join(_size(letter, size) for letter, size in sizes)


def _size(letter: str, size: Size) -> str:
    low, high = bounds(size)
    return f"{letter}{size}" if low == high else f"{letter}={low}..{high}"


def _each(values: Sequence[int]) -> str:
    """Return one number for all axes, or one for each."""
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))
