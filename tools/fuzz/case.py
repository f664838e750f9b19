"""One case: a graph, its inputs, and how it is compiled and run. It goes to worker processes as text."""

from __future__ import annotations

import base64
import io
import random
from dataclasses import field, replace
from typing import Any

import numpy as np

from ...base.errors import UserError
from ...base.options import LAYOUTS, SWITCHES, WINOGRAD, CompileOptions
from ...base.records import dataclass
from ...codegen.host import target_for
from ...graph_ir.ir.graph import Array, Graph
from ...graph_ir.text.parser import parse_graph
from ...graph_ir.text.printer import print_graph
from ...targets.isa import ISAS, Target
from .files import random_file
from .generator import random_graph
from .plan import EVERYTHING, FILLS, Plan

TARGETS = ("native", *(name for name, isa in ISAS.items() if isa.tiles is None and not isa.triple))
ROUTES = ("gcm", "onnx", "hlo", "pnnx", "tvm", "ge")
"""Ways besides the direct one that are taken by chance: saved and loaded again, or through a file of a format. With a
dynamic size ("dynamic") is one more, on request: it compiles five models more."""


@dataclass(frozen=True)
class Setting:
    """The settings a graph is compiled and run with.

    `target`: the vector shapes of an ISA, for whatever instructions this CPU has. `routes`: of `ROUTES`, tried beside
    the direct way. `check_bounds`: the code checks its accesses itself.
    """

    target: str = "native"
    disabled: tuple[str, ...] = ()
    winograd: str = "auto"
    threads: int = 1
    routes: tuple[str, ...] = ()
    check_bounds: bool = False
    layout: str = "auto"

    def options(self) -> CompileOptions:
        """The options of the compiler; raise UserError for what it does not know."""
        return CompileOptions(
            self.threads,
            frozenset(self.disabled),
            winograd=self.winograd,
            check_bounds=self.check_bounds,
            layout=self.layout,
        )

    def resolved_target(self) -> Target:
        """The vector shapes requested, emitted for this CPU."""
        native = target_for("native")
        if self.target == "native":
            return native
        return Target(
            self.target, native.cpu, native.features, native.l1_bytes, native.l2_bytes, native.l3_bytes
        )  # fmt: skip

    def words(self) -> str:
        """The setting in a line: `generic -X no-fuse threads=2 hlo`."""
        parts = [self.target, *(f"-X no-{switch}" for switch in self.disabled)]
        parts += [f"-X winograd={self.winograd}"] if self.winograd != "auto" else []
        parts += [f"-X layout={self.layout}"] if self.layout != "auto" else []
        parts += ["-X check-bounds"] if self.check_bounds else []
        parts += [f"threads={self.threads}"] if self.threads > 1 else []
        return " ".join((*parts, *self.routes))

    @staticmethod
    def from_json(facts: dict[str, Any]) -> Setting:
        """The setting of its fields as JSON."""
        given: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()
        }
        return Setting(**given)


@dataclass(frozen=True)
class Case:
    """A graph, an array for each of its inputs, and the setting."""

    graph: Graph
    arrays: list[Array] = field(repr=False)
    setting: Setting = Setting()

    def to_json(self) -> dict[str, Any]:
        """Text, and the arrays as files in base64."""
        return {
            "graph": print_graph(self.graph, full=True),
            "arrays": _encoded(self.arrays),
            "setting": vars(self.setting),
        }

    @staticmethod
    def from_json(facts: dict[str, Any]) -> Case:
        """Read the JSON that `to_json` wrote. Raise UserError if the graph does not parse."""
        graph = parse_graph(facts["graph"])
        loaded = _decoded(facts["arrays"])
        if len(loaded) != len(graph.inputs):
            raise UserError(
                f"the case must have an array for each of {len(graph.inputs)} inputs, got {len(loaded)}"
            )
        arrays = [
            array.view(op.outputs[0].details.dtype.numpy)
            for array, op in zip(loaded, graph.inputs, strict=True)
        ]
        return Case(graph, arrays, Setting.from_json(facts["setting"]))


@dataclass(frozen=True)
class FileCase:
    """An ONNX model that is more than the graph it is read as, its inputs and the setting."""

    model: bytes = field(repr=False)
    arrays: list[Array] = field(repr=False)
    setting: Setting = Setting()

    def to_json(self) -> dict[str, Any]:
        """The model and the arrays in base64."""
        return {
            "model": base64.b64encode(self.model).decode(),
            "arrays": _encoded(self.arrays),
            "setting": vars(self.setting),
        }

    @staticmethod
    def from_json(facts: dict[str, Any]) -> FileCase:
        """Read the JSON that `to_json` wrote."""
        model = base64.b64decode(facts["model"])
        return FileCase(model, _decoded(facts["arrays"]), Setting.from_json(facts["setting"]))


def _encoded(arrays: list[Array]) -> list[str]:
    files = [io.BytesIO() for _ in arrays]
    for file, array in zip(files, arrays, strict=True):
        np.save(file, _plain(array), allow_pickle=False)
    return [base64.b64encode(file.getvalue()).decode() for file in files]


def _decoded(texts: list[str]) -> list[Array]:
    return [np.load(io.BytesIO(base64.b64decode(text))) for text in texts]


def _plain(array: Array) -> Array:
    """bf16, which no file of NumPy knows, as its bits."""
    return array.view(np.uint16) if array.dtype.kind == "V" else array


FILE_INTERVAL = 4
"""Interval, among the cases that ONNX Runtime checks, of cases made as a file."""


def case_of(seed: int, index: int, routes: tuple[str, ...] | None = None) -> Case | FileCase:
    """Case number `index` of a seed: the same in every process. `routes`: those to take instead of random ones."""
    if routes and "onnxruntime" in routes and index % FILE_INTERVAL == FILE_INTERVAL - 1:
        setting = random_setting(random.Random(f"setting {seed}/{index}"))
        return FileCase(*random_file(f"{seed}/{index}"), replace(setting, routes=("onnxruntime",)))
    return random_case(seed, index, routes=routes)


def random_case(
    seed: int, index: int, plan: Plan = EVERYTHING, routes: tuple[str, ...] | None = None
) -> Case:
    """A random graph with its number, as `case_of`."""
    if routes and "onnxruntime" in routes:
        plan = replace(plan, strays=False, fills=FILLS[:-1])  # engines differ where there is NaN
    graph, arrays = random_graph(f"{seed}/{index}", plan)
    setting = random_setting(random.Random(f"setting {seed}/{index}"))
    return Case(graph, arrays, setting if routes is None else replace(setting, routes=routes))


def random_setting(source: random.Random) -> Setting:
    """Targets, switches, threads and routes; each of them at its default half of the time or more."""
    disabled = source.sample(tuple(SWITCHES), source.choices((0, 1, 2, 4), (6, 3, 1, 1))[0])
    return Setting(
        target=source.choices(TARGETS, (6, 2, 4, 3))[0],
        disabled=tuple(s for s in SWITCHES if s in disabled),
        winograd=source.choices(WINOGRAD, (6, 1, 1))[0],
        threads=source.choices((1, 2, 3), (6, 3, 1))[0],
        routes=tuple(route for route in ROUTES if source.random() < 0.06),
        check_bounds=source.random() < 0.04,
        layout=source.choices(LAYOUTS, (9, 1))[0],
    )
