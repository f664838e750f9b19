"""Matrix products."""

from __future__ import annotations

from ..row import Op

ROWS = (
    # A product of two matrices of which one is transposed is a Gemm.
    Op("matmul_core", onnx="Gemm(A, B | transA, transB) where rank=2, transpose_a=true by gemm"),
    Op("matmul_core", onnx="Gemm(A, B | transA, transB) where rank=2, transpose_b=true by gemm"),
    Op(
        "matmul_core",
        onnx="MatMul(A, B) by matmul",
        ge=(
            "MatMul/MatMulV2(x1, x2 | transpose_x1=transpose_a, transpose_x2=transpose_b) where rank=2 by matmul",
            "BatchMatMulV2/BatchMatMul/BatchMatMulV3(x1, x2 | adj_x1=transpose_a, adj_x2=transpose_b) by matmul",
        ),
        tvm=(
            "nn_matmul(tensor_a, tensor_b | transpose_a, transpose_b)",
            "nn_batch_matmul(tensor_a, tensor_b | transpose_a, transpose_b?true)",
            "nn_dense/dense/FullyConnected(data, weight, bias?) where transpose_b=true by dense",
            "nn_contrib_dense_pack(data, weight) by dense_pack read only",
        ),
    ),
)
