"""Exported programs of torchvision, timm and transformers, of random weights and small sizes."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from support import architectures
from support.torch_zoo import zoo

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself


@pytest.mark.parametrize("name", ["torchvision:resnet", "timm:vit", "transformers:Bert"])
def test_exported_it_gives_what_pytorch_gives(name: str) -> None:
    module, given = architectures.network(torch, name)
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(module(**given))
    model = graphc.compile(torch.export.export(module, (), given))
    found = model.run(None, {key: x.numpy() for key, x in given.items()})
    for mine, theirs in zip(found, [y.numpy() for y in wanted], strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max())


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
