"""Complex numbers as two real tensors, against NumPy's complex types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.frontend.hlo import import_hlo, parse_hlo
from support.hlo_text import module, one_op, run

RNG = np.random.default_rng(7)
SUM = "sum {\n  a = c64[] parameter(0)\n  b = c64[] parameter(1)\n  ROOT r = c64[] add(a, b)\n}\n\n"
SECOND = "second {\n  a = c64[] parameter(0)\n  ROOT b = c64[] parameter(1)\n}\n\n"


def c64(*dims: int) -> np.ndarray:
    return (RNG.standard_normal(dims) + 1j * RNG.standard_normal(dims)).astype(np.complex64)


def parts(arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """The inputs of a graph: real and imaginary parts of complex arrays."""
    pairs = ((x.real.copy(), x.imag.copy()) if x.dtype.kind == "c" else (x,) for x in arrays)
    return [part for pair in pairs for part in pair]


def whole(results: list[np.ndarray]) -> np.ndarray:
    return results[0] if len(results) == 1 else results[0] + 1j * results[1]


def check(text: str, wanted: Any, *inputs: np.ndarray) -> None:
    found = whole(run(text, *parts(inputs)))
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=3e-5)


UNARY: dict[str, Callable[..., Any]] = {
    "negate": np.negative,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
    "sign": lambda z: z / abs(z),
    "copy": lambda z: z,
    "real": np.real,
    "imag": np.imag,
    "abs": np.abs,
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
}


@pytest.mark.parametrize("opcode", UNARY)
def test_functions_of_one_number(opcode: str) -> None:
    x = c64(3, 4)
    type_ = "f32" if opcode in ("real", "imag", "abs") else "c64"
    wanted = UNARY[opcode](x.astype(np.complex128))
    check(one_op(["c64[3,4]"], f"{type_}[3,4]", f"{opcode}(p0)"), wanted, x)


@pytest.mark.parametrize("opcode", BINARY)
def test_functions_of_two_numbers(opcode: str) -> None:
    x, y = c64(3, 4), c64(3, 4)
    check(one_op(["c64[3,4]"] * 2, "c64[3,4]", f"{opcode}(p0, p1)"), BINARY[opcode](x, y), x, y)


def test_large_and_small_numbers() -> None:
    x = np.array([3e30 + 4e30j, 0, 1e-30j, np.inf + 1j, 2e38 + 1e38j], np.complex64)
    check(one_op(["c64[5]"], "f32[5]", "abs(p0)"), np.abs(x), x)
    y = x[[0, 2, 4]]
    check(one_op(["c64[3]"] * 2, "c64[3]", "divide(p0, p1)"), [1, 1, 1], y, y)
    roots = np.array([-4, 0, -4j, 4], np.complex64)
    check(one_op(["c64[4]"], "c64[4]", "sqrt(p0)"), np.sqrt(roots), roots)
    base, exponent = np.array([0, 0, 2j], np.complex64), np.array([2, 0, 2], np.complex64)
    check(one_op(["c64[3]"] * 2, "c64[3]", "power(p0, p1)"), [0, 1, -4], base, exponent)


MOVED: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "transpose": ("c64[4,3]", "transpose(p0), dimensions={1,0}", lambda x: x.T),
    "reshape": ("c64[12]", "reshape(p0)", lambda x: x.reshape(12)),
    "slice": ("c64[2,4]", "slice(p0), slice={[1:3],[0:4]}", lambda x: x[1:]),
    "reverse": ("c64[3,4]", "reverse(p0), dimensions={1}", lambda x: x[:, ::-1]),
    "concatenate": ("c64[6,4]", "concatenate(p0, p0), dimensions={0}", lambda x: np.concatenate([x, x])),
    "pad": (
        "c64[4,4]", "pad(p0, c64[] constant((1, -2))), padding=0_1x0_0",
        lambda x: np.pad(x, ((0, 1), (0, 0)), constant_values=1 - 2j),
    ),
    "broadcast": ("c64[2,3,4]", "broadcast(p0), dimensions={1,2}", lambda x: np.stack([x, x])),
    "dot": ("c64[3,3]", "dot(p0, p0), lhs_contracting_dims={1}, rhs_contracting_dims={1}", lambda x: x @ x.T),
    "reduce": (
        "c64[3]", "reduce(p0, c64[] constant((1, 2))), dimensions={1}, to_apply=sum", lambda x: x.sum(1) + 1 + 2j,
    ),
    "reduce-window": (
        "c64[3,2]", "reduce-window(p0, c64[] constant((0, 0))), window={size=1x2 stride=1x2}, to_apply=sum",
        lambda x: x[:, ::2] + x[:, 1::2],
    ),
    "scatter": (
        "c64[3,4]",
        "scatter(p0, s32[1,1] constant({{1}}), c64[1,4] constant({{(1,2),(3,4),5,6}})), update_window_dims={1}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second",
        lambda x: np.stack([x[0], np.array([1 + 2j, 3 + 4j, 5, 6]), x[2]]),
    ),
    "compare": ("pred[3,4]", "compare(p0, p0), direction=EQ", lambda x: x == x),
    "convert": ("f32[3,4]", "convert(p0)", np.real),
    "select": ("c64[3,4]", "select(pred[] constant(false), p0, negate(p0))", np.negative),
}  # fmt: skip


@pytest.mark.parametrize("opcode", MOVED)
def test_what_treats_both_parts_alike(opcode: str) -> None:
    x = c64(3, 4)
    result, operation, function = MOVED[opcode]
    check(one_op(["c64[3,4]"], result, operation, SUM + SECOND), function(x), x)


@pytest.mark.parametrize("opcode", ["dot", "multiply"])
def test_matmuls_with_real_numbers(opcode: str) -> None:
    x, y = RNG.standard_normal((3, 3)).astype(np.float32), c64(3, 3)
    text = module(
        f"""x = f32[3,3] parameter(0)
        y = c64[3,3] parameter(1)
        z = c64[3,3] complex(x, x)
        ROOT r = c64[3,3] {opcode}(z, y)"""
        + (", lhs_contracting_dims={1}, rhs_contracting_dims={0}" if opcode == "dot" else "")
    )
    z = x * (1 + 1j)
    check(text, z @ y if opcode == "dot" else z * y, x, y)


def test_tuples_and_loops_hold_complex_numbers() -> None:
    text = module(
        """z = c64[2] parameter(0)
        n = s32[] parameter(1)
        s = (s32[], c64[2]) tuple(n, z)
        w = (s32[], c64[2]) while(s), condition=more, body=next
        ROOT r = c64[2] get-tuple-element(w), index=1""",
        """more {
  p = (s32[], c64[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  z = s32[] constant(0)
  ROOT r = pred[] compare(i, z), direction=GT
}

next {
  p = (s32[], c64[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  z = c64[2] get-tuple-element(p), index=1
  o = s32[] constant(1)
  j = s32[] subtract(i, o)
  f = c64[2] constant({(0,1), (2,0)})
  y = c64[2] multiply(z, f)
  ROOT t = (s32[], c64[2]) tuple(j, y)
}

""",
    )
    graph = import_hlo(parse_hlo(text))
    assert [op.name for op in graph.inputs] == ["z.real", "z.imag", "n"]
    x = c64(2)
    real, imag = graphc.compile(graph)(x.real.copy(), x.imag.copy(), np.int32(3))
    np.testing.assert_allclose(real + 1j * imag, x * np.array([1j, 2]) ** 3, rtol=1e-5)


@pytest.mark.parametrize(
    ("result", "operation", "error", "message"),
    [
        ("c64[3,4]", "negate(f32[3,4] constant(1))", graphc.UserError, r"its shape must be f32\[3,4\], got c64"),
        ("f32[3,4]", "add(p0, f32[3,4] constant(1))", graphc.UserError, "operands must be of one type"),
        ("c64[3,4]", "complex(s32[] constant(1), s32[] constant(1))", graphc.UserError, "must both be f32 or f64"),
        ("c64[3,4]", "cbrt(p0)", graphc.UnsupportedError, "an operation on complex numbers is not supported"),
        ("pred[3,4]", "compare(p0, p0), direction=LT", graphc.UserError, "direction of complex numbers must be EQ or"),
        ("c64[3]", "reduce(p0, c64[] constant((1, 2))), dimensions={1}, to_apply=prod", graphc.UnsupportedError,
         "complex numbers in a body other than sums"),
    ],
)  # fmt: skip
def test_what_is_refused(result: str, operation: str, error: type[Exception], message: str) -> None:
    prod = SUM.replace("sum", "prod").replace("add", "multiply")
    with pytest.raises(error, match=message):
        run(one_op(["c64[3,4]"], result, operation, prod))
