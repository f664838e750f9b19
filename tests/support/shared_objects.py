"""LLVM compiles each text once per test process: it makes the same object of the same text (`test_aot.py`).

Tests compile the same small kernels again and again. All that graphc itself does with them is done each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

from graphc.base.target import Target
from graphc.codegen import kernel_parts
from graphc.codegen.aot import compile_to_part

Compile = Callable[[str, Target, int], bytes]

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


def share_objects() -> None:
    """From now on, kernels of models with equal texts are compiled once in this process."""
    assert getattr(kernel_parts, "compile_to_part") is compile_to_part  # noqa: B009 - not a name it exports
    setattr(kernel_parts, "compile_to_part", shared(compile_to_part))  # noqa: B010
