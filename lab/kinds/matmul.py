"""`matmul m128n768k768 f32`, of floats, bytes or weights packed in blocks, and `gemv`, which is one row of it.

Weights in blocks are those of a GGUF file, `q4_k`, or ONNX's `f32xu4g32`: 4 bits, a scale for 32 of them.
"""

from __future__ import annotations

import re

import numpy as np

from ...base.block_types import BLOCK_TYPES, BlockType
from ...base.dims import Size
from ...base.dtypes import F32, S32, DType, by_name
from ...bench.operands import Operand, random_blocks
from ...frontend.decoder.linear import linear
from ...frontend.decoder.weights import Weight
from ...frontend.op_builder import OpBuilder
from ...graph_ir.ir.graph import Graph
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..problem import Problem, check_memory, measured_sizes, problem_of
from ..problem_text import ProblemText, Word
from ..program import Program
from . import epilogue

LETTERS = {"b": "batch", "m": "rows", "n": "columns", "k": "depth"}
FLOATS = ("f32", "f64", "f16", "bf16")
BYTES = {"u8xs8": "u8", "s8xs8": "s8", "u8s8s32": "u8", "s8s8s32": "s8"}
"""The left operand's type by the ways to write types of bytes: the right one is s8, results are s32."""
PACKED = {kind.name: kind for kind in BLOCK_TYPES}
NODE = "matmul"
_LEVELS = re.compile(r"f32xu([248])g(\d{1,5})")


def matmul(text: ProblemText, words: list[Word]) -> Problem:
    """B is a constant, as weights are; with a batch both operands are inputs."""
    return _problem(text, words, text.sizes(_next(words), LETTERS, "mnk"))


def gemv(text: ProblemText, words: list[Word]) -> Problem:
    """One row: `gemv n768k768 q4_k`."""
    letters = {letter: LETTERS[letter] for letter in "nk"}
    return _problem(text, words, {"m": 1, **text.sizes(_next(words), letters, "nk")})


def _next(words: list[Word]) -> Word | None:
    return words.pop(0) if words else None


def _problem(text: ProblemText, words: list[Word], sizes: dict[str, Size]) -> Problem:
    steps = epilogue.taken(text, words)
    known = (*FLOATS, *BYTES, *PACKED)
    packed = _LEVELS.fullmatch(words[0].text) if words else None
    types = FLOATS[0]
    if words:
        word = words.pop(0)
        types = word.text if packed else text.choice(word, known, "type")
    text.nothing_left(words)
    for letter in "nk":
        if not isinstance(sizes[letter], int) and "b" not in sizes:
            raise text.refuse(text.words[1], f"weights have a known {LETTERS[letter]}, {letter}")
    m, n, k = (sizes[letter] for letter in "mnk")
    batch = sizes.get("b", 1)
    check_memory(text.text, 8 * batch * (m * k + k * n + m * n))
    operations = 2 * batch * m * n * k
    if types in PACKED:
        return _packed(text, sizes, PACKED[types], steps, operations)
    if packed:
        return _levels(text, sizes, int(packed[1]), int(packed[2]), steps, operations)
    a_type, b_type, result = _types(types)
    program = Program(text.text, result)
    lead = (batch,) if "b" in sizes else ()
    a = program.input("a", (*lead, m, k), a_type)
    if lead:
        b = program.input("b", (*lead, k, n), b_type)
    else:
        assert isinstance(k, int) and isinstance(n, int)
        b = program.weight("b", (k, n), b_type)
    y = program.call("MatMul" if a_type.is_float else "MatMulInteger", a, b, name=NODE)
    if steps and not result.is_float:
        raise text.refuse(text.words[-1], "an epilogue follows floats, and sums of bytes are s32")
    y = epilogue.apply(program, y, steps, (*lead, m, n), len(lead) + 1)
    return problem_of(program, y, operations, NODE, a_type.name)


def _types(types: str) -> tuple[DType, DType, DType]:
    if types in BYTES:
        return by_name(BYTES[types]), by_name("s8"), S32
    return by_name(types), by_name(types), by_name(types)


def _levels(
    text: ProblemText,
    sizes: dict[str, Size],
    bits: int,
    group: int,
    steps: list[str],
    operations: Size,
) -> Problem:
    """f32 rows times the weights of MatMulNBits, of random levels."""
    n, k = sizes["n"], sizes["k"]
    assert isinstance(n, int) and isinstance(k, int)
    if "b" in sizes:
        raise text.refuse(text.words[1], "weights in blocks take no batch")
    if group < 16 or group & (group - 1) or k % group:
        raise text.refuse(
            text.words[1],
            f"blocks have 16, 32, 64 ... weights and divide k, got {group}",
        )
    program, rng = Program(text.text, F32), np.random.default_rng(0)
    a, blocks = program.input("a", (sizes["m"], k)), k // group
    levels = rng.integers(0, 256, (n, blocks, group * bits // 8), np.uint8)
    scales = (rng.uniform(0.5, 1, (n, blocks)) * 2.0**-bits / k**0.5).astype(np.float32)
    operands = a, program.constant("b", levels), program.constant("scales", scales)
    attrs = {"K": k, "N": n, "bits": bits, "block_size": group}
    y = program.call("MatMulNBits", *operands, name=NODE, domain="com.microsoft", **attrs)
    y = epilogue.apply(program, y, steps, (sizes["m"], n), 1)
    return problem_of(program, y, operations, f"{NODE}.matmul_core")


def _packed(
    text: ProblemText, sizes: dict[str, Size], kind: BlockType, steps: list[str], operations: Size
) -> Problem:
    """f32 rows times weights in the blocks of a GGUF file, of random bytes."""
    n, k = sizes["n"], sizes["k"]
    assert isinstance(n, int) and isinstance(k, int)
    if "b" in sizes or steps:
        raise text.refuse(text.words[1], "weights in blocks take neither a batch nor an epilogue")
    if k % kind.elements:
        raise text.refuse(
            text.words[1], f"k must be a multiple of {kind.elements}, one block of {kind.name}"
        )
    graph = Graph(text.text)
    operand = Operand(F32, (sizes["m"], k))
    x = graph.make_input(LogicalTensor(F32, operand.dims), "a")
    weight = Weight("b", (n, k), kind, random_blocks(kind, n, k))
    graph.make_output(linear(OpBuilder(graph, "linear", NODE), x, weight), "y")
    inputs = {"a": operand}
    node = f"{NODE}.matmul_nbits"
    return Problem(text.text, graph, inputs, operations, node, "f32", measured_sizes(inputs))
