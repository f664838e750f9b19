"""A module of the suite `torch`: PyTorch's compilers, and other engines by export, timed in one process."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..base.aligned_memory import aligned_copy
from ..base.errors import UserError
from ..codegen.host import target_for
from ..frontend.torch.tensors import array_of
from ..graph_ir.inspect.compare import difference
from ..runtime.abi import ALIGNMENT
from .engines import EAGER, FROZEN, MODULE, OnStep, Row, Setting, timed_row
from .peak import measured_peak
from .peers import Contender, RefusedModel, gathered, make_peer, reason
from .torch_networks import TorchCase
from .torch_operators import inductor

Compiled = Callable[..., Any]

ORT = "ort"
"""The peer that runs what PyTorch exports to ONNX; the others compile modules."""


def compare_modules(case: TorchCase, setting: Setting, report: OnStep) -> Row:
    """Compile a case with graphc and every peer, compare their results with those of PyTorch itself, and time them.

    Engines that cannot run it are named in its row.
    """
    import torch

    report(case.name, 0, setting.rounds)
    torch.set_num_threads(setting.threads)
    peak = measured_peak(target_for(setting.target)) * setting.threads
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch and its exporter, about themselves
        eager = _contender(EAGER, case, setting)
        names = ("graphc", FROZEN, MODULE, *(peer for peer in setting.peers if peer != EAGER))
        others, refused = gathered(names, lambda name: _contender(name, case, setting))
        found = [eager, *others.values()]
        judged = _deviation(found)
        row = timed_row(case.name, found, setting.rounds, setting.seconds, judged, report)
    return replace(row, peak=peak, refused=refused)


def compiled_by(name: str, module: Any, setting: Setting) -> Compiled:
    """A module as one of `COMPILERS` compiles it when it is first called. Raise UserError for a name that is not
    one."""
    import torch

    if name not in COMPILERS:
        raise UserError(
            f"peer '{name}' of modules is not known; known are {', '.join((*COMPILERS, ORT))}"
        )
    torch._dynamo.reset()
    return COMPILERS[name](module, setting)


def _contender(name: str, case: TorchCase, setting: Setting) -> Contender:
    """One engine, run twice, as some compile in two steps. RefusedModel, a UserError, if it cannot run the module."""
    from torch.utils import _pytree as pytree

    if name == ORT:
        return _exported(case, setting.threads)
    compiled = None if name == MODULE else compiled_by(name, case.module, setting)
    try:
        if compiled is None:
            compiled = _module(case, setting)
        run = partial(compiled, *case.args)
        with contextlib.redirect_stdout(io.StringIO()):
            run()
            run()
    except Exception as error:  # their own kinds, which have no class in common
        raise RefusedModel(f"{name} cannot run the model: {reason(str(error))}") from error

    def results() -> list[np.ndarray[Any, Any]]:
        return [array_of(y, name) for y in pytree.tree_leaves(run()) if hasattr(y, "shape")]

    return Contender(name, run, results)


def _exported(case: TorchCase, threads: int) -> Contender:
    """ONNX Runtime with what PyTorch's own exporter makes of the module."""
    import torch

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            program = torch.onnx.export(case.module, case.args, dynamo=True, verbose=False)
    except ImportError as error:
        raise UserError(
            f"peer 'ort' needs the package onnxscript, which exports modules ({error})"
        ) from error
    except Exception as error:
        raise RefusedModel(f"the exporter refuses the module: {reason(str(error))}") from error
    names = [value.name for value in program.model.graph.inputs]
    arrays = [aligned_copy(array_of(x, "input"), ALIGNMENT) for x in case.args]
    given = dict(zip(names, arrays, strict=True))
    return make_peer(ORT, program.model_proto.SerializeToString(), given, threads)


def _module(case: TorchCase, setting: Setting) -> Compiled:
    """The whole module, which torch.export takes down."""
    from ..integrations.torch_functions import compile as compile_module

    return compile_module(case.module, *case.args, threads=setting.threads, target=setting.target)


def _deviation(contenders: list[Contender]) -> tuple[float, frozenset[str]]:
    """graphc's largest deviation from PyTorch itself, and the engines whose results are wrong."""
    wanted = contenders[0].results()
    worst, wrong = 0.0, set()
    for contender in contenders[1:]:
        found = [difference(a, b) for a, b in zip(contender.results(), wanted, strict=True)]
        if not all(d.ok for d in found):
            wrong.add(contender.name)
        if contender.name in ("graphc", FROZEN, MODULE):
            worst = max(worst, *(d.relative for d in found))
    return worst, frozenset(wrong)


# Compilers. Sizes are fixed; OpenVINO's backend wants them to be by default.


def _eager(module: Any, setting: Setting) -> Compiled:
    """Run the module in eager mode."""
    called: Compiled = module
    return called


def _graphc(module: Any, setting: Setting, **more: Any) -> Compiled:
    import torch

    from ..integrations.torch_backend import backend

    options = {"threads": setting.threads, "target": setting.target, **more}
    compiled: Compiled = torch.compile(module, backend=backend, dynamic=False, options=options)
    return compiled


def _inductor(module: Any, setting: Setting, **options: Any) -> Compiled:
    """PyTorch's own compiler."""
    return inductor(module, **options)


def _openvino(module: Any, setting: Setting) -> Compiled:
    """OpenVINO's backend in f32; with its default settings it may compute in bf16."""
    import openvino.torch  # noqa: F401 - declares the backend
    import torch

    config = {
        "INFERENCE_NUM_THREADS": setting.threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": setting.threads > 1,
    }
    # without AOTAutograd it fails with this PyTorch, and runs Inductor's code without saying so
    options = {"device": "CPU", "config": config, "aot_autograd": True}
    compiled: Compiled = torch.compile(module, backend="openvino", options=options)
    return compiled


COMPILERS: dict[str, Callable[[Any, Setting], Compiled]] = {
    EAGER: _eager,
    "graphc": _graphc,
    FROZEN: partial(_graphc, frozen=True),
    "inductor": _inductor,
    "autotune": partial(_inductor, max_autotune=True),
    "openvino": _openvino,
}
"""Compilers of modules, by name."""
