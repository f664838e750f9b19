"""Operators that PyTorch's quantization of exported programs writes, against PyTorch itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError
from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_stages
from graphc.frontend import load

torch: Any = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
ops: Any = torch.ops.quantized_decomposed

torch.manual_seed(0)
X = torch.randn(5, 24) * 3
IMAGE = torch.randn(2, 3, 4, 5) * 3
SCALES, ZEROS = torch.tensor([0.02, 0.03, 0.5]), torch.tensor([3, 0, -7])
BYTES = torch.randint(-128, 128, (24, 3), dtype=torch.int8)
U8, S8, S16 = (0, 255, torch.uint8), (-127, 127, torch.int8), (-32768, 32767, torch.int16)
EPS = 2.0**-12


def exported(function: Callable[..., Any], *args: Any) -> Any:
    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    return torch.export.export(Module(), args)


def results(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def dynamic(x: Any, name: str, low: int, high: int, dtype: Any) -> Any:
    scale, zero = getattr(ops, name).tensor(x, low, high, EPS, dtype)
    made = ops.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
    return made, ops.dequantize_per_tensor.tensor(made, scale, zero, low, high, dtype)


CALLS: dict[str, tuple[Any, ...]] = {
    "u8": (lambda x: ops.quantize_per_tensor(x, 0.037, 113, *U8), X),
    "s8 without its least": (lambda x: ops.quantize_per_tensor(x, 0.011, 5, *S8), X),
    "s16": (lambda x: ops.quantize_per_tensor(x, 1e-4, -5, *S16), X),
    "of f16": (lambda x: ops.quantize_per_tensor(x, 0.037, 113, *U8), X.half()),
    "back": (lambda q: ops.dequantize_per_tensor(q, 0.037, -3, *S8), BYTES),
    "channels": (lambda x: ops.quantize_per_channel(x, SCALES, ZEROS, 1, *S8), IMAGE),
    "channels back": (lambda q: ops.dequantize_per_channel(q, SCALES, ZEROS, -1, *S8), BYTES),
    "without zero points": (lambda q: ops.dequantize_per_channel(q, SCALES, None, 1, *S8), BYTES),
    "chosen": (lambda x: dynamic(x, "choose_qparams", *U8), X),
    "chosen above 0": (lambda x: dynamic(x, "choose_qparams", *U8), X.abs() + 1),
    "chosen of zeros": (lambda x: dynamic(x, "choose_qparams", -128, 127, torch.int8), X * 0),
    "matmuls of bytes": (torch._int_mm, torch.flip(BYTES, (1,)).T.repeat(6, 1), BYTES),
    "symmetric": (lambda x: dynamic(x, "choose_qparams_symmetric", *S8), X),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    function, *args = CALLS[name]
    wanted = results(function(*args))
    arrays = [x.numpy() for x in args]
    program = exported(function, *args)
    for found in (
        load(program).evaluate(arrays),
        results(compile_model(program, threads=1)(*arrays)),
    ):
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(ours), theirs.numpy())


def test_refused() -> None:
    program = exported(
        lambda x: ops.quantize_per_tensor(x, 0.1, 0, -(2**31), 2**31 - 1, torch.int32), X
    )
    with pytest.raises(UnsupportedError, match="dtype=s32"):
        load(program)


def layer(x: Any) -> Any:
    x = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, 0.05, 120, *U8), 0.05, 120, *U8)
    w = ops.dequantize_per_channel(WEIGHTS, WEIGHT_SCALES, None, 0, *S8)
    y = torch.relu(torch.nn.functional.linear(x, w))
    return ops.dequantize_per_tensor(ops.quantize_per_tensor(y, 0.1, 0, *U8), 0.1, 0, *U8)


WEIGHTS = torch.randint(-127, 128, (64, 256), dtype=torch.int8)
WEIGHT_SCALES = torch.rand(64) / 100 + 0.001
ROWS = torch.randn(48, 256)


def test_a_layer_multiplies_bytes() -> None:
    program = exported(layer, ROWS)
    kernels = [call.kernel for call in compile_stages(program, "avx2").lowered.calls]
    assert any("u8_gemm" in kernel or "s8_gemm" in kernel for kernel in kernels)
    found = compile_model(program, target="avx2", threads=1)(ROWS.numpy())
    distance = np.abs(found - layer(ROWS).numpy())
    assert distance.max() <= 0.101 and np.mean(distance > 0.01) < 1e-3


def test_a_file_needs_nothing_imported(tmp_path: Path) -> None:
    """The process that reads it has not registered these operators."""
    file = tmp_path / "q.pt2"
    torch.export.save(exported(layer, ROWS), file)
    code = f"from graphc.frontend import load; print(len(load({str(file)!r}).ops))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and int(done.stdout) > 5, done.stderr[-500:]
