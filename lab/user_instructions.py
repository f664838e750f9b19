"""`graphc.instruction`: an instruction of the CPU with its meaning, for kernels of user code; tried when declared."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.errors import InternalError, UserError
from ..base.records import dataclass
from ..codegen.host import host_has, target_for
from ..codegen.kernel_parts import KERNEL, Part
from ..codegen.kernel_pool import compile_apart
from ..extension.instructions import declared
from ..runtime.loader import LoadedCode
from ..targets.emission import parse_emission
from ..targets.isa import Instruction, Target
from ..tensor_ir import interpreter
from ..tensor_ir.builder import LoopBuilder
from ..tensor_ir.nodes import Buffer, Function, Module, Slice

Array = np.ndarray[Any, Any]

TRIALS = 64
"""Sets of random operands on which code and meaning are compared."""


@dataclass(frozen=True)
class UserInstruction:
    """An instruction that kernels call with an address for each vector: `sad(b, total, slice_of(x, (i,)), y)`."""

    instruction: Instruction

    def __call__(self, b: LoopBuilder, *operands: Slice | Buffer) -> None:
        """Append the instruction to the loops of a kernel."""
        b.invoke(self.instruction.name, *operands)

    def available(self, target: Target) -> bool:
        """Return whether a target has the features that the instruction needs, for the `when` of a kernel."""
        return target.has(*self.instruction.needs)


def instruction(
    meaning: str, emission: str, *, needs: Sequence[str] = (), relative_error: float = 0.0
) -> UserInstruction:
    """Declare an instruction of the CPU for kernels of user code.

    LLVM compiles a call of it in another process, and where this CPU has the features, the code is compared with the
    meaning on random operands.

    Args:
        meaning: A function in Tensor IR, whose name is that of the instruction; each parameter is a vector.
        emission: The LLVM intrinsic, with result and operands by their names in the meaning:
            `c = llvm.fma.v8f32(a, b, c)`. Operands that LLVM wants in another type, and numbers, have
            it before them: `<16 x i32> a`, `i32 4`.
        needs: LLVM's names of the features of a CPU that has it. `target="native+gfni"` compiles for one that
            graphc's own code does not use.
        relative_error: The largest difference of a float from its meaning; 0 for equal bits.

    Returns:
        The instruction: call it in a kernel's function with the builder `b` and the operands.

    Raises:
        UserError: Meaning and emission do not fit, or LLVM does not take the emission.
    """
    found = re.match(r"\s*def (\w+)", meaning)
    made = Instruction(found[1] if found else "", meaning, emission, needs=tuple(needs))
    with declared(made) as function:
        code = _compiled(made, function)
        if host_has(*needs):
            _compare(made, function, LoadedCode(code), relative_error)
    return UserInstruction(made)


@lru_cache(maxsize=64)
def _compiled(made: Instruction, meaning: Function) -> bytes:
    """Return the object code of a function that is one call. Raise UserError if LLVM does not take it."""
    b = LoopBuilder([param.name for param in meaning.params])
    b.invoke(made.name, *meaning.params)
    native = target_for("native")
    features = ",".join([native.features, *(f"+{name}" for name in made.needs)])
    part = Part(Module((b.function(KERNEL, meaning.params),)), made.name, instructions=(made,))
    try:
        code = compile_apart(part, native.with_features(native.cpu, features)).object_code
    except InternalError as error:
        raise UserError(
            f"instruction '{made.name}': its emission must have the types of LLVM's definition, and `needs` the "
            f"features: {error}"
        ) from error
    intrinsic = parse_emission(made.emission).intrinsic
    if intrinsic.encode() in code:  # a symbol that nothing defines
        raise UserError(
            f"instruction '{made.name}': its emission must name an intrinsic of LLVM, got '{intrinsic}'"
        )
    return code


def _compare(made: Instruction, meaning: Function, code: LoadedCode, error: float) -> None:
    """Raise UserError if the code gives another result than the meaning."""
    module, rng = Module((meaning,)), np.random.default_rng(0)
    params = [param for param in meaning.params if isinstance(param, Buffer)]
    pointers = [ctypes.c_void_p] * (len(params) + 1)
    run = ctypes.CFUNCTYPE(None, *pointers)(code.address(KERNEL))
    for _ in range(TRIALS):
        native = [_values(param, rng) for param in params]
        expected = [array.copy() for array in native]
        run(None, *(array.ctypes.data for array in native))
        interpreter.run(module, meaning.name, expected)
        for param, got, want in zip(params, native, expected, strict=True):
            off = np.flatnonzero(_differ(got, want, error))
            if off.size:
                raise UserError(
                    f"instruction '{made.name}': its emission must compute its meaning; lane {off[0]} of "
                    f"'{param.name}' must be {want[off[0]]}, got {got[off[0]]}"
                )


def _values(param: Buffer, rng: np.random.Generator) -> Array:
    """All integers, or floats of many magnitudes."""
    (lanes,), dtype = param.shape, param.dtype
    assert isinstance(lanes, int)
    if not dtype.is_float:
        return rng.integers(*dtype.limits, lanes, dtype.numpy, endpoint=True)
    return (rng.standard_normal(lanes) * np.exp2(rng.integers(-8, 9, lanes))).astype(dtype.numpy)


def _differ(got: Array, want: Array, error: float) -> Array:
    with np.errstate(invalid="ignore"):
        near = got == want if not error else np.abs(got - want) <= error * np.abs(want)
    return ~(near | ((got != got) & (want != want)))
