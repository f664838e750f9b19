"""kernel_call: an op that a kernel of user code computes, as one op."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.lowering.registry import get_func
from graphc.graph_ir.ops.fused import KernelCall, call_kernel
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from support.graphs import graph_of
from support.lowered import context, integers

TEXT = """
    %x = Node[type=input] () -> f32[4,8]
    %y = Node[type=mul] (inputs = (a=%x, b=%x)) -> f32[4,8]
    return (y=%y)
    """


def test_it_is_the_op_that_it_computes() -> None:
    graph = graph_of(TEXT)
    x, y = graph.ops[:2]
    result = call_kernel(graph, y, "quick")
    y.outputs[0].replace_uses(result)
    graph.remove([y])
    graph.sort()
    verify(graph)
    call = result.producer_owner
    assert isinstance(call, KernelCall)
    assert (call.name, call.computed.op_name, call.kernel) == ("y.quick", "mul", "quick")
    assert call.inputs == x.outputs and call.get_gflop() == y.get_gflop()
    array = integers((4, 8), 1)
    np.testing.assert_array_equal(graph.evaluate([array])[0], array * array)
    again = parse_graph(print_graph(graph, full=True))
    assert again.compare_contents(graph)


def test_a_kernel_that_this_process_does_not_know_is_named() -> None:
    graph = graph_of(TEXT)
    call = call_kernel(graph, graph.ops[1], "quick").producer_owner
    with pytest.raises(UserError) as caught:
        get_func(call, context())
    assert str(caught.value) == (
        "mul 'y': its kernel 'quick' is not known in this process; load the code that adds it (--plugin)"
    )
