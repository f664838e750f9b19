"""Runs any function with NumPy, exactly as `nodes` says: the reference native code is measured against.

Every stage runs: multi-dimensional buffers and `Brgemm` before the pipeline, explicit lanes after it. Arithmetic is
done in the dtype. Locals start with a poison pattern (NaN, the extreme integer), so that uses of undefined values are
visible. An access out of bounds is an InternalError. `fma` is computed in float64 and rounded to f32, and the sums of a
float `Brgemm` in float64 and rounded once: both may differ from the native code in the last bits.

A function is first converted to nested closures, one per node, which run about three times faster than walking
the tree.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.dtypes import BOOL, S64, U8, DType
from ..base.errors import InternalError
from .evaluate import Env, Evaluate, compile_expr, compile_index, compile_size
from .instructions import instruction_meaning
from .nodes import (
    Allocate,
    Block,
    Brgemm,
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
from .sizes import elements_of
from .visitor import walk_statements

Run = Callable[[Env], None]


def run(
    module: Module,
    function_name: str,
    arrays: Sequence[np.ndarray[Any, Any] | int | float],
    shuffle: int | None = None,
) -> None:
    """Run a function in place on its parameters: an array per buffer (contiguous, of its dtype and number of
    elements), a number per variable. `shuffle` seeds a random order of the iterations of parallel loops.

    InternalError on an access out of bounds and on arguments that do not fit.
    """
    runner = _Runner(module, None if shuffle is None else random.Random(shuffle))
    function = module.function(function_name)
    if len(arrays) != len(function.params):
        raise InternalError(
            f"'{function_name}' takes {len(function.params)} arguments, got {len(arrays)}"
        )
    given = list(zip(function.params, arrays, strict=True))
    env: Env = {p.name: _scalar(p, a) for p, a in given if isinstance(p, Var)}
    env |= {p.name: _array(function_name, p, a, env) for p, a in given if isinstance(p, Buffer)}
    with np.errstate(all="ignore"):
        runner.function(function_name)(env)


def poison(dtype: DType) -> Any:
    """The value of undefined memory: NaN, the least signed or the greatest unsigned number, True."""
    if dtype.is_float:
        return dtype.numpy.type(math.nan)
    if dtype == BOOL:
        return np.True_
    return dtype.numpy.type(dtype.limits[not dtype.is_signed])


def _scalar(param: Var, value: Any) -> Any:
    return int(value) if param.dtype.name == "s64" else param.dtype.numpy.type(value)


def _array(function: str, param: Buffer, value: Any, sizes: Env) -> Any:
    count = compile_size(elements_of(param.shape))(sizes)
    if not isinstance(value, np.ndarray) or value.dtype != param.dtype.numpy or value.size != count:
        got = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
        raise InternalError(
            f"'{function}': buffer '{param.name}' is {param.dtype}{list(param.shape)}, got {got}"
        )
    if not value.flags.c_contiguous:
        raise InternalError(f"'{function}': the array for buffer '{param.name}' must be contiguous")
    return value.reshape(-1)


class _Runner:
    """Compiles functions to closures, each once."""

    def __init__(self, module: Module, order: random.Random | None) -> None:
        self.module = module
        self.order = order
        self.functions: dict[str, Run] = {}

    def function(self, name: str) -> Run:
        if name not in self.functions:
            self.functions[name] = self.stmt(self._find(name).body)
        return self.functions[name]

    def _find(self, name: str) -> Function:
        instruction = instruction_meaning(name)
        if instruction is not None:
            return instruction
        try:
            return self.module.function(name)
        except KeyError as error:
            raise InternalError(f"function '{name}' is called but is not in the module") from error

    def stmt(self, s: Stmt) -> Run:
        method: Callable[[Any], Run] = getattr(self, "_" + type(s).__name__.lower())
        return method(s)

    def _block(self, s: Block) -> Run:
        steps = [self.stmt(inner) for inner in s.body]
        if len(steps) == 1:
            return steps[0]

        def block(env: Env) -> None:
            for step in steps:
                step(env)

        return block

    def _let(self, s: Let) -> Run:
        name, value = s.var.name, compile_expr(s.value)

        def let(env: Env) -> None:
            env[name] = value(env)

        return let

    def _allocate(self, s: Allocate) -> Run:
        buffer, count, pattern = (
            s.buffer,
            compile_size(elements_of(s.buffer.shape)),
            poison(s.buffer.dtype),
        )

        def allocate(env: Env) -> None:
            env[buffer.name] = np.full(count(env), pattern, buffer.dtype.numpy)

        return allocate

    def _store(self, s: Store) -> Run:
        lanes, active = s.value.lanes, s.active or s.value.lanes
        flat_index, value, name = (
            compile_index(s.buffer, s.indices, active if lanes > 1 else 1),
            compile_expr(s.value),
            s.buffer.name,
        )
        if lanes == 1:

            def store(env: Env) -> None:
                env[name][flat_index(env)] = value(env)

        elif s.indices and s.indices[-1].lanes > 1:

            def store(env: Env) -> None:
                for at, lane in zip(flat_index(env), value(env)[:active], strict=False):
                    env[name][at] = lane  # in order, so that the last of equal indices wins

        else:

            def store(env: Env) -> None:
                at = flat_index(env)
                env[name][at : at + active] = value(env)[:active]

        return store

    def _for(self, s: For) -> Run:
        begin, end, step, name = compile_expr(s.begin), compile_expr(s.end), s.step, s.var.name
        body, order = self.stmt(s.body), self.order if s.kind == "parallel" else None

        def loop(env: Env) -> None:
            trips: Sequence[int] = range(begin(env), end(env), step)
            if order is not None:
                trips = order.sample(trips, len(trips))
            for i in trips:
                env[name] = i
                body(env)

        return loop

    def _if(self, s: If) -> Run:
        condition, then = compile_expr(s.condition), self.stmt(s.then)
        otherwise = None if s.otherwise is None else self.stmt(s.otherwise)

        def branch(env: Env) -> None:
            if condition(env):
                then(env)
            elif otherwise is not None:
                otherwise(env)

        return branch

    def _while(self, s: While) -> Run:
        condition, body = compile_expr(s.condition), self.stmt(s.body)

        def loop(env: Env) -> None:
            while condition(env):
                body(env)

        return loop

    def _invoke(self, s: Invoke) -> Run:
        bind, name = self._binding(s.function, s.args), s.function

        def invoke(env: Env) -> None:
            self.function(name)(bind(env))

        return invoke

    def _parallelinvoke(self, s: ParallelInvoke) -> Run:
        index = Var(self._find(s.function).params[-1].name)
        bind, order, name, count = (
            self._binding(s.function, (*s.args, Const(0, index.dtype))),
            self.order,
            s.function,
            compile_size(s.count),
        )

        def invoke(env: Env) -> None:
            number = range(count(env))
            for i in number if order is None else order.sample(number, len(number)):
                inner = bind(env)
                inner[index.name] = i
                self.function(name)(inner)

        return invoke

    def _binding(self, function: str, args: Sequence[Slice | Expr]) -> Callable[[Env], Env]:
        """Builds the environment of a call from that of the caller."""
        params = self._find(function).params
        if len(params) != len(args):
            raise InternalError(f"'{function}' takes {len(params)} arguments, got {len(args)}")
        given = list(zip(params, args, strict=True))
        scalars = [(p.name, _scalar_binder(function, p, a)) for p, a in given if isinstance(p, Var)]
        body = walk_statements(self._find(function).body)
        written = {
            (s.buffer if isinstance(s, Store) else s.c.buffer).name
            for s in body
            if isinstance(s, (Store, Brgemm))
        }
        buffers = [
            (p.name, _binder(function, p, a, p.name in written))
            for p, a in given
            if isinstance(p, Buffer)
        ]

        def bind(env: Env) -> Env:
            inner = {name: binder(env) for name, binder in scalars}
            inner.update([(name, binder(env, inner)) for name, binder in buffers])
            return inner

        return bind

    def _prefetch(self, s: Prefetch) -> Run:
        return lambda env: None

    def _brgemm(self, s: Brgemm) -> Run:
        return _compile_brgemm(s)


def _scalar_binder(function: str, param: Var, arg: Slice | Expr) -> Evaluate:
    if isinstance(arg, Slice):
        raise InternalError(f"'{function}': parameter '{param.name}' is a scalar, got a buffer")
    return compile_expr(arg)


def _binder(
    function: str, param: Buffer, arg: Slice | Expr, is_written: bool
) -> Callable[[Env, Env], Any]:
    """(environment of the caller, scalars of the callee) -> the memory of a buffer parameter."""
    if not isinstance(arg, Slice):
        raise InternalError(f"'{function}': parameter '{param.name}' is a buffer, got a scalar")
    source, flat_index = arg.buffer.name, compile_index(arg.buffer, arg.indices, 0)
    dtype, size = param.dtype, compile_size(elements_of(param.shape))
    may_be_cut = arg.buffer.dtype == U8 or max(len(param.shape), len(arg.buffer.shape)) > 1
    is_piece = may_be_cut and any(index != Const(0, S64) for index in arg.indices)

    def bind(env: Env, sizes: Env) -> Any:
        count = size(sizes)
        memory = env[source][flat_index(env) :].view(np.uint8)
        # The rows of a piece may reach beyond its tensor; its elements do not.
        if is_piece and not is_written:
            count = min(count, memory.size // dtype.size)
        if memory.size < count * dtype.size:
            raise InternalError(
                f"'{function}': buffer '{param.name}' takes {count * dtype.size} bytes, "
                f"{memory.size} are left in '{source}'"
            )
        return memory[: count * dtype.size].view(dtype.numpy)

    return bind


def _compile_brgemm(s: Brgemm) -> Run:
    accesses = [
        (x.buffer.name, compile_index(x.buffer, x.address.indices, 0)) for x in (s.c, s.a, s.b)
    ]
    numbers = [compile_size(x) for x in (s.m, s.k, *s.a.strides, s.b.batch, s.b.row, s.c.row)]
    sum_dtype = s.accumulator
    wide = np.dtype(np.float64) if sum_dtype.is_float else np.dtype(np.int64)

    def brgemm(env: Env) -> None:
        (c_at, a_at, b_at) = (flat_index(env) for _, flat_index in accesses)
        c_flat, a_flat, b_flat = (env[name] for name, _ in accesses)
        m, k, a_batch, a_row, a_col, b_batch, b_row, c_row = (number(env) for number in numbers)
        groups = -(-k // s.k_group)
        b_shape, b_strides = (
            (s.batch, groups, s.n_padded, s.k_group),
            (b_batch, b_row, s.k_group, 1),
        )
        c = _strided(c_flat, c_at, (m, s.n), (c_row, 1))
        tiles = (m // s.tile_rows, s.tile_rows) if s.a.tile else (1, m)
        a_strides = (a_batch, s.a.tile, a_row, a_col)
        a = _strided(a_flat, a_at, (s.batch, *tiles, k), a_strides).astype(wide)
        a = a.reshape(s.batch, m, k)
        b = _strided(b_flat, b_at, b_shape, b_strides)[:, :, : s.n].astype(wide)
        b = b.swapaxes(2, 3).reshape(s.batch, groups * s.k_group, s.n)[:, :k]
        total = c.astype(wide) if s.accumulate else np.zeros(c.shape, wide)
        for one_a, one_b in zip(a, b, strict=True):
            total = total + one_a @ one_b
        c[...] = finish(env, total.astype(sum_dtype.numpy))

    finish = _compile_epilogue(s)
    return brgemm


def _strided(flat: Any, at: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    last = at + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    if 0 in shape:
        return np.zeros(shape, flat.dtype)
    if at < 0 or last >= flat.size:
        raise InternalError(f"brgemm touches elements {at} to {last} of a buffer of {flat.size}")
    size = flat.itemsize
    return np.lib.stride_tricks.as_strided(flat[at:], shape, [stride * size for stride in strides])


def _compile_epilogue(s: Brgemm) -> Callable[[Env, Any], Any]:
    if s.epilogue is None:
        return lambda env, total: total
    row, col, acc = s.epilogue.row.name, s.epilogue.col.name, s.epilogue.acc.name
    lets = [(let.var.name, compile_expr(let.value)) for let in s.epilogue.lets]
    value, dtype = compile_expr(s.epilogue.value), s.epilogue.value.dtype

    def finish(env: Env, total: Any) -> Any:
        result = np.empty(total.shape, dtype.numpy)
        inner = dict(env)
        for flat_index, element in np.ndenumerate(total):
            inner[row], inner[col] = flat_index
            inner[acc] = total.dtype.type(element)
            for name, let in lets:
                inner[name] = let(inner)
            result[flat_index] = value(inner)
        return result

    return finish
