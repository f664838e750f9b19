"""Softmax on blocks of columns: every size around a block, rows masked in part and wholly, and what it is used for."""

from dataclasses import replace

import numpy as np
import pytest

from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.rewriting import attention as recognizer
from graphc.graph_ir.schedule import attention as attention_schedules
from support.compiled import run_native
from support.lowered import build, check_interpreted, context


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attention counts as long, and blocks are short."""
    monkeypatch.setattr(recognizer, "PACKED_BYTES", 0)
    monkeypatch.setattr(attention_schedules, "PACKED_BYTES", 0)
    monkeypatch.setattr(attention_schedules, "COLUMNS", 8)


def attention(rows: int, columns: int, depth: int, width: int, transpose: bool = False) -> Graph:
    shapes = {"q": (2, rows, depth), "k": (2, columns, depth), "v": (2, columns, width)}
    shapes["m"] = (2, rows, columns)

    def body(make, x):  # type: ignore[no-untyped-def]
        scores = make("matmul_core", x["q"], x["k"], transpose_b=True)
        weights = make("softmax", make("add", scores, x["m"]), axis=-1)
        result = make("relu", make("matmul_core", weights, x["v"]))
        return make("transpose", result, perm=(1, 0, 2)) if transpose else result

    return build(shapes, body)


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx512", "avx2"])
@pytest.mark.parametrize("columns", [1, 7, 8, 9, 16, 17])
@pytest.mark.parametrize("sizes", [(8, 8, 9), (9, 3, 17)])
def test_blocks_of_columns(sizes: tuple[int, int, int], columns: int, isa: str) -> None:
    rows, depth, width = sizes
    lowered = check_interpreted(
        attention(rows, columns, depth, width), context(isa, threads=2), exact=False
    )
    assert "online" in lowered.calls[0].kernel


def test_blocks_of_rows() -> None:
    small = context("avx2")
    small = replace(small, target=replace(small.target, l2_bytes=8 * 8 * 9))
    check_interpreted(attention(21, 19, 4, 6), small, exact=False)


def softmax_of(q: np.ndarray, k: np.ndarray, v: np.ndarray, m: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) + m
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
        return np.maximum(weights @ v.astype(np.float64), 0)


@pytest.mark.parametrize("columns", [8, 19, 64])
def test_masks_and_what_is_not_finite_natively(columns: int) -> None:
    """Masked blocks before the first visible one, rows that see nothing (NaN), infinities and NaN among the scores."""
    rng = np.random.default_rng(0)
    q, k, v, m = (
        rng.standard_normal(s).astype(np.float32)
        for s in ((2, 12, 5), (2, columns, 5), (2, columns, 6), (2, 12, columns))
    )
    m[0, 0, : columns - 1] = -np.inf
    m[0, 1, 1:] = -np.inf
    m[0, 2, :] = -np.inf
    m[1, 3, columns // 2] = np.inf
    m[1, 4, columns - 1] = np.nan
    m[1, 5, :] *= 50
    (got,) = run_native(attention(12, columns, 5, 6), [q, k, v, m])
    want = softmax_of(q, k, v, m)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_other_row_work_is_not_done_in_blocks() -> None:
    """Without its division by the total it is not a softmax: the matmuls run apart rather than wrongly."""
    shapes = {"q": (9, 4), "k": (4, 19), "v": (19, 5)}

    def body(make, x):  # type: ignore[no-untyped-def]
        scores = make("matmul_core", x["q"], x["k"])
        biggest = make("reduce_max", scores, axes=(-1,), keep_dims=True)
        return make("matmul_core", make("exp", make("sub", scores, biggest)), x["v"])

    lowered = check_interpreted(build(shapes, body), context(), exact=False)
    assert len(lowered.calls) > 1
