"""The syntax tree, in all dialects."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.frontend.hlo import import_hlo, parse_hlo
from graphc.frontend.hlo.shapes import Layout, Shape, tuple_shape
from graphc.frontend.hlo.syntax import (
    Attribute,
    Called,
    DimLabels,
    Operand,
    PadRange,
    Raw,
    SliceRange,
    WindowDimension,
    Word,
)
from support.hlo_text import ADD, module

LONG = """HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[2]{0}, /*index=5*/f32[2]{0})->f32[2]{0}}

%f (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  ROOT %n = f32[2]{0} negate(f32[2]{0} %p)
}

ENTRY %main (x: f32[2], y: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0), sharding={replicated}
  %y = f32[2]{0} parameter(1)
  %c = f32[2]{0} call(f32[2]{0} %x), to_apply=%f, metadata={op_type="Mul" op_name="a/}b" source_line=3}
  ROOT %add.3 = f32[2]{0} add(f32[2]{0} %c, f32[2]{0} %y)
}
"""
SHORT = """HloModule jit_f

f {
  p = f32[2] parameter(0)
  ROOT n = f32[2] negate(p)
}

ENTRY main {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  c = f32[2] call(x), to_apply=f
  ROOT add.3 = f32[2] add(c, y)
}
"""
NEW = """HloModule jit_f:

FileNames
1 "a.py"
2 "b\\"c.py"

FileLocations
1 {file_name_id=1 line=3 column=5}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%f (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  ROOT %n = f32[2]{0} negate(%p), metadata={stack_frame_id=1}
}, execution_thread="main"

ENTRY %main {
  %x = f32[2]{0} parameter(0)
  %y = f32[2]{0} parameter(1)
  %c = f32[2]{0} call(%x), to_apply=%f
  ROOT %add.3 = f32[2]{0} add(%c, %y)
}
"""


@pytest.mark.parametrize("text", [LONG, SHORT, NEW])
def test_dialects(text: str) -> None:
    tree = parse_hlo(text)
    assert (tree.name, tree.entry, list(tree.computations)) == ("jit_f", "main", ["f", "main"])
    entry = tree.computations["main"]
    assert [(i.name, i.opcode) for i in entry.instructions] == [
        ("x", "parameter"),
        ("y", "parameter"),
        ("c", "call"),
        ("add.3", "add"),
    ]
    assert entry.root == "add.3"
    assert entry.is_entry
    assert [(o.name, o.path) for o in entry.instructions[3].operands] == [("c", ()), ("y", ())]
    assert entry.instructions[2].attributes["to_apply"] == Called("f")
    assert entry.instructions[3].shape is not None
    assert entry.instructions[3].shape.logical() == "f32[2]"


@pytest.mark.parametrize(
    "written", ["(a f32[2], b f32[2])", "(x: f32[2])", "(x: s8[4,4], y: pred[])"]
)
def test_parameters_of_a_signature_are_comments(written: str) -> None:
    text = (
        f"ENTRY e {written} -> f32[2] {{ p = f32[2] parameter(0) q = f32[2] parameter(1)\n"
        "ROOT r = f32[2] subtract(p, q) }"
    )
    (y,) = import_hlo(parse_hlo(text)).evaluate([np.array(v, np.float32) for v in ([3, 4], [1, 1])])
    assert y.tolist() == [2, 3]


def test_header_tables_and_signature() -> None:
    tree = parse_hlo(LONG)
    assert list(tree.attributes) == ["is_scheduled", "entry_computation_layout"]
    signature = tree.computations["f"].signature
    assert signature == ((("p", Shape("f32", (2,))),), Shape("f32", (2,)))
    call = tree.computations["main"].instructions[2]
    assert call.attributes["metadata"] == Raw('{op_type="Mul" op_name="a/}b" source_line=3}')
    assert tree.origin.position(call.position) == (11, 3)
    new = parse_hlo(NEW)
    assert new.tables == {
        "FileNames": {1: "a.py", 2: 'b"c.py'},
        "FileLocations": {1: {"file_name_id": 1, "line": 3, "column": 5}},
        "StackFrames": {1: {"file_location_id": 1, "parent_frame_id": 1}},
    }
    assert new.computations["f"].execution_thread == "main"


def attribute(text: str, before: str = "") -> Attribute:
    """The value of an attribute on an opcode without a shape rule."""
    tree = parse_hlo(module(f"ROOT r = f32[2] thing(), {text}", before))
    (instruction,) = tree.computations["e"].instructions
    (value,) = instruction.attributes.values()
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dimensions={0,2}", (0, 2)),
        ("dimensions={}", ()),
        ("slice_sizes={{128,32}}", ((128, 32),)),
            ("slice_sizes={{1,8}, {2,8}}", ((1, 8), (2, 8))),
        ("dimensions={ 0 /*a*/, 1 }", (0, 1)),
        ("index=3", 3),
        ("largest=false", False),
        ("epsilon=1e-05", 1e-05),
        ("epsilon=.5", 0.5),
        ("direction=GT", Word("GT")),
        ('custom_call_target="a\\x41\\n\\"\\101"', 'aA\n"A'),
        ("custom_call_target='x'", "x"),
        ("to_apply=add_f32", Called("add_f32")),
        ("branch_computations={%add_f32, add_f32}", (Called("add_f32"), Called("add_f32"))),
        ("slice={[0:5:1], [2:9:3]}", (SliceRange(0, 5), SliceRange(2, 9, 3))),
        ("slice={[1:5]}", (SliceRange(1, 5),)),
        ("padding=0_0x-1_1_2", (PadRange(0, 0), PadRange(-1, 1, 2))),
        ("dim_labels=b01f_01io->b01f", DimLabels("b01f", "01io", "b01f")),
        ("dim_labels=bf?_oi0->0bf", DimLabels("bf?", "oi0", "0bf")),
        ("window={}", ()),
        ("window={size=3 pad=1_1}", (WindowDimension(3, low=1, high=1),)),
        (
            "window={stride=2x2 size=3x4 pad=0_1x-1_0 lhs_dilate=1x2 rhs_dilate=3x1 rhs_reversal=1x0}",
            (WindowDimension(3, 2, 0, 1, 1, 3, 1), WindowDimension(4, 2, -1, 0, 2, 1, 0)),
        ),
        ("backend_config=\"a\\\"}\"", '"a\\"}"'),
        ('backend_config={"a":[{"b":"}\'"}]}', Raw('{"a":[{"b":"}\'"}]}')),
        ("replica_groups=[2,4]<=[8]T(1,0)", Raw("[2,4]<=[8]T(1,0)")),
        ("sharding={devices=[2,1]<=[2]}", Raw("{devices=[2,1]<=[2]}")),
        ("unheard_of={{0}: (1, {}), \"}\"}", Raw('{{0}: (1, {}), "}"}')),
        ("api_version=API_VERSION_X", Raw("API_VERSION_X")),
        ("channel_id=1", 1),
        ("replica_groups=[1,2]<=[2]", Raw("[1,2]<=[2]")),
    ],
)  # fmt: skip
def test_attributes(text: str, value: Attribute) -> None:
    assert attribute(text, ADD) == value


def shape(text: str) -> Shape | None:
    return (
        parse_hlo(module(f"ROOT r = {text} parameter(0)")).computations["e"].instructions[0].shape
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32[]", Shape("f32")),
        ("f32[]{}", Shape("f32", layout=Layout(()))),
        ("f32[2,3]{0,1}", Shape("f32", (2, 3), Layout((0, 1)))),
        ("f32[2, 3] { 1, 0 }", Shape("f32", (2, 3), Layout((1, 0)))),
        ("bf16[<=4,?]", Shape("bf16", (4, -1), dynamic=(0, 1))),
        ("f8e4m3b11fnuz[1]", Shape("f8e4m3b11fnuz", (1,))),
        ("token[]", Shape("token")),
        ("b(f32[2])", Shape("f32", (2,))),
        ("()", tuple_shape(())),
        ("((f32[], s32[2]), /*index=1*/pred[])",
         tuple_shape((tuple_shape((Shape("f32"), Shape("s32", (2,)))), Shape("pred")))),
        ("f32[8,128]{1,0:T(8,128)(2,1)S(1)}", Shape("f32", (8, 128), Layout((1, 0), "T(8,128)(2,1)S(1)"))),
        ("s4[2]{0:E(4)}", Shape("s4", (2,), Layout((0,), "E(4)"))),
    ],
)  # fmt: skip
def test_shapes(text: str, expected: Shape) -> None:
    assert shape(text) == expected


def test_texts_without_header_entry_or_root() -> None:
    tree = parse_hlo("a { x = f32[2] parameter(0) }\nb { x = f32[2] parameter(0) y = negate(x) }")
    assert tree.entry == "b"
    assert tree.computations["b"].root == "y"
    for text in ("f32[2] add(f32[2] a, f32[2] %b)", "ROOT %r = f32[2] add(f32[2] a, f32[2] b)"):
        (bare,) = parse_hlo(text).computations.values()
        assert [p.name for p in bare.parameters] == ["a", "b"]
        assert bare.instructions[-1].opcode == "add"


def test_nested_operations_inline_bodies_and_tuple_paths() -> None:
    text = module(
        """t = ((f32[2], s32[]), f32[2]) parameter(0)
        ROOT r = call(add(negate(t#0#0), f32[2] constant({1, 2}))), to_apply={
        %1 = f32[2] parameter(0) ROOT %HloModule = abs(%1) }"""
    )
    tree = parse_hlo(text)
    entry = tree.computations["e"]
    assert [i.opcode for i in entry.instructions] == [
        "parameter", "negate", "constant", "add", "call",
    ]  # fmt: skip
    assert entry.instructions[1].operands == (Operand("t", (0, 0)),)
    called = entry.instructions[-1].attributes["to_apply"]
    assert isinstance(called, Called)
    body = tree.computations[called.name]
    assert body.root == "HloModule"
    assert body.instructions[0].name == "1"


def test_brace_after_a_shape_may_open_the_body() -> None:
    tree = parse_hlo("ENTRY e (x: f32[2])->f32[2]{ x = f32[2]{0} parameter(0) }//end")
    assert tree.computations["e"].root == "x"
    tree = parse_hlo("ENTRY e () -> f32[] { ROOT root = f32[]{} constant(1) }")
    assert tree.computations["e"].root == "root"


def test_comments_are_anywhere() -> None:
    plain = parse_hlo(SHORT)
    noisy = parse_hlo(
        SHORT.replace(" ", " /*index=5*/ // x\n").replace("HloModule //", "HloModule")
    )
    assert [c.name for c in noisy.computations.values()] == list(plain.computations)
