"""`check_op`: one op against an independent formula, its computation or parts against its reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.base.dtypes import DType, by_name, from_numpy
from graphc.graph_ir.ir.computation import Computation, Index, Read, Reduction
from graphc.graph_ir.ir.graph import Array, Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.op_kinds import CompositeOp, FusibleOp
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.evaluate import compile_expr
from graphc.tensor_ir.nodes import Buffer, Cast, Var
from support.tolerance import assert_close

FLOATS = ("f64", "f32", "f16", "bf16")
SIGNED = ("s8", "s16", "s32", "s64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
ALL = (*NUMBERS, "bool")

SPECIAL_FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-3, -1e-3, 1e-30, 3.75, -7.25, 30.0),
    *(-30.0, 88.0, -88.0, 104.0, -104.0, 1000.0, np.inf, -np.inf, np.nan),
)


def random_array(dtype: DType | str, shape: Sequence[int], seed: int = 0) -> Array:
    """Values of either sign where there are any, away from overflow: floats in [-4, 4), integers in [-9, 9]."""
    kind = by_name(dtype) if isinstance(dtype, str) else dtype
    rng = np.random.default_rng(seed)
    if kind.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.is_float:
        return (rng.random(shape) * 8 - 4).astype(kind.numpy)
    return rng.integers(-9 if kind.is_signed else 0, 10, shape).astype(kind.numpy)


def special_values(dtype: str) -> Array:
    """The edge cases of a dtype."""
    kind = by_name(dtype)
    if kind.is_float:
        with np.errstate(all="ignore"):
            return np.array(SPECIAL_FLOATS).astype(kind.numpy)
    if kind.kind == "bool":
        return np.array([False, True])
    limits = np.iinfo(kind.numpy)
    low = [limits.min, limits.min + 1, -8, -7, -2, -1] if kind.is_signed else []
    return np.array([*low, 0, 1, 2, 3, 7, 8, limits.max - 1, limits.max], kind.numpy)


def pairs(dtype: str) -> tuple[Array, Array]:
    """Every pair of edge cases."""
    values = special_values(dtype)
    return values[:, None], values[None, :]


def make_op(op_name: str, arrays: Sequence[Array], attrs: dict[str, Any] | None = None) -> Op:
    """The op called "x" on inputs shaped like `arrays`."""
    graph = Graph()
    tensors = [
        graph.make_input(LogicalTensor(from_numpy(a.dtype), a.shape), f"in{i}")
        for i, a in enumerate(arrays)
    ]
    op = graph.make(op_name, tensors, attrs, "x")
    graph.make_output(op.outputs[0])
    return op


def check_op(
    op_name: str,
    arrays: Sequence[Array],
    attrs: dict[str, Any] | None = None,
    expected: Array | Callable[..., Any] | None = None,
    factor: float = 1.0,
) -> Array:
    """Check shape rule, reference and computation (or decomposition) of one op; returns the reference's result.

    `expected` is the result, or a function of the inputs, floats given as float64; `factor` scales the tolerance of the
    computation, which rounds after each step.
    """
    op = make_op(op_name, arrays, attrs)
    (reference,) = op.reference(list(arrays))
    details = op.outputs[0].details
    assert (reference.shape, from_numpy(reference.dtype)) == (details.plain_dims, details.dtype)
    if expected is not None:
        wanted = expected
        if callable(expected):
            wide = [
                a.astype(np.float64) if from_numpy(a.dtype).is_float else a.astype(a.dtype)
                for a in arrays
            ]
            with np.errstate(all="ignore"):
                wanted = np.asarray(expected(*wide)).astype(details.dtype.numpy)
        assert_close(reference, np.asarray(wanted, details.dtype.numpy))
    if isinstance(op, CompositeOp):
        assert_close(evaluate_parts(op, arrays), reference, factor)
    elif isinstance(op, FusibleOp):
        assert_close(evaluate_points(op, arrays), reference, factor)
    assert op.get_gflop() >= 0
    return reference


def evaluate_parts(op: CompositeOp, arrays: Sequence[Array]) -> Array:
    """Evaluate the decomposition of a composite op point by point."""
    graph = Graph()
    tensors = [graph.make_input(x.details, f"in{i}") for i, x in enumerate(op.inputs)]
    copy = graph.make(op.op_name, tensors, op.attrs, op.name)
    assert isinstance(copy, CompositeOp)
    before = len(graph.ops)
    (result,) = copy.decompose(graph)
    values = dict(zip(map(id, tensors), arrays, strict=True))
    for part in graph.ops[before:]:
        assert not isinstance(part, CompositeOp)
        inputs = [values[id(x)] for x in part.inputs]
        if isinstance(part, FusibleOp):
            value = evaluate_points(part, inputs)
        else:
            (value,) = part.reference(inputs)
        values[id(part.outputs[0])] = value
    assert result.details == op.outputs[0].details
    return values[id(result)]


def evaluate_points(op: FusibleOp, arrays: Sequence[Array]) -> Array:
    """The op's computation, element by element with the Tensor IR interpreter's arithmetic."""
    details = op.outputs[0].details
    env: dict[str, Any] = {}
    reads: list[Read] = []
    for i, array in enumerate(arrays):
        buffer = Buffer(f"in{i}", from_numpy(array.dtype), array.shape)
        env[buffer.name] = np.ascontiguousarray(array).reshape(-1)
        reads.append(_reader(buffer))
    point = _point_function(op.computation(), reads, details)
    result = np.empty(details.plain_dims, details.dtype.numpy)
    with np.errstate(all="ignore"):
        for index in np.ndindex(*details.plain_dims):
            result[index] = point({**env, **{f"i{axis}": i for axis, i in enumerate(index)}})
    return result


def _reader(buffer: Buffer) -> Read:
    wide = buffer.dtype.accumulator
    return lambda index: t.cast(buffer[index], wide)


def _point_function(
    computation: Computation, reads: list[Read], details: LogicalTensor
) -> Callable[[dict[str, Any]], Any]:
    index: Index = tuple(Var(f"i{axis}") for axis in range(details.rank))
    if not isinstance(computation, Reduction):
        value = computation.element(reads, index)
        assert value.dtype in (details.dtype, details.dtype.accumulator)
        return compile_expr(t.cast(value, details.dtype))
    element: Index = tuple(Var(f"r{axis}") for axis in range(len(computation.extents)))
    term = computation.element(reads, index, element)
    acc = Var("acc", term.dtype)
    step = compile_expr(t.binary(computation.combine, acc, term))
    last = computation.finish(acc)
    assert last.dtype in (details.dtype, details.dtype.accumulator)
    finish = compile_expr(last if last.dtype == details.dtype else Cast(last, details.dtype))

    def point(env: dict[str, Any]) -> Any:
        env["acc"] = compile_expr(t.const(computation.identity, term.dtype))(env)
        for r in itertools.product(*map(range, computation.extents)):
            env.update((f"r{axis}", i) for axis, i in enumerate(r))
            env["acc"] = step(env)
        return finish(env)

    return point
