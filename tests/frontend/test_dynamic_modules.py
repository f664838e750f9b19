"""Exported modules with dynamic axes equal PyTorch at sizes other than the traced ones.

All of them, through all doors: `tests/measurements/dynamic_shapes.py`.
"""

from pathlib import Path

import pytest

from support.dynamic_modules import DOORS, MODULES, outcome

PAIRS = [
    *[("pnnx", name) for name in ("tail", "second half", "position table", "views", "sort", "eye")],
    *[("pnnx", name) for name in ("adaptive pooling", "bidirectional LSTM", "top-k", "roll")],
    *[
        ("pnnx", f"position table {how}")
        for how in ("by narrow", "from the back", "from the second row")
    ],
    *[("torch.export", name) for name in ("space to depth by views", "top-k of at most 5", "std")],
    *[("torch.export", name) for name in ("unfold", "resize by 1.5", "strided convolutions")],
    *[("torch.export", name) for name in ("spectrum", "median", "shifted windows", "fold")],
    *[("torch.export", name) for name in ("rows by a condition", "parts by sizes")],
    *[("pnnx", name) for name in ("diagonal", "rows by a condition", "reflected to a multiple")],
    *[("pnnx", name) for name in ("resize by 0.57", "areas by 0.3", "antialiased")],
    *[("torch.export", name) for name in ("resize by 1.7, recomputed", "nearest by 1.7")],
    *[("torch.export", name) for name in ("areas by 0.3", "lists of rows", "a rounded half")],
    *[("torch.export", name) for name in ("unpooling", "reflected to a multiple of 8")],
    *[("pnnx", name) for name in ("quantiles", "integral", "position of all")],
    *[("pnnx", name) for name in ("an element of all", "outer product", "wrapped and cropped")],
    *[("onnx of a trace", name) for name in ("tail", "flip", "argsort", "pad to a multiple")],
    *[("onnx of a trace", name) for name in ("resize back", "pixel_unshuffle", "grid_sample")],
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("door", "name"), PAIRS)
def test_modules_are_right_at_other_sizes(door: str, name: str, tmp_path: Path) -> None:
    if door == "pnnx":
        pytest.importorskip("pnnx")
    module = MODULES[name]
    assert outcome(module, DOORS[door](module, tmp_path)) == "right"
