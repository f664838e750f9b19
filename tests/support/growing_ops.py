"""Graphs of one op whose size grows: for each op of the registry what may grow, for the search for cliffs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from graphc.base.dtypes import BOOL, F16, F32, S8, S32, S64, U8, DType
from graphc.base.records import dataclass
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Array, Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.registry import lookup
from graphc.graph_ir.ops.elementwise import Elementwise
from graphc.graph_ir.ops.reduce import Reduce
from support.every_op import OURS


@dataclass(frozen=True)
class Source:
    """An input: normal values, or integers below `high`; for multiplications numbers next to 1, so that none
    is subnormal."""

    dtype: DType
    dims: tuple[int, ...]
    high: int = 2
    is_factor: bool = False

    def array(self) -> Array:
        """Return random values, the same for the same input."""
        rng = np.random.default_rng(len(self.dims))
        if self.dtype.is_float:
            value = rng.standard_normal(self.dims, np.float32)
            return (1 + value / 1024 if self.is_factor else value).astype(self.dtype.numpy)
        return rng.integers(0, self.high, self.dims).astype(self.dtype.numpy)


CLASSES = {name: lookup(name) for name in OURS}

Sources = tuple[Source, ...]
Make = Callable[[int], tuple[Sources, dict[str, Any]]]
Build = Callable[[Graph, list[GraphTensor]], list[GraphTensor]]


@dataclass(frozen=True)
class Growth:
    """A parameter that grows from 1 to 2 ** `most`. Work is counted in elements, or in operations where those
    grow faster."""

    make: Make
    most: int = 22
    counts_operations: bool = False
    build: Build | None = None

    def graph(self, name: str, n: int) -> tuple[Graph, list[Array]]:
        """Return the graph of size n, and its inputs."""
        graph = Graph(name)
        sources, attrs = self.make(n)
        sources = tuple(replace(one, is_factor="prod" in name) for one in sources)
        details = (LogicalTensor(one.dtype, one.dims) for one in sources)
        inputs = [graph.make_input(one, f"x{i}") for i, one in enumerate(details)]
        outputs = (
            self.build(graph, inputs)
            if self.build
            else graph.make(name, inputs, attrs, "op").outputs
        )
        for y in outputs:
            graph.make_output(y)
        return graph, [one.array() for one in sources]


def f(*dims: int) -> Source:
    """An input of f32."""
    return Source(F32, dims)


def index(high: int, *dims: int) -> Source:
    """An input of indices below `high`."""
    return Source(S64, dims, high)


def alone(make: Callable[[int], Source], **attrs: Any) -> Growth:
    """One input, attributes that do not grow."""
    return Growth(lambda n: ((make(n),), attrs))


def _elementwise(cls: type[Elementwise]) -> dict[str, Growth]:
    row = cls.row
    dtype = next(d for d in (F32, S32, BOOL) if d.kind in row.accepts)
    attrs = {k: 0.2 for k, v in row.attrs.items() if v.is_required}
    kinds = [BOOL if i < row.conditions else dtype for i in range(len(row.inputs))]
    return {"elements": Growth(lambda n: (tuple(Source(kind, (n,)) for kind in kinds), attrs))}


def _reduction(cls: type[Reduce]) -> dict[str, Growth]:
    dtype = F32 if "float" in cls.row.accepts else BOOL
    return {
        "row": Growth(lambda n: ((Source(dtype, (n,)),), {"axes": (0,)})),
        "columns": Growth(lambda n: ((Source(dtype, (n, 48)),), {"axes": (0,)}), 16),
        "rows": Growth(lambda n: ((Source(dtype, (n, 48)),), {"axes": (1,)}), 16),
    }


def _along(**attrs: Any) -> dict[str, Growth]:
    """Ops along an axis."""
    return {
        "row": alone(lambda n: f(n), axis=0, **attrs),
        "columns": Growth(lambda n: ((f(n, 48),), {"axis": 0, **attrs}), 16),
        "rows": Growth(lambda n: ((f(n, 48),), {"axis": 1, **attrs}), 16),
    }


def _sorted(name: str) -> dict[str, Growth]:
    axis = {"axis": -1} if name == "top_k" else {}
    found = {
        f"{label} of {dtype}": Growth(
            lambda n, dtype=dtype, part=part: (
                (Source(dtype, (1, n), 1 << 15),),
                {"k": max(part(n), 1), **axis},
            )  # type: ignore[misc]
        )
        for label, part in {
            "all": lambda n: n,
            "eighth": lambda n: n // 8,
            "10": lambda n: min(n, 10),
        }.items()
        for dtype in (F32, S64, F16)
    }
    found["all, rows"] = Growth(lambda n: ((f(n, 96),), {"k": 96, **axis}), 15)
    return found


def _pool(**attrs: Any) -> dict[str, Growth]:
    return {
        "length": Growth(lambda n: ((f(1, 1, n + 2),), {"kernel": (3,), **attrs})),
        "window": Growth(lambda n: ((f(1, 1, 2 * n),), {"kernel": (n,), **attrs}), 20),
        "window of images": Growth(
            lambda n: ((f(1, 2, n + 64, n + 64),), {"kernel": (n, n), **attrs}), 10
        ),
        "channels": Growth(lambda n: ((f(1, n, 6, 6),), {"kernel": (3, 3), **attrs}), 16),
    }


def _norm(channels: int, **attrs: Any) -> dict[str, Growth]:
    return {
        "pixels": Growth(lambda n: ((f(1, 4, n), *(f(4),) * channels), attrs), 20),
        "channels": Growth(lambda n: ((f(1, 2 * n, 4), *(f(2 * n),) * channels), attrs), 19),
    }


def _flops(make: Make, most: int) -> Growth:
    return Growth(make, most, counts_operations=True)


GROWTHS: dict[str, dict[str, Growth]] = {
    "arg_max": _along(),
    "arg_min": _along(),
    "cum_sum": _along(),
    **dict.fromkeys(("cum_log_sum_exp", "cum_max", "cum_min"), _along()),
    "cum_prod": _along(),
    "softmax": _along(),
    "log_softmax": _along(),
    "layer_norm": {"row": Growth(lambda n: ((f(4, n), f(n)), {"axis": -1}), 20)},
    "rms_norm": {"row": alone(lambda n: f(4, n))},
    "reduce_log_sum_exp": {
        "row": alone(lambda n: f(n), axes=(0,)),
        "columns": Growth(lambda n: ((f(n, 48),), {"axes": (0,)}), 16),
    },
    "batch_norm": _norm(4),
    "group_norm": _norm(2, groups=2),
    "instance_norm": _norm(2),
    "lrn": {
        "channels": Growth(lambda n: ((f(1, n, 8),), {"size": 5}), 18),
        "window": Growth(lambda n: ((f(1, 2 * n, 8),), {"size": n}), 14),
    },
    "avg_pool": _pool(),
    "max_pool": _pool(),
    "min_pool": _pool(),
    "sum_pool": _pool(),
    "prod_pool": _pool(),
    "lp_pool": _pool(p=3.0),
    "max_pool_indices": _pool(),
    "bitcast": {"elements": alone(lambda n: f(n), dtype="u32")},
    "cast": {"elements": alone(lambda n: f(n), dtype="bf16")},
    "copy": {"elements": alone(lambda n: f(n))},
    "reshape": {"elements": Growth(lambda n: ((f(n),), {"shape": (n, 1)}))},
    "broadcast": {
        "rows": Growth(lambda n: ((f(8),), {"shape": (n, 8)}), 19),
        "row": Growth(lambda n: ((f(n),), {"shape": (8, n)}), 19),
    },
    "repeat": {"elements": alone(lambda n: f(n), counts=(3,))},
    "pad": {"elements": alone(lambda n: f(n), before=(3,), after=(3,))},
    "slice": {
        "backward": Growth(lambda n: ((f(n),), {"starts": (n - 1,), "steps": (-1,), "sizes": (n,)}))
    },
    "transpose": {
        "rows": Growth(lambda n: ((f(n, 16),), {"perm": (1, 0)}), 18),
        "square": Growth(lambda n: ((f(n, n),), {"perm": (1, 0)}), 11),
    },
    "reorder": {
        "pixels": Growth(lambda n: ((f(2, 8, n),), {"format": parse_format("ABD4b", "ABD")}), 18)
    },
    "concat": {
        "length": Growth(lambda n: ((f(n), f(n)), {"axis": 0}), 21),
        "operands": Growth(lambda n: ((f(1, 4),) * n, {"axis": 0}), 11),
        "operands of columns": Growth(lambda n: ((f(4, 2),) * n, {"axis": 1}), 11),
    },
    "im2col": {"length": Growth(lambda n: ((f(1, 1, n + 2),), {"kernel": (3,)}), 20)},
    "resize": {
        "linear": Growth(
            lambda n: (
                (f(1, 1, n),),
                {"shape": (1, 1, 2 * n), "mode": "linear", "scales": (1.0, 1.0, 2.0)},
            ),
            20,
        ),
        "cubic": Growth(
            lambda n: (
                (f(1, 1, n),),
                {"shape": (1, 1, n + 1), "mode": "cubic", "scales": (1.0, 1.0, (n + 1) / n)},
            ),
            20,
        ),
    },
    "scaled_sum": {"elements": Growth(lambda n: ((f(n), f(n)), {"a": 0.5, "b": 1.25}))},
    "round_saturate": {"elements": alone(lambda n: f(n), dtype="s8", zero=3, low=-128, high=127)},
    "quantize": {"elements": Growth(lambda n: ((f(n), f(), Source(S8, ())), {"dtype": "s8"}))},
    "dequantize": {"elements": Growth(lambda n: ((Source(U8, (n,)), f(), Source(U8, ())), {}))},
    "byte_table": {"elements": Growth(lambda n: ((Source(S8, (n,)), Source(U8, (256,))), {}))},
    "gather": {
        "rows": Growth(lambda n: ((f(n, 8), index(n, n)), {"axis": 0}), 18),
        "elements": Growth(lambda n: ((f(n), index(n, n)), {"axis": 0}), 21),
    },
    "gather_elements": {"elements": Growth(lambda n: ((f(n), index(n, n)), {"axis": 0}), 21)},
    "scatter": {"elements": Growth(lambda n: ((index(n, n), f(n), f(n)), {"run": 1}), 20)},
    "scatter_elements": {
        "elements": Growth(
            lambda n: ((f(n), index(n, n), f(n)), {"axis": 0, "reduction": "add"}), 20
        )
    },
    "update_slice": {
        "elements": Growth(lambda n: ((f(2 * n), f(n), index(1)), {"axes": (0,)}), 21)
    },
    "update_in_place": {
        "elements": Growth(lambda n: ((f(2 * n), f(n), index(1)), {"axes": (0,)}), 21)
    },
    "top_k": _sorted("top_k"),
    "sort_rows": _sorted("sort_rows"),
    "suppress_boxes": {
        "boxes": Growth(
            lambda n: ((f(1, n, 4), f(1, 4, n), index(100), f(), f()), {"room": (min(n, 100),)}), 18
        )
    },
    "align_regions": {
        "regions": Growth(lambda n: ((f(1, 9, 9, 8), f(n, 4), index(1, n)), {"cells": (2, 2)}), 14),
        "channels": Growth(
            lambda n: ((f(1, 9, 9, n), f(2, 4), index(1, 2)), {"cells": (2, 2)}), 16
        ),
    },
    "true_indices": {"elements": alone(lambda n: Source(BOOL, (n,)))},
    "count_up": {"elements": Growth(lambda n: ((), {"size": (n,), "start": 3, "step": -2}))},
    "counted_rows": {"elements": Growth(lambda n: ((f(2 * n),), {"size": (n,)}), 21)},
    "room_for": {"elements": Growth(lambda n: ((f(n),), {"shape": (2 * n,)}), 21)},
    "matmul_core": {
        "rows": _flops(lambda n: ((f(n, 64), f(64, 64)), {}), 16),
        "columns": _flops(lambda n: ((f(8, 64), f(64, n)), {}), 17),
        "terms": _flops(lambda n: ((f(8, n), f(n, 64)), {}), 17),
        "one row": _flops(lambda n: ((f(1, n), f(n, 64)), {}), 17),
        "square": _flops(lambda n: ((f(n, n), f(n, n)), {}), 10),
        "batch": _flops(lambda n: ((f(n, 4, 16), f(n, 16, 8)), {}), 15),
    },
    "convolution": {
        "length": _flops(lambda n: ((f(1, 8, n + 2), f(8, 8, 3)), {}), 18),
        "channels": _flops(lambda n: ((f(1, n, 18), f(n, n, 3)), {}), 10),
        "window": _flops(lambda n: ((f(1, 1, 2 * n), f(1, 1, n)), {}), 12),
        "groups": _flops(lambda n: ((f(1, n, 18), f(n, 1, 3)), {"groups": n}), 15),
        "groups of long rows": _flops(lambda n: ((f(1, 4, n + 2), f(4, 1, 3)), {"groups": 4}), 20),
        "images": _flops(lambda n: ((f(1, 8, n + 2, n + 2), f(8, 8, 3, 3)), {}), 9),
    },
    "convolution_transpose": {
        "length": _flops(lambda n: ((f(1, 8, n), f(8, 8, 3)), {"strides": (2,)}), 16)
    },
    "cholesky": {"square": _flops(lambda n: ((f(1, n, n),), {}), 9)},
    "lu": {"square": _flops(lambda n: ((f(1, n, n),), {}), 9)},
    "householder": {"square": _flops(lambda n: ((f(1, n, n),), {}), 9)},
    "householder_product": {"square": _flops(lambda n: ((f(1, n, n), f(1, n)), {}), 9)},
    "svd": {"square": _flops(lambda n: ((f(1, n, n),), {}), 7)},
    "eigh": {"square": _flops(lambda n: ((f(1, n, n),), {}), 7)},
    "triangular_solve": {
        "square": _flops(lambda n: ((f(1, n, n), f(1, n, 4)), {"lower": True}), 9)
    },
    **{name: _elementwise(cls) for name, cls in CLASSES.items() if issubclass(cls, Elementwise)},
    **{name: _reduction(cls) for name, cls in CLASSES.items() if issubclass(cls, Reduce)},
}
"""Growing parameters, by op."""

FORMS = "a form of another op, which is grown"
NOT_GROWN = {
    **dict.fromkeys(("direct_convolution", "depthwise_convolution", "winograd_convolution"), FORMS),
    **dict.fromkeys(("winograd_weights", "masked_trees"), FORMS),
    **dict.fromkeys(("fused", "case", "while", "kernel_call"), "as slow as the graphs in it"),
    **dict.fromkeys(("count", "dynamic_sizes"), "one number"),
    "cached_attention": "as two of matmul_core, of the keys that its lengths count",
    "grouped_matmul": "as matmul_core, whose rows its counts share out",
    "matmul_nbits": "made of matmul_core with constant weights",
    "tree_ensemble": "its constants are those of a trained forest",
}
"""Ops that are not grown, and why."""


def _pieces(
    build: Callable[[Graph, list[GraphTensor]], list[GraphTensor]], width: int = 2
) -> Growth:
    """A graph of n slices of one input [4, n * width]."""

    def made(graph: Graph, inputs: list[GraphTensor]) -> list[GraphTensor]:
        (x,) = inputs
        rows, columns = x.details.plain_dims
        parts = [
            graph.make("slice", [x], {"starts": (0, at), "sizes": (rows, width)}).outputs[0]
            for at in range(0, columns, width)
        ]
        return build(graph, parts)

    return Growth(lambda n: ((f(4, n * width),), {}), 10, build=made)


def _chain(op_name: str, graph: Graph, parts: list[GraphTensor]) -> list[GraphTensor]:
    total = parts[0]
    for part in parts[1:]:
        total = graph.make(op_name, [total, part]).outputs[0]
    return [total]


def _joined(graph: Graph, parts: list[GraphTensor]) -> list[GraphTensor]:
    return graph.make("concat", parts, {"axis": 1}).outputs


def _each(graph: Graph, parts: list[GraphTensor]) -> list[GraphTensor]:
    return [graph.make("exp", [part]).outputs[0] for part in parts]


def _steps(graph: Graph, inputs: list[GraphTensor]) -> list[GraphTensor]:
    """tanh(... tanh(tanh(x0 + x1) + x2) ...)."""
    total = inputs[0]
    for x in inputs[1:]:
        total = graph.make("tanh", _chain("add", graph, [total, x])).outputs[0]
    return [total]


PATTERNS: dict[str, dict[str, Growth]] = {
    "slices": {
        "joined": _pieces(_joined),
        "joined backwards": _pieces(lambda graph, parts: _joined(graph, parts[::-1])),
        "added": _pieces(lambda graph, parts: _chain("add", graph, parts)),
        "largest": _pieces(lambda graph, parts: _chain("max", graph, parts)),
        "exponentials joined": _pieces(lambda graph, parts: _joined(graph, _each(graph, parts))),
        "as results": _pieces(_each),
    },
    "chain": {
        "of additions": Growth(
            lambda n: ((f(64),) * (n + 1), {}), 10, build=lambda graph, xs: _chain("add", graph, xs)
        ),
        "of steps": Growth(lambda n: ((f(64),) * (n + 1), {}), 10, build=_steps),
    },
}
"""Graphs of many ops, whose number grows."""
