"""Generate tokens with a decoder whose caches of keys and values grow in place.

The decoder is an ONNX model with random weights, as exporters write them: one token in, caches of any length in and
out. It is compiled once. Every step writes one row to each cache, and copies nothing.

    python examples/decoder.py
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphc

BLOCKS, WIDTH, HEADS, VOCABULARY, LONGEST = 2, 64, 4, 100, 64
HEAD = WIDTH // HEADS
rng = np.random.default_rng(0)


def decoder() -> onnx.ModelProto:
    """One step: a token and the caches in; the logits of the next token and the longer caches out."""
    angles = np.arange(LONGEST)[:, None] / 10000 ** (np.arange(HEAD // 2) / (HEAD // 2))
    weights = {
        "embedding": rng.standard_normal((VOCABULARY, WIDTH)),
        "head": rng.standard_normal((WIDTH, VOCABULARY)) / 8,
        "cos": np.cos(angles),
        "sin": np.sin(angles),
    }
    nodes = [helper.make_node("Gather", ["embedding", "token"], ["x0"])]
    past, present = [1, HEADS, "P", HEAD], [1, HEADS, "T", HEAD]
    inputs = [
        helper.make_tensor_value_info("token", TensorProto.INT64, [1, 1]),
        helper.make_tensor_value_info("last", TensorProto.INT32, [1]),
        helper.make_tensor_value_info("total", TensorProto.INT32, []),
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1, VOCABULARY])]
    for b in range(BLOCKS):
        weights[f"qkv{b}"] = rng.standard_normal((WIDTH, 3 * WIDTH)) / 8
        weights[f"out{b}"] = rng.standard_normal((WIDTH, WIDTH)) / 8
        caches = [f"past_k{b}", f"past_v{b}", "last", "total", "cos", "sin"]
        nodes += [
            helper.make_node("MatMul", [f"x{b}", f"qkv{b}"], [f"packed{b}"]),
            helper.make_node(
                "GroupQueryAttention", [f"packed{b}", "", "", *caches],
                [f"mixed{b}", f"present_k{b}", f"present_v{b}"],
                domain="com.microsoft", num_heads=HEADS, kv_num_heads=HEADS, do_rotary=1,
            ),
            helper.make_node("MatMul", [f"mixed{b}", f"out{b}"], [f"projected{b}"]),
            helper.make_node("Add", [f"x{b}", f"projected{b}"], [f"x{b + 1}"]),
        ]  # fmt: skip
        for part in "kv":
            inputs.append(helper.make_tensor_value_info(f"past_{part}{b}", TensorProto.FLOAT, past))
            outputs.append(
                helper.make_tensor_value_info(f"present_{part}{b}", TensorProto.FLOAT, present)
            )
    nodes.append(helper.make_node("MatMul", [f"x{BLOCKS}", "head"], ["logits"]))
    values = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, values)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


names = [f"{part}{b}" for b in range(BLOCKS) for part in "kv"]
source = decoder()
shapes = {f"past_{name}": f"f32[1,{HEADS},P=0..{LONGEST - 1},{HEAD}]" for name in names}
alias = {f"present_{name}": f"past_{name}" for name in names}
model = graphc.compile(source, inputs=shapes, alias=alias)


def generate(compiled: graphc.CompiledModel, first: int, count: int) -> list[int]:
    """The tokens after `first`, each the most likely one."""
    buffers = [np.zeros((1, HEADS, LONGEST, HEAD), np.float32) for _ in names]
    caches = [buffer[:, :, :0] for buffer in buffers]  # the filled part, still empty
    tokens = [first]
    for length in range(count):
        token = np.array([[tokens[-1]]])
        position = np.array([length], np.int32), np.array(length + 1, np.int32)
        logits, *caches = compiled(token, *position, *caches)
        tokens.append(int(logits[0, 0].argmax()))
    return tokens


tokens = generate(model, first=1, count=40)
print(tokens)
copying = graphc.compile(source, inputs=shapes)  # without aliases, every step copies the caches
assert generate(copying, first=1, count=40) == tokens
