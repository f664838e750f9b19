"""The problems of `bench --suite kernels`: shapes of real networks in every type, each one kernel or a few."""

from __future__ import annotations

from ..bench.cases import chosen

KERNELS = """
matmul m128n768k768 f32 +bias+gelu
matmul m128n3072k768 f32 +bias+gelu
matmul m128n768k3072 f32 +bias
matmul m1024n1024k1024 f32
matmul m1n4096k4096 f32
matmul m4n4096k4096 f32
matmul m16n4096k4096 f32
matmul m49n768k3072 f32
matmul m197n768k768 f32
matmul b12m128n128k64 f32
matmul b12m197n64k197 f32
matmul m128n768k768 f64
matmul m128n768k768 f16
matmul m1024n1024k1024 f16
matmul m1n4096k4096 f16
matmul m128n768k768 bf16
matmul m1024n1024k1024 bf16
matmul m1n4096k4096 bf16
matmul b12m128n128k64 bf16
matmul m128n768k768 u8xs8
matmul m1024n1024k1024 u8xs8
matmul m1n4096k4096 u8xs8
matmul m128n768k768 s8xs8
matmul m1024n1024k1024 s8xs8
matmul m=1..512n768k768 f32
matmul m=1..512n768k768 bf16
gemv n4096k4096 q4_0
gemv n4096k4096 q4_k
gemv n4096k4096 q5_k
gemv n4096k4096 q6_k
gemv n4096k4096 q8_0
gemv n4096k4096 mxfp4
matmul m8n4096k4096 q4_k
matmul m128n2048k2048 q4_0
matmul m128n2048k2048 q4_k
matmul m128n2048k2048 q8_0
conv c3h224w224o64k7s2p3 f32 +bias+relu
conv c64h56w56o64k1 f32 +bias+relu
conv c64h56w56o256k1 f32 +bias
conv c64h56w56o64k3p1 f32 +bias+relu
conv c128h28w28o128k3p1 f32 +bias+relu
conv c256h14w14o256k3p1 f32 +bias+relu
conv c512h7w7o512k3p1 f32 +bias+relu
conv c128h56w56o128k3s2p1 f32 +bias+relu
conv c1024h14w14o256k1 f32 +bias+relu
conv c256h14w14o1024k1 f32 +bias
conv c2048h7w7o512k1 f32 +bias+relu
conv c32h128w128o32k3p1d2 f32
conv c128h56w56o128k3p1g32 f32 +bias+relu
conv c80w3000o384k3p1 f32 +bias+gelu
conv c64h56w56o64k3p1 f16
conv c64h56w56o64k3p1 bf16
conv c256h14w14o256k3p1 bf16
conv c64h56w56o64k3p1 u8xs8
conv c256h14w14o256k1 u8xs8
dwconv c144h56w56k3p1 f32 +bias
dwconv c240h28w28k5p2 f32 +bias
dwconv c96h56w56k7p3 f32 +bias
dwconv c96h112w112k3s2p1 f32 +bias
attention h12s128d64 f32
attention h12s128d64 f32 causal
attention h12s512d64 f32 causal
attention b8h12s197d64 f32
attention h12s128d64 bf16
attention h32s1t2048d128 f32
softmax 1024x1024
softmax 12x128x128
softmax 64x50257
layernorm 8x128x768
rmsnorm 8x128x768
reduce sum 1 1024x1024
reduce sum 0 1024x1024
reduce mean 1 16x512x196
reduce argmax 1 512x1000
transpose 10 1024x1024
transpose 0213 8x197x12x64
transpose 0231 1x256x56x56
y = gelu(x) * s + b 1024x768
y = gelu(x) * s + b 1024x768 bf16
y = exp(x - z) / (x + 2) 1024x1024
"""
"""One problem a line."""


def kernels(part: str | None = None) -> list[str]:
    """Return the problems whose text contains `part`. Raise UserError if there is none."""
    return chosen(KERNELS.strip().splitlines(), "kernels", part)
