"""Move the body of each outermost `parallel` loop into a separate function, called for every iteration.

before   for i in parallel(0, 8): for j in parallel(0, 4): c[i * 4 + j] = a[i]
after    def f__task0(a, c, i_j_task): i = i_j_task // 4; j = i_j_task % 4; c[i * 4 + j] = a[i]
         parallel_invoke(32, f__task0, a, c)
Directly nested parallel loops become one count; parallel loops further inside run serially within their task.
A count may be an expression of sizes.
Ensures: no `parallel` loops.
"""

from __future__ import annotations

from dataclasses import replace

from ...targets.isa import Target
from .. import builder as t
from ..analysis import IndexAlgebra
from ..names import Names
from ..nodes import (
    Allocate,
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Function,
    Let,
    Module,
    ParallelInvoke,
    Slice,
    Stmt,
    Storage,
    Var,
)
from ..sizes import elements_of
from ..substitution import substitute
from ..visitor import Rewriter, bound_names, buffers_in, vars_in, walk_statements


def outline_parallel(module: Module, target: Target) -> Module:
    """Outline in every function; tasks stand before the function they come from."""
    functions: list[Function] = []
    taken = Names(function.name for function in module.functions)
    for function in module.functions:
        if has_parallel_loops(function):
            outliner = _Outliner(function, taken)
            new = outliner.function(function)
            tasks = outliner.tasks
            if module.checked:  # what is out of bounds is said to be of the op, not of its task
                tasks = [replace(task, note=function.note) for task in tasks]
            functions.extend([*tasks, new])
        else:
            functions.append(function)
    same = all(a is b for a, b in zip(functions, module.functions, strict=False))
    return module if same else Module(tuple(functions), module.entry, module.checked)


def has_parallel_loops(function: Function) -> bool:
    """Return whether threads would share the work of a function that is not outlined yet."""
    return any(isinstance(s, For) and s.kind == "parallel" for s in walk_statements(function.body))


class _Serial(Rewriter):
    """Parallel loops inside a task: the threads are taken already."""

    def for_(self, s: For) -> Stmt | tuple[Stmt, ...]:
        new = super().for_(s)
        return (
            replace(new, kind="serial") if isinstance(new, For) and new.kind == "parallel" else new
        )


class _Outliner(Rewriter):
    def __init__(self, function: Function, function_names: Names) -> None:
        self.owner = function
        self.function_names = function_names
        self.names = Names(bound_names(function))
        self.tasks: list[Function] = []
        self.locals: set[str] = set()
        self.algebra = IndexAlgebra()

    def for_(self, s: For) -> Stmt | tuple[Stmt, ...]:
        self.algebra.bind_loop(s)
        if s.kind != "parallel":
            return super().for_(s)
        loops = self._nest(s)
        bound = set(bound_names(s))
        free = [var for var in vars_in(s).values() if var.name not in bound]
        free += [var for var in self._sizes(s) if var not in free]
        if self._count(s) is None or any(var.lanes > 1 for var in free):
            # Neither a varying count nor a vector can be passed: keep this loop here, and look further inside.
            return replace(s, kind="serial", body=self.body(s.body))
        task, count = self._task(loops, free)
        self.tasks.append(task)
        args = [self._argument(param) for param in task.params[:-1]]
        return ParallelInvoke(task.name, tuple(args), count)

    def _count(self, loop: For) -> int | Expr | None:
        """Return the trip count of a loop that callers can compute: a number, or an expression of the
        function's sizes."""
        trips = self.algebra.trips(loop)
        if trips is not None:
            return trips
        names = vars_in(loop.end)
        sizes = bool(names) and all(name.startswith(t.SIZE_PREFIX) for name in names)
        return loop.end if sizes and loop.begin == t.ZERO and loop.step == 1 else None

    def _sizes(self, loop: For) -> list[Var]:
        """The sizes in the shapes of the buffers a loop uses."""
        shapes = [size for buffer in buffers_in(loop).values() for size in buffer.shape]
        known = [vars_in(size).values() for size in shapes if not isinstance(size, int)]
        return list(dict.fromkeys(var for some in known for var in some))

    def _task(self, loops: list[For], free: list[Var]) -> tuple[Function, int | Expr]:
        """The function that runs one iteration of the nest, and how many there are."""
        own = [loop.var.name for loop in loops]
        plain = len(loops) == 1 and loops[0].begin == t.ZERO and loops[0].step == 1
        index = loops[0].var if plain else Var(self.names.fresh("_".join([*own, "task"])))
        lets: list[Let] = []
        inner: int | Expr = 1
        for loop in reversed(loops):
            trips = self._count(loop) or 0
            number = index // inner
            if loop is not loops[0]:
                number = number % trips
            lets.append(Let(loop.var, loop.begin + number * loop.step))
            inner = elements_of((trips, inner))
        body = _Serial().body(loops[-1].body)
        statements = [
            *([] if plain else reversed(lets)),
            *(body.body if isinstance(body, Block) else (body,)),
        ]
        block = Block(tuple(statements))
        buffers = self._captured(block)
        moved = substitute(
            block, {}, {name: b for name, b in buffers.items() if name in self.locals}
        )
        name = self.function_names.fresh(f"{self.owner.name}__task{len(self.tasks)}")
        params: tuple[Buffer | Var, ...] = (*buffers.values(), *free, index)
        note = f"{' '.join(own)} of {self.owner.name}"
        return Function(
            name, params, moved if isinstance(moved, Block) else Block((moved,)), note
        ), inner

    def _nest(self, outer: For) -> list[For]:
        """The loop and the parallel loops directly inside it, perfectly nested and with fixed counts."""
        loops = [outer]
        while isinstance(loops[-1].body, For) and loops[-1].body.kind == "parallel":
            inner = loops[-1].body
            fixed = isinstance(inner.begin, Const) and isinstance(inner.end, Const)
            if not fixed and not isinstance(self._count(inner), Binary | Var):
                break
            loops.append(inner)
        return loops

    def _captured(self, body: Block) -> dict[str, Buffer]:
        """Buffers the body takes from outside, as parameters: those of the owner in their order, then its locals."""
        inside = {s.buffer.name for s in walk_statements(body) if isinstance(s, Allocate)}
        used = {name: b for name, b in buffers_in(body).items() if name not in inside}
        self.locals |= {name for name, b in used.items() if b.storage == "local"}
        captured = {name: replace(b, storage="param") for name, b in used.items()}
        first = [param.name for param in self.owner.params if param.name in captured]
        return {name: captured[name] for name in dict.fromkeys([*first, *captured])}

    def _argument(self, param: Buffer | Var) -> Slice | Expr:
        if isinstance(param, Var):
            return param
        storage: Storage = "local" if param.name in self.locals else "param"
        return t.slice_of(replace(param, storage=storage))
