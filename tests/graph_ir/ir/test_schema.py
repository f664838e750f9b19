"""Attributes and operands in `Graph.make`: checked, in one spelling, defaults left out."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F16, F32
from graphc.base.errors import InternalError, UserError
from graphc.graph_ir.ir.graph import Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.registry import lookup, names, schema_of
from support.every_op import EXAMPLES


def made(op_name: str, attrs: dict[str, Any], *dims: tuple[int, ...]) -> Op:
    graph = Graph()
    inputs = [graph.make_input(LogicalTensor(F32, d), f"in{i}") for i, d in enumerate(dims)]
    return graph.make(op_name, inputs, attrs, "it")


IMAGE = ((1, 3, 8, 8), (4, 3, 3, 3))


@pytest.mark.parametrize(
    ("op_name", "attrs", "dims", "message"),
    [
        ("convolution", {"stride": (2, 2), "padding": (1, 1)}, IMAGE,
         "convolution 'it': unknown attribute 'stride'; did you mean 'strides'?"),
        ("softmax", {"dim": 1}, [(2, 3)], "softmax 'it': unknown attribute 'dim'; its attributes are axis"),
        ("relu", {"alpha": 1}, [(2, 3)], "relu 'it': unknown attribute 'alpha'; it has no attributes"),
        ("reshape", {}, [(2, 3)], "reshape 'it': attribute 'shape' must be given, got no attributes"),
        ("lrn", {"alpha": 1.0}, [(1, 3)], "lrn 'it': attribute 'size' must be given, got alpha"),
        ("softmax", {"axis": True}, [(2, 3)], "softmax 'it': attribute 'axis' must be an integer, got True"),
        ("softmax", {"axis": 2}, [(2, 3)], "softmax 'it': axis must be in [-2, 2), got 2"),
        ("softmax", {"axis": None}, [(2, 3)], "softmax 'it': attribute 'axis' must be an integer, got None"),
        ("leaky_relu", {"alpha": "0.1"}, [(2,)], "leaky_relu 'it': attribute 'alpha' must be a number, got '0.1'"),
        ("reduce_sum", {"keep_dims": 1}, [(2,)], "reduce_sum 'it': attribute 'keep_dims' must be true or false, got 1"),
        ("cast", {"dtype": "f31"}, [(2,)], "dtype 'f31' is not known"),
        ("pad", {"before": (0, 0), "after": (1, 1), "mode": "loop"}, [(2, 3)],
         "pad 'it': mode must be one of constant, reflect, edge, wrap, got 'loop'"),
        ("transpose", {"perm": (0, 0)}, [(2, 3)], "transpose 'it': perm must name each of the 2 axes once, got [0, 0]"),
        ("softmax", {}, [(2, 3), (2, 3)], "softmax 'it': inputs must be x, got 2 inputs"),
        ("batch_norm", {}, [(2, 3)], "batch_norm 'it': inputs must be x, scale, bias, mean, variance, got 1 inputs"),
        ("scatter", {}, [(2,), (2,)], "scatter 'it': inputs must be indices, data..., updates..., got 2 inputs"),
        ("input", {}, [], "input 'it': attribute 'details' must be given, got no attributes"),
    ],
)  # fmt: skip
def test_rejected(op_name: str, attrs: dict[str, Any], dims: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        made(op_name, attrs, *dims)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("op_name", "attrs", "dims", "kept"),
    [
        ("convolution", {"strides": [2, np.int64(2)], "groups": 1}, IMAGE, {"strides": (2, 2)}),
        ("convolution", {"dilations": (1, 1), "before": np.zeros(2, int)}, IMAGE, {}),
        ("softmax", {"axis": 1}, [(2, 3)], {}),
        ("softmax", {"axis": -2}, [(2, 3)], {"axis": 0}),
        ("reduce_sum", {"axes": [1, 0], "keep_dims": np.False_}, [(2, 3)], {}),
        ("reduce_sum", {"axes": None}, [(2, 3)], {}),
        ("reduce_sum", {"axes": (-1,)}, [(2, 3)], {"axes": (1,)}),
        ("leaky_relu", {"alpha": np.float64(2)}, [(2,)], {"alpha": 2.0}),
        ("leaky_relu", {"alpha": 0.01}, [(2,)], {}),
        ("clamp", {"min": -0.0, "max": None}, [(2,)], {"min": -0.0}),
        ("cast", {"dtype": "f16"}, [(2,)], {"dtype": F16}),
        ("slice", {"starts": [0], "steps": [1], "sizes": [2]}, [(2,)], {"starts": (0,), "sizes": (2,)}),
        ("transpose", {"perm": (-1, 0)}, [(2, 3)], {"perm": (1, 0)}),
        ("pad", {"before": (1,), "after": (0,), "value": 0}, [(2,)], {"before": (1,), "after": (0,)}),
        ("pad", {"before": (1,), "after": (0,), "value": -0.0}, [(2,)], {"before": (1,), "after": (0,), "value": -0.0}),
        ("max_pool", {"strides": (1,), "kernel": (2,)}, [(2, 4)], {"kernel": (2,)}),
    ],
)  # fmt: skip
def test_values_are_kept_in_one_spelling(
    op_name: str, attrs: dict[str, Any], dims: Any, kept: dict[str, Any]
) -> None:
    op = made(op_name, attrs, *dims)
    assert repr(op.attrs) == repr(kept)
    assert [type(value) for value in op.attrs.values()] == [type(v) for v in kept.values()]


def test_defaults_read_alike_whether_given_or_not() -> None:
    absent, given = made("softmax", {}, (2, 3)), made("softmax", {"axis": 1}, (2, 3))
    assert absent.attr("axis") == given.attr("axis") == 1
    graphs = [op.inputs[0].producer_owner.name for op in (absent, given)]
    assert graphs == ["in0", "in0"]
    one, two = Graph(), Graph()
    for graph, attrs in ((one, {}), (two, {"alpha": 0.01})):
        graph.make("leaky_relu", [graph.make_input(LogicalTensor(F32, (2,)))], attrs)
    assert one.compare_contents(two) and one.hash_contents() == two.hash_contents()


def test_members_and_names_give_the_same() -> None:
    op = made("convolution", {"strides": (2, 1)}, *IMAGE)
    conv: Any = op
    assert conv.strides == op.attr("strides") == (2, 1) and op.attr("groups") == 1
    assert conv.x is op.inputs[0] and conv.w is op.inputs[1]
    norm: Any = made("layer_norm", {}, (2, 3), (3,))
    assert norm.scale is norm.inputs[1] and norm.bias is None
    joined: Any = made("concat", {}, (2, 3), (2, 3))
    assert joined.x == tuple(joined.inputs)
    with pytest.raises(InternalError, match="op 'convolution' has no attribute 'padding'"):
        op.attr("padding")


def test_set_attr_checks_too() -> None:
    op = made("softmax", {}, (2, 3))
    op.set_attr("axis", -2)
    assert op.attrs == {"axis": 0}
    op.set_attr("axis", 1)
    assert op.attrs == {}
    with pytest.raises(UserError, match="axis must be in"):
        op.set_attr("axis", 5)


def test_internal_attributes_are_free_and_do_not_count() -> None:
    op = made("relu", {"temp.note": object()}, (2,))
    assert list(op.attrs) == ["temp.note"]


def test_every_op_says_what_it_takes() -> None:
    assert set(EXAMPLES) <= set(names())
    for name in names():
        schema = schema_of(name)
        alone = lookup(name).kind == "source" or name in ("dynamic_sizes", "count_up")
        assert schema.operands or alone, name
        assert (lookup(name).__doc__ or "").strip(), name
        for key, attribute in schema.attributes.items():
            assert attribute.key == key and attribute.type_text(), (name, key)


@pytest.mark.parametrize(
    "way", ["from graphc import Graph", "from graphc.graph_ir.ir.graph import Graph"]
)
def test_ops_are_there_when_a_graph_is_first_made(way: str) -> None:
    program = (
        f"{way}\nfrom graphc.base.dtypes import F32\n"
        "from graphc.graph_ir.ir.logical_tensor import LogicalTensor\n"
        "print(Graph('t').make_input(LogicalTensor(F32, (2,)), 'x'))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "<x: f32[2]>\n", run.stderr
