"""Architectures of transformers, torchvision and timm, of few layers and channels: what is read is the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from support.torch_zoo import zoo

TOKENS = {"vocab_size": 50}
ENCODER = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, **TOKENS,
}  # fmt: skip
DECODER = ENCODER | {"num_key_value_heads": 2, "use_cache": False}
HEADS_OF_8 = DECODER | {"head_dim": 8}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "use_cache": False, **TOKENS}
BOTH = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "use_cache": False, **TOKENS,
}  # fmt: skip
PATCHES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip

TRANSFORMERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "Bert": (ENCODER, ("input_ids", "attention_mask")),
    "DistilBert": ({"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, **TOKENS}, ("input_ids",)),
    "Albert": (ENCODER | {"embedding_size": 16}, ("input_ids",)),
    "Roberta": (ENCODER, ("input_ids",)),
    "Deberta": (ENCODER | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, ("input_ids",)),
    "GPT2": (GPT, ("input_ids",)),
    "GPTNeoX": (ENCODER | {"use_cache": False}, ("input_ids",)),
    "OPT": (ENCODER | {"ffn_dim": 64, "word_embed_proj_dim": 32, "use_cache": False}, ("input_ids",)),
    "Llama": (DECODER, ("input_ids",)),
    "Mistral": (DECODER | {"sliding_window": 4}, ("input_ids",)),
    "Qwen3": (HEADS_OF_8, ("input_ids",)),
    "Gemma3Text": (HEADS_OF_8 | {"sliding_window": 4}, ("input_ids",)),
    "Phi3": (DECODER | {"pad_token_id": 0}, ("input_ids",)),
    "Mixtral": (DECODER | {"num_local_experts": 4}, ("input_ids",)),
    "Mamba": ({"hidden_size": 16, "num_hidden_layers": 1, "use_cache": False, **TOKENS}, ("input_ids",)),
    "T5": (
        {"d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8, "use_cache": False, **TOKENS},
        ("input_ids", "decoder_input_ids"),
    ),
    "Bart": (BOTH, ("input_ids", "decoder_input_ids")),
    "Whisper": (
        BOTH | {"max_source_positions": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                "decoder_start_token_id": 1},
        ("input_features", "decoder_input_ids"),
    ),
    "CLIP": (
        {"text_config": ENCODER | {"eos_token_id": 49}, "vision_config": PATCHES, "projection_dim": 16},
        ("input_ids", "pixel_values"),
    ),
    "ViT": (PATCHES, ("pixel_values",)),
    "Swin": (
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 2], "window_size": 4},
        ("pixel_values",),
    ),
    "Wav2Vec2": (
        ENCODER | {"conv_dim": [16] * 7, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2},
        ("input_values",),
    ),
}  # fmt: skip
"""Name of the model and its sizes, and what it is called with."""


def _arguments(torch: Any) -> dict[str, Any]:
    ids = torch.randint(3, 49, (2, 9))
    return {
        "input_ids": ids,
        "decoder_input_ids": ids[:, :5],
        "attention_mask": (torch.arange(9) < torch.tensor([[9], [6]])).long(),
        "pixel_values": torch.randn(2, 3, 32, 32),
        "input_features": torch.randn(2, 80, 40),
        "input_values": torch.randn(1, 1000),
    }


def _of_transformers(torch: Any, name: str) -> tuple[Any, dict[str, Any]]:
    transformers = zoo("transformers")
    sizes, names = TRANSFORMERS[name]
    config = getattr(transformers, f"{name}Config")(**sizes)
    given = _arguments(torch)
    return getattr(transformers, f"{name}Model")(config), {key: given[key] for key in names}


def _vgg(models: Any) -> Any:
    features = models.vgg.make_layers([8, "M", 16, "M", 16, 16, "M"], batch_norm=True)
    module = models.VGG(features, num_classes=7)
    module.classifier = module.classifier[-1].__class__(16 * 49, 7)
    return module


def _mobile_v3(models: Any) -> Any:
    block = partial(models.mobilenetv3.InvertedResidualConfig, width_mult=1.0)
    blocks = [block(16, 3, 16, 16, True, "RE", 2, 1), block(16, 5, 40, 24, True, "HS", 2, 1)]
    return models.MobileNetV3(blocks, 32, num_classes=7)


def _efficient(models: Any, fused: bool) -> Any:
    net = models.efficientnet
    fronts = net.FusedMBConvConfig if fused else net.MBConvConfig
    scales = () if fused else (1.0, 1.0)
    first, then = fronts(1, 3, 1, 16, 8, 1, *scales), net.MBConvConfig(4, 5, 2, 8, 16, 2, 1.0, 1.0)
    return models.EfficientNet([first, then], dropout=0.2, last_channel=32, num_classes=7)


def _regnet(models: Any) -> Any:
    sizes = models.regnet.BlockParams([1, 2], [16, 32], [8, 8], [1, 1], [2, 2], 0.25)
    return models.RegNet(sizes, num_classes=7)


def _convnext(models: Any) -> Any:
    block = models.convnext.CNBlockConfig
    return models.ConvNeXt([block(16, 32, 1), block(32, None, 2)], num_classes=7)


def _swin(models: Any, block: str, merging: str) -> Any:
    swin = models.swin_transformer
    return models.SwinTransformer(
        [2, 2], 16, [2, 1], [2, 4], [4, 4], num_classes=7, block=getattr(swin, block),
        downsample_layer=getattr(swin, merging),
    )  # fmt: skip


def _maxvit(models: Any) -> Any:
    return models.MaxVit(
        input_size=(32, 32), stem_channels=8, partition_size=4, block_channels=[8, 16], block_layers=[1, 1],
        head_dim=8, stochastic_depth_prob=0.0, num_classes=7,
    )  # fmt: skip


TORCHVISION: dict[str, Callable[[Any], Any]] = {
    "alexnet": lambda m: _cut_head(m.AlexNet(), "classifier", 256 * 36),
    "vgg": _vgg,
    "resnet": lambda m: m.ResNet(m.resnet.BasicBlock, [1, 1, 1, 1], 7),
    "resnext": lambda m: m.ResNet(m.resnet.Bottleneck, [1] * 4, 7, groups=8, width_per_group=4),
    "wide_resnet": lambda m: m.ResNet(m.resnet.Bottleneck, [1, 2, 1, 1], 7, width_per_group=32),
    "squeezenet": lambda m: m.SqueezeNet("1_1", num_classes=7),
    "densenet": lambda m: m.DenseNet(8, (2, 2, 2, 2), 16, num_classes=7),
    "googlenet": lambda m: m.GoogLeNet(7, aux_logits=False, init_weights=False),
    "mobilenet_v2": lambda m: m.MobileNetV2(7, 0.5, [[1, 16, 1, 1], [6, 24, 2, 2]]),
    "mobilenet_v3": _mobile_v3,
    "shufflenet_v2": lambda m: m.ShuffleNetV2([1, 2, 1], [8, 16, 32, 64, 64], num_classes=7),
    "mnasnet": lambda m: m.MNASNet(0.25, num_classes=7),
    "efficientnet": partial(_efficient, fused=False),
    "efficientnet_v2": partial(_efficient, fused=True),
    "regnet": _regnet,
    "convnext": _convnext,
    "vit": lambda m: m.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=7),
    "swin": partial(_swin, block="SwinTransformerBlock", merging="PatchMerging"),
    "swin_v2": partial(_swin, block="SwinTransformerBlockV2", merging="PatchMergingV2"),
    "maxvit": _maxvit,
}


def _cut_head(module: Any, name: str, features: int) -> Any:
    """Large matmuls are in other tests."""
    import torch

    setattr(module, name, torch.nn.Linear(features, 7))
    return module


TIMM: dict[str, Callable[[Any], Any]] = {
    "vit": lambda m: m.VisionTransformer(32, 8, embed_dim=32, depth=2, num_heads=2),
    "beit": lambda m: m.beit.Beit(32, 8, embed_dim=32, depth=1, num_heads=2, use_rel_pos_bias=True),
    "eva02": lambda m: m.eva.Eva(32, 8, embed_dim=32, depth=1, num_heads=2, swiglu_mlp=True, use_rot_pos_emb=True),
    "cait": lambda m: m.cait.Cait(32, 8, embed_dim=32, depth=1, num_heads=2),
    "xcit": lambda m: m.xcit.Xcit(32, 8, embed_dim=32, depth=1, num_heads=2),
    "mixer": lambda m: m.mlp_mixer.MlpMixer(img_size=32, patch_size=8, num_blocks=2, embed_dim=32),
    "gmlp": lambda m: m.mlp_mixer.MlpMixer(
        img_size=32, patch_size=8, num_blocks=2, embed_dim=32, mlp_ratio=6,
        block_layer=m.mlp_mixer.SpatialGatingBlock, mlp_layer=m.mlp_mixer.GatedMlp,
    ),
    "resmlp": lambda m: m.mlp_mixer.MlpMixer(
        img_size=32, patch_size=8, num_blocks=2, embed_dim=32, mlp_ratio=4,
        block_layer=m.mlp_mixer.ResBlock, norm_layer=m.mlp_mixer.Affine,
    ),
    "convmixer": lambda m: m.convmixer.ConvMixer(32, 2),
    "metaformer": lambda m: m.metaformer.MetaFormer(depths=(1, 1), dims=(16, 32)),
    "pit": lambda m: m.pit.PoolingVisionTransformer(32, 8, 4, base_dims=(8, 8), depth=(1, 1), heads=(2, 4)),
    "convnext": lambda m: m.ConvNeXt(depths=(1, 1, 1, 1), dims=(8, 8, 16, 16)),
    "convnext_v2": lambda m: m.ConvNeXt(depths=(1, 1, 1, 1), dims=(8, 8, 16, 16), use_grn=True, ls_init_value=None),
    "inception_next": lambda m: m.MetaNeXt(depths=(1, 1), dims=(16, 32), mlp_ratios=(4, 4)),
    "swin": lambda m: m.SwinTransformer(32, 2, embed_dim=16, depths=(2, 1), num_heads=(2, 4), window_size=4),
    "twins": lambda m: m.Twins(
        32, embed_dims=(16, 32), num_heads=(1, 2), mlp_ratios=(2, 2), depths=(1, 1), sr_ratios=(2, 1),
    ),
    "edgenext": lambda m: m.EdgeNeXt(dims=(8, 16, 24, 32), depths=(1, 1, 1, 1)),
    "visformer": lambda m: m.Visformer(32, 8, init_channels=8, embed_dim=32, depth=(1, 1, 1), num_heads=2),
    "resnet_d": lambda m: m.ResNet(
        m.resnet.BasicBlock, (1, 1, 1, 1), channels=(8, 16, 16, 16), stem_type="deep", stem_width=8, avg_down=True,
    ),
    "repghostnet": lambda m: m.RepGhostNet([[[3, 8, 16, 0, 1]], [[5, 24, 24, 0.25, 2]]]),
}  # fmt: skip


def _of_timm(torch: Any, name: str) -> tuple[Any, dict[str, Any]]:
    return TIMM[name](zoo("timm.models")), {"x": torch.randn(1, 3, 32, 32)}


def _of_torchvision(torch: Any, name: str) -> tuple[Any, dict[str, Any]]:
    side = 64 if name in ("alexnet", "vgg") else 32
    return TORCHVISION[name](zoo("torchvision.models")), {"x": torch.randn(1, 3, side, side)}


LIBRARIES: dict[str, tuple[Any, Callable[[Any, str], tuple[Any, dict[str, Any]]]]] = {
    "transformers": (TRANSFORMERS, _of_transformers),
    "torchvision": (TORCHVISION, _of_torchvision),
    "timm": (TIMM, _of_timm),
}


def names() -> list[str]:
    """`library:architecture` of all."""
    return [f"{library}:{name}" for library, (table, _) in LIBRARIES.items() for name in table]


def network(torch: Any, name: str) -> tuple[Any, dict[str, Any]]:
    """One in inference mode, and arguments by name; no weight is zero, which would hide errors."""
    library, _, architecture = name.partition(":")
    torch.manual_seed(0)
    module, given = LIBRARIES[library][1](torch, architecture)
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any():
                parameter.normal_(std=0.02)
    return module.eval(), given
