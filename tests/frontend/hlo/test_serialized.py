"""StableHLO, files of jax.export and HLO protos are read through jaxlib, where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.frontend import format_of, load
from graphc.frontend.hlo.serialized import read_module

MLIR = """// from anywhere
#loc = loc(unknown)
module @double {
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %y = stablehlo.add %x, %x : tensor<3xf32>
    return %y : tensor<3xf32>
  }
}
"""
X = np.array([1, -2, 3], np.float32)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.mlir", MLIR.encode()),
        ("a.any", b"\n  module {\n}\n"),
        ("a", b"func.func @main() { return }"),
        ("a.mlirbc", b"ML\xefR\rStableHLO_v1.15.0\0"),
        ("a.bin", b"<\0\0\0table" + bytes(200) + b"ML\xefR"),
        ("a.pb", b"\n\x06double"),
    ],
)
def test_how_these_files_are_known(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert format_of(tmp_path / name) == "hlo"


@pytest.mark.parametrize(
    "data", [MLIR.encode(), b"ML\xefR", b"table" + b"ML\xefR", b"\n\x01a\x12\0"]
)
def test_without_jaxlib(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jax", "jaxlib"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        graphc.UserError, match=r"^model: StableHLO and HLO protos are read with the package jaxlib"
    ):
        read_module(data)


def _field(message: bytes) -> bytes:
    """A message whose first field is this one."""
    size, rest = [], len(message)
    while rest >= 128:
        size.append(rest & 127 | 128)
        rest >>= 7
    return b"\n" + bytes([*size, rest]) + message


def test_every_kind_gives_the_same_graph(tmp_path: Path) -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    text, label = read_module(MLIR.encode())
    assert label == "model (as HLO)"
    proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    module, whole = tmp_path / "a.pb", tmp_path / "b.pb"
    module.write_bytes(proto)
    whole.write_bytes(_field(_field(proto)))
    for model in (MLIR.encode(), module, whole):
        (y,) = load(model).evaluate([X])
        np.testing.assert_array_equal(y, X + X)


def test_exported_functions(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    from jax import export

    function = jax.jit(lambda x: x * 2 + 1)
    exported = export.export(function)(jax.ShapeDtypeStruct((3,), np.float32))
    file = tmp_path / "f.jax"
    file.write_bytes(exported.serialize())
    for model in (exported, file, bytes(exported.mlir_module_serialized)):
        (y,) = load(model).evaluate([X])
        np.testing.assert_array_equal(y, X * 2 + 1)


@pytest.mark.parametrize("data", [b"module {\n wrong }", b"ML\xefRxx", b"\n\x03abc"])
def test_what_jaxlib_cannot_read(data: bytes) -> None:
    pytest.importorskip("jaxlib")
    with pytest.raises(
        graphc.UserError, match=r"^model: jaxlib cannot read it as StableHLO or HLO \("
    ):
        read_module(data)


def test_attributes_that_were_tensors_in_2023() -> None:
    """Texts of jaxlib 0.4.20; today's parser takes arrays of integers and of bools."""
    text = """module {
  func.func public @main(%x: tensor<4x6xf32>, %i: tensor<3x1xi32>)
      -> (tensor<3x6xf32>, tensor<6x4xf32>, tensor<2x6xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %rows = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false,
      slice_sizes = dense<[1, 6]> : tensor<2xi64>} : (tensor<4x6xf32>, tensor<3x1xi32>) -> tensor<3x6xf32>
    %t = "stablehlo.transpose"(%x) {permutation = dense<[1, 0]> : tensor<2xi64>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %w = "stablehlo.reduce_window"(%x, %zero) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) {base_dilations = dense<1> : tensor<2xi64>, padding = dense<0> : tensor<2x2xi64>,
      window_dilations = dense<1> : tensor<2xi64>, window_dimensions = dense<[2, 1]> : tensor<2xi64>,
      window_strides = dense<[2, 1]> : tensor<2xi64>} : (tensor<4x6xf32>, tensor<f32>) -> tensor<2x6xf32>
    return %rows, %t, %w : tensor<3x6xf32>, tensor<6x4xf32>, tensor<2x6xf32>
  }
}
"""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    rows, columns, windows = load(text.encode()).evaluate([x, np.array([[2], [0], [3]], np.int32)])
    np.testing.assert_array_equal(rows, x[[2, 0, 3]])
    np.testing.assert_array_equal(columns, x.T)
    np.testing.assert_array_equal(windows, x.reshape(2, 2, 6).sum(1))
