"""An op and a kernel as user code would write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.dtypes import F32
from graphc.extension.ops import LogicalTensor, define
from graphc.graph_ir.ir.graph import Graph
from graphc.tensor_ir import builder as t


def compose(make: Any, x: Any, scale: Any, *, eps: float) -> Any:
    mean = make("reduce_mean", make("mul", x, x), axes=(-1,), keep_dims=True)
    root = make("sqrt", make("add", mean, make.scalar(eps, x.details.dtype)))
    y = make("div", x, root)
    return y if scale is None else make("mul", y, scale)


def reference(x: Any, scale: Any, *, eps: float) -> Any:
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return y if scale is None else y * scale


def define_root_mean(name: str = "root_mean", **changes: Any) -> None:
    """x over its root mean square along the last axis, scaled if `scale` is given."""
    given: dict[str, Any] = {
        "operands": {"x": "rows", "scale?": "a factor per column"},
        "attrs": {"eps": 1e-5},
        "compose": compose,
        "infer": lambda x, scale, *, eps: x,
        "reference": reference,
        **changes,
    }
    define(name, "x over its root mean square.", **given)


def root_mean_rows(b: Any, op: Any, x: Any, scale: Any, y: Any) -> None:
    """A kernel for two axes, without scale: a pass that sums, a pass that divides."""
    rows, columns = x.shape
    with b.loop("i", 0, rows, "parallel") as i:
        total = b.allocate("total", F32, (1,))
        b.store(total, (0,), 0.0)
        with b.loop("j", 0, columns, "vector") as j:
            value = x[i, j]
            b.store(total, (0,), total[0] + value * value)
        mean = total[0] / float(columns) + op.eps
        factor = b.let("factor", t.const(1.0, F32) / t.unary("sqrt", mean))
        with b.loop("j", 0, columns, "vector") as j:
            b.store(y, (i, j), x[i, j] * factor)


def accepts_rows(op: Any, target: Any) -> bool:
    """Return whether `root_mean_rows` computes the op."""
    details = op.x.details
    return details.rank == 2 and details.dtype == F32 and op.scale is None


def graph_with(op_name: str = "root_mean", dims: tuple[int, ...] = (6, 21), **attrs: Any) -> Graph:
    """y = op(relu(x)) * 2."""
    graph = Graph("m")
    x = graph.make_input(LogicalTensor(F32, dims), "x")
    positive = graph.make("relu", [x], name="before").outputs[0]
    y = graph.make(op_name, [positive], attrs, "op").outputs[0]
    two = graph.make_constant(np.float32(2), "two")
    graph.make_output(graph.make("mul", [y, two], name="after").outputs[0], "y")
    return graph
