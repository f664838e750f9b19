"""reduce and reduce-window: known bodies map to reductions of the Graph IR, others to a tree of steps.

HLO leaves the order of combination open, so log2(n) steps that apply the body to halves of an array suffice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.records import dataclass
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.doubling import Positions, joined_runs
from .bodies import is_arg_extreme, single_opcode
from .elementwise import LOGICAL, combine
from .movement import pad
from .scanning import RUNNING
from .scope import Handler, Step
from .syntax import Computation, PadRange, WindowDimension
from .windows import Windows, has_gaps, positions_of, windows_of

_REDUCTIONS = {
    "add": ("reduce_sum", 0),
    "multiply": ("reduce_prod", 1),
    "maximum": ("reduce_max", -math.inf),
    "minimum": ("reduce_min", math.inf),
}
_POOLS = {"add": "sum_pool", "multiply": "prod_pool", "maximum": "max_pool", "minimum": "min_pool"}
_MAX_POOLED = 128  # elements of a window; larger ones share the work of their parts
_LOGICAL = {"and": ("reduce_all", True), "or": ("reduce_any", False)}


@dataclass(frozen=True)
class _Body:
    """The computation that combines the elements of arrays, from the initial values on."""

    step: Step
    computation: Computation
    arrays: list[GraphTensor]
    initial: list[GraphTensor]
    gives_tuple: bool

    def __call__(
        self, left: Sequence[GraphTensor], right: Sequence[GraphTensor]
    ) -> list[GraphTensor]:
        """The body on two lists of arrays."""
        result = self.step.owner.inline_mapped(self.computation, [*left, *right])
        results = result if isinstance(result, tuple) else (result,)
        shape = np.broadcast_shapes(*(x.details.plain_dims for x in (*left, *right)))
        return [self.step.broadcast(y, shape) for y in results]

    def finished(self, results: Sequence[GraphTensor]) -> Any:
        """The value of the instruction."""
        return tuple(results) if self.gives_tuple else results[0]


def _body(step: Step) -> _Body:
    step.count(2, -1)
    count, tensors = len(step.operands) // 2, step.tensors()
    if len(tensors) % 2:
        raise step.rule("it must have an initial value for each array", str(len(tensors)))
    arrays, initial = step.alike(tensors[:count]), tensors[count:]
    if any(x.details.rank for x in initial):
        raise step.rule("initial values must be scalars", step.shown(*initial))
    computation = step.computation("to_apply")
    parameters = [p.shape for p in computation.parameters]
    if len(parameters) != 2 * count or any(p is None or p.dims or p.is_tuple for p in parameters):
        raise step.rule(f"to_apply must take {2 * count} scalars", str(len(parameters)))
    result = step.result(computation)
    results = result.elements if result.is_tuple else (result,)
    if len(results) != count or any(shape.dims or shape.is_tuple for shape in results):
        raise step.rule(f"to_apply must give {count} scalars", result.logical())
    return _Body(step, computation, arrays, initial, result.is_tuple)


def _reduce(step: Step) -> Any:
    body = _body(step)
    axes = step.axes("dimensions", body.arrays[0].details.rank)
    if len(body.arrays) == 1 and not body.gives_tuple:
        known = _known_reduction(body, axes)
        if known is not None:
            return known
    extreme = _arg_extreme(body, axes) if len(body.arrays) == 2 else None
    return _tree(body, axes) if extreme is None else extreme


def _known_reduction(body: _Body, axes: tuple[int, ...]) -> GraphTensor | None:
    step, (x,), (initial,) = body.step, body.arrays, body.initial
    opcode = single_opcode(body.computation)
    is_bool = x.details.dtype.kind == "bool"
    if is_bool:
        opcode = LOGICAL.get(opcode, opcode)
    row = (_LOGICAL if is_bool else _REDUCTIONS).get(opcode)
    if row is None or x.details.dtype != initial.details.dtype:
        return None
    op_name, identity = row
    result = step.make(op_name, x, axes=axes, keep_dims=False)
    return result if _is(step, initial, identity) else combine(step, opcode, initial, result)


def _is(step: Step, tensor: GraphTensor, wanted: float) -> bool:
    """Return whether a scalar is known to be `wanted`, infinities meaning the extremes of an integer type."""
    value = step.known(tensor)
    dtype = tensor.details.dtype
    if value is None:
        return False
    if math.isinf(wanted) and not dtype.is_float:
        return bool(value == dtype.limits[wanted > 0])
    return bool(value == wanted)


def _arg_extreme(body: _Body, axes: tuple[int, ...]) -> tuple[GraphTensor, GraphTensor] | None:
    """The body of argmax or argmin over positions: a search the Graph IR has an op for."""
    word = is_arg_extreme(body.computation)
    step, (x, index), initial = body.step, body.arrays, body.initial
    if not word or len(axes) != 1 or not x.details.plain_dims[axes[0]]:
        return None
    worst = -math.inf if word == "max" else math.inf
    known = step.known(index)
    if known is None or not _is(step, initial[0], worst) or not _is(step, initial[1], 0):
        return None
    (axis,) = axes
    counted = np.arange(known.shape[axis]).reshape(
        [-1 if i == axis else 1 for i in range(known.ndim)]
    )
    if not np.array_equal(known, np.broadcast_to(counted, known.shape)):
        return None
    value = step.make(f"reduce_{word}", x, axes=axes, keep_dims=False)
    position = step.make(f"arg_{word}", x, axis=axis, keep_dims=False)
    return value, step.converted(position, index.details.dtype)


def _tree(body: _Body, axes: tuple[int, ...]) -> Any:
    step, dims = body.step, body.arrays[0].details.plain_dims
    kept = [axis for axis in range(len(dims)) if axis not in axes]
    outer = tuple(dims[axis] for axis in kept)
    size = math.prod(dims[axis] for axis in axes)
    order = (*kept, *sorted(axes))
    parts = [step.reshaped(step.transposed(x, order), (*outer, size)) for x in body.arrays]
    last = len(outer)
    while size > 1:
        half = size // 2
        left, right = ([step.sliced(x, last, first, half, 2) for x in parts] for first in (0, 1))
        merged = body(left, right)
        if size % 2:
            merged = [
                step.make("concat", y, step.sliced(x, last, size - 1, 1), axis=last)
                for x, y in zip(parts, merged, strict=True)
            ]
        parts, size = merged, half + size % 2
    if not size:
        return body.finished([step.broadcast(x, outer) for x in body.initial])
    return body.finished(body(body.initial, [step.reshaped(x, outer) for x in parts]))


def _reduce_window(step: Step) -> Any:
    """Small windows of known bodies as pools, all others axis by axis, put together from powers of two."""
    body = _body(step)
    dims = body.arrays[0].details.plain_dims
    windows = windows_of(step, len(dims))
    sizes = positions_of(dims, windows)
    if 0 in sizes:
        return body.finished([step.broadcast(i, sizes) for i in body.initial])
    pooled = _pooled(body, windows) if len(body.arrays) == 1 and not body.gives_tuple else None
    if pooled is not None:
        return pooled
    edges = tuple(PadRange(w.low, w.high, w.base_dilation - 1) for w in windows)
    pairs = zip(body.arrays, body.initial, strict=True)
    parts: Sequence[GraphTensor] = [pad(step, x, i, edges) for x, i in pairs]
    for axis, window in enumerate(windows):
        parts = _windowed(body, parts, axis, window, sizes[axis])
    return body.finished(body(body.initial, parts))


def _pooled(body: _Body, windows: Windows) -> GraphTensor | None:
    step, (x,), (initial,) = body.step, body.arrays, body.initial
    opcode = single_opcode(body.computation)
    op_name = _POOLS.get(opcode)
    if not op_name or x.details.dtype.kind == "bool" or not windows or not x.details.elements:
        return None
    if not _is(step, initial, _REDUCTIONS[opcode][1]):
        return None
    running = _running(step, x, RUNNING.get(opcode), windows)
    is_large = math.prod(w.size for w in windows) > _MAX_POOLED
    if running is not None or is_large or has_gaps(windows):
        return running
    first = next((i for i, w in enumerate(windows) if w != WindowDimension(1)), len(windows) - 1)
    fields = {
        "kernel": "size", "strides": "stride", "dilations": "window_dilation", "before": "low", "after": "high",
    }  # fmt: skip
    attrs = {
        key: tuple(getattr(w, field) for w in windows[first:]) for key, field in fields.items()
    }
    return step.make(op_name, x, **attrs)


def _running(
    step: Step, x: GraphTensor, op_name: str | None, windows: Windows
) -> GraphTensor | None:
    """Match a cumulative sum or cumulative product: the one window is as long as its axis and begins in the padding;
    None for others."""
    axes = [axis for axis, window in enumerate(windows) if window != WindowDimension(1)]
    if op_name is None or len(axes) != 1:
        return None
    axis, size = axes[0], x.details.plain_dims[axes[0]]
    for exclusive, reverse in itertools.product((False, True), repeat=2):
        pads = (size - 1 + exclusive, -int(exclusive))
        low, high = pads[::-1] if reverse else pads
        if windows[axis] == WindowDimension(size, low=low, high=high):
            attrs = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
            return step.make(op_name, x, **attrs)
    return None


def _windowed(
    body: _Body, parts: Sequence[GraphTensor], axis: int, window: WindowDimension, size: int
) -> Sequence[GraphTensor]:
    """`size` windows along an axis."""
    windows = Positions(window.size, size, window.stride, window.window_dilation)

    def sliced(x: GraphTensor, begin: int, number: int, step: int) -> GraphTensor:
        return body.step.sliced(x, axis, begin, number, step)

    return joined_runs(parts, windows, body, sliced)


HANDLERS: dict[str, Handler] = {"reduce": _reduce, "reduce-window": _reduce_window}
