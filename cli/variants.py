"""Every way an op of a model can run: one kernel per (op, layout, blocking), all in one program, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..dtypes import F32, U8
from ..graph_ir.compare import Difference, difference
from ..graph_ir.context import LowerContext
from ..graph_ir.graph import FormatChoice, Graph, GraphTensor, Op
from ..graph_ir.logical_tensor import LogicalTensor
from ..graph_ir.lower_matmul import matmul_blockings
from ..graph_ir.ops.matmul import MatmulCore
from ..graph_ir.passes.decompose import decompose
from ..tensor_ir import builder as t
from ..tensor_ir.nodes import Block, Buffer, Function, Invoke, Module, Slice

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Variant:
    """One way to run one op: its kernel, what to feed it (laid out), and what must come out (plain)."""

    op: str
    layout: str
    blocking: str
    function: Function
    inputs: tuple[Array, ...]
    output: LogicalTensor
    expected: Array
    exact: bool

    def check(self, result: Array) -> Difference:
        """Compare the kernel's output, in its layout, with the reference."""
        plain = self.output.format.unpack(result, self.output.plain_dims)
        return difference(plain, self.expected, self.exact)


def model_variants(graph: Graph, ctx: LowerContext) -> list[Variant]:
    """All variants of the distinct ops of a model, then of products of boundary sizes if it has products."""
    work = graph.copy()
    decompose(work, ctx)
    work.sort()
    seen: set[object] = set()
    variants: list[Variant] = []
    for op in work.ops:
        if op.kind in ("source", "sink"):
            continue
        key = (op.op_name, repr(op.attrs), tuple(str(x.details) for x in op.inputs))
        if key not in seen:
            seen.add(key)
            variants += list(op_variants(op, ctx))
    if any(isinstance(op, MatmulCore) and op.is_tuned for op in work.ops):
        variants += list(_boundary_products(ctx))
    return variants


def op_variants(op: Op, ctx: LowerContext) -> Iterator[Variant]:
    """The op alone in every format choice and blocking it offers, on integer-filled inputs."""
    rng = np.random.default_rng(7)
    given = {x: _operand(x, rng) for x in dict.fromkeys(op.inputs)}
    arrays = [given[x] for x in op.inputs]
    (expected,) = op.reference(arrays)
    for choice in op.query_format(ctx):
        alone = _alone(op, choice)
        packed = tuple(x.details.format.pack(a) for x, a in zip(alone.inputs, arrays, strict=True))
        for blocking, context in _contexts(alone, ctx):
            (function,) = alone.get_func(context).functions
            yield Variant(
                f"{op.op_name} {op.name}", _layout_text(choice), blocking, function,
                _distinct(alone, packed), alone.outputs[0].details, expected, op.op_name == "matmul_core",
            )  # fmt: skip


def _contexts(op: Op, ctx: LowerContext) -> Iterator[tuple[str, LowerContext]]:
    if not (isinstance(op, MatmulCore) and op.is_tuned):
        yield "-", ctx
        return
    for blocking in matmul_blockings(op, ctx):
        yield str(blocking), replace(ctx, blockings={op.problem: blocking})


def _alone(op: Op, choice: FormatChoice) -> Op:
    """A graph of this op only, its operands in the formats of `choice`."""
    graph = Graph("alone")
    mapping: dict[GraphTensor, GraphTensor] = {}
    for tensor, fmt in zip(op.inputs, choice.inputs, strict=True):
        if tensor not in mapping:
            mapping[tensor] = graph.make_input(tensor.details.with_format(fmt), tensor.name)
    twin = graph.make(op.op_name, [mapping[x] for x in op.inputs], op.attrs, op.name)
    for tensor, fmt in zip(twin.outputs, choice.outputs, strict=True):
        tensor.details = tensor.details.with_format(fmt)
    return twin


def _operand(tensor: GraphTensor, rng: np.random.Generator) -> Array:
    """A constant as it is; anything else integers from -4 to 4 (0 to 4 unsigned), exact in every dtype."""
    producer = tensor.producer_owner
    if producer.op_name == "constant" and not tensor.details.dtype.is_float:
        return np.asarray(producer.attrs["value"])
    dtype = tensor.details.dtype
    low = -4 if dtype.is_signed else 0
    high = 2 if dtype.kind == "bool" else 5
    values = rng.integers(low, high, tensor.details.elements)
    first = rng.permutation(np.arange(low, high))[: values.size]
    values[: first.size] = first  # so that small tensors have values of either sign too
    return values.reshape(tensor.details.plain_dims).astype(dtype.numpy)


def _distinct(op: Op, arrays: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(dict(zip(op.inputs, arrays, strict=True)).values())


def _layout_text(choice: FormatChoice) -> str:
    inputs = ",".join(str(f) or "scalar" for f in choice.inputs)
    return f"{inputs}->{','.join(str(f) or 'scalar' for f in choice.outputs)}"


def _boundary_products(ctx: LowerContext) -> Iterator[Variant]:
    """Products whose sizes lie around the tile: the tails of every register tile of the ISA, A and B transposed too."""
    for tile in ctx.target.table.gemm_tiles:
        columns = tile.columns(ctx.target)
        for m in (1, tile.rows - 1, tile.rows + 1):
            for n, k in ((1, 5), (columns - 1, 1), (columns + 1, 7)):
                op = _product(m, n, k, {})
                for variant in op_variants(op, ctx):
                    if variant.blocking.startswith(f"mr{tile.rows}nv{tile.vectors} "):
                        yield variant
                        break
    for attrs in ({"transpose_a": True}, {"transpose_b": True}):
        yield next(op_variants(_product(7, 17, 5, attrs), ctx))


def _product(m: int, n: int, k: int, attrs: dict[str, bool]) -> Op:
    graph = Graph("product")
    a = (k, m) if attrs.get("transpose_a") else (m, k)
    b = (n, k) if attrs.get("transpose_b") else (k, n)
    operands = [
        graph.make_input(LogicalTensor(F32, dims), name) for name, dims in (("a", a), ("b", b))
    ]
    return graph.make("matmul_core", operands, attrs, f"{m}x{n}x{k}")


def program(variants: Sequence[Variant]) -> Module:
    """One module that runs every variant: inputs of all of them in order, then an output each."""
    functions: dict[Function, Function] = {}
    inputs: list[Buffer] = []
    outputs: list[Buffer] = []
    steps: list[Invoke] = []
    for number, variant in enumerate(variants):
        anonymous = replace(variant.function, name="", note="")
        function = functions.setdefault(
            anonymous, replace(variant.function, name=f"v{number}_{variant.function.name}")
        )
        own = [
            Buffer(f"x{len(inputs) + i}", p.dtype, p.shape)
            for i, p in enumerate(function.params[:-1])
            if isinstance(p, Buffer)
        ]
        result = function.params[-1]
        assert isinstance(result, Buffer)
        inputs += own
        outputs.append(Buffer(f"y{number}", result.dtype, result.shape))
        steps.append(Invoke(function.name, tuple(_start(b) for b in (*own, outputs[-1]))))
    sections = (Buffer("constants", U8, (0,)), Buffer("arena", U8, (0,)))
    main = Function("main", (*inputs, *outputs, *sections), Block(tuple(steps)))
    return Module((*functions.values(), main), "main")


def _start(buffer: Buffer) -> Slice:
    return Slice(buffer, tuple(t.as_expr(0) for _ in buffer.shape))
