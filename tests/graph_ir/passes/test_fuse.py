"""Groups of ops that become one kernel: their members, and their results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16, F32, DType
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.fuse import fuse
from graphc.graph_ir.passes.propagate_layouts import propagate_layouts
from graphc.targets.isa import Target
from graphc.targets.machines import SAPPHIRE_RAPIDS
from support.golden import Golden
from support.graphs import CONTEXT, graph_of, run_pass, text_of
from support.lowered import Make, build, check_interpreted, context

Inputs = dict[str, GraphTensor]

LAYER = """
    %x = Node[type=input] () -> f32[4,8]
    %w = Node[type=input] () -> f32[8,8]
    %b = Node[type=input] () -> f32[8]
    %fc = Node[type=matmul_core] (inputs = (a=%x, b=%w)) -> f32[4,8]
    %biased = Node[type=add] (inputs = (a=%fc, b=%b)) -> f32[4,8]
    %act = Node[type=relu] (inputs = (x=%biased)) -> f32[4,8]
    %sum = Node[type=add] (inputs = (a=%act, b=%x)) -> f32[4,8]
    return (y=%sum)
"""
SOFTMAX = """
    %x = Node[type=input] () -> f32[4,8]
    %scaled = Node[type=neg] (inputs = (x=%x)) -> f32[4,8]
    %largest = Node[type=reduce_max] (inputs = (x=%scaled), attrs = {axes: {1}, keep_dims: true}) -> f32[4,1]
    %shifted = Node[type=sub] (inputs = (a=%scaled, b=%largest)) -> f32[4,8]
    %powers = Node[type=exp] (inputs = (x=%shifted)) -> f32[4,8]
    %total = Node[type=reduce_sum] (inputs = (x=%powers), attrs = {axes: {1}, keep_dims: true}) -> f32[4,1]
    %y = Node[type=div] (inputs = (a=%powers, b=%total)) -> f32[4,8]
    return (y=%y)
"""


@pytest.mark.parametrize(("name", "text"), [("layer", LAYER), ("softmax", SOFTMAX)])
def test_text_before_and_after(name: str, text: str, golden: Golden) -> None:
    graph = graph_of(text)
    golden(text_of(graph), "before")
    assert run_pass(fuse, graph, exact=name == "layer")
    golden(text_of(graph), "after")
    assert not fuse(graph, CONTEXT), "a second run finds nothing more"


def groups(body: str) -> list[str]:
    """The kernels of a graph after the pass, each as the names of its ops."""
    graph = graph_of(body)
    run_pass(fuse, graph, exact=False)
    return kernels(graph)


def kernels(graph: Graph) -> list[str]:
    steps = [op for op in graph.ops if op.kind not in ("source", "sink")]
    return [
        " ".join(o.name for o in op.attrs["graph"].ops if o.kind not in ("source", "sink"))
        if op.op_name == "fused"
        else op.name
        for op in steps
    ]


X = "%x = Node[type=input] () -> f32[4,4]\n"


def node(name: str, op: str, inputs: str, dims: str = "4,4", attrs: str = "") -> str:
    tail = f", attrs = {{{attrs}}}" if attrs else ""
    return f"%{name} = Node[type={op}] (inputs = ({inputs}){tail}) -> f32[{dims}]\n"


def matmul(name: str, a: str, b: str) -> str:
    return node(name, "matmul_core", f"a=%{a}, b=%{b}")


def test_an_elementwise_chain_is_one_kernel() -> None:
    body = X + node("a", "neg", "x=%x") + node("b", "abs", "x=%a") + node("c", "add", "a=%b, b=%x")
    assert groups(body + "return (y=%c)") == ["a b c"]


def test_one_op_alone_is_left_as_it_is() -> None:
    graph = graph_of(X + node("a", "neg", "x=%x") + "return (y=%a)")
    assert not run_pass(fuse, graph)
    assert kernels(graph) == ["a"]


def test_a_result_the_caller_wants_ends_a_group() -> None:
    body = X + node("a", "neg", "x=%x") + node("b", "abs", "x=%a") + "return (y=%a, z=%b)"
    assert groups(body) == ["a", "b"]


def test_a_value_read_by_two_ops_that_meet_again_stays_inside() -> None:
    body = X + matmul("p", "x", "x") + node("a", "neg", "x=%p") + node("b", "abs", "x=%p")
    assert groups(body + node("c", "add", "a=%a, b=%b") + "return (y=%c)") == ["p a b c"]


def test_a_value_read_by_two_ops_that_do_not_meet_is_stored_once() -> None:
    body = X + matmul("p", "x", "x") + node("a", "neg", "x=%p") + node("b", "abs", "x=%p")
    assert groups(body + "return (y=%a, z=%b)") == ["p", "a", "b"]


def test_what_an_outside_op_computes_from_the_group_stays_outside() -> None:
    """c reads p and a matmul of p: with c in p's group, the group would wait for itself."""
    body = X + matmul("p", "x", "x") + matmul("q", "p", "x") + node("c", "add", "a=%p, b=%q")
    assert groups(body + "return (y=%c)") == ["p", "q c"]


def test_two_matmuls_are_never_one_group_without_row_work() -> None:
    body = X + matmul("p", "x", "x") + node("a", "relu", "x=%p") + matmul("q", "a", "x")
    assert groups(body + node("b", "relu", "x=%q") + "return (y=%b)") == ["p a", "q b"]


def test_operands_of_a_matmul_are_computed_before_it() -> None:
    body = X + node("a", "neg", "x=%x") + matmul("p", "a", "x") + node("b", "neg", "x=%p")
    assert groups(body + "return (y=%b)") == ["a", "p b"]


def test_another_shape_ends_a_group() -> None:
    body = X + node("a", "neg", "x=%x") + node("f", "reshape", "x=%a", "16", "shape: {16}")
    assert groups(body + node("b", "abs", "x=%f", "16") + "return (y=%b)") == ["a", "f", "b"]


def test_a_smaller_value_is_computed_once_and_not_for_every_element() -> None:
    body = X + "%v = Node[type=input] () -> f32[4]\n" + node("e", "exp", "x=%v", "4")
    assert groups(body + node("a", "add", "a=%x, b=%e") + "return (y=%a)") == ["e", "a"]


def test_a_joined_value_read_at_several_positions_is_stored() -> None:
    def body(make: Make, x: Inputs) -> GraphTensor:
        joined = make("concat", x["a"], x["b"], axis=1)
        left = make("slice", joined, starts=(0, 0), sizes=(3, 4))
        right = make("slice", joined, starts=(0, 1), sizes=(3, 4))
        return make("add", left, right)

    lowered = check_interpreted(build({"a": (3, 2), "b": (3, 3)}, body), context())
    assert [call.kernel for call in lowered.calls] == [
        "f32_concat_3x5__avx2",
        "f32_slice_add_3x4__avx2",
    ]


def test_a_reduction_over_columns_takes_its_operand_and_what_follows() -> None:
    body = X + node("a", "neg", "x=%x") + node("s", "reduce_sum", "x=%a", "4", "axes: {0}")
    assert groups(body + node("b", "abs", "x=%s", "4") + "return (y=%b)") == ["a s b"]


TRANSPOSE = {"attrs": "perm: {1, 0}"}
SUM = {"attrs": "axes: {1}, keep_dims: true"}


def test_a_row_group_takes_a_movement_but_nothing_behind_it() -> None:
    """It holds one row at a time, and a transpose reads a column."""
    body = X + node("e", "exp", "x=%x") + node("t", "transpose", "x=%e", **TRANSPOSE)
    body += node("s", "reduce_sum", "x=%t", "4,1", **SUM) + node("d", "div", "a=%t, b=%s")
    assert groups(body + "return (y=%d)") == ["e", "t s d"]


def test_sums_of_rows_spread_over_columns_are_no_row_work() -> None:
    """x[i, j] - sum[j] reads the sum of another row."""
    body = X + node("s", "reduce_sum", "x=%x", "4", "axes: {1}") + node("d", "sub", "a=%x, b=%s")
    assert groups(body + "return (y=%d)") == ["s", "d"]


def attend(name: str, q: str, k: str, v: str) -> str:
    """Softmax without its maximum, between two matmuls."""
    body = matmul(f"{name}p", q, k) + node(f"{name}e", "exp", f"x=%{name}p")
    body += node(f"{name}s", "reduce_sum", f"x=%{name}e", "4,1", **SUM)
    return (
        body
        + node(f"{name}d", "div", f"a=%{name}e, b=%{name}s")
        + matmul(f"{name}o", f"{name}d", v)
    )


def test_attention_is_one_kernel() -> None:
    assert groups(X + attend("h", "x", "x", "x") + "return (y=%ho)") == ["hp he hs hd ho"]


def test_weights_someone_else_wants_are_no_attention() -> None:
    assert groups(X + attend("h", "x", "x", "x") + "return (y=%ho, w=%hd)") == [
        "hp he",
        "hs hd",
        "ho",
    ]


def test_weights_times_themselves_are_no_attention() -> None:
    assert groups(X + attend("h", "x", "x", "hd") + "return (y=%ho)") == ["hp he", "hs hd", "ho"]


def test_attention_after_attention_shares_no_op() -> None:
    """The matmul between the two softmaxes could belong to either; the first has it."""
    body = X + attend("a", "x", "x", "x") + node("e", "exp", "x=%ao")
    body += node("s", "reduce_sum", "x=%e", "4,1", **SUM) + node("d", "div", "a=%e, b=%s")
    found = groups(body + matmul("q", "d", "x") + "return (y=%q)")
    assert found == ["ap ae as ad ao", "e s d", "q"]


def _residual(make: Make, x: Inputs) -> GraphTensor:
    return make("add", make("matmul_core", x["x"], x["w"]), x["x"])


def _residual_of_an_activation(make: Make, x: Inputs) -> GraphTensor:
    active = make("relu", x["x"])
    return make("add", make("matmul_core", active, x["w"]), active)


def _residual_of_both(make: Make, x: Inputs) -> GraphTensor:
    return make("mul", _residual(make, x), make("transpose", x["w"], perm=(1, 0)))


def _query_as_mask(make: Make, x: Inputs) -> GraphTensor:
    scores = make("add", make("matmul_core", x["x"], x["w"]), x["x"])
    return make("matmul_core", make("softmax", scores, axis=-1), x["w"])


def _vector_after_softmax(make: Make, x: Inputs) -> GraphTensor:
    weights = make("softmax", make("matmul_core", x["x"], x["w"]), axis=-1)
    return make("matmul_core", make("mul", weights, make("exp", x["v"])), x["w"])


def _vector_of_one_row(make: Make, x: Inputs) -> GraphTensor:
    return make("softmax", make("add", x["row"], make("exp", x["v"])), axis=-1)


def _broadcast_of_lower_rank(make: Make, x: Inputs) -> GraphTensor:
    return make(
        "softmax", make("add", x["box"], make("broadcast", x["row"], shape=(4, 4))), axis=-1
    )


def _value_and_its_transpose(make: Make, x: Inputs) -> GraphTensor:
    e = make("exp", x["x"])
    return make("softmax", make("add", e, make("transpose", e, perm=(1, 0))), axis=-1)


def _slice_of_more(make: Make, x: Inputs) -> GraphTensor:
    part = make("slice", make("exp", x["wide"]), starts=(0, 3), steps=(1, 2), sizes=(4, 4))
    return make("softmax", part, axis=-1)


@pytest.mark.parametrize(
    "body",
    [
        *(
            _residual,
            _residual_of_an_activation,
            _residual_of_both,
            _query_as_mask,
            _vector_after_softmax,
            _vector_of_one_row,
        ),
        *(_broadcast_of_lower_rank, _value_and_its_transpose, _slice_of_more),
    ],
    ids=lambda body: body.__name__.strip("_"),
)
def test_groups_that_were_once_wrong(body) -> None:  # type: ignore[no-untyped-def]
    shapes = {"x": (4, 4), "w": (4, 4), "v": (4,), "row": (1, 4), "box": (2, 4, 4), "wide": (4, 12)}
    check_interpreted(build(shapes, body), context(), exact=False)


def test_layouts_must_agree_in_a_group() -> None:
    """A matmul of packed weights, its bias and activation: the reorder is not a part of the group."""
    graph = graph_of(LAYER)
    propagate_layouts(graph, CONTEXT)
    run_pass(fuse, graph)
    assert [name for name in kernels(graph) if "fc" in name] == ["fc biased act sum"]


@pytest.mark.parametrize(("step", "together"), [(2, True), (1, False)])
def test_what_overlapping_windows_read_is_computed_once(step: int, together: bool) -> None:
    graph = build(
        {"x": (3, 8)},
        lambda make, x: make("max_pool", make("exp", x["x"]), kernel=(2,), strides=(step,)),
    )
    assert fuse(graph, CONTEXT) == together


def test_a_kernel_ends_where_sums_have_become_bytes() -> None:
    """Both matmuls of a residual sum store bytes; neither leaves its s32 sums to the other's epilogue."""
    body = """
    %x = Node[type=input] () -> u8[4,8]
    %w = Node[type=input] () -> s8[8,4]
    %q = Node[type=matmul_core] (inputs = (a=%x, b=%w), attrs = {dtype: s32}) -> s32[4,4]
    %p = Node[type=matmul_core] (inputs = (a=%x, b=%w), attrs = {dtype: s32}) -> s32[4,4]
    %pf = Node[type=cast] (inputs = (x=%p), attrs = {dtype: f32}) -> f32[4,4]
    %pq = Node[type=round_saturate] (inputs = (x=%pf), attrs = {low: 0, high: 255, dtype: u8}) -> u8[4,4]
    %qf = Node[type=cast] (inputs = (x=%q), attrs = {dtype: f32}) -> f32[4,4]
    %pd = Node[type=cast] (inputs = (x=%pq), attrs = {dtype: f32}) -> f32[4,4]
    %y = Node[type=add] (inputs = (a=%qf, b=%pd)) -> f32[4,4]
    return (output=%y)
    """
    assert groups(body) == ["p pf pq", "q qf pd y"]


@pytest.mark.parametrize(("end", "wanted"), [
    ("%y", ["p f b y"]),  # f32 again
    ("%b", ["p f", "b"]),  # the sums wait in the result, which must be able to hold them
])  # fmt: skip
def test_an_epilogue_may_change_types_on_its_way(end: str, wanted: list[str]) -> None:
    body = f"""
    %x = Node[type=input] () -> f32[1,4,4,4]
    %w = Node[type=input] () -> f32[8,4,1,1]
    %p = Node[type=direct_convolution] (inputs = (x=%x, w=%w)) -> f32[1,8,4,4]
    %f = Node[type=relu] (inputs = (x=%p)) -> f32[1,8,4,4]
    %b = Node[type=round_saturate] (inputs = (x=%f), attrs = {{low: 0, high: 255, dtype: u8}}) -> u8[1,8,4,4]
    %y = Node[type=cast] (inputs = (x=%b), attrs = {{dtype: f32}}) -> f32[1,8,4,4]
    return (output={end})
    """
    if end == "%b":
        body = "".join(line for line in body.splitlines(True) if "%y" not in line)
    assert groups(body) == wanted


@pytest.mark.parametrize(
    ("axis", "kernels"),
    [
        (0, ["f32_concat_reduce_sum_sub_6x5__avx2"]),
        (1, ["f32_concat_3x10__avx2", "f32_reduce_sum_sub_3x10__avx2"]),
    ],
)
def test_rows_put_together_of_parts_are_stored_before_they_are_reduced(
    axis: int, kernels: list[str]
) -> None:
    """Whole rows of several tensors are read where they lie."""

    def body(make: Make, x: Inputs) -> GraphTensor:
        joined = make("concat", x["a"], x["b"], axis=axis)
        return make("sub", joined, make("reduce_sum", joined, axes=(1,), keep_dims=True))

    lowered = check_interpreted(build({"a": (3, 5), "b": (3, 5)}, body), context())
    assert [call.kernel for call in lowered.calls] == kernels


def test_rows_padded_at_their_ends_are_stored_before_they_are_reduced() -> None:
    def body(make: Make, x: Inputs) -> GraphTensor:
        padded = make("pad", x["a"], before=(0, 1), after=(1, 0))
        return make("sub", padded, make("reduce_max", padded, axes=(1,), keep_dims=True))

    lowered = check_interpreted(build({"a": (3, 5)}, body), context())
    assert [call.kernel for call in lowered.calls] == [
        "f32_pad_4x6__avx2",
        "f32_reduce_max_sub_4x6__avx2",
    ]


@pytest.mark.parametrize(
    ("layout", "wanted"), [("NHWC", ["p", "r", "y s"]), ("CNHW", ["p", "r y s"])]
)
def test_rows_whose_elements_lie_apart_are_moved_before_they_are_reduced(
    layout: str, wanted: list[str]
) -> None:
    """Channels last, say; whole rows in another order are read where they lie."""
    body = f"""
    %x = Node[type=input] () -> f32[2,8,3,4]
    %p = Node[type=reorder] (inputs = (x=%x), attrs = {{format: {layout}}}) -> f32[2,8,3,4]{{{layout}}}
    %r = Node[type=reorder] (inputs = (x=%p), attrs = {{format: NCHW}}) -> f32[2,8,3,4]
    %y = Node[type=reduce_mean] (inputs = (x=%r), attrs = {{axes: {{3}}, keep_dims: false}}) -> f32[2,8,3]
    %s = Node[type=sqrt] (inputs = (x=%y)) -> f32[2,8,3]
    return (output=%s)
    """
    assert groups(body) == wanted


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
def test_one_row_and_a_plain_constant_are_no_attention(dtype: DType) -> None:
    """Ops inside a group do not see that what they read is a constant, and would read its rows in a reduction: those of
    values in f32, those of keys in other types."""
    graph = Graph("attention")
    q, k = (graph.make_input(LogicalTensor(dtype, (1, 3)), name) for name in "qk")
    if dtype != F32:
        k = graph.make_constant(np.ones((1, 3), dtype.numpy), "keys")
    values = graph.make_constant(np.arange(15, dtype=dtype.numpy).reshape(1, 15), "values")
    scores = graph.make("matmul_core", (q, k), {"transpose_b": True}).outputs[0]
    weights = graph.make("softmax", (scores,)).outputs[0]
    graph.make_output(graph.make("matmul_core", (weights, values)).outputs[0], "y")
    off = ("simplify", "blocked-layouts")
    with compile_model(graph, disabled=off, cache=False) as model:
        y = model(*(np.ones((1, 3), dtype.numpy) for _ in model.inputs))
    assert np.array_equal(y, np.arange(15, dtype=dtype.numpy)[None])


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
def test_a_mean_of_other_rows_is_no_row_work_of_attention(
    dtype: DType, rng: np.random.Generator
) -> None:
    """Added to a matmul of one column, it has its shape, but not its rows."""
    graph = Graph("attention")
    shapes = [(2, 2, 2), (2, 2, 1), (2, 2, 2)]
    a, b, rows = (graph.make_input(LogicalTensor(dtype, s), n) for s, n in zip(shapes, "abr", strict=True))  # fmt: skip
    mean = graph.make("reduce_mean", (rows,), {"axes": (2,), "keep_dims": True}).outputs[0]
    scores = graph.make("matmul_core", (a, b)).outputs[0]
    weights = graph.make("add", (scores, mean)).outputs[0]
    values = graph.make_constant(np.ones((2, 3, 1), dtype.numpy), "values")
    result = graph.make("matmul_core", (weights, values), {"transpose_b": True}).outputs[0]
    graph.make_output(result, "y")
    arrays = [rng.integers(-4, 5, shape).astype(dtype.numpy) * 2 for shape in shapes]
    with compile_model(graph, cache=False) as model:
        assert np.array_equal(model(*arrays), graph.evaluate(arrays)[0])


@pytest.mark.parametrize("depth", [1, 31])
def test_matmuls_that_no_microkernel_runs_both_stay_apart(
    depth: int, rng: np.random.Generator
) -> None:
    """The constant is packed in pairs of k for tiles, for which a first matmul of depth 1 is too shallow."""
    graph = Graph("pairs")
    q = graph.make_input(LogicalTensor(BF16, (6, 9, depth)), "q")
    k = graph.make_input(LogicalTensor(BF16, (6, 31, depth)), "k")
    v = graph.make_constant(rng.integers(-3, 4, (6, 31, 5)).astype(BF16.numpy), "v")
    scores = graph.make("matmul_core", [q, k], {"transpose_b": True}).outputs[0]
    row = {"axes": (2,), "keep_dims": True}
    shifted = graph.make("sub", [scores, *graph.make("reduce_max", [scores], row).outputs]).outputs
    graph.make_output(*graph.make("matmul_core", [*shifted, v]).outputs)
    # Pairs in vectors are slower than single k on this machine, so that only tiles multiply them.
    features = "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16"
    target = Target("amx", features=features, machine=SAPPHIRE_RAPIDS)
    ctx = replace(context("amx"), target=target)
    lowered = check_interpreted(graph, ctx)
    assert any("_attention_" in call.kernel for call in lowered.calls) == (depth > 1)
