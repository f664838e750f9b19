"""Recurrent layers and attention against PyTorch's modules, whose weights they take; skipped without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Array
from support.pnnx_models import load_operator, run_operator
from support.tolerance import assert_close

torch = pytest.importorskip("torch")


def floats(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).random(shape) * 2 - 1).astype(np.float32)


def weights_of(module: Any) -> dict[str, Array]:
    return {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}


def check(folder: Path, line: str, inputs: list[Array], expected: list[Any], module: Any) -> None:
    found = run_operator(folder, line, inputs, weights_of(module), len(expected))
    for mine, theirs in zip(found, expected, strict=True):
        assert_close(mine, theirs.detach().numpy(), 8)


RECURRENT = [
    {"num_layers": 1, "batch_first": False, "bidirectional": False},
    {"num_layers": 2, "batch_first": True, "bidirectional": True},
    {"num_layers": 1, "batch_first": False, "bidirectional": False, "bias": False},
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("options", RECURRENT)
def test_recurrent(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(5, 4, **options)
    words = " ".join(f"{k}={v}" for k, v in {"bias": True, **options}.items())
    line = f"nn.{kind} input_size=5 hidden_size=4 {words}"
    x = floats(3, 2, 5)
    batch = 3 if options["batch_first"] else 2
    count = options["num_layers"] * (2 if options["bidirectional"] else 1)
    states = [floats(count, batch, 4, seed=i) for i in range(2 if kind == "LSTM" else 1)]
    given = tuple(torch.from_numpy(s) for s in states)
    y, last = module(torch.from_numpy(x), given if kind == "LSTM" else given[0])
    last = list(last) if kind == "LSTM" else [last]
    check(tmp_path, line, [x, *states], [y, *last], module)
    y, last = module(torch.from_numpy(x))
    check(tmp_path, line, [x], [y], module)
    y, last = module(torch.from_numpy(x[:, 0].copy()))
    last = list(last) if kind == "LSTM" else [last]
    check(tmp_path, line, [x[:, 0]], [y, *last], module)
    swapped = f"{line} pnnx_rnn_output_swapped=1"
    check(tmp_path, swapped, [x[:, 0]], [*last, y], module)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projection_and_relu(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = floats(3, 2, 5)
    module = torch.nn.LSTM(5, 4, proj_size=3)
    y, (h, c) = module(torch.from_numpy(x))
    line = "nn.LSTM hidden_size=4 input_size=5 num_layers=1 proj_size=3 bias=True"
    check(tmp_path, line, [x], [y, h, c], module)
    module = torch.nn.RNN(5, 4, nonlinearity="relu")
    y, h = module(torch.from_numpy(x))
    check(tmp_path, "nn.RNN hidden_size=4 input_size=5 nonlinearity=relu", [x], [y, h], module)


def test_refused_sequences(tmp_path: Path) -> None:
    module = torch.nn.GRU(5, 4)
    line = "nn.GRU input_size=5 hidden_size=4 num_layers=1"
    with pytest.raises(UserError, match="a sequence must have steps"):
        load_operator(tmp_path, line, [floats(0, 1, 5)], weights_of(module))
    with pytest.raises(UserError) as user_error:
        load_operator(tmp_path, line, [floats(3, 2, 5), floats(1, 3, 4)], weights_of(module))
    assert str(user_error.value).startswith(
        "nn.GRU 'op': h0 must have shape [1,2,4], got f32[1,3,4]"
    )


def attention(**options: Any) -> tuple[Any, str]:
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(12, 3, **options).eval()
    for parameter in module.parameters():
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    words = " ".join(f"{k}={v}" for k, v in {"bias": True, **options}.items())
    return module, f"nn.MultiheadAttention embed_dim=12 num_heads=3 {words}"


def test_self_attention_with_a_mask(tmp_path: Path) -> None:
    module, line = attention(batch_first=True)
    x = floats(2, 5, 12)
    t = torch.from_numpy(x)
    for mask in (np.triu(np.ones((5, 5), bool), 1), floats(5, 5, seed=2), floats(6, 5, 5, seed=2)):
        y, w = module(t, t, t, attn_mask=torch.from_numpy(mask))
        check(tmp_path, f"{line} $query=a $attn_mask=b", [x, mask], [y, w], module)
    check(tmp_path, f"{line} $attn_mask=b", [x, mask], [y, w], module)
    y, w = module(t[0], t[0], t[0])
    check(tmp_path, line, [x[0]], [y, w], module)


def test_attention_of_other_keys_and_values(tmp_path: Path) -> None:
    options = {"add_bias_kv": True, "add_zero_attn": True, "kdim": 7, "vdim": 6}
    module, line = attention(**options, batch_first=False)
    q, k, v = floats(4, 2, 12), floats(5, 2, 7, seed=1), floats(5, 2, 6, seed=2)
    hidden = np.array([[False, True, False, False, True], [False] * 5])
    tensors = [torch.from_numpy(a) for a in (q, k, v)]
    y, w = module(*tensors)
    check(tmp_path, line, [q, k, v], [y, w], module)
    y, w = module(*tensors, key_padding_mask=torch.from_numpy(hidden))
    line = f"{line} $query=a $key=b $value=c $key_padding_mask=d"
    check(tmp_path, line, [q, k, v, hidden], [y], module)


def test_attention_without_biases(tmp_path: Path) -> None:
    module, line = attention(bias=False, batch_first=True)
    q, k = floats(2, 4, 12), floats(2, 5, 12, seed=1)
    y, _ = module(torch.from_numpy(q), torch.from_numpy(k), torch.from_numpy(k))
    check(tmp_path, line, [q, k], [y], module)


def test_the_weights_of_attention_alone(tmp_path: Path) -> None:
    """Only the shape that the file writes tells which result the model takes, and whether weights are averaged."""
    module, line = attention(batch_first=True)
    x = floats(2, 5, 12)
    t = torch.from_numpy(x)
    y, mean = module(t, t, t)
    _, each = module(t, t, t, average_attn_weights=False)
    for shape, result in (("2,5,12", y), ("2,5,5", mean), ("2,3,5,5", each)):
        check(tmp_path, f"{line} #y0=({shape})f32", [x], [result], module)
    check(tmp_path, f"{line} #y1=(2,3,5,5)f32", [x], [y, each], module)
    _, each = module(t[0], t[0], t[0], average_attn_weights=False)
    check(tmp_path, f"{line} #y0=(3,5,5)f32", [x[0]], [each], module)


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_fast_path_of_an_encoder_layer(norm_first: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 12, activation="gelu", norm_first=norm_first, batch_first=True
    ).eval()
    torch.nn.init.uniform_(layer.self_attn.in_proj_bias, -0.5, 0.5)
    x = floats(2, 5, 8)
    attn, norms = layer.self_attn, (layer.norm1, layer.norm2)
    given = {
        "qkv_weight": attn.in_proj_weight, "qkv_bias": attn.in_proj_bias,
        "proj_weight": attn.out_proj.weight, "proj_bias": attn.out_proj.bias,
        **{f"norm{i}_{k}": getattr(n, k) for i, n in enumerate(norms, 1) for k in ("weight", "bias")},
        **{f"ffn{i}_{k}": getattr(n, k)
           for i, n in enumerate((layer.linear1, layer.linear2), 1) for k in ("weight", "bias")},
    }  # fmt: skip
    params = f"embed_dim=8 num_heads=2 use_gelu=True norm_first={norm_first} eps=1.0e-5"
    hidden = np.array([[False, True, False, False, True], [False] * 5])
    for mask, kind in ((None, "None"), (hidden, "1"), (np.triu(np.ones((5, 5), bool), 1), "0")):
        keywords = {"1": "src_key_padding_mask", "0": "src_mask"}
        torch_mask = {} if mask is None else {keywords[kind]: torch.from_numpy(mask)}
        expected = layer(torch.from_numpy(x), **torch_mask)
        inputs = [x, *(p.detach().numpy() for p in given.values())]
        names = ["src", *given]
        if mask is not None:
            inputs, names = [*inputs, mask], [*names, "mask"]
        keys = " ".join(f"${name}={chr(ord('a') + i)}" for i, name in enumerate(names))
        line = f"aten::_transformer_encoder_layer_fwd {keys} {params} mask_type={kind}"
        (y,) = run_operator(tmp_path, line, inputs)
        assert_close(y, expected.detach().numpy(), 16)
