"""Variants in one program: each is run alone, compared, and timed where a cost was predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphc.base.options import CompileOptions
from graphc.codegen.kernel_pool import KernelPool
from graphc.graph_ir.schedule.context import LowerContext
from graphc.tools.variant_program import program, try_variants
from graphc.tools.variants import op_variants
from support.isa import host_target
from support.lowered import build


def test_each_variant_is_checked_and_timed_alone() -> None:
    ctx = LowerContext(host_target("generic"), CompileOptions(1))
    graph = build(
        {"a": (9, 5), "b": (5, 20), "s": ()},
        lambda make, x: make("add", make("matmul_core", x["a"], x["b"]), x["s"]),
    )
    found = [
        v for op in graph.ops if op.kind not in ("source", "sink") for v in op_variants(op, ctx)
    ]
    wrong = replace(found[1], expected=(found[1].expected[0] + 1,))
    trials = try_variants([found[0], wrong, *found[2:]], ctx)
    assert [trial.difference.ok for trial in trials] == [True, False, *[True] * (len(found) - 2)]
    for trial in trials:
        assert (trial.seconds is None) == (trial.variant.predicted is None)
        assert trial.seconds is None or 0 < trial.seconds < 1


def test_equal_kernels_are_compiled_once() -> None:
    ctx = LowerContext(host_target("generic"), CompileOptions(1))
    graph = build({"x": (4,)}, lambda make, x: make("relu", x["x"]))
    (variant,) = op_variants(graph.ops[-2], ctx)
    module = program([variant, variant])
    assert len(module.functions) == 2
    assert [
        t.difference.absolute for t in try_variants([variant, variant], ctx, KernelPool(1))
    ] == [0.0, 0.0]
    assert np.array_equal(variant.expected[0], np.maximum(variant.inputs[0], 0))


def test_constants_may_begin_at_any_byte_of_a_file() -> None:
    ctx = LowerContext(host_target("generic"), CompileOptions(1))
    graph = build({"x": (4,)}, lambda make, x: make("relu", x["x"]))
    (variant,) = op_variants(graph.ops[-2], ctx)
    odd = [np.frombuffer(b" " + a.tobytes(), a.dtype, offset=1) for a in variant.inputs]
    assert not odd[0].flags.aligned
    (trial,) = try_variants([replace(variant, inputs=tuple(odd))], ctx)
    assert trial.difference.absolute == 0.0
