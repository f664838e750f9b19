"""Files that killed processes leave in the compile cache: nothing that is read as a model.

    python tests/measurements/kills.py [--kills 50] [--seed 1]

Each process compiles one model after another into the same cache until it is killed, at a random moment of its writing.
At the end every model is compiled with this cache, where it is found or made anew, and runs right.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import graphc
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

SIZES = 200
WRITER = """
import random, sys
sys.path.insert(0, sys.argv[1])
import kills
print("ready", flush=True)
for size in random.Random(int(sys.argv[2])).sample(range(kills.SIZES), kills.SIZES):
    kills.compiled(size).close()
"""


def compiled(size: int) -> graphc.CompiledModel:
    """y = x + size, of some bytes of code and more of constants, from the cache or into it."""
    graph = Graph("kill")
    x = graph.make_input(LogicalTensor(F32, (8192,)), "x")
    c = graph.make_constant(np.full(8192, size, np.float32))
    graph.make_output(graph.make("add", [x, c]).outputs[0])
    return graphc.compile(graph, threads=1)


def kill_one(number: int, rng: random.Random) -> None:
    """Start a writer and kill it while it writes."""
    words = ["-c", WRITER, str(Path(__file__).parent), str(number)]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(rng.random() / 2)
        writer.kill()


def main() -> int:
    """Print what was found; 1 if a model is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, x = random.Random(arguments.seed), np.zeros(8192, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GRAPHC_CACHE_DIR"] = folder
        for number in range(arguments.kills):
            kill_one(number, rng)
        entries = sum(path.suffix == ".gcm" for path in Path(folder).rglob("*"))
        halves = sum(path.suffix == ".tmp" for path in Path(folder).rglob("*"))
        wrong = 0
        for size in range(SIZES):
            with compiled(size) as model:
                wrong += not (np.asarray(model(x)) == size).all()
    print(f"{arguments.kills} kills: {entries} models and {halves} unfinished files, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
