"""A problem that is a kernel of a model, `model.onnx:node`, by the name that `graphc explain` prints."""

from __future__ import annotations

from ..base.errors import UserError
from ..base.options import CompileOptions
from ..base.suggestion import suggestion
from ..bench.operands import Operand
from ..codegen.host import target_for
from ..frontend import load
from ..graph_ir.inspect.experts import expert_operands
from ..graph_ir.ir.graph import Op
from ..graph_ir.passes import pipeline
from ..graph_ir.rewriting.groups import is_view
from ..graph_ir.schedule.context import LowerContext
from ..tools.submodel import body, node_model
from .problem import Problem, measured_sizes


def model_node(text: str, path: str, node: str) -> Problem:
    """Return a node of the optimized graph, or the one that an op of the file became a part of, in plain layouts.

    Raise UserError if there is none.
    """
    graph = load(path).copy()
    pipeline.run(graph, LowerContext(target_for("native"), CompileOptions(1)))
    kernels = [op for op in graph.ops if op.kind not in ("source", "sink") and not is_view(op)]
    found = next((op for op in kernels if node in _names(op)), None)
    if found is None:
        names = [name for op in kernels for name in _names(op)]
        like = suggestion(node, names) or f"`graphc explain {path}` lists them"
        raise UserError(f"problem '{text}': {path} has no kernel '{node}'; {like}")
    model = node_model(found)
    experts = expert_operands(model)
    inputs = {
        op.name: Operand(x.details.dtype, x.details.plain_dims, experts.get(x, 0))
        for op in model.inputs
        for x in op.outputs
    }
    tuned = next((op.name for op in model.ops if op.kind == "tunable"), "")
    operations = round(found.get_gflop() * 1e9)
    dtype = next(iter(inputs.values())).dtype.name if inputs else "f32"
    return Problem(text, model, inputs, operations, tuned, dtype, measured_sizes(inputs))


def _names(op: Op) -> list[str]:
    return [op.name, *(inner.name for inner in body(op))]
