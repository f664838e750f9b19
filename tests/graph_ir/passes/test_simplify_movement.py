from __future__ import annotations

import pytest

from graphc.driver.compiler import compile_stages
from graphc.graph_ir.passes.simplify_movement import simplify_movement
from support.expressions import expression_of, graph_from
from support.graphs import check_pass, graph_of, run_pass

X = "%x = Node[type=input] () -> f32[2,3,4]\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("%y = Node[type=transpose] (inputs = (x=%x), attrs = {perm: {0, 1, -1}}) -> f32[2,3,4]\n"
         "return (z=%y)",
         "return (z=%x)"),
        ("%t = Node[type=transpose] (inputs = (x=%x), attrs = {perm: {2, 0, 1}}) -> f32[4,2,3]\n"
         "%y = Node[type=transpose] (inputs = (x=%t), attrs = {perm: {1, 2, 0}}) -> f32[2,3,4]\n"
         "return (z=%y)",
         "return (z=%x)"),
        ("%t = Node[type=transpose] (inputs = (x=%x), attrs = {perm: {2, 0, 1}}) -> f32[4,2,3]\n"
         "%y = Node[type=transpose] (inputs = (x=%t), attrs = {perm: {0, 2, 1}}) -> f32[4,3,2]\n"
         "return (z=%y)",
         "%y = Node[type=transpose] (inputs = (x=%x), attrs = {perm: {2, 1, 0}}) -> f32[4,3,2]\n"
         "return (z=%y)"),
        ("%r = Node[type=reshape] (inputs = (x=%x), attrs = {shape: {6, 4}}) -> f32[6,4]\n"
         "%s = Node[type=reshape] (inputs = (x=%r), attrs = {shape: {24}}) -> f32[24]\n"
         "%y = Node[type=reshape] (inputs = (x=%s), attrs = {shape: {2, 3, 4}}) -> f32[2,3,4]\n"
         "return (z=%y, t=%s)",
         "%s = Node[type=reshape] (inputs = (x=%x), attrs = {shape: {24}}) -> f32[24]\n"
         "return (z=%x, t=%s)"),
        ("%r = Node[type=reshape] (inputs = (x=%x), attrs = {shape: {2, 1, 12}}) -> f32[2,1,12]\n"
         "%y = Node[type=transpose] (inputs = (x=%r), attrs = {perm: {0, 2, 1}}) -> f32[2,12,1]\n"
         "return (z=%y)",
         "%y.reshape = Node[type=reshape] (inputs = (x=%x), attrs = {shape: {2, 12, 1}}) -> f32[2,12,1]\n"
         "return (z=%y.reshape)"),
        ("%y = Node[type=slice] (inputs = (x=%x), attrs = {starts: {0, 0, 0}, sizes: {2, 3, 4}}) -> f32[2,3,4]\n"
         "return (z=%y)",
         "return (z=%x)"),
        ("%s = Node[type=slice] (inputs = (x=%x), attrs = {starts: {1, 2, 0}, steps: {1, -1, 2}, sizes: {1, 3, 2}})"
         " -> f32[1,3,2]\n"
         "%y = Node[type=slice] (inputs = (x=%s), attrs = {starts: {0, 2, 1}, steps: {1, -2, 1}, sizes: {1, 2, 1}})"
         " -> f32[1,2,1]\nreturn (z=%y)",
         "%y = Node[type=slice] (inputs = (x=%x), attrs = {starts: {1, 0, 2}, steps: {1, 2, 2}, sizes: {1, 2, 1}})"
         " -> f32[1,2,1]\nreturn (z=%y)"),
        ("%y = Node[type=concat] (inputs = (x=%x), attrs = {axis: 1}) -> f32[2,3,4]\nreturn (z=%y)",
         "return (z=%x)"),
        ("%y = Node[type=pad] (inputs = (x=%x), attrs = {before: {0, 0, 0}, after: {0, 0, 0}}) -> f32[2,3,4]\n"
         "return (z=%y)",
         "return (z=%x)"),
        ("%y = Node[type=broadcast] (inputs = (x=%x), attrs = {shape: {2, 3, 4}}) -> f32[2,3,4]\n"
         "return (z=%y)",
         "return (z=%x)"),
        ("%y = Node[type=broadcast] (inputs = (x=%x), attrs = {shape: {1, 2, 3, 4}}) -> f32[1,2,3,4]\n"
         "return (z=%y)",
         "%y.reshape = Node[type=reshape] (inputs = (x=%x), attrs = {shape: {1, 2, 3, 4}}) -> f32[1,2,3,4]\n"
         "return (z=%y.reshape)"),
        ("%y = Node[type=reduce_max] (inputs = (x=%x), attrs = {axes: {}, keep_dims: false}) -> f32[2,3,4]\n"
         "return (z=%y)",
         "return (z=%x)"),
    ],
)  # fmt: skip
def test_rules(before: str, after: str) -> None:
    check_pass(simplify_movement, X + before, X + after)


@pytest.mark.parametrize(
    "body",
    [
        "%y = Node[type=slice] (inputs = (x=%x), attrs = {starts: {0, 2, 0}, steps: {1, -1, 1}, sizes: {2, 3, 4}})"
        " -> f32[2,3,4]",
        "%y = Node[type=pad] (inputs = (x=%x), attrs = {before: {0, 1, 0}, after: {0, -1, 0}}) -> f32[2,3,4]",
        "%y = Node[type=concat] (inputs = (x_0=%x, x_1=%x), attrs = {axis: 0}) -> f32[4,3,4]",
        "%y = Node[type=reduce_l1] (inputs = (x=%x), attrs = {axes: {}, keep_dims: false}) -> f32[2,3,4]",
        "%y = Node[type=reduce_sum] (inputs = (x=%x), attrs = {axes: {1}, keep_dims: true}) -> f32[2,1,4]",
    ],
)
def test_what_moves_stays(body: str) -> None:
    graph = graph_of(f"{X}{body}\nreturn (z=%y)")
    assert not run_pass(simplify_movement, graph)


def test_empty_parts_of_a_concat_go() -> None:
    check_pass(
        simplify_movement,
        """
        %x = Node[type=input] () -> f32[2,3]
        %e = Node[type=input] () -> f32[0,3]
        %y = Node[type=concat] (inputs = (x_0=%e, x_1=%x, x_2=%e), attrs = {axis: 0}) -> f32[2,3]
        return (z=%y)
        """,
        """
        %x = Node[type=input] () -> f32[2,3]
        %e = Node[type=input] () -> f32[0,3]
        return (z=%x)
        """,
    )


def test_matmul_reads_transposed_operands() -> None:
    check_pass(
        simplify_movement,
        """
    %a = Node[type=input] () -> f32[5,3,2]
    %b = Node[type=input] () -> f32[4,3]
    %at = Node[type=transpose] (inputs = (x=%a), attrs = {perm: {0, 2, 1}}) -> f32[5,2,3]
    %bt = Node[type=transpose] (inputs = (x=%b), attrs = {perm: {1, 0}}) -> f32[3,4]
    %y = Node[type=matmul_core] (inputs = (a=%at, b=%bt)) -> f32[5,2,4]
    %z = Node[type=matmul_core] (inputs = (a=%at, b=%b), attrs = {transpose_b: true}) -> f32[5,2,4]
    return (u=%y, v=%z)
        """,
        """
    %a = Node[type=input] () -> f32[5,3,2]
    %b = Node[type=input] () -> f32[4,3]
    %y = Node[type=matmul_core] (inputs = (a=%a, b=%b), attrs = {transpose_a: true, transpose_b: true}) -> f32[5,2,4]
    %z = Node[type=matmul_core] (inputs = (a=%a, b=%b), attrs = {transpose_b: true, transpose_a: true}) -> f32[5,2,4]
    return (u=%y, v=%z)
        """,
    )


def test_a_transpose_of_batch_axes_stays_before_a_matmul() -> None:
    graph = graph_of(
        """
        %a = Node[type=input] () -> f32[2,3,4,5]
        %b = Node[type=input] () -> f32[5,6]
        %t = Node[type=transpose] (inputs = (x=%a), attrs = {perm: {0, 2, 1, 3}}) -> f32[2,4,3,5]
        %y = Node[type=matmul_core] (inputs = (a=%t, b=%b)) -> f32[2,4,3,6]
        return (z=%y)
        """
    )
    assert not run_pass(simplify_movement, graph)


def test_elementwise_ops_broadcast_themselves() -> None:
    check_pass(
        simplify_movement,
        """
        %x = Node[type=input] () -> f32[2,3]
        %b = Node[type=input] () -> f32[3]
        %c = Node[type=broadcast] (inputs = (x=%b), attrs = {shape: {2, 3}}) -> f32[2,3]
        %y = Node[type=add] (inputs = (a=%c, b=%x)) -> f32[2,3]
        %z = Node[type=exp] (inputs = (x=%c)) -> f32[2,3]
        %w = Node[type=add] (inputs = (a=%c, b=%c)) -> f32[2,3]
        return (u=%y, v=%z, t=%w)
        """,
        """
        %x = Node[type=input] () -> f32[2,3]
        %b = Node[type=input] () -> f32[3]
        %c = Node[type=broadcast] (inputs = (x=%b), attrs = {shape: {2, 3}}) -> f32[2,3]
        %y = Node[type=add] (inputs = (a=%b, b=%x)) -> f32[2,3]
        %z = Node[type=exp] (inputs = (x=%c)) -> f32[2,3]
        %w = Node[type=add] (inputs = (a=%b, b=%c)) -> f32[2,3]
        return (u=%y, v=%z, t=%w)
        """,
    )


def test_a_reduction_keeps_the_axes_that_a_reshape_puts_back() -> None:
    check_pass(
        simplify_movement,
        """
        %x = Node[type=input] () -> f32[2,3,4]
        %s = Node[type=reduce_sum] (inputs = (x=%x), attrs = {axes: {0, -1}, keep_dims: false}) -> f32[3]
        %y = Node[type=reshape] (inputs = (x=%s), attrs = {shape: {1, 3, 1}}) -> f32[1,3,1]
        %m = Node[type=reduce_max] (inputs = (x=%x), attrs = {axes: {1}}) -> f32[2,4]
        %z = Node[type=reshape] (inputs = (x=%m), attrs = {shape: {2, 1, 4}}) -> f32[2,1,4]
        %o = Node[type=reshape] (inputs = (x=%m), attrs = {shape: {2, 4, 1}}) -> f32[2,4,1]
        return (y=%y, z=%z, o=%o)
        """,
        """
        %x = Node[type=input] () -> f32[2,3,4]
        %m = Node[type=reduce_max] (inputs = (x=%x), attrs = {axes: {1}}) -> f32[2,4]
        %z = Node[type=reshape] (inputs = (x=%m), attrs = {shape: {2, 1, 4}}) -> f32[2,1,4]
        %o = Node[type=reshape] (inputs = (x=%m), attrs = {shape: {2, 4, 1}}) -> f32[2,4,1]
        %s.reduce_sum = Node[type=reduce_sum] (inputs = (x=%x), attrs = {axes: {0, 2}, keep_dims: true}) -> f32[1,3,1]
        return (y=%s.reduce_sum, z=%z, o=%o)
        """,
    )


HEADS = [
    ("reshape(slice(x, starts=(0, 6), steps=(1, 1), sizes=(2, 6)), shape=(2, 2, 3))",
     "slice(reshape(x, shape=(2, 6, 3)), starts=(0, 2, 0), steps=(1, 1, 1), sizes=(2, 2, 3))"),
    ("reshape(slice(y, starts=(0, 2, 0), steps=(1, 1, 1), sizes=(2, 2, 3)), shape=(2, 1, 2, 3))",
     "slice(reshape(y, shape=(2, 2, 2, 3)), starts=(0, 1, 0, 0), steps=(1, 1, 1, 1), sizes=(2, 1, 2, 3))"),
    ("reshape(slice(x, starts=(0, 5), steps=(1, 1), sizes=(2, 6)), shape=(2, 2, 3))", ""),
    ("reshape(slice(x, starts=(0, 0), steps=(1, 2), sizes=(2, 6)), shape=(2, 2, 3))", ""),
    ("reshape(slice(x, starts=(0, 6), steps=(1, 1), sizes=(1, 6)), shape=(1, 2, 3))", ""),
    ("reshape(slice(x, starts=(0, 6), steps=(1, 1), sizes=(2, 6)), shape=(4, 3))", ""),
    ("reshape(slice(x, starts=(0, 6), steps=(1, 1), sizes=(2, 10)), shape=(2, 2, 5))", ""),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), HEADS)
def test_heads_are_split_before_they_are_sliced(before: str, after: str) -> None:
    shapes = {"x": (2, 18), "y": (2, 4, 3)}
    graph = graph_from(before, **shapes)
    assert run_pass(simplify_movement, graph) == bool(after)
    assert expression_of(graph) == expression_of(graph_from(after or before, **shapes))


def test_q_k_and_v_of_one_matmul_are_read_where_it_wrote_them() -> None:
    """PyTorch's dynamo export of GPT-2: a view, a split, and heads moved to the front."""
    heads = "transpose(reshape(slice({}, starts=(0, 0, {}), steps=(1, 1, 1), sizes=(1, 8, 16)), {}), {})"
    joined = "reshape(add(matmul_core(x, w), b), shape=(1, 8, 48))"
    q, k, v = (
        heads.format(joined, at, "shape=(1, 8, 4, 4)", "perm=(0, 2, 1, 3)") for at in (0, 16, 32)
    )
    scores = f"matmul_core({q}, {k}, transpose_b=True)"
    text = f"matmul_core(softmax({scores}, axis=3), {v})"
    graph = graph_from(text, x=(8, 16), w=(16, 48), b=(48,))
    kernels = [call.kernel for call in compile_stages(graph, "avx2").lowered.calls]
    assert len(kernels) == 5, "the matmul with its bias, three transposes of slices, attention"
    assert "gemm_add" in kernels[0] and "attention" in kernels[-1]
