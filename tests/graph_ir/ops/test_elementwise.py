import numpy as np
import pytest

from graphc.graph_ir.ir import registry
from graphc.graph_ir.ir.registry import lookup
from graphc.graph_ir.ops.elementwise import ANY, BITS, FLOAT, NUMBER, broadcast_index, kinds_text
from graphc.tensor_ir.nodes import Const, Var
from support.check_op import check_op, make_op, random_array


def test_broadcast_index_is_aligned_right():
    i, j, k = (Var(name) for name in "ijk")
    zero = Const(0, i.dtype)
    assert broadcast_index((i, j, k), (2, 3, 4)) == (i, j, k)
    assert broadcast_index((i, j, k), (1, 4)) == (zero, k)
    assert broadcast_index((i, j, k), ()) == ()


@pytest.mark.parametrize(
    ("kinds", "text"),
    [(FLOAT, "a float"), (NUMBER, "a float or an integer"), (BITS, "an integer or bool"),
     (ANY, "a float or an integer or bool"), (("int", "uint"), "an integer"), (("bool",), "bool")],
)  # fmt: skip
def test_kinds_text(kinds, text):
    assert kinds_text(kinds) == text


def test_temporary_attributes_are_allowed():
    check_op("exp", [random_array("f32", (3,))], {"temp.note": 1})


def test_classes_have_the_name_and_meaning_of_their_row():
    cls = lookup("hard_swish")
    assert cls.__name__ == "HardSwish" and cls.__doc__.startswith("x * hard_sigmoid")
    assert make_op("select", [np.array(True)] * 3).input_name(0) == "condition"


def test_every_registered_op_has_a_meaning_and_a_work_estimate():
    for name in registry.names():
        cls = lookup(name)
        assert cls.__doc__, name
        assert callable(cls.get_gflop)
