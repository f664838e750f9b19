"""Attention to caches of every type: few tokens and many, windows, groups, ragged lengths, between guard pages."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16, F32, S8, DType
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.schedule.workspaces import FEW
from graphc.tensor_ir.passes.outline_parallel import outline_parallel
from graphc.tools.fuzz.guarded import guarded, guarded_copy
from support.cached_attention import arrays_of, model

LENGTHS = (
    (1, 1),
    (1, 5),
    (1, 300),
    (3, 258),
    (4, 7),
    (5, 5),
    (17, 400),
    (130, 130),
    (64, 321),
    (200, 513),
)
"""New tokens and all tokens."""


CASES = (
    (1, (4, 1), (64, 64), F32, {"scale": 0.125}, "native"),
    (2, (4, 2), (32, 16), F32, {"scale": 0.2, "window": 37}, "native"),
    (1, (6, 2), (80, 80), F16, {"scale": 0.1, "cap": 5.0}, "native"),
    (1, (2, 2), (20, 20), BF16, {"scale": 0.2}, "native"),
    (2, (8, 2), (16, 16), S8, {"scale": 0.2, "window": 260}, "native"),
    (1, (5, 1), (64, 48), F32, {"scale": 0.125}, "avx2"),
    (1, (3, 3), (24, 40), F16, {"scale": 0.2, "window": 1}, "generic"),
)


@pytest.mark.parametrize(("batch", "heads", "sizes", "dtype", "attrs", "isa"), CASES)
def test_every_length_between_guard_pages(
    batch: int, heads: tuple[int, int], sizes: tuple[int, int], dtype: DType, attrs: dict[str, float], isa: str
) -> None:  # fmt: skip
    graph = model(batch, heads, sizes, dtype, **attrs)
    op = next(op for op in graph.ops if op.op_name == "cached_attention")
    compiled = compile_model(graph, target=isa, threads=1)
    for tokens, total in LENGTHS:
        arrays = arrays_of(graph, tokens, total)
        (wanted,) = op.reference(arrays)
        given = {
            op.name: guarded_copy(x, "end") for op, x in zip(graph.inputs, arrays, strict=True)
        }
        (y,) = outputs = [guarded(wanted.shape, wanted.dtype, "end")]
        compiled.bind(given, outputs)()
        np.testing.assert_allclose(y, wanted, atol=5e-5, err_msg=f"{tokens} of {total}")


@pytest.mark.parametrize("window", [0, 1500])
@pytest.mark.parametrize(("tokens", "total"), [(200, 700), (1, 250), (1, 3000), (FEW, 2100)])
def test_tasks_of_several_threads_give_the_same_bits(tokens: int, total: int, window: int) -> None:
    """Tasks are blocks of tokens, or parts of the keys of a few tokens."""
    graph = model(2, (4, 1), (64, 64), F32, scale=0.125, window=window)
    arrays = arrays_of(graph, tokens, total)
    one, *others = (compile_model(graph, threads=n)(*arrays) for n in (1, 2, 3))
    for several in others:
        np.testing.assert_array_equal(one, several)
    (wanted,) = next(op for op in graph.ops if op.op_name == "cached_attention").reference(arrays)
    np.testing.assert_allclose(one, wanted, atol=5e-5)


def test_threads_share_blocks_of_tokens_and_parts_of_keys() -> None:
    graph, target = model(1, (4, 1), (64, 64), F32), target_for("native")
    module = compile_stages(graph, target, CompileOptions(threads=2)).lowered.module
    outlined = outline_parallel(module, target)
    assert sum("__task" in function.name for function in outlined.functions) == 2


def test_chunks_of_tokens_give_the_same_bits() -> None:
    graph = model(1, (4, 1), (64, 64), F32, scale=0.125, window=300)
    compiled = compile_model(graph, threads=1)
    q, k, v, _ = arrays_of(graph, 400, 900)
    whole = compiled(q, k, v, np.array([900]))
    parts = [
        compiled(q[:, a:b].copy(), k, v, np.array([500 + b])) for a, b in ((0, 150), (150, 400))
    ]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_a_few_tokens_have_the_bits_of_one_at_a_time() -> None:
    graph = model(1, (4, 1), (64, 64), F16, scale=0.125, window=70)
    compiled = compile_model(graph, threads=1)
    q, k, v, _ = arrays_of(graph, FEW, 300)
    whole = compiled(q, k, v, np.array([300]))
    for token in range(FEW):
        length = np.array([300 - FEW + token + 1])
        one = compiled(q[:, token : token + 1].copy(), k, v, length)
        np.testing.assert_array_equal(one[:, 0], whole[:, token])
