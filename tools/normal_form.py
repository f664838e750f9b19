"""A normal form of graphs, in which it no longer shows which file format a network was read of.

Formats differ in how they write the same computation: composite ops as their parts, weights transposed, biases with
more axes or as an operand of a matmul, scalars folded into others. The passes that simplify graphs undo most of that;
the rest is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..base.dtypes import BOOL, S64
from ..frontend.correspondence.compositions.control import finished, inputs_like
from ..frontend.correspondence.compositions.indexing import selected_update
from ..frontend.op_builder import OpBuilder
from ..graph_ir.ir.graph import Graph, GraphTensor, Op
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.ops.activation import clamp_limits
from ..graph_ir.ops.control import While
from ..graph_ir.ops.elementwise import Elementwise
from ..graph_ir.passes import pipeline
from ..graph_ir.passes.decompose import decompose
from ..graph_ir.passes.eliminate_common import eliminate_common
from ..graph_ir.passes.fold_constants import fold_constants
from ..graph_ir.passes.remove_dead import remove_dead
from ..graph_ir.passes.simplify_algebra import simplify_algebra
from ..graph_ir.passes.simplify_movement import simplify_movement
from ..graph_ir.passes.update_in_place import update_in_place
from ..graph_ir.rewriting.pattern import Capture, match, node
from ..graph_ir.rewriting.subgraph import inline
from ..graph_ir.rewriting.values import constant_value
from ..graph_ir.schedule.context import LowerContext
from ..targets.isa import Target

_ROUNDS = 8

_I = Capture("i")
_WRAPPED = node(
    "min",
    node(
        "relu",
        node("select", node("lt", _I, Capture("zero")), node("add", _I, Capture("size")), _I),
    ),
    Capture("last"),
)


def simplified(graph: Graph) -> Graph:
    """Return a copy after all passes up to the decomposition of composite ops, in branches and loops too; the graph
    itself is unchanged."""
    graph, ctx = graph.copy(), LowerContext(Target("generic"))
    graph.sort()
    for step, _ in pipeline.steps():
        if step is pipeline.optimize_subgraphs:
            _replace_subgraphs(graph, simplified)
        elif step is decompose:
            _apply(graph, {"scatter_elements": (_selected_elements,)})
            decompose(graph, ctx)
            break
        elif step is not update_in_place:
            step(graph, ctx)
    return graph


_Rule = Callable[[Graph, Op], bool]


def _apply(
    graph: Graph, rules: Mapping[str, Sequence[_Rule]], of_all: Sequence[_Rule] = ()
) -> bool:
    """Return whether some rule of all ops, or of an op's name, changed an op; at most one does."""
    changed = [
        any(rule(graph, op) for rule in (*of_all, *rules.get(op.op_name, ())))
        for op in list(graph.ops)
    ]
    graph.sort()
    return any(changed)


def _replace_subgraphs(graph: Graph, form: Callable[[Graph], Graph]) -> None:
    for op in graph.ops:
        for key, value in list(op.attrs.items()):
            if isinstance(value, Graph):
                op.set_attr(key, form(value))
            elif isinstance(value, tuple) and any(isinstance(item, Graph) for item in value):
                op.set_attr(key, tuple(form(item) for item in value))


def normal_form(graph: Graph) -> Graph:
    """A simplified copy whose matmuls have plain operands and whose constants are as small as broadcasting allows."""
    graph, ctx = simplified(graph), LowerContext(Target("generic"))
    for _ in range(_ROUNDS):
        changed = _apply(graph, _RULES, _OF_ALL)
        for step in (
            fold_constants,
            simplify_algebra,
            simplify_movement,
            eliminate_common,
            remove_dead,
        ):
            changed |= step(graph, ctx)
        if not changed:
            break
    _replace_subgraphs(graph, normal_form)
    return graph


def _plain_operands(graph: Graph, op: Op) -> bool:
    """Transposed operands of a matmul are those of a transpose."""
    changed = _one_matrix(graph, op)
    for index, key in enumerate(("transpose_a", "transpose_b")):
        if op.attr(key):
            op.set_input(index, _swapped(graph, op.inputs[index]))
            op.set_attr(key, False)
            changed = True
    return changed


def _one_matrix(graph: Graph, op: Op) -> bool:
    """A constant of equal matrices, one for each of a batch, is one matrix."""
    x, value = op.inputs[0], constant_value(op.inputs[1])
    if value is None or value.ndim < 3 or x.details.rank < value.ndim or not value.size:
        return False
    batch = np.broadcast_shapes(x.details.plain_dims[:-2], value.shape[:-2])
    matrix = value[(0,) * (value.ndim - 2)]
    if batch != x.details.plain_dims[:-2] or not (value == matrix).all():
        return False
    op.set_input(1, graph.make_constant(matrix, op.inputs[1].name))
    return True


def _swapped(graph: Graph, x: GraphTensor) -> GraphTensor:
    rank = x.details.rank
    axes = (*range(rank - 2), rank - 1, rank - 2)
    return graph.make("transpose", [x], {"perm": axes}).outputs[0]


def _implicit_broadcast(graph: Graph, op: Op) -> bool:
    """Operands of an elementwise op are broadcast by the op itself where its result stays the same."""
    if not isinstance(op, Elementwise) or len(op.inputs) < 2:
        return False
    changed = False
    for index, x in enumerate(op.inputs):
        made = x.producer_owner
        if made.op_name != "broadcast":
            continue
        others = [y.details.plain_dims for i, y in enumerate(op.inputs) if i != index]
        source = made.inputs[0]
        if (
            np.broadcast_shapes(source.details.plain_dims, *others)
            == op.outputs[0].details.plain_dims
        ):
            op.set_input(index, source)
            changed = True
    return changed


def _small_constant(graph: Graph, op: Op) -> bool:
    """Constants of an elementwise op lose axes along which they do not change, where its result stays the same."""
    if not isinstance(op, Elementwise) or len(op.inputs) < 2:
        return False
    changed = False
    for index, x in enumerate(op.inputs):
        value = constant_value(x)
        others = [y.details.plain_dims for i, y in enumerate(op.inputs) if i != index]
        if value is None or not value.ndim or not value.size:
            continue
        small = value
        for axis in range(small.ndim):
            first = small[(slice(None),) * axis + (slice(1),)]
            small = first if np.array_equal(np.broadcast_to(first, small.shape), small) else small
        while small.ndim and small.shape[0] == 1:
            small = small[0]
        result = op.outputs[0].details.plain_dims
        if small.shape != value.shape and np.broadcast_shapes(small.shape, *others) == result:
            op.set_input(index, graph.make_constant(np.array(small), x.name))
            changed = True
    return changed


def _plain_reduction(graph: Graph, op: Op) -> bool:
    """A mean is a sum times a constant; axes that are kept are those of a reshape."""
    if not op.op_name.startswith("reduce_"):
        return False
    keeps, axes = op.attr("keep_dims"), op.attr("axes")
    if not keeps and op.op_name != "reduce_mean":
        return False
    x = op.inputs[0]
    kind = "reduce_sum" if op.op_name == "reduce_mean" else op.op_name
    y = graph.make(kind, [x], {"axes": axes, "keep_dims": False}, op.name).outputs[0]
    if op.op_name == "reduce_mean":
        count = x.details.elements / max(y.details.elements, 1)
        inverse = np.array(1 / max(count, 1), x.details.dtype.numpy)
        y = graph.make("mul", [y, graph.make_constant(inverse)], name=op.name).outputs[0]
    if keeps:
        shape = op.outputs[0].details.plain_dims
        y = graph.make("reshape", [y], {"shape": shape}, op.name).outputs[0]
    op.outputs[0].replace_uses(y)
    return True


def _no_division(graph: Graph, op: Op) -> bool:
    """A division of floats by a constant is a multiplication."""
    value = constant_value(op.inputs[1])
    if value is None or not op.outputs[0].details.dtype.is_float or not value.all():
        return False
    inverse = graph.make_constant((1 / value).astype(value.dtype), op.inputs[1].name)
    op.outputs[0].replace_uses(graph.make("mul", [op.inputs[0], inverse], name=op.name).outputs[0])
    return True


def _one_root(graph: Graph, op: Op) -> bool:
    """Match 1 / sqrt(x), the form of rsqrt in formats without such an op."""
    if op.inputs[1].producer_owner.op_name != "sqrt":
        return False
    value, (x,) = constant_value(op.inputs[0]), op.inputs[1].producer_owner.inputs
    if value is None or not (value == 1).all() or x.details != op.outputs[0].details:
        return False
    op.outputs[0].replace_uses(graph.make("rsqrt", [x], name=op.name).outputs[0])
    return True


def _one_inequality(graph: Graph, op: Op) -> bool:
    """Match the negation of equality, because ONNX has no such op."""
    equal = op.inputs[0].producer_owner
    if equal.op_name != "eq":
        return False
    op.outputs[0].replace_uses(graph.make("ne", equal.inputs, name=op.name).outputs[0])
    return True


def _no_zero(graph: Graph, op: Op) -> bool:
    """Adding zeros is nothing: a bias that is absent elsewhere."""
    for index in (0, 1):
        value, x = constant_value(op.inputs[index]), op.inputs[1 - index]
        if value is not None and not value.any() and x.details == op.outputs[0].details:
            op.outputs[0].replace_uses(x)
            return True
    return False


def _two_bounds(graph: Graph, op: Op) -> bool:
    """A clamp is a maximum and a minimum, as formats without it have."""
    x, build = op.inputs[0], OpBuilder(graph, op.op_name, op.name)
    dtype = x.details.dtype
    limits = clamp_limits(dtype, op.attr("min"), op.attr("max"))
    for name, limit in zip(("max", "min"), limits, strict=True):
        if limit is not None:
            x = build.helper(name, x, build.constant(limit, dtype))
    op.outputs[0].replace_uses(x)
    return True


def _plain_indices(graph: Graph, op: Op) -> bool:
    """Indices that are wrapped and clamped before a gather, which does so itself."""
    size = op.inputs[0].details.plain_dims[op.attr("axis")]
    found = match(_WRAPPED, op.inputs[1])
    wanted = {"last": size - 1, "size": size, "zero": 0}
    if found is None or any(constant_value(found[key]) != n for key, n in wanted.items()):
        return False
    op.set_input(1, found["i"])
    return True


def _known_index(graph: Graph, op: Op) -> bool:
    """One element along an axis that is known is a slice."""
    value = constant_value(op.inputs[1])
    if value is None or value.size != 1:
        return False
    build, x, axis = OpBuilder(graph, op.op_name, op.name), op.inputs[0], op.attr("axis")
    index, size = int(value.item()), x.details.plain_dims[axis]
    if not -size <= index < size:
        return False
    part = build.sliced(x, axis, index % size, 1)
    op.outputs[0].replace_uses(build.reshaped(part, op.outputs[0].details.plain_dims))
    return True


def _selected_box(graph: Graph, op: Op) -> bool:
    """A box that is replaced: some formats have an op for it, others select between two arrays."""
    build, (x, update, *starts) = OpBuilder(graph, op.op_name, op.name), op.inputs
    begins = {}
    for axis, start in zip(op.attr("axes"), starts, strict=True):
        most = x.details.plain_dims[axis] - update.details.plain_dims[axis]
        if most:
            low = build.helper("max", start, build.constant(0, S64))
            begins[axis] = build.helper("min", low, build.constant(most, S64))
    op.outputs[0].replace_uses(selected_update(build, x, update, begins))
    return True


def _selected_elements(graph: Graph, op: Op) -> bool:
    """Elements that are replaced at neighboring indices: a box, as ONNX has no op for one."""
    if op.attr("reduction") != "none":
        return False
    (x, indices, update), axis = op.inputs, op.attr("axis")
    begin = _first_of_row(graph, indices, axis)
    whole, part = x.details.plain_dims, update.details.plain_dims
    if begin is None or any(
        a != b for i, (a, b) in enumerate(zip(whole, part, strict=True)) if i != axis
    ):
        return False
    build = OpBuilder(graph, op.op_name, op.name)
    op.outputs[0].replace_uses(selected_update(build, x, update, {axis: begin}))
    return True


def _first_of_row(graph: Graph, indices: GraphTensor, axis: int) -> GraphTensor | None:
    """Return the starts of indices that count up by 1 along one axis and are constant along all others, s64[]."""
    dims = indices.details.plain_dims
    steps = np.arange(dims[axis]).reshape([-1 if i == axis else 1 for i in range(len(dims))])
    value = constant_value(indices)
    if value is not None:
        is_row = value.size and (value == value.flat[0] + steps).all()
        return graph.make_constant(np.array(value.flat[0])) if is_row else None
    while (made := indices.producer_owner).op_name in ("broadcast", "reshape"):
        indices = made.inputs[0]
    for constant, begin in (made.inputs, made.inputs[::-1]) if made.op_name == "add" else ():
        value = constant_value(constant)
        one = begin.details.elements == 1 and begin.details.dtype == S64
        if one and value is not None and np.array_equal(value.reshape(-1), steps.reshape(-1)):
            return OpBuilder(graph, "index", indices.name).reshaped(begin, ())
    return None


def _state_that_goes_on(graph: Graph, op: Op) -> bool:
    """Return whether a loop goes on is a part of its state, the first, as ONNX has it."""
    assert isinstance(op, While)
    if op.condition.outputs[0].inputs[0].producer_owner.is_input:
        return False
    attrs = {"condition": Graph(op.condition.name), "body": Graph(op.body.name)}
    tensors = {
        key: [made.make_input(LogicalTensor(BOOL, ()), "going"), *inputs_like(made, op.inputs)]
        for key, made in attrs.items()
    }
    own = tensors["body"][1:]
    state = inline(attrs["body"], op.body, dict(enumerate(own)))
    following = dict(enumerate([*state, *own[op.carried :]]))
    results = {
        "condition": tensors["condition"][:1],
        "body": [*inline(attrs["body"], op.condition, following), *state],
    }
    for key, made in attrs.items():
        finished(made, tensors[key], results[key])
    first = inline(graph, op.condition, dict(enumerate(op.inputs)))
    loop = graph.make("while", [*first, *op.inputs], {**op.attrs, **attrs}, op.name)
    for old, new in zip(op.outputs, loop.outputs[1:], strict=True):
        old.replace_uses(new)
    return True


def _exact_window(graph: Graph, op: Op) -> bool:
    """`ceil_mode` where no window is cut off."""
    if "ceil_mode" not in op.attrs or not op.attr("ceil_mode"):
        return False
    plain = graph.make(op.op_name, op.inputs, {**op.attrs, "ceil_mode": False}, op.name)
    if plain.outputs[0].details != op.outputs[0].details:
        graph.remove([plain])
        return False
    op.outputs[0].replace_uses(plain.outputs[0])
    return True


_RULES: Mapping[str, Sequence[_Rule]] = {
    "matmul_core": (_plain_operands,),
    "div": (_no_division, _one_root),
    "not": (_one_inequality,),
    "add": (_no_zero,),
    "clamp": (_two_bounds,),
    "gather": (_plain_indices, _known_index),
    "update_slice": (_selected_box,),
    "while": (_state_that_goes_on,),
}
"""Rules by the name of an op, behind those of all ops."""

_OF_ALL = _implicit_broadcast, _small_constant, _plain_reduction, _exact_window
