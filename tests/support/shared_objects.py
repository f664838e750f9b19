"""Equal kernels are compiled once per test process, and LLVM compiles each text once.

Tests compile the same small kernels again and again: of a model with each switch off, most are the same. The same loops
make the same text (`test_compiler.py`), and the same text the same object (`test_aot.py`). All that graphc does before,
from reading a model to lowering it, is done each time.
"""

from __future__ import annotations

import logging
import pickle
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

from graphc.base.target import Target
from graphc.codegen import kernel_parts, kernel_pool
from graphc.codegen.aot import compile_to_part
from graphc.codegen.kernel_parts import CompiledPart, Part, compile_part
from graphc.tensor_ir import pipeline

Compile = Callable[[str, Target, int], bytes]
CompilePart = Callable[[Part, Target, bool], CompiledPart]

_KEPT = 64 << 20
"""Bytes of objects kept, those used last."""


def shared(compile_text: Compile, kept: int = _KEPT) -> Compile:
    """`compile_text`, which takes an object from memory if it made it before."""
    objects: OrderedDict[bytes, bytes] = OrderedDict()
    total = 0

    def compile_once(text: str, target: Target, level: int) -> bytes:
        nonlocal total
        words = f"{target.cpu} {target.features} {level}\n{text}"
        key = blake2b(words.encode(), digest_size=16).digest()
        if key not in objects:
            objects[key] = compile_text(text, target, level)
            total += len(objects[key])
            while total > kept and len(objects) > 1:
                total -= len(objects.popitem(last=False)[1])
        objects.move_to_end(key)
        return objects[key]

    return compile_once


def shared_parts(compile_one: CompilePart, kept: int = _KEPT) -> CompilePart:
    """`compile_one`, which takes an object from memory if it made it of equal loops before.

    Never where a test has replaced passes or LLVM, or wants to see what the passes log.
    """
    parts: OrderedDict[bytes, CompiledPart] = OrderedDict()
    total = 0
    steps = _steps()

    def compile_once(part: Part, target: Target, check: bool) -> CompiledPart:
        nonlocal total
        if _steps() != steps or logging.getLogger("graphc.loops").isEnabledFor(logging.DEBUG):
            return compile_one(part, target, check)
        try:
            text = pickle.dumps(
                (part.module, bool(part.kernel), sorted(part.declared), target, check)
            )
        except RecursionError:
            return compile_one(part, target, check)
        key = blake2b(text, digest_size=16).digest()
        if key not in parts:
            parts[key] = compile_one(part, target, check)
            total += len(parts[key].object_code)
            while total > kept and len(parts) > 1:
                total -= len(parts.popitem(last=False)[1].object_code)
        parts.move_to_end(key)
        return parts[key]

    return compile_once


def _steps() -> tuple[object, ...]:
    """What makes an object of loops, as it is now."""
    return pipeline.PASSES, getattr(kernel_parts, "compile_to_part")  # noqa: B009 - as below


def share_objects() -> None:
    """From now on, equal kernels are compiled once in this process, and equal texts too."""
    assert getattr(kernel_parts, "compile_to_part") is compile_to_part  # noqa: B009 - not a name it exports
    setattr(kernel_parts, "compile_to_part", shared(compile_to_part))  # noqa: B010
    setattr(kernel_pool, "compile_part", shared_parts(compile_part))  # noqa: B010
