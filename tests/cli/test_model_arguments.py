"""Arguments that commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.cli.command_tree import parser_of
from graphc.cli.file_kinds import FOLDER, MODEL
from graphc.cli.model_arguments import (
    add_compile_arguments,
    compile_options,
    model_texts,
)
from graphc.cli.parser import walk


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_compile_arguments(parser)
    return parser.parse_args(["m.onnx", *words])


def test_defaults() -> None:
    args = parse()
    assert (args.model, args.input, args.target, args.threads) == ("m.onnx", [], "native", None)
    assert (args.switches, args.tuning, args.schedules) == ([], None, None)


@pytest.mark.parametrize("words", [["--target", "sse"], ["--threads", "two"], ["--input"]])
def test_refused_by_the_parser(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(*words)
    assert stop.value.code == 2


def test_options() -> None:
    options = compile_options(parse("--threads", "3", "-X", "no-fuse", "-X", "no-fold"), "dump")
    assert (options.threads, options.disabled) == (3, {"fuse", "fold"})
    assert options.dump_dir == Path("dump")
    assert compile_options(parse()).dump_dir is None


@pytest.mark.parametrize(
    ("words", "disabled", "winograd"),
    [
        ([], set(), "auto"),
        (["--exact"], {"winograd"}, "auto"),
        (["-X", "winograd=off"], {"winograd", "byte-winograd"}, "auto"),
        (["-X", "winograd=f4"], set(), "f4"),
        (["-X", "winograd=f2", "--exact"], {"winograd"}, "f2"),
    ],
)
def test_winograd(words: list[str], disabled: set[str], winograd: str) -> None:
    options = compile_options(parse(*words))
    assert (options.disabled, options.winograd) == (disabled, winograd)


def test_layouts_on_request() -> None:
    assert compile_options(parse("-X", "layout=blocked")).layout == "blocked"
    with pytest.raises(UserError, match="-X layout must be one of auto, blocked, got 'x'"):
        compile_options(parse("-X", "layout=x"))


def test_an_unknown_form_of_winograd() -> None:
    with pytest.raises(UserError) as error:
        compile_options(parse("-X", "winograd=f6"))
    assert str(error.value) == "-X winograd must be one of off, auto, f2, f4, got 'f6'"


def test_constants_and_attributes_of_the_command_line(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.arange(3, dtype=np.float32))
    args = argparse.Namespace(
        input=["x=f32[2]"], constants=[f"w=@{tmp_path / 'c.npy'}"], attrs=["fc.axis=1"]
    )
    texts = model_texts(args)
    assert texts.inputs == {"x": "f32[2]"} and texts.attrs == {"fc.axis": "1"}
    assert texts.constants["w"].tolist() == [0, 1, 2]


def test_attributes_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "attrs.txt"
    file.write_text("# a network\n\nconv1.strides=2\n*.padding=1\n")
    given = argparse.Namespace(input=[], constants=[], attrs=[f"@{file}", "fc.axis=1"])
    assert model_texts(given).attrs == {"conv1.strides": "2", "*.padding": "1", "fc.axis": "1"}
    with pytest.raises(UserError, match="--attr: cannot read"):
        model_texts(argparse.Namespace(input=[], constants=[], attrs=[f"@{tmp_path}"]))


@pytest.mark.parametrize(
    ("const", "attr", "message"),
    [
        (["w"], [], "--constant must be NAME=@file.npy, got 'w'"),
        (["w=3"], [], "--constant must be NAME=@file.npy, got 'w=3'"),
        ([], ["axis"], "--attr must be NODE.KEY=VALUE, got 'axis'"),
    ],
)
def test_malformed_constants_and_attributes(
    const: list[str], attr: list[str], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        model_texts(argparse.Namespace(input=[], constants=const, attrs=attr))
    assert str(caught.value) == message


def test_the_help_of_a_model_names_what_a_command_takes() -> None:
    """GGUF files are models everywhere; a folder of Transformers where the command takes one."""
    seen = set()
    for command in walk(parser_of()):
        files = command.get_default("files") or {}
        for action in command.positionals:
            takes = files.get(action.dest, ())
            if MODEL in takes or FOLDER in takes:
                seen.add(command.prog)
                assert ".gguf" in str(action.help) or "GGUF" in str(action.help), command.prog
                assert ("Transformers" in str(action.help)) == (FOLDER in takes), command.prog
    assert {"graphc compile", "graphc bench", "graphc generate", "graphc inspect diff"} <= seen
