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
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)

Words = Sequence[GraphTensor]
"""Unsigned tensors, the low word first."""


def _rng_bit_generator(step: Step) -> Any:
    """(new state, bits); the state is u64s, or their halves as u32s."""
    (state,), shape = step.tensors(1), step.shape
    out = shape.elements[-1] if shape.is_tuple else shape
    if shape.is_tuple and (len(shape.elements) != 2 or not fits(shape.elements[0], state)):
        raise step.rule(f"its result must be ({step.shown(state)}, bits)", shape.logical())
    if out.type[0] not in "su":
        raise step.rule("its bits must be integers", out.logical())
    name, dtype = step.word("algorithm"), state.details.dtype
    generate = _GENERATORS.get(name)
    if generate is None:
        raise step.unsupported(
            f"algorithm {name or 'of no name'}", "use rng_three_fry or rng_philox"
        )
    sizes = (2,) if name == "rng_three_fry" else (2, 3)
    count = state.details.elements // (2 if dtype == U32 else 1)
    if dtype not in (U32, U64) or state.details.rank != 1 or count not in sizes or (
        dtype == U32 and state.details.elements % 2
    ):  # fmt: skip
        raise step.unsupported(f"a state {state.details}")
    wide = _joined(step, state) if dtype == U32 else state
    numbers = [step.reshaped(step.sliced(wide, 0, i, 1), ()) for i in range(count)]
    after, bits = generate(step, numbers, out.dims, DTYPES[out.type])
    if dtype == U32:
        after = [half for number in after for half in _words(step, number)]
    new = step.make("concat", *(_one(step, number) for number in after), axis=0)
    return (new, bits) if shape.is_tuple else bits


def _three_fry_state(
    step: Step, state: Words, dims: tuple[int, ...], dtype: DType
) -> tuple[Words, GraphTensor]:
    """(the state afterwards, bits) for a key and a counter."""
    key, counter = state
    bits, used = _three_fry_bits(step, key, counter, dims, dtype)
    return (key, _plus(step, counter, used)), bits


def _philox_state(
    step: Step, state: Words, dims: tuple[int, ...], dtype: DType
) -> tuple[Words, GraphTensor]:
    """(the state afterwards, bits) for a key and a counter of 128 bits, whose upper half is the key where the key
    is not given.

    Each call of the cipher gives four words: two elements of 64 bits, or four.
    """
    key, low, high = state if len(state) == 3 else (state[0], state[1], state[0])
    each = 2 if dtype.bits == 64 else 4
    size = math.prod(dims)
    count = -(-size // each)
    steps = step.make("add", positions(step, count, 0, 1), step.constant(0))
    counters = _sum_128(step, low, high, step.converted(steps, U64))
    words = _philox(step, _words(step, key), [w for part in counters for w in _words(step, part)])
    if each == 2:
        words = [_wide(step, words[i], words[i + 1]) for i in (0, 2)]
    columns = [step.reshaped(w, (count, 1)) for w in words]
    flat = step.reshaped(step.make("concat", *columns, axis=1), (count * each,))
    bits = step.reshaped(step.sliced(flat, 0, 0, size), dims)
    after = _sum_128(step, low, high, step.constant(count, U64))
    narrow = bitcast(step, step.converted(bits, word(dtype)), dtype)
    return (key, *after[: len(state) - 1]), narrow


def _sum_128(step: Step, low: GraphTensor, high: GraphTensor, number: GraphTensor) -> Words:
    """The halves of a number of 128 bits plus one of 64."""
    total = step.make("add", low, number)
    carry = step.converted(step.make("lt", total, low), U64)
    return total, step.make("add", high, carry)


def _philox(step: Step, key: Words, x: Words) -> Words:
    """Ten rounds, each with two 32-bit multiplications and a key that grows."""
    key, x = [*key], [*x]
    for number in range(10):
        if number:
            key = [_plus(step, k, weyl) for k, weyl in zip(key, _WEYL, strict=True)]
        factors = [step.constant(factor, U64) for factor in _FACTORS]
        wide = [step.make("mul", step.converted(x[2 * i], U64), f) for i, f in enumerate(factors)]
        words = [_words(step, pair) for pair in wide]
        mixed = [
            step.make("xor", step.make("xor", words[1 - i][1], x[2 * i + 1]), key[i])
            for i in range(2)
        ]
        x = [mixed[0], words[1][0], mixed[1], words[0][0]]
    return x


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
    position = counter
    for axis in range(len(dims)):
        if dims[axis] > 1:
            stride = step.constant(math.prod(dims[axis + 1 :]), U64)
            steps = step.converted(positions(step, dims[axis], axis, len(dims)), U64)
            position = step.make("add", position, step.make("mul", steps, stride))
    return step.broadcast(position, dims)


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
    """Pairs of u32, the low word first, as u64."""
    low, high = (step.sliced(state, 0, i, state.details.elements // 2, 2) for i in range(2))
    return _wide(step, low, high)


def _one(step: Step, scalar: GraphTensor) -> GraphTensor:
    return step.reshaped(scalar, (1,))


_GENERATORS = {
    "rng_three_fry": _three_fry_state,
    "rng_philox": _philox_state,
    "rng_default": _philox_state,  # as on XLA's CPU
}


HANDLERS: dict[str, Handler] = {"rng-bit-generator": _rng_bit_generator}
