"""Variants of ops as one native program: each is run, compared and timed separately."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import Any

import numpy as np

from ..base.aligned_memory import ALIGNMENT
from ..base.dims import evaluate
from ..base.dtypes import S64, U8
from ..base.records import dataclass
from ..codegen.kernel_parts import link, split_program
from ..codegen.kernel_pool import KernelPool
from ..driver.artifact import support_object
from ..graph_ir.inspect.compare import Difference
from ..graph_ir.schedule.context import LowerContext
from ..runtime.artifact import Artifact
from ..runtime.executor import CompiledModel
from ..runtime.metadata import Metadata, TensorSpec
from ..tensor_ir import builder as t
from ..tensor_ir.nodes import Block, Buffer, Function, If, Invoke, Module, Slice, Stmt, Var
from ..tensor_ir.sizes import size_of
from ..tensor_ir.without_tiles import uses_tiles
from .variants import Variant

SELECT = "graphc.select"
NONE = -1  # selects no variant: times the call itself
ROUNDS = 15
SAMPLE_SECONDS = 2e-4


@dataclass(frozen=True)
class Trial:
    """A variant that was run: its difference to the reference, and the seconds of a call (None: not timed)."""

    variant: Variant
    difference: Difference
    seconds: float | None


def try_variants(
    variants: Sequence[Variant], ctx: LowerContext, pool: KernelPool | None = None
) -> list[Trial]:
    """Compile the variants to one program, run each once to compare it, and time those that are to be timed.

    The processes of `pool` compile; without one, this one does.
    """
    inputs, outputs = _arrays(variants)
    select = np.full(1, NONE, np.int64)
    with CompiledModel(
        artifact(variants, ctx, pool or KernelPool(1)), ctx.options.threads
    ) as model:
        fed = {spec.name: a for spec, a in zip(model.inputs, (*inputs, select), strict=True)}
        call = model.bind(fed, outputs)
        differences = []
        rest = iter(outputs)
        for number, variant in enumerate(variants):
            select[0] = number
            call()
            differences.append(variant.check(list(islice(rest, len(variant.outputs)))))
        timed = [i for i, variant in enumerate(variants) if variant.timed]
        seconds = _seconds(call, select, timed) if timed else {}
    return [
        Trial(variant, found, seconds.get(i))
        for i, (variant, found) in enumerate(zip(variants, differences, strict=True))
    ]


def _arrays(variants: Sequence[Variant]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    # Constants are views of the model's file, where they begin at any byte.
    inputs = [np.require(a, None, ("C", "A")) for variant in variants for a in variant.inputs]
    outputs = [np.zeros(y.physical_dims, y.dtype.numpy) for v in variants for y in v.outputs]
    return inputs, outputs


def _seconds(
    call: Callable[[], int], select: np.ndarray[Any, Any], numbers: Sequence[int]
) -> dict[int, float]:
    """Seconds of each variant, minus those of an empty call: the best of interleaved rounds."""
    repeats: dict[int, int] = {}
    best: dict[int, float] = {}
    for turn in range(ROUNDS):
        for number in (NONE, *numbers):
            select[0] = number
            if turn == 0:
                once = _sample(call, 1)
                repeats[number] = max(1, min(500, int(SAMPLE_SECONDS / max(once, 1e-8))))
            taken = _sample(call, repeats[number])
            best[number] = min(taken, best.get(number, taken))
    return {number: max(best[number] - best[NONE], 1e-9) for number in numbers}


def _sample(call: Callable[[], int], repeats: int) -> float:
    call()  # wakes the threads and warms the caches
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def artifact(variants: Sequence[Variant], ctx: LowerContext, pool: KernelPool) -> Artifact:
    """The program of all variants, compiled by the processes of a pool."""
    module = program(variants)
    parts = split_program(module)
    code = link(parts, pool.compile(parts, ctx.target, ctx.options.verify))
    main = module.function(module.entry)
    specs = [TensorSpec(p.name, p.dtype, p.shape) for p in main.params if isinstance(p, Buffer)]
    results = [y for variant in variants for y in variant.outputs]
    count = len(specs) - len(results) - 2
    select = TensorSpec(SELECT, S64, (1,))
    inputs = (*_plain(variants, specs[: count - 1]), select)
    outputs = tuple(TensorSpec(f"y{i}", y.dtype, y.physical_dims) for i, y in enumerate(results))
    arena = specs[-1].shape[0]
    has_tiles = any(map(uses_tiles, module.functions))
    metadata = Metadata("verify", inputs, outputs, arena, ctx.target.isa, uses_tiles=has_tiles)
    return Artifact(metadata, np.empty(0, np.uint8), code, support_object())


def _plain(variants: Sequence[Variant], specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """Inputs with the shapes of their arrays: kernels see matrices as one axis."""
    arrays = [a for variant in variants for a in variant.inputs]
    return [replace(spec, shape=a.shape) for spec, a in zip(specs, arrays, strict=True)]


def program(variants: Sequence[Variant]) -> Module:
    """One module that runs the variant `select` names: inputs of all in order, `select`, then outputs of all."""
    functions: dict[Function, Function] = {}
    inputs: list[Buffer] = []
    outputs: list[Buffer] = []
    calls: list[Invoke] = []
    arena = Buffer("arena", U8, (max((_blocks(one)[-1] for one in variants), default=0),))
    for number, variant in enumerate(variants):
        anonymous = replace(variant.function, name="", note="")
        function = functions.setdefault(
            anonymous, replace(variant.function, name=f"v{number}_{variant.function.name}")
        )
        buffers = [p for p in function.params if isinstance(p, Buffer)]
        count = len(variant.inputs)
        results = buffers[count : count + len(variant.outputs)]
        read = _renamed("x", len(inputs), buffers[:count], variant.sizes)
        written = _renamed("y", len(outputs), results, variant.sizes)
        workspace = [Slice(arena, (t.as_expr(at),)) for at in _blocks(variant)[:-1]]
        inputs += read
        outputs += written
        names = [p.name.removeprefix(t.SIZE_PREFIX) for p in function.params if isinstance(p, Var)]
        sizes = [t.as_expr(variant.sizes[name]) for name in names]
        calls.append(Invoke(function.name, (*map(_start, (*read, *written)), *workspace, *sizes)))
    select = Buffer(f"x{len(inputs)}", S64, (1,))
    sections = (Buffer("constants", U8, (0,)), arena)
    steps: list[Stmt] = [
        If(t.equal(t.load(select, [0]), t.as_expr(number)), call)
        for number, call in enumerate(calls)
    ]
    main = Function("main", (*inputs, select, *outputs, *sections), Block(tuple(steps)))
    return Module((*functions.values(), main), "main")


def _renamed(
    letter: str, first: int, buffers: Sequence[Buffer], sizes: Mapping[str, int]
) -> list[Buffer]:
    """Operands of the program: `x4`, `x5`, ... for those of a kernel."""
    return [
        Buffer(f"{letter}{number}", buffer.dtype, _shape(buffer, sizes))
        for number, buffer in enumerate(buffers, first)
    ]


def _shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an operand, with numbers for dynamic dimensions."""
    return tuple(evaluate(size_of(one), sizes) for one in buffer.shape)


def _blocks(variant: Variant) -> list[int]:
    """Return the offset of each block of a kernel's workspace in the arena, and the size of all."""
    buffers = [p for p in variant.function.params if isinstance(p, Buffer)]
    blocks = buffers[len(variant.inputs) + len(variant.outputs) :]
    sizes = (-(-x.elements * x.dtype.size // ALIGNMENT) * ALIGNMENT for x in blocks)
    return [*accumulate(sizes, initial=0)]


def _start(buffer: Buffer) -> Slice:
    return Slice(buffer, tuple(t.as_expr(0) for _ in buffer.shape))
