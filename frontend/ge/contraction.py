"""Matrix products, reductions and normalisations."""

from __future__ import annotations

from ...dtypes import BOOL, F32, S32
from ...graph_ir.graph import GraphTensor
from ..op_builder import Value
from .scope import Handler, NodeContext


def _matmul(first: str, second: str, rank: int | None) -> Handler:
    """A product; `first` and `second` are the attributes that transpose its operands."""

    def handler(node: NodeContext) -> Value:
        a, b = node.pair()
        if node.has("offset_w"):
            raise node.unsupported("offset_w")
        for x in (a, b):
            if (x.details.rank != rank) if rank else x.details.rank < 2:
                wanted = "matrices" if rank else "matrices or stacks of them"
                raise node.rule(f"operands must be {wanted}", f"{a.details} and {b.details}")
        attrs = {"transpose_a": node.attr_bool(first), "transpose_b": node.attr_bool(second)}
        product = node.make("matmul_core", a, b, **attrs)
        if not node.has("bias"):
            return product
        return node.helper("add", product, node.tensor_as("bias", product.details.dtype))

    return handler


def _axes(node: NodeContext, rank: int) -> tuple[int, ...] | None:
    """The axes to reduce; None for all, () for none."""
    given = node.ints("axes") if node.has("axes") else node.attr_ints("axes")
    axes = tuple(dict.fromkeys(node.axis(axis, rank) for axis in given))
    if axes:
        return axes
    keeps = "noop_with_empty_axes" in node.signature.defaults
    return () if keeps and node.attr_bool("noop_with_empty_axes") else None


def _reduce(op_name: str) -> Handler:
    def handler(node: NodeContext) -> Value:
        x = node.tensor("x")
        if op_name in ("reduce_any", "reduce_all"):
            x = node.converted(x, BOOL)
        axes = _axes(node, x.details.rank)
        if axes == ():
            return x
        return node.make(op_name, x, axes=axes, keep_dims=node.attr_bool("keep_dims"))

    return handler


def _arg(op_name: str) -> Handler:
    def handler(node: NodeContext) -> Value:
        by_attr = node.type.endswith("D")
        axis = node.attr_int("dimension") if by_attr else node.integer("dimension")
        found = node.make(op_name, node.tensor("x"), axis=axis, keep_dims=False)
        return node.converted(found, S32 if by_attr else node.attr_dtype("dtype"))

    return handler


def _arg_max_with_value(node: NodeContext) -> list[Value]:
    x, axis, keep = node.tensor("x"), node.attr_int("dimension"), node.attr_bool("keep_dims")
    index = node.make("arg_max", x, axis=axis, keep_dims=keep)
    value = node.helper("reduce_max", x, axes=(axis,), keep_dims=keep)
    return [node.converted(index, S32), value]


def _softmax(op_name: str, name: str) -> Handler:
    def handler(node: NodeContext) -> Value:
        x = node.tensor(name)
        axes = node.attr_ints("axes")
        if len(axes) != 1:
            raise node.unsupported(f"a softmax over {len(axes)} axes")
        if "half_to_float" in node.signature.defaults and node.attr_bool("half_to_float"):
            x = node.converted(x, F32)
        return node.make(op_name, x, axis=axes[0])

    return handler


def _layer_norm(node: NodeContext) -> list[Value]:
    x = node.tensor("x")
    rank = x.details.rank
    if node.type == "LayerNormV4":
        first = rank - len(node.ints("normalized_shape"))
        axis = node.axis(first, rank)
        names = ("gamma", "beta")
    else:
        axis = node.axis(node.attr_int("begin_norm_axis"), rank)
        if node.axis(node.attr_int("begin_params_axis"), rank) != axis:
            raise node.unsupported("begin_params_axis other than begin_norm_axis")
        names = ("gamma", "beta")
    dtype, tail = x.details.dtype, x.details.plain_dims[axis:]
    parameters = [
        node.reshaped(node.tensor_as(name, dtype), tail) for name in names if node.has(name)
    ]
    if node.has("beta") and not node.has("gamma"):
        parameters = [node.constant(1, dtype), *parameters]
    epsilon = node.epsilon()
    result = node.make("layer_norm", x, *parameters, axis=axis, epsilon=epsilon)
    if node.node.outputs == 1:
        return [result]
    wide = node.converted(x, dtype.accumulator)
    over = {"axes": tuple(range(axis, rank)), "keep_dims": True}
    mean = node.helper("reduce_mean", wide, **over)
    spread = node.helper("square", node.helper("sub", wide, mean))
    variance = node.helper("reduce_mean", spread, **over)
    if node.type == "LayerNorm":
        return [result, mean, variance]
    shifted = node.helper("add", variance, node.constant(epsilon, wide.details.dtype))
    return [result, mean, node.helper("rsqrt", shifted)]


def _rms_norm(node: NodeContext) -> list[Value]:
    if node.type == "AddRmsNorm":
        x = node.helper("add", *node.pair())
    else:
        x = node.tensor("x")
    gamma = node.tensor_as("gamma", x.details.dtype)
    rank, count = x.details.rank, gamma.details.rank
    axis = node.axis(rank - count, rank)
    result = node.make("rms_norm", x, gamma, axis=axis, epsilon=node.epsilon())
    if node.node.outputs == 1:
        return [result]
    wide = node.converted(x, F32)
    axes = tuple(range(axis, rank))
    mean = node.helper("reduce_mean", node.helper("square", wide), axes=axes, keep_dims=True)
    spread = node.helper("rsqrt", node.helper("add", mean, node.constant(node.epsilon(), F32)))
    return [result, spread, x] if node.type == "AddRmsNorm" else [result, spread]


def _batch_norm(node: NodeContext) -> Value:
    x, axis = node.tensor("x"), 1
    if node.type == "BatchNorm":
        if node.attr_bool("is_training"):
            raise node.unsupported("is_training")
        axis = 1 if node.attr_text("data_format").startswith("NC") else -1
    names = ("scale", "offset", "mean", "variance")
    parameters = [node.tensor_as(name, x.details.dtype) for name in names]
    return node.make("batch_norm", x, *parameters, axis=axis, epsilon=node.epsilon())


def _l2_normalize(node: NodeContext) -> Value:
    x = node.tensor("x")
    axes = node.attr_ints("axis") or tuple(range(x.details.rank))
    total = node.helper("reduce_sum_square", x, axes=axes, keep_dims=True)
    floor = node.constant(node.epsilon("eps"), x.details.dtype)
    return node.make("mul", x, node.helper("rsqrt", node.helper("max", total, floor)))


def _global_average_pool(node: NodeContext) -> Value:
    x: GraphTensor = node.tensor("x")
    if x.details.rank < 3:
        raise node.rule("the input must have batch, channel and spatial axes", str(x.details))
    return node.make("reduce_mean", x, axes=tuple(range(2, x.details.rank)), keep_dims=True)


REDUCTIONS = {
    "Sum": "reduce_sum",
    "Mean": "reduce_mean",
    "Max": "reduce_max",
    "Min": "reduce_min",
    "Prod": "reduce_prod",
    "LogSumExp": "reduce_log_sum_exp",
    "All": "reduce_all",
    "Any": "reduce_any",
}

HANDLERS: dict[str, Handler] = {
    **{f"Reduce{name}": _reduce(op_name) for name, op_name in REDUCTIONS.items()},
    **{f"Reduce{name}D": _reduce(op_name) for name, op_name in REDUCTIONS.items()},
    "MatMul": _matmul("transpose_x1", "transpose_x2", 2),
    "MatMulV2": _matmul("transpose_x1", "transpose_x2", 2),
    "BatchMatMul": _matmul("adj_x1", "adj_x2", None),
    "BatchMatMulV2": _matmul("adj_x1", "adj_x2", None),
    "BatchMatMulV3": _matmul("adj_x1", "adj_x2", None),
    "ArgMaxV2": _arg("arg_max"),
    "ArgMaxD": _arg("arg_max"),
    "ArgMin": _arg("arg_min"),
    "ArgMinD": _arg("arg_min"),
    "ArgMaxWithValue": _arg_max_with_value,
    "SoftmaxV2": _softmax("softmax", "x"),
    "LogSoftmaxV2": _softmax("log_softmax", "logits"),
    "LayerNorm": _layer_norm,
    "LayerNormV3": _layer_norm,
    "LayerNormV4": _layer_norm,
    "RmsNorm": _rms_norm,
    "AddRmsNorm": _rms_norm,
    "BatchNorm": _batch_norm,
    "BNInfer": _batch_norm,
    "L2Normalize": _l2_normalize,
    "GlobalAveragePool": _global_average_pool,
}
