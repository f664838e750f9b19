"""Files that tools write: each maker calls `save` for what its tool can make here.

Imported where a tool is installed and graphc need not be: a maker imports its tool when it is called.
"""

from __future__ import annotations

from collections.abc import Callable

from .forests import catboost, hummingbird, skl2onnx
from .frameworks import genai, jax2onnx, keras
from .making import Save
from .quantizers import brevitas, modelopt, nncf, qonnx, quark, torchao

MAKERS: dict[str, Callable[[Save], None]] = {
    maker.__name__: maker
    for maker in (
        brevitas, qonnx, nncf, modelopt, quark, torchao, keras, jax2onnx, catboost, skl2onnx, hummingbird, genai,
    )
}  # fmt: skip
