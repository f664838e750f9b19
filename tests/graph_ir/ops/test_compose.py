import numpy as np

from graphc.base.dtypes import BF16, F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.compose import Composer
from support.check_op import make_op


def test_parts_are_named_after_the_op_and_computed_in_f32():
    graph = Graph()
    x = graph.make_input(LogicalTensor(BF16, (2,)), "x")
    owner = make_op("softmax", [np.zeros((2,), np.float32)])
    make = Composer(graph, owner)
    wide = make.widened(x)
    assert wide.details == LogicalTensor(F32, (2,)) and wide.producer_owner.op_name == "cast"
    assert make.widened(wide) is wide
    back = make.to(make("add", wide, make.scalar(0.5, F32)), BF16)
    assert back.details.dtype == BF16
    names = [op.name for op in graph.ops]
    assert names == ["x", "x.cast", "x.constant", "x.add", "x.cast_1"]
