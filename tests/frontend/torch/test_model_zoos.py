"""Networks of torchvision, timm and transformers, of random weights and small sizes, where these are installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from support.torch_zoo import zoo

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself


def check(module: Any, *args: Any) -> None:
    """The compiled program gives what the module gives."""
    module = module.eval()
    with torch.no_grad():
        wanted = [y.numpy() for y in torch.utils._pytree.tree_leaves(module(*args))]
    model = graphc.compile(torch.export.export(module, args))
    found = model.run(None, {s.name: x.numpy() for s, x in zip(model.inputs, args, strict=True)})
    for mine, theirs in zip(found, wanted, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max())


def test_a_resnet_of_torchvision() -> None:
    models = zoo("torchvision.models")
    torch.manual_seed(0)
    check(models.resnet18(num_classes=7), torch.randn(1, 3, 32, 32))


def test_a_vision_transformer_of_timm() -> None:
    timm = zoo("timm")
    torch.manual_seed(0)
    module = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=7)
    check(module, torch.randn(2, 3, 32, 32))


def test_a_bert_of_transformers() -> None:
    transformers = zoo("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.BertConfig(**sizes, intermediate_size=64, vocab_size=50)
    check(transformers.BertModel(config), torch.randint(0, 50, (2, 9)))


def test_the_cache_of_a_decoder_is_a_result() -> None:
    transformers = zoo("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(**sizes, intermediate_size=16, vocab_size=50)
    module, ids = transformers.LlamaForCausalLM(config).eval(), torch.randint(0, 50, (2, 5))
    with torch.no_grad():
        wanted, found = module(ids), graphc.torch.compile(module, ids)(ids)
    torch.testing.assert_close(found.logits, wanted.logits)
    cached, kept = (result.past_key_values.layers[0] for result in (found, wanted))
    torch.testing.assert_close(cached.keys, kept.keys, check_stride=True)
    torch.testing.assert_close(cached.values, kept.values, check_stride=True)
