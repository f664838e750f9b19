"""Attention as one kernel, interpreted; and what keeps it from being one."""

import pytest

from graphc.graph_ir.graph import Graph
from support.lowered import build, check_interpreted, context


def attention(b: int, h: int, s: int, d: int, mask: bool = True, transpose: bool = True) -> Graph:
    shapes = {"q": (b, h, s, d), "k": (b, h, d, s), "v": (b, h, s, d), "m": (b, 1, 1, s)}

    def body(make, x):  # type: ignore[no-untyped-def]
        scores = make("matmul_core", x["q"], x["k"])
        scores = make("add", scores, x["m"]) if mask else scores
        weights = make("softmax", scores, axis=-1)
        result = make("matmul_core", weights, x["v"])
        return make("transpose", result, perm=(0, 2, 1, 3)) if transpose else result

    return build(shapes, body)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 3, 7, 5), (1, 1, 26, 25), (1, 2, 9, 8)])
@pytest.mark.parametrize(("mask", "transpose"), [(True, True), (False, False)])
def test_attention_is_one_kernel(
    sizes: tuple[int, int, int, int], mask: bool, transpose: bool
) -> None:
    lowered = check_interpreted(
        attention(*sizes, mask=mask, transpose=transpose), context(threads=2), exact=False
    )
    assert len(lowered.calls) == 1


@pytest.mark.parametrize("isa", ["avx512", "generic"])
def test_other_vector_lengths(isa: str) -> None:
    check_interpreted(attention(1, 2, 9, 5), context(isa), exact=False)


def test_weights_that_somebody_else_reads_stay_in_memory() -> None:
    graph = attention(1, 1, 5, 4)
    softmax = next(op for op in graph.ops if op.op_name == "softmax")
    graph.make_output(softmax.outputs[0], "weights")
    lowered = check_interpreted(graph, context(), exact=False)
    assert len(lowered.calls) > 1


def test_fuse_can_be_switched_off() -> None:
    lowered = check_interpreted(attention(1, 1, 5, 4), context(disabled=["fuse"]), exact=False)
    assert len(lowered.calls) > 4
