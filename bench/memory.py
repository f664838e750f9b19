"""Peak resident memory of programs that compile a model of large matmuls, whose weights are external data.

The limit of compiling is 1.2 times the weights and 300 MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

_WIDTH = 4096
OVERHEAD_MB = 300
GROWTH = 1.2

COMPILE = "import sys, graphc; graphc.compile(sys.argv[1], threads=2, cache=sys.argv[2] == 'cache')"
SESSION = "import sys, onnxruntime as o; o.InferenceSession(sys.argv[1])"
_PEAK = """
lines = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(int(lines["VmHWM"].split()[0]) // 1024)
"""


def write_model(folder: Path, megabytes: int) -> Path:
    """Write a chain of matmuls whose weights are in an external file; return the file of the model."""
    from onnx import TensorProto, helper, save

    size = _WIDTH * _WIDTH * 4
    count = max(1, (megabytes << 20) // size)
    nodes, weights = [], []
    rng = np.random.default_rng(0)
    with (folder / "weights.bin").open("wb") as data:
        for i in range(count):
            proto = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=(_WIDTH, _WIDTH))
            proto.data_location = TensorProto.EXTERNAL
            pairs = {"location": "weights.bin", "offset": str(data.tell()), "length": str(size)}
            for key, value in pairs.items():
                proto.external_data.add(key=key, value=value)
            rng.standard_normal((_WIDTH, _WIDTH), np.float32).tofile(data)
            weights.append(proto)
            nodes.append(helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, _WIDTH])
        for name in ("h0", f"h{count}")
    ]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    path = folder / "large.onnx"
    save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


def peak_megabytes(program: str, *words: str, cache: str = "") -> int:
    """Return the peak resident size of a Python program in a new process, in megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", program + _PEAK, *words],
        env={**os.environ, "GRAPHC_CACHE_DIR": cache}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return int(done.stdout)
