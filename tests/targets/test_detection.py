"""Every feature that code may need has a bit, and the bits say of this CPU what LLVM says of it."""

from __future__ import annotations

import ctypes
import platform

import pytest

import graphc
from graphc.codegen.aot import compile_to_object
from graphc.codegen.host import host_supports, target_for
from graphc.runtime.loader import LoadedCode, host_features
from graphc.targets.detection import DETECTION
from graphc.targets.isa import ISAS
from support.layers import layer

WRAPPER = """
define i32 @has(i32 %leaf, i32 %subleaf, i64 %register, i32 %mask, i64 %state) {
  %bit = call i1 @graphc_cpu_has(i32 %leaf, i32 %subleaf, i64 %register, i32 %mask)
  %saves = call i1 @graphc_cpu_saves(i64 %state)
  %both = and i1 %bit, %saves
  %result = zext i1 %both to i32
  ret i32 %result
}
"""


def test_every_feature_of_a_level_has_a_bit() -> None:
    bits = DETECTION["x86_64"].bits
    levels = [isa for isa in ISAS.values() if not isa.triple and isa.needs]
    named = {f for isa in levels for f in (*isa.needs, *isa.features, *isa.optional)}
    assert named and named <= set(bits)


@pytest.mark.skipif(
    not host_supports("avx2"), reason="code for AVX2 has the names of x86's features"
)
def test_code_for_this_cpu_needs_nothing_that_it_does_not_use() -> None:
    """An AMD CPU of 2020 is its own `avx2` level: its code runs on an Intel CPU of 2013, and under valgrind."""
    needed = graphc.compile(layer(), "avx2").artifact.metadata.cpu_features
    assert {"avx2", "fma"} <= set(needed)
    assert not {"adx", "aes", "gfni", "pclmul", "sha", "vaes", "vpclmulqdq"} & set(needed)


@pytest.mark.skipif(
    platform.machine() not in DETECTION, reason="the questions are of another machine"
)
def test_bits_agree_with_llvm() -> None:
    detection = DETECTION[platform.machine()]
    code = LoadedCode(compile_to_object(detection.text + WRAPPER, target_for("generic")))
    kinds = (ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_int64)
    has = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(code.address("has"))
    found = set()
    for name, (leaf, subleaf, register, bit, state) in detection.bits.items():
        number = leaf - (1 << 32) if leaf >> 31 else leaf
        if has(number, subleaf, register, 1 << bit, state):
            found.add(name)
    assert found == host_features() & set(detection.bits)
