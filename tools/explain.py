"""Explains how a model was compiled, from the decision log, the layout decisions and the memory plan.

All facts are plain values (dictionaries, lists, strings, numbers), so that they can be printed as text or JSON.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..base.errors import UserError
from ..base.records import dataclass
from ..base.size_queries import typical
from ..driver.stages import Compilation
from ..graph_ir.ir.graph import Graph, Op, all_ops
from ..graph_ir.ir.note import MODEL_VALUES
from ..graph_ir.lowering.lower_graph import KernelCall, LoweredModel
from ..graph_ir.passes.choose_schedules import parts_of
from ..graph_ir.passes.plan_memory import MEMORY_PLAN, Life, MemoryPlan
from ..graph_ir.passes.propagate_layouts import LAYOUT_DECISIONS, LayoutDecision
from ..graph_ir.rewriting.decisions import Decision, DecisionLog, log_of
from ..graph_ir.rewriting.groups import storage_root
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.space import ScheduleSpace
from ..graph_ir.schedule.spaces import space_of
from ..tensor_ir.nodes import Module
from ..tensor_ir.printer import print_module
from .submodel import body

Facts = dict[str, Any]
MAX_SCHEDULES = 8
MAX_NAMES = 3


@dataclass(frozen=True)
class Explanation:
    """Answers questions about a compiled model: `source` as read, `graph` as optimized, and the lowered program."""

    source: Graph
    graph: Graph
    lowered: LoweredModel
    ctx: LowerContext

    @classmethod
    def of(cls, compilation: Compilation) -> Explanation:
        """Return the answers about a compilation."""
        ctx = compilation.request.context
        return cls(compilation.source, compilation.graph, compilation.lowered, ctx)

    @property
    def log(self) -> DecisionLog:
        """The decisions of the passes."""
        return log_of(self.graph)

    @cached_property
    def _ops(self) -> dict[str, Op]:
        """The ops of the optimized graph by name, its nodes before ops inside them."""
        inner = {op.name: op for op in all_ops(self.graph)}
        return inner | {op.name: op for op in self.graph.ops}

    @cached_property
    def _sources(self) -> dict[str, set[str]]:
        """The ops of the model by the names of what became of them."""
        found: dict[str, set[str]] = defaultdict(set)
        for op in self.source.ops:
            if op.kind not in ("source", "sink"):
                for name in self.log.became(op.name):
                    found[name].add(op.name)
        return found

    def passes(self) -> list[Facts]:
        """Each pass: ops before and after it, which it removed and added, and its decisions."""
        return [
            {
                "number": stage.number,
                "pass": stage.name,
                "enabled": stage.enabled,
                "changed": stage.changed,
                "before": len(stage.before),
                "after": len(stage.after),
                "removed": list(stage.removed),
                "added": list(stage.added),
                "decisions": [str(d) for d in self.log.of_stage(stage.number)],
            }
            for stage in self.log.stages
        ]

    def kernels(self) -> list[Facts]:
        """Each call of a kernel in the order they run: what it computes, in which layouts, under which schedule."""
        return [self._kernel(call) for call in self.lowered.calls]

    def not_fused(self) -> list[str]:
        """Neighboring ops in different kernels, with the rule that keeps them apart."""
        return [str(d) for d in self.log.decisions if d.kind == "not fused"]

    def memory(self) -> Facts:
        """The arena: its size, the lower bound of any plan, and each block with its lifetime and the block
        it reuses."""
        plan = MEMORY_PLAN.of(self.graph)
        return {
            "arena_bytes": plan.arena_bytes,
            "lower_bound": plan.lower_bound,
            "blocks": [self._block(plan, life) for life in plan.lives],
        }

    def node(self, name: str) -> Facts:
        """Return all facts about an op of the model (by its name or that of its value in the file), a node, or
        a kernel.

        Raise UserError if there is none.
        """
        if any(call.kernel == name for call in self.lowered.calls):
            same = [self._kernel(call) for call in self.lowered.calls if call.kernel == name]
            return {"kernel": name, "calls": same}
        name = self._op_name(name)
        names = self.log.became(name)
        op = self._find(name, names)
        story = self._story(op, name)
        calls = [call for call in self.lowered.calls if self._members(call) & names]
        facts: Facts = {
            "node": name,
            "op": op.op_name,
            "inputs": [f"{x.name}: {x.details}" for x in op.inputs],
            "outputs": [str(y.details) for y in op.outputs],
            "gflop": op.get_gflop(),
            "became": sorted(names - {name}),
            "decisions": [f"{d.stage} {d.pass_name}: {d}" for d in story],
            "layouts": [c for d in self._layouts(names) for c in _candidates(d)],
            "schedules": [f for call in calls for f in self._schedules(self._ops[call.op_name])],
            "kernels": [self._kernel(call) for call in calls],
        }
        facts["memory"] = [self._location(call) for call in calls]
        return facts

    def steps(self, name: str) -> list[Facts]:
        """The steps from the naive nests of a node's contraction to its kernel: {"step", "code" after it}.

        Raise UserError if no nest computes the node.
        """
        from ..graph_ir.inspect.nest_steps import nest_steps

        names = self.log.became(self._op_name(name))
        calls = [call for call in self.lowered.calls if self._members(call) & names]
        for call in calls:
            found = [
                {"step": step, "code": print_module(Module((function,)))}
                for step, function in nest_steps(self._ops[call.op_name], self.ctx)
            ]
            if found:
                return found
        raise UserError(
            f"'{name}' has no steps: the node must be a matmul, convolution or attention whose kernel has nests"
        )

    def _op_name(self, name: str) -> str:
        """The op with a name from the model file: its own name, or that of a value it computes."""
        if any(op.name == name for op in self.source.ops):
            return name
        return MODEL_VALUES.of(self.source).get(name, name)

    def _find(self, name: str, names: set[str]) -> Op:
        ops = {op.name: op for op in [*all_ops(self.graph), *all_ops(self.source)]}
        if name in ops:
            return ops[name]
        if len(names) == 1 and not self.log.story(name):
            known = ", ".join(
                [op.name for op in self.source.ops if op.kind not in ("source", "sink")][:20]
            )
            raise UserError(f"there is no node or kernel '{name}'; the model's nodes are {known}")
        return next(ops[n] for n in sorted(names) if n in ops)

    def _story(self, op: Op, name: str) -> list[Decision]:
        """Decisions about the op and about constants that only it reads."""
        names = [name, *(x.name for x in op.inputs if x.is_constant)]
        found = {id(d): d for n in names for d in self.log.story(n)}
        return sorted(found.values(), key=lambda d: self.log.decisions.index(d))

    def _members(self, call: KernelCall) -> set[str]:
        node = self._ops[call.op_name]
        return {node.name, *(op.name for op in body(node))}

    def _layouts(self, names: set[str]) -> list[LayoutDecision]:
        return [d for d in LAYOUT_DECISIONS.of(self.graph) if d.op_name in names]

    def _schedules(self, op: Op) -> list[Facts]:
        """The schedules on offer for a kernel, its own and the model's favorites first, with predicted cycles."""
        space = space_of(op, self.ctx)
        if space is None or op.schedule is None:
            return []
        listed = list(dict.fromkeys([op.schedule, *space.candidates]))
        return [
            {
                "kernel": op.name,
                "problem": space.problem,
                "schedule": str(schedule),
                "cycles": _rounded(space.cycles(schedule)),
                "chosen": schedule == op.schedule,
                "by": self._chooser(op, space) if schedule == op.schedule else "",
                "offered": len(space.candidates),
            }
            for schedule in listed[:MAX_SCHEDULES]
        ]

    def _chooser(self, op: Op, space: ScheduleSpace) -> str:
        """Return the source of the schedule of a kernel."""
        if any(parts_of(self.graph, [op], name) for name in self.ctx.requested):
            return "the user"
        return (
            "a tuning file"
            if self.ctx.tuned.get(space.problem) == op.schedule
            else "the cost model"
        )

    def _kernel(self, call: KernelCall) -> Facts:
        node = self._ops[call.op_name]
        names = {op.name for op in body(node)}
        chosen = [d.candidates[d.chosen] for d in self._layouts(names)]
        return {
            "node": node.name,
            "kernel": call.kernel,
            "ops": [f"{op.op_name} {op.name}" for op in body(node)],
            "layouts": [",".join(map(str, (*c.inputs, *c.outputs))) for c in chosen],
            "schedule": str(node.schedule or ""),
            "gflop": call.gflop,
            "source": sorted(
                {x for name in (node.name, *names) for x in self._sources.get(name, ())}
            ),
        }

    def _location(self, call: KernelCall) -> str:
        node = self._ops[call.op_name]
        plan = MEMORY_PLAN.of(self.graph)
        root = storage_root(node.outputs[0])
        if root not in plan.offsets:
            return f"{node.name} writes to the caller's output"
        life = next(life for life in plan.lives if root in life.tensors)
        return str(self._block(plan, life)["text"])

    def _block(self, plan: MemoryPlan, life: Life) -> Facts:
        begin, ops = plan.offset(life), self.graph.ops
        before = [
            other.tensors[-1].name if other.tensors else other.name
            for other in plan.lives
            if other is not life and other.end < life.begin
            for start in [plan.offset(other)]
            if typical(start) < typical(begin + life.size)
            and typical(begin) < typical(start + other.size)
        ]
        text = f"{life.name} in arena[{begin}:{begin + life.size}], from {ops[life.begin].name} to {ops[life.end].name}"
        text += f"; reuses bytes of {_first_names(before)}" if before else ""
        text += "; written in place" if len(life.tensors) > 1 else ""
        return {
            "tensors": [x.name for x in life.tensors],
            "offset": begin,
            "bytes": life.size,
            "begin": life.begin,
            "end": life.end,
            "reuses": before,
            "text": text,
        }


def _first_names(names: Sequence[str]) -> str:
    """Return the first few names, and the number of the others."""
    shown, others = ", ".join(names[:MAX_NAMES]), len(names) - MAX_NAMES
    return f"{shown} and {others} more" if others > 0 else shown


def _candidates(decision: LayoutDecision) -> list[Facts]:
    return [
        {
            "op": decision.op_name,
            "inputs": [str(f) for f in choice.inputs],
            "outputs": [str(f) for f in choice.outputs],
            "cost": cost,
            "chosen": number == decision.chosen,
        }
        for number, (choice, cost) in enumerate(
            zip(decision.candidates, decision.costs, strict=True)
        )
    ]


def _rounded(cycles: float | None) -> int | None:
    return None if cycles is None else round(cycles)
