"""Transposed convolution: a convolution for each phase of the result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dims import ceil_quotient
from ...base.records import dataclass
from ...base.size_limits import at_least
from ..ir.attributes import IntAttr
from ..ir.graph import Array, Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import CompositeOp
from ..ir.operands import Operand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .compose import Composer
from .contraction_types import contraction_dtype
from .convolution import checked_operands
from .window import Window, WindowAttr, Windowed, window_of


@dataclass(frozen=True)
class Phase:
    """Every `stride`-th element of an axis of the result: a convolution of x with some elements of the window.

    Element q of the phase is the sum over the elements `taps` of the window, last ones first, times x[q + first],
    x[q + first + dilation], ...; no elements give zeros.
    """

    taps: tuple[int, ...]
    first: int = 0
    dilation: int = 1

    @property
    def window(self) -> tuple[int, int, int]:
        """The properties that the phases of one convolution share."""
        return len(self.taps), self.first, self.dilation


def phases_of(elements: range, stride: int, dilation: int, before: int) -> list[list[Phase]]:
    """The phases of an axis of the result, from element 0 to `stride` - 1, in runs that have one window of x.

    Element o of the result is at o + before in the result without cropping, to which element i of x and element k of
    the window, one of `elements`, contribute where i * stride + k * dilation is that.
    """
    taken: dict[int, list[int]] = {}
    for k in reversed(elements):
        taken.setdefault((k * dilation - before) % stride, []).append(k)
    found: list[list[Phase]] = []
    following = 0
    for residue in sorted(taken):
        at, taps = residue + before, tuple(taken[residue])
        first = (at - taps[0] * dilation) // stride
        phase = Phase(taps, first, dilation // math.gcd(stride, dilation))
        if residue > following:
            found.append([Phase(())] * (residue - following))
        if found and found[-1][0].window == phase.window:
            found[-1].append(phase)
        else:
            found.append([phase])
        following = residue + 1
    if following < stride:
        found.append([Phase(())] * (stride - following))
    return found


@register("convolution_transpose")
class ConvolutionTranspose(Windowed, CompositeOp):
    """The adjoint of `convolution`: each element of x adds w, scaled by it, at `strides` times its index.

    x [N, C, sizes...], w [C, O / groups, kernel...]; result [N, O, (size - 1) * stride + extent - before - after
    + output_padding].
    """

    x = Operand("image [N, C, sizes...]")
    w = Operand("weights [C, O / groups, kernel...]")
    groups = IntAttr("groups of channels that do not mix", default=1)
    output_padding = WindowAttr("added to the sizes, below the stride or dilation", default=0)

    @property
    def window_rank(self) -> int:
        """The spatial axes of the image."""
        return self.x.details.rank - 2

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[N, O, sizes...]."""
        x, w = checked_operands(self, inputs)
        dtype = contraction_dtype(self, x, w, None)
        channels, groups = x.plain_dims[1], self.groups
        if groups < 1 or channels % groups:
            raise self.rule("groups must divide the channels", f"{groups} groups of {channels}")
        if w.plain_dims[0] != channels:
            raise self.rule("w must have the channels of x on axis 0", f"{w} for {channels}")
        window, extra = self._geometry(x.plain_dims, w.plain_dims)
        sizes = self._sizes(x.plain_dims, window, extra)
        if not all(at_least(size, 1) for size in sizes):
            raise self.rule("the result must have elements", str(list(sizes)))
        return [LogicalTensor(dtype, (x.plain_dims[0], w.plain_dims[1] * groups, *sizes))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Add one matmul per tap of the window at its positions, floats in float64 and rounded once."""
        x, w = (widen(array) for array in inputs)
        out, groups = self.outputs[0].details, self.groups
        batch, channels, *sizes = x.shape
        window, _ = self._geometry(x.shape, w.shape)
        image = x.reshape(batch, groups, channels // groups, math.prod(sizes))
        taps = w.reshape(groups, channels // groups, *w.shape[1:])
        room = [
            max((n - 1) * s + e, b + y)
            for n, s, e, b, y in zip(
                sizes,
                window.strides,
                window.extents,
                window.before,
                out.plain_dims[2:],
                strict=True,
            )
        ]
        total = np.zeros((*out.plain_dims[:2], *room), x.dtype)
        with np.errstate(all="ignore"):
            for k in np.ndindex(*window.kernel):
                tap = taps[(..., *k)].swapaxes(-1, -2)  # [groups, O / groups, C / groups]
                term = np.matmul(tap, image).reshape(*out.plain_dims[:2], *sizes)
                positions: tuple[Any, ...] = tuple(
                    slice(i * d, i * d + (n - 1) * s + 1, s)
                    for i, d, n, s in zip(k, window.dilations, sizes, window.strides, strict=True)
                )
                total[(Ellipsis, *positions)] += term.astype(x.dtype)
        crop: tuple[Any, ...] = tuple(
            slice(b, b + y) for b, y in zip(window.before, out.plain_dims[2:], strict=True)
        )
        return [narrow(total[(..., *crop)], out.dtype)]

    def get_gflop(self) -> float:
        """Two operations per multiply-add."""
        terms = math.prod(self.inputs[1].details.plain_dims[1:])
        return 2.0 * self.inputs[0].details.typical.elements * terms / 1e9

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """A convolution for each phase of the result, interleaved.

        Zeros between the elements of x would be multiplied, `stride` times as often along each axis.
        """
        make = Composer(graph, self)
        x, w = self.inputs
        sizes = self.outputs[0].details.plain_dims[2:]
        window, _ = self._geometry(x.details.plain_dims, w.details.plain_dims)
        if x.details.is_empty:
            zero = make.scalar(0, x.details.dtype)
            return [make("broadcast", zero, shape=self.outputs[0].details.plain_dims)]
        taps, strides = _without_overlap(x.details.plain_dims[2:], sizes, window)
        axes = [
            phases_of(*numbers)
            for numbers in zip(taps, strides, window.dilations, window.before, strict=True)
        ]
        counts: list[Any] = [
            ceil_quotient(size, step) for size, step in zip(sizes, strides, strict=True)
        ]
        parts = [self._phases(make, runs, counts) for runs in itertools.product(*axes)]
        result = _interleaved(make, parts, [len(runs) for runs in axes])
        dims = (*self.outputs[0].details.plain_dims[:2],)
        whole = tuple(n * step for n, step in zip(counts, strides, strict=True))
        result = make("reshape", result, shape=(*dims, *whole))
        if whole == sizes:
            return [result]
        zeros, ones = (0,) * (2 + len(sizes)), (1,) * (2 + len(sizes))
        return [make("slice", result, starts=zeros, steps=ones, sizes=(*dims, *sizes))]

    def _phases(
        self, make: Composer, runs: Sequence[list[Phase]], counts: Sequence[int]
    ) -> GraphTensor:
        """[N, O, count, phases, count, phases, ...]: a run of phases of every axis, as one convolution."""
        x, w = self.inputs
        dims, outputs = x.details.plain_dims, self.outputs[0].details.plain_dims[1]
        phases, windows = [len(run) for run in runs], [run[0] for run in runs]
        pairs = [size for pair in zip(counts, phases, strict=True) for size in pair]
        if not all(axis.taps for axis in windows):
            zero = make.scalar(0, x.details.dtype)
            return make("broadcast", zero, shape=(dims[0], outputs, *pairs))
        image, pads = _windows_of(make, x, windows, counts)
        alone = math.prod(counts) == 1  # a phase is one element: the window's order is the result's
        weights = self._weights(make, w, runs, alone)
        dilations = tuple(axis.dilation for axis in windows)
        y = make("convolution", image, weights, dilations=dilations, groups=self.groups, **pads)
        if math.prod(phases) > 1 and not alone:
            rank, per_group = len(phases), outputs // self.groups
            y = make("reshape", y, shape=(dims[0], self.groups, *phases, per_group, *counts))
            axes = [axis for i in range(rank) for axis in (3 + rank + i, 2 + i)]
            y = make("transpose", y, perm=(0, 1, 2 + rank, *axes))
        return make("reshape", y, shape=(dims[0], outputs, *pairs))

    def _weights(
        self, make: Composer, w: GraphTensor, runs: Sequence[list[Phase]], alone: bool
    ) -> GraphTensor:
        """The elements of w [C, O / groups, kernel...] that phases take, as [groups * phases * O / groups, C / groups,
        elements...]; [groups * O / groups * phases, ...] if each phase is `alone`, one element."""
        channels, outputs, groups = *w.details.plain_dims[:2], self.groups
        for axis, run in enumerate(runs, 2):
            taps = [k for phase in run for k in phase.taps]
            if taps != list(range(w.details.plain_dims[axis])):
                w = make.folded("gather", w, make.constant(np.array(taps, np.int64)), axis=axis)
        sizes = [(len(run), len(run[0].taps)) for run in runs]
        pairs = [size for pair in sizes for size in pair]
        w = make.folded("reshape", w, shape=(groups, channels // groups, outputs, *pairs))
        phases, inner = (range(start, 3 + len(pairs), 2) for start in (3, 4))
        first = (2, *phases) if alone else (*phases, 2)
        w = make.folded("transpose", w, perm=(0, *first, 1, *inner))
        rows = groups * outputs * math.prod(size for size, _ in sizes)
        shape = (rows, channels // groups, *(size for _, size in sizes))
        return make.folded("reshape", w, shape=shape)

    def _geometry(self, x: Sequence[int], w: Sequence[int]) -> tuple[Window, tuple[int, ...]]:
        """The window, whose padding is cropped from the result, and the output padding."""
        kernel, one = tuple(w[2:]), [2**62] * len(w[2:])  # any window fits: there is no input yet
        if not all(at_least(size, 1) for size in x[2:]):
            raise self.rule("the spatial axes must have elements", str(list(x[2:])))
        window = window_of(self, kernel, one)
        extra = self.output_padding
        if any(
            not 0 <= e < max(s, d)
            for e, s, d in zip(extra, window.strides, window.dilations, strict=True)
        ):
            raise self.rule(
                "output_padding must be below the stride or the dilation on each spatial axis",
                f"{list(extra)} with strides {list(window.strides)}",
            )
        return window, extra

    def _sizes(self, x: Sequence[int], window: Window, extra: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            (n - 1) * s + e - b - a + more
            for n, s, e, b, a, more in zip(
                x[2:],
                window.strides,
                window.extents,
                window.before,
                window.after,
                extra,
                strict=True,
            )
        )


def _without_overlap(
    image: Sequence[int], sizes: Sequence[int], window: Window
) -> tuple[list[range], list[int]]:
    """The elements of the window and the stride of each axis; an axis with one element of x may have any stride.

    Its result is then one element of the window, scaled, and each of them is a phase: a matmul instead of a window
    of which all but one element meet zeros.
    """
    taps, strides = [range(size) for size in window.kernel], list(window.strides)
    for axis, (elements, size) in enumerate(zip(image, sizes, strict=True)):
        before, step = window.before[axis], window.dilations[axis]
        if elements == 1:
            first, end = -(-before // step), -(-(before + size) // step)
            taps[axis], strides[axis] = range(first, min(end, window.kernel[axis])), size
    return taps, strides


def _windows_of(
    make: Composer, x: GraphTensor, windows: Sequence[Phase], counts: Sequence[int]
) -> tuple[GraphTensor, dict[str, Any]]:
    """(an image, the padding of a convolution) so that its `counts` windows begin at x[first] on each axis."""
    before = [-axis.first for axis in windows]
    after = [
        count - 1 + axis.first + (len(axis.taps) - 1) * axis.dilation - (size - 1)
        for axis, count, size in zip(windows, counts, x.details.plain_dims[2:], strict=True)
    ]
    if all(n >= 0 for n in (*before, *after)):
        return x, {"before": tuple(before), "after": tuple(after)}
    return make("pad", x, before=(0, 0, *before), after=(0, 0, *after)), {}


def _interleaved(make: Composer, parts: list[GraphTensor], runs: Sequence[int]) -> GraphTensor:
    """[N, O, count, stride, count, stride, ...] from the parts of all combinations of `runs` per axis, the last
    axis fastest."""
    for axis in range(len(runs) - 1, -1, -1):
        step = runs[axis]
        if step > 1:
            groups = [parts[at : at + step] for at in range(0, len(parts), step)]
            parts = [make("concat", *group, axis=3 + 2 * axis) for group in groups]
    return parts[0]
