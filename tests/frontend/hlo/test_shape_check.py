"""Inferred shapes against written ones: messages, and shapes that are left out."""

from __future__ import annotations

import pytest

from graphc.base.errors import UserError
from graphc.frontend.hlo import import_hlo, parse_hlo
from graphc.frontend.hlo.shapes import HLO_NAMES
from graphc.graph_ir.ir.graph import Graph
from support.hlo_text import ADD, module, one_op


def read(text: str) -> Graph:
    """The graph of a text, whose shapes are checked by the import."""
    return import_hlo(parse_hlo(text, "m.hlo"))


@pytest.mark.parametrize(
    ("shapes", "operation", "expected"),
    [
        (["f32[2,3]"], "transpose(p0), dimensions={1,0}", "f32[3,2]"),
        (["f32[5,3]"], "slice(p0), slice={[1:5:2],[0:2]}", "f32[2,2]"),
        (["f32[2,3]", "f32[4,3]"], "concatenate(p0, p1), dimensions={0}", "f32[6,3]"),
        (["f32[2,3]", "f32[]"], "pad(p0, p1), padding=1_-1_2x0_1", "f32[4,4]"),
        (["f32[2,3]", "f32[2,3]"], "compare(p0, p1), direction=LT", "pred[2,3]"),
        (["pred[]", "f32[2]", "f32[2]"], "select(p0, p1, p2)", "f32[2]"),
        (["f32[7,2,3]", "f32[7,3,4]"],
         "dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
         "f32[7,2,4]"),
        (["f32[2,3,4]", "f32[]"], "reduce(p0, p1), dimensions={0,2}, to_apply=add_f32", "f32[3]"),
        (["f32[6,6]", "f32[]"], "reduce-window(p0, p1), window={size=3x1 stride=2x1 pad=1_0x0_0}, to_apply=add_f32",
         "f32[3,6]"),
        (["f32[1,8,8,3]", "f32[3,3,3,5]"],
         "convolution(p0, p1), window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f", "f32[1,4,4,5]"),
        (["f32[5,6]", "s32[]", "s32[]"], "dynamic-slice(p0, p1, p2), dynamic_slice_sizes={2,3}", "f32[2,3]"),
        (["f32[7,4]", "s32[2,2,1]"],
         "gather(p0, p1), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, "
         "slice_sizes={1,4}", "f32[2,2,4]"),
        (["f32[4,9]"], "topk(p0), k=2, largest=true", "(f32[4,2], s32[4,2])"),
        (["(f32[2], s32[])"], "get-tuple-element(p0), index=1", "s32[]"),
        (["f32[2]", "s32[]"], "tuple(p0, p1)", "(f32[2], s32[])"),
        (["f32[2]"], "is-finite(p0)", "pred[2]"),
    ],
)  # fmt: skip
def test_shapes_left_out_are_inferred(shapes: list[str], operation: str, expected: str) -> None:
    found = [op.inputs[0].details for op in read(one_op(shapes, "", operation, ADD)).outputs]
    results = [f"{HLO_NAMES[x.dtype]}{list(x.plain_dims)}".replace(" ", "") for x in found]
    assert expected in (results[0], f"({', '.join(results)})")
    read(one_op(shapes, expected, operation, ADD))
    with pytest.raises(UserError) as caught:
        read(one_op(shapes, "u8[9,9]", operation, ADD))
    # The result of a dot may be of another type than its operands.
    wanted = expected.replace("f32", "u8") if operation.startswith(("dot", "conv")) else expected
    assert str(caught.value).endswith(f"must be {wanted}, got u8[9,9]")


@pytest.mark.parametrize(
    ("shapes", "result", "operation", "expected"),
    [
        (["f32[2]"], "f32[2]", "add(p0)", "add 'r': it must have 2 operands, got 1"),
        (["f32[2]", "f32[3]"], "f32[2]", "add(p0, p1)",
         "add 'r': operands must have one shape, got f32[2] and f32[3]"),
        (["f32[2]"], "f32[3]", "negate(p0)", "negate 'r': its shape must be f32[2], got f32[3]"),
        (["f32[2]"], "f32[2]", "negate(f32[3] p0)", "negate 'r': operand 'p0' must be written as f32[2], got f32[3]"),
        (["f32[2]"], "f32[2]", "negate(p0#1)", "negate 'r': 'p0' of shape f32[2] must have the element 1"),
        (["(f32[2])"], "f32[2]", "negate(p0)", "negate 'r': operand 0 must be an array, got (f32[2])"),
        (["(f32[2])"], "f32[2]", "get-tuple-element(p0), index=1",
         "get-tuple-element 'r': index must be that of an element of (f32[2]), got 1"),
        (["f32[2,3]"], "f32[3,2]", "transpose(p0), dimensions={0,0}",
         "transpose 'r': dimensions must be distinct axes below 2, got {0,0}"),
        (["f32[2,3]"], "f32[7]", "reshape(p0)", "reshape 'r': f32[2,3] and f32[7] must have as many elements"),
        (["f32[3]"], "f32[2,4]", "broadcast(p0), dimensions={1}",
         "broadcast 'r': dimensions must map every axis of f32[3] to one of f32[2,4] of its size, got {1}"),
        (["f32[3]"], "f32[2,3]", "broadcast(p0)", "broadcast 'r': attribute 'dimensions' must be given"),
        (["f32[3]"], "f32[4]", "slice(p0), slice={[0:4]}",
         "slice 'r': the range of axis 0 must lie in its 3 elements, got [0:4:1]"),
        (["f32[3]", "f32[]"], "f32[]", "pad(p0, p1), padding=-2_-2",
         "pad 'r': axis 0 of 3 elements must be long enough for mode constant, got -2 before and -2 after"),
        (["f32[2,3]", "f32[2,4]"], "f32[2]", "dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
         "dot 'r': contracting sizes must agree, got [3] and [4]"),
        (["f32[2,3]", "s32[]"], "f32[2]", "reduce(p0, p1), dimensions={2}, to_apply=add_f32",
         "reduce 'r': dimensions must be distinct axes below 2, got {2}"),
        (["f32[2]", "s32[]"], "f32[]", "call(p0, p1), to_apply=add_f32",
         "call 'r': to_apply takes (f32[], f32[]), but is given (f32[2], s32[])"),
        (["f32[2]"], "", "convert(p0)", "convert 'r': its shape must be written"),
        (["f32[2]"], "s8[3]", "bitcast(p0)", "bitcast 'r': f32[2] and s8[3] must have as many bits"),
        (["pred[2]", "f32[3]", "f32[3]"], "f32[3]", "select(p0, p1, p2)",
         "select 'r': operand 0 must be pred[] or pred[3], got pred[2]"),
        (["f32[1,8,3]", "f32[3,4,5]"], "f32[1,6,5]", "convolution(p0, p1), window={size=3}, dim_labels=b0f_0io->b0f",
         "convolution 'r': input features must be 4 times 1 groups, got 3"),
        (["f32[1,8,3]", "f32[3,3,5]"], "f32[1,6,5]", "convolution(p0, p1), window={size=3}, dim_labels=b0f_0io->b1f",
         "convolution 'r': dim_labels must name b, f and 1 spatial axes, got 'b1f'"),
        ([], "f32[3]", "iota(), iota_dimension=1", "iota 'r': iota_dimension must be an axis of f32[3], got 1"),
    ],
)  # fmt: skip
def test_mismatches(shapes: list[str], result: str, operation: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        read(one_op(shapes, result, operation, ADD))
    line = 10 + len(shapes)
    assert str(caught.value) == f"m.hlo:{line}:3: {expected}"


def test_control_flow() -> None:
    before = (
        "c { s = (s32[], f32[2]) parameter(0) ROOT p = pred[] compare(s#0, s#0), direction=LT }\n"
        "b { s = (s32[], f32[2]) parameter(0) ROOT n = (f32[2], s32[]) tuple(s#1, s#0) }\n"
    )
    text = module(
        "x = (s32[], f32[2]) parameter(0)\nROOT w = while(x), condition=c, body=b", before
    )
    with pytest.raises(UserError) as caught:
        read(text)
    assert str(caught.value) == (
        "m.hlo:7:3: while 'w': body must give (s32[], f32[2]), got (f32[2], s32[])"
    )


@pytest.mark.parametrize(
    ("unused", "expected"),
    [
        ("u { a = f32[] parameter(0) ROOT r = s32[] negate(a) }",
         "m.hlo:3:28: negate 'r': its shape must be f32[], got s32[]"),
        ("u { a = f32[2] parameter(0) ROOT r = while(a), condition=g, body=g }",
         "m.hlo:4:29: while 'r': condition must give pred[], got f32[2]"),
    ],
)  # fmt: skip
def test_computations_that_nothing_uses_are_checked(unused: str, expected: str) -> None:
    before = "g { a = f32[2] parameter(0) ROOT r = negate(a) }\n" if "body" in unused else ""
    with pytest.raises(UserError) as caught:
        read(module("ROOT x = f32[2] parameter(0)", before + unused + "\n"))
    assert str(caught.value) == expected


def test_unused_computations_that_double_are_checked_once_each() -> None:
    chain = ["g0 { x = f32[] parameter(0) ROOT r = f32[] negate(x) }"]
    chain += [
        f"g{i} {{ x = f32[] parameter(0) a = f32[] call(x), to_apply=g{i - 1} "
        f"ROOT r = f32[] call(a), to_apply=g{i - 1} }}"
        for i in range(1, 40)
    ]
    read("\n".join([*chain, "ENTRY e { ROOT x = f32[] parameter(0) }"]))


def test_layouts_do_not_matter() -> None:
    read(one_op(["f32[2,3]{0,1}"], "f32[2,3]{1,0}", "negate(f32[2,3] p0)"))
