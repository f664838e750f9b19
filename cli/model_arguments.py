"""Arguments shared by commands: the model file, its inputs, how to compile it, and what to print."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
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
from .file_kinds import MODEL
from .run_inputs import Array, read_npy, shapes_of_files, split_inputs

if TYPE_CHECKING:
    from ..driver.request import CompileRequest
    from ..graph_ir.ir.graph import Graph
    from ..graph_ir.ir.schedule import Schedule


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
    add_file_argument(
        parser, name, how.pop("takes", (MODEL,)),
        "model file: .onnx, .pt2, .pnnx.param, HLO text, GE dump or TVM graph JSON", **how,
    )  # fmt: skip


def add_nodes_argument(parser: argparse.ArgumentParser) -> None:
    """Add --nodes."""
    parser.add_argument(
        "--nodes", metavar="GLOB", default="*", help="only nodes whose names match (default: all)"
    )


def add_input_argument(parser: argparse.ArgumentParser) -> None:
    """Add --input, for commands that run a model."""
    parser.add_argument(
        "--input", "-i", action="append", default=[], metavar="NAME=VALUE",
        help="value or shape of an input: x=@x.npy, x=random, or x=f32[8,13] to fix dynamic dimensions (repeatable)",
    )  # fmt: skip


def add_size_argument(parser: argparse.ArgumentParser) -> None:
    """Add --size, for commands that run a model with dynamic dimensions."""
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=NUMBER",
        help="sizes of dynamic dimensions in this run: B=2,S=37 (default: small sizes, which are printed)",
    )  # fmt: skip


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Add options for what a model file may omit."""
    group = parser.add_argument_group("inputs and constants")
    add_input_argument(group)  # type: ignore[arg-type]
    group.add_argument(
        "--constant", action="append", default=[], metavar="NAME=@FILE", dest="constants",
        help="a constant that the file omits, as a .npy file; @FILE.params gives all in that file (repeatable)",
    )  # fmt: skip
    group.add_argument(
        "--attr", action="append", default=[], metavar="NODE.KEY=VALUE", dest="attrs",
        help="an attribute that a fused TVM kernel does not record; NODE may be a pattern, @FILE holds one a line",
    )  # fmt: skip


class _SwitchAction(argparse._AppendAction):
    """Append a switch; `-X help` prints the table of switches and exits."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if values == "help":
            from .switches import switch_table

            print(switch_table(), end="")
            parser.exit()
        super().__call__(parser, namespace, values, option_string)


def add_compile_arguments(
    parser: argparse.ArgumentParser, takes: Sequence[str] = (MODEL,), schedules: bool = True
) -> None:
    """Add the model file and how to compile it."""
    add_model_argument(parser, takes=takes)
    add_reading_arguments(parser)
    group = parser.add_argument_group("compilation")
    add_target_argument(group)
    add_threads_argument(group)
    group.add_argument(
        "--precision", choices=PRECISIONS, default="f32",
        help="compute dtype of matmuls and convolutions in an f32 model: bf16 or f16 operands with sums in f32, int8, "
        "or int4 weights (default: f32)",
    )  # fmt: skip
    add_activations_argument(group)
    group.add_argument(
        "--exact", action="store_true",
        help="turn off optimizations that increase rounding errors (-X winograd=off)",
    )  # fmt: skip
    group.add_argument(
        "--max-memory", metavar="SIZE",
        help="the most memory that the model may need to run: 512M, 16G (default: what this process may use)",
    )  # fmt: skip
    group.add_argument(
        "-X", action=_SwitchAction, default=[], metavar="SWITCH", dest="switches",
        help="turn an optimization off (-X no-fuse) or choose a variant (-X winograd=f4); `-X help` lists them",
    )  # fmt: skip
    if schedules:
        group.add_argument(
            "--tuning", metavar="FILE", help="measured schedules (default: those of `graphc tune`)"
        )
        group.add_argument(
            "--schedule", action="append", metavar="OP=TEXT", dest="schedules",
            help="override settings of the schedule of an op: 'fc1=mr=8 nv=3', 'conv1=algorithm=winograd form=f4' "
            "(repeatable)",
        )  # fmt: skip


def add_target_argument(parser: argparse._ActionsContainer) -> None:
    """Add --target."""
    parser.add_argument(
        "--target", choices=TargetNames(), default=NATIVE,
        help="instruction set (default: this CPU's), with features to add: aarch64+dotprod",
    )  # fmt: skip


def add_activations_argument(parser: argparse._ActionsContainer) -> None:
    """Add --activations."""
    parser.add_argument(
        "--activations", choices=ACTIVATIONS, default="exact",
        help="activations of matmuls by packed weights: exact, or q8: 8 bits in groups of 32 (default: exact)",
    )  # fmt: skip


def add_threads_argument(parser: argparse._ActionsContainer) -> None:
    """Add --threads."""
    parser.add_argument(
        "--threads", type=int, metavar="N",
        help="number of threads (default: the CPUs this process may use)",
    )  # fmt: skip


def add_json_argument(parser: argparse._ActionsContainer) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def add_quiet_argument(parser: argparse._ActionsContainer) -> None:
    """Add --quiet, for commands that show progress."""
    parser.add_argument("-q", "--quiet", action="store_true", help="print no progress")


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


def pairs(option: str, texts: Sequence[str], form: str) -> list[tuple[str, str]]:
    """(before, after) the first `=` of each text."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UserError(f"{option} must be {form}, got '{text}'")
        found.append((name, value))
    return found
