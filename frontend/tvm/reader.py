"""Reads graph JSON and checks it: ids in range, order, lengths."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from typing import Any

from ...base.errors import UnsupportedError, UserError
from ..model_text import read_text
from .document import DYNAMIC, OLD_FLAGS, Entry, Node, TensorType, TvmGraph
from .json_text import parse_json

_LISTS: dict[str, tuple[str, type]] = {
    "storage_id": ("list_int", int), "dltype": ("list_str", str), "shape": ("list_shape", list),
}  # fmt: skip
"""Lists with an entry per tensor: attribute to its tag and the type of its elements."""

_COUNT = re.compile(r"\d{1,6}", re.ASCII)
_REQUIRED = ("nodes", "arg_nodes", "heads")


def read_tvm(source: str | os.PathLike[str] | bytes) -> TvmGraph:
    """The graph in a JSON file, or in the bytes of one. Raise UserError for what is not a graph JSON."""
    return parse_tvm(*read_text(source, "graph json", "graph JSON"))


def parse_tvm(text: str, label: str = "graph json") -> TvmGraph:
    """The graph in a text; `label` is what messages call it."""
    value = parse_json(text, label)
    if not isinstance(value, dict) or any(key not in value for key in _REQUIRED):
        keys = sorted(value)[:10] if isinstance(value, dict) else type(value).__name__
        raise UserError(f"{label}: a graph JSON must have nodes, arg_nodes and heads, got {keys}")
    return _Checker(label, value).graph()


class _Checker:
    def __init__(self, label: str, value: dict[str, Any]) -> None:
        self.label, self.value = label, value
        self.nodes: list[Node] = []

    def graph(self) -> TvmGraph:
        for number, item in enumerate(self.items("nodes", self.value["nodes"])):
            self.nodes.append(self.node(number, item))
        arg_nodes = self.integers("arg_nodes", self.value["arg_nodes"])
        for number in arg_nodes:
            if not 0 <= number < len(self.nodes) or self.nodes[number].op != "null":
                raise self.error(f"arg_nodes must be the numbers of null nodes, got {number}")
        heads = self.items("heads", self.value["heads"])
        entries = tuple(self.entry("heads", head, len(self.nodes)) for head in heads)
        attrs = self.graph_attrs()
        found: dict[str, Any] = {
            "nodes": tuple(self.nodes),
            "arg_nodes": tuple(arg_nodes),
            "heads": entries,
        }
        if not all(node.op in ("null", "tvm_op") for node in self.nodes):
            row_ptr = tuple(range(len(self.nodes) + 1))
            return TvmGraph(self.label, **found, row_ptr=row_ptr, types=None, attrs=attrs)
        row_ptr = self.row_ptr()
        types = self.types(attrs, row_ptr[-1])
        self.check_entries(entries, row_ptr)
        storage = tuple(attrs["storage_id"][1])
        rest = {
            k: v for k, v in attrs.items() if k not in ("storage_id", "dltype", "shape", "dtype")
        }
        return TvmGraph(
            self.label, **found, row_ptr=row_ptr, types=types, storage_id=storage, attrs=rest
        )

    def error(self, rule: str) -> UserError:
        return UserError(f"{self.label}: {rule}")

    def items(self, what: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.error(f"{what} must be a list, got {type(value).__name__}")
        return value

    def integers(self, what: str, value: Any) -> list[int]:
        items = self.items(what, value)
        for item in items:
            if isinstance(item, bool) or not isinstance(item, int) or abs(item) >= 2**62:
                raise self.error(f"{what} must be integers, got {str(item)[:40]!r}")
        return items

    def node(self, number: int, item: Any) -> Node:
        who = f"node {number}"
        named = isinstance(item, dict) and all(isinstance(item.get(k), str) for k in ("op", "name"))
        if not named:
            raise self.error(f"{who} must be an object with the strings op and name")
        who = f"node {number} '{item['name']}'"
        inputs = self.items(f"{who}: inputs", item.get("inputs", []))
        if any(isinstance(x, str) for x in inputs):
            raise UnsupportedError(
                f"{self.label}: {who} names its inputs: this is a dump of TVM's debugger",
                "give the graph JSON itself",
            )
        attrs: Any = next((item[key] for key in ("attrs", "attr", "param") if key in item), {})
        if not isinstance(attrs, dict) or not all(isinstance(v, str) for v in attrs.values()):
            raise self.error(f"{who}: attrs must be an object of strings")
        entries = tuple(self.entry(f"{who}: inputs", x, number) for x in inputs)
        if item["op"] == "tvm_op":
            self.check_kernel(who, attrs, len(entries))
        deps = self.integers(f"{who}: control_deps", item.get("control_deps", []))
        return Node(item["op"], item["name"], entries, attrs, tuple(deps))

    def check_kernel(self, who: str, attrs: dict[str, str], inputs: int) -> None:
        for key in ("func_name", "num_inputs", "num_outputs"):
            if key not in attrs:
                raise self.error(f"{who}: attrs must have '{key}', got {sorted(attrs)}")
            if key != "func_name" and not _COUNT.fullmatch(attrs[key]):
                raise self.error(f"{who}: {key} must be a number, got '{attrs[key][:40]}'")
        if int(attrs["num_inputs"]) != inputs:
            given = attrs["num_inputs"]
            raise self.error(f"{who}: num_inputs must be {inputs}, as many as it has, got {given}")

    def entry(self, what: str, value: Any, before: int) -> Entry:
        parts = self.integers(what, value)
        if len(parts) not in (2, 3):
            raise self.error(f"{what} must be [node, output, version], got {parts}")
        if not 0 <= parts[0] < before or parts[1] < 0:
            raise self.error(f"{what} must point to one of the {before} nodes above, got {parts}")
        return Entry(parts[0], parts[1])

    def row_ptr(self) -> tuple[int, ...]:
        counts = (int(node.attrs.get("num_outputs", "1")) for node in self.nodes)
        expected = [0, *itertools.accumulate(counts)]
        given = self.integers("node_row_ptr", self.value.get("node_row_ptr"))
        if given != expected:
            pairs = enumerate(zip(given, expected, strict=False))
            where = next((f" with {a} at {i}" for i, (a, b) in pairs if a != b), "")
            raise self.error(
                f"node_row_ptr must have {len(expected)} numbers that grow by the outputs of each node, "
                f"got {len(given)}{where}"
            )
        return tuple(given)

    def graph_attrs(self) -> dict[str, Any]:
        attrs = self.value.get("attrs", {})
        if not isinstance(attrs, dict):
            raise self.error(f"attrs must be an object, got {type(attrs).__name__}")
        for key, pair in attrs.items():
            if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
                raise self.error(f"attrs '{key}' must be a pair of tag and value")
        return dict(attrs)

    def types(self, attrs: dict[str, Any], count: int) -> tuple[TensorType, ...]:
        if "dltype" not in attrs and "dtype" in attrs:  # very old files have only the numbers
            flags = self.integers("attrs 'dtype'", attrs["dtype"][1])
            attrs["dltype"] = ["list_str", [OLD_FLAGS.get(flag, f"type {flag}") for flag in flags]]
        for key, (tag, kind) in _LISTS.items():
            if key not in attrs:
                raise self.error(f"attrs must have '{key}', got {sorted(attrs)}")
            given, values = attrs[key]
            if given != tag or not isinstance(values, list) or len(values) != count:
                size = len(values) if isinstance(values, list) else type(values).__name__
                raise self.error(
                    f"attrs '{key}' must be a {tag} of {count} values, got {given} of {size}"
                )
            if any(not isinstance(v, kind) or isinstance(v, bool) for v in values):
                raise self.error(f"attrs '{key}' must be a {tag}")
        shapes = [self.integers("attrs 'shape'", shape) for shape in attrs["shape"][1]]
        if any(dim < DYNAMIC for shape in shapes for dim in shape):
            raise self.error("attrs 'shape' must not have negative sizes")
        pairs = zip(attrs["dltype"][1], shapes, strict=True)
        return tuple(TensorType(dtype, tuple(shape)) for dtype, shape in pairs)

    def check_entries(self, heads: Sequence[Entry], row_ptr: Sequence[int]) -> None:
        used = [(f"node {i} '{n.name}'", e) for i, n in enumerate(self.nodes) for e in n.inputs]
        for who, entry in [*used, *(("heads", head) for head in heads)]:
            count = row_ptr[entry.node + 1] - row_ptr[entry.node]
            if entry.output >= count:
                got = f"node {entry.node} has {count} outputs, which must have the output {entry.output}"
                raise self.error(f"{who}: {got}")
