"""The table of microkernels: one row for each pair of types, the best that the features allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphc.base.contraction import Contraction, accumulator_of
from graphc.base.dtypes import BF16, BOOL, F16, F32, F64, S8, S16, S32, S64, U8
from graphc.base.errors import InternalError
from graphc.targets.isa import ISAS, Target
from graphc.targets.machines import SAPPHIRE_RAPIDS, ZEN5
from graphc.targets.microkernels import find_microkernel, matmul_rates, microkernel


@pytest.mark.parametrize(
    ("a", "b", "sums"),
    [(F32, F32, F32), (F64, F64, F64), (F16, F16, F32), (BF16, BF16, F32), (F32, F16, F32), (U8, S8, S32),
     (S8, S8, S32), (S16, S16, S32), (S32, S32, S32), (S64, S64, S64)],
)  # fmt: skip
def test_sums(a, b, sums) -> None:
    assert accumulator_of(a, b) == sums


def test_features_choose_the_row() -> None:
    plain, bf16 = Target("avx512"), Target("avx512", features="+avx512bf16,+avx512vnni")
    assert microkernel(BF16, BF16, plain).instruction == "fma"
    assert microkernel(BF16, BF16, bf16).instruction == "dot2"
    assert microkernel(BF16, BF16, bf16, grouped=False).instruction == "fma"
    assert microkernel(U8, S8, bf16).rate(bf16) > microkernel(U8, S8, plain).rate(plain)
    assert microkernel(U8, S8, plain).k_group == 2
    assert microkernel(U8, S8, bf16).k_group == 4
    assert microkernel(F16, F16, plain).converts_a and not microkernel(BF16, BF16, bf16).converts_a
    assert not microkernel(F32, F32, plain).converts_a


def test_the_machine_orders_the_rows() -> None:
    bf16 = Target("avx512", features="+avx512bf16")
    assert microkernel(BF16, BF16, replace(bf16, machine=ZEN5)).instruction == "dot2"
    assert microkernel(BF16, BF16, replace(bf16, machine=SAPPHIRE_RAPIDS)).instruction == "fma"


def test_every_isa_multiplies_floats_and_bytes() -> None:
    for isa in ISAS:
        rates = matmul_rates(Target(isa))
        assert {"f32xf32", "f64xf64", "f16xf16", "bf16xbf16", "u8xs8", "s8xs8"} <= set(rates)
        assert rates["f32xf32"] == "fma, 1 x f32"


def test_what_has_no_row() -> None:
    assert find_microkernel(BOOL, BOOL, Target("avx2")) is None
    with pytest.raises(InternalError, match="no microkernel multiplies bool by bool on avx2"):
        microkernel(BOOL, BOOL, Target("avx2"))


def test_a_contraction_says_its_types() -> None:
    assert str(Contraction(F16, F16, F32, F16)) == "f16 x f16 -> f32 -> f16"
