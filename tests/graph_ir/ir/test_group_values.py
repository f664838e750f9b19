"""Names and types of what a group reads."""

from graphc.base.dtypes import BF16, F32
from graphc.graph_ir.ir.group_values import GroupValues, narrow, parameters, widen
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Buffer, Cast, Load, Var
from support.lowered import build


def test_sixteen_bit_floats_are_widened_and_narrowed() -> None:
    x = Var("x", BF16)
    assert widen(x) == Cast(x, F32)
    assert widen(Var("y", F32)) == Var("y", F32)
    assert narrow(Var("y", F32), BF16) == Cast(Var("y", F32), BF16)


def test_a_value_used_twice_is_computed_once() -> None:
    graph = build({"a": (4,)}, lambda make, x: make("mul", *[make("neg", x["a"])] * 2))
    a, y = graph.inputs[0].outputs[0], graph.outputs[0].inputs[0]
    values = GroupValues({a: Buffer("a", F32, (4,))})
    values.read(y)((t.as_expr(0),))
    loads = [let for let in values.lets if isinstance(let.value, Load)]
    assert len(loads) == 1
    assert len(values.lets) == 3


def test_values_are_named_after_what_computes_them() -> None:
    graph = build({"20.bias": (4,)}, lambda make, x: make("relu", make("neg", x["20.bias"])))
    a, y = graph.inputs[0].outputs[0], graph.outputs[0].inputs[0]
    values = GroupValues({a: Buffer("in0", F32, (4,))}, suffix="s")
    values.read(y)((t.as_expr(0),))
    assert [let.var.name for let in values.lets] == ["in0_sv0", "neg_sv1", "relu_sv2"]


def test_parameters_are_numbered_and_appear_once() -> None:
    graph = build({"a/b": (4,)}, lambda make, x: make("neg", x["a/b"]))
    a, y = graph.inputs[0].outputs[0], graph.outputs[0].inputs[0]
    names = [b.name for b in parameters([a, a], [y]).values()]
    assert names == ["in0", "out0"]
