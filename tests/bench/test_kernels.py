"""Problem strings, settings by hand, and one real trial."""

import pytest

from graphc.base.errors import UserError
from graphc.bench.kernels import (
    Problem,
    default_schedule,
    override,
    parse_problem,
    sweep,
    trial,
)
from support.isa import host_target


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("matmul m128n768k64 f32", Problem(1, 128, 768, 64)),
        ("  matmul  b8m1n2k3  f32 ", Problem(8, 1, 2, 3)),
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


def test_settings_by_hand_are_checked() -> None:
    target = host_target("avx2")
    chosen = default_schedule(Problem(1, 30, 40, 8), target, 1)
    lanes = 8
    assert override(chosen, {"mr": 2, "nr": 2 * lanes, "kc": 4}, target).number("nv") == 2
    for settings, message in (
        ({"zz": 1}, "--set knows mr, nr, mc, kc and ng, got 'zz'"),
        ({"mr": 0}, "--set mr must be at least 1, got 0"),
        ({"nr": 7}, "--set nr must be a multiple of 8 on avx2, got 7"),
    ):
        with pytest.raises(UserError, match=message):
            override(chosen, settings, target)


def test_the_sweep_stays_within_the_registers() -> None:
    target = host_target("avx2")
    found = list(sweep(Problem(1, 64, 64, 64), target, 1))
    assert found
    assert all((s.number("mr") + 1) * s.number("nv") < 16 for s in found)


@pytest.mark.isa("avx2", "fma")
def test_a_trial_is_checked_timed_and_has_an_inner_loop_without_spills() -> None:
    problem, target = Problem(1, 24, 48, 64), host_target("avx2")
    result = trial(problem, default_schedule(problem, target, 1), target, 1, seconds=0.01)
    assert result.gflops > 0
    assert sum("vfmadd" in line for line in result.inner_loop) >= 12
    assert result.spills == 0
