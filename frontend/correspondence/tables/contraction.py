"""Matrix products."""

from __future__ import annotations

from ..row import Op

ROWS = (
    # A product of two matrices of which one is transposed is a Gemm.
    Op("matmul_core", onnx="Gemm(A, B | transA, transB) where rank=2, transpose_a=true by gemm"),
    Op("matmul_core", onnx="Gemm(A, B | transA, transB) where rank=2, transpose_b=true by gemm"),
    Op("matmul_core", onnx="MatMul(A, B) by matmul"),
)
