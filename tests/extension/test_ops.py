"""Ops that user code defines: checked as graphc's own, compiled, and replaced by a new definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphc
from graphc.base.dtypes import BF16, BOOL, F32, S32
from graphc.base.errors import UserError
from graphc.extension.ops import AxisAttr, LogicalTensor, StrAttr, define, optional
from graphc.frontend import load
from graphc.graph_ir.inspect.compare import difference
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from graphc.tools.convert import convert
from support.check_op import check_op, random_array
from support.onnx_models import model, node
from support.user_ops import define_root_mean, graph_with


def compiled(graph: Graph, *arrays: Any) -> Any:
    model = graphc.compile(graph, threads=1, cache=False)
    found = model(*arrays)
    expected = graph.evaluate(list(arrays))
    for one, wanted in zip(
        found if isinstance(found, (list, tuple)) else [found], expected, strict=True
    ):
        assert difference(one, wanted).ok
    return found


def define_shift(by: float) -> None:
    define(
        "shift", "x plus a number.", attrs={"by": by}, accepts=("float",),
        element=lambda x, by: x + by, reference=lambda x, by: x + by,
    )  # fmt: skip


def test_an_elementwise_op_is_checked_printed_compiled_and_fused() -> None:
    define_shift(1.5)
    for dtype in ("f64", "f32", "f16", "bf16"):
        check_op("shift", [random_array(dtype, (3, 5))], {"by": 0.25}, lambda x: x + 0.25)
    graph = graph_with("shift", by=0.5)
    assert "attrs = {by: 0.5}" in print_graph(graph)
    assert print_graph(parse_graph(print_graph(graph, full=True))) == print_graph(graph)
    x = random_array("f32", (6, 21))
    np.testing.assert_array_equal(compiled(graph, x), (np.maximum(x, 0) + np.float32(0.5)) * 2)
    model = graphc.compile(graph, cache=False)
    (call,) = model.stats["calls"]
    assert call["note"].startswith("before -> op -> after [")


def test_a_composed_op_is_made_of_its_parts() -> None:
    define_root_mean()
    x = random_array("f32", (6, 21))
    check_op(
        "root_mean",
        [x],
        {"eps": 0.5},
        lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.5),
        factor=4,
    )
    check_op("root_mean", [x, random_array("f32", (21,), 1)], factor=4)
    compiled(graph_with(), x)


def test_shapes_and_reference_of_a_composed_op_follow_from_its_parts() -> None:
    define("twice", "x + x.", compose=lambda make, x: make("add", x, x))
    define("pair", "x, and whether it is positive.",
           compose=lambda make, x: [make("neg", x), make("gt", x, make.scalar(0.0, F32))])  # fmt: skip
    graph = Graph("m")
    x = graph.make_input(LogicalTensor(F32, (2, 3)), "x")
    negated, positive = graph.make("pair", [graph.make("twice", [x]).outputs[0]]).outputs
    assert (negated.details, positive.details) == (
        LogicalTensor(F32, (2, 3)),
        LogicalTensor(BOOL, (2, 3)),
    )
    graph.make_output(negated, "n")
    graph.make_output(positive, "p")
    value = random_array("f32", (2, 3))
    found = compiled(graph, value)
    np.testing.assert_array_equal(found[0], value * -2)


def test_operands_and_attributes_of_every_kind() -> None:
    seen: list[Any] = []

    def infer(x: Any, scale: Any, rest: Any, **attrs: Any) -> Any:
        seen.append((x, scale, rest, attrs))
        return x

    define(
        "many", "x.", operands=("x", "scale?"), infer=lambda x, scale, **attrs: infer(x, scale, (), **attrs),
        compose=lambda make, x, scale, **attrs: make("copy", x),
        attrs={
            "axis": AxisAttr("which", default=-1), "flag": False, "count": int, "sizes": (1, 2), "factors": (0.5, 1),
            "mode": optional(StrAttr("how")),
        },
    )  # fmt: skip
    define("lots", "The first.", operands=("x", "rest..."),
           infer=lambda x, rest: infer(x, None, rest), compose=lambda make, x, rest: make("copy", x))  # fmt: skip
    graph = Graph("m")
    x = graph.make_input(LogicalTensor(F32, (2, 3)), "x")
    graph.make("many", [x], {"count": 3})
    attrs = {
        "axis": 1,
        "flag": False,
        "count": 3,
        "sizes": (1, 2),
        "factors": (0.5, 1.0),
        "mode": None,
    }
    assert seen.pop() == (x.details, None, (), attrs)
    graph.make("lots", [x, x, x])
    assert seen.pop() == (x.details, None, (x.details, x.details), {})
    with pytest.raises(
        UserError, match=r"^many 'many_1': attribute 'count' must be given, got no attributes$"
    ):
        graph.make("many", [x])
    with pytest.raises(
        UserError, match=r"^many 'many_2': unknown attribute 'cuont'; did you mean 'count'\?$"
    ):
        graph.make("many", [x], {"count": 1, "cuont": 2})
    with pytest.raises(
        UserError, match=r"^many 'many_3': inputs must be x, scale\?, got 3 inputs$"
    ):
        graph.make("many", [x, x, x], {"count": 1})


def test_a_new_definition_gives_new_results() -> None:
    x = np.ones((6, 21), np.float32)
    for by in (1.0, 2.0):
        define_shift(by)
        assert graphc.compile(graph_with("shift"))(x)[0, 0] == (1 + by) * 2


def test_a_reference_of_16_bit_floats_is_computed_in_float64_and_rounded_once() -> None:
    define(
        "third", "x / 3.", infer=lambda x: x, reference=lambda x: x / 3, compose=lambda make, x: x
    )
    graph = Graph("m")
    op = graph.make("third", [graph.make_input(LogicalTensor(BF16, (2,)), "x")])
    (found,) = op.reference([np.ones(2, BF16.numpy)])
    assert found.dtype == BF16.numpy and found[0] == np.float64(1 / 3).astype(BF16.numpy)


DECLARATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a name of graphc": ({"name": "relu"}, "op 'relu' must have a unique name: graphc has an op of this name"),
    "no name": ({"name": "a b"}, "op name must be letters, digits and _, not beginning with a digit, got 'a b'"),
    "an order": (
        {"operands": ("a?", "b")},
        "op 'o': operands that must be given come first, then optional ones, then one of any number, got a?, b",
    ),
    "a name twice": ({"attrs": {"x": 1}}, "op 'o': names of operands and attributes must differ, got 'x' twice"),
    "a name of every op": (
        {"attrs": {"name": 1}}, "op 'o': every op has a member 'name'; give the attribute another name",
    ),
    "a name of composed ops": (
        {"operands": "decompose"}, "op 'o': every op has a member 'decompose'; give the operand another name",
    ),
    "a name of definitions": (
        {"attrs": {"row": 1}}, "op 'o': every op has a member 'row'; give the attribute another name",
    ),
    "no declaration": (
        {"attrs": {"k": None}},
        "op 'o': attribute 'k' must be a declaration, a default or a type (bool, int, float, str), got None",
    ),
    "no functions": (
        {"compose": None},
        "op 'o' needs infer=: an op without compose= or element= is described by nothing else; it has no functions",
    ),
    "a formula without reference": (
        {"compose": None, "element": lambda x: x},
        "op 'o' needs reference=: an op with element= broadcasts its operands; it has element",
    ),
    "a formula and parts": (
        {"element": lambda x: x, "reference": lambda x: x},
        "op 'o' takes no compose=: an op with element= broadcasts its operands; it has reference, compose, element",
    ),
    "other arguments": (
        {"attrs": {"k": 1}}, "op 'o': compose must take (make, x, *, k), got (make, x)",
    ),
    "no function": ({"infer": 3}, "op 'o': infer must be a function, got int"),
    "types": (
        {"compose": None, "element": lambda x: x, "reference": lambda x: x, "accepts": "float"},
        "op 'o': accepts must be some of float, int, uint, bool, got 'float'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DECLARATIONS)
def test_a_bad_declaration_is_one_sentence(case: str) -> None:
    changes, message = DECLARATIONS[case]
    given: dict[str, Any] = {"name": "o", "meaning": "m", "compose": lambda make, x: x, **changes}
    with pytest.raises(UserError) as caught:
        define(given.pop("name"), given.pop("meaning"), **given)
    assert str(caught.value) == message


def _raises(*values: Any, **attrs: Any) -> Any:
    raise KeyError("rows")


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "infer raises": (
        {"infer": _raises},
        "root_mean 'op': infer raised KeyError: 'rows'; fix that function",
    ),
    "infer gives no type": (
        {"infer": lambda x, scale, *, eps: (2, 3)},
        "root_mean 'op': infer must return plain LogicalTensors, got 2",
    ),
    "compose raises": (
        {"compose": _raises},
        "root_mean 'op': compose raised KeyError: 'rows'; fix that function",
    ),
    "compose gives no tensor": (
        {"compose": lambda make, x, scale, *, eps: 3},
        "root_mean 'op': compose must return what make(...) returns, got 3",
    ),
    "compose gives another type": (
        {"compose": lambda make, x, scale, *, eps: make("cast", x, dtype="s32")},
        "root_mean 'op': compose must give what infer does, f32[6,21], got s32[6,21]",
    ),
    "reference raises": (
        {"reference": _raises},
        "root_mean 'op': reference raised KeyError: 'rows'; fix that function",
    ),
    "reference gives another shape": (
        {"reference": lambda x, scale, *, eps: x[0]},
        "root_mean 'op': reference must give the shapes of infer, [6, 21], got [21]",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_exception_of_user_code_is_the_error_of_its_author(case: str) -> None:
    changes, message = BROKEN[case]
    define_root_mean(**changes)
    with pytest.raises(UserError) as caught:
        graph = graph_with()
        graph.evaluate([np.ones((6, 21), np.float32)])
        graphc.compile(graph, cache=False)
    assert str(caught.value) == message


def test_an_op_without_a_way_to_run_is_refused_where_it_is_compiled() -> None:
    define_root_mean(compose=None)
    with pytest.raises(UserError) as caught:
        graphc.compile(graph_with(), cache=False)
    assert str(caught.value) == (
        "root_mean 'op': a kernel must accept it, got f32[6,21]; add one with graphc.kernel, or give "
        "graphc.ops.define a compose="
    )


def test_an_integer_op_of_another_result_type() -> None:
    define("above", "x > level.", attrs={"level": 3}, accepts=("int",), result=BOOL,
           element=lambda x, level: x > level, reference=lambda x, level: x > level)  # fmt: skip
    graph = Graph("m")
    x = graph.make_input(LogicalTensor(S32, (9,)), "x")
    graph.make_output(graph.make("above", [x]).outputs[0], "y")
    values = np.arange(9, dtype=np.int32)
    np.testing.assert_array_equal(compiled(graph, values), values > 3)


def test_formats_read_and_write_the_op_by_its_row(tmp_path: Path) -> None:
    define(
        "shift", "x plus a number.", attrs={"by": 0.5},
        compose=lambda make, x, by: make("add", x, make.scalar(by, F32)),
        onnx="com.example::Shift(x | amount=by)",
    )  # fmt: skip
    graph = graph_with("shift", by=2.5)
    (tmp_path / "m.graph").write_text(print_graph(graph, full=True))
    convert(str(tmp_path / "m.graph"), "onnx", tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    (made,) = (one for one in proto.graph.node if one.domain)
    assert (made.domain, made.op_type, made.attribute[0].name) == ("com.example", "Shift", "amount")
    assert {one.domain: one.version for one in proto.opset_import}["com.example"] == 1
    again = load(tmp_path / "m.onnx")
    (op,) = (op for op in again.ops if op.op_name == "shift")
    assert op.attrs == {"by": 2.5}
    compiled(again, random_array("f32", (6, 21)))


def test_a_type_that_graphc_reads_is_not_taken() -> None:
    given: dict[str, Any] = {"compose": lambda make, x: x}
    load(model([node("Relu", "x")], {"x": [2]}))  # ONNX's table is loaded
    with pytest.raises(
        UserError, match=r"^op 'mine': graphc reads onnx 'Relu' itself; give the op another type$"
    ):
        define("mine", "m", onnx="Relu(X)", **given)
    with pytest.raises(UserError, match=r"^op 'mine': onnx: 'Mine\(x' has no closing parenthesis$"):
        define("mine", "m", onnx="Mine(x", **given)
