"""The machine description: no number of the machine in cost models or templates, and choices follow it."""

from __future__ import annotations

from dataclasses import replace

from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.cost import Gemm, blocking_cycles, gemm_cycles, worth_threads
from graphc.graph_ir.schedule.matmul_tile import pick_blocking
from graphc.graph_ir.schedule.spaces import space_of
from graphc.graph_ir.schedule.window_tile import pixels_per_block
from graphc.targets.isa import GemmTile, Target
from graphc.targets.machines import SAPPHIRE_RAPIDS, UNKNOWN, ZEN3, ZEN5, machine_of
from graphc.targets.microkernels import f32_kernel

TILE = GemmTile(8, 3)


def test_core_families_are_told_by_name_and_features() -> None:
    assert machine_of("znver3", ["avx2"], "AuthenticAMD") is ZEN3
    assert machine_of("znver5", ["avx512bf16"], "AuthenticAMD") is ZEN5
    assert machine_of("skylake", ["avx512bf16"], "GenuineIntel") is SAPPHIRE_RAPIDS
    assert machine_of("znver4", ["avx512bf16"], "AuthenticAMD") is UNKNOWN


def test_cost_models_follow_the_machine_of_the_target() -> None:
    zen5 = Target("avx512")
    one_port = replace(zen5, machine=replace(ZEN5, fma_per_cycle=1))
    kernel = f32_kernel(zen5)
    slower, faster = (gemm_cycles(64, 96, TILE, x, kernel) for x in (one_port, zen5))
    assert slower == 2 * faster
    slow = replace(zen5, machine=replace(ZEN5, shared_bytes_per_cycle=0.1))
    gemms = [Gemm(1, 8, 4096, 4096, kernel, x) for x in (zen5, slow)]
    blocking = pick_blocking(gemms[0], TILE)
    costs = [blocking_cycles(matmul, blocking) for matmul in gemms]
    assert costs[1] > 10 * costs[0]


def test_what_is_worth_sharing_is_the_machine_s_to_say() -> None:
    eager = replace(Target("avx2"), machine=replace(ZEN5, parallel_multiply_adds=10))
    assert worth_threads(100, eager) and not worth_threads(100, Target("avx2"))
    (op,) = [op for op in relu_of(100).ops if op.op_name == "relu"]
    for least, threads, tasks in ((100, 2, 2), (101, 2, 1), (100, 1, 1)):
        target = replace(eager, machine=replace(ZEN5, parallel_elements=least))
        space = space_of(op, LowerContext(target, CompileOptions(threads)))
        assert space is not None and space.pick.number("tasks") == tasks


def test_windows_follow_the_machine() -> None:
    """Interleaved results hide the latency."""
    g = ConvolutionGeometry(1, 1, 8, 16, (9, 64), (9, 64), (3, 3), before=(1, 1))
    assert pixels_per_block(g, ZEN5) == 8
    assert pixels_per_block(g, replace(ZEN5, fma_latency=2)) == 4


def relu_of(size: int) -> Graph:
    graph = Graph("relu")
    graph.make("relu", (graph.make_input(LogicalTensor(F32, (size,))),))
    return graph


def test_lanes_follow_the_vector() -> None:
    assert (Target("avx512").lanes(F32), Target("generic").lanes(F32)) == (16, 4)
