import numpy as np
import pytest

import graphc
from graphc.base.dtypes import by_name
from graphc.base.errors import UserError
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.elementwise_binary import AB, ROWS
from support.check_op import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    SIGNED,
    check_op,
    make_op,
    pairs,
    random_array,
)
from support.compiled import graph_of_op

RANDOM = np.random.default_rng(0)
ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": lambda a, b: np.where(np.isnan(a) | np.isnan(b), a + b, np.where(a < b, a, b)),
    "max": lambda a, b: np.where(np.isnan(a) | np.isnan(b), a + b, np.where(a > b, a, b)),
}
BITS = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def test_every_op_of_the_family_is_checked():
    assert {*ARITHMETIC, *BITS, "pow", "atan2", "shl", "shr"} == {
        row.name for row in ROWS if row.inputs == AB and not row.attrs and row.result is None
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name, dtype):
    check_op(name, pairs(dtype), expected=ARITHMETIC[name])


@pytest.mark.parametrize(
    "shapes", [[(), ()], [(3,), ()], [(), (2, 2)], [(2, 1, 3), (4, 1)], [(0,), (1,)], [(1,), (0, 1)], [(5,), (5,)]]
)  # fmt: skip
def test_broadcast(shapes):
    a, b = (random_array("f32", shape, seed) for seed, shape in enumerate(shapes))
    assert check_op("add", [a, b], expected=a + b).shape == np.broadcast_shapes(*shapes)


@pytest.mark.parametrize("name", BITS)
def test_bool_logic(name):
    check_op(name, pairs("bool"), expected=BITS[name])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype):
    a, b = pairs(dtype)
    check_op("and", [a, b], expected=a & b)
    check_op("or", [a, b], expected=a | b)
    check_op("xor", [a, b], expected=a ^ b)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_too_much_leave_zero_or_the_sign(dtype):
    a, _ = pairs(dtype)
    bits = a.dtype.itemsize * 8
    b = np.array([0, 1, bits - 1, bits, bits + 1, 100], a.dtype)[None, :]
    modulus, sign = 1 << bits, np.dtype(dtype_name(dtype)).kind == "i"
    left = [[_wrap(int(x) << int(n), modulus, sign) for n in b[0]] for x in a[:, 0]]
    right = [[int(x) >> int(n) for n in b[0]] for x in a[:, 0]]
    check_op("shl", [a, b], expected=np.array(left, a.dtype))
    check_op("shr", [a, b], expected=np.array(right, a.dtype))


def dtype_name(dtype):
    return {"s": "int", "u": "uint"}[dtype[0]] + dtype[1:]


def _wrap(value, modulus, signed):
    value %= modulus
    return value - modulus if signed and value >= modulus // 2 else value


@pytest.mark.parametrize("dtype", SIGNED)
def test_negative_shifts_count_as_too_much(dtype):
    a, _ = pairs(dtype)
    b = np.full((1, 1), -1, a.dtype)
    check_op("shl", [a, b], expected=np.zeros_like(a))
    check_op("shr", [a, b], expected=np.where(a < 0, -1, 0).astype(a.dtype))


# --- division ------------------------------------------------------------------------------------------------------


def _exact(a, b, rounding):
    """(quotient, remainder) in Python integers."""
    if b == 0:
        return 0, 0
    quotient = a // b
    if rounding == "trunc" and quotient < 0 and quotient * b != a:
        quotient += 1
    return quotient, a - quotient * b


def _table(a, b, rounding, which):
    bits, signed = a.dtype.itemsize * 8, a.dtype.kind == "i"
    rows = [
        [_wrap(_exact(int(x), int(y), rounding)[which], 1 << bits, signed) for y in b[0]]
        for x in a[:, 0]
    ]
    return np.array(rows, a.dtype)


@pytest.mark.parametrize("rounding", ["floor", "trunc"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_div_and_mod(dtype, rounding):
    a, b = pairs(dtype)
    check_op("div", [a, b], {"rounding": rounding}, expected=_table(a, b, rounding, 0))
    check_op("mod", [a, b], {"sign": rounding}, expected=_table(a, b, rounding, 1))


def test_integer_div_defaults_to_floor_and_guards_zero_and_overflow():
    a = np.array([-7, 7, -128, -128, 5], np.int8)
    b = np.array([2, -2, -1, 0, 0], np.int8)
    check_op("div", [a, b], expected=np.array([-4, -4, -128, 0, 0], np.int8))


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_div(dtype):
    check_op("div", pairs(dtype), expected=np.divide)
    check_op("div", pairs(dtype), {"rounding": "trunc"}, expected=np.divide)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("sign", "formula"), [("floor", np.mod), ("trunc", np.fmod)])
def test_float_mod(dtype, sign, formula):
    values = np.array([0.0, 1, 0.1, 0.3, 2.5, 7.25, 1000, 12345, 1e20, 1e38, 1e-20, 3e-38, np.inf])
    values = np.concatenate([values, -values, [np.nan]])
    with np.errstate(over="ignore"):
        values = values.astype(random_array(dtype, ()).dtype)
    check_op("mod", [values[:, None], values[None, :]], {"sign": sign}, expected=formula)


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx2", "generic"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("sign", "formula"), [("floor", np.mod), ("trunc", np.fmod)])
def test_float_mod_of_every_quotient(dtype, sign, formula, target):
    """Exact, signs of zeros included; f64 quotients that overflow too."""
    kind = by_name(dtype).numpy
    x, y = RANDOM.integers(0, 1 << kind.itemsize * 8, (2, 37, 53), f"u{kind.itemsize}").view(kind)
    x[0], y[0] = 6 * RANDOM.integers(-9, 10, 53), RANDOM.choice([3, -3], 53)
    graph = Graph("mod")
    inputs = [graph.make_input(LogicalTensor(by_name(dtype), x.shape), name) for name in "xy"]
    graph.make_output(graph.make("mod", inputs, {"sign": sign}).outputs[0], "z")
    found = compile_model(graph, target=target, threads=1)(x, y)
    with np.errstate(all="ignore"):
        wanted = formula(x, y)
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


# --- power ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_pow(dtype):
    values = np.array([0.0, 1, -1, 0.5, 2, -3, 10, np.inf, -np.inf, np.nan])
    a = values.astype(random_array(dtype, ()).dtype)
    check_op("pow", [a[:, None], a[None, :]], expected=np.power)


@pytest.mark.parametrize("dtype", ["s8", "s16", "u8", "u16", "s32", "u32"])
def test_integer_pow(dtype):
    a, _ = pairs(dtype)
    signed = a.dtype.kind == "i"
    bits = a.dtype.itemsize * 8
    b = np.array(([-3, -2, -1] if signed else []) + [0, 1, 2, 3, 5, bits - 1, bits], a.dtype)

    def power(x, n):
        if n < 0:
            return x ** (n % 2) if abs(x) == 1 else 0
        return _wrap(x**n, 1 << bits, signed)

    table = [[power(int(x), int(n)) for n in b] for x in a[:, 0]]
    check_op("pow", [a, b[None, :]], expected=np.array(table, a.dtype))


@pytest.mark.parametrize(("dtype", "base"), [("s64", 3), ("u64", 3), ("s64", -2)])
def test_integer_pow_in_64_bits(dtype, base):
    a = np.array([base, 1, 0], random_array(dtype, ()).dtype)
    b = np.array([39, 63, 2], a.dtype)
    expected = [_wrap(base**39, 1 << 64, dtype == "s64"), 1, 0]
    check_op("pow", [a, b], expected=np.array(expected, a.dtype))


def test_minus_one_to_a_large_power_keeps_its_parity():
    a = np.array([-1, -1, 1, 2], np.int8)
    check_op("pow", [a, np.array([101, 100, 127, 100], np.int8)], expected=[-1, 1, 1, 0])


def test_atan2():
    check_op("atan2", pairs("f32"), expected=np.arctan2)


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtypes", "shapes", "attrs", "message"),
    [
        ("add", ("f32", "f64"), ((2,), (2,)), {},
         "add 'x': inputs must have one dtype, got f32 and f64; insert a cast"),
        ("add", ("f32", "f32"), ((2, 3), (4,)), {}, "add 'x': input shapes must broadcast, got [2, 3] and [4]"),
        ("add", ("bool", "bool"), ((2,), (2,)), {},
         "add 'x': input dtype must be a float or an integer, got bool; insert a cast"),
        ("shl", ("f32", "f32"), ((2,), (2,)), {}, "shl 'x': input dtype must be an integer, got f32; insert a cast"),
        ("add", ("f32",), ((2,),), {}, "add 'x': inputs must be a, b, got 1 inputs"),
        ("div", ("s8", "s8"), ((2,), (2,)), {"rounding": "up"},
         "div 'x': rounding must be one of floor, trunc, got 'up'"),
        ("mod", ("s8", "s8"), ((2,), (2,)), {"sign": "c"}, "mod 'x': sign must be one of floor, trunc, got 'c'"),
    ],
)  # fmt: skip
def test_rejects(name, dtypes, shapes, attrs, message):
    arrays = [random_array(d, s) for d, s in zip(dtypes, shapes, strict=True)]
    with pytest.raises(UserError) as error:
        make_op(name, arrays, attrs)
    assert str(error.value) == message


@pytest.mark.exhaustive
@pytest.mark.parametrize("rounding", ["floor", "trunc"])
@pytest.mark.parametrize("dtype", ["s8", "s16", "s32", "s64"])
@pytest.mark.parametrize("target", ["native", "avx2", "generic"])
def test_integer_quotients_of_vectors_are_exact(target, dtype, rounding):
    """Next to whole quotients, where one rounded in f64 would show."""
    rng, limits = np.random.default_rng(2), np.iinfo(by_name(dtype).numpy)
    b = rng.integers(1, limits.max // 2, 600, endpoint=True) * rng.choice([-1, 1], 600)
    a = rng.integers(limits.min // abs(b) + 1, limits.max // abs(b)) * b + rng.integers(-1, 2, 600)
    arrays = [v.clip(limits.min, limits.max).astype(by_name(dtype).numpy) for v in (a, b)]
    graph = graph_of_op("div", arrays, {"rounding": rounding})
    found = graphc.compile(graph, target)(*arrays)
    exact = [int(p) // int(q) for p, q in zip(*arrays, strict=True)]
    if rounding == "trunc":
        exact = [
            abs(int(p)) // abs(int(q)) * (1 if (p < 0) == (q < 0) else -1)
            for p, q in zip(*arrays, strict=True)
        ]
    np.testing.assert_array_equal(found, exact)
