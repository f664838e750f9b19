"""The convolutional networks of the suites `networks` and `conv`, by name; each makes a `Net` of (image, width)."""

from __future__ import annotations

from collections.abc import Callable

from .alexnet import alexnet, zfnet
from .densenet import densenet121
from .inception import inception_v1, inception_v2
from .mobilenet import mobilenet_v2, mobilenet_v3
from .net import Net
from .resnet import resnet18, resnet50
from .shufflenet import shufflenet
from .squeezenet import squeezenet
from .unet import unet
from .vgg import vgg19
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
