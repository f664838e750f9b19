"""The text of one function as it grows: blocks, fresh names, and pure values emitted once and hoisted as far
as possible.

Each loop or branch opens a scope. A pure scalar instruction goes to the outermost scope that has all its operands, at
the end of the block that was open there, and is found again by its text. That gives loop-invariant code motion and
common subexpression elimination of index arithmetic for the cost of a dictionary lookup. Vector instructions stay where
they are: hoisting them would occupy registers that accumulators need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from ..base.records import dataclass

Typed = tuple[str, str]
"""A type and an operand of it."""


@dataclass
class _Scope:
    block: list[str]
    known: dict[str, str] = field(default_factory=dict)


class InstructionStream:
    """Collects the instructions of a function body. `declares` receives the declarations of what it calls."""

    def __init__(self, declares: set[str]) -> None:
        self.declares = declares
        self.label = "entry"
        self._allocas: list[str] = []
        first: list[str] = []
        self._chunks: list[list[str]] = [first]
        self._scopes = [_Scope(first)]
        self._depths: dict[str, int] = {}
        self._floor = 0
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        """An unused value name, with its `%`."""
        self._count += 1
        return f"%{stem}.{self._count}"

    def fresh_here(self) -> str:
        """An unused value name for an instruction appended to the current block with `emit`."""
        name = self.fresh()
        self.define(name)
        return name

    def fresh_label(self, stem: str) -> str:
        """An unused block name, without the `%`."""
        return self.fresh(stem)[1:]

    def emit(self, instruction: str) -> None:
        """Append an instruction to the current block."""
        self._scopes[-1].block.append(f"  {instruction}")

    def result(self, instruction: str) -> str:
        """Append an instruction with a result that must not be moved or shared: a load, a call."""
        name = self.fresh()
        self.emit(f"{name} = {instruction}")
        self.define(name)
        return name

    def define(self, name: str) -> None:
        """Record that `name` is defined in the current scope."""
        self._depths[name] = len(self._scopes) - 1

    def reveal(self, name: str) -> None:
        """Record that the current scope sees `name`, which a scope that has ended may have defined."""
        self._depths[name] = min(self.depth(name), len(self._scopes) - 1)

    def depth(self, operand: str) -> int:
        """The number of the scope an operand is defined in; 0 for constants and parameters."""
        return self._depths.get(operand, 0)

    def value(self, instruction: str, *scalars: str) -> str:
        """The result of a pure instruction, shared with an equal one that is visible.

        `scalars` are all its operands if it may be moved out of loops; without them it stays here.
        """
        for scope in reversed(self._scopes):
            if instruction in scope.known:
                return scope.known[instruction]
        depth = len(self._scopes) - 1
        if scalars:
            depth = max(self._floor, *(self._depths.get(s, 0) for s in scalars))
        scope = self._scopes[depth]
        name = self.fresh()
        scope.block.append(f"  {name} = {instruction}")
        scope.known[instruction] = name
        self._depths[name] = depth
        return name

    def pure(self, instruction: str, lanes: int, *operands: str) -> str:
        """`value`, movable when it has one lane."""
        return self.value(instruction, *operands) if lanes == 1 else self.value(instruction)

    def intrinsic(self, name: str, result: str, *args: Typed, movable: bool = False) -> str:
        """The result of a pure function of LLVM, which is declared."""
        self.declare(name, result, [kind for kind, _ in args])
        text = f"call {result} @{name}({', '.join(f'{kind} {operand}' for kind, operand in args)})"
        return self.value(text, *(operand for _, operand in args)) if movable else self.value(text)

    def declare(self, name: str, result: str, args: Sequence[str]) -> None:
        """Declare a function of LLVM or libc that the body calls."""
        self.declares.add(f"declare {result} @{name}({', '.join(args)})")

    def allocate(self, name: str, kind: str, align: int) -> None:
        """Reserve stack memory in the function's first block, where LLVM can turn it into registers."""
        self._allocas.append(f"  {name} = alloca {kind}, align {align}")

    def end_block(self, terminator: str) -> None:
        """Finish the current block. It may still receive instructions that are moved out of loops."""
        self._chunks.append([f"  {terminator}"])

    def begin_block(self, label: str) -> list[str]:
        """Start a block in the current scope; returns its lines, of which the first is the label."""
        block = [f"{label}:"]
        self._chunks.append(block)
        self._scopes[-1].block = block
        self.label = label
        return block

    def begin_part(self, label: str) -> None:
        """Start a block within what is emitted in the current one, as both sides of a value are."""
        self._scopes[-1].block.append(f"{label}:")
        self.label = label

    @contextmanager
    def scope(self, conditional: bool) -> Iterator[None]:
        """Open a scope: names defined inside are visible only there; nothing is moved out of a `conditional` scope.

        The first thing inside must be `begin_block`.
        """
        floor = self._floor
        self._scopes.append(_Scope([]))
        if conditional:
            self._floor = len(self._scopes) - 1
        yield
        self._scopes.pop()
        self._floor = floor

    def text(self) -> str:
        """The text from the entry label on."""
        lines = ["entry:", *self._allocas]
        for chunk in self._chunks:
            lines.extend(chunk)
        return "\n".join(lines)
