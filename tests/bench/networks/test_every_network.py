"""The networks of the suites, small, compiled: they agree with NumPy, and are what they are called at full size."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

from graphc.bench.networks import NETWORKS, TRANSFORMERS
from graphc.bench.networks.densenet import densenet121
from graphc.bench.networks.gpt2 import gpt2
from graphc.bench.networks.net import ConvLayer, Net, one_layer
from graphc.bench.networks.swin import swin
from graphc.bench.networks.transformer import bert, vit
from graphc.bench.networks.whisper import whisper_encoder
from graphc.bench.suites import suite
from graphc.driver.compiler import compile as compile_model
from graphc.frontend import load
from graphc.graph_ir.inspect.compare import difference

# The multiply-adds (1e9) of the convolutions of one image of 224 x 224, as the papers and model zoos give them.
GIGA_MACS = {
    "resnet50": 4.09,
    "resnet18": 1.81,
    "mobilenet_v2": 0.30,
    "mobilenet_v3": 0.22,
    "squeezenet": 0.35,
    "densenet121": 2.83,
    "inception_v1": 1.50,
}


SMALL_TRANSFORMERS = {
    "bert": lambda: bert(blocks=2, tokens=7, hidden=32, heads=2),
    "vit": lambda: vit(image=32, hidden=32, heads=2, blocks=2),
    "gpt2": lambda: gpt2(tokens=7, hidden=32, heads=2, blocks=2, vocabulary=50),
    "swin": lambda: swin(image=56, hidden=32, depths=(2, 1)),
    "whisper": lambda: whisper_encoder(frames=20, bands=4, hidden=32, heads=2, blocks=2),
}
SMALL = (*NETWORKS, *SMALL_TRANSFORMERS)


def small(name: str) -> Net:
    """The smallest image whose last layer still has a pixel, and an eighth of the channels; few blocks and tokens.

    All 58 layers of a densenet are compiled in `test_light_models.py`.
    """
    if name in SMALL_TRANSFORMERS:
        return SMALL_TRANSFORMERS[name]()
    if name == "densenet121":
        return densenet121(32, 0.125, blocks=(2, 3, 2, 2))
    image = {"alexnet": 67, "zfnet": 67, "inception_v1": 67}.get(name, 32)
    return NETWORKS[name](image=image, width=0.125)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SMALL)
def test_small_networks_agree_with_numpy(name: str) -> None:
    case = small(name).case()
    arrays = list(case.arrays().values())
    (expected,) = load(case.model).evaluate(arrays)
    assert np.isfinite(expected).all() and expected.std() > 0
    found = difference(np.asarray(compile_model(case.model, threads=1)(*arrays)), expected)
    assert found.ok, str(found)


@pytest.mark.parametrize("name", SMALL)
def test_models_are_valid(name: str) -> None:
    model = onnx.load_from_string(small(name).case().model)
    # The shapes a `Net` keeps are those ONNX infers.
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", GIGA_MACS)
def test_full_networks_are_as_much_work_as_published(name: str) -> None:
    layers = full_layers(name)
    macs = sum(work(layer) for layer in layers) / 1e9
    assert macs == pytest.approx(GIGA_MACS[name], rel=0.05)


def full_layers(name: str) -> list[ConvLayer]:
    return NETWORKS[name]().layers


def work(layer: ConvLayer) -> int:
    pixels = math.prod((size - 1) // layer.stride + 1 for size in (layer.height, layer.width))
    return pixels * layer.outputs * layer.channels // layer.groups * layer.kernel**2


def test_the_layers_of_a_suite_are_distinct_and_named_by_their_geometry() -> None:
    names = [case.name for case in suite("conv", "56x56")]
    assert len(set(names)) == len(names)
    assert {"64x56x56 to 64 k3 s1", "144x56x56 to 144 k3 s1 dw"} <= set(names)


def test_a_layer_alone_keeps_its_geometry() -> None:
    layer = ConvLayer(channels=8, height=5, width=7, outputs=16, kernel=3, stride=2, groups=8)
    net = one_layer(layer)
    assert net.layers == [layer] and net.shape(net.result) == (1, 16, 3, 4)
    assert str(layer) == "8x5x7 to 16 k3 s2 dw"


def test_only_what_is_requested_is_built() -> None:
    assert [case.name for case in suite("networks", "squeeze")] == ["squeezenet"]


def test_transformers_are_as_large_as_published() -> None:
    """Parameters in millions, of MiniLM without its embeddings."""
    published = {"MiniLM s128": 10.6, "Swin-T": 28.3}
    for name, millions in published.items():
        model = onnx.load_from_string(TRANSFORMERS[name]().case().model)
        count = sum(math.prod(w.dims) for w in model.graph.initializer) / 1e6
        assert count == pytest.approx(millions, rel=0.05), name
