"""Matmuls as nests, for tests: a problem, and a nest of it run by the interpreter and compared with NumPy."""

from __future__ import annotations

import numpy as np

from graphc.base.dtypes import F32
from graphc.graph_ir.nest.lower import lower
from graphc.graph_ir.nest.nest import Nest
from graphc.graph_ir.nest.problem import Contraction, View, matmul
from graphc.targets.isa import Target
from graphc.targets.microkernels import microkernels
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Block, Buffer, Expr, Function, Let, Module, Stmt, Var
from graphc.tensor_ir.verifier import verify

TARGET = Target("avx2", features="+avx2,+fma")
PANEL = 24


def problem(m: object = 11, n: int = 53, k: int = 10, layout: str = "plain") -> Contraction:
    """Two matmuls of f32 with a bias, ReLU-like, whose B may be transposed or in panels."""
    rows = t.as_expr(m)  # type: ignore[arg-type]
    bias = Buffer("bias", F32, (n,))

    def epilogue(index: tuple[Expr, ...], acc: Expr) -> tuple[list[Let], Expr]:
        return [], t.maximum(acc + bias[index[-1]], 0.0)

    a = View(Buffer("a", F32, (rows * (2 * k),)), {"b0": m * k, "m": k, "k": 1})  # type: ignore[operator, arg-type]
    of_panels = -(-n // PANEL) * k * PANEL
    matrix, panels = Buffer("b", F32, (2 * n * k,)), Buffer("b", F32, (2 * of_panels,))
    blocks = {"n": (PANEL, k * PANEL)}
    b = {
        "plain": View(matrix, {"b0": n * k, "k": n, "n": 1}),
        "transposed": View(matrix, {"b0": n * k, "k": 1, "n": k}),
        "panels": View(panels, {"b0": of_panels, "k": PANEL, "n": 1}, blocks),
    }[layout]
    c = View(Buffer("c", F32, (rows * (2 * n),)), {"b0": m * n, "m": n, "n": 1})  # type: ignore[operator, arg-type]
    (kernel,) = microkernels(F32, F32, TARGET)
    return matmul((2,), (m, n, k), (a, b, c), kernel, epilogue)  # type: ignore[arg-type]


def run(nest: Nest, rows: int, layout: str = "plain", body: Stmt | None = None) -> None:
    """Interpret a nest, tensorized or not, or statements lowered from it, and compare with NumPy exactly."""
    p = nest.any_size.problem
    n, k = p.sizes["n"], p.sizes["k"]
    if body is None:
        body = lower(nest, TARGET)
    bias = Buffer("bias", F32, (n,))
    params = (
        p.a.buffer,
        p.b.buffer,
        bias,
        p.c.buffer,
        *([] if isinstance(p.sizes["m"], int) else [Var("size_M")]),
    )
    function = Function("f", params, body if isinstance(body, Block) else Block((body,)))
    module = verify(Module((function,)))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((2, rows, k), (2, k, n)))
    add = rng.integers(-4, 5, n).astype(np.float32)
    c = np.full((2, rows, n), np.nan, np.float32)
    given = np.ascontiguousarray(b.swapaxes(1, 2)) if layout == "transposed" else b
    if layout == "panels":
        padded = np.pad(b, ((0, 0), (0, 0), (0, -n % PANEL)))
        given = np.ascontiguousarray(padded.reshape(2, k, -1, PANEL).swapaxes(1, 2))
    counted = [] if isinstance(p.sizes["m"], int) else [rows]
    interpreter.run(module, "f", [a.ravel(), given.ravel(), add, c.reshape(-1), *counted])
    np.testing.assert_array_equal(c, np.maximum(a @ b + add, 0))
