"""Quantizers of QONNX against the formulas of the package qonnx 1.0, written in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load

Array = np.ndarray[Any, Any]
F = np.float32
X = (np.random.default_rng(0).standard_normal((3, 5, 7)) * 3).astype(F)
X[0, 0] = [0, 0.5, -0.5, 1.5, -2.5, 1e9, -1e9]  # ties of the scales below, and what saturates

ROUNDINGS: dict[str, Any] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "ceil": np.ceil,
    "FLOOR": np.floor,
    "DOWN": np.trunc,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
}


def model(kind: str, x: Array, parameters: list[Any], **attrs: Any) -> ModelProto:
    names = [f"p{i}" for i in range(len(parameters))]
    node = helper.make_node(kind, ["x", *names], ["y"], domain="qonnx.custom_op.general", **attrs)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(p, F), name) for p, name in zip(parameters, names, strict=True)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("qonnx.custom_op.general", 2)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check(kind: str, x: Array, parameters: list[Any], want: Array, **attrs: Any) -> None:
    proto = model(kind, x, parameters, **attrs)
    for result in (load(proto).evaluate([x])[0], graphc.compile(proto)(x)):
        np.testing.assert_allclose(result, want, rtol=1e-6, atol=1e-6)


def limits(bits: int, signed: int, narrow: int) -> tuple[int, int]:
    if signed:
        return narrow - 2 ** (bits - 1), 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - narrow


PER_CHANNEL = np.linspace(0.1, 0.5, 5, dtype=F).reshape(5, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "scale", "zero"),
    [
        (8, 1, 0, 0.5, 0), (8, 1, 1, 0.5, 0), (8, 0, 1, 0.37, 3), (4, 1, 1, PER_CHANNEL, 0), (2, 0, 0, 0.5, 1),
        (12, 1, 0, 0.25, -200), (24, 1, 0, 0.001, 0), (8, 0, 0, 0.5, 1.5), (1, 0, 0, 0.5, 0),
    ],
)  # fmt: skip
def test_integers(mode: str, bits: int, signed: int, narrow: int, scale: Any, zero: float) -> None:
    """The zero point is added before rounding, which sends ties to the other neighbor if it is odd."""
    low, high = limits(bits, signed, narrow)
    steps = ROUNDINGS[mode](np.clip(X / F(scale) + F(zero), F(low), F(high)))
    want = (steps - F(zero)) * F(scale)
    attrs = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
    check("Quant", X, [scale, zero, bits], want, **attrs)


def test_signs() -> None:
    want = np.where(X >= 0, F(0.3), F(-0.3))
    check("BipolarQuant", X, [0.3], want)
    check("Quant", X, [0.3, 0, 1], want, signed=1, narrow=0)
    check("IntQuant", X, [0.3, 0, 1], want, signed=1, narrow=0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["ROUND", "FLOOR", "HALF_UP"])
@pytest.mark.parametrize(("scale", "zero"), [(0.5, 0.0), (0.25, 4.0)])
def test_truncation(mode: str, scale: float, zero: float) -> None:
    """Version 1 keeps the scale; version 2 has that of the result, and bounds."""
    steps = np.round(X / F(scale) + F(zero))
    check(
        "Trunc",
        X,
        [scale, zero, 8, 4],
        (ROUNDINGS[mode](steps / 16) - F(zero)) * F(scale),
        rounding_mode=mode,
    )
    for signed, narrow in ((1, 0), (0, 1)):
        low, high = limits(4, signed, narrow)
        whole = ROUNDINGS[mode](np.clip(steps / 8, low, high))
        attrs = {"rounding_mode": mode, "signed": signed, "narrow": narrow}
        want = (whole - F(zero) / 8) * F(scale * 8)
        check("Trunc", X, [scale, zero, 8, scale * 8, 4], want.astype(F), **attrs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["ROUND", "FLOOR", "UP"])
@pytest.mark.parametrize(
    ("exponent", "mantissa", "largest"), [(4, 3, 448.0), (5, 2, 57344.0), (2, 1, 6.0)]
)
@pytest.mark.parametrize(("inf", "nan", "scale"), [(0, 0, 1.0), (1, 0, 0.03), (0, 1, 1.0)])
def test_floats(
    mode: str, exponent: int, mantissa: int, largest: float, inf: int, nan: int, scale: float
) -> None:
    bias = 2 ** (exponent - 1) - 1
    x = X / F(scale)
    smallest = 1 - bias - mantissa
    power = np.floor(np.log2(np.maximum(np.abs(x.astype(np.float64)), 1e-300))) - mantissa
    unit = np.exp2(np.maximum(power, smallest))
    y = unit * ROUNDINGS[mode](x / unit)
    want = np.clip(y, -largest, largest)
    if inf or nan:
        want = np.where(np.abs(y) > largest, np.copysign(np.inf, y) if inf else np.nan, want)
    attrs = {
        "rounding_mode": mode, "saturation": int(not (inf or nan)), "has_inf": inf, "has_nan": nan, "has_subnormal": 1,
    }  # fmt: skip
    parameters = [scale, exponent, mantissa, bias, largest]
    check("FloatQuant", X, parameters, (want * scale).astype(F), **attrs)


REFUSED: dict[str, tuple[str, list[Any], dict[str, Any], type[Exception], str]] = {
    "a mode": ("Quant", [1, 0, 8], {"rounding_mode": "SOME"}, UserError, "rounding_mode must be one of ROUND"),
    "widths of channels": ("Quant", [1, 0, [8, 4]], {}, UnsupportedError, r"a bit width of shape \[2\]"),
    "no bits": ("Quant", [1, 0, 0], {}, UserError, "the bit width must be positive, got 0"),
    "wide exponents": ("FloatQuant", [1, 8, 23, 127, 1e30], {}, UnsupportedError, "floats of 8 and 23 bits"),
    "no way out": (
        "FloatQuant", [1, 4, 3, 7, 448], {"saturation": 0}, UserError, "must have infinities or NaN",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    kind, parameters, attrs, error, text = REFUSED[what]
    with pytest.raises(error, match=text):
        load(model(kind, X, parameters, **attrs))


STEPS = dict.fromkeys(("output", "cell_state", "hidden_state_tanh", "cell_tanh"), (1 / 64, 0.0))
STEPS |= {f"{gate}_acc": (1 / 16, 0.0) for gate in ("input", "forget", "cell", "output")}
STEPS |= {f"{gate}_sigmoid": (1 / 200, 3.0) for gate in ("input", "forget", "output")}
ORDER = [
    "output", "cell_state", "input_acc", "forget_acc", "cell_acc", "output_acc", "input_sigmoid", "forget_sigmoid",
    "cell_tanh", "output_sigmoid", "hidden_state_tanh",
]  # fmt: skip


def lstm_in_numpy(x: Array, given: list[Array], *, reverse: bool, coupled: bool) -> list[Array]:
    """Brevitas's `_QuantLSTMCell`."""

    def rounded(name: str, y: Array) -> Array:
        scale, zero = STEPS[name]
        low, high = limits(8, "sigmoid" not in name, 0)
        return (np.round(np.clip(y / F(scale) + F(zero), low, high)) - F(zero)) * F(scale)

    h, c, rows = given[0], given[1], []

    def gate(i: int, row: Array, name: str, act: str) -> Array:
        total = row @ given[2 + i].T + h @ given[6 + i].T + given[10 + i]
        total = rounded(f"{name}_acc", total)
        return rounded(
            f"{name}_{act}", np.tanh(total) if act == "tanh" else 1 / (1 + np.exp(-total))
        )

    for row in x[::-1] if reverse else x:
        i, g, o = (
            gate(0, row, "input", "sigmoid"),
            gate(2, row, "cell", "tanh"),
            gate(3, row, "output", "sigmoid"),
        )
        one = rounded("input_sigmoid", np.ones_like(i))
        f = one - i if coupled else gate(1, row, "forget", "sigmoid")
        c = rounded("cell_state", rounded("cell_state", f * c) + rounded("cell_state", i * g))
        h = rounded("output", o * rounded("hidden_state_tanh", np.tanh(c)))
        rows.append(h)
    return [np.stack(rows[::-1] if reverse else rows), h, c]


@pytest.mark.parametrize("batch_first", [0, 1])
@pytest.mark.parametrize(("reverse", "coupled"), [(0, 0), (1, 0), (0, 1)])
def test_the_lstm_of_brevitas(batch_first: int, reverse: int, coupled: int) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((6, 2, 4)).astype(F)
    shapes = [(2, 3)] * 2 + [(3, 4)] * 4 + [(3, 3)] * 4 + [(3,)] * 4
    given = [random.standard_normal(shape).astype(F) / 2 for shape in shapes]
    attrs: dict[str, Any] = {"batch_first": batch_first, "reverse_input": reverse, "cifg": coupled}
    for name in ORDER:
        narrow = "narrow_range" if name == "output_sigmoid" else "narrow"
        attrs |= {f"{name}_{narrow}": 0, f"{name}_signed": int("sigmoid" not in name)}
        attrs[f"{name}_rounding_mode"] = "ROUND"
    numbers = [n for name in ORDER for n in (*STEPS[name], 8.0)]
    proto = model(
        "QuantLSTMCell", np.swapaxes(x, 0, 1) if batch_first else x, [*given, *numbers], **attrs
    )
    proto.graph.node[0].output.extend(["h", "c"])
    proto.graph.output.extend(
        helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "hc"
    )
    wanted = lstm_in_numpy(x, given, reverse=bool(reverse), coupled=bool(coupled))
    wanted[0] = np.swapaxes(wanted[0], 0, 1) if batch_first else wanted[0]
    fed = np.ascontiguousarray(np.swapaxes(x, 0, 1)) if batch_first else x
    for results in (load(proto).evaluate([fed]), graphc.compile(proto)(fed)):
        for result, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, want, atol=1e-5)
