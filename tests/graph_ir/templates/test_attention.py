"""Attention as one kernel, interpreted; and what keeps it from being one."""

import math

import pytest

from graphc.graph_ir.ir.graph import Graph
from graphc.tensor_ir.nodes import Brgemm, For
from graphc.tensor_ir.visitor import walk
from support.lowered import build, check_interpreted, context, lower


def attention(b: int, h: int, s: int, d: int, mask: bool = True, transpose: bool = True) -> Graph:
    shapes = {"q": (b, h, s, d), "k": (b, h, d, s), "v": (b, h, s, d), "m": (b, 1, 1, s)}

    def body(make, x):  # type: ignore[no-untyped-def]
        scores = make("matmul_core", x["q"], x["k"])
        scores = make("add", scores, x["m"]) if mask else scores
        weights = make("softmax", scores, axis=-1)
        result = make("matmul_core", weights, x["v"])
        return make("transpose", result, perm=(0, 2, 1, 3)) if transpose else result

    return build(shapes, body)


@pytest.mark.exhaustive
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 3, 7, 5), (1, 1, 26, 25), (1, 2, 9, 8)])
@pytest.mark.parametrize(("mask", "transpose"), [(True, True), (False, False)])
def test_attention_is_one_kernel(
    sizes: tuple[int, int, int, int], mask: bool, transpose: bool
) -> None:
    lowered = check_interpreted(
        attention(*sizes, mask=mask, transpose=transpose), context(threads=2), exact=False
    )
    # Reads keys and values where they lie: a reduction, a softmax, a reduction.
    one_query = sizes[2] == 1
    assert len(lowered.calls) == (3 if one_query else 1)


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


def test_the_next_head_is_fetched_while_this_one_is_computed() -> None:
    """The hints of a head's matmuls add up to its keys, values and queries, and little more."""
    b, h, s, d = 1, 2, 48, 16
    module = lower(attention(b, h, s, d), context("avx512")).module
    matmuls = [node for node in walk(module) if isinstance(node, Brgemm)]
    hinted: dict[str, int] = {}
    for matmul in matmuls:
        for one in matmul.prefetch:
            name = one.address.buffer.name
            hinted[name] = hinted.get(name, 0) + one.elements * _times(module, matmul)
    assert len(hinted) == 3 and all(s * d <= count <= s * d + 4 * s for count in hinted.values())


def _times(module, matmul) -> int:  # type: ignore[no-untyped-def]
    """Return the number of runs of a matmul per head: the trips of the loops over panels around it."""
    around = [n for n in walk(module) if isinstance(n, For) and n.body is matmul]
    counts: list[int] = [int(n.end.value) - int(n.begin.value) for n in around]
    return math.prod(counts)


def test_heads_that_share_their_keys_ask_for_nothing_twice() -> None:
    shapes = {"q": (2, 3, 20, 8), "k": (8, 20), "v": (20, 8)}

    def body(make, x):  # type: ignore[no-untyped-def]
        weights = make("softmax", make("matmul_core", x["q"], x["k"]), axis=-1)
        return make("matmul_core", weights, x["v"])

    lowered = check_interpreted(build(shapes, body), context("avx512"), exact=False)
    names = {
        one.address.buffer.name
        for node in walk(lowered.module)
        if isinstance(node, Brgemm)
        for one in node.prefetch
    }
    assert len(names) == 1, "the queries"


def test_reductions_of_a_row_that_depend_on_another() -> None:
    """The variance needs the mean: three parts, each for all rows, with per-row values carried between them."""
    shapes = {"q": (1, 2, 19, 5), "k": (1, 2, 5, 18), "v": (1, 2, 18, 5)}

    def body(make, x):  # type: ignore[no-untyped-def]
        scores = make("matmul_core", x["q"], x["k"])
        mean = make("reduce_mean", scores, axes=(-1,), keep_dims=True)
        centered = make("sub", scores, mean)
        spread = make("reduce_max", make("abs", centered), axes=(-1,), keep_dims=True)
        return make("matmul_core", make("div", centered, spread), x["v"])

    check_interpreted(build(shapes, body), context("avx512"), exact=False)


def test_a_reduction_that_the_first_matmul_reads_is_no_row_work() -> None:
    """It is computed before the matmul, though consumers of the matmul read it too."""

    def body(make, x):  # type: ignore[no-untyped-def]
        total = make("reduce_sum_square", x["x"], axes=(-1,), keep_dims=True)
        scores = make("max", make("matmul_core", total, x["w"]), total)
        return make("matmul_core", scores, x["v"])

    check_interpreted(build({"x": (3, 2), "w": (1, 1), "v": (1, 4)}, body), context())
