"""rng-bit-generator: the counter-based generators of XLA, which give the same bits everywhere.

Threefry-2x32 and Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The mapping of
counters to elements and the order of words follow XLA.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...base.dtypes import U32, U64, DType
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import positions
from .bits import bitcast, word
from .scope import Handler, Step
from .shapes import DTYPES
from .values import fits

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA

Words = Sequence[GraphTensor]
"""u32 tensors, the low word first."""


def _rng_bit_generator(step: Step) -> Any:
    """(new state, bits); the state is u64[2], or the same as u32[4]."""
    (state,), shape = step.tensors(1), step.shape
    dtype, dims = state.details.dtype, state.details.plain_dims
    out = shape.elements[-1] if shape.is_tuple else shape
    if shape.is_tuple and (len(shape.elements) != 2 or not fits(shape.elements[0], state)):
        raise step.rule(f"its result must be ({step.shown(state)}, bits)", shape.logical())
    if out.type[0] not in "su":
        raise step.rule("its bits must be integers", out.logical())
    name = step.word("algorithm")
    if name != "rng_three_fry":
        raise step.unsupported(f"algorithm {name or 'of no name'}")
    if (dtype, dims) not in ((U64, (2,)), (U32, (4,))):
        raise step.unsupported(f"a state {state.details}")
    pair = _joined(step, state) if dtype == U32 else state
    key, counter = (step.reshaped(step.sliced(pair, 0, i, 1), ()) for i in range(2))
    bits, used = _three_fry_bits(step, key, counter, out.dims, DTYPES[out.type])
    new = step.make("concat", _one(step, key), _one(step, _plus(step, counter, used)), axis=0)
    if dtype == U32:
        new = step.make("concat", *(_one(step, w) for i in range(2) for w in _split(step, new, i)), axis=0)  # fmt: skip
    return (new, bits) if shape.is_tuple else bits


def _three_fry_bits(
    step: Step, key: GraphTensor, counter: GraphTensor, dims: tuple[int, ...], dtype: DType
) -> tuple[GraphTensor, int]:
    """(bits, the increment of the counter). Each call of the cipher gives two words: one element of 64 bits, or two."""
    if dtype.bits == 64:
        low, high = _three_fry(
            step, _words(step, key), _words(step, _counters(step, counter, dims))
        )
        return bitcast(step, _wide(step, low, high), dtype), math.prod(dims)
    half, axis = _half(dims)
    words = _three_fry(step, _words(step, key), _words(step, _counters(step, counter, half)))
    if not dims:
        bits = step.reshaped(words[0], ())
    else:
        joined = step.make("concat", *words, axis=axis + 1)
        size = half[axis] * 2
        whole = step.reshaped(joined, (*dims[:axis], size, *dims[axis + 1 :]))
        bits = step.sliced(whole, axis, 0, dims[axis])
    return bitcast(step, step.converted(bits, word(dtype)), dtype), math.prod(half)


def _half(dims: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """(sizes of the counters, the split axis): the first even axis, else the longest, halved, with a 1 behind it."""
    if not dims:
        return (1,), 0
    even = [axis for axis, size in enumerate(dims) if size % 2 == 0]
    axis = even[0] if even else max(range(len(dims)), key=lambda i: (dims[i], -i))
    return (*dims[:axis], -(-dims[axis] // 2), 1, *dims[axis + 1 :]), axis


def _counters(step: Step, counter: GraphTensor, dims: tuple[int, ...]) -> GraphTensor:
    """The counter plus the row-major position, u64."""
    place = counter
    for axis in range(len(dims)):
        if dims[axis] > 1:
            stride = step.constant(math.prod(dims[axis + 1 :]), U64)
            steps = step.converted(positions(step, dims[axis], axis, len(dims)), U64)
            place = step.make("add", place, step.make("mul", steps, stride))
    return step.broadcast(place, dims)


def _three_fry(step: Step, key: Words, x: Words) -> Words:
    keys = [*key]
    keys.append(step.make("xor", step.make("xor", *key), step.constant(_PARITY, U32)))
    a, b = step.make("add", x[0], keys[0]), step.make("add", x[1], keys[1])
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            a = step.make("add", a, b)
            b = step.make("xor", a, _rotated(step, b, rotation))
        a = step.make("add", a, keys[(block + 1) % 3])
        b = step.make("add", b, _plus(step, keys[(block + 2) % 3], block + 1))
    return a, b


def _rotated(step: Step, x: GraphTensor, count: int) -> GraphTensor:
    left = step.make("shl", x, step.constant(count, U32))
    return step.make("or", left, step.make("shr", x, step.constant(32 - count, U32)))


def _plus(step: Step, x: GraphTensor, number: int) -> GraphTensor:
    return step.make("add", x, step.constant(number, x.details.dtype))


def _words(step: Step, x: GraphTensor) -> Words:
    """The low and the high half of u64."""
    high = step.make("shr", x, step.constant(32, U64))
    return step.converted(x, U32), step.converted(high, U32)


def _wide(step: Step, low: GraphTensor, high: GraphTensor) -> GraphTensor:
    upper = step.make("shl", step.converted(high, U64), step.constant(32, U64))
    return step.make("or", step.converted(low, U64), upper)


def _joined(step: Step, state: GraphTensor) -> GraphTensor:
    """u32[4] as u64[2]."""
    low, high = (step.sliced(state, 0, i, 2, 2) for i in range(2))
    return _wide(step, low, high)


def _split(step: Step, pair: GraphTensor, index: int) -> Words:
    return _words(step, step.reshaped(step.sliced(pair, 0, index, 1), ()))


def _one(step: Step, scalar: GraphTensor) -> GraphTensor:
    return step.reshaped(scalar, (1,))


HANDLERS: dict[str, Handler] = {"rng-bit-generator": _rng_bit_generator}
