"""Problem strings, settings by hand, and one real trial."""

import pytest

from graphc.base.dtypes import BF16, F16, F32, F64, S8, U8, DType
from graphc.base.errors import UserError
from graphc.bench.kernels import (
    Problem,
    full_schedule,
    parse_problem,
    sweep,
    trial,
)
from graphc.graph_ir.ir.schedule import Schedule, parse_schedule
from graphc.targets.microkernels import microkernel
from support.isa import host_target


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("matmul m128n768k64 f32", Problem(1, 128, 768, 64)),
        ("  matmul  b8m1n2k3  f32 ", Problem(8, 1, 2, 3)),
        ("matmul m1n2k3 bf16", Problem(1, 1, 2, 3, BF16, BF16)),
        ("matmul m1n2k3 u8xs8", Problem(1, 1, 2, 3, U8, S8)),
    ],
)
def test_problem_strings_round_trip(text: str, problem: Problem) -> None:
    assert parse_problem(text) == problem
    assert parse_problem(str(problem)) == problem


@pytest.mark.parametrize("text", ["", "matmul m0n1k1 f32", "matmul m1n1k1 s8", "conv m1n1k1 f32"])
def test_other_strings_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="problem must look like 'matmul m128n768k768 f32'"):
        parse_problem(text)


def test_absurd_sizes_are_refused_before_anything_is_allocated() -> None:
    with pytest.raises(UserError, match="needs more than 8 GiB"):
        parse_problem("matmul m999999999n999999999k1 f32")


def test_a_schedule_is_completed_or_refused() -> None:
    target, problem = host_target("avx2"), Problem(1, 30, 40, 8)
    found = full_schedule(problem, target, 1, parse_schedule("mr=2 nv=2 kc=4"))
    assert [found.number(name) for name in ("mr", "nv", "kc")] == [2, 2, 4]
    assert found.number("mc") == full_schedule(problem, target, 1).number("mc")
    with pytest.raises(UserError, match="schedule of 'matmul_core': there is no parameter 'zz'"):
        full_schedule(problem, target, 1, parse_schedule("zz=1"))


def test_the_sweep_stays_within_the_registers() -> None:
    target = host_target("avx2")
    found = list(sweep(Problem(1, 64, 64, 64), target, 1))
    assert found
    assert all((s.number("mr") + 1) * s.number("nv") < 16 for s in found)


@pytest.mark.isa("avx2", "fma")
def test_a_trial_is_checked_timed_and_has_an_inner_loop_without_spills() -> None:
    problem, target = Problem(1, 24, 48, 64), host_target("avx2")
    result = trial(problem, full_schedule(problem, target, 1), target, 1, seconds=0.01)
    assert result.gflops > 0
    assert sum("vfmadd" in line for line in result.inner_loop) >= 12
    assert result.spills == 0


@pytest.mark.exhaustive
@pytest.mark.isa("avx2", "fma")
@pytest.mark.parametrize(
    ("a", "b"), [(F64, F64), (F16, F16), (BF16, BF16), (U8, S8), (S8, S8), (F32, F32)]
)
@pytest.mark.parametrize("requested", ["", "b=plain", "nv=1 kc=16"])
def test_matmuls_of_every_type_run_under_a_given_schedule(
    a: DType, b: DType, requested: str
) -> None:
    """Each compared with NumPy; the schedule that ran is the one requested."""
    problem, target = Problem(1, 9, 40, 24, a, b), host_target("avx2")
    wanted = parse_schedule(requested) if requested else Schedule("")
    schedule = full_schedule(problem, target, 1, wanted)
    assert wanted.settings.items() <= schedule.settings.items()
    assert trial(problem, schedule, target, 1, seconds=0.001).schedule == schedule


@pytest.mark.parametrize("types", [(F32, F32), (BF16, BF16), (U8, S8)])
def test_the_sweep_has_tiles_that_no_table_lists(types: tuple[DType, DType]) -> None:
    target, problem = host_target("avx2"), Problem(1, 64, 64, 64, *types)
    tiles = {(s.number("mr"), s.number("nv")) for s in sweep(problem, target, 1)}
    listed = {(x.rows, x.vectors) for x in microkernel(*types, target).tiles}
    assert listed < tiles and len(tiles) > 8
