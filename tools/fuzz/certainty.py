"""The certainty of the value of each tensor of a graph before it is computed: how exact a result must be.

EXACT values have one right bit pattern (a zero may have either sign): inputs, moved values, integers, and arithmetic
of integers so small that no order of summation rounds. ROUGH values are right within a bound. If a rough value
decides something (a comparison, a rounding, an index), all values that depend on it are UNKNOWN: a difference there
says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Flag, IntEnum, auto
from itertools import pairwise

import numpy as np

from ...base.dtypes import F64, DType
from ...graph_ir.ir.graph import Array, Graph, Op
from ...graph_ir.ops.control import Case, While
from ...graph_ir.ops.convolution import Convolution
from ...graph_ir.ops.elementwise import Elementwise
from .. import drift
from ..rebuild import all_values


class Certainty(IntEnum):
    """Certainty of a value, from most to least."""

    EXACT = 0
    ROUGH = 1
    UNKNOWN = 2


class Freedom(Flag):
    """Differences that implementations may have: convolutions in Winograd's form, which rounds; a largest or least
    number of several that is not NaN where one of them is, and a mean of no numbers, which ONNX leaves undefined."""

    NONE = 0
    WINOGRAD = auto()
    NAN = auto()


CHOOSING = frozenset((
    "arg_max", "arg_min", "clamp", "cum_max", "cum_min", "max", "max_pool", "max_pool_indices", "min", "min_pool",
    "reduce_max", "reduce_min", "relu", "scatter", "scatter_elements",
))  # fmt: skip
"""Ops that choose among numbers by comparing them."""

MOVING = drift.MOVING | {
    "cum_max", "cum_min", "im2col", "scatter", "scatter_elements", "update_in_place", "update_slice",
}  # fmt: skip
"""Results are operands or their negatives: no rounding, and a small change of an operand changes little."""

DECIDING = frozenset((
    "arg_max", "arg_min", "bitcast", "byte_table", "ceil", "eq", "floor", "ge", "gt", "isinf", "isnan", "le", "lt",
    "max_pool_indices", "mod", "ne", "quantize", "round", "round_saturate", "sign",
    "top_k", "tree_ensemble", "trunc",
))  # fmt: skip
"""A small change of an operand may change the result by any amount; of exact operands the result is exact."""

SUMMING = frozenset((
    "add", "convolution", "convolution_transpose", "cum_prod", "cum_sum", "depthwise_convolution",
    "direct_convolution", "matmul_core", "mul", "prod_pool", "reduce_l1", "reduce_prod", "reduce_sum",
    "reduce_sum_square", "square", "sub", "sum_pool",
))  # fmt: skip
"""Sums and multiplications: exact on integers as long as the same of their sizes stays small."""

ROUNDED_AT_ONCE = frozenset(("add", "mul", "sub"))
"""Ops on floats of less than 16 bits with one rounded result; any other result is at least a step away."""

MULTIPLYING = frozenset(("cum_prod", "prod_pool", "reduce_prod"))
"""Multiplications in any order: some of the factors may overflow before a zero is met."""

SIGN_OF_ZERO = frozenset(("atan2", "bitcast", "div", "pow", "reciprocal", "rsqrt"))
"""The sign of a zero operand, which no one promises, changes the result."""


STEEP = 4.0
"""Tangents of this size are less than a quarter from a pole."""

WEIGHING = frozenset(("batch_norm", "convolution_transpose", "resize"))
"""Multiply by zeros of their own, in one form or another: what is not finite may come out as NaN or not. Convolutions
do so with weights on padding."""


def certainties(graph: Graph, arrays: Sequence[Array], freedom: Freedom) -> list[Certainty]:
    """Return the certainty of each result."""
    return _walk(graph, arrays, [Certainty.EXACT] * len(arrays), freedom)[1]


def _walk(
    graph: Graph, arrays: Sequence[Array], known: Sequence[Certainty], freedom: Freedom
) -> tuple[list[Array], list[Certainty]]:
    def run(op: Op, operands: list[tuple[Array, Certainty]]) -> list[tuple[Array, Certainty]]:
        if op.kind == "source":
            return [(op.reference([])[0], Certainty.EXACT)]
        found = _op(op, [x[0] for x in operands], [x[1] for x in operands], freedom)
        return list(zip(*found, strict=True))

    values = all_values(graph, zip(arrays, known, strict=True), run)
    results = [values[op.inputs[0]] for op in graph.outputs]
    return [y[0] for y in results], [y[1] for y in results]


def _op(
    op: Op, arrays: list[Array], known: list[Certainty], freedom: Freedom
) -> tuple[list[Array], list[Certainty]]:
    with np.errstate(all="ignore"):
        if isinstance(op, Case):
            return _case(op, arrays, known, freedom)
        if isinstance(op, While):
            return _while(op, arrays, known, freedom)
        results = op.reference(arrays)
        worst = max(known, default=Certainty.EXACT)
        if worst == Certainty.UNKNOWN:
            return results, [Certainty.UNKNOWN] * len(results)
        one = _of_op(op, arrays, results, worst, freedom)
    return results, [one] * len(results)


def _case(
    op: Case, arrays: list[Array], known: list[Certainty], freedom: Freedom
) -> tuple[list[Array], list[Certainty]]:
    index = int(arrays[0])
    branch = op.branches[index if 0 <= index < len(op.branches) else -1]
    values, found = _walk(branch, arrays[1:], known[1:], freedom)
    return values, [max(c, _decided(known[0])) for c in found]


def _while(
    op: While, arrays: list[Array], known: list[Certainty], freedom: Freedom
) -> tuple[list[Array], list[Certainty]]:
    count = op.carried
    fixed, fixed_known = arrays[count:], known[count:]
    state, state_known = arrays[:count], known[:count]
    while True:
        values, all_known = [*state, *fixed], [*state_known, *fixed_known]
        (more,), (sure,) = _walk(op.condition, values, all_known, freedom)
        state_known = [max(c, _decided(sure)) for c in state_known]
        if not more:
            return state, state_known
        state, found = _walk(op.body, values, all_known, freedom)
        state_known = [max(c, _decided(sure)) for c in found]


def _decided(known: Certainty) -> Certainty:
    return Certainty.EXACT if known == Certainty.EXACT else Certainty.UNKNOWN


def _of_op(
    op: Op, arrays: list[Array], results: list[Array], worst: Certainty, freedom: Freedom
) -> Certainty:
    """EXACT or ROUGH operands to what is known of the results."""
    floats = [x.details.dtype for x in (*op.inputs, *op.outputs) if x.details.dtype.is_float]
    if not floats:
        return worst
    if Freedom.NAN in freedom and _is_undefined(op, arrays):
        return Certainty.UNKNOWN
    if op.op_name in SIGN_OF_ZERO and any(
        (a == 0).any() and x.producer_owner.kind != "source" and x.details.dtype.is_float
        for a, x in zip(arrays, op.inputs, strict=True)
    ):
        return Certainty.UNKNOWN
    if op.op_name == "cast":
        exact = worst == Certainty.EXACT
        rounds = op.outputs[0].details.dtype.is_float
        return worst if exact or rounds else Certainty.UNKNOWN
    if op.op_name == "quantize" and not _rounds_surely(*arrays[:2]):
        return Certainty.UNKNOWN
    if op.op_name in DECIDING:
        return _decided(worst)
    if op.op_name in MOVING and _reduction(op) in ("none", "min", "max"):
        return worst if "body" not in op.attrs else Certainty.UNKNOWN
    if all(dtype.bits < 16 for dtype in floats) and op.op_name in ROUNDED_AT_ONCE:
        return _decided(worst)
    if _sums_exactly(op, arrays, worst, freedom):
        return Certainty.EXACT
    vague = _overflows(arrays, results, worst)
    vague = vague or _is_huge(op, arrays)
    vague = vague or (worst == Certainty.ROUGH and _is_next_to_a_pole(op, results))
    vague = vague or (op.op_name in MULTIPLYING and not _is_finite(_sizes(op, arrays)))
    vague = vague or not all(_is_finite(a) for a in _weighed(op, arrays))
    return Certainty.UNKNOWN if vague else Certainty.ROUGH


def _is_undefined(op: Op, arrays: list[Array]) -> bool:
    """Return whether a result is a choice among numbers with a NaN, or a mean of none."""
    if op.op_name in CHOOSING:
        return any(map(_has_nan, arrays))
    return op.op_name == "reduce_mean" and not arrays[0].size


def _is_next_to_a_pole(op: Op, results: list[Array]) -> bool:
    """Return whether the sign of a tangent is chance where its operand is rough."""
    return op.op_name == "tan" and bool(np.any(np.abs(results[0].astype(np.float64)) > STEEP))


def _sums_exactly(op: Op, arrays: list[Array], worst: Certainty, freedom: Freedom) -> bool:
    if op.op_name not in SUMMING or worst != Certainty.EXACT:
        return False
    if Freedom.WINOGRAD in freedom and _may_be_winograd(op):
        return False
    if not all(_is_whole(a) for a in arrays):
        return False
    sizes = _sizes(op, arrays)
    if op.op_name == "sub":
        sizes = np.abs(arrays[0].astype(np.float64)) + np.abs(arrays[1].astype(np.float64))
    return bool(np.max(sizes, initial=0) <= _whole_limit(op.outputs[0].details.dtype))


def _sizes(op: Op, arrays: list[Array]) -> Array:
    """Return the op applied to the sizes of its operands; for multiplications, an upper bound over all orders
    and subsets."""
    least = 1 if op.op_name in MULTIPLYING else 0
    return op.reference([np.maximum(np.abs(a), a.dtype.type(least)) for a in arrays])[0].astype(
        np.float64
    )


def _is_whole(array: Array) -> bool:
    wide = array.astype(np.float64)
    return bool(np.isfinite(wide).all() and (wide == np.trunc(wide)).all())


def _whole_limit(dtype: DType) -> float:
    """Integers up to this are all values of the float type."""
    return 2.0 ** dtype.range[0]


def _overflows(arrays: list[Array], results: list[Array], worst: Certainty) -> bool:
    """Return whether a bound may be crossed where another rounding does not cross it: infinities and NaN of
    rough numbers."""
    return worst == Certainty.ROUGH and not all(_is_finite(y) for y in (*arrays, *results))


def _is_huge(op: Op, arrays: list[Array]) -> bool:
    """Return whether squares and sums of the operands may overflow before they cancel, which float64 would
    not notice."""
    if isinstance(op, Elementwise):
        return False
    largest = 1e70 if op.inputs[0].details.dtype == F64 else 1e9
    wide = (np.abs(a.astype(np.float64)) for a in arrays)
    return any(bool((np.isfinite(a) & (a > largest)).any()) for a in wide)


def _weighed(op: Op, arrays: list[Array]) -> list[Array]:
    """Return the operands that the op may multiply by zeros of padding."""
    if isinstance(op, Convolution):
        return arrays[1:] if op.window.is_padded else []
    return arrays if op.op_name in WEIGHING else []


def _rounds_surely(x: Array, scale: Array) -> bool:
    """Return whether no quotient is so near the middle of two integers that the last place of a division decides."""
    quotient = x.astype(np.float64) / scale.astype(np.float64)
    apart = np.abs(quotient - np.floor(quotient) - 0.5)
    decided = (
        (apart > 1e-6 * np.maximum(np.abs(quotient), 1)) | (apart == 0) | (np.abs(quotient) > 1e6)
    )
    return bool((decided | ~np.isfinite(quotient)).all())


def _may_be_winograd(op: Op) -> bool:
    if not isinstance(op, Convolution):
        return False
    return any(pair == (3, 3) for pair in pairwise(op.inputs[1].details.plain_dims[2:]))


def _has_nan(array: Array) -> bool:
    return bool(np.isnan(array.astype(np.float64)).any())


def _is_finite(array: Array) -> bool:
    return bool(np.isfinite(array.astype(np.float64)).all())


def _reduction(op: Op) -> str:
    """Return the reduction with which an op that moves elements combines them; "" for most."""
    return op.attr("reduction") if "reduction" in op.schema.attributes else "none"
