"""Arguments shared by commands: the model file, its inputs, how to compile it, and what to print."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.file_errors import unreadable
from ..base.memory_limit import parse_memory
from ..base.options import (
    ACTIVATIONS,
    LAYOUTS,
    PRECISIONS,
    SWITCHES,
    WINOGRAD,
    CompileOptions,
    verify_requested,
)
from ..base.pipes import read_file
from ..base.records import dataclass
from ..base.suggestion import suggestion
from ..targets.target_names import NATIVE, TargetNames
from .file_kinds import FOLDER, MODEL
from .run_inputs import (
    Array,
    call_sizes,
    input_arrays,
    known_sizes,
    read_npy,
    shapes_of_files,
    split_inputs,
)

if TYPE_CHECKING:
    from ..driver.request import CompileRequest
    from ..graph_ir.ir.graph import Graph
    from ..graph_ir.ir.schedule import Schedule
    from ..graph_ir.schedule.context import LowerContext


CHECK_BOUNDS = "check-bounds"
"""The switch (`-X`) for code that checks every access."""


def add_file_argument(
    parser: argparse.ArgumentParser, name: str, takes: Sequence[str], help: str, **how: Any
) -> None:
    """Add a positional file of one of the kinds `takes`; files of another kind are refused before the command runs."""
    parser.add_argument(name, help=help, **how)
    parser.set_defaults(files={**(parser.get_default("files") or {}), name: tuple(takes)})


def add_model_argument(parser: argparse.ArgumentParser, name: str = "model", **how: Any) -> None:
    """Add the model file."""
    takes = how.pop("takes", (MODEL,))
    add_file_argument(
        parser, name, takes,
        "model file: .onnx, .pt2, .pnnx.param, .gguf, .graph, HLO text, GE dump or TVM graph JSON"
        + (", or a folder of Hugging Face Transformers" if FOLDER in takes else ""), **how,
    )  # fmt: skip


class _SwitchAction(argparse._AppendAction):
    """Append a switch; `-X help` prints the table of switches and exits."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if values == "help":
            from .switches import switch_table

            print(switch_table(), end="")
            parser.exit()
        super().__call__(parser, namespace, values, option_string)


OPTIONS: Mapping[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "nodes": (("--nodes",), {
        "metavar": "GLOB", "default": "*", "help": "only nodes whose names match (default: all)",
    }),
    "input": (("--input", "-i"), {
        "action": "append", "default": [], "metavar": "NAME=VALUE",
        "help": "value or shape of an input: x=@x.npy, x=random, or x=f32[8,13] to fix dynamic dimensions (repeatable)",
    }),
    "size": (("--size",), {
        "action": "append", "default": [], "metavar": "NAME=NUMBER",
        "help": "sizes of dynamic dimensions in this run: B=2,S=37 (default: small sizes, which are printed)",
    }),
    "constant": (("--constant",), {
        "action": "append", "default": [], "metavar": "NAME=@FILE", "dest": "constants",
        "help": "a constant that the file omits, as a .npy file; @FILE.params gives all in that file (repeatable)",
    }),
    "attr": (("--attr",), {
        "action": "append", "default": [], "metavar": "NODE.KEY=VALUE", "dest": "attrs",
        "help": "an attribute that a fused TVM kernel does not record; NODE may be a pattern, @FILE holds one a line",
    }),
    "target": (("--target",), {
        "choices": TargetNames(), "default": NATIVE,
        "help": "instruction set (default: this CPU's), with features to add: aarch64+dotprod",
    }),
    "threads": (("--threads",), {
        "type": int, "metavar": "N", "help": "number of threads (default: the CPUs this process may use)",
    }),
    "precision": (("--precision",), {
        "choices": PRECISIONS, "default": "f32",
        "help": "compute dtype of matmuls and convolutions in an f32 model: bf16 or f16 operands with sums in f32, "
        "int8, or int4 weights (default: f32)",
    }),
    "activations": (("--activations",), {
        "choices": ACTIVATIONS, "default": "exact",
        "help": "activations of matmuls by packed weights: exact, or q8: 8 bits in groups of 32 (default: exact)",
    }),
    "exact": (("--exact",), {
        "action": "store_true", "help": "turn off optimizations that increase rounding errors (-X winograd=off)",
    }),
    "memory": (("--max-memory",), {
        "metavar": "SIZE",
        "help": "the most memory that the model may need to run: 512M, 16G (default: what this process may use)",
    }),
    "switch": (("-X",), {
        "action": _SwitchAction, "default": [], "metavar": "SWITCH", "dest": "switches",
        "help": "turn an optimization off (-X no-fuse) or choose a variant (-X winograd=f4); `-X help` lists them",
    }),
    "tuning": (("--tuning",), {
        "metavar": "FILE", "help": "measured schedules (default: those of `graphc tune`)",
    }),
    "schedule": (("--schedule",), {
        "action": "append", "metavar": "OP=TEXT", "dest": "schedules",
        "help": "override settings of the schedule of an op: 'fc1=mr=8 nv=3', 'conv1=algorithm=winograd form=f4' "
        "(repeatable)",
    }),
    "seconds": (("--seconds",), {"type": float, "default": 0.5, "help": "time to run (default: 0.5)"}),
    "signature": (("--require-signature",), {
        "metavar": "KEY",
        "help": "refuse an artifact that is not signed by this Ed25519 public key (PEM or OpenSSH)",
    }),
    "json": (("--json",), {"action": "store_true", "help": "print one JSON object instead of text"}),
    "quiet": (("-q", "--quiet"), {"action": "store_true", "help": "print no progress"}),
}  # fmt: skip
"""Options that several commands share: their spellings, and the arguments of `add_argument`."""


def add_options(parser: argparse._ActionsContainer, *names: str) -> None:
    """Add options of `OPTIONS`, in this order."""
    for name in names:
        flags, how = OPTIONS[name]
        parser.add_argument(*flags, **how)


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Add options for what a model file may omit."""
    add_options(parser.add_argument_group("inputs and constants"), "input", "constant", "attr")


def add_compile_arguments(
    parser: argparse.ArgumentParser, takes: Sequence[str] = (MODEL,), schedules: bool = True
) -> None:
    """Add the model file and how to compile it."""
    add_model_argument(parser, takes=takes)
    add_reading_arguments(parser)
    group = parser.add_argument_group("compilation")
    add_options(group, "target", "threads", "precision", "activations", "exact", "memory", "switch")
    if schedules:
        add_options(group, "tuning", "schedule")


def compile_options(args: argparse.Namespace, dump_dir: str | None = None) -> CompileOptions:
    """The options given by the shared arguments. Raise UserError for an unknown switch."""
    from ..runtime.threadpool import resolve_threads

    disabled, winograd, layout = {"winograd"} if args.exact else set(), "auto", "auto"
    for switch in args.switches:
        if switch == CHECK_BOUNDS:
            continue
        if switch.startswith("winograd="):
            winograd = _value(switch, ("off", *WINOGRAD))
        elif switch.startswith("layout="):
            layout = _value(switch, LAYOUTS)
        elif switch.startswith("no-"):
            disabled.add(switch.removeprefix("no-"))
        else:
            raise UserError(f"-X must be no-SWITCH, got '{switch}'; {_known_switch(switch)}")
    if winograd == "off":
        disabled |= {"winograd", "byte-winograd"}
        winograd = "auto"
    folder = Path(dump_dir) if dump_dir else None
    threads = resolve_threads(args.threads)
    memory = parse_memory(args.max_memory) if args.max_memory else None
    return CompileOptions(
        threads, frozenset(disabled), folder, verify_requested(), winograd, memory, args.precision,
        CHECK_BOUNDS in args.switches, layout, args.activations,
    )  # fmt: skip


def compile_request(
    args: argparse.Namespace, texts: ModelTexts, dump_dir: str | None = None
) -> CompileRequest:
    """Return the request that the arguments of a command make, on one process and without a cache. May raise
    UserError."""
    from ..codegen.host import target_for
    from ..driver.request import CompileRequest
    from ..driver.tuning import tuned_schedules

    options, target = compile_options(args, dump_dir), target_for(args.target)
    tuned = tuned_schedules(target, options.threads, args.tuning)
    return CompileRequest(
        args.model, target, options, texts.inputs, texts.constants, texts.attrs, tuned,
        parse_schedules(getattr(args, "schedules", None) or ()),
    )  # fmt: skip


def parse_schedules(texts: Iterable[str]) -> dict[str, Schedule]:
    """`fc1=gemm mr=8 kc=256` of the command line, by op. May raise UserError."""
    from ..graph_ir.ir.schedule import parse_schedule

    found: dict[str, Schedule] = {}
    for text in texts:
        name, equals, settings = text.partition("=")
        if not equals or not name:
            raise UserError(f"--schedule must look like 'fc1=mr=8 kc=256', got '{text}'")
        found[name] = parse_schedule(settings)
    return found


def _known_switch(switch: str) -> str:
    known = (*(f"no-{name}" for name in SWITCHES), "winograd=f4", "layout=blocked", CHECK_BOUNDS)
    return suggestion(switch, known) or "`graphc compile -X help` lists the switches"


def _value(switch: str, known: Sequence[str]) -> str:
    """Return the text after the `=` of a switch."""
    name, _, value = switch.partition("=")
    if value not in known:
        raise UserError(f"-X {name} must be one of {', '.join(known)}, got '{value}'")
    return value


@dataclass(frozen=True)
class ModelTexts:
    """The command line's arguments for a model file: those of `frontend.load`, and `values` of inputs to run on."""

    inputs: dict[str, str]
    constants: dict[str, Array]
    attrs: dict[str, str]
    values: dict[str, str]


def model_texts(args: argparse.Namespace) -> ModelTexts:
    """Read --input, --constant and --attr. UserError naming the text that is malformed."""
    specs, values = split_inputs(args.input)
    constants: dict[str, Array] = {}
    for text in args.constants:
        if text.startswith("@"):
            from ..frontend.tvm.params import read_params

            constants.update(read_params(text[1:]))
            continue
        ((name, value),) = pairs("--constant", [text], "NAME=@file.npy")
        if not value.startswith("@"):
            raise UserError(f"--constant must be NAME=@file.npy, got '{name}={value}'")
        constants[name] = read_npy(name, value[1:])
    attrs = dict(pairs("--attr", _lines(args.attrs), "NODE.KEY=VALUE"))
    return ModelTexts({**shapes_of_files(values), **specs}, constants, attrs, values)


def _lines(texts: Sequence[str]) -> list[str]:
    """Return the texts, with `@FILE` replaced by the lines of the file, without blank lines and comments (`#`)."""
    found: list[str] = []
    for text in texts:
        if not text.startswith("@"):
            found.append(text)
            continue
        try:
            lines = read_file(text[1:]).decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise unreadable(text[1:], error, "--attr") from error
        found += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return found


def read_model(args: argparse.Namespace) -> tuple[Graph, dict[str, str]]:
    """(the graph of the model the command line names, values of its inputs). May raise UserError or
    UnsupportedError."""
    from ..frontend import load

    texts = model_texts(args)
    return load(args.model, texts.inputs, texts.constants, texts.attrs), texts.values


def opened_model(args: argparse.Namespace) -> tuple[LowerContext, Graph, dict[str, str]]:
    """Return how to compile the model of a command line, its graph, and the values of its inputs."""
    from ..codegen.host import target_for
    from ..graph_ir.schedule.context import LowerContext

    ctx = LowerContext(target_for(args.target), compile_options(args))
    return ctx, *read_model(args)


def model_arrays(
    args: argparse.Namespace, graph: Graph, values: Mapping[str, str]
) -> dict[str, Array]:
    """Return an array for each input of a model that a command runs, at the sizes of --size."""
    from ..driver.artifact import input_specs

    return input_arrays(input_specs(graph), values, call_sizes(args.size))


def model_sizes(args: argparse.Namespace, graph: Graph) -> dict[str, int]:
    """Return a number for each dynamic dimension of a model, of --size or small."""
    from ..driver.artifact import input_specs

    return known_sizes(input_specs(graph), {}, call_sizes(args.size))


def pairs(option: str, texts: Sequence[str], form: str) -> list[tuple[str, str]]:
    """(before, after) the first `=` of each text."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UserError(f"{option} must be {form}, got '{text}'")
        found.append((name, value))
    return found
