"""Bad HLO text: full messages with line and column, truncations, flipped bytes, nesting, blow-ups."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.base.errors import GraphcError, UnsupportedError, UserError
from graphc.frontend import load
from graphc.frontend.hlo import import_hlo, load_hlo, parse_hlo
from support.hlo_text import ADD, module

X = "x = f32[2] parameter(0)\n"
DEEP = 100_000


def message(text: str) -> str:
    """The error of a text that must not be read."""
    with pytest.raises(UserError) as caught:
        import_hlo(parse_hlo(text, "m.hlo"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (X + "y = f32[2] add(x, z)", "5:21: 'z' must be defined before it is used"),
        (X + "x = f32[2] negate(x)", "5:3: a name must be defined once, got 'x' again"),
        (X + "ROOT y = negate(x)\nROOT z = negate(x)", "6:3: there must be one ROOT, 'y' is one already"),
        (X + "y = f32[2] call(x), to_apply=g", "5:32: computation 'g' must be defined before it is used"),
        (X + "y = f32[2] conditional(x, x), branch_computations={g}",
         "5:33: computation 'g' must be defined before it is used"),
        ("x = f32[2] parameter(1)", "3:1: the parameters of 'e' must be numbered from 0, got 1"),
        (X + "y = f32[2] add(x, x", "6:1: expected ',' or ')', got '}'"),
        (X + "y f32[2] add(x, x)", "5:5: expected '=', got 'f32[2] add(x, x)'"),
        (X + "y=f32[2] add(x, x)", "5:3: expected an instruction or '}', got 'y=f32[2] add(x, x)'"),
        (X + "y = f32[2]", "6:1: expected an opcode, got '}'"),
        (X + "y = f32[2] add x", "5:18: expected '(' after 'add', got 'x'"),
        (X + "y = iota(), iota_dimension=0, iota_dimension=0",
         "5:33: an attribute must be given once, got 'iota_dimension' again"),
        (X + "y = negate(x), 3", "5:18: expected the name of an attribute, got '3'"),
        (X + "y = negate(x), k=z", "5:20: expected an integer, got 'z'"),
        (X + "y = negate(x), largest=1", "5:26: expected true or false, got '1'"),
        (X + "y = negate(x), window={size=3 pad=1_1x0_0}",
         "5:25: the fields of a window must have an entry for each axis of size=, got {size=3 pad=1_1x0_0}"),
        (X + "y = negate(x), window={size=3 pad=1}", "5:25: a window's pad must be such as 1_1x0_1, got 1"),
        (X + "y = negate(x), dimensions={0,a}", "5:29: expected a list of integers such as {0,2}, got '{0,a}'"),
        (X + "y = negate(x), padding=1", "5:26: expected padding such as 0_1x0_1, got '1'"),
        (X + "y = negate(x), dim_labels=b0f", "5:29: expected labels such as b01f_01io->b01f, got 'b0f'"),
        (X + "y = negate(x), slice={[0]}", "5:24: expected ranges such as {[0:5], [2:9:3]}, got '{[0]}'"),
        (X + "y = negate(x), epsilon=a", "5:26: expected a number, got 'a'"),
        (X + "y = negate(x), direction=1", "5:28: expected a word, got '1'"),
        ("x = f32[2,] parameter(0)", "4:7: a size must be an integer, '<=' or '?', got ''"),
        ("x = f32[2]{0:Q} parameter(0)", "4:7: 'Q' must be the properties of a layout"),
        (X + "y = negate(x), window={length=3}",
         "5:25: the fields of a window must be of size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal, "
         "got 'length'"),
        (X + "y = negate(x), loose=[(]", "5:26: brackets must match, got ']' in '[(]'"),
        (X + "y = negate(x) /* open", "5:17: a comment must end with '*/', got the end of the text"),
        (X + 'y = negate(x), s="open', '5:20: a string must end with ", got the end of the text'),
        (X + "y = negate(x) / x", "5:17: no token of HLO text starts with '/'"),
        ("x = constant(1)", "4:3: a constant must have its shape written"),
        ("x = s8[] constant(300)", "4:20: an element of s8[] must be a s8 value, got '300'"),
        ("x = f32[2]{1,0} parameter(0)", "4:7: a layout must name each of the 1 axes of f32[2] once, got {1,0}"),
        ("x = f32[-2] parameter(0)", "4:7: sizes must not be negative, got -2"),
        ("x = token[2] parameter(0)", "4:7: token must be written token[]"),
        (f"x = f32[{'9' * 10**6}] parameter(0)", "4:7: a number must fit 64 bits, got one of 1000000 digits"),
        (f"x = f32[2] parameter({'9' * 10**6})", "4:24: a number must fit 64 bits, got one of 1000000 digits"),
        (f"x = negate(), dimensions={{{'9' * 10**6}}}",
         "4:28: a number must fit 64 bits, got one of 1000000 digits"),
        ("x = " + "(" * DEEP, "4:72: nesting must not exceed 64 levels"),
        ("x = " + "add(" * DEEP, "4:267: nesting must not exceed 64 levels"),
        ("x = c64[] constant(" + "(" * DEEP + ")" * DEEP, "4:85: nesting must not exceed 64 levels"),
        ("x = f32[1] constant(" + "{" * DEEP + "})",
         "4:22: a literal must have the structure of f32[1], got a '{' that is not closed"),
        ("x = f32[] thing(), metadata=" + "{" * DEEP, "4:95: nesting must not exceed 64 levels"),
        ("x = f32[] thing(), backend_config=" + '{"a":' * DEEP, "4:357: nesting must not exceed 64 levels"),
        ("x = f32[] thing(), loose=" + "[" * DEEP, "4:92: nesting must not exceed 64 levels"),
        ("x = f32[] call(), to_apply=" + "{ x = f32[] call(), to_apply=" * DEEP,
         "4:1886: nesting must not exceed 64 levels"),
    ],
)  # fmt: skip
def test_messages(body: str, expected: str) -> None:
    text = module(body)
    if "open" in body:
        text = text.removesuffix("\n}\n")
    assert message(text) == f"m.hlo:{expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: an HLO module must hold a computation"),
        ("HloModule", "1:10: expected the name of the module, got the end of the text"),
        ("HloModule m\ne { }", "2:1: computation 'e' must hold an instruction"),
        ("HloModule m\ne { x = f32[] constant(1) } e { x = f32[] constant(1) }",
         "2:29: the name of a computation must be used once, got 'e' again"),
        ("ENTRY a { x = f32[] constant(1) }\nENTRY b { x = f32[] constant(1) }",
         "2:1: there must be one ENTRY, 'a' is one already"),
        ("e (x: f32[2]) -> f32[3] { x = f32[2] parameter(0) }",
         "1:1: computation 'e': its result must be f32[3] as in its signature, got f32[2]"),
        ("HloModule m\nFileNames\n1 2", "3:3: expected a string or '{', got '2'"),
    ],
)  # fmt: skip
def test_messages_about_modules(text: str, expected: str) -> None:
    assert message(text) == f"m.hlo:{expected}"


def test_calls_that_blow_up() -> None:
    chain = ["g0 { x = f32[] parameter(0) ROOT r = f32[] negate(x) }"]
    chain += [
        f"g{i} {{ x = f32[] parameter(0) a = f32[] call(x), to_apply=g{i - 1} "
        f"ROOT r = f32[] call(a), to_apply=g{i - 1} }}"
        for i in range(1, 70)
    ]
    assert message("\n".join(chain)) == "m.hlo: a module must not have calls nested deeper than 64"


def test_doubling_calls_stop_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphc.frontend.hlo.importer.MAX_INLINED", 1000)
    chain = ["g0 { x = f32[] parameter(0) ROOT r = f32[] negate(x) }"]
    chain += [
        f"g{i} {{ x = f32[] parameter(0) a = f32[] call(x), to_apply=g{i - 1} "
        f"ROOT r = f32[] call(a), to_apply=g{i - 1} }}"
        for i in range(1, 40)
    ]
    assert message("\n".join(chain)) == (
        "m.hlo: a module must not have more than 1000 instructions after inlining"
    )


def test_doubling_branches_are_counted_at_once() -> None:
    level = "x = (f32[4], pred[]) parameter(0) a = f32[4] get-tuple-element(x), index=0"
    chain = [f"{side}40 {{ {level} ROOT r = f32[4] negate(a) }}" for side in "te"]
    chain += [
        f"{side}{i} {{ {level} c = pred[] get-tuple-element(x), index=1 ROOT r = f32[4] "
        f"conditional(c, x, x), true_computation=t{i + 1}, false_computation=e{i + 1} }}"
        for i in reversed(range(40))
        for side in "te"
    ]
    assert message("\n".join(chain[:-1])) == (
        "m.hlo: a module must not have more than 2000000 instructions after inlining"
    )


def test_everything_unsupported_is_listed_at_once() -> None:
    text = module(
        """x = f32[4] parameter(0)
        c = f6e2m3fn[4] stochastic-convert(x, x)
        a = f32[4] ragged-dot(x, x, x)
        b = f32[4] ragged-dot(x, x, x)
        ROOT r = f32[4] rng(x, x), distribution=rng_normal"""
    )
    with pytest.raises(UnsupportedError) as caught:
        import_hlo(parse_hlo(text, "m.hlo"))
    assert str(caught.value) == (
        "m.hlo: these opcodes are not supported: ragged-dot (2x), rng (1x: its values differ from run to "
        "run, so pass them as inputs or use rng-bit-generator), stochastic-convert (1x); "
        "these element types are not supported: f6e2m3fn (1x); "
        "use others (docs/reference/operators.md lists those that are read) or define them (`graphc.ops.define`); "
        "convert the model to another type, such as float32"
    )
    text = module(
        """x = f32[4] parameter(0)
        a = f32[4] custom-call(x), custom_call_target="first"
        ROOT r = f32[4] custom-call(a), custom_call_target="lapack_sgehrd_ffi" """
    )
    with pytest.raises(UnsupportedError) as caught:
        import_hlo(parse_hlo(text, "m.hlo"))
    assert str(caught.value) == (
        "m.hlo:5:3: custom-call 'a': target 'first' is not supported; export the model for the CPU, without it; "
        "m.hlo:6:3: custom-call 'r': a Hessenberg reduction (target 'lapack_sgehrd_ffi') is not supported; "
        "compute it outside of the model (of real matrices, geqrf, gesdd, gesvd, getrf, orgqr, potrf, syevd, trsm "
        "are supported)"
    )


def test_sizes_without_a_bound_are_named() -> None:
    text = module("x = f32[?,4] parameter(0)\n ROOT r = f32[?,4] abs(x)")
    with pytest.raises(UnsupportedError) as caught:
        import_hlo(parse_hlo(text, "m.hlo"))
    assert str(caught.value) == (
        "m.hlo: these shapes without a bound are not supported: f32[?,4] (2x); "
        "give each size a number, or a bound (`<=8`)"
    )


def test_elided_constants_are_listed_and_supplied(tmp_path: Path) -> None:
    import numpy as np

    text = module(
        """a = f32[20] constant({...})
        b = f32[20] constant({...})
        ROOT r = f32[20] add(a, b)"""
    )
    assert message(text) == (
        "m.hlo: the text leaves out the elements of these constants: 'a', 'b'; "
        "give arrays for them with constants="
    )
    path = tmp_path / "m.hlo"
    path.write_text(text)
    ones = np.ones(20, np.float32)
    (result,) = load(path, constants={"a": ones, "b": 2 * ones}).evaluate([])
    np.testing.assert_array_equal(result, 3 * ones)
    with pytest.raises(UserError) as caught:
        load(path, constants={"a": ones[:3], "b": ones})
    assert str(caught.value) == "constant 'a' must be f32[20], got an array float32[3]"


def test_files_and_specs(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text("// a comment\n" + module(X + "ROOT y = negate(x)"))
    assert load(path).inputs[0].name == "x"
    assert load(path.read_bytes(), {"x": "f32[2]"}).inputs[0].name == "x"
    for specs, expected in (
        ({"y": "f32[2]"}, "graph 'm': there is no input 'y'; its inputs are 'x'"),
        (
            {"x": "f32[3]"},
            "graph 'm': input 'x': the file declares f32[2], got f32[3]; fixed sizes must agree",
        ),
    ):
        with pytest.raises(UserError) as caught:
            load(path, specs)
        assert str(caught.value) == expected
    missing, binary = tmp_path / "no.hlo", tmp_path / "b.hlo"
    binary.write_bytes(b"HloModule m\xff")
    for wrong, expected in (
        (missing, f"there is no file '{missing}'; check its name and its folder"),
        (binary, f"{binary} line 1: a file of HLO must be UTF-8 text"),
        (tmp_path, f"cannot read '{tmp_path}' (Is a directory); give a file in it"),
    ):
        with pytest.raises(UserError) as caught:
            load_hlo(wrong)
        assert str(caught.value) == expected


SAMPLE = module(
    """x = (f32[2,3]{1,0}, s32[]) parameter(0)
    c = f32[2,3] constant({ {1, 2.5, -inf}, {nan, 0, 1e-3} })
    i = s32[] get-tuple-element((f32[2,3], s32[]) %x), index=1
    s = f32[1,2]{1,0} slice(x#0), slice={[0:1], [0:3:2]}, metadata={op_name="a}" line=3}
    p = f32[2,3] pad(s, f32[] constant(0)), padding=0_1x0_0_1, backend_config={"k":["}"]}
    d = f32[3,3] dot(p, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}
    ROOT r = (f32[3], s32[]) tuple(reduce(d, f32[] constant(0)), i)""",
    ADD,
).replace("tuple(reduce(d, f32[] constant(0)), i)", "tuple(q, i)").replace(
    "ROOT r = (", "q = f32[3] reduce(d, f32[] constant(0)), dimensions={1}, to_apply=add_f32\n  ROOT r = ("
)  # fmt: skip


def test_sample_is_read() -> None:
    assert len(import_hlo(parse_hlo(SAMPLE)).outputs) == 2


def test_truncation_at_every_token() -> None:
    ends = [found.end() for found in re.finditer(r"[\w.]+|[^\w\s]", SAMPLE)]
    positions = [offset for end in ends for offset in (end - 1, end)]
    assert len(positions) > 300
    for offset in positions:
        text = SAMPLE[:offset]
        try:
            import_hlo(parse_hlo(text, "m.hlo"))
        except GraphcError as error:
            assert re.match(r"m\.hlo:(\d+:\d+)?", str(error))
            assert "\n" not in str(error)


@given(
    st.lists(
        st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 127)), min_size=1, max_size=4
    )
)
def test_flipped_bytes(flips: list[tuple[int, int]]) -> None:
    data = bytearray(SAMPLE.encode())
    for offset, value in flips:
        data[offset] ^= value
    try:
        load_hlo(bytes(data))
    except GraphcError as error:
        assert "\n" not in str(error)


PIECES = [*"{}()[],=%:#\"'/*x1.-_ \n", "f32[2]", "ROOT ", "add"]


@given(st.lists(st.sampled_from(PIECES), max_size=60))
def test_soup(pieces: list[str]) -> None:
    text = "".join(pieces)
    for whole in (text, module(X + text)):
        try:
            import_hlo(parse_hlo(whole))
        except GraphcError:
            continue
