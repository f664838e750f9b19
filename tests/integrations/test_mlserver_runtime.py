"""`graphc serve`: models behind MLServer, called by NVIDIA's client over HTTP and gRPC; requests are joined."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from support.onnx_models import model, node
from support.process import run_cli

# One process cannot import both: each defines the messages of the protocol.
if find_spec("mlserver") is None or find_spec("tritonclient") is None:
    pytest.skip("mlserver and tritonclient are not installed", allow_module_level=True)

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results hold the number of rows of the run, which tells which requests were joined."""
    path = tmp_path_factory.mktemp("serve") / "net.gcm"
    nodes = [
        node("MatMul", "x w", "h"),
        node("Shape", "x", "s"),
        node("Slice", "s zero one", "n"),
        node("Expand", "unit n", "ones"),
        node("ReduceSum", "ones", "rows", keepdims=0),
        node("Add", "h rows", "y"),
    ]
    constants = {
        "w": WEIGHTS, "zero": np.int64([0]), "one": np.int64([1]), "unit": np.float32([1]),
    }  # fmt: skip
    graphc.compile(model(nodes, {"x": ["N", 3]}, constants), threads=1).save(path)
    return path


@pytest.fixture(scope="module")
def ports(artifact: Path) -> Iterator[tuple[int, int]]:
    http, grpc = free_port(), free_port()
    words = ["serve", str(artifact), "--http-port", str(http), "--grpc-port", str(grpc)]
    words += ["--max-batch", "8", "--max-delay", "300"]
    server = subprocess.Popen([sys.executable, "-m", "graphc", *words])
    client = import_module("tritonclient.http").InferenceServerClient(f"127.0.0.1:{http}")
    try:
        for _ in range(300):
            try:
                if client.is_server_ready():
                    break
            except OSError:
                time.sleep(0.1)
        yield http, grpc
    finally:
        server.terminate()
        try:
            assert server.wait(20) == 0
        finally:
            server.kill()


def called(protocol: str, port: int, x: np.ndarray) -> Any:
    """MLServer reads arrays as JSON over HTTP, and as bytes over gRPC."""
    library = import_module(f"tritonclient.{protocol}")
    given = library.InferInput("x", list(x.shape), "FP32")
    json = {"binary_data": False} if protocol == "http" else {}
    given.set_data_from_numpy(x, **json)
    client = library.InferenceServerClient(f"127.0.0.1:{port}")
    return client.infer(
        "net", [given], outputs=[library.InferRequestedOutput("y", **json)]
    ).as_numpy("y")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_both_protocols(protocol: str, ports: tuple[int, int]) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    port = ports[protocol == "grpc"]
    np.testing.assert_array_equal(called(protocol, port, x), x @ WEIGHTS + 2)
    client = import_module(f"tritonclient.{protocol}").InferenceServerClient(f"127.0.0.1:{port}")
    found = client.get_model_metadata("net")
    assert "-1" in str(found) and "FP32" in str(found)


def test_concurrent_requests_are_joined(ports: tuple[int, int]) -> None:
    xs = [np.full((2, 3), i, np.float32) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda x: called("grpc", ports[1], x), xs))
    rows = [float((y - x @ WEIGHTS).reshape(-1)[0]) for x, y in zip(xs, results, strict=True)]
    assert all(y.shape == (2, 4) for y in results) and max(rows) > 2


def test_a_wrong_input_is_an_error_of_the_request(ports: tuple[int, int]) -> None:
    errors = import_module("tritonclient.utils")
    with pytest.raises(errors.InferenceServerException, match=r"x.*f32"):
        called("http", ports[0], np.zeros((2, 5), np.float32))
    assert called("http", ports[0], np.zeros((2, 3), np.float32)).shape == (2, 4)


def test_what_cannot_be_served(artifact: Path, tmp_path: Path) -> None:
    for words, said in (
        ([str(tmp_path / "no.gcm")], "there is no file"),
        ([str(artifact), "--http-port", "0"], "--http-port must be from 1 to 65535, got 0"),
        ([str(artifact), "--max-batch", "-1"], "must be at least 0"),
        ([str(artifact), "--require-signature", str(tmp_path / "no")], "there is no file"),
    ):
        done = run_cli("serve", *words, timeout=60)
        assert done.returncode == 2 and said in done.stderr
