"""Files that tools write: each maker calls `save` for what its tool can make here.

Imported where a tool is installed and graphc need not be: a maker imports its tool when it is called.
"""

from __future__ import annotations

from collections.abc import Callable

from .few_bits import brevitas, qonnx
from .forests import catboost, every_skl2onnx, hummingbird, lightgbm, skl2onnx, xgboost
from .frameworks import genai, keras
from .jax_functions import hlo, jax2onnx
from .making import Save
from .quantizers import modelopt, nncf, quark, torchao

MAKERS: dict[str, Callable[[Save], None]] = {
    maker.__name__: maker
    for maker in (
        brevitas, qonnx, nncf, modelopt, quark, torchao, keras, jax2onnx, catboost, skl2onnx, every_skl2onnx,
        hummingbird, lightgbm, xgboost, genai, hlo,
    )
}  # fmt: skip
