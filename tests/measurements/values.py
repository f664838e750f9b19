"""Values that make an op slow: the time of each elementwise op and softmax where half of the elements are one value.

    python tests/measurements/values.py [OP ...] [--types f32,bf16,f64] [--target native]

Prints every op, type and value that takes more than twice the time of ordinary numbers. A CPU takes 150 cycles for a
vector whose result lies below the normal numbers; where such a result is exact, as e**-95, that is its price.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator

import numpy as np

import graphc
from graphc.base.dtypes import DType, by_name
from graphc.base.errors import GraphcError
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.registry import lookup, names, schema_of

COUNT, CALLS, LIMIT = 1 << 14, 40, 2.0
VALUES = (0.0, 1.0, 20.0, 60.0, 200.0, 1e4, 1e30, math.inf, math.nan)


def unary_ops() -> list[str]:
    """Return the ops that map one tensor of floats and need no attribute, and softmax."""
    found = ["log_softmax", "softmax"]
    for name in names():
        alone = lookup(name).kind not in ("source", "sink", "control", "fused")
        if alone and len(schema_of(name).operands) == 1 and name not in found:
            try:
                model(name, by_name("f32"), "native")
            except GraphcError:
                continue
            found.append(name)
    return sorted(found)


def model(name: str, dtype: DType, target: str) -> graphc.CompiledModel:
    """Return the op alone, of `COUNT` elements. Raise GraphcError if it is not of such."""
    graph = graphc.Graph(name)
    x = graph.make_input(LogicalTensor(dtype, (COUNT,)), "x")
    attrs = {"axis": -1} if name.endswith("softmax") else {}
    (y,) = graph.make(name, [x], attrs).outputs
    graph.make_output(y)
    return graphc.compile(graph, target=target, threads=1, cache=False)


def seconds(compiled: graphc.CompiledModel, x: np.ndarray) -> float:
    """Return the least time of a call."""
    best = math.inf
    for _ in range(CALLS):
        begin = time.perf_counter()
        compiled(x)
        best = min(best, time.perf_counter() - begin)
    return best


def slow_values(name: str, dtype: DType, target: str) -> Iterator[tuple[float, float]]:
    """Yield (value, time over that of ordinary numbers) where it is above `LIMIT`."""
    compiled = model(name, dtype, target)
    usual = np.random.default_rng(0).standard_normal(COUNT).astype(dtype.numpy)
    base = seconds(compiled, usual)
    for value in (sign * one for one in VALUES for sign in (1, -1)):
        x = usual.copy()
        x[::2] = value
        ratio = seconds(compiled, x) / base
        if ratio > LIMIT:
            yield value, ratio


def main() -> None:
    """Measure the ops requested, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ops", nargs="*", metavar="OP", help="default: all of one operand")
    parser.add_argument("--types", default="f32,bf16,f64", help="default: %(default)s")
    parser.add_argument("--target", default="native")
    args = parser.parse_args()
    np.seterr(all="ignore")
    ops, slow = args.ops or unary_ops(), 0
    for dtype in map(by_name, args.types.split(",")):
        for name in ops:
            for value, ratio in slow_values(name, dtype, args.target):
                print(f"{name} {dtype}: {value:g} takes {ratio:.1f} times as long")
                slow += 1
    print(f"{len(ops)} ops: {slow} values are slow")


if __name__ == "__main__":
    main()
