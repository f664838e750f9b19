"""The networks of the suites: convolutional ones by name, each makes a `Net` of (image, width); and transformers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .alexnet import alexnet, zfnet
from .densenet import densenet121
from .gpt2 import gpt2
from .inception import inception_v1, inception_v2
from .mobilenet import mobilenet_v2, mobilenet_v3
from .net import Net
from .resnet import resnet18, resnet50
from .shufflenet import shufflenet
from .squeezenet import squeezenet
from .swin import swin
from .transformer import bert, vit
from .unet import unet
from .vgg import vgg19
from .whisper import whisper_encoder
from .yolo import yolo

NETWORKS: dict[str, Callable[..., Net]] = {
    "resnet50": resnet50,
    "resnet18": resnet18,
    "vgg19": vgg19,
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3,
    "shufflenet": shufflenet,
    "squeezenet": squeezenet,
    "densenet121": densenet121,
    "inception_v1": inception_v1,
    "inception_v2": inception_v2,
    "alexnet": alexnet,
    "zfnet": zfnet,
    "unet": unet,
    "yolo": yolo,
}

TRANSFORMERS: dict[str, Callable[[], Net]] = {
    "BERT-base s128": bert,
    "BERT-base s384": partial(bert, tokens=384),
    "MiniLM s128": partial(bert, blocks=6, hidden=384),
    "GPT-2 s128": gpt2,
    "ViT-B/16": partial(vit, hidden=768, heads=12),
    "Swin-T": swin,
    "Whisper-tiny encoder": whisper_encoder,
}
