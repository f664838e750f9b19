"""MoE and QMoE against their formula, which is held against ONNX Runtime too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.base.records import dataclass
from graphc.frontend import load
from graphc.graph_ir.ops.matmul_nbits import MatmulNBits

Array = np.ndarray[Any, Any]
EXPERTS, SIZE, INNER, TOKENS = 4, 16, 32, 5
ALPHA, BETA, LIMIT = 1.702, 1.0, 2.0
NAMES = {
    "MoE": ["x", "router", "w1", "b1", "w2", "b2", "w3", "b3"],
    "QMoE": ["x", "router", "w1", "s1", "b1", "w2", "s2", "b2", "w3", "s3", "b3", "z1", "z2", "z3", "mix"],
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A mixture: its activation, the experts of a token, and how the weights are written."""

    act: str = "relu"
    k: int = 2
    norm: bool = False
    bias: bool = True
    fusion: int = 0
    third: bool = False
    bits: int = 0
    block: int = 0
    zero: bool = False
    mix: bool = False
    on_cpu: bool = True

    def arrays(self) -> dict[str, Array]:
        """The inputs, by their names in `NAMES`."""
        rng = np.random.default_rng(1)

        def floats(*shape: int) -> Array:
            return rng.standard_normal(shape).astype(np.float32)

        rows = {1: (INNER * (2 if self.fusion else 1), SIZE), 2: (SIZE, INNER), 3: (INNER, SIZE)}
        found = {"x": floats(TOKENS, SIZE), "router": floats(TOKENS, EXPERTS)}
        for number in (1, 2, 3) if self.third else (1, 2):
            n, k = rows[number]
            if self.bias:
                found[f"b{number}"] = floats(EXPERTS, n)
            if not self.bits:
                found[f"w{number}"] = floats(EXPERTS, n, k)
                continue
            blocks = k // self.block if self.block else 1
            found[f"w{number}"] = rng.integers(0, 256, (EXPERTS, n, k * self.bits // 8), np.uint8)
            found[f"s{number}"] = (0.01 + 0.05 * rng.random((EXPERTS, n, blocks))).astype(
                np.float32
            )
            if not self.block:
                found[f"s{number}"] = found[f"s{number}"][..., 0]
            if self.zero:
                shape = (
                    (EXPERTS, n, -(-blocks * self.bits // 8))
                    if self.block
                    else (EXPERTS, n * self.bits // 8)
                )
                found[f"z{number}"] = rng.integers(0, 256, shape, np.uint8)
        if self.mix:
            found["mix"] = rng.random((TOKENS, EXPERTS)).astype(np.float32)
        return found

    def model(self, tokens: int | str = TOKENS, **more: Any) -> ModelProto:
        """The node, with weights that are constants."""
        arrays, kind = self.arrays(), "QMoE" if self.bits else "MoE"
        names = [name if name in arrays else "" for name in NAMES[kind]]
        while not names[-1]:
            names.pop()
        attrs: dict[str, Any] = {
            "k": self.k, "activation_type": self.act, "normalize_routing_weights": int(self.norm),
        }  # fmt: skip
        if self.act == "swiglu":
            attrs |= {"swiglu_fusion": self.fusion, "swiglu_limit": LIMIT}
            attrs |= {"activation_alpha": ALPHA, "activation_beta": BETA}
        if self.bits:
            attrs |= {"expert_weight_bits": self.bits, "weights_prepacked": 0}
        if self.block:
            attrs["block_size"] = self.block
        node = helper.make_node(kind, names, ["y"], domain="com.microsoft", **(attrs | more))
        infos = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [tokens, arrays[name].shape[1]])
            for name in ("x", "router", "mix") if name in arrays
        ]  # fmt: skip
        graph = helper.make_graph(
            [node], "g", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(x, n) for n, x in arrays.items() if n not in ("x", "router", "mix")],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def feeds(self) -> dict[str, Array]:
        """The inputs of the model."""
        return {n: x for n, x in self.arrays().items() if n in ("x", "router", "mix")}

    def wanted(self) -> Array:
        """Token by token, in float64."""
        given, y = self.arrays(), np.zeros((TOKENS, SIZE))
        normalizes = self.norm or (self.bits and not self.mix)
        layers = {
            number: self._weights(given, number) for number in (1, 2, 3) if f"w{number}" in given
        }
        for token, (x, logits) in enumerate(zip(given["x"], given["router"], strict=True)):
            chosen = np.argsort(-logits, kind="stable")[: self.k]
            shares = np.exp(logits - logits.max()).astype(np.float64)
            shares = (given["mix"][token] if self.mix else shares / shares.sum())[chosen]
            for expert, share in zip(
                chosen, shares / (shares.sum() if normalizes else 1), strict=True
            ):

                def layer(number: int, z: Array, expert: int = expert) -> Array:
                    bias = given[f"b{number}"][expert] if self.bias else 0
                    return layers[number][expert] @ z + bias  # type: ignore[no-any-return]

                z = self._activated(layer(1, x), layer(3, x) if self.third else None)
                y[token] += share * layer(2, z)
        return y

    def _weights(self, given: dict[str, Array], number: int) -> Array:
        w = given[f"w{number}"]
        if not self.bits:
            return w.astype(np.float64)

        def numbers(packed: Array) -> Array:
            parts = packed[..., None] >> np.arange(0, 8, self.bits, dtype=np.uint8)
            return (
                (parts & np.uint8((1 << self.bits) - 1))
                .reshape(*packed.shape[:-1], -1)
                .astype(float)
            )

        q = numbers(w)
        scale = given[f"s{number}"].reshape(*q.shape[:2], -1).astype(np.float64)
        zero = np.full(scale.shape, float(1 << (self.bits - 1)))
        if self.zero:
            zero = numbers(given[f"z{number}"])
            zero = zero[..., : scale.shape[2]] if self.block else zero[..., None]
        block = q.shape[2] // scale.shape[2]
        return (q - np.repeat(zero, block, 2)) * np.repeat(scale, block, 2)  # type: ignore[no-any-return]

    def _activated(self, z: Array, beside: Array | None) -> Array:
        if self.act == "swiglu":
            gate, up = (z, beside) if beside is not None else (z[0::2], z[1::2])
            if self.fusion == 2:
                gate, up = np.split(z, 2)
            assert up is not None
            gate, up = np.minimum(gate, LIMIT), np.clip(up, -LIMIT, LIMIT)
            return gate / (1 + np.exp(-ALPHA * gate)) * (up + BETA)
        formulas = {
            "relu": lambda v: np.maximum(v, 0), "identity": lambda v: v, "silu": lambda v: v / (1 + np.exp(-v)),
            "gelu": lambda v: 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))),
        }  # fmt: skip
        z = formulas[self.act](z)
        return z if beside is None else z * beside


CASES = {
    **{act: Case(act, k, k == 2) for act, k in (("relu", 1), ("gelu", 2), ("silu", 4), ("identity", 3))},
    "no bias": Case("silu", bias=False),
    "interleaved gates": Case("swiglu", fusion=1, norm=True),
    "halves of gates": Case("swiglu", fusion=2, on_cpu=False),
    "gates of a third layer": Case("swiglu", third=True, on_cpu=False),
    "a third layer": Case("silu", third=True, on_cpu=False),
    **{f"{bits} bits": Case("silu", bits=bits) for bits in (2, 4, 8)},
    "blocks": Case("swiglu", fusion=1, norm=True, bits=4, block=16),
    "blocks with zero points": Case("swiglu", fusion=1, bits=4, block=16, zero=True),
    "rows with zero points": Case("silu", bits=4, zero=True),
    "weights of another router": Case("silu", bits=4, block=16, mix=True, norm=True),
    "weights of another router as they are": Case("silu", bits=4, mix=True),
    "blocks of bytes": Case("silu", bits=8, block=16, zero=True, on_cpu=False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_against_the_formula(name: str) -> None:
    case = CASES[name]
    graph, feeds = load(case.model()), case.feeds()
    (result,) = graph.evaluate([feeds[op.name] for op in graph.inputs])
    scale = np.abs(case.wanted()).max()
    np.testing.assert_allclose(result / scale, case.wanted() / scale, atol=1e-6)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.bits])
def test_constants_stay_packed(name: str) -> None:
    case = CASES[name]
    graph = load(case.model())
    matmuls = [op for op in graph.ops if isinstance(op, MatmulNBits)]
    assert len(matmuls) == 2 + case.third and {op.bits for op in matmuls} == {case.bits}
    assert {op.experts for op in matmuls} == {EXPERTS}
    given = {array.size for name, array in case.arrays().items() if name.startswith("w")}
    assert {op.w.details.elements for op in matmuls} == given


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.on_cpu])
def test_the_formula_against_onnx_runtime(name: str) -> None:
    """On CPUs it has no third layer nor halves of gates, and rounds activations of 8-bit blocks."""
    ort = pytest.importorskip("onnxruntime", minversion="1.32")
    case = CASES[name]
    session = ort.InferenceSession(
        case.model().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    scale = np.abs(case.wanted()).max()
    (result,) = session.run(None, case.feeds())
    np.testing.assert_allclose(result / scale, case.wanted() / scale, atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["interleaved gates", "blocks with zero points"])
def test_any_number_of_tokens(name: str) -> None:
    case, feeds = CASES[name], CASES[name].feeds()
    model = graphc.compile(case.model("T"))
    for count in (1, 2, TOKENS):
        (result,) = model.run(None, {key: x[:count] for key, x in feeds.items()})
        np.testing.assert_allclose(result, case.wanted()[:count], rtol=1e-4, atol=1e-3)


REFUSED: dict[str, tuple[Case, dict[str, Any], type[Exception], str]] = {
    "sparse mixers": (Case(), {"use_sparse_mixer": 1}, UnsupportedError, "use_sparse_mixer=1"),
    "activations": (Case(), {"activation_type": "relu2"}, UnsupportedError, "activation_type=relu2"),
    "FP4": (Case(bits=4), {"quant_type": "fp4"}, UnsupportedError, "quant_type=fp4"),
    "too many experts": (Case(), {"k": 5}, UserError, r"k in \[1, 4\]"),
    "odd blocks": (Case(bits=4, block=16), {"block_size": 8}, UserError, "a scale per row or per block"),
    "gates": (Case("swiglu"), {}, UserError, "swiglu_fusion must be"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    case, attrs, error, text = REFUSED[what]
    with pytest.raises(error, match=text):
        load(case.model(**attrs))
