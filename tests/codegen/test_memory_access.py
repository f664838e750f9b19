"""Loads and stores: whole vectors, the first elements of one, gathers, scatters; between guard pages."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from graphc.base.dtypes import ALL, BF16, BOOL, F32, F64, S8, S16, S32, S64, DType
from graphc.codegen.aot import assembly
from graphc.codegen.host import target_for
from graphc.codegen.module import emit_module
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Allocate, Broadcast, Buffer, Function, Load, Module, Ramp, Store
from graphc.tools.fuzz.guarded import guarded
from support.native_functions import SHAPES, NativeModule, assert_same, runnable_target

SIZES = (F64, F32, BF16, S8, BOOL, S64)
"""One type of each width and kind: what a load or store depends on."""


def boundary_counts(lanes: int) -> list[int]:
    """Return counts of active elements among `lanes`."""
    return sorted(
        {1, 2, 3, lanes // 2, lanes // 2 + 1, lanes - 1, lanes} & set(range(1, lanes + 1))
    )


def partial_copy(dtype: DType, lanes: int, active: int) -> Function:
    """all[0:lanes] = part[0:active] and zeros; copy[0:active] = part[0:active]; in place: same[0:active] += 0."""
    part, copy = (Buffer(name, dtype, (active,)) for name in ("part", "copy"))
    whole = Buffer("all", dtype, (lanes,))
    b = t.LoopBuilder()
    b.store(whole, (0,), t.load(part, (0,), lanes, active))
    b.store(copy, (0,), t.load(part, (0,), lanes, active), active)
    return b.function(f"partial_{dtype}_{active}", (part, copy, whole))


def local_copy(dtype: DType, lanes: int, active: int) -> Function:
    """The same by way of a local that holds another vector behind the part."""
    part, out = (Buffer(name, dtype, (2 * lanes,)) for name in ("part", "out"))
    local = Buffer("local", dtype, (2 * lanes,), "local")
    b = t.LoopBuilder()
    b.emit(Allocate(local))
    b.store(local, (0,), t.load(part, (0,), lanes))
    b.store(local, (lanes,), t.load(part, (lanes,), lanes))
    b.store(local, (0,), t.load(part, (lanes,), lanes), active)
    b.store(out, (0,), t.load(local, (0,), lanes, active))
    b.store(out, (lanes,), t.load(local, (lanes - active,), lanes))
    return b.function(f"local_{dtype}_{active}", (part, out))


def values(dtype: DType, count: int) -> np.ndarray:
    """No two neighbors alike."""
    numbers = np.arange(1, count + 1)
    return (numbers % 2 == 1) if dtype == BOOL else (numbers % 100).astype(dtype.numpy)


def narrowed(wide: DType, narrow: DType, lanes: int, active: int) -> Function:
    """narrow[0:active] = wide[0:active], and what is behind it stays."""
    a, b = Buffer("a", wide, (lanes,)), Buffer("b", narrow, (lanes,))
    builder = t.LoopBuilder()
    value = t.cast(t.load(a, (0,), lanes), narrow)
    builder.store(b, (0,), value, active)
    return builder.function(f"narrowed_{wide}_{narrow}_{active}", (a, b))


@pytest.mark.parametrize("shape", SHAPES)
def test_narrowed_vectors_touch_their_elements_only(shape: str) -> None:
    """LLVM stores the only element of a masked store as wide as it was before it was narrowed."""
    target = runnable_target(shape)
    cases = [
        (wide, narrow, active)
        for wide, narrow in ((S32, S8), (S32, S16), (S16, S8), (S64, S32), (F32, BF16), (F32, S8))
        for active in {1, 2, target.lanes(wide) - 1} - {0}
    ]
    made = [narrowed(wide, narrow, target.lanes(wide), n) for wide, narrow, n in cases]
    native = NativeModule(Module(tuple(made)), target)
    for wide, narrow, active in cases:
        behind = np.full(target.lanes(wide), 77, narrow.numpy)
        arrays = [values(wide, target.lanes(wide)), behind]
        native.check(f"narrowed_{wide}_{narrow}_{active}", arrays)


@cache
def partial_module(shape: str) -> NativeModule:
    functions = [
        make(dtype, lanes, active)
        for dtype in SIZES
        for lanes in [runnable_target(shape).lanes(dtype)]
        for active in boundary_counts(lanes)
        for make in (partial_copy, local_copy)
    ]
    return NativeModule(Module(tuple(functions)), runnable_target(shape))


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("dtype", SIZES, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_partial_vectors_touch_their_elements_only(shape: str, dtype: DType, at: str) -> None:
    native, lanes = partial_module(shape), runnable_target(shape).lanes(dtype)
    for active in boundary_counts(lanes):
        part = values(dtype, active)
        zeros = [np.zeros(n, dtype.numpy) for n in (active, lanes)]
        native.check(f"partial_{dtype}_{active}", [part, *zeros], at)  # type: ignore[arg-type]
        both = values(dtype, 2 * lanes)
        native.check(f"local_{dtype}_{active}", [both, np.zeros_like(both)])


@pytest.mark.parametrize("shape", SHAPES)
def test_vectors_of_odd_sizes(shape: str) -> None:
    sizes = [(dtype, lanes) for dtype in (F32, S8, BOOL) for lanes in (2, 3, 4, 32, 128)]
    functions = []
    for dtype, lanes in sizes:
        a, out = Buffer("a", dtype, (lanes,)), Buffer("out", dtype, (lanes,))
        b = t.LoopBuilder()
        b.store(out, (0,), t.load(a, (0,), lanes))
        functions.append(b.function(f"copy_{dtype}_{lanes}", (a, out)))
    native = NativeModule(Module(tuple(functions)), runnable_target(shape))
    for dtype, lanes in sizes:
        native.check(f"copy_{dtype}_{lanes}", [values(dtype, lanes), np.zeros(lanes, dtype.numpy)])


@cache
def gather_module(shape: str) -> NativeModule:
    functions = []
    for dtype in SIZES:
        lanes = min(16, runnable_target(shape).lanes(dtype))
        source = Buffer("source", dtype, (3, 16))
        index = Buffer("index", S64, (lanes,))
        for active in boundary_counts(lanes):
            out, spread = Buffer("out", dtype, (lanes,)), Buffer("spread", dtype, (3, 16))
            at = (t.as_expr(1), Load(index, (t.as_expr(0),), lanes))
            b = t.LoopBuilder()
            b.store(out, (0,), Load(source, at, lanes, active))
            b.emit(Store(spread, at, Load(source, (t.as_expr(2), t.as_expr(0)), lanes), active))
            params = (source, index, out, spread)
            functions.append(b.function(f"gather_{dtype}_{active}", params))
    return NativeModule(Module(tuple(functions)), runnable_target(shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_gather_and_scatter(shape: str, rng: np.random.Generator) -> None:
    native = gather_module(shape)
    for dtype in SIZES:
        lanes = min(16, runnable_target(shape).lanes(dtype))
        for active in boundary_counts(lanes):
            # Equal indices on purpose: the last lane must win.
            index = rng.integers(0, 16, lanes) // 2 * 2
            arrays = [values(dtype, 48).reshape(3, 16), index]
            out, spread = np.zeros(lanes, dtype.numpy), np.zeros((3, 16), dtype.numpy)
            native.check(f"gather_{dtype}_{active}", [*arrays, out, spread])


@pytest.mark.parametrize("shape", SHAPES)
def test_inactive_lanes_of_a_gather_may_be_far_outside(shape: str) -> None:
    a, out = Buffer("a", F32, (2,)), Buffer("out", F32, (4,))
    b = t.LoopBuilder()
    far = Ramp(t.as_expr(0), 4) * Broadcast(t.as_expr(1 << 40), 4)
    b.store(out, (0,), Load(a, (far,), 4, 1))
    native = NativeModule(Module((b.function("f", (a, out)),)), runnable_target(shape))
    source, result = guarded(2, F32), guarded(4, F32)
    source[:] = 5, 6
    native.call("f", [source, result])
    np.testing.assert_array_equal(result, [5, 0, 0, 0])


@pytest.mark.parametrize("shape", SHAPES)
def test_multi_dimensional_addresses(shape: str, rng: np.random.Generator) -> None:
    """out[i, j, k] = a[k, i + 1, 2 * j] with the index terms in several loops, one of them shifted."""
    a, out = Buffer("a", S32, (7, 5, 8)), Buffer("out", S32, (4, 3, 7))
    b = t.LoopBuilder()
    with (
        b.loop("i", 0, 4) as i,
        b.loop("j", 2, 5) as j,
        b.loop("k", 0, 7) as k,
    ):
        column = 2 * j - 4
        b.store(out, (i, j - 2, k), a[k, i + 1, column])
    native = NativeModule(Module((b.function("f", (a, out)),)), runnable_target(shape))
    native.check(
        "f", [rng.integers(0, 99, (7, 5, 8)).astype(np.int32), np.zeros((4, 3, 7), np.int32)]
    )


def test_bool_memory_holds_zero_and_one_only() -> None:
    a, out = Buffer("a", S16, (32,)), Buffer("out", BOOL, (32,))
    b = t.LoopBuilder()
    b.store(out, (0,), t.cast(t.load(a, (0,), 32), BOOL))
    native = NativeModule(Module((b.function("f", (a, out)),)), runnable_target("avx2"))
    result = np.zeros(32, bool)
    native.call("f", [np.arange(32, dtype=np.int16) * 256, result])
    assert_same(result.view(np.uint8), (np.arange(32) > 0).astype(np.uint8))


def test_every_type_has_a_width_that_is_tested() -> None:
    assert {dtype.size for dtype in ALL} == {dtype.size for dtype in SIZES}


def test_avx512_moves_partial_vectors_of_every_type_by_a_mask() -> None:
    target = target_for("avx512")
    for dtype in SIZES:
        lanes = target.lanes(dtype)
        module = Module((partial_copy(dtype, lanes, lanes // 2 + 1),))
        text = assembly(emit_module(module, target), target)
        moves = [line for line in text.splitlines() if "{%k" in line and "(%r" in line]
        assert len(moves) == 3, f"{dtype}: two masked loads and a masked store, got {moves}"
