"""The drift of a value between perturbed evaluations, and the bound of its error that follows.

An op that rounds to integers gives either neighbor of an operand that lies within its bound of the boundary
between them: evaluations with both are among the perturbed ones, and the bound allows both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..base.dtypes import from_numpy
from ..graph_ir.ir.graph import Array, Op
from .sum_rounding import DEVIATIONS

TURNING_POINTS = {"sin": 0.5, "cos": 0.0}
"""The first maximum of periodic functions, in half periods of pi; a minimum is one half period further."""

UNITS = 4.0
"""Allowed error of one op in units in the last place: 2 for vector math, 1 for rounding, 1 as margin. Of 16 bits, which
are computed in f32, one unit: they are rounded by half of one, or not at all inside a kernel."""

MOVING = frozenset((
    "abs", "broadcast", "clamp", "concat", "copy", "gather", "gather_elements", "max", "max_pool", "min", "min_pool",
    "neg", "pad", "reduce_max", "reduce_min", "relu", "reorder", "reshape", "select", "slice", "transpose",
))  # fmt: skip
"""Ops whose results are operands or their negatives: they add no error."""

STEPS = frozenset(("ceil", "floor", "quantize", "round", "round_saturate", "trunc"))
"""Ops that round their first operand to integers: a small change of it moves the result by a whole step."""


def units_of(array: Array) -> Array:
    """Return `UNITS` units in the last place; near zero, where numbers are no denser, of the smallest number.

    Results that underflow are off by as much: what follows in the same kernel reads them in f32.
    """
    if not from_numpy(array.dtype).is_float:
        return np.zeros(())
    info: Any = ml_dtypes.finfo
    size = np.abs(array.astype(np.float64))
    units = np.where(np.isfinite(size), size, 0.0) * float(info(array.dtype).eps)
    return np.maximum(units, float(info(array.dtype).smallest_subnormal)) * (
        UNITS if array.dtype.itemsize > 2 else 1.0
    )


def disturb(array: Array, noise: Array, rng: np.random.Generator) -> Array:
    """Return the array, each element off by its noise in either direction.

    Noise below the spacing of 16-bit floats moves as many elements to their neighbors as make up for it.
    """
    if not noise.ndim and not noise:
        return array
    wide = array.astype(np.float64)
    moved = wide + (rng.integers(0, 2, array.shape) * 2 - 1) * noise
    finfo: Any = ml_dtypes.finfo
    # Rounding keeps the sign: the square of a number next to 0 is not negative, and has a root.
    next_to_zero = np.abs(wide) < float(finfo(array.dtype).tiny)
    moved = np.where(next_to_zero & (moved * np.where(wide < 0, -1, 1) < 0), -moved, moved)
    if from_numpy(array.dtype).is_float and array.dtype.itemsize <= 2:
        info = finfo(array.dtype)
        unit = np.ldexp(float(info.eps), np.frexp(wide)[1] - 1)
        unit = np.maximum(np.where(wide == 0, 0.0, unit), float(info.smallest_subnormal))
        moved = moved + rng.uniform(-0.5, 0.5, array.shape) * np.where(noise > 0, unit, 0.0)
    return moved.astype(array.dtype)


def drift_bound(exact: Array, noise: Array, disturbed: list[Array]) -> Array:
    """Return the bound of each element: its op's noise, and several times its drift or the typical one."""
    drift = np.zeros(exact.shape)
    for walk in disturbed:
        drift = np.maximum(drift, _distance(walk, exact))
    return np.asarray(noise + DEVIATIONS * np.maximum(drift, _typical(drift)))


def _typical(drift: Array) -> float:
    """Root mean square. An element that may be anything (its square overflows) says nothing of the others."""
    squares = np.square(drift)
    return (
        math.sqrt(float(np.mean(np.where(np.isfinite(squares), squares, 0.0))))
        if drift.size
        else 0.0
    )


def is_step(op: Op) -> bool:
    """Return whether the op only rounds its first operand: to integers, or to a type of fewer bits."""
    if op.op_name == "cast":
        x, y = (tensor.details.dtype for tensor in (op.inputs[0], op.outputs[0]))
        return x.is_float and (not y.is_float or y.bits < x.bits)
    return op.op_name in STEPS


def step_walks(
    op: Op, inputs: list[list[Array]], exact: Array, bound: Array, rng: np.random.Generator
) -> tuple[list[Array], Array]:
    """Return the perturbed results of an op that rounds, and the bound of each element.

    The operand, whose values in each evaluation come first in `inputs`, is a standard deviation of its `bound` off in
    either direction.
    """
    x, *others = inputs
    if op.op_name == "quantize":  # divides first
        bound = bound + units_of(x[0])
    size = np.where(np.isfinite(bound), bound, 0.0) / DEVIATIONS
    disturbed = [
        op.reference([disturb(x[0], size, rng), *(y[number] for y in others)])[0]
        for number in range(1, len(x))
    ]
    first = [values[0] for values in inputs]
    return disturbed, reach_of(op, first, 0, bound, exact, [[walk] for walk in disturbed])


def reach_of(
    op: Op,
    arrays: list[Array],
    number: int,
    bound: Array,
    exact: Array,
    disturbed: Sequence[Sequence[Array]],
) -> Array:
    """Return how far results may be from the exact ones where operand `number` is within its bound.

    As far as at either end of it, at a turning point between them, or as in one of the perturbed evaluations.
    """
    size = np.where(np.isfinite(bound), bound, 0.0)
    ends = [
        (arrays[number].astype(np.float64) + end).astype(arrays[number].dtype)
        for end in (-size, size)
    ]
    found = [op.reference([*arrays[:number], end, *arrays[number + 1 :]])[0] for end in ends]
    reach = np.zeros(exact.shape)
    extremes = _extremes(op, arrays[number].astype(np.float64), size, exact)
    for result in (*found, *extremes, *(walk[0] for walk in disturbed)):
        reach = np.maximum(reach, _distance(result, exact))
    return reach


def _extremes(op: Op, x: Array, size: Array, exact: Array) -> list[Array]:
    """The results of a periodic function where an extreme lies within `size` of x, `exact` elsewhere."""
    if op.op_name not in TURNING_POINTS:
        return []
    results = []
    for extreme, half in ((1.0, 0.0), (-1.0, 1.0)):
        first = (TURNING_POINTS[op.op_name] + half) * np.pi
        next_one = first + np.ceil((x - size - first) / (2 * np.pi)) * 2 * np.pi
        results.append(np.where(next_one <= x + size, extreme, exact))
    return results


def _distance(result: Array, exact: Array) -> Array:
    off = np.abs(result.astype(np.float64) - exact.astype(np.float64))
    return np.where(np.isfinite(off), off, 0.0)
