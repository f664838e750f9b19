"""An error of a file is one sentence with file and line; damage anywhere never gives anything else."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.base.errors import GraphcError, UnsupportedError, UserError
from graphc.frontend import load
from support.files import write_anew
from support.pnnx_models import write_model

INPUT = "pnnx.Input in 0 1 x #x=(2,3)f32"
OUTPUT = "pnnx.Output out 1 0 y"


def message_of(path: Path, *, inputs: dict[str, str] | None = None) -> str:
    with pytest.raises(GraphcError) as error:
        load(path, inputs)
    assert isinstance(error.value, (UserError, UnsupportedError))
    return str(error.value)


HEADS = [
    ("", "a model file must not be empty, but {path} has no bytes"),
    ("\x00\x01binary rubbish in a file that is long", "the first line of a PNNX .param file must be 7767517, got "
     "'\\x00\\x01binary rubbish in a fi'... (in {path})"),
    ("7767517", "the second line must hold two numbers, of operators and operands, "
     "got no second line (in {path}, line 2)"),
    ("7767517\nten 3\n", "the second line must hold two numbers, of operators and operands, "
     "got 'ten 3' (in {path}, line 2)"),
    ("7767517\n0 0\n", "a model must have a pnnx.Output, but there is none; line 2 announces 0 operators and "
     "0 are there: is the file truncated? (in {path})"),
    (f"7767517\n3 2\n{INPUT}\n", "a model must have a pnnx.Output, but there is none; line 2 announces 3 "
     "operators and 1 are there: is the file truncated? (in {path})"),
    ("7767517\n3 3\nInput data 0 1 data 0=224 1=224 2=3\nConvolution c 1 1 data y 0=64 1=3\n",
     "a .param file must be PNNX's, but this is ncnn's own; give the .pnnx.param file of the same model (in {path})"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), HEADS)
def test_files_that_are_no_pnnx_model(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.pnnx.param"
    write_anew(path, text)
    assert message_of(path) == message.format(path=f"'{path}'")


LINES = [
    ("F.relu r 1", 4, "an operator must start with type, name, number of inputs and number of outputs, got "
     "'F.relu r 1'"),
    ("F.relu r -1 1 x y", 4, "an operator must start with type, name, number of inputs and number of outputs, got "
     "'F.relu r -1 1 x y'"),
    ("F.relu r 1 1 x", 4, "F.relu 'r': 1 inputs and 1 outputs must follow, got 1 words"),
    ("F.relu r 999999999 1 x y", 4, "F.relu 'r': 999999999 inputs and 1 outputs must follow, got 2 words"),
    ("F.relu r 1 1 x y z", 4, "F.relu 'r': every word after the operands must be key=value, got 'z'"),
    ("F.relu r 1 1 x y @=()f32", 4, "F.relu 'r': every word after the operands must be key=value, got '@=()f32'"),
    ("F.relu r 1 1 x y a=1 a=2", 4, "F.relu 'r': 'a' must be given once, but is there twice"),
    ("F.relu r 1 1 x y $input=q", 4, "F.relu 'r': '$input' must name one of its inputs ['x'], got 'q'"),
    ("F.relu in 1 1 x y", 4, "operator names must be unique, but 'in' is also on line 3"),
    ("F.relu r 1 1 x x", 4, "an operand must have one producer, but 'x' is written by both pnnx.Input 'in' and "
     "F.relu 'r'"),
    ("F.relu r 1 1 q y", 4, "F.relu 'r' reads operand 'q', which an operator above must produce"),
    ("F.relu r 1 1 y y", 4, "F.relu 'r' reads operand 'y', which is produced only on line 4; lines must be in order, "
     "and a graph acyclic"),
    ("nn.Linear l 1 1 x y @weight=(4,-3)f32", 4, "nn.Linear 'l', attribute 'weight': every size must be a number "
     "from 0 to 10^18, or ? if it is dynamic, got '-3'"),
    ("nn.Linear l 1 1 x y @weight=(4,3f32", 4, "nn.Linear 'l', attribute 'weight': a shape must look like (1,32)f32, "
     "got '(4,3f32'"),
    ("nn.Linear l 1 1 x y @weight=(4,?)f32", 4, "nn.Linear 'l', attribute 'weight': its shape and dtype must be "
     "complete, got '(4,?)f32'"),
    ("nn.Linear l 1 1 x y @weight=(999999999999,3)f32", 4, "nn.Linear 'l', attribute 'weight': a tensor must not "
     "exceed 1 TiB, got f32[999999999999,3]"),
    (f"nn.Linear l 1 1 x y @weight=({','.join('1' * 33)})f32", 4, "nn.Linear 'l', attribute 'weight': a tensor must "
     "have at most 32 axes, got 33"),
    ("torch.unsqueeze u 1 1 x y dim=" + "9" * 10**6, 4, "torch.unsqueeze 'u': an integer must have at most 18 digits, "
     "got 1000000"),
    ("Tensor.expand e 1 1 x y sizes=(99999999999,9999,2,3)", 4, "Tensor.expand 'e': a tensor must not exceed 1 TiB, "
     "got f32[99999999999,9999,2,3]"),
    ("pnnx.Expression e 1 1 x y expr=add(@0,1", 4, "pnnx.Expression 'e': an expression must be complete, got "
     "'add(@0,1'"),
    ("F.relu r 1 2 x y z", 4, "F.relu 'r' must have 1 outputs, got 2"),
    ("prim::Constant c 0 1 y value=red", 5, "pnnx.Output 'out': a result that is not a tensor is not supported; "
    "export the model without it"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "number", "message"), LINES, ids=[m for _, _, m in LINES])
def test_lines_that_are_wrong(line: str, number: int, message: str, tmp_path: Path) -> None:
    path = write_model(tmp_path, [INPUT, line, OUTPUT])
    assert message_of(path) == f"{message} (in '{path}', line {number})"


def test_lines_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "m.param"
    path.write_bytes(b"7767517\n1 1\npnnx.Input \xff 0 1 x\n")
    assert message_of(path) == f"the line must be UTF-8 text (in '{path}', line 3)"


def test_a_cycle_through_two_lines(tmp_path: Path) -> None:
    lines = [INPUT, "torch.add a 2 1 x z y", "F.relu b 1 1 y z", OUTPUT]
    path = write_model(tmp_path, lines)
    assert message_of(path) == (
        "torch.add 'a' reads operand 'z', which is produced only on line 5; lines must be in order, and a graph "
        f"acyclic (in '{path}', line 4)"
    )


def test_all_that_is_not_supported_is_listed_at_once(tmp_path: Path) -> None:
    path = write_model(
        tmp_path,
        [
            INPUT,
            "models.yolo.Segment d 1 1 x a",
            "torch.unique l 1 1 a b",
            "torch.unique m 1 1 b c",
            "pnnx.Expression e 1 1 c y expr=gamma(add(beta(@0),gamma(@0)))",
            OUTPUT,
        ],
    )
    assert message_of(path) == (
        "these operators are not supported: beta in pnnx.Expression (1x), gamma in pnnx.Expression (2x), "
        "models.yolo.Segment (1x), torch.unique (2x); "
        "use others (docs/reference/operators.md lists those that are read) or define them (`graphc.ops.define`) "
        f"(in '{path}')"
    )


def test_missing_files(tmp_path: Path) -> None:
    assert message_of(tmp_path / "no.param") == (
        f"there is no file '{tmp_path}/no.param'; check its name and its folder"
    )
    (tmp_path / "d.param").mkdir()
    assert message_of(tmp_path / "d.param") == (
        f"cannot read '{tmp_path}/d.param' (Is a directory); give a file in it"
    )


# Weights.

LINEAR = "nn.Linear l 1 1 x y bias=False in_features=3 out_features=4 @weight=(4,3)f32"
WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    return write_model(tmp_path, [INPUT, LINEAR, OUTPUT], {"l.weight": WEIGHT})


def refused_archive(path: Path) -> str:
    message, location = message_of(path).removeprefix("nn.Linear 'l': "), f" (in '{path}', line 4)"
    assert message.endswith(location)
    return message.removesuffix(location).replace(str(path.parent), "DIR")


def test_the_archive_is_missing(linear: Path) -> None:
    linear.with_suffix(".bin").unlink()
    assert refused_archive(linear) == (
        "there is no file 'DIR/m.pnnx.bin'; the weights must lie beside the .param file"
    )


def test_a_model_without_weights_needs_no_archive(tmp_path: Path) -> None:
    path = write_model(tmp_path, [INPUT, "F.relu r 1 1 x y", OUTPUT])
    path.with_suffix(".bin").unlink()
    assert len(load(path).ops) == 3


def test_the_archive_is_rubbish_or_cut(linear: Path) -> None:
    archive = linear.with_suffix(".bin")
    whole = archive.read_bytes()
    for data in (b"", b"rubbish" * 100, whole[:-30]):
        write_anew(archive, data)
        assert refused_archive(linear) == (
            "the weights must be an archive, but 'DIR/m.pnnx.bin' cannot be read as one (File is not a zip file)"
        )


def test_entries_that_are_missing_or_of_the_wrong_size(linear: Path) -> None:
    with zipfile.ZipFile(linear.with_suffix(".bin"), "w") as archive:
        archive.writestr("l.bias", b"1234")
    assert (
        refused_archive(linear)
        == "weight 'l.weight': 'DIR/m.pnnx.bin' has no entry of that name; copy the file again"
    )
    with zipfile.ZipFile(linear.with_suffix(".bin"), "w") as archive:
        archive.writestr("l.weight", b"1234")
    assert refused_archive(linear) == (
        "weight 'l.weight': (4,3)f32 takes 48 bytes, but 'DIR/m.pnnx.bin' has 4"
    )


def test_compressed_doubled_and_escaping_entries(linear: Path) -> None:
    path = linear.with_suffix(".bin")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("l.weight", WEIGHT.tobytes())
    assert refused_archive(linear) == (
        "weight 'l.weight': entries of 'DIR/m.pnnx.bin' must be stored, neither compressed nor encrypted"
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../l.weight", WEIGHT.tobytes())
    assert refused_archive(linear) == (
        "an entry of 'DIR/m.pnnx.bin' must not lead out of its folder, got '../../l.weight'"
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("l.weight", WEIGHT.tobytes())
        archive.writestr("l.weighu", WEIGHT.tobytes())
    path.write_bytes(path.read_bytes().replace(b"l.weighu", b"l.weight"))
    assert refused_archive(linear) == (
        "entries of 'DIR/m.pnnx.bin' must have distinct names, but 'l.weight' is there twice"
    )


def test_corrupt_bytes_and_sizes_that_lie(linear: Path) -> None:
    path = linear.with_suffix(".bin")
    whole = path.read_bytes()
    data = whole.index(WEIGHT.tobytes())
    path.write_bytes(whole[: data + 5] + b"\xff" + whole[data + 6 :])
    assert refused_archive(linear) == (
        "weight 'l.weight': 'DIR/m.pnnx.bin' is corrupt, the checksum of the entry does not match; copy the file again"
    )
    record = whole.index(b"PK\x01\x02")
    huge = struct.pack("<II", 2**31, 2**31)
    path.write_bytes(whole[: record + 20] + huge + whole[record + 28 :])
    assert refused_archive(linear) == (
        "weight 'l.weight': (4,3)f32 takes 48 bytes, but 'DIR/m.pnnx.bin' has 2147483648"
    )


def test_a_huge_weight_is_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    line = LINEAR.replace("(4,3)f32", "(90000000000,3)f32").replace("=4", "=90000000000")
    path = write_model(tmp_path, [INPUT, line, OUTPUT], {"l.weight": WEIGHT})
    assert refused_archive(path) == (
        "weight 'l.weight': (90000000000,3)f32 takes 1080000000000 bytes, but 'DIR/m.pnnx.bin' has 48"
    )


# Damage anywhere.

SAMPLE = [
    "pnnx.Input in 0 1 x #x=(2,3)f32",
    "nn.Linear l 1 1 x a bias=True in_features=3 out_features=4 @bias=(4)f32 @weight=(4,3)f32 #a=(2,4)f32",
    "pnnx.Expression e 1 1 a b expr=add(mul(@0,sqrt(2.0)),size(@0,1)) #b=(2,4)f32",
    "Tensor.slice s 1 1 b c dims=(0,1) starts=(0,1) ends=(2147483647,3) steps=(1,1) selects=(1,2147483647)",
    "torch.where w 2 1 m c d $condition=m $input=c other=0.000000e+00",
    "F.softmax f 1 1 d y dim=-1",
    OUTPUT,
]
SAMPLE.insert(4, "torch.gt g 1 1 c m other=0.0")
WEIGHTS = {"l.weight": WEIGHT, "l.bias": WEIGHT[:, 0].copy()}


def survives(path: Path) -> bool:
    """Return whether the model loads; if not, it is an error of ours."""
    try:
        load(path)
    except (UserError, UnsupportedError):
        return False
    return True


def test_the_sample_itself(tmp_path: Path) -> None:
    assert survives(write_model(tmp_path, SAMPLE, WEIGHTS))


def test_the_text_cut_after_every_byte(tmp_path: Path) -> None:
    path = write_model(tmp_path, SAMPLE, WEIGHTS)
    text = path.read_bytes()
    for end in range(len(text) - len(OUTPUT) - 1):
        write_anew(path, text[:end])
        assert not survives(path)


def test_every_token_left_out_or_doubled(tmp_path: Path) -> None:
    path = write_model(tmp_path, SAMPLE, WEIGHTS)
    lines = [line.split(" ") for line in path.read_text().split("\n")]
    for row, words in enumerate(lines):
        for column, word in enumerate(words):
            for instead in ([], [word, word], [f"{word})"], ["@0"], ["99999999999999999999"]):
                changed = [*words[:column], *instead, *words[column + 1 :]]
                text = "\n".join(" ".join(w) for w in (*lines[:row], changed, *lines[row + 1 :]))
                survives(write_anew(path, text))


@settings(max_examples=300)
@given(data=st.data())
def test_bytes_flipped_anywhere(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write_model(tmp_path_factory.getbasetemp(), SAMPLE, WEIGHTS)
    victim = data.draw(st.sampled_from([path, path.with_suffix(".bin")]))
    content = bytearray(victim.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    write_anew(victim, content)
    survives(path)


def test_the_archive_cut_after_every_byte(tmp_path: Path) -> None:
    path = write_model(tmp_path, SAMPLE, WEIGHTS)
    archive = path.with_suffix(".bin")
    whole = archive.read_bytes()
    for end in range(len(whole)):
        write_anew(archive, whole[:end])
        assert not survives(path)
