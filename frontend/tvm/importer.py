"""Imports a graph JSON: expands kernels into operators as far as name, attributes and shapes determine them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ...base.dims import Dim, symbols_of
from ...base.dtypes import from_numpy
from ...base.errors import GraphcError, InternalError, UnsupportedError, UserError
from ...base.size_limits import limited
from ...base.symbols import Limits, NeedsLimit
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..dynamic_names import DynamicNames
from ..refusals import DEFINED, OTHER_TYPE, WITHOUT
from ..shape_spec import InputSpecs, check_names, check_size
from .document import DTYPES, DYNAMIC, Entry, Node, TvmGraph
from .inference import build
from .kernel_name import split_name
from .op_table import BROADCASTING, ELEMENTWISE, KEEPING, OPERATORS, arity
from .own_attrs import make_own, own_op
from .params import read_params
from .reader import read_tvm
from .scope import Call, UndeterminedError

_NOP = ("__nop", "__copy")


def load_tvm(
    source: str | os.PathLike[str] | bytes | TvmGraph,
    specs: InputSpecs | None = None,
    constants: Mapping[str, Array] | None = None,
    attrs: Mapping[str, str] | None = None,
    limits: Limits = MappingProxyType({}),
) -> Graph:
    """Read a graph JSON. `constants` are its parameters by name; those not given are taken from the `.params` file of
    the same name, if there is one.

    `attrs` are attributes not given by a kernel's name, such as {"node.axis": "1"} or, for one operator of a node,
    {"node.nn_softmax.axis": "1"}; the node's name may be a pattern, {"*.padding": "1"}, which then fills in what is not
    determined. Raise UserError for errors in the file, UnsupportedError for everything unsupported or
    undetermined, in one message.
    """
    graph = source if isinstance(source, TvmGraph) else read_tvm(source)
    beside = Path(source).with_suffix(".params") if isinstance(source, (str, os.PathLike)) else None
    stored = read_params(beside) if beside is not None and beside.is_file() else {}
    given = constants or {}
    known = [node.name for node in graph.nodes if node.op == "null"]
    check_names(graph.label, "constant", given, known, "parameters")
    return _Importer(graph, specs or {}, {**stored, **given}, attrs or {}, limits).load()


def _layouts(node: Node) -> dict[str, str]:
    """The attributes of a kernel that TVM keeps because they are strings: layouts."""
    return {key: value for key, value in node.attrs.items() if key.endswith("_layout") and value}


def _key_of(hint: str, name: str) -> str:
    """Return the rest of a pattern of node names, `pattern.key` or `pattern.operator.key`; "" if the pattern
    is another."""
    parts = hint.split(".")
    for count in (1, 2):
        pattern = ".".join(parts[:-count])
        if pattern != name and "*" in pattern and fnmatchcase(name, pattern):
            return ".".join(parts[-count:])
    return ""


def _is_of(given: LogicalTensor, declared: LogicalTensor) -> bool:
    """Return whether a type is the declared one, any size where that is dynamic."""
    pairs = list(zip(given.plain_dims, declared.plain_dims, strict=False))
    return (given.dtype, given.rank) == (declared.dtype, declared.rank) and all(
        one == other or isinstance(other, Dim) for one, other in pairs
    )


class _Importer:
    def __init__(
        self,
        source: TvmGraph,
        specs: InputSpecs,
        constants: Mapping[str, Array],
        hints: Mapping[str, str],
        limits: Limits,
    ) -> None:
        self.limits = limits
        self.source, self.specs, self.constants, self.hints = source, specs, constants, hints
        self.graph = Graph(Path(source.label).stem or "graph")
        self.values: dict[Entry, GraphTensor] = {}
        self.problems: list[str] = []
        given = symbols_of(size for spec in specs.values() for size in spec.dims)
        self.dynamic_names = DynamicNames(symbol.name for symbol in given)

    def load(self) -> Graph:
        self.check_names()
        self.bind_arguments()
        for number, node in enumerate(self.source.nodes):
            if node.op != "null":
                self.add(number, node)
        if self.problems:
            raise UnsupportedError(f"{self.source.label}: {'; '.join(self.problems)}")
        for index, head in enumerate(self.source.heads):
            name = "output" if len(self.source.heads) == 1 else f"output_{index}"
            try:
                self.graph.make_output(self.value(head), name)
            except UnsupportedError as error:
                raise UnsupportedError(f"{self.source.label}: {error}") from error
        return self.graph

    def check_names(self) -> None:
        nulls = {node.name for node in self.source.nodes if node.op == "null"}
        check_names(self.source.label, "input", self.specs, sorted(nulls))
        names = {node.name for node in self.source.nodes}
        for key in self.hints:
            if not any(key.startswith(f"{name}.") or _key_of(key, name) for name in names):
                raise UserError(
                    f"{self.source.label}: attribute '{key}' must be written node.key=value, and there is no such node"
                )

    def bind_arguments(self) -> None:
        """Inputs and parameters; in an uncompiled file the caller gives the inputs' types."""
        missing = []
        # The order of arg_nodes is that of the arguments; a null node it leaves out follows.
        nulls = [i for i, node in enumerate(self.source.nodes) if node.op == "null"]
        order = dict.fromkeys([*self.source.arg_nodes, *nulls])
        for number in order:
            node, entry = self.source.nodes[number], Entry(number)
            declared, spec = self.details(entry), self.specs.get(node.name)
            if node.name in self.constants:
                array = np.asarray(self.constants[node.name])
                self.check_type(node, declared, LogicalTensor(from_numpy(array.dtype), array.shape))
                self.values[entry] = self.graph.make_constant(array, node.name)
                continue
            details = LogicalTensor(spec.dtype, spec.dims) if spec else declared
            if details is None:
                missing.append(node.name)
                continue
            dims = tuple(limited(size, self.limits) for size in details.plain_dims)
            details = replace(details, plain_dims=dims)
            self.check_type(node, declared, details)
            who = f"{self.source.label}: input '{node.name}'"
            check_size(who, details.dtype, details.plain_dims)
            self.values[entry] = self.graph.make_input(details, node.name)
        if missing:
            names = ", ".join(f"'{name}'" for name in missing)
            example = " ".join(f"--input '{name}=f32[...]'" for name in missing)
            raise UserError(
                f"{self.source.label}: an uncompiled graph does not hold dtype and shape of {names}; say {example}, "
                "or give the .params file of the weights"
            )

    def check_type(self, node: Node, declared: LogicalTensor | None, given: LogicalTensor) -> None:
        if declared is not None and not _is_of(given, declared):
            raise UserError(
                f"{self.source.label}: '{node.name}' must be {declared}, as in the file, got {given}"
            )

    def details(self, entry: Entry) -> LogicalTensor | None:
        kind = self.source.type_of(entry)
        if kind is None:
            return None
        if kind.dtype not in DTYPES:
            name = self.source.nodes[entry.node].name
            raise UnsupportedError(
                f"{self.source.label}: '{name}' has dtype {kind.dtype}, which is not supported",
                OTHER_TYPE,
            )
        node = self.source.nodes[entry.node]
        if DYNAMIC in kind.shape and node.op != "null":
            return None  # follows from the operands
        sizes = (
            self.dynamic_names.size("", node.name, axis) if size == DYNAMIC else size
            for axis, size in enumerate(kind.shape)
        )
        return LogicalTensor(DTYPES[kind.dtype], tuple(sizes))

    def add(self, number: int, node: Node) -> None:
        results = self.outputs(number)
        known = [details for details in results if details is not None]
        for details in known:
            check_size(
                f"{self.source.label}: node '{node.name}'", details.dtype, details.plain_dims
            )
        try:
            made = self.expand(node, [self.value(entry) for entry in node.inputs], known)
            self.check_results(node, made, known)
        except UndeterminedError as error:
            func = node.attrs.get("func_name", node.op)
            names = split_name(func, OPERATORS.keys())
            inside = f"{error.operator}." if isinstance(names, list) and len(names) > 1 else ""
            self.problems.append(
                f"node '{node.name}' ({func}): attribute '{error.key}' is not determined, "
                f"say --attr '{node.name}.{inside}{error.key}=...'"
            )
        except (InternalError, NeedsLimit):
            raise
        except UnsupportedError as error:
            self.problems.append(str(error))
        except GraphcError as error:
            error.said(f"{self.source.label}: node '{node.name}': {error}")
            raise
        else:
            for index, tensor in enumerate(made):
                self.values[Entry(number, index)] = tensor
            return
        if (
            not known and self.source.types is None
        ):  # consumers of a node of unknown type cannot be imported
            raise UnsupportedError(f"{self.source.label}: {'; '.join(self.problems)}")
        for index, details in enumerate(known):  # so that errors in later nodes are found too
            self.values[Entry(number, index)] = self.graph.make_input(details, "unknown")

    def value(self, entry: Entry) -> GraphTensor:
        """An entry's tensor. An uncompiled file does not say how many outputs its nodes have."""
        if entry not in self.values:
            name = self.source.nodes[entry.node].name
            raise UnsupportedError(
                f"output {entry.output} of node '{name}' is not supported", WITHOUT
            )
        return self.values[entry]

    def outputs(self, number: int) -> list[LogicalTensor | None]:
        count = self.source.row_ptr[number + 1] - self.source.row_ptr[number]
        return [self.details(Entry(number, index)) for index in range(count)]

    def expand(
        self, node: Node, operands: list[GraphTensor], results: Sequence[LogicalTensor]
    ) -> list[GraphTensor]:
        func = node.attrs.get("func_name", "")
        if node.op != "tvm_op":
            return self.symbol(node, operands)
        if func in _NOP and operands and results:
            x = operands[0]
            dims = results[0].plain_dims
            if x.details.plain_dims == dims:
                return [x]
            return self.graph.make("reshape", [x], {"shape": dims}, node.name).outputs
        own = own_op(node)
        if own is not None:
            return make_own(self.graph, own, operands, node.name)
        names = split_name(func, OPERATORS.keys())
        if isinstance(names, str):
            raise UnsupportedError(f"node '{node.name}' ({func}): {names}")
        return self.kernel(node, names, operands, results)

    def symbol(self, node: Node, operands: list[GraphTensor]) -> list[GraphTensor]:
        """An operator of an uncompiled graph, with its attributes as the file has them."""
        name = node.op.replace(".", "_")
        if name not in OPERATORS:
            raise UnsupportedError(
                f"node '{node.name}': operator '{node.op}' is not supported", DEFINED
            )
        given = {**self.patterns(node, name), **node.attrs, **self.hinted(node, name)}
        return build(
            self.graph, Call(name, node.name, operands, given, stored=True), OPERATORS[name]
        )

    def kernel(
        self,
        node: Node,
        names: Sequence[str],
        operands: list[GraphTensor],
        results: Sequence[LogicalTensor],
    ) -> list[GraphTensor]:
        """A chain of operators: each takes the result before it and the kernel's next unused operands."""
        unused = list(operands)
        biases = len(operands) - sum(arity(name)[0] - 1 for name in names) - 1
        current: list[GraphTensor] = []
        earlier: list[GraphTensor] = []
        for number, name in enumerate(names):
            last, rest = number == len(names) - 1, names[number + 1 :]
            taken = current[:1]
            fewest, most = arity(name)
            if fewest < 0:
                fewest = len(unused) + len(taken)
            elif biases > 0:  # operands beyond those that all must have
                biases -= most - fewest
                fewest = most
            while len(taken) < fewest and unused:
                taken.append(unused.pop(0))
            while len(taken) < fewest and earlier:  # x * sigmoid(x): a value of the body itself
                taken.append(earlier[-1])
            if len(taken) < fewest:
                raise UnsupportedError(
                    f"node '{node.name}' ({node.attrs['func_name']}): the second operand of {name} is a constant "
                    "inside the kernel, which is not in the file",
                    "compile the graph without constants in kernels",
                )
            call = Call(
                name,
                node.name if last else f"{node.name}/{number}.{name}",
                taken,
                {**_layouts(node), **self.hinted(node, name)},
                fallback=self.patterns(node, name),
                results=results if last else self.preserved(rest, results, KEEPING),
                final=next(iter(self.preserved(rest, results, ELEMENTWISE | BROADCASTING)), None),
            )
            earlier += (current or taken)[:1]
            current = build(self.graph, call, OPERATORS[name])
        if unused:
            raise UnsupportedError(
                f"node '{node.name}' ({node.attrs['func_name']}): its {len(operands)} operands cannot be matched "
                "to its operators",
                "give the graph that was not compiled",
            )
        return current

    def preserved(
        self, rest: Sequence[str], results: Sequence[LogicalTensor], keeping: set[str]
    ) -> Sequence[LogicalTensor]:
        """The kernel's only result where all later steps are among those that preserve the requested property."""
        return results if len(results) == 1 and keeping.issuperset(rest) else ()

    def hinted(self, node: Node, name: str) -> dict[str, str]:
        """The caller's attributes of a node, and of one operator of it."""
        found: dict[str, Any] = {}
        for prefix in (f"{node.name}.", f"{node.name}.{name}."):
            for key, value in self.hints.items():
                if key.startswith(prefix) and "." not in key[len(prefix) :]:
                    found[key[len(prefix) :]] = str(value)
        return found

    def patterns(self, node: Node, name: str) -> dict[str, str]:
        """The caller's attributes of all nodes whose names match a pattern, and of one operator of these."""
        found = {}
        for key, value in self.hints.items():
            attribute = _key_of(key, node.name).removeprefix(f"{name}.")
            if attribute and "." not in attribute:
                found[attribute] = str(value)
        return found

    def check_results(
        self, node: Node, made: Sequence[GraphTensor], known: Sequence[LogicalTensor]
    ) -> None:
        """The operators' result must have the kernel's type given in the file."""
        if not known:
            return
        got = [tensor.details for tensor in made]
        if [(d.dtype, d.plain_dims) for d in got] != [(d.dtype, d.plain_dims) for d in known]:
            raise UnsupportedError(
                f"node '{node.name}' ({node.attrs.get('func_name')}): its operators are read to give "
                f"{', '.join(map(str, got))}, but the file says {', '.join(map(str, known))}",
                "say the attributes of its operators (`--attr`)",
            )
