"""custom-call: targets of XLA and JAX whose meaning is known."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from ...base.dtypes import DType
from ...graph_ir.ir.graph import GraphTensor
from .fourier import ducc_fft
from .linear_algebra import TARGETS as LAPACK
from .scope import Handler, Step
from .shapes import DTYPES
from .sorting import top_k


def _identity(step: Step) -> Any:
    step.count(1)
    return step.operands[0]


def _top_k(step: Step) -> Any:
    found = step.shape.elements
    if len(found) != 2 or not found[0].dims:
        raise step.rule("its shape must be (values, indices)", step.shape.logical())
    given = (step.word(name) for name in ("frontend_attributes", "backend_config"))
    is_largest = not any("largest = false" in text for text in given)
    return top_k(step, step.shape.elements[0].dims[-1], is_largest)


def _nothing(step: Step) -> Any:
    """A check of what JAX knows when it exports."""
    return ()


def _config(step: Step, name: str) -> dict[str, Any]:
    """The part of the backend_config for one kind of call."""
    text = step.word("backend_config")
    try:
        whole = json.loads(text) if text else {}
        whole = json.loads(whole) if isinstance(whole, str) and whole else whole
    except ValueError as error:
        raise step.fail(f"its backend_config must be JSON ({error})") from error
    part = whole.get(name) if isinstance(whole, dict) else None
    if not isinstance(part, dict):
        raise step.rule(f"its backend_config must be an object with {name}", text or "none")
    return part


def _onednn_matmul(step: Step) -> Any:
    """Read a oneDNN matmul with its fused epilogue; further operands are biases and addends, in this order."""
    config = _config(step, "onednn_matmul_config")
    step.count(2, -1)
    fused = config.get("fusions", config)
    if not isinstance(fused, dict):
        raise step.rule("fusions must be an object", str(fused))
    words = fused.get("ops") or fused.get("fused_ops") or []
    if config.get("weights_prepacked"):
        raise step.unsupported("packed weights")
    transposed = {f"transpose_{x}": bool(config.get(f"transpose_{x}", False)) for x in "ab"}
    dtype = _result_dtype(step)
    x, y, *others = (step.converted(x, dtype) for x in step.tensors())
    result, left = step.make("matmul_core", x, y, **transposed), iter(others)
    for word in words:
        if word in ("BIAS", "BINARY_ADD", "SUM"):
            other = next(left, None)
            if other is None:
                raise step.rule(f"{word} must have an operand", str(len(others) + 2))
            result = step.make("add", result, other)
        elif word == "LINEAR":
            result = step.make("mul", result, step.constant(_alpha(fused), result.details.dtype))
        elif word in _ONEDNN:
            result = _ONEDNN[word](step, result)
        else:
            raise step.unsupported(f"the fused operation {word}")
    return step.with_scratch(result)


def _result_dtype(step: Step) -> DType:
    """Return the written element type of the result, alone or beside scratch memory; without one, the operands'."""
    if step.instruction.shape is None:
        return step.tensor(0).details.dtype
    return DTYPES[(step.shape.elements[0] if step.gives_tuple else step.shape).type]


def _alpha(fused: dict[str, Any]) -> float:
    """A float, which may be written as the integer of its bits."""
    if "alpha_typecast" in fused:
        bits = int(fused["alpha_typecast"]) % (1 << 32)
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    return float(fused.get("alpha", 1.0))


def _onednn_softmax(step: Step) -> Any:
    axis = _config(step, "onednn_softmax_config").get("softmax_axis", -1)
    if not isinstance(axis, int):
        raise step.rule("softmax_axis must be an integer", str(axis))
    return step.with_scratch(step.make("softmax", step.tensor(0), axis=axis))


def _op(name: str, **attrs: Any) -> Callable[[Step, GraphTensor], GraphTensor]:
    return lambda step, x: step.make(name, x, **attrs)


_ONEDNN: dict[str, Callable[[Step, GraphTensor], GraphTensor]] = {
    "RELU": _op("relu"), "TANH": _op("tanh"), "SIGMOID": _op("sigmoid"), "ELU": _op("elu", alpha=1.0),
    "RELU6": _op("clamp", min=0.0, max=6.0), "SWISH": _op("silu"), "GELU_ERF": _op("gelu"),
    "GELU_TANH": _op("gelu", approximate="tanh"),
}  # fmt: skip

TARGETS: dict[str, Handler] = {
    **dict.fromkeys(
        ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
         "xla.sdy.FuncResultSharding", "xla.sdy.PropagationBarrier"), _identity
    ),
    **dict.fromkeys(("TopK", "mhlo.topk"), _top_k),
    "mhlo.erf": lambda step: step.make("erf", *step.tensors(1)),
    "shape_assertion": _nothing,
    "dynamic_ducc_fft": ducc_fft,
    "__onednn$matmul": _onednn_matmul,
    "__onednn$softmax": _onednn_softmax,
    **LAPACK,
}  # fmt: skip
"""Handlers of custom calls, by target."""

_FACTORIZATIONS = {
    **dict.fromkeys(("geqrf", "orgqr", "ungqr", "geqp3", "householder", "qr"), "a QR factorization"),
    **dict.fromkeys(("gesdd", "gesvd", "gesvj", "gejsv", "svd"), "a singular value decomposition"),
    **dict.fromkeys(("syevd", "heevd", "syevj", "eigh"), "an eigendecomposition of a symmetric matrix"),
    **dict.fromkeys(("geev", "eig"), "an eigendecomposition"),
    "gees": "a Schur decomposition", "gehrd": "a Hessenberg reduction",
    **dict.fromkeys(("sytrd", "hetrd"), "a tridiagonal reduction"),
}  # fmt: skip
"""Words in the names of targets, LAPACK's routines among them, to what they compute."""


def _custom_call(step: Step) -> Any:
    target = step.word("custom_call_target")
    if target in TARGETS:
        return TARGETS[target](step)
    known = next((what for word, what in _FACTORIZATIONS.items() if word in target.lower()), None)
    if known:
        read = ", ".join(sorted({name.split("_")[1][1:] for name in LAPACK}))
        remedy = f"compute it outside of the model (of real matrices, {read} are supported)"
        raise step.unsupported(f"{known} (target '{target}')", remedy)
    raise step.unsupported(f"target '{target}'", "export the model for the CPU, without it")


HANDLERS: dict[str, Handler] = {"custom-call": _custom_call}
