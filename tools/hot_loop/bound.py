"""The least cycles of one iteration of a loop, by the ports of a core family, and what takes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

from ...base.records import dataclass
from ...codegen.aot import compile_to_part
from ...codegen.elf.object_file import CODE, read_object
from ...targets.isa import Target
from ...targets.ports import MODEL, PORTS, CoreFamily, Step
from .find import Loop, hot_loop

ITERATIONS = 24
"""Iterations that are followed to find the longest chain of results from one to the next."""

FRONT_END, CHAIN = "the front end", "the latency of its results"


@dataclass(frozen=True)
class LoopBound:
    """A loop and its bounds: `cycles` has the least cycles of an iteration for each reason, the longest first.

    `uops` are micro-operations as renamed, `ports` how busy each port is in an iteration at least, in cycles.
    """

    loop: Loop
    cycles: Mapping[str, float]
    ports: Mapping[str, float]
    uops: int
    multiply_adds: int
    code_bytes: int
    family: str

    @property
    def binding(self) -> str:
        """Return what the loop waits for."""
        return next(iter(self.cycles))

    @property
    def least(self) -> float:
        """Return the least cycles of an iteration."""
        return self.cycles[self.binding]


def loop_bound(assembly: str, target: Target) -> LoopBound | None:
    """Return the bounds of the hot loop in a kernel's assembly; None if it has no loop that `ASSEMBLY` reads."""
    name = target.machine.family if target.machine.family in PORTS else MODEL
    family, loop = PORTS[name], hot_loop(assembly, target)
    if not loop.lines:
        return None
    steps = loop.steps
    ports, busiest, pressure = _pressure(steps, family)
    uops = sum(_slots(step, family) for step in steps)
    cycles = {
        f"port{'s' * (len(busiest) > 1)} {'/'.join(busiest)}": pressure,
        FRONT_END: uops / family.width,
        CHAIN: _chain(steps, family),
    }
    return LoopBound(
        loop,
        dict(sorted(cycles.items(), key=lambda item: -item[1])),
        ports,
        uops,
        loop.multiply_adds,
        code_bytes(loop.lines, target),
        name,
    )


def _work(steps: Sequence[Step], family: CoreFamily) -> Mapping[tuple[str, ...], float]:
    """Ports that may run a micro-operation -> cycles of all of them."""
    work: dict[tuple[str, ...], float] = defaultdict(float)
    for step in steps:
        for kind in _kinds(step):
            cost = family.cost(kind, step.bits)
            for ports in cost.ports:
                work[tuple(ports.split())] += cost.busy
    return work


def _kinds(step: Step) -> list[str]:
    return [step.kind, *["load"] * step.loads, *["store"] * step.stores]


def _pressure(
    steps: Sequence[Step], family: CoreFamily
) -> tuple[dict[str, float], tuple[str, ...], float]:
    """(cycles by port, the ports that bind, their cycles).

    No distribution of the work is faster than the work that only some ports can do, divided by their number; the best
    one is as fast (Hall's theorem).
    """
    work = _work(steps, family)
    binding: tuple[tuple[str, ...], float] = ((), 0.0)
    for count in range(1, len(work) + 1):
        for group in combinations(work, count):
            ports = tuple(dict.fromkeys(port for member in group for port in member))
            inside = sum(cycles for member, cycles in work.items() if set(member) <= set(ports))
            if inside / len(ports) > binding[1] + 1e-9:
                binding = (ports, inside / len(ports))
    return _spread(work), binding[0], binding[1]


def _spread(work: Mapping[tuple[str, ...], float]) -> dict[str, float]:
    """Return how busy each port is if work goes to the ports that have least of it."""
    busy = {port: 0.0 for ports in work for port in ports}
    for ports, cycles in sorted(work.items(), key=lambda item: len(item[0])):
        rest = cycles
        for size in range(1, len(ports) + 1):  # fill up to the level of the next port
            order = sorted(ports, key=busy.__getitem__)
            level = busy[order[size]] if size < len(ports) else float("inf")
            add = min(rest / size, level - busy[order[0]])
            for port in order[:size]:
                busy[port] += add
            rest -= add * size
    return busy


def _slots(step: Step, family: CoreFamily) -> int:
    """Return the micro-operations that the front end sees: a load goes with the operation on its result, a store
    is one."""
    own = len(family.cost(step.kind, step.bits).ports)
    return max(own + bool(step.stores), 1)


def _chain(steps: Sequence[Step], family: CoreFamily) -> float:
    """Return the cycles from one iteration to the next if only operands are waited for."""
    ready: dict[str, float] = {}
    ends = []
    for _ in range(ITERATIONS):
        for step in steps:
            begin = max((ready.get(name, 0.0) for name in step.reads), default=0.0)
            if step.loads:
                address = max((ready.get(name, 0.0) for name in step.addresses), default=0.0)
                begin = max(begin, address + family.cost("load", step.bits).latency)
            end = begin + family.cost(step.kind, step.bits).latency
            if step.stores:
                end += family.cost("store", step.bits).latency
            for name in step.writes:
                ready[name] = end
        ends.append(max(ready.values(), default=0.0))
    half = ITERATIONS // 2
    return (ends[-1] - ends[half - 1]) / (ITERATIONS - half)


def code_bytes(loop: Sequence[str], target: Target) -> int:
    """Return the bytes of a loop's code: LLVM encodes the lines that it wrote."""
    inside = {line.partition(":")[0] for line in loop if line.startswith(".L")}
    text = []
    for line in loop:
        code = line.partition("#")[0].rstrip().expandtabs(1)
        for name in {word.strip("()+,") for word in code.split()}:
            label = name.partition("(")[0].partition("+")[0]
            if label.startswith(".L") and label.rstrip(":") not in inside:
                code = code.replace(label, "outside")  # a name that other objects may define
        text.append(f'module asm "{code}"\n')
    parts = read_object(compile_to_part("".join(text), target)).pieces
    return sum(len(piece.data) for piece in parts if piece.kind == CODE)
