"""Winograd convolution with 3 x 3 windows and stride 1: transformed weights, and the convolution with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.derived_weights import transform_weights
from ...base.dtypes import F32, S8, S32, U8, DType
from ...base.size_limits import at_least
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Cast, Expr
from ..ir.attributes import AttributeOwner, IntAttr
from ..ir.axis_attributes import IntsAttr
from ..ir.computation import Computation, Index, Read, Reduction
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp, TunableOp
from ..ir.operands import Operand, VariadicOperand
from ..ir.reference import narrow
from ..ir.registry import register
from .winograd_form import BYTE_FORMS, FORMS, WinogradForm


class _ResultsAttr(IntAttr):
    """Results of a tile along each axis: 2 for F(2x2, 3x3), 4 for F(4x4, 3x3)."""

    def check(self, op: AttributeOwner, value: Any) -> int:
        """One of the forms."""
        if value not in FORMS:
            raise op.rule("results must be 2 or 4", repr(value))
        return super().check(op, value)


@register("winograd_weights")
class WinogradWeights(FusibleOp):
    """w f32[O, C, 3, 3] as u f32[points, C, O], u[:, c, o] = G w[o, c] G^T; of s8 as s16.

    Constant: the pass `fold_constants` computes it in float64 and rounds once, which is exact for bytes.
    """

    w = Operand("f32 or s8[O, C, 3, 3]")
    results = _ResultsAttr("results of a tile along each axis, 2 or 4")

    @property
    def form(self) -> WinogradForm:
        """The Winograd form of the transformed weights."""
        return _form(self.results, self.inputs[0].details.dtype)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[points, C, O]."""
        (w,) = inputs
        if w.dtype not in (F32, S8) or w.rank != 4 or w.plain_dims[2:] != (3, 3):
            raise self.rule("w must be f32 or s8[O, C, 3, 3]", str(w))
        form = _form(self.results, w.dtype)
        return [LogicalTensor(form.operand, (form.matmuls, w.plain_dims[1], w.plain_dims[0]))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """G w G^T, in float64 and rounded once."""
        (w,) = inputs
        u = self.outputs[0].details
        made = np.empty(u.plain_dims, u.dtype.numpy)
        with np.errstate(all="ignore"):
            transform_weights(w, self.form.weight_matrix().tolist(), made)
        return [made]

    def computation(self) -> Computation:
        """The sum over the nine taps, each with the coefficient of its row and column."""
        form = self.form
        g, sums = form.weight_matrix(), form.sums
        size = len(g)

        def element(reads: Sequence[Read], index: Index, r: Index) -> Expr:
            point, channel, output = index
            rows = _entry(g, point // size, r[0], sums)
            columns = _entry(g, point % size, r[1], sums)
            return rows * columns * _as(reads[0]((output, channel, *r)), sums)

        return Reduction((3, 3), "add", 0.0, element, lambda acc: _as(acc, form.operand))


def _as(value: Expr, dtype: DType) -> Expr:
    return value if value.dtype == dtype else Cast(value, dtype)


def _entry(matrix: Array, row: Expr, column: Expr, dtype: DType) -> Expr:
    """matrix[row, column]: a chain of selections, for code that is not hot."""
    width = matrix.shape[1]
    at = row * width + column
    value = t.const(float(matrix.flat[0]), dtype)
    for i in range(1, matrix.size):
        value = t.select(t.equal(at, i), t.const(float(matrix.flat[i]), dtype), value)
    return value


def _form(results: int, weights: DType) -> WinogradForm:
    """The form for weights of a type, transformed or not."""
    return (FORMS if weights == F32 else BYTE_FORMS)[results]


def _two(op: Any) -> int:
    return 2


def _tiles_of(x: Array, u: Array, bt: Array, at: Array) -> Array:
    """A^T [U * (B^T d B)] A over the tiles of x[N, C, rows, columns], which are whole tiles and two more."""
    m, n = at.shape
    tiles = np.lib.stride_tricks.sliding_window_view(x, (n, n), (2, 3))[:, :, ::m, ::m]
    images, channels, down, across = tiles.shape[:4]
    v = (bt @ tiles @ bt.T).transpose(4, 5, 0, 2, 3, 1).reshape(n * n, -1, channels)
    points = np.matmul(v, u).reshape(n, n, images, down, across, u.shape[2])
    y = at @ points.transpose(2, 5, 3, 4, 0, 1) @ at.T  # [N, O, down, across, m, m]
    return np.asarray(
        y.transpose(0, 1, 2, 4, 3, 5).reshape(images, u.shape[2], down * m, across * m)
    )


@register("winograd_convolution")
class WinogradConvolution(TunableOp):
    """y[N, O, H', W'], the convolution of x f32[N, C, H, W] with the 3 x 3 weights that u was made of; stride 1.

    The rows and columns of the window lie `dilations` apart.

    u f32[points, C, O] as of `winograd_weights`. Padding is zeros. Rounding errors are larger than those of the direct
    form, see `winograd_form`. A tile with a result that is not finite is convolved directly, with weights recovered
    from u: there may be an infinity or NaN in the image, which the transforms would spread, or they overflow. Of x u8
    or s8 and u s16, y s32 is exact, but wraps to 30 bits for 2 results, to 26 for 4. Where sizes are dynamic, `others`
    are the weights of the forms that run for up to `few` pixels of results, fewest last: u of another Winograd form, or
    w f32 or s8[O, C, 3, 3] itself for the direct form.
    """

    x = Operand("f32, u8 or s8[N, C, H, W]")
    u = Operand("f32 or s16[points, C, O] as of winograd_weights")
    others = VariadicOperand("u of other forms, or w of the direct form, for fewer results")
    results = _ResultsAttr("results of a tile along each axis, 2 or 4")
    few = IntsAttr(
        "pixels of all results up to which each of the others is the weights", default=(), least=1
    )
    dilations = IntsAttr(
        "distances of rows and columns of the window", default=1, least=1, count=_two
    )
    before = IntsAttr("rows and columns of padding in front", default=0, least=0, count=_two)
    after = IntsAttr("rows and columns of padding behind", default=0, least=0, count=_two)

    @property
    def form(self) -> WinogradForm:
        """The Winograd form of the convolution."""
        return _form(self.results, self.inputs[1].details.dtype)

    @property
    def other_forms(self) -> tuple[WinogradForm | None, ...]:
        """The form of each of the others; None for the direct one."""
        points = {form.matmuls: form.results for form in FORMS.values()}
        return tuple(
            _form(points[w.details.plain_dims[0]], w.details.dtype) if w.details.rank == 3 else None
            for w in self.others
        )

    @property
    def padding(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(before, after), each for rows and columns."""
        (top, left), (bottom, right) = self.before, self.after
        return (top, left), (bottom, right)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[N, O, H', W']."""
        x, u, *_ = inputs
        if x.dtype not in (F32, U8, S8) or x.rank != 4:
            raise self.rule("x must be f32, u8 or s8[N, C, H, W]", str(x))
        form = _form(self.results, x.dtype)
        known = form.operand, (form.matmuls, x.plain_dims[1])
        if u.rank != 3 or (u.dtype, u.plain_dims[:2]) != known:
            rule = f"u must be {form.operand}[{form.matmuls}, C, O]"
            raise self.rule(rule, f"{u} for x {x}")
        self._check_others(inputs[2:], u)
        sizes = zip(x.plain_dims[2:], self.before, self.after, self.dilations, strict=True)
        positions = tuple(n + b + a - 2 * step for n, b, a, step in sizes)
        if not all(at_least(size, 1) for size in (*positions, *x.plain_dims[2:])):
            raise self.rule("the 3 x 3 window must fit into the padded image", str(x))
        return [LogicalTensor(form.sums, (x.plain_dims[0], u.plain_dims[2], *positions))]

    def _check_others(self, others: list[LogicalTensor], u: LogicalTensor) -> None:
        """One number of pixels for each, fewer and fewer, and weights of as many channels as u."""
        channels, outputs = u.plain_dims[1:]
        plain = F32 if u.dtype == F32 else S8
        known: list[tuple[DType, tuple[Any, ...]]] = [(plain, (outputs, channels, 3, 3))]
        known += [
            (u.dtype, (form.matmuls, channels, outputs))
            for form in FORMS.values()
            if form.results != self.results
        ]
        for other in others:
            if (other.dtype, other.plain_dims) not in known:
                rule = f"others must be u of another form or {plain}[O, C, 3, 3]"
                raise self.rule(rule, f"{other} for u {u}")
        if len(self.few) != len(others) or sorted(set(self.few), reverse=True) != list(self.few):
            rule = f"few must be {len(others)} numbers, one for each of the others, each less than the one before"
            raise self.rule(rule, str(list(self.few)))

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Compute the transforms and matmuls in float64, rounded once; the direct form if these are not finite."""
        x, u = (array.astype(np.float64) for array in inputs[:2])
        matrices = self.form.input_matrix(), self.form.output_matrix()
        if self.form.sums == S32:
            total = self._evaluate(x, u, *matrices).astype(np.int64).astype(np.int32)
            return [np.multiply(total, self.form.inverse, dtype=np.int32) >> self.form.shift]
        with np.errstate(all="ignore"):
            y = narrow(self._evaluate(x, u, *matrices), F32)
            finite = np.isfinite(y)
            if not finite.all():
                y = np.where(finite, y, narrow(self._direct(x, u), F32))
        return [y]

    def _direct(self, x: Array, u: Array) -> Array:
        """The convolution with the weights that u was made of."""
        (top, left), (bottom, right) = self.before, self.after
        (down, across), size = self.dilations, self.form.elements
        axis = np.zeros((3, size))
        for tap, terms in enumerate(self.form.weight_terms()):
            for element, factor in terms:
                axis[tap, element] = factor
        both = np.kron(axis, axis)
        taps = np.tensordot(both, u, 1)  # [9, C, O]
        taps[np.abs(taps) <= self.form.smallest_tap * np.tensordot(np.abs(both), np.abs(u), 1)] = 0
        padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        reach = 2 * down + 1, 2 * across + 1
        windows = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
        windows = windows[..., ::down, ::across]
        flat = windows.reshape(*windows.shape[:4], 9)
        return np.asarray(np.einsum("nchwt,tco->nohw", flat, taps))

    def error_scale(self, x: Array, u: Array) -> Array:
        """The base of relative rounding errors, float64: the same sums with all terms positive.

        Each element of a result computed in f32 is within (C + 24) * 2^-24 times this of the exact one: C roundings in
        a matmul, one of u, at most 8 in the transform of the input and 14 in that of the result, without fma.
        """
        matrices = self.form.input_matrix(), self.form.output_matrix()
        wide = (np.abs(array.astype(np.float64)) for array in (x, u, *matrices))
        return self._evaluate(*wide)

    def _evaluate(self, x: Array, u: Array, bt: Array, at: Array) -> Array:
        """A^T [U * (B^T d B)] A over all tiles, cut to the image; each phase of a dilated window by itself."""
        out, m = self.outputs[0].details.plain_dims, len(at)
        (top, left), steps = self.before, self.dilations
        whole = (m * step for step in steps)
        down, across = (-(-size // n) * n for size, n in zip(out[2:], whole, strict=True))
        padded = np.zeros((*x.shape[:2], down + 2 * steps[0], across + 2 * steps[1]))
        inside = padded[:, :, top : top + x.shape[2], left : left + x.shape[3]]
        inside[...] = x[:, :, : inside.shape[2], : inside.shape[3]]
        y = np.empty((*out[:2], down, across))
        for row, column in np.ndindex(*steps):
            phase = (..., slice(row, None, steps[0]), slice(column, None, steps[1]))
            y[phase] = _tiles_of(padded[phase], u, bt, at)
        return np.asarray(y[:, :, : out[2], : out[3]])

    def get_gflop(self) -> float:
        """Return the flops of the direct form, two per multiply-add, so that rates can be compared."""
        x = self.x.details.plain_dims
        return 2.0 * self.outputs[0].details.typical.elements * x[1] * 9 / 1e9
