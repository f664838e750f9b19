"""Register tiles: the text of one, and the same values as the Brgemm they replace, at every boundary."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32, S64, U8, DType
from graphc.targets.isa import Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import (
    Block,
    Brgemm,
    Buffer,
    Call,
    Epilogue,
    For,
    Function,
    Let,
    Load,
    Module,
    Prefetch,
    PrefetchHint,
    Slice,
    Stmt,
    Store,
    Var,
)
from graphc.tensor_ir.passes.expand_brgemm import expand_brgemm
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.tiling import k_splits, split_rows, tile_height
from graphc.tensor_ir.verifier import verify
from graphc.tensor_ir.visitor import Rewriter, map_functions, walk
from support.golden import Golden

AVX2 = Target("avx2")
GAP = 3  # elements before, between and after the rows, which nobody may touch


def module_of(
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    accumulate: bool = False,
    pad_to: int = 1,
    bias: bool = False,
    tile_rows: int = 4,
    a_transposed: bool = False,
    dtype: DType = F32,
) -> Module:
    """One Brgemm whose operands have gaps between their rows."""
    n_padded = -(-n // pad_to) * pad_to
    a_row, a_col = (1, m + GAP) if a_transposed else (k + GAP, 1)
    a_size = (k if a_transposed else m) * ((m if a_transposed else k) + GAP)
    b_row, c_row = n_padded + GAP, n + GAP
    a = Buffer("a", dtype, (GAP + batch * (a_size + GAP),))
    b = Buffer("b", dtype, (GAP + batch * (k * b_row + GAP),))
    c = Buffer("c", dtype, (GAP + m * c_row,))
    vector = Buffer("bias", dtype, (max(n, 1),))
    start = (t.as_expr(GAP),)
    brgemm = t.brgemm(
        *(Slice(c, start), Slice(a, start), Slice(b, start), m, n, k, batch),
        *(a_size + GAP, a_row, a_col, k * b_row + GAP, b_row, c_row, accumulate, n_padded),
        _relu_of_bias(vector) if bias else None,
        tile_rows,
    )
    return Module((Function("f", (a, b, vector, c), Block((brgemm,))),))


def _relu_of_bias(vector: Buffer) -> Epilogue:
    """max(acc + bias[col], 0) + row, the sum bound to a name."""
    dtype = vector.dtype
    row, col, acc, total = Var("er"), Var("ec"), Var("acc", dtype), Var("total", dtype)
    let = Let(total, acc + Load(vector, (col,)))
    value = t.maximum(total, t.const(0, dtype)) + t.cast(row, dtype)
    return Epilogue(row, col, acc, value, (let,))


def run(module: Module, seed: int = 0) -> np.ndarray:
    (function,) = module.functions
    rng = np.random.default_rng(seed)
    arrays = [
        rng.integers(-4, 5, p.shape).astype(p.dtype.numpy)
        for p in function.params
        if isinstance(p, Buffer)
    ]
    interpreter.run(module, "f", arrays)
    return arrays[-1]


def check(module: Module, target: Target = AVX2) -> Module:
    expanded = expand_brgemm(module, target)
    verify(expanded)
    assert not any(isinstance(node, Brgemm) for node in walk(expanded))
    np.testing.assert_array_equal(run(expanded), run(module))
    return expanded


def test_the_interpreter_is_no_accomplice() -> None:
    """Brgemm itself against NumPy, so that both sides of the tests below cannot be wrong alike."""
    m, n, k, batch = 3, 5, 4, 2
    module = module_of(m, n, k, batch, accumulate=True, bias=True)
    rng = np.random.default_rng(0)
    a, b, bias, c = (
        rng.integers(-4, 5, p.shape).astype(np.float32) for p in module.functions[0].params
        if isinstance(p, Buffer)
    )  # fmt: skip
    left = (
        a[GAP:]
        .reshape(batch, m * (k + GAP) + GAP)[:, : m * (k + GAP)]
        .reshape(batch, m, -1)[..., :k]
    )
    right = (
        b[GAP:]
        .reshape(batch, k * (n + GAP) + GAP)[:, : k * (n + GAP)]
        .reshape(batch, k, -1)[..., :n]
    )
    expected = c.copy()
    out = expected[GAP:].reshape(m, n + GAP)[:, :n]
    out[...] = np.maximum((left @ right).sum(0) + out + bias, 0) + np.arange(m)[:, None]
    np.testing.assert_array_equal(run(module), expected)


@pytest.mark.parametrize("part", ["plain", "epilogue"])
def test_text(part: str, golden: Golden) -> None:
    module = module_of(5, 9, 5, tile_rows=2, bias=part == "epilogue", accumulate=part == "plain")
    expanded = check(module)
    golden(print_module(expanded))


MS, NS, KS = (1, 3, 4, 5, 7), (1, 7, 8, 9, 17), (1, 3, 4, 5)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("m", "n"), [*itertools.product(MS, NS)])
def test_boundary_sizes(m: int, n: int) -> None:
    for k in KS:
        check(module_of(m, n, k))


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["generic", "avx2", "avx512"])
@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("pad_to", [1, 24])
def test_options(isa: str, batch: int, accumulate: bool, bias: bool, pad_to: int) -> None:
    for m, n, k in ((1, 1, 1), (5, 19, 6), (2, 24, 9)):
        check(module_of(m, n, k, batch, accumulate, pad_to, bias), Target(isa))


@pytest.mark.parametrize("dtype", [S32, F32], ids=str)
@pytest.mark.parametrize(("n", "accumulate"), [(8, False), (24, False), (17, False), (16, True)])
def test_integer_sums_start_with_the_bias(dtype: DType, n: int, accumulate: bool) -> None:
    """Whole vectors of them, if nothing was summed before; sums of floats would round otherwise."""
    for m, k, batch in ((1, 3, 1), (5, 4, 2), (2, 9, 0)):
        module = module_of(m, n, k, batch, accumulate, bias=True, dtype=dtype)
        expanded = check(module)
        totals = [s.value for s in walk(expanded) if isinstance(s, Let) and "total" in s.var.name]
        is_started = dtype == S32 and not n % 8 and not accumulate
        assert totals and all(isinstance(value, Var) is is_started for value in totals)


@pytest.mark.parametrize(("isa", "columns"), [("generic", 16), ("avx2", 32), ("avx512", 16)])
@pytest.mark.parametrize("n", [7, 8, 9, 16, 17, 24, 33])
def test_bytes_of_a_row_are_made_together(isa: str, columns: int, n: int) -> None:
    """If two vectors are packed into one of bytes, the epilogue is one loop over the row of a tile."""
    (function,) = module_of(3, n, 6, pad_to=8).functions
    (brgemm,) = function.body.body
    c = Buffer("c", U8, function.params[-1].shape)
    row, col, acc, whole = Var("er"), Var("ec"), Var("acc", F32), Var("whole", U8)
    made = Let(whole, Call("quantize", (acc, t.const(3, S32)), U8))
    to = replace(brgemm.c, address=Slice(c, brgemm.c.address.indices))
    brgemm = replace(brgemm, c=to, epilogue=Epilogue(row, col, acc, whole, (made,)))
    module = Module((replace(function, params=(*function.params[:-1], c), body=Block((brgemm,))),))
    expanded = check(module, Target(isa))
    loops = [s for s in walk(expanded) if isinstance(s, For) and s.kind == "vector"]
    assert len(loops) == 3 * -(-n // columns)


@pytest.mark.exhaustive
@pytest.mark.parametrize("tile_rows", [1, 2, 3, 4, 6, 12, 28])
def test_tile_height_changes_no_value(tile_rows: int) -> None:
    for m in (1, tile_rows - 1 or 1, tile_rows, tile_rows + 1, 2 * tile_rows + 1):
        module = check(module_of(m, 10, 5, bias=True, tile_rows=tile_rows))
        np.testing.assert_array_equal(run(module), run(module_of(m, 10, 5, bias=True)))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_sums_of_nothing(accumulate: bool, bias: bool) -> None:
    check(module_of(5, 9, 0, accumulate=accumulate, bias=bias))
    check(module_of(5, 9, 3, batch=0, accumulate=accumulate, bias=bias))


@pytest.mark.parametrize(("m", "n"), [(0, 9), (5, 0), (0, 0)])
def test_no_elements(m: int, n: int) -> None:
    check(module_of(m, n, 3))


def test_a_read_down_its_columns() -> None:
    check(module_of(5, 9, 6, batch=2, a_transposed=True))


def test_two_in_one_function_keep_their_names_apart() -> None:
    module = module_of(2, 9, 5, bias=True)
    (function,) = module.functions
    twice = replace(function, body=Block(function.body.body * 2))
    check(Module((twice,)))


def test_what_has_no_brgemm_is_the_same_object() -> None:
    c = Buffer("c", F32, (4,))
    body = Block((Store(c, (t.as_expr(0),), t.const(1.0, F32)),))
    module = Module((Function("f", (c, Var("n", S64)), body),))
    assert expand_brgemm(module, AVX2) is module


@pytest.mark.parametrize("m", range(1, 40))
@pytest.mark.parametrize("rows", [1, 4, 6, 12])
def test_rows_are_cut_into_tiles_of_at_max_the_height(m: int, rows: int) -> None:
    covered: list[int] = []
    for first, count, height in split_rows(m, rows):
        assert 1 <= height <= rows and count >= 1
        covered += range(first, first + count * height)
    assert covered == list(range(m))
    assert sum(count for _, count, _ in split_rows(m, rows)) == -(-m // rows), (
        "no more tiles than needed"
    )


def test_small_tiles_deal_k_out_to_several_sums() -> None:
    assert [k_splits(*tile) for tile in ((1, 1), (1, 2), (1, 3), (2, 2), (4, 3), (8, 1))] == [
        4,
        4,
        2,
        2,
        1,
        1,
    ]
    expanded = check(module_of(1, 8, 8, tile_rows=1))
    (acc,) = [n.buffer for n in walk(expanded) if type(n).__name__ == "Allocate"]
    assert acc.shape == (4 * 8,)


def test_a_few_rows_whose_sums_are_split_are_one_tile() -> None:
    """Two rows of 3 vectors, in tiles of one row: the panel is read once, each sum still has the parts of one row."""
    cases = ((2, 1, 3), (3, 1, 3), (5, 4, 1), (9, 4, 1), (9, 4, 3))
    assert [tile_height(*case) for case in cases] == [2, 1, 5, 4, 4]
    expanded = check(module_of(2, 24, 8, tile_rows=1))
    (acc,) = [n.buffer for n in walk(expanded) if type(n).__name__ == "Allocate"]
    assert acc.shape == (2 * 2 * 24,)


class _MarkPrefetched(Rewriter):
    """Hints replaced by stores, so that the interpreter shows where they point."""

    def __init__(self, marks: Buffer) -> None:
        self.marks = marks

    def prefetch(self, s: Prefetch) -> Stmt:
        return Store(self.marks, s.address.indices, t.const(1.0, F32))


@pytest.mark.parametrize(("m", "rows"), [(9, 4), (7, 11), (1, 4), (33, 11)])
@pytest.mark.parametrize("n", [16, 32, 48])
def test_every_line_of_the_next_matrix_is_fetched(m: int, rows: int, n: int) -> None:
    k, line = 6, 16
    a, b, c = Buffer("a", F32, (m * k,)), Buffer("b", F32, (2 * k * n,)), Buffer("c", F32, (m * n,))
    marks = Buffer("marks", F32, (4 * k * n,))
    start = (t.as_expr(0),)
    matmul = t.brgemm(
        *(Slice(c, start), Slice(a, start), Slice(b, start), m, n, k, 1),
        *(0, k, 1, 0, n, n, False, n, None, rows),
        (PrefetchHint(Slice(b, (t.as_expr(k * n),)), k * n),),
    )
    module = expand_brgemm(
        Module((Function("f", (a, b, c, marks), Block((matmul,))),)), Target("avx512")
    )
    module = map_functions(module, _MarkPrefetched(marks).function)
    arrays = [np.zeros(x.elements, np.float32) for x in (a, b, c, marks)]
    interpreter.run(module, "f", arrays)
    lines: np.ndarray = np.any(arrays[-1].reshape(-1, line), axis=1)
    assert lines[k * n // line : 2 * k * n // line].all()
    assert not lines[: k * n // line].any()
    assert lines[2 * k * n // line :].sum() <= m + n // line  # a little beyond, by rounding up
