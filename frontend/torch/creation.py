"""New tensors, casts, and calls that check or annotate and are the identity here."""

from __future__ import annotations

from ...base.dims import Dim, Size
from ...base.dtypes import BOOL, F32, F64, S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.arithmetic import filled
from ..correspondence.compositions.indexing import dynamic_size, positions
from ..correspondence.reading import MUST_BE_GIVEN, Pair
from ..torch_calls.arithmetic import FUNCTIONS
from ..torch_calls.call import Value
from ..torch_calls.creation import MAX_ARANGE
from ..torch_calls.op_table import CALLS, READS
from ..torch_calls.promotion import number_dtype
from .node import Node, Read
from .tensors import array_of, dtype_of


def _read_full(node: Node) -> Value:
    """Read torch.full; the dtype defaults to that of the number."""
    value = node.operand("fill_value")
    sizes = node.attr_ints("size")
    if not isinstance(value, (GraphTensor, Dim)):
        return filled(node, sizes, value, node.dtype() or number_dtype(value))
    x = node.tensor(value, node.dtype())
    return node.make("broadcast", x, shape=sizes)


def _read_linspace(node: Node) -> Value:
    """PyTorch itself computes the numbers: its own decomposition of this cuts others to integers than its kernel."""
    import torch

    word, count = node.argument("dtype"), node.read_attribute("steps", "int", MUST_BE_GIVEN)
    given = [node.argument(name) for name in ("start", "end")]
    if isinstance(count, Dim) or any(isinstance(one, (GraphTensor, Dim)) for one in given):
        return _between_tensors(node, count)
    if count > MAX_ARANGE:
        raise node.rule(f"there must be at most {MAX_ARANGE} elements", str(count))
    ends = [node.number(name, 0) for name in ("start", "end")]
    dtype = getattr(torch, str(word).removeprefix("torch.")) if node.dtype() else None
    made = torch.linspace(*ends, count, dtype=dtype)
    return node.constant(array_of(made, node.name), dtype_of(made, node.name))


def _between_tensors(node: Node, count: Size) -> Value:
    """Floats, the second half of them counted from the end, as PyTorch's kernel does."""
    dtype = node.dtype() or F32
    if not dtype.is_float:
        raise node.unsupported("integers between numbers that depend on the model's data")
    wide, steps = dtype.accumulator, positions(node, count, 0, 1)
    first, last = (
        node.tensor(node.tensor(node.operand(name), dtype), wide) for name in ("start", "end")
    )
    size, one = dynamic_size(node, count), node.constant(1, S64)
    behind = node.helper("sub", size, one)
    parts = node.converted(node.helper("max", behind, one), wide)
    step = node.helper("div", node.helper("sub", last, first), parts)
    left = node.converted(node.helper("sub", behind, steps), wide)
    up = node.helper("add", first, node.helper("mul", node.converted(steps, wide), step))
    down = node.helper("sub", last, node.helper("mul", left, step))
    middle = node.helper("max", node.helper("div", size, node.constant(2, S64)), one)
    half = node.helper("lt", steps, middle)
    return node.converted(node.helper("select", half, up, down), dtype)


def _read_view(node: Node, op_name: str) -> Value:
    """The same elements in another shape, or the same bytes as another type."""
    if node.given("dtype"):
        return node.make(op_name, node.tensor_of(), dtype=node.attr_dtype("dtype").name)
    return READS["reshape"](node, "reshape")


def _read_memory(node: Node) -> Value:
    """New memory, whose elements nobody may rely on."""
    node.argument("stride")
    return filled(node, node.attr_ints("size"), 0, node.dtype() or F32)


def _same(node: Node) -> Value:
    return node.operand()


def _nothing(node: Node) -> Value:
    """A check, which PyTorch has made with the example."""
    for name in node.bound:
        node.argument(name)
    return None


def _sizes(node: Node) -> Value:
    dims = node.tensor_of().details.plain_dims
    return dims[node.axis(node.attr_int("dim"), len(dims))]


def _elements(node: Node) -> Value:
    return node.tensor_of().details.elements


def _as_float(node: Node) -> Value:
    """A size as a number of Python's, or its square root."""
    (value,) = node.bound.values()
    x = node.tensor(value, F64) if isinstance(value, (Dim, GraphTensor)) else float(value)
    return x if node.type.endswith("float") else FUNCTIONS["sqrt"](node, x)


def _scalar(node: Node) -> Value:
    """The only element of a tensor."""
    return node.reshaped(node.tensor_of(), ())


def _required(node: Node) -> Value:
    """A check of the data, which each run makes."""
    holds, message = node.argument("self"), node.argument("assert_msg") or "a condition must hold"
    if isinstance(holds, GraphTensor):
        node.require(node.reshaped(node.tensor(holds, BOOL), ()), str(message))
    elif not holds:
        raise node.rule(str(message), "another value")
    return None


_CHECKS = ("_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size")

PAIRS = {"view": Pair(_read_view)}

HANDLERS: dict[str, Read] = {
    "scalar_tensor": lambda node: node.constant(node.number("s", 0), node.dtype() or F32), "full": _read_full,
    "linspace": _read_linspace, "empty_strided": _read_memory, "_to_copy": CALLS["to"].run,
    "prims::convert_element_type": lambda node: node.converted(node.tensor_of("a"), node.attr_dtype("dtype")),
    "sym_size": _sizes, "sym_numel": _elements, **dict.fromkeys(("item", "_local_scalar_dense"), _scalar),
    **dict.fromkeys(("sym_float", "sym_sqrt", "_sym_sqrt"), _as_float),
    **dict.fromkeys(("lift_fresh_copy", "lift_fresh", "alias", "detach", "contiguous"), _same),
    **dict.fromkeys(_CHECKS, _nothing), **dict.fromkeys(("_assert_scalar", "_assert_async"), _required),
}  # fmt: skip
