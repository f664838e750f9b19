"""The graph passes in a row: every switch off gives the same results, and random graphs survive them all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.base.dtypes import F32
from graphc.base.options import SWITCHES, CompileOptions
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from support.lowered import Make, build, check_interpreted, context, integers, lower

N = 4
Inputs = dict[str, GraphTensor]


def layers() -> Graph:
    """Two layers, the second with a residual; a constant subexpression and a common one."""
    graph = Graph("layers")
    x = graph.make_input(LogicalTensor(F32, (5, 9)), "x")
    y = x
    for layer in range(2):
        w = graph.make_constant(integers((9, 9), layer), f"w{layer}")
        b = graph.make_constant(integers((9,), layer + 2), f"b{layer}")
        doubled = graph.make("add", (b, b)).outputs[0]
        z = graph.make("add", (graph.make("matmul_core", (y, w)).outputs[0], doubled)).outputs[0]
        left, right = graph.make("relu", (z,)).outputs[0], graph.make("relu", (z,)).outputs[0]
        y = graph.make("add", (graph.make("sub", (left, right)).outputs[0], y)).outputs[0]
    view = graph.make("reshape", (y,), {"shape": (9, 5)}).outputs[0]
    graph.make_output(y, "y")
    graph.make_output(view, "view")
    return graph


def attention() -> Graph:
    def body(make: Make, x: Inputs) -> GraphTensor:
        scores = make("add", make("matmul_core", x["q"], x["k"]), x["mask"])
        mixed = make("matmul_core", make("softmax", scores, axis=-1), x["v"])
        return make("transpose", mixed, perm=(0, 2, 1, 3))

    shapes = {"q": (2, 3, 5, 4), "k": (2, 3, 4, 5), "mask": (2, 1, 1, 5), "v": (2, 3, 5, 4)}
    return build(shapes, body)


def row_work() -> Graph:
    def body(make: Make, x: Inputs) -> GraphTensor:
        y = make("layer_norm", x["x"], x["scale"], x["bias"], axis=-1, epsilon=1e-5)
        return make("log_softmax", make("gelu", y), axis=0)

    return build({"x": (6, 9), "scale": (9,), "bias": (9,)}, body)


GRAPHS = {"layers": layers, "attention": attention, "row_work": row_work}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("disabled", [(), *((s,) for s in SWITCHES), SWITCHES], ids="-".join)
def test_no_switch_changes_a_result(disabled: tuple[str, ...], name: str) -> None:
    check_interpreted(GRAPHS[name](), context(threads=2, disabled=disabled), exact=name == "layers")


def test_switches_do_what_they_say() -> None:
    kernels = {s: len(lower(layers(), context(disabled=(s,))).calls) for s in SWITCHES}
    whole = len(lower(layers(), context()).calls)
    assert kernels["fuse"] > whole
    assert kernels["fold"] > whole
    assert "NK" in lower_formats(()) and "NK" not in lower_formats(("blocked-layouts",))


def lower_formats(disabled: tuple[str, ...]) -> str:
    graph = layers()
    pipeline.run(graph, context(disabled=disabled))
    return " ".join(str(y.details.format) for op in graph.ops for y in op.outputs)


def test_every_stage_is_reported_in_order() -> None:
    seen: list[tuple[int, str, bool]] = []
    graph = layers()
    pipeline.run(
        graph,
        context(disabled=("fuse",)),
        lambda number, name, g, changed: seen.append((number, name, changed and g is graph)),
    )
    assert [number for number, _, _ in seen] == list(range(1, len(pipeline.PIPELINE) + 1))
    assert [name for _, name, _ in seen] == [step.__name__ for step, _ in pipeline.PIPELINE]
    assert ("fuse", False) in [(name, changed) for _, name, changed in seen]
    assert ("propagate_layouts", True) in [(name, changed) for _, name, changed in seen]
    assert {switch for _, switch in pipeline.PIPELINE} <= {"", *SWITCHES}


UNARY = ("relu", "neg", "abs", "sign")
BINARY = ("add", "sub", "max", "min", "mul")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Square tensors, where mixed-up axes show; a value per row, per column, and sums that drop their axis."""
    graph = Graph("random")
    shapes = [(N, N), (N, N), (N, 1), (1, N), (N,)]
    tensors = [graph.make_input(LogicalTensor(F32, s), f"x{i}") for i, s in enumerate(shapes)]
    for _ in range(draw(st.integers(2, 10))):
        tensors.append(_draw_op(draw, graph, tensors))
    results = {tensors[-1], draw(st.sampled_from(tensors))}
    for tensor in tensors:
        if tensor in results:
            graph.make_output(tensor)
    return graph


def _draw_op(draw: st.DrawFn, graph: Graph, tensors: list[GraphTensor]) -> GraphTensor:
    def make(op_name: str, *inputs: GraphTensor, **attrs: object) -> GraphTensor:
        return graph.make(op_name, inputs, attrs).outputs[0]

    def small(x: GraphTensor) -> GraphTensor:  # accumulators stay exact in f32
        return make("clamp", x, min=-64.0, max=64.0)

    recent = st.sampled_from(tensors[-4:])
    square = [x for x in tensors if x.details.plain_dims == (N, N)]
    kind = draw(
        st.sampled_from(["unary", "binary", "binary", "reduce", "reduce", "matmul", "move", "rows"])
    )
    if kind == "unary":
        return make(draw(st.sampled_from(UNARY)), draw(recent))
    if kind == "binary":
        pair = draw(st.permutations([draw(recent), draw(st.sampled_from(tensors))]))
        return small(make(draw(st.sampled_from(BINARY)), *pair))
    x = draw(st.sampled_from(square[-3:]))
    if kind == "matmul":
        attrs = {"transpose_a": draw(st.booleans()), "transpose_b": draw(st.booleans())}
        return small(make("matmul_core", x, draw(st.sampled_from(square)), **attrs))
    if kind == "move":
        if draw(st.booleans()):
            return make("transpose", x, perm=(1, 0))
        flipped = draw(st.sampled_from([0, 1]))
        starts, steps = [0, 0], [1, 1]
        starts[flipped], steps[flipped] = N - 1, -1
        return make("slice", x, starts=tuple(starts), steps=tuple(steps), sizes=(N, N))
    if kind == "rows":  # what softmax is made of, but exact
        shifted = make("sub", x, make("reduce_max", x, axes=(1,), keep_dims=True))
        scaled = make("sqrt", make("square", small(shifted)))
        total = make("reduce_max", scaled, axes=(1,), keep_dims=True)
        return make("add", scaled, total)
    axes, keep = (draw(st.sampled_from([0, 1, 1])),), draw(st.booleans())
    return make(draw(st.sampled_from(["reduce_sum", "reduce_max"])), x, axes=axes, keep_dims=keep)


@given(graphs(), st.sampled_from([(), (), (), *((s,) for s in SWITCHES)]))
@settings(max_examples=120)
def test_random_graphs_keep_their_meaning(graph: Graph, disabled: tuple[str, ...]) -> None:
    check_interpreted(graph, context(disabled=disabled))


@pytest.mark.parametrize("verify", (False, True))
def test_the_first_and_last_stage_are_checked_and_those_that_changed_something(
    monkeypatch: pytest.MonkeyPatch, verify: bool
) -> None:
    done: list[int] = []
    checked: list[int] = []
    monkeypatch.setattr(pipeline, "verify", lambda *_: checked.append(len(done) + 1))
    last = len(pipeline.PIPELINE)
    expected = {1, last}

    def on_stage(number: int, _: str, __: Graph, changed: bool) -> None:
        done.append(number)
        if changed and verify:
            expected.add(number)

    options = CompileOptions(verify=verify)
    pipeline.run(layers(), LowerContext(Target("generic"), options), on_stage)
    assert checked == sorted(expected) and len(done) == last
    assert len(checked) == 2 if not verify else 2 < len(checked) < last / 2
