"""Graph to readable dump. The text is lossy by design: shapes of inputs and long constants are not in it."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import numpy as np

from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Array, Graph, Op
from .contraction import REDUCTIONS
from .document import Dump, Reference, TypeName
from .dump_builder import DumpBuilder, Emit, InexpressibleError
from .elementwise import BINARY, UNARY
from .enumerations import dtype_number
from .export_normalize import EMITTERS as NORMALIZE
from .export_windows import EMITTERS as WINDOWS
from .printer import print_ge


def write_ge(graph: Graph, *, full: bool = False) -> str:
    """Text of a graph as a GE readable dump. `full`: constants are not elided, though floats keep 6 decimals.

    With `dump_constants` and the types of the inputs, `load_ge` gives the graph back. UnsupportedError names all ops
    that GE has no node for.
    """
    return print_ge(to_dump(graph), full=full)


def to_dump(graph: Graph) -> Dump:
    """The dump of a graph, before it is printed."""
    return _build(graph).dump()


def dump_constants(graph: Graph) -> dict[str, Array]:
    """The exact values of the constants of the dump of a graph, by node name: what `load_ge` takes as `constants`."""
    return _build(graph).constants


def _build(graph: Graph) -> DumpBuilder:
    builder = DumpBuilder(graph)
    unknown: Counter[str] = Counter()
    for op in graph.ops:
        emit = EMITTERS.get(op.op_name)
        try:
            if emit is None:
                unknown[op.op_name] += 1
                _placeholder(builder, op)
            else:
                emit(builder, op)
        except InexpressibleError as error:
            unknown[f"{op.op_name} with {error}"] += 1
            _placeholder(builder, op)
    if unknown:
        counted = ", ".join(f"{name} ({count}x)" for name, count in sorted(unknown.items()))
        raise UnsupportedError(f"graph '{graph.name}': GE has no node for these ops: {counted}")
    return builder


def _placeholder(builder: DumpBuilder, op: Op) -> None:
    for index, tensor in enumerate(op.outputs):
        builder.references[tensor] = Reference(op.name, index)


def _input(builder: DumpBuilder, op: Op) -> None:
    builder.emit(op, "Data", {}, index=builder.inputs)
    builder.inputs += 1


def _constant(builder: DumpBuilder, op: Op) -> None:
    value = np.asarray(op.attrs["value"])
    builder.references[op.outputs[0]] = builder.constant(value, op.name)


def _output(builder: DumpBuilder, op: Op) -> None:
    builder.results.append(builder.references[op.inputs[0]])


def _named(type_name: str, *names: str, **fixed: str) -> Emit:
    """A node whose attributes are those of the op: `fixed` maps GE's names to ours."""

    def emit(builder: DumpBuilder, op: Op) -> None:
        defaults: dict[str, Any] = getattr(getattr(op, "row", None), "attrs", {})
        attrs = {key: op.attrs.get(own, defaults.get(own)) for key, own in fixed.items()}
        builder.emit(op, type_name, builder.operands(op, *names), **attrs)

    return emit


def _div(builder: DumpBuilder, op: Op) -> None:
    is_float = op.inputs[0].details.dtype.is_float
    integer = "Div" if op.attrs.get("rounding") == "trunc" else "FloorDiv"
    builder.emit(op, "RealDiv" if is_float else integer, builder.operands(op, "x1", "x2"))


def _mod(builder: DumpBuilder, op: Op) -> None:
    name = "Mod" if op.attrs.get("sign") == "trunc" else "FloorMod"
    builder.emit(op, name, builder.operands(op, "x1", "x2"))


def _logical(type_name: str) -> Emit:
    def emit(builder: DumpBuilder, op: Op) -> None:
        if op.inputs[0].details.dtype.kind != "bool":
            raise InexpressibleError("integers")
        names = ("x1", "x2") if len(op.inputs) == 2 else ("x",)
        builder.emit(op, type_name, builder.operands(op, *names))

    return emit


def _cast(builder: DumpBuilder, op: Op) -> None:
    number = dtype_number(op.outputs[0].details.dtype)
    builder.emit(op, "Cast", builder.operands(op, "x"), dst_type=number)


def _clamp(builder: DumpBuilder, op: Op) -> None:
    dtype = op.inputs[0].details.dtype
    bounds = {"min": op.attrs.get("min"), "max": op.attrs.get("max")}
    inputs = builder.operands(op, "x")
    for name, value in bounds.items():
        if value is None:
            if not dtype.is_float:
                raise InexpressibleError("one bound")
            value = -np.inf if name == "min" else np.inf
        inputs[f"clip_value_{name}"] = builder.const(
            np.asarray(value).astype(dtype.numpy), op, name
        )
    builder.emit(op, "ClipByValue", inputs)


def _gelu(builder: DumpBuilder, op: Op) -> None:
    tanh = op.attrs.get("approximate", "none") == "tanh"
    attrs = {} if tanh else {"approximate": "none"}
    builder.emit(op, "Gelu" if tanh else "GeluV2", builder.operands(op, "x"), **attrs)


def _selu(builder: DumpBuilder, op: Op) -> None:
    defaults = cast(Any, op).row.attrs
    alpha, gamma = (op.attrs.get(key, defaults[key]) for key in ("alpha", "gamma"))
    if (alpha, gamma) == (defaults["alpha"], defaults["gamma"]):
        builder.emit(op, "Selu", builder.operands(op, "x"))
    else:
        builder.emit(op, "Elu", builder.operands(op, "x"), alpha=alpha, scale=gamma)


def _with_shape(type_name: str, key: str) -> Emit:
    """Reshape, BroadcastTo and Transpose, whose shape or permutation is an input."""

    def emit(builder: DumpBuilder, op: Op) -> None:
        given = op.outputs[0].details.plain_dims if key == "shape" else op.attrs["perm"]
        inputs = builder.operands(op, "x")
        inputs[key] = builder.const(np.array(given, np.int64), op, key)
        builder.emit(op, type_name, inputs)

    return emit


def _concat(builder: DumpBuilder, op: Op) -> None:
    inputs = {f"x_{i}": builder.references[x] for i, x in enumerate(op.inputs)}
    builder.emit(op, "ConcatD", inputs, concat_dim=int(op.attrs.get("axis", 0)), N=len(inputs))


def _slice(builder: DumpBuilder, op: Op) -> None:
    starts, sizes = op.attrs["starts"], op.attrs["sizes"]
    steps = op.attrs.get("steps", (1,) * len(starts))
    inputs = builder.operands(op, "x")
    if all(step == 1 for step in steps):
        inputs["offsets"] = builder.const(np.array(starts, np.int64), op, "offsets")
        inputs["size"] = builder.const(np.array(sizes, np.int64), op, "size")
        builder.emit(op, "Slice", inputs)
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
    builder.emit(op, "StridedSlice", inputs, end_mask=mask)


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
    builder.emit(op, "PadV3", inputs, mode="circular" if mode == "wrap" else mode)


def _gather(builder: DumpBuilder, op: Op) -> None:
    inputs = builder.operands(op, "x", "indices")
    inputs["axis"] = builder.const(np.array(op.attrs.get("axis", 0), np.int64), op, "axis")
    builder.emit(op, "GatherV2", inputs)


def _top_k(builder: DumpBuilder, op: Op) -> None:
    inputs = builder.operands(op, "x")
    inputs["k"] = builder.const(np.array(op.attrs["k"], np.int64), op, "k")
    attrs = {"dim": op.attrs.get("axis", -1), "largest": bool(op.attrs.get("largest", True))}
    builder.node("TopKV2", op.name, inputs, {**attrs, "indices_dtype": 9}, outputs=2)
    for index, tensor in enumerate(op.outputs):
        builder.references[tensor] = Reference(op.name, index)


def _matmul(builder: DumpBuilder, op: Op) -> None:
    a, b = bool(op.attrs.get("transpose_a", False)), bool(op.attrs.get("transpose_b", False))
    inputs = builder.operands(op, "x1", "x2")
    if all(x.details.rank == 2 for x in op.inputs):
        builder.emit(op, "MatMul", inputs, transpose_x1=a, transpose_x2=b)
    else:
        builder.emit(op, "BatchMatMulV2", inputs, adj_x1=a, adj_x2=b)


def _reduce(type_name: str) -> Emit:
    def emit(builder: DumpBuilder, op: Op) -> None:
        axes = cast(Any, op).axes
        keep = bool(op.attrs.get("keep_dims", False))
        if not axes:
            builder.emit(op, "Identity", builder.operands(op, "x"))
        else:
            builder.emit(op, f"{type_name}D", builder.operands(op, "x"), axes=axes, keep_dims=keep)

    return emit


def _arg(type_name: str) -> Emit:
    def emit(builder: DumpBuilder, op: Op) -> None:
        if op.attrs.get("last"):
            raise InexpressibleError("last")
        axis = op.attrs.get("axis", 0) % op.inputs[0].details.rank
        inputs = builder.operands(op, "x")
        inputs["dimension"] = builder.const(np.array(axis, np.int64), op, "axis")
        if not op.attrs.get("keep_dims"):
            builder.emit(op, type_name, inputs, dtype=TypeName("DT_INT64"))
            return
        index = builder.part(op, type_name, inputs, dtype=TypeName("DT_INT64"))
        builder.emit(op, "Unsqueeze", {"x": index}, axes=(axis,))

    return emit


def _norm(p: int) -> Emit:
    def emit(builder: DumpBuilder, op: Op) -> None:
        axes, keep = cast(Any, op).axes, bool(op.attrs.get("keep_dims", False))
        if not axes:
            raise InexpressibleError("no axes")
        builder.emit(op, "LpNorm", builder.operands(op, "x"), p=p, axes=axes, keepdim=keep)

    return emit


def _softmax(type_name: str, name: str) -> Emit:
    def emit(builder: DumpBuilder, op: Op) -> None:
        builder.emit(op, type_name, builder.operands(op, name), axes=(op.attrs.get("axis", -1),))

    return emit


def _cumulative(type_name: str) -> Emit:
    def emit(builder: DumpBuilder, op: Op) -> None:
        flags = {key: bool(op.attrs.get(key, False)) for key in ("exclusive", "reverse")}
        builder.emit(
            op, type_name, builder.operands(op, "x"), axis=op.attrs.get("axis", 0), **flags
        )

    return emit


def _first_names(table: dict[str, str]) -> dict[str, str]:
    """Our name to GE's: the first of several spellings."""
    return {own: name for name, own in reversed(table.items())}


EMITTERS: dict[str, Emit] = {
    **{own: _named(name, "x") for own, name in _first_names(UNARY).items()},
    **{own: _named(name, "x1", "x2") for own, name in _first_names(BINARY).items()},
    **{own: _reduce(f"Reduce{name}") for name, own in REDUCTIONS.items()},
    "input": _input, "constant": _constant, "output": _output, "div": _div, "mod": _mod,
    "and": _logical("LogicalAnd"), "or": _logical("LogicalOr"), "not": _logical("LogicalNot"), "cast": _cast,
    "clamp": _clamp, "gelu": _gelu, "selu": _selu, "exp": _named("Exp", "x"), "log": _named("Log", "x"),
    "silu": _named("Swish", "x"), "copy": _named("Identity", "x"),
    "elu": _named("Elu", "x", alpha="alpha"), "leaky_relu": _named("LeakyRelu", "x", negative_slope="alpha"),
    "hard_sigmoid": _named("HardSigmoid", "input_x", alpha="alpha", beta="beta"),
    "prelu": _named("PRelu", "x", "weight"), "select": _named("SelectV2", "condition", "then", "else"),
    "reshape": _with_shape("Reshape", "shape"), "broadcast": _with_shape("BroadcastTo", "shape"),
    "transpose": _with_shape("Transpose", "perm"), "concat": _concat, "slice": _slice, "pad": _pad,
    "gather": _gather, "gather_elements": _named("GatherElements", "x", "index", dim="axis"),
    "scatter_elements": _named("ScatterElements", "data", "indices", "updates", axis="axis", reduction="reduction"),
    "reduce_l1": _norm(1), "reduce_l2": _norm(2), "top_k": _top_k,
    "matmul_core": _matmul, "arg_max": _arg("ArgMaxV2"), "arg_min": _arg("ArgMin"),
    "softmax": _softmax("SoftmaxV2", "x"), "log_softmax": _softmax("LogSoftmaxV2", "logits"),
    "cum_sum": _cumulative("CumsumD"), "cum_prod": _cumulative("CumprodD"), **WINDOWS, **NORMALIZE,
}  # fmt: skip
"""Our op to how it is written."""
