"""`conv n1c64h56w56o64k3p1 f32`, `dwconv n1c144h56w56k3p1 f32`, `max_pool n1c64h112w112k3s2 f32`: windows over images.

Without h they are over rows, and with z over volumes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...base.dims import Size, floor_quotient
from ...base.dtypes import by_name
from ..problem import Problem, check_memory, problem_of
from ..problem_text import ProblemText, Word
from ..program import Program
from . import epilogue

LETTERS = {
    "n": "images", "c": "channels", "z": "depth", "h": "height", "w": "width", "o": "channels of the result",
    "k": "kernel", "s": "stride", "p": "padding", "d": "dilation", "g": "groups",
}  # fmt: skip
PER_AXIS = "kspd"
FLOATS = ("f32", "f16", "bf16")
BYTES = {"u8xs8": "u8", "s8xs8": "s8", "u8s8s32": "u8"}
"""The image's type by the ways to write types of bytes: weights are s8, results s32."""
POOLS = {"max_pool": "MaxPool"}
NODE = "conv"


def convolution(text: ProblemText, words: list[Word]) -> Problem:
    """Weights are constants; k, s, p and d are the same along all axes of an image, or as in k7x1; p0x0x1x1 is padding
    before and after both."""
    word = words.pop(0) if words else None
    sizes = {"n": 1, "g": 1, **text.sizes(word, LETTERS, "cwok", PER_AXIS)}
    return _problem(text, words, sizes)


def depthwise(text: ProblemText, words: list[Word]) -> Problem:
    """Each channel has its own kernel, or a window that is reduced."""
    letters = {letter: LETTERS[letter] for letter in "nczhwkspd"}
    sizes = text.sizes(words.pop(0) if words else None, letters, "cwk", PER_AXIS)
    return _problem(text, words, {"n": 1, **sizes, "o": sizes["c"], "g": sizes["c"]})


def _problem(text: ProblemText, words: list[Word], sizes: Mapping[str, Size]) -> Problem:
    steps = epilogue.taken(text, words)
    types = text.choice(words.pop(0), (*FLOATS, *BYTES), "type") if words else FLOATS[0]
    text.nothing_left(words)
    known = _known(text, sizes)
    axes = [axis for axis in "zhw" if axis in sizes]
    window = _window(text, known, len(axes))
    c, o, g, taps = *(known[letter] for letter in "cog"), math.prod(window["kernel_shape"])
    if c % g or o % g:
        raise text.refuse(text.words[1], f"c and o must be multiples of the {g} groups")
    image = [sizes[axis] for axis in axes]
    result = [_extent(size, axis, window) for axis, size in enumerate(image)]
    if any(isinstance(size, int) and size < 1 for size in result):
        raise text.refuse(text.words[1], "the kernel must fit the padded image")
    dims = (sizes["n"], o, *result)
    is_pool = text.words[0].text in POOLS
    weights = 0 if is_pool else o * (c // g) * taps
    check_memory(text.text, 4 * (_count((sizes["n"], c, *image)) + _count(dims) + weights))
    is_bytes = types in BYTES
    dtype = by_name(BYTES.get(types, types))
    program = Program(text.text, by_name("s32") if is_bytes else dtype)
    x = program.input("x", (sizes["n"], c, *image), dtype)
    if is_pool:
        y = program.call(POOLS[text.words[0].text], x, name=NODE, **window)
    else:
        shape = (o, c // g, *window["kernel_shape"])
        w = program.weight("w", shape, by_name("s8") if is_bytes else dtype)
        operator = "ConvInteger" if is_bytes else "Conv"
        y = program.call(operator, x, w, name=NODE, **window, group=g)
    if steps and is_bytes:
        raise text.refuse(text.words[-1], "an epilogue follows floats, and sums of bytes are s32")
    y = epilogue.apply(program, y, steps, dims, 1)
    operations = (1 if is_pool else 2) * _count(dims) * (c // g) * taps
    return problem_of(program, y, operations, NODE, dtype.name)


def _known(text: ProblemText, sizes: Mapping[str, Size]) -> dict[str, int]:
    """Return the sizes that weights and attributes have, which must be numbers."""
    found = {}
    for letter in [*"cog", *(x for x in sizes if x[0] in PER_AXIS)]:
        value, name = sizes[letter], f"{LETTERS[letter[0]]}, {letter[0]}"
        if not isinstance(value, int):
            raise text.refuse(text.words[1], f"{name}, must be a number")
        if value < 1 and letter[0] != "p":
            raise text.refuse(text.words[1], f"{name}, must be at least 1")
        found[letter] = value
    return found


def _window(text: ProblemText, known: Mapping[str, int], rank: int) -> dict[str, Any]:
    """Return the attributes, a list of numbers each of a window."""
    found = {}
    for name, letter, count in (
        ("kernel_shape", "k", rank), ("strides", "s", rank), ("pads", "p", 2 * rank), ("dilations", "d", rank),
    ):  # fmt: skip
        each = [known[x] for x in known if x[0] == letter] or [int(letter != "p")]
        if len(each) not in (1, rank, count):
            raise text.refuse(
                text.words[1],
                f"{LETTERS[letter]}, {letter}, must be one number or {rank}, not {len(each)}",
            )
        found[name] = each * (count // len(each))
    return found


def _extent(size: Size, axis: int, window: Mapping[str, Any]) -> Size:
    """Return the results along an axis."""
    k, s, d = (window[name][axis] for name in ("kernel_shape", "strides", "dilations"))
    pads = window["pads"][axis :: len(window["strides"])]
    return floor_quotient(size + sum(pads) - d * (k - 1) - 1, s) + 1


def _count(dims: tuple[Size, ...]) -> Size:
    total: Size = 1
    for dim in dims:
        total = total * dim
    return total
