"""The suite `torch`: networks of torchvision and transformers of usual size, with random weights of a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..base.errors import UserError
from ..base.records import dataclass


@dataclass(frozen=True)
class TorchCase:
    """A module in inference mode and arguments for it. One row of the table."""

    name: str
    module: Any
    args: tuple[Any, ...] = ()


def torch_cases() -> dict[str, Callable[[], TorchCase]]:
    """Label to case. Making one is a UserError where a library is missing."""
    images = {
        "ResNet-50": "resnet50",
        "MobileNetV2": "mobilenet_v2",
        "MobileNetV3-L": "mobilenet_v3_large",
        "EfficientNet-B0": "efficientnet_b0",
        "ConvNeXt-T": "convnext_tiny",
        "ViT-B/16": "vit_b_16",
        "Swin-T": "swin_t",
    }
    makers: dict[str, Callable[[], Any]] = {
        name: partial(_of_images, model) for name, model in images.items()
    }
    makers |= {
        "BERT-base s128": partial(_of_tokens, "BertModel", "BertConfig", {}, 128),
        "DistilBERT s128": partial(_of_tokens, "DistilBertModel", "DistilBertConfig", {}, 128),
        "GPT-2 s128": partial(_of_tokens, "GPT2LMHeadModel", "GPT2Config", {"use_cache": False}, 128),
        "Llama 160M s64": partial(_of_tokens, "LlamaForCausalLM", "LlamaConfig", _LLAMA, 64),
        "Mamba 4 layers s32": partial(_of_tokens, "MambaForCausalLM", "MambaConfig", _MAMBA, 32),
        "T5-small s64": _t5,
        "Whisper-tiny": _whisper,
        "CLIP ViT-B/32": _clip,
    }  # fmt: skip
    return {name: partial(_case, name, make) for name, make in makers.items()}


_LLAMA = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
    "num_key_value_heads": 4, "vocab_size": 32000, "use_cache": False,
}  # fmt: skip
_WHISPER = {
    "d_model": 384, "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 6,
    "decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536, "use_cache": False,
}  # fmt: skip
_MAMBA = {"hidden_size": 768, "num_hidden_layers": 4, "use_cache": False}


def _case(name: str, make: Callable[[], tuple[Any, tuple[Any, ...]]]) -> TorchCase:
    import torch

    torch.manual_seed(0)
    try:
        module, args = make()
    except ImportError as error:
        raise UserError(
            f"case '{name}' needs torchvision and transformers ({error}); pip install them, or choose with --only"
        ) from error
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any():  # a head that starts at zero would hide errors
                parameter.normal_(std=0.02)
    return TorchCase(name, module.eval(), args)


def _of_images(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch

    _declare_detection()
    import torchvision

    return getattr(torchvision.models, name)(), (torch.randn(1, 3, 224, 224),)


_declared: list[Any] = []


def _declare_detection() -> None:
    """torchvision without its C++ library cannot be imported before these operators are declared."""
    import torch

    if _declared or hasattr(torch.ops.torchvision, "nms"):
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)


def _made(model: str, config: str, sizes: Mapping[str, Any], *names: str) -> Any:
    """A network of transformers that takes arguments by position, under these names, and gives its first result."""
    import torch

    _declare_detection()
    import transformers

    module = getattr(transformers, model)(getattr(transformers, config)(**sizes))

    class First(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *args: Any) -> Any:
            return self.inner(**dict(zip(names, args, strict=True)))[0]

    return First()


def _of_tokens(
    model: str, config: str, sizes: Mapping[str, Any], length: int
) -> tuple[Any, tuple[Any, ...]]:
    import torch

    return _made(model, config, sizes, "input_ids"), (torch.randint(0, 1000, (1, length)),)


def _t5() -> tuple[Any, tuple[Any, ...]]:
    import torch

    names = ("input_ids", "decoder_input_ids")
    module = _made("T5ForConditionalGeneration", "T5Config", {"use_cache": False}, *names)
    return module, (torch.randint(0, 1000, (1, 64)), torch.randint(0, 1000, (1, 16)))


def _whisper() -> tuple[Any, tuple[Any, ...]]:
    import torch

    names = ("input_features", "decoder_input_ids")
    module = _made("WhisperForConditionalGeneration", "WhisperConfig", _WHISPER, *names)
    return module, (torch.randn(1, 80, 3000), torch.randint(0, 1000, (1, 16)))


def _clip() -> tuple[Any, tuple[Any, ...]]:
    import torch

    module = _made("CLIPModel", "CLIPConfig", {}, "input_ids", "pixel_values")
    return module, (torch.randint(0, 1000, (1, 77)), torch.randn(1, 3, 224, 224))
