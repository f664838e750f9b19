"""Rows of experts on every ISA: runs of any length, rows of no expert, whole and ragged panels, two threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.tools.fuzz.guarded import guarded, guarded_copy
from support.packed_matmul import packed_matmul

ISAS = [isa for isa in ("avx512", "avx2", "generic") if host_supports(isa)]

SIZES = [
    (1, 64, 64, 4, 32, False, True), (12, 37, 96, 4, 32, True, False), (7, 100, 64, 8, 16, False, False),
    (9, 50, 128, 4, 64, True, True), (21, 77, 640, 4, 32, False, False), (33, 20, 64, 8, 16, True, True),
]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s[:5])))
def test_rows_of_experts(sizes: tuple[Any, ...], is_dynamic: bool, isa: str) -> None:
    """In runs of any length and order; a row of no expert is that of zeros."""
    rows = size(Symbol("M", 0, 40)) if is_dynamic else None
    static, arrays = packed_matmul(*sizes, experts=3)
    (wanted,) = static.evaluate(arrays)
    graph, _ = packed_matmul(*sizes, rows=rows, experts=3)
    for threads in (1, 2):
        model = compile_model(graph, target=isa, threads=threads, cache=False)
        held = {x.name: guarded_copy(a) for x, a in zip(model.inputs, arrays, strict=True)}
        out = guarded(wanted.shape, wanted.dtype)
        model.bind(held, [out])()
        np.testing.assert_array_equal(out, wanted)
        if is_dynamic:
            assert model(*(x[:0] for x in arrays)).shape == (0, sizes[1])
