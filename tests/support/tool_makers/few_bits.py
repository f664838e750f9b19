"""Files of networks of few bits: brevitas, and qonnx's transformations of those."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .making import Save, attempt, new_folder

_BREVITAS_PAIRS = (
    ("Int8WeightPerChannelFloat", "Uint8ActPerTensorFloat"),
    ("Int8WeightPerTensorFixedPoint", "Int8ActPerTensorFixedPoint"),
    ("Int4WeightPerTensorFloatDecoupled", "Int8ActPerTensorFloat"),
    ("SignedTernaryWeightPerTensorConst", ""),
    ("ShiftedUint8WeightPerTensorFloat", "ShiftedUint8ActPerTensorFloat"),
    ("ShiftedUint8WeightPerChannelFloat", "ShiftedUint8ActPerTensorFixedPoint"),
    ("Int8WeightPerChannelFloatMSE", "Int8ActPerTensorFloatMSE"),
    ("Int8WeightNormL2PerChannelFixedPoint", "Uint8ActPerTensorFixedPoint"),
    ("Fp8e5m2OCPWeightPerTensorFloat", "Fp8e5m2OCPActPerTensorFloat"),
    ("Fp8e4m3OCPWeightPerChannelFloat", "Fp8e4m3OCPActPerTensorFloat"),
    ("Fp8e4m3FNUZWeightPerTensorFloat", "Fp8e4m3FNUZActPerTensorFloat"),
    ("Fp8e4m3WeightPerTensorFloat", "Fp8e4m3ActPerTensorFloat"),
)
"""Quantizers of weights and inputs."""


_LSTMS: dict[str, dict[str, Any]] = {
    "plain": {"batch_first": True},
    "both_ways": {"bidirectional": True},
    "coupled": {"coupled_input_forget_gates": True, "batch_first": True},
    "two_layers": {"num_layers": 2, "bias": False},
}
"""Options of quantized LSTMs."""


def _brevitas_mlps(x: Any) -> Any:
    """Yield MLPs of few bits: names, what makes them, and the input."""
    import brevitas.quant
    import torch
    from brevitas import nn as qnn
    from brevitas.quant import SignedBinaryWeightPerTensorConst
    from brevitas.quant.experimental.float_quant_ocp import (
        Fp8e4m3OCPActPerTensorFloat,
        Fp8e4m3OCPWeightPerTensorFloat,
    )

    def of_bits(bits: int) -> Any:
        return torch.nn.Sequential(
            qnn.QuantIdentity(bit_width=bits),
            qnn.QuantLinear(16, 32, True, weight_bit_width=bits),
            qnn.QuantReLU(bit_width=bits),
            qnn.QuantLinear(32, 5, True, weight_bit_width=bits),
        )

    for bits in (2, 3, 4, 6, 8):
        yield f"mlp_{bits}bit", lambda b=bits: of_bits(b), x
    binary = {"weight_quant": SignedBinaryWeightPerTensorConst}
    yield "mlp_binary", lambda: qnn.QuantLinear(16, 32, False, **binary), x
    floats = {
        "weight_quant": Fp8e4m3OCPWeightPerTensorFloat,
        "input_quant": Fp8e4m3OCPActPerTensorFloat,
    }
    yield "mlp_fp8", lambda: qnn.QuantLinear(16, 32, True, **floats), x
    for weights, inputs in _BREVITAS_PAIRS:
        chosen = {
            f"{what}_quant": getattr(brevitas.quant, name)
            for what, name in (("weight", weights), ("input", inputs))
            if name
        }
        is_scaled = inputs and "Fp" not in inputs
        biases = {"bias_quant": brevitas.quant.Int32Bias} if is_scaled else {}
        yield (
            f"mlp_{weights}_{inputs}",
            lambda chosen=chosen | biases: qnn.QuantLinear(16, 32, True, **chosen),
            x,
        )


def _brevitas_networks() -> Any:
    """Yield names, what makes a quantized network, and inputs."""
    import brevitas.quant
    import torch
    from brevitas import nn as qnn
    from brevitas.graph.quantize import layerwise_quantize
    from brevitas.quant import Int8WeightPerTensorFloat

    from ..tool_models import MODELS, model_and_input

    for name in MODELS:
        model, x = model_and_input(name)
        yield f"{name}_layers", lambda m=model: layerwise_quantize(m), x
    yield from _brevitas_mlps(model_and_input("mlp")[1])
    kept = {"return_quant_tensor": True}

    def pooled() -> Any:
        return torch.nn.Sequential(
            qnn.QuantIdentity(**kept),
            qnn.QuantConv2d(3, 8, 3, weight_quant=Int8WeightPerTensorFloat, **kept),
            qnn.QuantReLU(bit_width=4, **kept),
            qnn.TruncAvgPool2d(2, bit_width=4),
        )

    def attention() -> Any:
        return qnn.QuantMultiheadAttention(16, 4, batch_first=True, packed_in_proj=False)

    image, text = (model_and_input(name)[1] for name in ("conv", "lstm"))
    for name in (
        "Int8WeightPerChannelFloat",
        "Int8WeightPerTensorFixedPoint",
        "SignedTernaryWeightPerTensorConst",
    ):
        few = {"weight_quant": getattr(brevitas.quant, name)}
        yield (
            f"conv_{name}",
            lambda few=few: qnn.QuantConv2d(3, 8, 3, groups=1, padding=1, **few),
            image,
        )
        yield (
            f"transposed_{name}",
            lambda few=few: qnn.QuantConvTranspose2d(3, 8, 2, stride=2, **few),
            image,
        )
    yield "tanh", lambda: torch.nn.Sequential(qnn.QuantTanh(bit_width=4), qnn.QuantSigmoid()), image
    yield "hard_tanh", lambda: qnn.QuantHardTanh(min_val=-1.0, max_val=1.0, bit_width=3), image
    yield (
        "nearest",
        lambda: _first_result(
            torch.nn.Sequential(qnn.QuantIdentity(**kept), qnn.QuantUpsample(scale_factor=2))
        ),
        image,
    )
    yield "sum", lambda: _of_twice(qnn.QuantEltwiseAdd(bit_width=5)), image
    yield "cat", lambda: _of_list(qnn.QuantCat(bit_width=5)), image
    yield "scaled", lambda: qnn.QuantScaleBias(16, True, (16,)), text
    yield "conv_pool", lambda: _first_result(pooled()), model_and_input("conv")[1]
    for name, options in _LSTMS.items():
        yield f"quant_lstm_{name}", lambda options=options: qnn.QuantLSTM(16, 12, **options), text
    yield "quant_mha", lambda: _first_result(attention(), operands=3), text


def brevitas(save: Save) -> None:
    import torch
    from brevitas.export import export_onnx_qcdq, export_qonnx

    for name, make, x in _brevitas_networks():
        for form, export in (("qcdq", export_onnx_qcdq), ("qonnx", export_qonnx)):
            with attempt(f"{name}_{form}"):
                torch.manual_seed(1)
                model = make().train()
                for _ in range(3):
                    model(x)
                model.eval()
                path = new_folder() / "m.onnx"
                with torch.no_grad():
                    want = model(x)
                want = [w.detach().numpy() for w in _tensors(want)]
                export(
                    model,
                    args=x,
                    export_path=str(path),
                    input_names=["x"],
                    opset_version=17,
                    dynamo=False,
                )
                save(f"{name}_{form}", path, {"x": x.numpy()}, want)


def _tensors(result: Any) -> list[Any]:
    """Return the tensors of a result in their order, the values alone of quantized ones."""
    if hasattr(result, "_fields"):
        return [result[0]]
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in _tensors(part)]
    return [result]


def _of_twice(layer: Any) -> Any:
    """Add an input to its half."""
    import torch

    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x, x / 2)

    return Twice()


def _of_list(layer: Any) -> Any:
    """Join an input and its half."""
    import torch

    class Joined(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer([x, x / 2], dim=1)

    return Joined()


def _first_result(layer: Any, operands: int = 1) -> Any:
    """Wrap a layer that returns several values, or takes its input several times."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(*[x] * operands)[0]

    return Wrapped()


def qonnx(save: Save) -> None:
    """Brevitas's files after the transformations of qonnx, run by qonnx."""
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation import qcdq_to_qonnx, qonnx_to_qcdq
    from qonnx.transformation.channels_last import ConvertToChannelsLastAndClean
    from qonnx.transformation.gemm_to_matmul import GemmToMatMul
    from qonnx.transformation.quant_constant_folding import FoldTransposeIntoQuantInit
    from qonnx.util.cleanup import cleanup_model

    def transformed(name: str, path: Path, inputs: Mapping[str, Any], results: Any) -> None:
        ways = {
            "cleaned": (),
            "gemm": (GemmToMatMul(), FoldTransposeIntoQuantInit()),
            "qcdq": (qonnx_to_qcdq.QuantToQCDQ(),),
            "quant": (qcdq_to_qonnx.QCDQToQuant(),),
            "channels_last": (ConvertToChannelsLastAndClean(),) if "conv" in name else None,
        }
        for way, steps in ways.items():
            if steps is None:
                continue
            with attempt(f"{name}_{way}"):
                model = cleanup_model(ModelWrapper(str(path)))
                for step in steps:
                    model = model.transform(step)
                given = {model.graph.input[0].name: inputs["x"]}
                if "channels_last" in way:
                    dims = model.get_tensor_shape(model.graph.input[0].name)
                    if list(dims) != list(inputs["x"].shape):
                        given = {k: v.transpose(0, 2, 3, 1).copy() for k, v in given.items()}
                found = execute_onnx(model, given)
                target = new_folder() / "m.onnx"
                model.save(str(target))
                save(f"{name}_{way}", target, given, [*found.values()])

    brevitas(transformed)
