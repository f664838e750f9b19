"""The operators of a model file, each with its parameters, weights and operands: the view of a PNNX runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.records import dataclass
from ..frontend import format_of, load
from ..graph_ir.ir.graph import Array, Graph, GraphTensor, Op, subgraphs_of
from ..graph_ir.text.printer import print_tensor_type

if TYPE_CHECKING:
    from ..frontend.hlo.syntax import Computation
    from ..frontend.pnnx.program import Program


@dataclass(frozen=True)
class Operand:
    """A value between operators: its type as text ("" if the file does not give it), its producer and its consumers.

    `code`: PNNX's number of its element type, in files of PNNX.
    """

    name: str
    type: str
    producer: str
    consumers: tuple[str, ...]
    code: int | None = None


@dataclass(frozen=True)
class Operator:
    """One operator. `attributes` are the types of its weights, `keys` the names its inputs go by ("" without one).

    `codes`: PNNX's numbers of the types of parameters and attributes, in files of PNNX.
    """

    type: str
    name: str
    params: Mapping[str, str]
    attributes: Mapping[str, str]
    inputs: tuple[Operand, ...]
    keys: tuple[str, ...]
    outputs: tuple[Operand, ...]
    codes: Mapping[str, int] = field(default_factory=dict)


def list_operators(
    model: str | Path,
    inputs: Mapping[str, str] | None = None,
    constants: Mapping[str, Array] | None = None,
    attrs: Mapping[str, str] | None = None,
) -> list[Operator]:
    """The operators of a file in order: for PNNX those of the file itself, else the ops it is imported as.

    The arguments and errors are those of `frontend.load`; a PNNX file is only parsed, so its operators need not be
    supported; so is a fragment of HLO.
    """
    path = Path(model)
    if format_of(path) == "pnnx":
        from ..frontend.pnnx.reader import read_param

        return list(_of_program(read_param(path)))
    if format_of(path) == "hlo":
        from ..frontend.hlo import parse_hlo
        from ..frontend.model_text import read_text

        module = parse_hlo(*read_text(path, "model", "file of HLO"), fragment=True)
        if module.is_fragment:
            return [one for part in module.computations.values() for one in _of_part(part)]
    return list(_of_graph(load(path, inputs, constants, attrs), ""))


def _of_part(part: Computation) -> Iterator[Operator]:
    """The instructions of a computation as the text has them."""
    from ..frontend.hlo.ast_json import attribute_text

    found = {i.name: i for i in part.instructions}
    consumers: dict[str, list[str]] = {}
    for i in part.instructions:
        for x in i.operands:
            consumers.setdefault(x.name, []).append(i.name)

    def operand(name: str) -> Operand:
        shape = found[name].shape
        users = tuple(dict.fromkeys(consumers.get(name, ())))
        return Operand(name, shape.logical() if shape else "", name, users)

    for i in part.instructions:
        params = {key: attribute_text(value) for key, value in i.attributes.items()}
        inputs = tuple(operand(x.name) for x in i.operands)
        yield Operator(
            i.opcode, i.name, params, {}, inputs, ("",) * len(inputs), (operand(i.name),)
        )


def _of_program(program: Program) -> Iterator[Operator]:
    from ..frontend.pnnx.param_value import parameter_type, parse_param_value
    from ..frontend.pnnx.program import TensorType, type_code

    unknown = TensorType((), "")
    types = {name: t for op in program.operators for name, t in op.types.items()}
    producers = {name: op.name for op in program.operators for name in op.outputs}
    consumers: dict[str, list[str]] = {}
    for op in program.operators:
        for name in dict.fromkeys(op.inputs):
            consumers.setdefault(name, []).append(op.name)

    def operand(name: str) -> Operand:
        known = types.get(name, unknown)
        text = str(known) if known.suffix else ""
        users = tuple(consumers.get(name, ()))
        return Operand(name, text, producers[name], users, type_code(known.suffix))

    for op in program.operators:
        named = {name: key for key, name in op.keys}
        yield Operator(
            op.type,
            op.name,
            op.params,
            {key: str(value) for key, value in op.attributes.items()},
            tuple(map(operand, op.inputs)),
            tuple(named.get(name, "") for name in op.inputs),
            tuple(map(operand, op.outputs)),
            {key: parameter_type(parse_param_value(text)) for key, text in op.params.items()}
            | {key: type_code(value.suffix) for key, value in op.attributes.items()},
        )


def _of_graph(graph: Graph, prefix: str) -> Iterator[Operator]:
    """Constants are attributes of their consumers; the ops of subgraphs follow the op that owns them."""

    def operand(tensor: GraphTensor) -> Operand:
        users = dict.fromkeys(prefix + user.name for _, user in tensor.uses)
        owner = prefix + tensor.producer_owner.name
        return Operand(prefix + tensor.name, print_tensor_type(tensor.details), owner, tuple(users))

    for op in graph.ops:
        if op.is_constant:
            continue
        read = list(enumerate(op.inputs))
        weights = [(i, x) for i, x in read if x.is_constant]
        values = [(i, x) for i, x in read if not x.is_constant]
        yield Operator(
            op.op_name,
            prefix + op.name,
            _params(op),
            {op.input_name(i): f"{print_tensor_type(x.details)} {x.name}" for i, x in weights},
            tuple(operand(x) for _, x in values),
            tuple(op.input_name(i) for i, _ in values),
            tuple(map(operand, op.outputs)),
        )
        for inner in subgraphs_of(op):
            yield from _of_graph(inner, f"{prefix}{op.name}/{inner.name}/")


def _params(op: Op) -> dict[str, str]:
    shown = {}
    for key, value in op.attrs.items():
        if not key.startswith("temp.") and not op.is_input:
            shown[key] = _text(value)
    return shown


def _text(value: Any) -> str:
    if isinstance(value, Graph):
        return value.name
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(_text, value))})"
    return str(value)
