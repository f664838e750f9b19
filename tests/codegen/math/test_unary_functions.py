"""Every function of one argument: its error, its special values, and native code with the bits of NumPy's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F64
from graphc.codegen.elf.object_file import read_object
from graphc.codegen.math import MATH, MATH_F64
from graphc.codegen.numpy_vector_ops import NumpyVectorOps
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tensor_ir.intrinsics import INTRINSICS
from support.vector_math import (
    STRIDE,
    Array,
    check,
    check_native,
    f32_inputs,
    native,
    near,
    through_numpy,
)

INF, NAN, TINY = np.inf, np.nan, 1e-45
ELSEWHERE = {"pow", "atan2", "fmod", "exp_nonpositive", "exp_weight"}
"""Functions with tests of their own: of two arguments, or of half the numbers."""


@dataclass(frozen=True)
class Function:
    """Error bound and test points of a function: `bound` in ULP (`unfused`: without FMA, if another).

    `points`: all f32 next to them and their negatives are tried, beside every `stride`-th f32 and an even grid over
    the range `steps`. `special`: (argument, result) pairs whose results must have that value and sign.
    """

    bound: float
    points: tuple[float, ...]
    special: tuple[tuple[float, float], ...]
    unfused: float | None = None
    steps: tuple[float, float] | None = None
    stride: int = STRIDE

    def inputs(self) -> Array:
        steps = np.linspace(*self.steps, 200_001) if self.steps else np.empty(0)
        points = near(*self.points)
        return np.concatenate([f32_inputs(self.stride), points, steps.astype(np.float32)])


SAME = tuple((x, x) for x in (0.0, -0.0, NAN, TINY, -TINY))
"""Special values of functions that are their argument next to zero."""
GATE = ((NAN, NAN), (INF, INF), (-INF, NAN), (3e38, 3e38), (-3e38, -0.0), (0.0, 0.0), (-0.0, -0.0))
"""Special values of functions that are x for large x, and x times 0 for negative x."""
ANGLES = (1e-30, 0.78539816, 1.5707964, 3.1415927, 9.0071993e15, 2.4178516e24, 6.4903711e32, 3.4e38)
UNDEFINED = ((INF, NAN), (-INF, NAN))

FUNCTIONS = {
    "exp": Function(
        1.2, (1e-30, 88.72284, 87.33655, 103.97208, 0.3465736, 1.0),
        ((-INF, 0.0), (INF, INF), (NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (88.72284, INF), (-104.0, 0.0), (-103.97, TINY),
         (TINY, 1.0)),
    ),
    "expm1": Function(
        1.7, (1e-30, 88.72284, 17.32868, 0.3465736, 1.0397208, 18.0, 1.0),
        (*SAME, (-INF, -1.0), (INF, INF), (-18.5, -1.0), (1e30, INF)),
    ),
    "log": Function(
        1.3, (1.0, 0.70710678, 1.41421356, 1.17549435e-38, 2.0, 0.5),
        ((0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-TINY, NAN), (-INF, NAN), (INF, INF), (NAN, NAN), (1.0, 0.0)),
    ),
    "log1p": Function(
        1.85, (1e-30, 1.0, 0.41421356, 0.29289322, 1.8284271, 3.4e38),
        (*SAME, (-1.0, -INF), (-1.0000001, NAN), (-INF, NAN), (INF, INF)),
    ),
    "tanh": Function(
        2.0, (1e-30, 0.625, 1.0, 9.010913, 9.1, 0.17328680),
        (*SAME, (INF, 1.0), (-INF, -1.0), (1e30, 1.0), (-20.0, -1.0)),
    ),
    "erf": Function(
        1.85, (1e-30, 1.0, 3.8325, 4.0, 0.5), (*SAME, (INF, 1.0), (-INF, -1.0), (1e30, 1.0), (-4.0, -1.0)),
    ),
    "sin": Function(0.8, ANGLES, (*SAME, *UNDEFINED), stride=16411),
    "cos": Function(0.8, ANGLES, ((0.0, 1.0), (-0.0, 1.0), (NAN, NAN), (TINY, 1.0), *UNDEFINED), stride=16411),
    "tan": Function(0.8, ANGLES, (*SAME, *UNDEFINED), stride=16411),
    "asin": Function(0.7, (1e-30, 0.5, 1.0), (*SAME, (1.0000001, NAN), (-2.0, NAN), *UNDEFINED), stride=16411),
    "acos": Function(
        0.7, (1e-30, 0.5, 1.0), ((1.0, 0.0), (1.0000001, NAN), (-2.0, NAN), (NAN, NAN), *UNDEFINED), stride=16411,
    ),
    "atan": Function(
        1.6, (1e-30, 1.0, 1.1, 0.5, 1e7), (*SAME, (INF, np.pi / 2), (-INF, -np.pi / 2), (3e38, np.pi / 2)),
    ),
    "sinh": Function(
        0.6, (1e-30, 0.0625, 1.0, 89.41599, 128.0), (*SAME, (INF, INF), (-INF, -INF), (-1e30, -INF)), stride=16411,
    ),
    "cosh": Function(
        0.6, (1e-30, 0.0625, 1.0, 89.41599, 128.0),
        ((0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (-1e30, INF), (NAN, NAN)), stride=16411,
    ),
    "asinh": Function(0.6, (1e-30, 0.0625, 1.0, 0.3535534), (*SAME, (INF, INF), (-INF, -INF)), stride=16411),
    "acosh": Function(
        0.6, (1.0, 1.0606602, 2.0),
        ((1.0, 0.0), (0.99999994, NAN), (-3.0, NAN), (-INF, NAN), (INF, INF), (NAN, NAN), (0.0, NAN)), stride=16411,
    ),
    "atanh": Function(
        0.6, (1e-30, 0.1715729, 0.5, 1.0), (*SAME, (1.0, INF), (-1.0, -INF), (1.0000001, NAN), *UNDEFINED),
        stride=16411,
    ),
    "sigmoid": Function(
        2.0, (1e-30, 1.0, 87.3365, 88.7228),
        ((NAN, NAN), (INF, 1.0), (-INF, 0.0), (3e38, 1.0), (-3e38, 0.0), (0.0, 0.5), (-0.0, 0.5), (-103.0, TINY)),
        steps=(-105, 20),
    ),
    "silu": Function(
        3.0, (1e-30, 1.0, 87.3365, 88.7228), (*GATE, (TINY, 0.0)), unfused=3.5, steps=(-109, 20),
    ),
    "gelu": Function(4.0, (1e-30, 0.01, 1.0, 5.3, 13.0), (*GATE, (TINY, TINY)), unfused=70, steps=(-14.5, 5)),
    # About -4.91 the exponential is 2**24 times a fraction, to which adding 1 in the wrong order cost a whole unit.
    "gelu_tanh": Function(
        3.0, (1e-30, 1.0, 4.91238, 5.3, 10.0), (*GATE, (TINY, 0.0)), unfused=300, steps=(-10.9, 5),
    ),
    "mish": Function(4.5, (1e-30, 1.0, 15.0, 87.3365), (*GATE, (TINY, TINY)), steps=(-109, 20)),
    "softplus": Function(
        2.5, (1e-30, 1.0, 87.3365, 88.7228),
        ((NAN, NAN), (INF, INF), (-INF, 0.0), (3e38, 3e38), (-3e38, 0.0), (-103.0, TINY)), steps=(-105, 20),
    ),
}  # fmt: skip
each = pytest.mark.parametrize("name", FUNCTIONS)
with_and_without_fma = pytest.mark.parametrize("has_fma", [True, False])


def test_no_function_is_left_out() -> None:
    assert {*FUNCTIONS, *ELSEWHERE} == {*MATH}


@pytest.mark.exhaustive
@each
@with_and_without_fma
def test_error_is_within_the_promised_bound(name: str, has_fma: bool) -> None:
    function = FUNCTIONS[name]
    bound = function.bound if has_fma or function.unfused is None else function.unfused
    check(name, INTRINSICS[name].meaning, bound, function.inputs(), has_fma=has_fma)


@pytest.mark.exhaustive
@each
@with_and_without_fma
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_native_code_gives_the_same_bits(name: str, lanes: int, has_fma: bool) -> None:
    check_native(name, lanes, has_fma, f32_inputs(65521))


@each
@pytest.mark.parametrize("has_scalef", [True, False])
def test_special_values(name: str, has_scalef: bool) -> None:
    x, expected = np.array(FUNCTIONS[name].special, np.float32).T
    got = through_numpy(name, x, has_scalef=has_scalef)
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["exp", "sigmoid", "silu", "softplus"])
def test_scaling_in_one_instruction_gives_the_same_bits(name: str) -> None:
    x = FUNCTIONS[name].inputs()
    ours, theirs = (through_numpy(name, x, has_scalef=has) for has in (True, False))
    np.testing.assert_array_equal(ours.view(np.int32), theirs.view(np.int32))


def test_large_angles_do_not_change_their_neighbors() -> None:
    x = near(0.7853982, 2.3561945, 33554432.0, count=200)
    mixed = np.repeat(x, 8)
    mixed[7::8] = 1e30  # in each vector, as wide as they are
    sine = native("sin", 8, True)
    np.testing.assert_array_equal(sine(mixed)[::8], sine(np.repeat(x, 8))[::8])


FUNCTIONS_F64 = {
    "log_f64": {"log": (0.53, 0, np.log)},
    "log1p_f64": {
        "log1p": (0.51, -1, np.log1p), "asinh": (0.6, -INF, np.arcsinh), "acosh": (0.6, 1, np.arccosh),
        "atanh": (0.6, -1, np.arctanh),
    },
    "hyperbolic_f64": {
        "expm1": (0.65, -INF, np.expm1), "sinh": (0.65, -INF, np.sinh), "cosh": (0.65, -INF, np.cosh),
        "tanh": (0.6, -INF, np.tanh),
    },
    "circular_f64": {
        "sin": (0.7, -INF, np.sin), "cos": (0.7, -INF, np.cos), "tan": (0.8, -INF, np.tan),
    },
    "inverse_f64": {
        "asin": (0.6, -1, np.arcsin), "acos": (0.6, -1, np.arccos), "atan": (0.6, -INF, np.arctan),
        "atan2": (0.6, -INF, np.arctan2),
    },
    "pow_f64": {"pow": (0.65, 0, np.power)},
    "erf_f64": {},  # no extended precision
}  # fmt: skip
"""Functions of f64 by their file: the bound of their error in ULP, the least argument, and the reference."""

FILES_F64: dict[str, dict[str, Any]] = dict(FUNCTIONS_F64)
CASES_F64 = {name: case for cases in FILES_F64.values() for name, case in cases.items()}


def inputs_f64(least: float, seed: int) -> Array:
    """Numbers of every magnitude, around 1, and next to multiples of a quarter turn."""
    random = np.random.default_rng(seed)
    sizes = np.exp(random.uniform(-740, 709, 4000))
    around = random.uniform(-8, 8, 4000)
    angles = np.arange(1, 2000) * np.pi / 2
    found = np.concatenate(
        [sizes, -sizes, around, angles, 1 - sizes[sizes < 1e-3], [5e-324, 1.7e308]]
    )
    return found[found > least]


def errors_f64(name: str, found: Array, arguments: list[Array]) -> Array:
    """Errors in ULP against extended precision; of results that it has beyond f64, 0."""
    with np.errstate(all="ignore"):
        exact = CASES_F64[name][2](*(a.astype(np.longdouble) for a in arguments))
        rounded = exact.astype(np.float64)
        error = np.abs(found - exact) / np.spacing(np.abs(rounded))
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(same & ~np.isfinite(rounded), 0, error).astype(np.float64)


@pytest.mark.parametrize("has_fma", [True, False])
@pytest.mark.parametrize("name", CASES_F64)
def test_errors_of_f64(name: str, has_fma: bool) -> None:
    bound, least, _ = CASES_F64[name]
    arguments = [inputs_f64(least, seed) for seed in range(INTRINSICS[name].arity)]
    if len(arguments) == 2:
        rows = min(map(len, arguments))
        arguments = [np.random.default_rng(2).permutation(a)[:rows] for a in arguments]
        arguments[1] = np.where(np.arange(rows) % 2, arguments[1], arguments[1] % 8)
    with np.errstate(all="ignore"):
        found = MATH_F64[name](NumpyVectorOps(has_fma).wide, *arguments)
    error = errors_f64(name, found, arguments)
    at = int(np.nanargmax(error))
    assert error[at] <= bound, [float(a[at]) for a in arguments]


@pytest.mark.parametrize("name", CASES_F64)
def test_special_values_of_f64(name: str) -> None:
    """NumPy has the same, signs of zeros included."""
    values = np.array([0, 0.5, 1, 2, 3, 710, 800, 2.0**53, 2.0**52 + 1, 1e300, 5e-324, INF, NAN])
    values = np.concatenate([values, -values])
    grid = (
        [a.ravel() for a in np.meshgrid(values, values)]
        if INTRINSICS[name].arity == 2
        else [values]
    )
    with np.errstate(all="ignore"):
        found = MATH_F64[name](NumpyVectorOps(bits=64), *grid)
        wanted = CASES_F64[name][2](*grid)
    np.testing.assert_allclose(found, wanted, rtol=5e-16)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("has_fma", [True, False])
def test_powers_of_integers_are_exact(has_fma: bool) -> None:
    base, power = (a.ravel().astype(float) for a in np.meshgrid(np.arange(-30, 31), np.arange(11)))
    found = MATH_F64["pow"](NumpyVectorOps(has_fma).wide, base, power)
    np.testing.assert_array_equal(
        found, np.array([int(b) ** int(p) for b, p in zip(base, power, strict=True)], float)
    )


@pytest.mark.parametrize("name", ["erf", "erfc"])
@pytest.mark.parametrize("has_fma", [True, False])
def test_error_functions_of_f64(name: str, has_fma: bool) -> None:
    """Against libm's, whose error is below 1 ULP."""
    x = np.concatenate([inputs_f64(-INF, 0), np.linspace(-27, 27, 5001), [0.0, -0.0, INF, -INF]])
    with np.errstate(all="ignore"):
        found = MATH_F64[name](NumpyVectorOps(has_fma).wide, x)
    wanted = np.array([getattr(math, name)(value) for value in x])
    error = np.abs(found - wanted) / np.spacing(np.maximum(np.abs(wanted), 1e-300))
    assert error.max() <= (2 if name == "erf" else 4), float(x[error.argmax()])
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    assert np.isnan(MATH_F64[name](NumpyVectorOps(bits=64), np.array([NAN])))[0]


@pytest.mark.parametrize("level", ["native", "generic"])
@pytest.mark.parametrize("name", ["sin", "tan", "pow", "erf", "log1p", "atan2", "sinh"])
def test_native_code_of_f64_has_the_bits_of_numpy_and_calls_nothing(name: str, level: str) -> None:
    """NumPy's fused multiply-add is exact where no error term is denormal."""
    every = [inputs_f64(-INF, seed) for seed in range(INTRINSICS[name].arity)]
    arguments = [x[(abs(x) > 1e-140) & (abs(x) < 1e140)][:1003] for x in every]
    graph = Graph("function")
    given = [
        graph.make_input(LogicalTensor(F64, x.shape), f"x{i}") for i, x in enumerate(arguments)
    ]
    graph.make_output(graph.make(name, given).outputs[0])
    model = compile_model(graph, target=level, threads=1)
    with np.errstate(all="ignore"):
        wanted = MATH_F64[name](NumpyVectorOps(level == "native").wide, *arguments)
    np.testing.assert_array_equal(model(*arguments), wanted)
    symbols = read_object(model.artifact.object_code).symbols
    assert not [symbol.name for symbol in symbols if symbol.name and symbol.piece is None]
