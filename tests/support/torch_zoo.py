"""Libraries of networks for PyTorch, where they are installed."""

from __future__ import annotations

from typing import Any

import pytest

_kept: list[Any] = []
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def zoo(name: str) -> Any:
    """The module `name`; skips the test where it is not installed.

    torchvision, which the others import, needs operators of a C++ library that some builds lack: these are declared.
    """
    torch = pytest.importorskip("torch")
    if not _kept and not hasattr(torch.ops.torchvision, "nms"):
        _kept.append(torch.library.Library("torchvision", "FRAGMENT"))
        for operator in ("nms", "qnms"):
            _kept[0].define(operator + _SIGNATURE)
    return pytest.importorskip(name)
