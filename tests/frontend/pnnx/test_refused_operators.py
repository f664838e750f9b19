"""Operators whose arguments are wrong are refused with one sentence; nonsense never gives anything else."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend.pnnx.op_table import HANDLERS
from graphc.graph_ir.ir.graph import Array
from support.pnnx_models import load_operator


def floats(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).random(shape) * 8 - 4).astype(np.float32)


X, Y, V = floats(2, 6, 4), floats(2, 6, 4, seed=1), floats(4, seed=2)
K = np.random.default_rng(0).integers(-9, 10, (2, 6, 4))
B = X > 0

REFUSED = [
    ("torch.unsqueeze dim=7", [X], "torch.unsqueeze 'op': dim must be in [-4, 4), got 7"),
    ("Tensor.reshape shape=(5,-1)", [X],
     "Tensor.reshape 'op': the other sizes must divide the number of elements, got [2, 6, 4] to [5, -1]"),
    ("F.softmax dim=red", [X], "F.softmax 'op': 'dim' must hold integers, got ['red']"),
    ("F.leaky_relu slope=0.1", [X],
     "F.leaky_relu 'op': these parameters are not supported: slope=0.1; export the model without them"),
    ("F.relu", [X, Y], "F.relu 'op': inputs must be input, got 2 inputs"),
    ("torch.mm", [X, Y],
     "torch.mm 'op': inputs must have 2 and 2 axes, got f32[2,6,4] and f32[2,6,4]"),
    ("torch.matmul", [X, Y], "matmul_core 'op': inner sizes must match, got K=4 and K=6; transpose B?"),
    ("F.dropout p=0.5 training=True", [X], "F.dropout 'op': training=True is not supported; "
    "export the model for inference (`model.eval()`)"),
    ("Tensor.to dtype=torch.complex64", [X],
     "Tensor.to 'op': dtype='torch.complex64' is not supported; export the model without it"),
    ("torch.chunk chunks=2 dim=1", [X],
     "torch.chunk 'op': 1 outputs must share the 6 elements, got sizes [3, 3]"),
    ("torch.where", [B], "torch.where 'op' must have 3 outputs, got 1"),
    ("torch.expand", [X], "torch.expand 'op': 'sizes' must be given, got nothing"),
    ("nn.Linear", [X], "nn.Linear 'op': attribute '@weight' must be given, got none"),
    ("torch.permute", [X], "torch.permute 'op': 'dims' must be given, got nothing"),
    ("Tensor.new_zeros", [X], "Tensor.new_zeros 'op': 'size' must be given, got nothing"),
    ("torch.rsub other=1 alpha=0.5", [K],
     "torch.rsub 'op': the factor 0.5 of s64 tensors is not supported; export the model without it"),
    ("torch.select dim=0 index=0", [floats()],
     "torch.select 'op': the input must have axes, got a scalar"),
    ("F.affine_grid size=3", [floats(1, 2, 3)],
     "F.affine_grid 'op': theta must have shape [N,0,1], got f32[1,2,3]"),
    ("torch.diag", [X], "torch.diag 'op': a call that torch.export does not take apart "
     "(diag(): Supports 1D or 2D tensors. Got 3D) is not supported; export the model without it"),
    ("aten::diag_embed dim1=1 dim2=1", [floats(2, 2)],
     "aten::diag_embed 'op': the axes of a diagonal must differ, got 1"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "inputs", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refused_arguments(line: str, inputs: list[Array], message: str, tmp_path: Path) -> None:
    with pytest.raises((UserError, UnsupportedError)) as error:
        load_operator(tmp_path, line, inputs)
    location = f" (in '{tmp_path}/m.pnnx.param', line {3 + len(inputs)})"
    assert str(error.value) == message + location


def test_every_operator_refuses_nonsense_with_an_error_of_ours(tmp_path: Path) -> None:
    values = ["-1", "7", "0.5", "(1,2,3)", "word", "None", "(0,-1)", "True"]
    keys = (
        *("dim", "shape", "sizes", "pad", "padding", "dims", "chunks", "start", "end", "step", "index"),
        *("groups", "num_groups", "normalized_shape", "upscale_factor", "alpha", "p", "dtype", "other"),
        *("size", "starts", "equation", "expr", "value", "exponent", "fill_value", "min", "weight"),
    )  # fmt: skip
    inputs = [[], [X], [X, Y], [K, floats()], [floats(0), X, B]]
    accepted = 0
    for number, type_name in enumerate(sorted(HANDLERS)):
        for tries in range(6):
            words = [f"{k}={values[(number + tries * i) % 8]}" for i, k in enumerate(keys)]
            line = " ".join([type_name, *words[tries * 5 : tries * 5 + 8]])
            with suppress(UserError, UnsupportedError):
                load_operator(tmp_path, line, inputs[(number + tries) % 5], {"weight": V})
                accepted += 1
    assert accepted > 0
