"""YOLOv5's last layer against its formula, in NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Array
from support.pnnx_models import load_operator, run_operator
from support.tolerance import assert_close

RNG = np.random.default_rng(5)
SIZES, STRIDES, ANCHORS, CLASSES = ((4, 6), (2, 3), (1, 2)), (8.0, 16.0, 32.0), 3, 2
GRIDS = (("pnnx_4", "pnnx_6"), ("pnnx_2", "pnnx_3"), ("pnnx_0", "pnnx_1"))


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def layer() -> tuple[list[Array], dict[str, Array]]:
    maps = [floats(2, 5, *size) for size in SIZES]
    weights: dict[str, Array] = {"pnnx_5": np.array(STRIDES, np.float32)}
    for i, (h, w) in enumerate(SIZES):
        weights |= {key: floats(1, ANCHORS, h, w, 2) for key in GRIDS[i]}
        weights[f"m.{i}.weight"] = floats(ANCHORS * (5 + CLASSES), 5, 1, 1)
        weights[f"m.{i}.bias"] = floats(ANCHORS * (5 + CLASSES))
    return maps, weights


def expected(maps: list[Array], weights: dict[str, Array]) -> Array:
    boxes = []
    for i, (x, (anchors, grid)) in enumerate(zip(maps, GRIDS, strict=True)):
        y = np.einsum("nchw,oc->nohw", x, weights[f"m.{i}.weight"][..., 0, 0])
        y += weights[f"m.{i}.bias"][:, None, None]
        y = y.reshape(2, ANCHORS, 5 + CLASSES, *SIZES[i]).transpose(0, 1, 3, 4, 2)
        y = 1 / (1 + np.exp(-y))
        center = (y[..., :2] * 2 + weights[grid]) * STRIDES[i]
        size = (y[..., 2:4] * 2) ** 2 * weights[anchors]
        boxes.append(np.concatenate([center, size, y[..., 4:]], -1).reshape(2, -1, 5 + CLASSES))
    return np.concatenate(boxes, 1)


def test_boxes(tmp_path: Path) -> None:
    maps, weights = layer()
    (found,) = run_operator(tmp_path, "models.yolo.Detect", maps, weights)
    assert_close(found, expected(maps, weights), 64)


def test_grids_of_other_maps(tmp_path: Path) -> None:
    maps, weights = layer()
    with pytest.raises(UserError, match="anchors and grid must be"):
        load_operator(tmp_path, "models.yolo.Detect", maps[::-1], weights)
    with pytest.raises(UserError, match="there must be 3 feature maps"):
        load_operator(tmp_path, "models.yolo.Detect", maps[:2], weights)
