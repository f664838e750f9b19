"""Convolutions by patches of plain images: exactly on integers, between guard pages, for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32, F64, DType
from graphc.base.errors import UserError
from graphc.codegen.aot import assembly
from graphc.codegen.host import host_supports
from graphc.codegen.llvm_types import IN_LOOPS
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.targets.isa import Target
from graphc.tools.fuzz.guarded import Edge, guarded, guarded_copy
from graphc.tools.hot_loop.find import hot_loop
from support.lowered import check_interpreted, context, integers

NATIVE_ISAS = [isa for isa in ("avx512", "avx2") if host_supports(isa)]
Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]

CASES: tuple[Case, ...] = (
    ((2, 3, 23, 21), (17, 3, 3, 3), {"strides": (2, 2), "before": (1, 1), "after": (1, 1)}),
    (
        (1, 1, 5, 33),
        (8, 1, 5, 4),
        {"before": (4, 7), "after": (3, 40)},
    ),  # taps that see padding alone
    ((1, 6, 9, 17), (26, 3, 3, 3), {"groups": 2, "dilations": (2, 3), "before": (1, 2)}),
    ((1, 2, 13, 16), (9, 2, 1, 7), {"strides": (3, 1), "before": (0, 6)}),
    ((3, 1, 50), (33, 1, 10), {"strides": (5,)}),
)


def layer(case: Case, dtype: DType = F32) -> Graph:
    """A convolution, a bias for each output, a residual and relu."""
    shape, w, attrs = case
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(dtype, shape), "x")
    weights = graph.make_constant(integers(w, 3).astype(dtype.numpy), "w")
    y = graph.make("convolution", (x, weights), attrs, "conv").outputs[0]
    bias = integers((w[0],) + (1,) * (len(w) - 2), 4).astype(dtype.numpy)
    y = graph.make("add", (y, graph.make_constant(bias, "bias"))).outputs[0]
    y = graph.make("add", (y, graph.make_input(y.details, "other"))).outputs[0]
    graph.make_output(graph.make("relu", (y,)).outputs[0])
    return graph


PATCHES = {"conv": "band=patches"}


@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
def test_interpreted(isa: str) -> None:
    lowered = check_interpreted(
        layer(((1, 3, 7, 6), (8, 3, 3, 3), {"strides": (2, 1)})), context(isa)
    )
    assert any("relu" in call.kernel and "patches" in call.kernel for call in lowered.calls)


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", NATIVE_ISAS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_exact_on_integers_between_guard_pages(case: Case, isa: str) -> None:
    graph = layer(case)
    arrays = [integers(op.outputs[0].details.plain_dims, i) for i, op in enumerate(graph.inputs)]
    (expected,) = graph.evaluate(arrays)
    model = graphc.compile(graph, isa, threads=2, schedules=PATCHES)
    ends: tuple[Edge, ...] = ("start", "end")
    for at in ends:
        inputs = {t.name: guarded_copy(a, at) for t, a in zip(model.inputs, arrays, strict=True)}
        result = guarded(expected.shape, F32, at)
        model.bind(inputs, [result])()
        np.testing.assert_array_equal(result, expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rows", [1, 2, 5, 12])
def test_bands_of_any_number_of_rows_and_threads_have_the_same_bits(rows: int) -> None:
    """12 rows of results: also 5 and 5 and 2."""
    graph, rng = layer(CASES[0]), np.random.default_rng(1)
    arrays = [
        rng.standard_normal(op.outputs[0].details.plain_dims).astype(np.float32)
        for op in graph.inputs
    ]
    whole = np.asarray(graphc.compile(graph, threads=1, schedules=PATCHES)(*arrays))
    requested = {"conv": f"band=patches mc={rows}"}
    found = graphc.compile(graph, threads=2, schedules=requested)(*arrays)
    np.testing.assert_array_equal(np.asarray(found), whole)


def test_a_first_layer_alone_is_one_kernel_and_im2col_where_it_is_off() -> None:
    """Padding, im2col and matmul took 136 us, with results on their way between cores; patches take 110."""
    case: Case = (
        (1, 3, 224, 224),
        (32, 3, 3, 3),
        {"strides": (2, 2), "before": (1, 1), "after": (1, 1)},
    )
    (call,) = compile_stages(layer(case), "avx512").lowered.calls
    assert "band=patches" in call.note
    off = graphc.compile(layer(CASES[0]), threads=1, disabled=("direct-convolution",))
    arrays = [
        integers(op.outputs[0].details.plain_dims, i) for i, op in enumerate(layer(CASES[0]).inputs)
    ]
    on = graphc.compile(layer(CASES[0]), threads=1, schedules=PATCHES)
    np.testing.assert_array_equal(np.asarray(on(*arrays)), np.asarray(off(*arrays)))


def test_f64() -> None:
    graph = layer(CASES[0], F64)
    arrays = [
        integers(op.outputs[0].details.plain_dims, i).astype(np.float64)
        for i, op in enumerate(graph.inputs)
    ]
    model = graphc.compile(graph, threads=1, schedules=PATCHES)
    np.testing.assert_array_equal(np.asarray(model(*arrays)), graph.evaluate(arrays)[0])


def test_an_unknown_band_is_refused() -> None:
    with pytest.raises(UserError, match=r"band must be .* in the layouts chosen, got"):
        graphc.compile(layer(CASES[0]), schedules={"conv": "band=lines"})


def test_no_sum_leaves_its_register() -> None:
    """LLVM would move the zero of the padding out of all loops, and a sum to the stack in each round instead."""
    case: Case = ((1, 32, 56, 56), (32, 4, 3, 3), {"groups": 8, "before": (1, 1), "after": (1, 1)})
    made = compile_stages(layer(case), Target("avx2", "x86-64-v3", "+avx2,+fma"))
    text, target = made.llvm_ir, made.request.target
    assert hot_loop(assembly(text, target), target).spills == 0
    assert hot_loop(assembly(text.replace(f'"{IN_LOOPS}"', ""), target), target).spills > 0
