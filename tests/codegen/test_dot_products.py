"""Dot products: native code and interpreter leave the same bits in all vector shapes, by the right instruction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16, F32, S8, S16, S32, U8, DType
from graphc.codegen.aot import assembly
from graphc.codegen.host import target_for
from graphc.codegen.module import emit_module
from graphc.targets.isa import Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Function, Module
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify
from support.native_functions import SHAPES, NativeModule, runnable_target

KINDS = [
    ("dot2", BF16, BF16, F32),
    ("dot2", S16, S16, S32),
    ("dot4", U8, S8, S32),
    ("dot4", S8, S8, S32),
    ("dot2", U8, S8, S16),
    ("dot2", F16, F16, F32),
]
LANES = (1, 2, 3, 4, 8, 16, 32)


def dot(name: str, a: DType, b: DType, acc: DType, lanes: int) -> Function:
    """acc = dot(acc, a, b)."""
    group = int(name[-1])
    buffers = [Buffer("acc", acc, (lanes,))]
    buffers += [Buffer(n, kind, (lanes * group,)) for n, kind in (("a", a), ("b", b))]
    loads = [t.load(x, (0,), x.shape[0]) for x in buffers]
    body = t.LoopBuilder()
    body.store(buffers[0], (0,), t.call(name, *loads))
    return body.function(f"{name}_{a}_{lanes}", buffers)


def every_dot() -> Module:
    return Module(tuple(dot(*kind, lanes) for kind in KINDS for lanes in LANES))


def arrays(kind: tuple[str, DType, DType, DType], lanes: int, rng: np.random.Generator) -> list:
    """All bytes, the extremes most often; floats of many magnitudes, none so small that it may count as zero."""
    name, a, b, acc = kind
    group = int(name[-1])
    made = []
    for dtype, count in ((acc, lanes), (a, lanes * group), (b, lanes * group)):
        if dtype.is_float:
            largest = 8 if dtype == F16 else 20
            size = np.exp(rng.uniform(-largest, largest, count))
            made.append((rng.choice([-1, 1], count) * size).astype(dtype.numpy))
            continue
        limits = np.iinfo(dtype.numpy)
        values = rng.integers(limits.min, limits.max, count, endpoint=True)
        extreme = rng.choice([limits.min, limits.max], count)
        made.append(np.where(rng.random(count) < 0.5, extreme, values).astype(dtype.numpy))
    return made


def test_the_module_is_legal_and_prints() -> None:
    module = verify(every_dot())
    assert parse_module(print_module(module)) == module


def variants(shape: str) -> list[Target]:
    """The target, and the target as if it had no dot instructions."""
    target = runnable_target(shape)
    absent = "-avx512vnni,-avx512bf16,-avxvnni"
    plain = [f for f in target.features.split(",") if f[1:] not in absent.replace("-", "")]
    without = replace(target, features=",".join([*plain, absent] if plain != [""] else plain))
    return [target] if shape == "generic" else [target, without]


@pytest.mark.parametrize("shape", SHAPES)
def test_same_bits_as_the_interpreter(shape: str, rng: np.random.Generator) -> None:
    for target in variants(shape):
        native = NativeModule(every_dot(), target)
        for kind in KINDS:
            for lanes in LANES:
                for _ in range(8):
                    native.check(f"{kind[0]}_{kind[1]}_{lanes}", arrays(kind, lanes, rng))


def test_dot_products_of_bytes_at_their_extremes() -> None:
    """Four terms of 255 * 127, or -128 * -128, which a 16-bit accumulator would not hold."""
    for kind, x, y in ((KINDS[2], 255, 127), (KINDS[2], 255, -128), (KINDS[3], -128, -128)):
        module = Module((dot(*kind, 4),))
        data = [np.full(4, 2**31 - 1, np.int32), np.full(16, x, kind[1].numpy)]
        data.append(np.full(16, y, np.int8))
        interpreter.run(module, module.functions[0].name, data)
        assert data[0][0] == (2**31 - 1 + 4 * x * y + 2**31) % 2**32 - 2**31
        for shape in SHAPES:
            for target in variants(shape):
                again = [np.full(4, 2**31 - 1, np.int32), *data[1:]]
                NativeModule(module, target).check(module.functions[0].name, again)


def test_subnormals_may_count_as_zero() -> None:
    """The one freedom: the bound that `nodes` gives for it."""
    module = Module((dot(*KINDS[0], 16),))
    one = np.array([1e-39, 0.0] * 16).astype(BF16.numpy)
    data = [np.zeros(16, np.float32), one, np.full(32, 1000.0).astype(BF16.numpy)]
    exact, native = (
        [x.copy() for x in data],
        [x.copy() for x in data],
    )
    interpreter.run(module, module.functions[0].name, exact)
    NativeModule(module, runnable_target("avx512")).call(module.functions[0].name, native)
    assert np.all(np.abs(exact[0] - native[0]) <= 2.0**-126 * 1000)
    assert np.all(exact[0] > 0)


@pytest.mark.parametrize(
    "isa, features, kind, lanes, instruction",
    [
        ("avx512", "+avx512vnni", KINDS[2], 16, "vpdpbusd"),
        ("avx512", "+avx512vnni", KINDS[3], 16, "vpdpbusd"),
        ("avx512", "+avx512vnni", KINDS[1], 16, "vpdpwssd"),
        ("avx512", "+avx512bf16", KINDS[0], 16, "vdpbf16ps"),
        ("avx2", "+avxvnni", KINDS[2], 8, "vpdpbusd"),
        ("avx512", "", KINDS[2], 16, "vpmaddwd"),
        ("avx512", "", KINDS[0], 16, "vfmadd"),
        ("avx2", "", KINDS[2], 8, "vpmaddwd"),
        ("avx2", "", KINDS[3], 8, "vpmaddwd"),
        ("avx2", "", KINDS[1], 8, "vpmaddwd"),
        ("avx2", "", KINDS[4], 16, "vpmaddubsw"),
        ("avx512", "", KINDS[4], 32, "vpmaddubsw"),
    ],
)
def test_instructions(
    isa: str, features: str, kind: tuple[str, DType, DType, DType], lanes: int, instruction: str
) -> None:
    named = target_for(isa)
    base = Target(isa, "x86-64-v4" if isa == "avx512" else "x86-64-v3")
    flags = [f for f in named.features.split(",") if "vnni" not in f and "bf16" not in f]
    target = replace(base, features=",".join([*flags, *([features] if features else [])]))
    text = assembly(emit_module(Module((dot(*kind, lanes),)), target), target)
    assert instruction in text
    assert ("vpmaddubsw" in text) == (instruction == "vpmaddubsw"), "it saturates"
