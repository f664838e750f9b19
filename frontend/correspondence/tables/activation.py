"""Activation functions."""

from __future__ import annotations

from ..compositions import activation as means
from ..row import Means, Op

ROWS = (
    Op(
        "relu",
        onnx="Relu(X)",
        ge="Relu(x)",
        tvm="nn_relu/relu(data)",
        pnnx="F.relu/nn.ReLU/torch.relu(input)",
    ),
    Op(
        "sigmoid",
        onnx="Sigmoid(X)",
        ge="Sigmoid(x)",
        tvm="sigmoid(data)",
        hlo="logistic(x)",
        pnnx="F.sigmoid/nn.Sigmoid/torch.sigmoid/Tensor.sigmoid(input)",
    ),
    Op(
        "tanh",
        onnx="Tanh(input)",
        ge="Tanh(x)",
        tvm="tanh/fast_tanh(data)",
        hlo="tanh(x)",
        pnnx="F.tanh/nn.Tanh/torch.tanh/Tensor.tanh(input)",
    ),
    Op("silu", onnx="Swish(X) write only", ge="Swish(x) write only", pnnx="F.silu/nn.SiLU(input)"),
    Op("mish", onnx="Mish(X)", ge="Mish(x)", pnnx="F.mish/nn.Mish(input)"),
    Op(
        "softplus",
        onnx="Softplus(X)",
        ge="Softplus(x)",
        pnnx=(
            "F.softplus(input) write only",
            "F.softplus/nn.Softplus(input | beta, threshold) by softplus read only",
        ),
    ),
    Op("softsign", onnx="Softsign(input)", ge="Softsign(x)", pnnx="F.softsign/nn.Softsign(input)"),
    Op(
        "hard_swish", onnx="HardSwish(X)", ge="HardSwish(x)", pnnx="F.hardswish/nn.Hardswish(input)"
    ),
    Op(
        "hard_sigmoid",
        onnx="HardSigmoid(X | alpha, beta)",
        ge="HardSigmoid(input_x | alpha, beta)",
        pnnx="F.hardsigmoid/nn.Hardsigmoid(input) where alpha=1/6, beta=0.5",
    ),
    Op(
        "leaky_relu",
        onnx="LeakyRelu(X | alpha)",
        ge="LeakyRelu(x | negative_slope=alpha)",
        tvm="nn_leaky_relu/leaky_relu(data | alpha?0.25)",
        pnnx="F.leaky_relu/nn.LeakyReLU(input | negative_slope=alpha)",
    ),
    Op(
        "elu",
        onnx="Elu(X | alpha)",
        ge="Elu(x | alpha, scale=1.0, input_scale=1.0)",
        pnnx="F.elu/nn.ELU(input | alpha)",
    ),
    Op(
        "selu",
        onnx="Selu(X | alpha, gamma)",
        ge=("Selu(x)", "Elu(x | alpha, scale=gamma, input_scale=1.0)"),
        pnnx="F.selu/nn.SELU(input)",
    ),
    Op(
        "gelu",
        onnx="Gelu(X | approximate)",
        ge=("Gelu(x) where approximate='tanh'", "GeluV2(x | approximate)"),
        pnnx="F.gelu/nn.GELU(input | approximate)",
    ),
    Op(
        "prelu",
        onnx=(
            "PRelu(X, slope) by prelu",
            "Where(X < 0, Mul(slope, X), X) by wide_prelu write only",
        ),
        ge="PRelu(x, weight) by prelu",
        tvm="nn_prelu/prelu(data, alpha) by prelu",
        pnnx="F.prelu/nn.PReLU(input, weight) by prelu",
    ),
    Op(
        "clamp",
        onnx="Clip(input, min?, max?) by clip",
        ge=(
            "ClipByValue(x, clip_value_min, clip_value_max) by clip",
            "Relu6(x) where min=0, max=6 read only",
        ),
        tvm="clip(data | a_min=min, a_max=max)",
        hlo="clamp(min, x, max) by clamp read only",
        pnnx=(
            "torch.clamp/Tensor.clamp(input, min?, max?) by clamp",
            "F.relu6/nn.ReLU6(input) where min=0, max=6 read only",
            "F.hardtanh/nn.Hardtanh(input | min_val=min?-1.0, max_val=max?1.0) read only",
        ),
    ),
    Means(
        means.biased_gelu,
        onnx=(
            "com.microsoft::BiasGelu(A, B)",
            "com.microsoft::Gelu(X)",
            "com.microsoft::FastGelu(X, bias?) where approximate='tanh'",
        ),
    ),
    Means(means.quick_gelu, onnx="com.microsoft::QuickGelu(X | alpha?1.702)"),
    Means(means.celu, onnx="Celu(X | alpha)", pnnx="F.celu/nn.CELU(input | alpha)"),
    Means(means.thresholded_relu, onnx="ThresholdedRelu(X | alpha)"),
    Means(means.shrink, onnx="Shrink(input | bias, lambd)"),
    Means(
        means.mean_leaky_relu, pnnx="F.rrelu/nn.RReLU(input | lower, upper, training=false?false)"
    ),
    Means(means.log_sigmoid, pnnx="F.logsigmoid/nn.LogSigmoid(input)"),
    Means(means.tanh_shrink, pnnx="F.tanhshrink/nn.Tanhshrink(input)"),
    Means(means.hard_shrink, pnnx="F.hardshrink/nn.Hardshrink(input | lambd)"),
    Means(means.soft_shrink, pnnx="F.softshrink/nn.Softshrink(input | lambd)"),
    Means(means.threshold, pnnx="F.threshold/nn.Threshold(input | threshold, value)"),
    Means(means.swish, onnx="Swish(X | alpha=beta)", ge="Swish(x | scale=beta)"),
    Means(means.fast_gelu, ge="FastGelu(x)"),
    Means(means.swi_glu, ge="SwiGlu(x | dim=axis)"),
    Means(means.glu, pnnx="F.glu/nn.GLU(input | dim=axis)"),
)
