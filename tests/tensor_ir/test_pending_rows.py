"""Rows of tile registers that wait for their epilogue across iterations of a nest, and nests where they must not."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import S8, S32, U8
from graphc.codegen.host import host_supports, target_for
from graphc.runtime.native import runs_tiles
from graphc.targets.isa import Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter, pipeline
from graphc.tensor_ir.nodes import Buffer, Epilogue, For, Function, Module, Slice, Store, Var
from graphc.tensor_ir.passes.expand_brgemm import expand_brgemm
from graphc.tensor_ir.pending_rows import captured_by
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify
from graphc.tensor_ir.visitor import walk_statements
from support.native_functions import NativeModule

TARGET = Target("amx", features="+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16")
PANELS, IMAGES = 3, 2


def nest(m: int, reads_c: bool = False, kind: str = "serial", k: int = 256) -> Module:
    """C = A x B + residual + panel for images and panels of B; `reads_c`: another statement reads C in the loops."""
    a, b = Buffer("a", U8, ((IMAGES * m + 16) * k,)), Buffer("b", S8, (PANELS * 32 * k,))
    width = PANELS * 32
    c, residual = (Buffer(name, S32, (IMAGES * m * width,)) for name in ("c", "residual"))
    seen = Buffer("seen", S32, (1,))
    row, col, acc, image, panel = (
        Var("row"),
        Var("col"),
        Var("acc", S32),
        Var("image"),
        Var("panel"),
    )
    at = (image * m + row) * width + panel * 32 + col
    value = acc + residual[at] + t.cast(panel, S32)
    one = t.brgemm(
        Slice(c, (image * (m * width) + panel * 32,)), Slice(a, ((image * m + 16) * k,)),
        Slice(b, (panel * (32 * k),)), m, 32, k, 1, 0, k, 1, 0, 128, width, False, 32,
        Epilogue(row, col, acc, value), min(16, m), (), 4, "tdpbusd",
    )  # fmt: skip
    read = [Store(seen, (t.ZERO,), c[image * (m * width)])] if reads_c else []
    inner = For(panel, t.ZERO, t.as_expr(PANELS), t.block_of([one, *read]), kind)  # type: ignore[arg-type]
    body = t.LoopBuilder()
    body.emit(For(image, t.ZERO, t.as_expr(IMAGES), inner))
    return verify(Module((body.function("nest", (a, b, residual, seen, c)),)))


def operands(function: Function) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 9, p.shape).astype(p.dtype.numpy) for p in function.params]  # type: ignore[union-attr]


@pytest.mark.parametrize("m", [1, 15, 16, 33, 48])
@pytest.mark.parametrize(("reads_c", "k"), [(False, 256), (True, 256), (False, 64)])
def test_results_are_those_of_the_definition(m: int, reads_c: bool, k: int) -> None:
    module = nest(m, reads_c, k=k)
    data = operands(module.functions[0])
    expected = [x.copy() for x in data]
    interpreter.run(module, "nest", expected)
    expanded = pipeline.run(module, TARGET)
    found = [x.copy() for x in data]
    interpreter.run(expanded, "nest", found)
    np.testing.assert_array_equal(found[-1], expected[-1])
    assert found[3][0] == expected[3][0]
    if host_supports("amx") and runs_tiles():
        native = [x.copy() for x in data]
        NativeModule(expanded, target_for("amx")).call("nest", native)
        np.testing.assert_array_equal(native[-1], expected[-1])


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (nest(32), {"image", "panel"}),
        (nest(32, reads_c=True), None),
        (nest(32, kind="parallel"), None),
    ],
    ids=["waits", "C is read", "parallel"],
)
def test_rows_wait_across_loops_that_allow_it(module: Module, names: set[str] | None) -> None:
    loop = module.functions[0].body.body[0]
    (g,) = (x for x in walk_statements(loop) if hasattr(x, "multiply"))
    assert isinstance(loop, For)
    captured = captured_by(loop, g)  # type: ignore[arg-type]
    found = None if captured is None else {x.name for x in captured}
    assert found == names


def test_short_tiles_do_not_wait() -> None:
    """Few steps of k are over before an epilogue is: it follows its own tile."""
    long, short = (print_module(expand_brgemm(nest(32, k=k), TARGET)) for k in (256, 64))
    assert long.count("for finished") == 3 and short.count("for finished") == 1
