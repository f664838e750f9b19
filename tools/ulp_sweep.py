"""The largest error of every f32 function over all 2**32 inputs, of compiled models, in units of the last place.

A case is a graph of one op on a chunk of bit patterns, compiled for each instruction set, beside the same function in
f64: NumPy's, which has vectors of most, or the same op, whose functions are libm's. Most results are the f64 value
rounded; only the others are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ..base.dtypes import F32, F64
from ..base.records import dataclass
from ..driver.compiler import compile as compile_model
from ..graph_ir.ir.graph import Array, Graph
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..targets.isa import ISAS as LEVELS
from ..targets.isa import fused_levels

CHUNK = 1 << 18
"""Inputs of one call."""

PATTERNS = 1 << 32
ISAS = [name for name in fused_levels() if LEVELS[name].tiles is None]
"""Instruction sets with FMA: the bounds hold for these, and tile registers run none of these functions."""


@dataclass(frozen=True)
class Case:
    """One function: its op, the attributes, and the error in ULP that no f32 input exceeds."""

    op: str
    bound: float
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`gelu(approximate=tanh)`."""
        text = ", ".join(f"{key}={value}" for key, value in self.attrs.items())
        return f"{self.op}({text})" if text else self.op


CASES = (
    Case("exp", 1.2), Case("expm1", 1.7), Case("log", 1.3), Case("log1p", 1.85), Case("tanh", 2.0), Case("erf", 1.85),
    Case("sin", 0.8), Case("cos", 0.8), Case("tan", 0.8), Case("asin", 0.7), Case("acos", 0.7), Case("atan", 1.6),
    Case("sinh", 0.6), Case("cosh", 0.6), Case("asinh", 0.6), Case("acosh", 0.6), Case("atanh", 0.6),
    Case("sqrt", 0.5), Case("rsqrt", 1.5), Case("reciprocal", 0.5), Case("square", 0.5),
    Case("sigmoid", 2.0), Case("silu", 3.0), Case("softplus", 2.5), Case("mish", 4.5), Case("gelu", 4.0),
    Case("gelu", 3.0, {"approximate": "tanh"}), Case("elu", 1.7), Case("selu", 3.0), Case("softsign", 1.5),
    Case("hard_swish", 2.0), Case("hard_sigmoid", 0.5, {"alpha": float(np.float32(0.2))}),
    Case("hard_sigmoid", 1.5, {"alpha": 1 / 6}), Case("leaky_relu", 1.0),
)  # fmt: skip
"""Every op of one float operand whose result is rounded, with the bound its documentation promises."""


@dataclass
class Worst:
    """The largest error met so far, and the input it was met at."""

    error: float = -1.0
    at: float = 0.0

    def see(self, errors: Array, x: Array) -> None:
        """Take the largest of `errors`, those at the inputs `x`."""
        if not errors.size:
            return
        position = int(errors.argmax())
        if errors[position] > self.error:
            self.error, self.at = float(errors[position]), float(x[position])


def chunks(stride: int) -> Iterator[Array]:
    """Every stride-th bit pattern as f32, CHUNK at a time; the last chunk begins again at 0."""
    for begin in range(0, PATTERNS, CHUNK * stride):
        patterns = np.arange(begin, begin + CHUNK * stride, stride, dtype=np.uint64)
        yield patterns.astype(np.uint32).view(np.float32)


def sweep(case: Case, isas: Sequence[str], inputs: Iterator[Array]) -> dict[str, Worst]:
    """The largest error of a case for each instruction set, over `inputs` of CHUNK elements each."""
    exact = _exact(case)
    codes = {isa: _compiled(case, isa, wide=False) for isa in isas}
    worst = {isa: Worst() for isa in isas}
    with np.errstate(all="ignore"):
        for x in inputs:
            wide = exact(x)
            rounded = wide.astype(np.float32)
            for isa, code in codes.items():
                got = code(x)
                differ = np.flatnonzero(got.view(np.int32) != rounded.view(np.int32))
                worst[isa].see(ulp_error(got[differ], wide[differ]), x[differ])
    return worst


def ulp_error(got: Array, exact: Array) -> Array:
    """|got - exact| in units of the last place of f32 at `exact` (f64); inf where one is NaN, infinite or zero alone.

    What is too large for f32 counts as 2**128, on both sides; an infinite `exact` wants that infinity.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        overflow = np.isfinite(exact) & (np.abs(exact) > 2.0**128)
        exact = np.where(overflow, np.copysign(2.0**128, exact), exact)
        _, exponent = np.frexp(np.minimum(np.abs(exact), 2.0**127))
        unit = np.ldexp(1.0, np.maximum(exponent, -125) - 24)
        value = got.astype(np.float64)
        value = np.where(np.isinf(value), np.copysign(2.0**128, value), value)
        error = np.abs(value - exact) / unit
        special = ~np.isfinite(exact) | (exact == 0) | np.isnan(got)
        same = (rounded == got) | (np.isnan(rounded) & np.isnan(got))
        return np.where(same & special, 0.0, np.where(special, np.inf, error))


_NUMPY: Mapping[str, np.ufunc] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
"""Functions that NumPy has in f64, within a few units of its last place: 2**-26 of a unit of f32."""


def _exact(case: Case) -> Callable[[Array], Array]:
    """The function of a chunk in f64."""
    function = _NUMPY.get(case.op)
    if function is None:
        return _compiled(case, "native", wide=True)
    return lambda array: np.asarray(function(array.astype(np.float64)))


def _compiled(case: Case, target: str, wide: bool) -> Callable[[Array], Array]:
    """The op on one chunk; `wide`: in f64, the input widened and the result left so."""
    graph = Graph(case.op)
    x = graph.make_input(LogicalTensor(F32, (CHUNK,)), "x")
    if wide:
        x = graph.make("cast", [x], {"dtype": F64}).outputs[0]
    graph.make_output(graph.make(case.op, [x], dict(case.attrs)).outputs[0])
    model = compile_model(graph, target, threads=1)
    return lambda array: np.asarray(model(array))
