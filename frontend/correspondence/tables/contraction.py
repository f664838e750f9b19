"""Matmuls."""

from __future__ import annotations

from ..compositions import contraction as means
from ..row import Means, Op

ROWS = (
    # A matmul with one transposed operand is a Gemm.
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
        pnnx="torch.matmul(input, other) by matmul write only",
    ),
    Means(
        means.matmul,
        pnnx=(
            "torch./Tensor.matmul(input, other)",
            "torch.mm(input, mat2) where a_rank=2, b_rank=2",
            "torch.bmm(input, mat2) where a_rank=3, b_rank=3",
            "torch.mv(input, vec) where a_rank=2, b_rank=1",
            "torch.dot(input, other) where a_rank=1, b_rank=1",
        ),
        aten="dot(self, tensor) where a_rank=1, b_rank=1",
    ),
    Means(
        means.linear,
        pnnx="F.linear/nn.Linear(input, weight, bias?) by linear",
        aten="linear(input, weight, bias?) by linear",
    ),
    Means(
        means.add_matmul,
        pnnx=(
            "torch.addmm(input, mat1, mat2 | alpha, beta)",
            "torch.baddbmm(input, batch1, batch2 | alpha, beta) where axes_of_each=3",
        ),
    ),
    Means(
        means.einsum, onnx="Einsum(Inputs* | equation)", pnnx="torch.einsum(operands* | equation)"
    ),
    Means(means.outer, common="any", pnnx="torch./Tensor./aten::outer(input, vec2)"),
    Means(means.kronecker, common="any", pnnx="torch./aten::kron(input, other)"),
    Means(
        means.bilinear,
        pnnx="torch./Tensor./aten::/F.bilinear/nn.Bilinear(input1, input2, weight, bias?)",
    ),
)
