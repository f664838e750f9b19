"""Sources, results, products, and ops that move or pick elements, as GE nodes."""

from __future__ import annotations

import numpy as np

from ...graph_ir.ir.graph import Op
from .dump_builder import DumpBuilder, Emit


def _input(builder: DumpBuilder, op: Op) -> None:
    builder.whole(op, "Data", {}, index=builder.inputs)
    builder.inputs += 1


def _constant(builder: DumpBuilder, op: Op) -> None:
    value = np.asarray(op.attrs["value"])
    builder.references[op.outputs[0]] = builder.constant(value, op.name)


def _output(builder: DumpBuilder, op: Op) -> None:
    builder.results.append(builder.references[op.inputs[0]])


def _with_shape(type_name: str, key: str) -> Emit:
    """Reshape, BroadcastTo and Transpose, whose shape or permutation is an input."""

    def emit(builder: DumpBuilder, op: Op) -> None:
        given = op.outputs[0].details.plain_dims if key == "shape" else op.attrs["perm"]
        inputs = builder.operands(op, "x")
        inputs[key] = builder.const(np.array(given, np.int64), op, key)
        builder.whole(op, type_name, inputs)

    return emit


def _concat(builder: DumpBuilder, op: Op) -> None:
    inputs = {f"x_{i}": builder.references[x] for i, x in enumerate(op.inputs)}
    builder.whole(op, "ConcatD", inputs, concat_dim=int(op.attrs.get("axis", 0)), N=len(inputs))


def _slice(builder: DumpBuilder, op: Op) -> None:
    starts, sizes = op.attrs["starts"], op.attrs["sizes"]
    steps = op.attrs.get("steps", (1,) * len(starts))
    inputs = builder.operands(op, "x")
    if all(step == 1 for step in steps):
        inputs["offsets"] = builder.const(np.array(starts, np.int64), op, "offsets")
        inputs["size"] = builder.const(np.array(sizes, np.int64), op, "size")
        builder.whole(op, "Slice", inputs)
        return
    ends = [start + step * size for start, step, size in zip(starts, steps, sizes, strict=True)]
    # An end before the first element would count from the back: the mask says "as far as it goes".
    mask = sum(
        1 << axis
        for axis, (end, size) in enumerate(zip(ends, sizes, strict=True))
        if end < 0 and size
    )
    for name, values in (("begin", starts), ("end", ends), ("strides", steps)):
        inputs[name] = builder.const(np.array(values, np.int64), op, name)
    builder.whole(op, "StridedSlice", inputs, end_mask=mask)


def _pad(builder: DumpBuilder, op: Op) -> None:
    mode = op.attrs.get("mode", "constant")
    pairs = zip(op.attrs["before"], op.attrs["after"], strict=True)
    inputs = builder.operands(op, "x")
    inputs["paddings"] = builder.const(
        np.array(list(pairs), np.int64).reshape(-1, 2), op, "paddings"
    )
    if mode == "constant":
        value = np.asarray(op.attrs.get("value", 0)).astype(op.inputs[0].details.dtype.numpy)
        inputs["constant_values"] = builder.const(value, op, "value")
    builder.whole(op, "PadV3", inputs, mode="circular" if mode == "wrap" else mode)


def _gather(builder: DumpBuilder, op: Op) -> None:
    inputs = builder.operands(op, "x", "indices")
    inputs["axis"] = builder.const(np.array(op.attrs.get("axis", 0), np.int64), op, "axis")
    builder.whole(op, "GatherV2", inputs)


def _gather_elements(builder: DumpBuilder, op: Op) -> None:
    builder.whole(
        op, "GatherElements", builder.operands(op, "x", "index"), dim=op.attrs.get("axis", 0)
    )


def _scatter_elements(builder: DumpBuilder, op: Op) -> None:
    inputs = builder.operands(op, "data", "indices", "updates")
    attrs = {
        key: op.attrs.get(key, default) for key, default in (("axis", 0), ("reduction", "none"))
    }
    builder.whole(op, "ScatterElements", inputs, **attrs)


def _top_k(builder: DumpBuilder, op: Op) -> None:
    inputs = builder.operands(op, "x")
    inputs["k"] = builder.const(np.array(op.attrs["k"], np.int64), op, "k")
    attrs = {"dim": op.attrs.get("axis", -1), "largest": bool(op.attrs.get("largest", True))}
    builder.whole(op, "TopKV2", inputs, **attrs, indices_dtype=9)


def _matmul(builder: DumpBuilder, op: Op) -> None:
    a, b = bool(op.attrs.get("transpose_a", False)), bool(op.attrs.get("transpose_b", False))
    inputs = builder.operands(op, "x1", "x2")
    if all(x.details.rank == 2 for x in op.inputs):
        builder.whole(op, "MatMul", inputs, transpose_x1=a, transpose_x2=b)
    else:
        builder.whole(op, "BatchMatMulV2", inputs, adj_x1=a, adj_x2=b)


EMITTERS: dict[str, Emit] = {
    "input": _input, "constant": _constant, "output": _output,
    "reshape": _with_shape("Reshape", "shape"), "broadcast": _with_shape("BroadcastTo", "shape"),
    "transpose": _with_shape("Transpose", "perm"), "concat": _concat, "slice": _slice, "pad": _pad,
    "gather": _gather, "gather_elements": _gather_elements, "scatter_elements": _scatter_elements, "top_k": _top_k,
    "matmul_core": _matmul,
}  # fmt: skip
"""Ops of this file to how they are written."""
