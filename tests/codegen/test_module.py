"""The exported entry of a module: which array each parameter comes from, and what the symbol table shows."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import F32, S64, U8, DType
from graphc.base.errors import InternalError
from graphc.codegen.aot import assembly, compile_to_object
from graphc.codegen.module import emit_module
from graphc.runtime import abi
from graphc.runtime.loader import LoadedCode
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Block, Buffer, Function, Invoke, Module, Var
from support.native_functions import runnable_target

TARGET = runnable_target("avx2")
KERNEL = "f32_axpy_4__avx2"


def model() -> Module:
    """y0 = x0 + constants[16:32]; y1 = x1 + y0, by way of the arena."""
    a, b, c = (Buffer(name, F32, (4,)) for name in "abc")
    builder = t.LoopBuilder()
    with builder.loop("i", 0, 4) as i:
        builder.store(c, (i,), a[i] + b[i])
    kernel = builder.function(KERNEL, (a, b, c))
    x0, x1, y0, y1 = (Buffer(name, F32, (2, 2)) for name in ("x0", "x1", "y0", "y1"))
    constants, arena = Buffer("constants", U8, (32,)), Buffer("arena", U8, (64,))

    def at(buffer: Buffer, offset: int = 0) -> t.Slice:
        return t.slice_of(buffer, (offset,) if buffer.dtype == U8 else None)

    steps = (
        (at(x0), at(constants, 16), at(arena, 32)),
        (at(arena, 32), at(constants), at(y0)),
        (at(x1), at(y0), at(y1)),
    )
    body = Block(tuple(Invoke(KERNEL, step) for step in steps))
    main = Function("main", (x0, x1, y0, y1, constants, arena), body)
    return Module((kernel, main), "main")


def pointers(*arrays: np.ndarray) -> ctypes.Array:
    return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))


def test_the_entry_hands_every_array_to_its_parameter() -> None:
    code = LoadedCode(compile_to_object(emit_module(model(), TARGET), TARGET))
    entry = abi.EntryFunction(code.address(abi.ENTRY_NAME))
    x0, x1 = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)
    y0, y1 = np.zeros(4, np.float32), np.zeros(4, np.float32)
    constants = np.array([0, 0, 0, 0, 1, 2, 3, 4], np.float32)
    arena = np.zeros(16, np.float32)
    data = (abi.pointer(a.ctypes.data) for a in (constants, arena))
    assert entry(pointers(x0, x1), pointers(y0, y1), None, *data, None) == 0
    np.testing.assert_array_equal(y0, [1, 3, 5, 7])
    np.testing.assert_array_equal(y1, [11, 13, 15, 17])


def test_kernels_are_local_symbols_and_only_the_entry_and_its_signature_are_exported() -> None:
    text = assembly(emit_module(model(), TARGET), TARGET)
    assert f"\n{KERNEL}:" in text
    exported = [line.split()[-1] for line in text.splitlines() if ".globl" in line]
    assert exported == [abi.ENTRY_NAME, abi.ARENA_NAME, abi.SIGNATURE_NAME]


def test_without_an_entry_every_function_is_exported() -> None:
    functions = tuple(Function(name, (), Block(())) for name in ("one", "two"))
    text = assembly(emit_module(Module(functions), TARGET), TARGET)
    assert [line.split()[-1] for line in text.splitlines() if ".globl" in line] == ["one", "two"]


def test_the_same_module_gives_the_same_text() -> None:
    assert emit_module(model(), TARGET) == emit_module(model(), TARGET)


def test_a_note_is_one_comment_line() -> None:
    function = Function("f", (), Block(()), "matmul 'fc1'\n} define")
    assert emit_module(Module((function,)), TARGET).startswith(
        "; matmul 'fc1' } define\ndefine void"
    )


@pytest.mark.parametrize("note", ["a\0b", "\ud800", "x\x1b[31m", "\u2028} define"], ids=ascii)
def test_a_note_of_any_text_cannot_cut_the_module_short(note: str) -> None:
    text = emit_module(Module((Function("f", (), Block(()), note),)), TARGET)
    assert text.encode().splitlines()[0].startswith(b"; ") and "\0" not in text
    assert b"\x7fELF" in compile_to_object(text, TARGET)


@pytest.mark.parametrize("param", [Buffer("weights", F32, (1,)), Buffer("x", F32, (1,)), Var("x0")])
def test_entry_parameters_of_other_names_are_refused(param: Buffer | Var) -> None:
    module = Module((Function("main", (param,), Block(())),), "main")
    with pytest.raises(InternalError, match=f"entry 'main': parameter '{param.name}' must be x<n>"):
        emit_module(module, TARGET)


def test_an_entry_without_tensors() -> None:
    sections = tuple(Buffer(name, _bytes(), (0,)) for name in ("constants", "arena"))
    module = Module((Function("main", sections, Block(())),), "main")
    code = LoadedCode(compile_to_object(emit_module(module, TARGET), TARGET))
    assert abi.EntryFunction(code.address(abi.ENTRY_NAME))(*[None] * 6) == 0


def _bytes() -> DType:
    return U8


def test_stamps_go_to_an_output_before_and_after_each_call() -> None:
    plain = model()
    main, stamps = plain.function("main"), Buffer("y2", S64, (4,))
    stamped = replace(main, params=(*main.params[:-2], stamps, *main.params[-2:]))
    module = Module((plain.functions[0], stamped), "main")
    code = LoadedCode(compile_to_object(emit_module(module, TARGET, "y2"), TARGET))
    entry = abi.EntryFunction(code.address(abi.ENTRY_NAME))
    x0, x1, y0, y1 = (np.zeros(4, np.float32) for _ in range(4))
    constants, arena, times = (
        np.ones(8, np.float32),
        np.zeros(16, np.float32),
        np.zeros(4, np.int64),
    )
    data = (abi.pointer(a.ctypes.data) for a in (constants, arena))
    assert entry(pointers(x0, x1), pointers(y0, y1, times), None, *data, None) == 0
    np.testing.assert_array_equal(y1, [2, 2, 2, 2])
    assert times[0] > 0 and (np.diff(times) >= 0).all()
