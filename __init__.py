"""graphc: compiles neural networks to native SIMD code for the CPU they run on.

    model = graphc.compile("model.onnx")
    y = model(x)

Names are loaded at their first use, so that `import graphc` costs no LLVM and no model format.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .base.collector import loading_modules
from .base.on_demand import OFFERED, on_demand
from .base.version import __version__

if TYPE_CHECKING:
    from . import language_models as llm
    from .base.errors import GraphcError, InternalError, UnsupportedError, UserError
    from .driver.compiler import compile, load
    from .driver.export import export
    from .extension import ops
    from .extension.passes import graph_pass
    from .extension.patterns import recompose
    from .graph_ir.ir.graph import Graph
    from .graph_ir.rewriting import pattern
    from .integrations import jax_functions as jax
    from .integrations import onnx_backend
    from .integrations import onnxruntime_session as onnxruntime
    from .integrations import pnnx_graph as pnnx
    from .integrations import sklearn_estimators as sklearn
    from .integrations import torch_functions as torch
    from .lab.user_instructions import instruction
    from .lab.user_kernels import kernel
    from .runtime.executor import CompiledModel
    from .tools.debugger import debug

logging.getLogger("graphc").addHandler(logging.NullHandler())  # silent unless the program asks

_HOME = {
    "CompiledModel": ".runtime.executor",
    "Graph": ".graph_ir.ir.graph",
    "GraphcError": ".base.errors",
    "InternalError": ".base.errors",
    "UnsupportedError": ".base.errors",
    "UserError": ".base.errors",
    "compile": ".driver.compiler",
    "debug": ".tools.debugger",
    "export": ".driver.export",
    "graph_pass": ".extension.passes",
    "instruction": ".lab.user_instructions",
    "kernel": ".lab.user_kernels",
    "load": ".driver.compiler",
    "recompose": ".extension.patterns",
}

_MODULES = {
    "jax": ".integrations.jax_functions",
    "llm": ".language_models",
    "onnx_backend": ".integrations.onnx_backend",
    "onnxruntime": ".integrations.onnxruntime_session",
    "ops": ".extension.ops",
    "pattern": ".graph_ir.rewriting.pattern",
    "pnnx": ".integrations.pnnx_graph",
    "sklearn": ".integrations.sklearn_estimators",
    "torch": ".integrations.torch_functions",
}
"""Public modules, by the names they are known by here."""

_MAKES_OPS = (
    "Graph",
    "compile",
    "debug",
    "export",
    "graph_pass",
    "jax",
    "kernel",
    "llm",
    "onnx_backend",
    "onnxruntime",
    "ops",
    "recompose",
    "sklearn",
    "torch",
)
"""Names with which a program makes ops, those of plugins too."""

__all__ = [
    "CompiledModel",
    "Graph",
    "GraphcError",
    "InternalError",
    "UnsupportedError",
    "UserError",
    "__version__",
    "compile",
    "debug",
    "export",
    "jax",
    "graph_pass",
    "instruction",
    "kernel",
    "llm",
    "load",
    "onnx_backend",
    "onnxruntime",
    "ops",
    "pattern",
    "pnnx",
    "recompose",
    "sklearn",
    "torch",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in."""
    if name not in _MODULES and name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    with loading_modules():
        if name in _MODULES:
            value: Any = import_module(_MODULES[name], __name__)
        else:
            value = getattr(import_module(_HOME[name], __name__), name)
    if name in _MAKES_OPS:
        import_module(".driver.plugins", __name__).load_with_ops()
    globals()[name] = value
    return value


OFFERED["check_replaced"] = on_demand(".cli.file_kinds:check_replaced", __package__)
OFFERED["export"] = lambda model, path: __getattr__("export")(model, path)


class _PublicModules:
    """Finds the public modules by their names here: `import graphc.onnxruntime as ort`."""

    def __init__(self) -> None:
        self._own: dict[str, ModuleSpec | None] = {}

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        loader: Any = self
        return ModuleSpec(name, loader) if package == __name__ and module in _MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module: ModuleType = __getattr__(spec.name.rpartition(".")[2])
        self._own[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = self._own.pop(module.__spec__.name)


sys.meta_path.append(_PublicModules())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
