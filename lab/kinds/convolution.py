"""`conv n1c64h56w56o64k3p1 f32` and `dwconv n1c144h56w56k3p1 f32`: convolutions over images, or over rows without h."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.dims import Size, floor_quotient
from ...base.dtypes import by_name
from ..problem import Problem, check_memory, measured_sizes
from ..problem_text import ProblemText, Word
from ..program import Program
from . import epilogue

LETTERS = {
    "n": "images", "c": "channels", "h": "height", "w": "width", "o": "channels of the result", "k": "kernel",
    "s": "stride", "p": "padding", "d": "dilation", "g": "groups",
}  # fmt: skip
TYPES = ("f32", "f16", "bf16", "u8xs8", "u8s8s32")
NODE = "conv"


def convolution(text: ProblemText, words: list[Word]) -> Problem:
    """Weights are constants; k, s, p and d are the same along both axes of an image."""
    word = words.pop(0) if words else None
    sizes = {"n": 1, "g": 1, **text.sizes(word, LETTERS, "cwok")}
    return _problem(text, words, sizes)


def depthwise(text: ProblemText, words: list[Word]) -> Problem:
    """Each channel has its own kernel."""
    letters = {letter: LETTERS[letter] for letter in "nchwkspd"}
    sizes = text.sizes(words.pop(0) if words else None, letters, "cwk")
    return _problem(text, words, {"n": 1, **sizes, "o": sizes["c"], "g": sizes["c"]})


def _problem(text: ProblemText, words: list[Word], sizes: Mapping[str, Size]) -> Problem:
    steps = epilogue.taken(text, words)
    types = text.choice(words.pop(0), TYPES, "type") if words else TYPES[0]
    text.nothing_left(words)
    known = _known(text, sizes)
    c, o, g, k = (known[letter] for letter in "cogk")
    if c % g or o % g:
        raise text.refuse(text.words[1], f"c and o must be multiples of the {g} groups")
    axes = [axis for axis in "hw" if axis in sizes]
    image = [sizes[axis] for axis in axes]
    result = [_extent(size, known) for size in image]
    if any(isinstance(size, int) and size < 1 for size in result):
        raise text.refuse(text.words[1], "the kernel must fit the padded image")
    dims = (sizes["n"], o, *result)
    check_memory(text.text, 4 * (_count((sizes["n"], c, *image)) + _count(dims) + o * c * k * k))
    is_bytes = types not in TYPES[:3]
    dtype = by_name("u8" if is_bytes else types)
    program = Program(text.text, by_name("s32") if is_bytes else dtype)
    x = program.input("x", (sizes["n"], c, *image), dtype)
    shape = (o, c // g, *[k] * len(axes))
    weights = program.weight("w", shape, by_name("s8") if is_bytes else dtype)
    attrs = {
        "kernel_shape": shape[2:], "strides": [known["s"]] * len(axes), "pads": [known["p"]] * 2 * len(axes),
        "dilations": [known["d"]] * len(axes), "group": g,
    }  # fmt: skip
    y = program.call("ConvInteger" if is_bytes else "Conv", x, weights, name=NODE, **attrs)
    if steps and is_bytes:
        raise text.refuse(text.words[-1], "an epilogue follows floats, and sums of bytes are s32")
    y = epilogue.apply(program, y, steps, dims, 1)
    operations = 2 * _count(dims) * (c // g) * k ** len(axes)
    inputs = program.inputs
    return Problem(
        text.text, program.model(y), inputs, operations, NODE, dtype.name, measured_sizes(inputs)
    )


def _known(text: ProblemText, sizes: Mapping[str, Size]) -> dict[str, int]:
    """Return the sizes that weights and attributes have, which must be numbers."""
    found = {}
    for letter in "cogkspd":
        value = sizes.get(letter, 0 if letter == "p" else 1)
        if not isinstance(value, int):
            raise text.refuse(text.words[1], f"{LETTERS[letter]}, {letter}, must be a number")
        if value < 1 and letter != "p":
            raise text.refuse(text.words[1], f"{LETTERS[letter]}, {letter}, must be at least 1")
        found[letter] = value
    return found


def _extent(size: Size, known: Mapping[str, int]) -> Size:
    """Return the results along an axis."""
    reach = known["d"] * (known["k"] - 1) + 1
    return floor_quotient(size + 2 * known["p"] - reach, known["s"]) + 1


def _count(dims: tuple[Size, ...]) -> Size:
    total: Size = 1
    for dim in dims:
        total = total * dim
    return total
