"""Tensor IR functions to LLVM IR text: one short method per kind of statement.

Every function takes the runtime pointer first, then its parameters: an address for a buffer, the value for a variable.
Buffers are not `noalias`, since ops planned in place share one. Locals that are not values (`local_values`) become
stack slots of the whole function. Loops run serially whatever their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..base.errors import InternalError
from ..targets.isa import INSTRUCTIONS, Target
from ..tensor_ir.instructions import instruction_meaning, invokes
from ..tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Function,
    If,
    Invoke,
    Let,
    Module,
    ParallelInvoke,
    Prefetch,
    Slice,
    Stmt,
    Store,
    Var,
    While,
)
from ..tensor_ir.visitor import walk_statements
from .bounds_checks import BoundsChecks
from .capabilities import capabilities
from .expressions import Expressions
from .instruction_stream import InstructionStream, Typed
from .interruption import Polls, has_tasks, tasks_per_poll
from .llvm_types import memory_type, type_of
from .parallel_calls import ParallelCalls
from .symbols import comment, symbol
from .tile_instructions import TileInstructions
from .vector_instructions import VectorInstructions

LOCAL_ALIGNMENT = 64
SHARED_LOCAL_BYTES = 4 << 10
"""Locals from this size on share memory with those of the other arm of an `If`; LLVM keeps small ones in registers."""

MAX_LOCAL_BYTES = 4 << 20
"""Largest stack frame of one function: half of a worker's stack."""


class FunctionEmitter:
    """Emits the functions of one module. `declares`, `helpers` and `trampolines` collect what else they need.

    `max_carried`: the largest number of vectors that a loop carries from one round to the next; `makes_constants`:
    whether there are vectors of constants other than zero.
    """

    def __init__(self, module: Module, target: Target) -> None:
        self.declares: set[str] = set()
        self.helpers: set[str] = set()
        self.trampolines: dict[str, str] = {}
        self.max_carried, self.makes_constants = 0, False
        self._module = module
        self._can = capabilities(target)

    def function(self, function: Function, linkage: str, stamps: str = "") -> str:
        """The text of one function. `linkage` is `internal` or "" for a symbol that others may call.

        `stamps` names a parameter, s64[calls + 1], that receives the cycle counter at the start and after each call.
        """
        body = _Body(self, function, self._module, linkage, stamps)
        text = body.text()
        self.max_carried = max(self.max_carried, body.locals.max_carried)
        self.makes_constants |= body.locals.makes_constants
        return text

    def stream(self) -> InstructionStream:
        """An empty body."""
        return InstructionStream(self.declares)

    def expressions(
        self, stream: InstructionStream, body: Stmt, checks: BoundsChecks | None = None
    ) -> Expressions:
        """The emitter of its expressions, which are those of `body`."""
        return Expressions(stream, self._can, body, checks)


class _Body:
    def __init__(
        self,
        emitter: FunctionEmitter,
        function: Function,
        module: Module,
        linkage: str,
        stamps: str = "",
    ) -> None:
        self._function = function
        self._stamps = stamps
        self._stamped = 0
        self._module = module
        self._linkage = linkage
        self._local_bytes = 0
        self._stream = emitter.stream()
        checks = BoundsChecks(self._stream, emitter.helpers, function) if module.checked else None
        self._expressions = emitter.expressions(self._stream, function.body, checks)
        self.locals = self._expressions.locals
        self._names = self._expressions.names
        self._taken: list[tuple[int, str]] = []
        # Large locals of the arm of an `If` that does not run.
        self._free: list[tuple[int, str]] = []
        self._polls = Polls(self._stream, emitter.helpers)
        self._calls_others = invokes(function) or (module.checked and has_tasks(function))
        self._parallel = ParallelCalls(
            self._stream, emitter.trampolines, self._polls, is_serial=module.checked
        )
        self._emitters: dict[type, Callable[[Any], None]] = {
            Block: self._block,
            Let: self._let,
            Store: self._expressions.store,
            Allocate: self._allocate,
            For: self._for,
            If: self._if,
            While: self._while,
            Prefetch: self._prefetch,
            Invoke: self._invoke,
            ParallelInvoke: self._parallel_invoke,
        }

    def text(self) -> str:
        """The whole definition."""
        params = ["ptr %rt"]
        for param in self._function.params:
            name = self._stream.fresh(param.name)
            self._names[param.name] = name
            params.append(f"{parameter_type(param)} {name}")
        if self._calls_others:
            self._polls.begin()
        self._stamp()
        self._statement(self._function.body)
        self._stream.end_block("ret void")
        linkage = f"{self._linkage} " if self._linkage else ""
        head = f"define {linkage}void {symbol(self._function.name)}({', '.join(params)}) #0 {{"
        return f"{comment(self._function.note)}{head}\n{self._stream.text()}\n}}\n"

    def _statement(self, s: Stmt) -> None:
        emitter = self._emitters.get(type(s))
        if emitter is None:
            raise InternalError(
                f"function '{self._function.name}' still holds a {type(s).__name__}, which a pass should have expanded"
            )
        emitter(s)

    @contextmanager
    def _bindings(self) -> Iterator[None]:
        """Names bound inside go out of scope with it."""
        names, natural = dict(self._names), set(self._expressions.natural)
        yield
        self._names.clear()
        self._names.update(names)
        self._expressions.natural = natural

    def _block(self, s: Block) -> None:
        with self._bindings():
            for inner in s.body:
                self._statement(inner)

    def _let(self, s: Let) -> None:
        self._names[s.var.name] = self._expressions.value(s.value)
        self._mark(s.var, s.var.lanes == 1 and self._expressions.is_natural(s.value))

    def _mark(self, var: Var, natural: bool) -> None:
        if natural:
            self._expressions.natural.add(var.name)
        else:
            self._expressions.natural.discard(var.name)

    def _allocate(self, s: Allocate) -> None:
        if self.locals.allocate(s.buffer):
            return
        count = s.buffer.elements
        nbytes = count * s.buffer.dtype.size
        if nbytes >= SHARED_LOCAL_BYTES:
            fits = [slot for slot in self._free if slot[0] >= nbytes]
            if fits:
                self._free.remove(fits[0])
                self._taken.append(fits[0])
                self._names[s.buffer.name] = fits[0][1]
                return
        self._local_bytes += nbytes
        if self._local_bytes > MAX_LOCAL_BYTES:
            raise InternalError(
                f"function '{self._function.name}': locals up to '{s.buffer.name}' take {self._local_bytes} bytes of "
                f"stack, at most {MAX_LOCAL_BYTES} are available"
            )
        name = self._stream.fresh(s.buffer.name)
        kind = f"[{count} x {memory_type(s.buffer.dtype)}]"
        self._stream.allocate(name, kind, LOCAL_ALIGNMENT)
        self._names[s.buffer.name] = name
        if nbytes >= SHARED_LOCAL_BYTES:
            self._taken.append((nbytes, name))

    def _for(self, s: For) -> None:
        trips = _trip_count(s)
        if trips == 0:
            return
        begin = self._expressions.value(s.begin)
        with self._bindings():
            self._mark(s.var, self._expressions.is_natural(s.begin))
            if trips == 1:
                self._names[s.var.name] = begin
                self._statement(s.body)
            else:
                self._loop(s, begin, trips)

    def _loop(self, s: For, begin: str, trips: int | None) -> None:
        stream = self._stream
        end = self._expressions.value(s.end)
        counter = self._polls.counter() if self._calls_others else ""
        head, exit_ = (stream.fresh_label(s.var.name + part) for part in ("", ".end"))
        if trips is None:
            enter = stream.value(f"icmp slt i64 {begin}, {end}", begin, end)
            stream.end_block(f"br i1 {enter}, label %{head}, label %{exit_}")
        else:
            stream.end_block(f"br label %{head}")
        before = stream.label
        with stream.scope(conditional=False):
            block = stream.begin_block(head)
            var, following = stream.fresh_here(), stream.fresh_here()
            self._names[s.var.name], carried = var, self.locals.loop(s)
            stream.emit("")
            if counter:
                self._polls.each_round(counter)
            if _is_innermost(s):
                counters = self._expressions.counters
                with counters.of_loop(var):
                    self._statement(s.body)
                    counters.close(block, begin, before, s.step)
            else:
                self._statement(s.body)
            # The block that jumps back is only known now.
            last = stream.label
            block[1] = f"  {var} = phi i64 [ {begin}, %{before} ], [ {following}, %{last} ]"
            carried.close(block, before)
            stream.emit(f"{following} = add nsw i64 {var}, {s.step}")
            again = stream.result(f"icmp slt i64 {following}, {end}")
            stream.end_block(f"br i1 {again}, label %{head}, label %{exit_}")
        stream.begin_block(exit_)
        carried.leave(last, before if trips is None else "")

    def _if(self, s: If) -> None:
        stream = self._stream
        condition = self._expressions.value(s.condition)
        then, exit_ = stream.fresh_label("then"), stream.fresh_label("fi")
        otherwise = stream.fresh_label("else") if s.otherwise else exit_
        stream.end_block(f"br i1 {condition}, label %{then}, label %{otherwise}")
        free, before = list(self._free), len(self._taken)
        joined = self.locals.branch(s, stream.label)
        for label, arm in ((then, s.then), (otherwise, s.otherwise)):
            if arm is not None:
                with stream.scope(conditional=True), self._bindings():
                    stream.begin_block(label)
                    self._statement(arm)
                    stream.end_block(f"br label %{exit_}")
                joined.end_arm(stream.label)
            self._free = list(dict.fromkeys([*free, *self._taken[before:]]))  # only one arm runs
        self._free = free
        stream.begin_block(exit_)
        joined.join()

    def _while(self, s: While) -> None:
        stream = self._stream
        counter = self._polls.counter() if self._calls_others else ""
        head, body, exit_ = (stream.fresh_label(stem) for stem in ("while", "do", "done"))
        stream.end_block(f"br label %{head}")
        before = stream.label
        with stream.scope(conditional=False):
            block = stream.begin_block(head)
            carried = self.locals.loop(s)
            condition = self._expressions.value(s.condition)
            stream.end_block(f"br i1 {condition}, label %{body}, label %{exit_}")
            with stream.scope(conditional=True), self._bindings():
                stream.begin_block(body)
                if counter:
                    self._polls.each_round(counter)
                self._statement(s.body)
                carried.close(block, before)
                stream.end_block(f"br label %{head}")
        stream.begin_block(exit_)
        carried.leave_head()

    def _prefetch(self, s: Prefetch) -> None:
        self._stream.declares.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        address = self._expressions.address(s.address)
        self._stream.emit(
            f"call void @llvm.prefetch.p0(ptr {address}, i32 {int(not s.level)}, i32 {4 - max(s.level, 1)}, i32 1)"
        )

    def _invoke(self, s: Invoke) -> None:
        meaning = instruction_meaning(s.function)
        if meaning is not None:
            known = INSTRUCTIONS[s.function]
            emitter = TileInstructions if known.access else VectorInstructions
            emitter(self._stream, self._expressions, known).emit(meaning, s.args)
            return
        callee = self._callee(s.function)
        args = self._arguments(callee, s.args, len(callee.params))
        text = ", ".join(f"{kind} {operand}" for kind, operand in [("ptr", "%rt"), *args])
        self._stream.emit(f"call void {symbol(callee.name)}({text})")
        self._stamp()
        self._polls.after_kernel()

    def _stamp(self) -> None:
        """Store the cycle counter as the next timestamp, where stamps are wanted."""
        if not self._stamps:
            return
        self._stream.declares.add("declare i64 @llvm.readcyclecounter()")
        now = self._stream.result("call i64 @llvm.readcyclecounter()")
        pointer = f"getelementptr i64, ptr {self._names[self._stamps]}, i64 {self._stamped}"
        self._stream.emit(f"store i64 {now}, ptr {self._stream.result(pointer)}")
        self._stamped += 1

    def _parallel_invoke(self, s: ParallelInvoke) -> None:
        callee = self._callee(s.function)
        args = self._arguments(callee, s.args, len(callee.params) - 1)
        count = s.count if isinstance(s.count, int) else self._expressions.value(s.count)
        self._parallel.call(symbol(callee.name), args, count, tasks_per_poll(callee, count))

    def _callee(self, name: str) -> Function:
        try:
            return self._module.function(name)
        except KeyError as error:
            raise InternalError(
                f"function '{self._function.name}' calls '{name}', which is not in the module"
            ) from error

    def _arguments(
        self, callee: Function, args: tuple[Slice | Expr, ...], expected: int
    ) -> list[Typed]:
        if len(args) != expected:
            raise InternalError(f"'{callee.name}' takes {expected} arguments, got {len(args)}")
        operands = [
            self._expressions.address(a) if isinstance(a, Slice) else self._expressions.value(a)
            for a in args
        ]
        kinds = [parameter_type(param) for param in callee.params]
        return list(zip(kinds, operands, strict=False))


def parameter_type(param: Buffer | Var) -> str:
    """The type a parameter is passed as."""
    return "ptr" if isinstance(param, Buffer) else type_of(param.dtype, param.lanes)


def _is_innermost(s: For) -> bool:
    """Return whether no statement in a loop is a loop of several rounds."""
    return not any(
        isinstance(inner, While) or (isinstance(inner, For) and _trip_count(inner) not in (0, 1))
        for inner in walk_statements(s.body)
    )


def _trip_count(s: For) -> int | None:
    """Return the trip count of a loop with literal bounds."""
    if isinstance(s.begin, Const) and isinstance(s.end, Const):
        return len(range(int(s.begin.value), int(s.end.value), s.step))
    return None
