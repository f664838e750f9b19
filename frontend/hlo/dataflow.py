"""The data-flow graph of a module as plain data for JSON: nodes and edges with ids and labels."""

from __future__ import annotations

from typing import Any

from .syntax import Called, Computation, Instruction, Module


def to_dfg(module: Module) -> dict[str, Any]:
    """`{"name", "entry", "nodes", "edges"}`: one node per instruction, one edge per operand and per call.

    A node has `id` ("computation/instruction"), `label` (its opcode), `computation`, `shape`, `is_root`; an edge `id`,
    `source`, `target`, `label` (the operand's number and tuple path, or the attribute that calls).
    """
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    for computation in module.computations.values():
        for instruction in computation.instructions:
            nodes.append(_node(computation, instruction))
            _add_edges(module, computation, instruction, edges)
    return {"name": module.name, "entry": module.entry, "nodes": nodes, "edges": edges}


def _node(computation: Computation, instruction: Instruction) -> dict[str, Any]:
    return {
        "id": f"{computation.name}/{instruction.name}",
        "label": instruction.opcode,
        "computation": computation.name,
        "shape": instruction.shape.logical() if instruction.shape else "",
        "is_root": instruction.name == computation.root,
    }


def _add_edges(
    module: Module, computation: Computation, instruction: Instruction, edges: list[dict[str, Any]]
) -> None:
    target = f"{computation.name}/{instruction.name}"

    def add(source: str, label: str) -> None:
        edges.append({"id": f"e{len(edges)}", "source": source, "target": target, "label": label})

    for number, operand in enumerate(instruction.operands):
        path = "".join(f"#{i}" for i in operand.path)
        add(f"{computation.name}/{operand.name}", f"{number}{path}")
    for name, value in instruction.attributes.items():
        for called in value if isinstance(value, tuple) else (value,):
            if isinstance(called, Called) and called.name in module.computations:
                add(f"{called.name}/{module.computations[called.name].root}", name)
