"""Op schemas: what an op reads and which attributes it has, declared once, as members of its class.

    @register("convolution")
    class Convolution(FusibleOp):
        \"\"\"What it computes. The first line is its meaning in docs/reference/ops.md.\"\"\"

        x = Operand("image [N, C, sizes...]")              # self.x is the edge that is read
        w = Operand("weights [O, C / groups, kernel...]")
        groups = IntAttr("groups of channels that do not mix", default=1, least=1)   # self.groups is an int

Operands (`ir.operands`): `Operand`, then `OptionalOperand` or `VariadicOperand`; those of the nearest class that
declares any. Attributes (`ir.attributes`, `ir.graph_attributes`): those of all bases. An elementwise op says the same
in its `Row`. From the schema follow:

- `Graph.make`: the number of operands; an attribute that is unknown (the nearest known one is named), missing or of
  another type is a UserError; values are kept in one spelling, those equal to the default not at all.
- `op.alpha`, or `op.attr("alpha")` where the name is data: the value, default included. `op.set_attr` changes one.
- texts, `graphc inspect diff`, docs/reference/ops.md and the formats: `schema_of(op_name)` in `ir.registry`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ...base.errors import InternalError, UserError
from ...base.records import dataclass
from ...base.suggestion import suggestion
from .attributes import INTERNAL, Attribute, AttributeOwner, is_same


class OperandDeclaration:
    """Base of the operand descriptors: a name and a meaning."""

    optional = False
    variadic = False
    least = 0

    def __init__(self, meaning: str = "", name: str = "") -> None:
        self.meaning = meaning
        self.name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def text(self) -> str:
        """The operand's name in messages and in the documentation: `scale?` is optional, `x...` may be several."""
        return self.name + ("?" if self.optional else "..." if self.variadic else "")


@dataclass(frozen=True)
class OpSchema:
    """Operands in order, and attributes by their key.

    Optional operands come last; variadic ones too, and several of them are equally long.
    """

    operands: tuple[OperandDeclaration, ...] = ()
    attributes: Mapping[str, Attribute[Any]] = field(default_factory=dict)

    @property
    def fixed(self) -> int:
        """The number of operands that are neither optional nor variadic; they come first."""
        return sum(not (operand.optional or operand.variadic) for operand in self.operands)

    def attribute(self, op_name: str, key: str) -> Attribute[Any]:
        """The declaration of an attribute; raise InternalError if there is none."""
        if key not in self.attributes:
            raise InternalError(f"op '{op_name}' has no attribute '{key}'")
        return self.attributes[key]

    def span(self, operand: OperandDeclaration, count: int) -> range:
        """Return the range of an op's `count` inputs that belong to an operand: empty, one, or several if it
        is variadic."""
        index = self.operands.index(operand)
        if not operand.variadic:
            return range(index, min(index + 1, count))
        each = (count - self.fixed) // (len(self.operands) - self.fixed)
        start = self.fixed + (index - self.fixed) * each
        return range(start, start + each)

    def by_operand(self, values: Sequence[Any]) -> list[Any]:
        """Values, one per input, by operand: None for one that is absent, a tuple for a variadic one."""
        found: list[Any] = []
        for operand in self.operands:
            span = self.span(operand, len(values))
            own = tuple(values[span.start : span.stop])
            found.append(own if operand.variadic else own[0] if own else None)
        return found

    def input_name(self, index: int, count: int) -> str:
        """The name of input `index` of `count`: that of its operand, numbered where there are several."""
        for operand in self.operands:
            span = self.span(operand, count)
            if index in span:
                number = f"_{index - span.start}" if operand.variadic and len(span) > 1 else ""
                return operand.name + number
        return f"input_{index}"

    def check_operands(self, op: AttributeOwner) -> None:
        """Raise UserError if an op has too many or too few inputs."""
        count, several = len(op.inputs), sum(operand.variadic for operand in self.operands)
        least = self.fixed + sum(operand.least for operand in self.operands)
        most = count if several else len(self.operands)
        if not least <= count <= most or (several and (count - self.fixed) % several):
            names = ", ".join(operand.text() for operand in self.operands)
            raise op.rule(
                f"inputs must be {names}" if names else "it takes no inputs", f"{count} inputs"
            )

    def checked(self, op: AttributeOwner, given: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes as an op keeps them. Raise UserError if one is unknown, missing or of another type.

        `op.inputs` must be there: axes count from the front of the first operand.
        """
        for key in given:
            if key not in self.attributes and not key.startswith(INTERNAL):
                raise _unknown(op, key, self.attributes)
        kept = {key: value for key, value in given.items() if key not in self.attributes}
        op.attrs = kept  # a default may depend on the attributes before it
        for key, attribute in self.attributes.items():
            if key in given:
                self.put(op, key, given[key])
            elif attribute.is_required:
                others = ", ".join(given) or "no attributes"
                raise op.rule(f"attribute '{key}' must be given", others)
            else:
                attribute.default_of(op)  # the first operand may not have such an axis
        return {key: kept[key] for key in given if key in kept}

    def put(self, op: AttributeOwner, key: str, value: Any) -> None:
        """Keep one checked value in `op.attrs`, or drop it where it is the default."""
        attribute = self.attributes[key]
        checked = attribute.check(op, value)
        droppable = not attribute.is_required and not attribute.is_internal
        if droppable and is_same(checked, attribute.default_of(op)):
            op.attrs.pop(key, None)
        else:
            op.attrs[key] = checked


def schema_of_class(cls: type) -> OpSchema:
    """The schema a class and its bases declare."""
    operands: tuple[OperandDeclaration, ...] = ()
    attributes: dict[str, Attribute[Any]] = {}
    for base in reversed(cls.__mro__):
        members = vars(base).values()
        own = tuple(member for member in members if isinstance(member, OperandDeclaration))
        operands = own or operands
        attributes |= {member.key: member for member in members if isinstance(member, Attribute)}
    # Defaults may depend on what must be given: the strides of a pool on its kernel.
    required_first = sorted(attributes.items(), key=lambda item: not item[1].is_required)
    return OpSchema(operands, dict(required_first))


def _unknown(op: AttributeOwner, key: str, known: Mapping[str, Attribute[Any]]) -> UserError:
    names = [name for name in known if not name.startswith(INTERNAL)]
    listed = f"its attributes are {', '.join(names)}" if names else "it has no attributes"
    remedy = suggestion(key, names) or listed
    return UserError(f"{op.op_name} '{op.name}': unknown attribute '{key}'; {remedy}")
