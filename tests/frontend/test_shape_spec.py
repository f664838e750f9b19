from __future__ import annotations

import pytest

from graphc.base import dtypes
from graphc.base.dims import Symbol, size
from graphc.base.errors import UserError
from graphc.frontend.shape_spec import InputSpec, check_names, check_size, parse_inputs, parse_spec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("f32[8,13]", InputSpec("", dtypes.F32, (8, 13))),
        ("x=f32[8,13]", InputSpec("x", dtypes.F32, (8, 13))),
        (" x = bf16[ 1 , 2 ] ", InputSpec("x", dtypes.BF16, (1, 2))),
        ("s64[]", InputSpec("", dtypes.S64, ())),
        ("a=b:0=u8[0,7]", InputSpec("a=b:0", dtypes.U8, (0, 7))),
    ],
)
def test_texts(text: str, spec: InputSpec) -> None:
    assert parse_spec(text) == spec
    assert parse_spec(str(spec)) == spec


KNOWN = (
    "known are f64, f32, f16, bf16, s8, s16, s32, s64, u8, u16, u32, u64, bool, f8e4m3fn, f8e4m3fnuz, f8e5m2, "
    "f8e5m2fnuz, f8e8m0fnu, f4e2m1fn, s4, u4, s2, u2"
)
LIKE = "like f32[8,13] or x=f32[8,13]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"input spec '' must end with the shape in brackets, {LIKE}"),
        ("f32", f"input spec 'f32' must end with the shape in brackets, {LIKE}"),
        ("x=f32[8,13", f"input spec 'x=f32[8,13' must end with the shape in brackets, {LIKE}"),
        ("f32[8]x", f"input spec 'f32[8]x' must end with the shape in brackets, {LIKE}"),
        ("=f32[8]", f"input spec '=f32[8]' must have a name before '=', {LIKE}"),
        ("x=[8]", f"input spec 'x=[8]' must name a dtype before '[', {LIKE}"),
        ("q32[8]", f"input spec 'q32[8]': dtype 'q32' is not known; {KNOWN}"),
        (
            "f32[8,,13]",
            "input spec 'f32[8,,13]': every dimension must be a number from 0 to 10^18, or dynamic, "
            f"like N, N=1..64 or 1..64, got ''; write it {LIKE}",
        ),
        (
            "f32[-1]",
            "input spec 'f32[-1]': every dimension must be a number from 0 to 10^18, or dynamic, "
            f"like N, N=1..64 or 1..64, got '-1'; write it {LIKE}",
        ),
        (
            "f32[8]]",
            "input spec 'f32[8]]': every dimension must be a number from 0 to 10^18, or dynamic, "
            f"like N, N=1..64 or 1..64, got '8]'; write it {LIKE}",
        ),
        (
            "f32[1000000,1000000]",
            "input spec 'f32[1000000,1000000]': a tensor must not exceed 1 TiB, got f32[1000000,1000000]",
        ),
        (5, f"input spec must be a text {LIKE}, got 5"),
    ],
)
def test_malformed_texts(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_spec(text)
    assert str(error.value) == message


@pytest.mark.parametrize("digits", ["9" * 100_000, "٣", "1_0", "+1", "1e3", "²"])
def test_dimensions_are_plain_short_numbers(digits: str) -> None:
    with pytest.raises(UserError, match="every dimension must be a number from 0 to"):
        parse_spec(f"f32[{digits}]")


def test_inputs_by_name() -> None:
    assert parse_inputs(None) == {}
    specs = parse_inputs({"x": "f32[8,13]", "y": "y=s64[1]"})
    assert specs == {
        "x": InputSpec("x", dtypes.F32, (8, 13)),
        "y": InputSpec("y", dtypes.S64, (1,)),
    }


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {None: "f32[8]"},
            "inputs must map input names to texts like 'f32[8,13]', got {None: 'f32[8]'}",
        ),
        (["f32[8]"], "inputs must map input names to texts like 'f32[8,13]', got ['f32[8]']"),
        ({"x": (8, 13)}, "input 'x': spec must be a text like 'f32[8,13]', got (8, 13)"),
        ({"x": "y=f32[8]"}, "input 'x': its spec must name the same input or none, got 'y'"),
    ],
)
def test_inputs_of_the_wrong_kind(inputs: object, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_inputs(inputs)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_sizes_are_computed_in_python_integers() -> None:
    check_size("x", dtypes.F32, (1 << 38,))
    for dims in ((1 << 62, 4), (0, 1 << 62), (1 << 40,)):
        with pytest.raises(UserError, match="x: a tensor must not exceed 1 TiB"):
            check_size("x", dtypes.F32, dims)
    with pytest.raises(UserError, match=r"^x: dimensions must not be negative, got f32\[2,-1\]$"):
        check_size("x", dtypes.F32, (2, -1))


def test_names_that_are_not_known() -> None:
    check_names("m", "input", ["a"], {"a"})
    with pytest.raises(UserError, match="^m: there is no input 'z'; its inputs are 'a', 'b'$"):
        check_names("m", "input", ["a", "z"], ["a", "b"])
    with pytest.raises(UserError, match="^m: there is no constant 'z'; its parameters are none$"):
        check_names("m", "constant", ["z"], [], "parameters")


def test_dynamic_sizes() -> None:
    (n,) = parse_spec("x=f32[N=1..64]").dims
    assert n == size(Symbol("N", 1, 64))
    assert parse_spec("f32[3, ..7, ?]", "my x").dims == (
        3,
        size(Symbol("my_x_1", 1, 7)),
        size(Symbol("my_x_2")),
    )
    specs = parse_inputs({"x": "f32[N,4]", "y": "s8[N=2..9]"})
    assert specs["x"].dims == (size(Symbol("N", 2, 9)), 4)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (
            {"x": "f32[N=9..2]"},
            "input spec 'f32[N=9..2]': size 'N' must have a range from 0 to 2^31 - 1 that",
        ),
        ({"x": "f32[3..2]"}, "input spec 'f32[3..2]': size 'x_0' must have a range from 0"),
        (
            {"x": "f32[N=1..2]", "y": "f32[N=1..3]"},
            "size 'N' must have one range, got 1..2 and 1..3",
        ),
        ({"x": "f32[N=]"}, "input spec 'f32[N=]': every dimension must be a number"),
        ({"x": "f32[N+1]"}, "input spec 'f32[N+1]': every dimension must be a number"),
    ],
)
def test_wrong_dynamic_sizes(specs: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_inputs(specs)
    assert str(error.value).startswith(message)
