"""LSTM, GRU and RNN against their formulas, step by step in NumPy."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from graphc.base.errors import UserError
from graphc.driver.compiler import compile
from graphc.frontend import load
from support.onnx_models import model as onnx_model
from support.onnx_models import node

STEPS, BATCH, SIZE, HIDDEN = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
F = np.float32


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def arrays(op_type: str, directions: int) -> dict[str, Any]:
    random = np.random.default_rng(7)
    gates = GATES[op_type] * HIDDEN

    def some(*dims):
        return random.normal(0, 0.5, (directions, *dims)).astype(F)

    return {
        "x": random.normal(0, 1, (STEPS, BATCH, SIZE)).astype(F),
        "w": some(gates, SIZE), "r": some(gates, HIDDEN), "b": some(2 * gates),
        "lengths": np.array([5, 2, 3], np.int32), "h": some(BATCH, HIDDEN),
    } | ({"c": some(BATCH, HIDDEN), "p": some(3 * HIDDEN)} if op_type == "LSTM" else {})  # fmt: skip


def model(op_type: str, given: dict[str, Any], known: tuple[str, ...], **attributes: Any) -> Any:
    names = " ".join(["x w r b lengths h", *(name for name in "cp" if name in given)])
    outputs = ("y", "yh", "yc")[: 3 if op_type == "LSTM" else 2]
    return onnx_model(
        [node(op_type, names, " ".join(outputs), hidden_size=HIDDEN, **attributes)],
        {name: array.shape for name, array in given.items() if name not in known},
        {name: given[name] for name in known},
        outputs=outputs,
        dtypes={"lengths": TensorProto.INT32},
    )


def step(op_type: str, x, h, c, w, r, b, p, attributes):
    gates = GATES[op_type]
    wb, rb = b[: gates * HIDDEN], b[gates * HIDDEN :]
    xs = np.split(x @ w.T + wb, gates, 1)
    rs, rbs = np.split(r, gates), np.split(rb, gates)
    hs = [h @ each.T + bias for each, bias in zip(rs, rbs, strict=True)]
    if op_type == "RNN":
        return np.tanh(xs[0] + hs[0]), c
    if op_type == "GRU":
        z, reset = sigmoid(xs[0] + hs[0]), sigmoid(xs[1] + hs[1])
        if attributes.get("linear_before_reset"):
            new = np.tanh(xs[2] + reset * hs[2])
        else:
            new = np.tanh(xs[2] + (reset * h) @ rs[2].T + rbs[2])
        return (1 - z) * new + z * h, c
    pi, po, pf = np.split(p, 3)
    i = sigmoid(xs[0] + hs[0] + pi * c)
    f = 1 - i if attributes.get("input_forget") else sigmoid(xs[2] + hs[2] + pf * c)
    c = f * c + i * np.tanh(xs[3] + hs[3])
    return sigmoid(xs[1] + hs[1] + po * c) * np.tanh(c), c


def expected(op_type: str, a: dict[str, Any], backwards: list[bool], attributes: dict[str, Any]):
    ys, hs, cs = [], [], []
    for d, back in enumerate(backwards):
        h, c = a["h"][d], a["c"][d] if "c" in a else np.zeros((BATCH, HIDDEN), F)
        p = a["p"][d] if "p" in a else None
        y = np.zeros((STEPS, BATCH, HIDDEN), F)
        for t in range(STEPS)[:: -1 if back else 1]:
            new_h, new_c = step(
                op_type, a["x"][t], h, c, a["w"][d], a["r"][d], a["b"][d], p, attributes
            )
            going = (t < a["lengths"])[:, None]
            h, c = np.where(going, new_h, h), np.where(going, new_c, c)
            y[t] = np.where(going, new_h, 0)
        ys.append(y)
        hs.append(h)
        cs.append(c)
    results = [np.stack(ys, 1), np.stack(hs)]
    return [*results, np.stack(cs)] if op_type == "LSTM" else results


CASES = [
    ("RNN", [False], {}),
    ("GRU", [True], {"direction": "reverse"}),
    ("GRU", [False, True], {"direction": "bidirectional", "linear_before_reset": 1}),
    ("LSTM", [False, True], {"direction": "bidirectional"}),
    ("LSTM", [False], {"input_forget": 1}),
]


@pytest.mark.parametrize("known", [(), ("w", "r", "b")], ids=["fed", "known"])
@pytest.mark.parametrize(("op_type", "backwards", "attributes"), CASES)
def test_against_the_formulas(op_type, backwards, attributes, known):
    given = arrays(op_type, len(backwards))
    graph = load(model(op_type, given, known, **attributes))
    results = graph.evaluate([given[op.name] for op in graph.inputs])
    for result, wanted in zip(
        results, expected(op_type, given, backwards, attributes), strict=True
    ):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_a_long_sequence_is_a_loop_of_the_native_code():
    given = arrays("GRU", 1)
    random = np.random.default_rng(3)
    given["x"] = random.normal(0, 1, (100, BATCH, SIZE)).astype(F)
    graph = load(model("GRU", given, ("w", "r", "b")))
    assert [op.op_name for op in graph.ops].count("while") == 1
    feeds = [given[op.name] for op in graph.inputs]
    wanted = graph.evaluate(feeds)
    with compile(graph) as compiled:
        for result, each in zip(compiled(*feeds), wanted, strict=True):
            np.testing.assert_allclose(result, each, rtol=1e-4, atol=1e-5)


def test_activations_take_their_parameters_in_order_and_inputs_are_clipped():
    given = arrays("RNN", 1)
    given["lengths"][:] = STEPS
    attributes = {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.25]}
    graph = load(model("RNN", given, (), clip=0.125, **attributes))
    y = graph.evaluate([given[op.name] for op in graph.inputs])[0]
    h = given["h"][0]
    for t in range(STEPS):
        x = given["x"][t] @ given["w"][0].T + given["b"][0][:HIDDEN]
        h = 0.5 * np.clip(x + h @ given["r"][0].T + given["b"][0][HIDDEN:], -0.125, 0.125) + 0.25
        np.testing.assert_allclose(y[t, 0], h, rtol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ({"activations": ["Tanh", "Tanh"]}, "activations must name 1 functions"),
        ({"activations": ["Step"]}, "activations must be among relu, tanh"),
        ({"direction": "up"}, "direction forward, reverse or bidirectional"),
    ],
)
def test_rejects(attributes, rule):
    with pytest.raises(UserError, match=rule):
        load(model("RNN", arrays("RNN", 1), (), **attributes))
