"""Files of quantizers: brevitas, qonnx, nncf, modelopt, quark, torchao."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .making import Save, attempt, new_folder, write_onnx


class Reader:
    """Calibration data: the input, a few times."""

    def __init__(self, x: Any) -> None:
        self._left = [{"x": x}] * 4

    def get_next(self) -> Any:
        return self._left.pop() if self._left else None


def _brevitas_mlps(x: Any) -> Any:
    """Yield MLPs of few bits: names, what makes them, and the input."""
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

    for bits in (2, 3, 4, 8):
        yield f"mlp_{bits}bit", lambda b=bits: of_bits(b), x
    binary = {"weight_quant": SignedBinaryWeightPerTensorConst}
    yield "mlp_binary", lambda: qnn.QuantLinear(16, 32, False, **binary), x
    floats = {
        "weight_quant": Fp8e4m3OCPWeightPerTensorFloat,
        "input_quant": Fp8e4m3OCPActPerTensorFloat,
    }
    yield "mlp_fp8", lambda: qnn.QuantLinear(16, 32, True, **floats), x


def _brevitas_networks() -> Any:
    """Yield names, what makes a quantized network, and inputs."""
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

    yield "conv_pool", lambda: _first_result(pooled()), model_and_input("conv")[1]
    text = model_and_input("lstm")[1]
    yield "quant_lstm", lambda: qnn.QuantLSTM(16, 12, batch_first=True), text
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
                want = (
                    want
                    if isinstance(want, (tuple, list)) and not hasattr(want, "value")
                    else [want]
                )
                want = [getattr(w, "value", w) for w in want]
                want = [w.detach().numpy() for w in want if not isinstance(w, (tuple, list))]
                export(
                    model,
                    args=x,
                    export_path=str(path),
                    input_names=["x"],
                    opset_version=17,
                    dynamo=False,
                )
                save(f"{name}_{form}", path, {"x": x.numpy()}, want)


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


def nncf(save: Save) -> None:
    import nncf
    import onnx
    import torch

    from ..tool_models import MODELS, model_and_input

    for name in MODELS:
        model, x = model_and_input(name)
        path = write_onnx(model, x, new_folder() / "m.onnx", dynamo=True, opset_version=20)
        data = nncf.Dataset([{"x": x.numpy()}] * 4)
        for preset in (nncf.QuantizationPreset.PERFORMANCE, nncf.QuantizationPreset.MIXED):
            with attempt(f"{name}_{preset.value}"):
                made = nncf.quantize(onnx.load(path), data, preset=preset)
                target = new_folder() / "m.onnx"
                onnx.save(made, target)
                save(f"{name}_{preset.value}", target, {"x": x.numpy()}, None)
        for mode in (*nncf.CompressWeightsMode,):
            with attempt(f"{name}_{mode.value}"):
                more = {} if "int8" in mode.value else {"group_size": 16, "all_layers": True}
                made = nncf.compress_weights(onnx.load(path), mode=mode, **more)
                target = new_folder() / "m.onnx"
                onnx.save(made, target)
                save(f"{name}_{mode.value}", target, {"x": x.numpy()}, None)
        with attempt(f"{name}_torch"):
            made = nncf.quantize(model, nncf.Dataset([x] * 4))
            made = nncf.strip(made)
            with torch.no_grad():
                want = made(x).numpy()
            save(
                f"{name}_torch",
                write_onnx(made, x, new_folder() / "m.onnx", dynamo=False),
                {"x": x.numpy()},
                [want],
            )


def modelopt(save: Save) -> None:
    import modelopt.torch.quantization as mtq
    import torch
    from modelopt.onnx.quantization import quantize

    from ..tool_models import MODELS, model_and_input

    for name in MODELS:
        model, x = model_and_input(name)
        path = write_onnx(model, x, new_folder() / "m.onnx", dynamo=True, opset_version=20)
        for mode in ("int8", "fp8", "int4"):
            with attempt(f"{name}_{mode}"):
                target = new_folder() / "m.onnx"
                quantize(
                    str(path), quantize_mode=mode, calibration_data={"x": x.numpy()}, output_path=str(target),
                    calibration_eps=["cpu"], high_precision_dtype="fp32",
                )  # fmt: skip
                save(f"{name}_{mode}", target, {"x": x.numpy()}, None)
        for config in (
            "INT8_DEFAULT_CFG",
            "FP8_DEFAULT_CFG",
            "INT8_SMOOTHQUANT_CFG",
            "INT4_BLOCKWISE_WEIGHT_ONLY_CFG",
        ):
            with attempt(f"{name}_{config}"):
                model, x = model_and_input(name)
                mtq.quantize(model, getattr(mtq, config), lambda m, x=x: m(x))
                with torch.no_grad():
                    want = model(x).numpy()
                made = write_onnx(model, x, new_folder() / "m.onnx", dynamo=False, opset_version=20)
                save(f"{name}_{config}", made, {"x": x.numpy()}, [want])


def quark(save: Save) -> None:
    from quark.onnx import ModelQuantizer, get_library_path
    from quark.onnx.quantization.config import Config, get_default_config

    from ..tool_models import MODELS, model_and_input

    configs = (
        "XINT8", "A8W8", "A16W8", "U8S8_AAWS", "S8S8_AAWS", "U8U8_AAWA", "S16S8_ASWS", "U16S8_AAWS", "BF16",
        "BFP16", "S16S16_MIXED_S8S8", "INT8_CNN_DEFAULT", "INT16_CNN_DEFAULT", "MX4", "MX6", "MX9", "MXFP8E4M3",
        "MXFP4E2M1", "MXINT8", "INT8_TRANSFORMER_DEFAULT", "UINT8_DYNAMIC_QUANT", "MATMUL_NBITS",
    )  # fmt: skip
    for name in MODELS:
        model, x = model_and_input(name)
        path = write_onnx(model, x, new_folder() / "m.onnx", dynamo=True, opset_version=20)
        for config in configs:
            with attempt(f"{name}_{config}"):
                attempt.libraries[:] = [get_library_path("CPU")]
                target = new_folder() / "m.onnx"
                chosen = Config(global_quant_config=get_default_config(config))
                ModelQuantizer(chosen).quantize_model(str(path), str(target), Reader(x.numpy()))
                save(f"{name}_{config}", target, {"x": x.numpy()}, None)


def torchao(save: Save) -> None:
    import torch
    from torchao import quantization as tq

    from ..tool_models import MODELS, model_and_input

    configs = {
        "int8_weight": tq.Int8WeightOnlyConfig,
        "int8_dynamic": tq.Int8DynamicActivationInt8WeightConfig,
        "int4_dynamic": lambda: tq.Int8DynamicActivationIntxWeightConfig(
            torch.int4, tq.PerGroup(8)
        ),
        "intx": lambda: tq.IntxWeightOnlyConfig(torch.int4, tq.PerGroup(8)),
        "float8_weight": tq.Float8WeightOnlyConfig,
    }
    for name in MODELS:
        for config, make in configs.items():
            with attempt(f"{name}_{config}"):
                model, x = model_and_input(name)
                tq.quantize_(model, make())
                with torch.no_grad():
                    want = model(x).numpy()
                exported = torch.export.export(model, (x,))
                target = new_folder() / "m.pt2"
                torch.export.save(exported, target)
                save(f"{name}_{config}_pt2", target, {"x": x.numpy()}, [want])
                with attempt(f"{name}_{config}_onnx"):
                    made = new_folder() / "m.onnx"
                    torch.onnx.export(exported, (), made, verbose=False, external_data=False)
                    save(f"{name}_{config}_onnx", made, {"x": x.numpy()}, [want])
