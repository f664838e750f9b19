"""Control flow as native code: every form against the references, on one thread and on two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from graphc.base.dtypes import BOOL, F32, F64, S8, S32, S64
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Array, Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.reference import convert
from graphc.graph_ir.passes.plan_memory import MEMORY_PLAN
from graphc.runtime.executor import CompiledModel
from graphc.tensor_ir.nodes import Invoke
from support.control import (
    RandomControl,
    constant,
    counted,
    made,
    make_case,
    make_while,
    small_inputs,
)
from support.lowered import check_interpreted, context, interpret, lower
from support.tolerance import assert_close

X = LogicalTensor(F32, (4, 9))
INDEX = LogicalTensor(S64, ())


def native(
    graph: Graph, many: Sequence[Sequence[Array]], threads: int = 1, factor: float = 1.0
) -> None:
    """The compiled model gives what the references do, for every set of inputs."""
    options = CompileOptions(threads, verify=True)
    compilation = compile_stages(graph, options=options)
    model = CompiledModel(compilation.artifact, threads)
    for arrays in many:
        results = model(*arrays)
        several = results if isinstance(results, (list, tuple)) else [results]
        for got, want in zip(several, graph.evaluate(arrays), strict=True):
            assert_close(np.asarray(got), want, factor)
    model.close()


def trips(graph: Graph, counts: Sequence[int] = (0, 1, 2, 3, 8)) -> list[list[Array]]:
    return [small_inputs(graph, n + 9, n) for n in counts]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_body_that_permutes_what_it_carries(threads: int) -> None:
    rotated = counted([X, X, X], lambda g, a, b, c: [b, c, a])
    native(rotated, trips(rotated), threads)
    mixed = counted([X, X], lambda g, a, b: [b, made(g, "sub", a, b)])
    native(mixed, trips(mixed), threads)


def test_values_of_several_dtypes_and_shapes() -> None:
    state = [
        LogicalTensor(S8, (7,)), LogicalTensor(F64, (2, 3)), LogicalTensor(BOOL, (5,)),
        LogicalTensor(S32, ()), LogicalTensor(F32, (0, 4)),
    ]  # fmt: skip

    def step(
        g: Graph, a: GraphTensor, b: GraphTensor, c: GraphTensor, d: GraphTensor, e: GraphTensor
    ) -> list[GraphTensor]:
        return [made(g, "add", a, a), made(g, "mul", b, b), made(g, "not", c), made(g, "neg", d), e]

    graph = counted(state, step)
    native(graph, trips(graph))


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_of_a_body_run_in_parallel(threads: int) -> None:
    wide = LogicalTensor(F32, (256, 256))
    w = constant_matrix()

    def step(g: Graph, x: GraphTensor) -> list[GraphTensor]:
        matmul = made(g, "matmul_core", x, g.make_constant(w, "w"))
        return [made(g, "tanh", made(g, "add", matmul, x))]

    graph = counted([wide], step)
    native(graph, trips(graph, (0, 1, 4)), threads, factor=8)  # rounds add up


def constant_matrix() -> Array:
    return np.random.default_rng(3).standard_normal((256, 256)).astype(np.float32) / 32


def test_weights_of_a_body_are_packed_once() -> None:
    def step(g: Graph, x: GraphTensor, w: GraphTensor) -> list[GraphTensor]:
        return [made(g, "matmul_core", x, w), w]

    graph = counted([LogicalTensor(F32, (8, 256)), LogicalTensor(F32, (256, 256))], step)
    packed = Graph("packed")
    n = packed.make_input(INDEX, "n")
    x = packed.make_input(LogicalTensor(F32, (8, 256)), "x")
    w = packed.make_constant(constant_matrix(), "w")
    loop = next(op for op in graph.ops if op.op_name == "while")
    attrs = loop.attrs
    made_op = packed.make("while", [constant(packed, 0), x, w, n], attrs, "loop")
    packed.make_output(made_op.outputs[1])
    compilation = compile_stages(packed, "avx2")
    (op,) = [op for op in compilation.graph.ops if op.op_name == "while"]
    inside = [inner.op_name for inner in op.attrs["body"].ops]
    assert "reorder" not in inside and inside.count("constant") == 2
    native(packed, [small_inputs(packed, 1, k) for k in (0, 1, 3)])


def test_loops_and_choices_inside_each_other() -> None:
    graph = Graph("nested")
    n, x = graph.make_input(INDEX, "n"), graph.make_input(X, "x")

    def inner(g: Graph, i: GraphTensor, x: GraphTensor, n: GraphTensor) -> list[GraphTensor]:
        loop = make_while(
            g, [constant(g, 0), x, i],
            lambda h, j, y, i: [made(h, "lt", j, i)],
            lambda h, j, y, i: [made(h, "add", j, constant(h, 1)), made(h, "neg", y)],
        )  # fmt: skip
        odd = made(g, "mod", i, constant(g, 2))
        choice = make_case(
            g, odd, [loop.outputs[1], x],
            lambda h, y, x: [made(h, "add", y, x)], lambda h, y, x: [made(h, "sub", x, y)],
        )  # fmt: skip
        return [made(g, "add", i, constant(g, 1)), choice.outputs[0]]

    op = make_while(
        graph, [constant(graph, 0), x, n], lambda g, i, x, n: [made(g, "lt", i, n)], inner
    )
    graph.make_output(op.outputs[1])
    native(graph, trips(graph))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_choice_among_several(threads: int) -> None:
    graph = Graph("g")
    index, x, y = (graph.make_input(d, n) for d, n in ((INDEX, "i"), (X, "x"), (X, "y")))
    op = make_case(
        graph, index, [x, y],
        lambda g, a, b: [a, made(g, "add", a, b)],
        lambda g, a, b: [b, a],
        lambda g, a, b: [constant(g, np.ones((4, 9)), F32), made(g, "exp", b)],
    )  # fmt: skip
    for tensor in op.outputs:
        graph.make_output(tensor)
    graph.make_output(made(graph, "neg", op.outputs[0]))
    native(graph, trips(graph, (-1, 0, 1, 2, 3)), threads)


def test_the_state_may_begin_and_end_as_the_callers_memory_or_not() -> None:
    """The loop reads what a kernel made, and kernels read what the loop made."""
    graph = Graph("g")
    n, x = graph.make_input(INDEX, "n"), graph.make_input(X, "x")
    op = make_while(
        graph, [constant(graph, 0), made(graph, "neg", x), n],
        lambda g, i, x, n: [made(g, "lt", i, n)],
        lambda g, i, x, n: [made(g, "add", i, constant(g, 1)), made(g, "add", x, x)],
    )  # fmt: skip
    graph.make_output(made(graph, "exp", op.outputs[1]))
    graph.make_output(op.outputs[1])
    graph.make_output(op.outputs[1], "twice")
    graph.make_output(made(graph, "add", made(graph, "neg", x), op.outputs[1]))
    native(graph, trips(graph, (0, 1, 2, 3)))


def test_the_program_is_flat_outside_and_interpreted_alike() -> None:
    graph = counted([X], lambda g, x: [made(g, "neg", x)])
    lowered = lower(graph, context())
    main = lowered.module.function("main")
    assert all(isinstance(step, Invoke) for step in main.body.body)
    assert [call.op_name for call in lowered.calls] == ["loop"]
    for n in (0, 1, 4, 5):
        x = np.arange(36, dtype=np.float32).reshape(4, 9)
        result = np.zeros_like(x)
        interpret(lowered, [np.asarray(n), x], [result])
        np.testing.assert_array_equal(result, x * (-1) ** n)


def test_equal_loops_are_lowered_once() -> None:
    graph = Graph("g")
    n, x, y = (graph.make_input(d, name) for d, name in ((INDEX, "n"), (X, "x"), (X, "y")))
    for value in (x, y):
        op = make_while(
            graph, [constant(graph, 0), value, n],
            lambda g, i, x, n: [made(g, "lt", i, n)],
            lambda g, i, x, n: [made(g, "add", i, constant(g, 1)), made(g, "neg", x)],
        )  # fmt: skip
        graph.make_output(op.outputs[1])
    graph.sort()
    kernels = [call.kernel for call in lower(graph, context()).calls]
    assert len(kernels) == 2 and len(set(kernels)) == 1
    native(graph, trips(graph, (0, 1, 2)))


def test_the_arena_of_subgraphs_is_part_of_the_graphs() -> None:
    def step(g: Graph, x: GraphTensor) -> list[GraphTensor]:
        total = made(g, "softmax", made(g, "softmax", x))
        return [
            made(
                g,
                "transpose",
                made(g, "cum_sum", made(g, "transpose", total, perm=(1, 0)), axis=0),
                perm=(1, 0),
            )
        ]

    graph = counted([X], step)
    compilation = compile_stages(graph, "avx2")
    plan = MEMORY_PLAN.of(compilation.graph)
    (((op, _), _),) = plan.workspaces.items()
    inside = max(MEMORY_PLAN.of(g).arena_bytes for g in (op.attrs["body"], op.attrs["condition"]))
    assert inside > 0 and plan.arena_bytes >= inside + 4 * 9 * 4
    native(graph, trips(graph, (0, 1, 2)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    graph = RandomControl(seed).graph()
    native(graph, trips(graph, (0, 1, 2, 3)), threads=1 + seed % 2)


def test_conversions_are_those_of_the_reference() -> None:
    """The index of a case may be computed: bool to s64 and back."""
    graph = Graph("g")
    x = graph.make_input(X, "x")
    total = made(graph, "reduce_sum", x, axes=(0, 1), keep_dims=False)
    positive = made(graph, "gt", total, constant(graph, 0, F32))
    index = made(graph, "cast", positive, dtype="s64")
    op = make_case(
        graph, index, [x], lambda g, a: [made(g, "neg", a)], lambda g, a: [made(g, "exp", a)]
    )
    graph.make_output(op.outputs[0])
    ones = np.ones((4, 9), np.float32)
    native(graph, [[ones], [-ones], [convert(np.zeros((4, 9)), F32)]])
    check_interpreted(graph, context(), exact=False)
