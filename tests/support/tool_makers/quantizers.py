"""Files of quantizers: nncf, modelopt, quark, torchao."""

from __future__ import annotations

from typing import Any

from .making import Save, attempt, new_folder, write_onnx


class Reader:
    """Calibration data: the input, a few times."""

    def __init__(self, x: Any) -> None:
        self._left = [{"x": x}] * 4

    def get_next(self) -> Any:
        return self._left.pop() if self._left else None


def nncf(save: Save) -> None:
    import nncf
    import onnx
    import torch

    from ..tool_models import MODELS, model_and_input

    for name in MODELS:
        model, x = model_and_input(name)
        path = write_onnx(model, x, new_folder() / "m.onnx", dynamo=True, opset_version=20)
        data = nncf.Dataset([{"x": x.numpy()}] * 4)
        ways = {
            **{preset.value: {"preset": preset} for preset in nncf.QuantizationPreset},
            "transformer": {"model_type": nncf.ModelType.TRANSFORMER},
            "biases": {"fast_bias_correction": False},
            "cpu_spr": {"target_device": nncf.TargetDevice.CPU_SPR},
            "fp8_e4m3": {"mode": nncf.QuantizationMode.FP8_E4M3},
        }
        for way, options in ways.items():
            with attempt(f"{name}_{way}"):
                made = nncf.quantize(onnx.load(path), data, **options)
                target = new_folder() / "m.onnx"
                onnx.save(made, target)
                save(f"{name}_{way}", target, {"x": x.numpy()}, None)
        groups = {
            "int8_sym": {},
            "int8_asym": {},
            "int4_sym": {"group_size": 16},
            "int4_asym": {"group_size": 8},
        }
        ways = {
            **{mode: {"mode": mode, **more} for mode, more in groups.items()},
            "int4_sym_rows": {"mode": "int4_sym", "group_size": -1},
            "int4_mixed": {"mode": "int4_asym", "group_size": 16, "ratio": 0.6, "dataset": data},
            "int4_awq": {"mode": "int4_sym", "group_size": 16, "awq": True, "dataset": data},
        }
        for way, options in ways.items():
            with attempt(f"{name}_{way}"):
                more = {"all_layers": True} if "int4" in way and "ratio" not in options else {}
                mode = nncf.CompressWeightsMode(options.pop("mode"))
                made = nncf.compress_weights(onnx.load(path), mode=mode, **options, **more)
                target = new_folder() / "m.onnx"
                onnx.save(made, target)
                save(f"{name}_{way}", target, {"x": x.numpy()}, None)
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


_MODELOPT_WAYS: dict[str, dict[str, Any]] = {
    "int8": {},
    "fp8": {},
    "int4": {},
    "int8_entropy": {"calibration_method": "entropy"},
    "int8_dq": {"dq_only": True},
    "int8_fp16": {"high_precision_dtype": "fp16"},
    "fp8_fp16": {"high_precision_dtype": "fp16"},
    "int4_rtn": {"calibration_method": "rtn_dq", "block_size": 16},
    "int4_awq": {"calibration_method": "awq_lite", "block_size": 16},
    "int4_clip": {"calibration_method": "awq_clip", "use_zero_point": True},
}
"""Modes of modelopt's ONNX quantizer, and its options."""


def modelopt(save: Save) -> None:
    import modelopt.torch.quantization as mtq
    import torch
    from modelopt.onnx.quantization import quantize

    from ..tool_models import MODELS, model_and_input

    for name in MODELS:
        model, x = model_and_input(name)
        path = write_onnx(model, x, new_folder() / "m.onnx", dynamo=True, opset_version=20)
        for way, options in _MODELOPT_WAYS.items():
            with attempt(f"{name}_{way}"):
                target = new_folder() / "m.onnx"
                given = {"high_precision_dtype": "fp32", **options}
                quantize(
                    str(path), quantize_mode=way.partition("_")[0], calibration_data={"x": x.numpy()},
                    output_path=str(target), calibration_eps=["cpu"], **given,
                )  # fmt: skip
                save(f"{name}_{way}", target, {"x": x.numpy()}, None)
        for config in (
            "INT8_DEFAULT_CFG", "FP8_DEFAULT_CFG", "INT8_SMOOTHQUANT_CFG", "INT4_BLOCKWISE_WEIGHT_ONLY_CFG",
            "INT8_WEIGHT_ONLY_CFG", "INT4_AWQ_CFG", "FP8_PER_CHANNEL_PER_TOKEN_CFG", "MXFP8_DEFAULT_CFG",
            "NVFP4_DEFAULT_CFG",
        ):  # fmt: skip
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
        "MXFP4E2M1", "MXINT8", "INT8_TRANSFORMER_DEFAULT", "UINT8_DYNAMIC_QUANT", "MATMUL_NBITS", "VINT8", "FP16",
        "MXFP8E5M2", "MXFP6E3M2", "MXFP6E2M3", "BF16_MIXED_BFP16", "BF16_MIXED_MXINT8", "BF16_BFP16", "BF16_MXINT8",
        "MX9_INT8", "INT16_TRANSFORMER_DEFAULT",
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
    from torchao.quantization import MappingType

    from ..tool_models import MODELS, model_and_input

    configs = {
        "int8_weight": tq.Int8WeightOnlyConfig,
        "int8_dynamic": tq.Int8DynamicActivationInt8WeightConfig,
        "int4_dynamic": lambda: tq.Int8DynamicActivationIntxWeightConfig(
            torch.int4, tq.PerGroup(8)
        ),
        "intx": lambda: tq.IntxWeightOnlyConfig(torch.int4, tq.PerGroup(8)),
        "float8_weight": tq.Float8WeightOnlyConfig,
        "int8_rows": lambda: tq.IntxWeightOnlyConfig(torch.int8, tq.PerAxis(0)),
        "int2": lambda: tq.IntxWeightOnlyConfig(torch.int2, tq.PerGroup(16)),
        "int6_asymmetric": lambda: tq.IntxWeightOnlyConfig(
            torch.int6, tq.PerGroup(8), mapping_type=MappingType.ASYMMETRIC
        ),
        "int8_dynamic_tensor": lambda: tq.Int8DynamicActivationInt8WeightConfig(
            granularity=tq.PerTensor()
        ),
        "int8_dynamic_asymmetric": lambda: tq.Int8DynamicActivationInt8WeightConfig(
            act_mapping_type=MappingType.ASYMMETRIC
        ),
        "float8_dynamic": tq.Float8DynamicActivationFloat8WeightConfig,
        "float8_dynamic_rows": lambda: tq.Float8DynamicActivationFloat8WeightConfig(
            granularity=tq.PerRow()
        ),
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
