"""Equal kernels are compiled once per test process, and LLVM compiles each text once.

Tests compile the same small kernels again and again: of a model with each switch off, most are the same. The same loops
make the same text (`test_compiler.py`), and the same text the same object (`test_aot.py`). All that graphc does before,
from reading a model to lowering it, is done each time. With GRAPHC_TEST_CACHE kernels outlive the process.
"""

from __future__ import annotations

import logging
import pickle
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

from llvmlite import binding as llvm

from graphc.codegen import aot, kernel_parts, kernel_pool
from graphc.codegen.aot import OPT_LEVEL, compile_to_part
from graphc.codegen.kernel_parts import CompiledPart, Part, compile_part
from graphc.targets.isa import Target
from graphc.tensor_ir import pipeline
from support.kept_objects import LOOPS, TEXTS, KeptObjects, kept_objects

CompilePart = Callable[[Part, Target, bool], CompiledPart]
Value = TypeVar("Value")


class Compile(Protocol):
    """`compile_to_part`."""

    def __call__(self, text: str, target: Target, level: int = ..., /) -> bytes: ...


_KEPT = 64 << 20
"""Bytes of objects kept, those used last."""


class _Recent(Generic[Value]):
    """Values by key, those used last, of at most `kept` bytes in all but the last."""

    def __init__(self, kept: int, size: Callable[[Value], int]) -> None:
        self._values: OrderedDict[bytes, Value] = OrderedDict()
        self._kept, self._size, self._total = kept, size, 0

    def get(self, key: bytes, make: Callable[[], Value]) -> Value:
        """The value of a key, made where there is none."""
        if key not in self._values:
            self._values[key] = make()
            self._total += self._size(self._values[key])
            while self._total > self._kept and len(self._values) > 1:
                self._total -= self._size(self._values.popitem(last=False)[1])
        self._values.move_to_end(key)
        return self._values[key]


def shared(
    compile_text: Compile, kept: int = _KEPT, between_runs: KeptObjects | None = None
) -> Compile:
    """`compile_text`, which takes an object from memory, or from an earlier run, if it was made before.

    Never where a test has replaced LLVM's parser.
    """
    objects = _Recent[bytes](kept, len)
    parse = llvm.parse_assembly

    def compile_once(text: str, target: Target, level: int = OPT_LEVEL) -> bytes:
        if llvm.parse_assembly is not parse:
            return compile_text(text, target, level)
        key = _hash(f"{target.cpu} {target.features} {level}\n{text}".encode())

        def make() -> bytes:
            return _kept(between_runs, key, bytes, lambda: compile_text(text, target, level))

        return objects.get(key, make)

    return compile_once


def shared_parts(
    compile_one: CompilePart, kept: int = _KEPT, between_runs: KeptObjects | None = None
) -> CompilePart:
    """`compile_one`, which takes an object from memory, or from an earlier run, if it was made of equal loops before.

    Never where a test has replaced passes or LLVM, or wants to see what the passes log.
    """
    parts = _Recent[CompiledPart](kept, lambda part: len(part.object_code))
    steps = _steps()

    def compile_once(part: Part, target: Target, check: bool) -> CompiledPart:
        if _steps() != steps or logging.getLogger("graphc.loops").isEnabledFor(logging.DEBUG):
            return compile_one(part, target, check)
        try:
            text = pickle.dumps(
                (part.module, bool(part.kernel), sorted(part.declared), target, check)
            )
        except RecursionError:
            return compile_one(part, target, check)
        key = _hash(text)

        def make() -> CompiledPart:
            return _kept(between_runs, key, CompiledPart, lambda: compile_one(part, target, check))

        return parts.get(key, make)

    return compile_once


def _kept(
    between_runs: KeptObjects | None, key: bytes, kind: type[Value], make: Callable[[], Value]
) -> Value:
    """The value of an earlier run; made and kept where there is none."""
    known = between_runs.get(key) if between_runs else None
    if isinstance(known, kind):
        return known
    made = make()
    if between_runs:
        between_runs.put(key, made)
    return made


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _steps() -> tuple[object, ...]:
    """Return the inputs that determine the object code of loops."""
    return pipeline.PASSES, getattr(kernel_parts, "compile_to_part")  # noqa: B009 - as below


def share_objects() -> None:
    """From now on, equal kernels are compiled once in this process, and equal texts too."""
    assert getattr(kernel_parts, "compile_to_part") is compile_to_part  # noqa: B009 - not a name it exports
    texts = shared(compile_to_part, between_runs=kept_objects(TEXTS))
    setattr(kernel_parts, "compile_to_part", texts)  # noqa: B010
    setattr(aot, "compile_to_part", texts)  # noqa: B010 - of which `compile_to_object` is made
    whole = shared_parts(compile_part, between_runs=kept_objects(LOOPS))
    setattr(kernel_pool, "compile_part", whole)  # noqa: B010
