from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import S64
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.control import constant, made, make_while


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """An artifact whose loop ends after the counter has wrapped."""
    graph = Graph("endless")
    x = graph.make_input(LogicalTensor(S64, ()), "x")
    loop = make_while(
        graph,
        [x],
        lambda g, v: [made(g, "ne", v, constant(g, np.iinfo(np.int64).min))],
        lambda g, v: [made(g, "add", v, constant(g, np.int64(1)))],
    )
    graph.make_output(loop.outputs[0], "y")
    graphc.compile(graph).save(tmp_path / "endless.gcm")
    return tmp_path / "endless.gcm"


INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""A shell starts what it runs in the background with SIGINT ignored, which processes inherit."""


def test_an_endless_loop_of_a_model_is_stopped(endless: Path) -> None:
    program = INTERRUPTIBLE + "import runpy; runpy.run_module('graphc', run_name='__main__')"
    words = [sys.executable, "-c", program, "run", str(endless)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            time.sleep(4)
            assert process.poll() is None, process.stderr.read()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()


def test_what_handles_the_signal_itself_is_left_alone() -> None:
    program = (
        f"{INTERRUPTIBLE}\n"
        "import os, time\n"
        "from graphc.cli.interrupt import end_soon_after_interrupt\n"
        "end_soon_after_interrupt(130)\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(5)\n"
        "    except KeyboardInterrupt:\n"
        "        time.sleep(1.5)\n"
        "        print('cleaned up')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 and done.stdout.split("\n")[:2] == ["cleaned up"] * 2
