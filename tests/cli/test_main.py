"""The front of the command line: choice of the command, exit codes, what is shown of an error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict

import pytest

import graphc
from graphc import cli
from graphc.base.errors import InternalError, UnsupportedError, UserError
from graphc.cli import doctor
from graphc.cli.command_tree import parser_of, walk
from graphc.codegen.host import target_for
from support.process import run_cli, run_python


@pytest.fixture
def behave(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """`behave(action)`: the command `doctor` calls `action` instead."""
    return lambda action: monkeypatch.setattr(doctor, "run", lambda args: action())


def _raise(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UserError("no file 'x'"), 2, "graphc: error: no file 'x'\n"),
        (UnsupportedError("op 'Foo' is not known"), 3, "graphc: error: op 'Foo' is not known\n"),
        (InternalError("bad IR", "for i in x"), 4, "graphc: error: bad IR\nfor i in x\n"),
        (
            ZeroDivisionError("division by zero"),
            4,
            "graphc: error: internal error, ZeroDivisionError: division by zero; "
            "run again with --debug for the traceback\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_is_one_sentence_and_its_exit_code(
    error, code, text, behave, capsys, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    behave(_raise(error))
    assert cli.main(["doctor"]) == code
    written = [f"reproducer: {path}\n" for path in tmp_path.iterdir()]
    assert capsys.readouterr() == ("", "".join([text, *written]))
    assert len(written) == (code == 4)


@pytest.mark.parametrize("words", [["--debug", "doctor"], ["doctor", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(words, behave, capsys) -> None:
    behave(_raise(InternalError("bad IR", "for i in x")))
    assert cli.main(words) == 4
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last)")
    assert err.count("for i in x") == 1
    assert err.endswith("graphc: error: bad IR\n")


def test_the_exit_code_is_that_of_the_command(behave) -> None:
    behave(lambda: 1)
    assert cli.main(["doctor"]) == 1


MISTAKES = {
    "": "the following arguments are required: COMMAND; see `graphc --help`",
    "nonsense": "'graphc' has no command 'nonsense'; commands are compile, run, generate, profile, bench, ",
    "complie m.onnx": "'graphc' has no command 'complie'; did you mean `graphc compile`?",
    "fuzz --count 3": "'graphc' has no command 'fuzz'; did you mean `graphc dev fuzz`?",
    "asm m.onnx": "'graphc' has no command 'asm'; did you mean `graphc explain`?",
    "check m.onnx": "'graphc' has no command 'check'; did you mean `graphc inspect check`?",
    "version": "'graphc' has no command 'version'; did you mean `graphc doctor`?",
    "dev roofine": "'graphc dev' has no command 'roofine'; did you mean `graphc dev roofline`?",
    "inspect": "the following arguments are required: COMMAND; see `graphc inspect --help`",
    "doctor --jsn": "there is no option '--jsn'; did you mean '--json'?; see `graphc doctor --help`",
    "doctor --nonsense=3": "there is no option '--nonsense'; see `graphc doctor --help`",
    "doctor now": "there is no use for the argument 'now'; see `graphc doctor --help`",
    "profile m.onnx --thread 2": "there is no option '--thread'; did you mean '--threads'?; see ",
    "--nonsense": "the following arguments are required: COMMAND; see `graphc --help`",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_wrong_usage_exits_2_and_suggests(line: str, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(line.split())
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith(f"graphc: error: {MISTAKES[line]}") and err.count("\n") == 1


def test_help_lists_every_command_and_loads_nothing_heavy() -> None:
    script = (
        "import sys; from graphc.cli import main\n"
        "try: main(['--help'])\n"
        "finally: print([m for m in ('llvmlite', 'onnx', 'lark', 'rich') if m in sys.modules])"
    )
    done = run_python("-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert listed[: len(cli.COMMANDS)] == list(cli.COMMANDS) and len(cli.COMMANDS) <= 14
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("parser", list(walk(parser_of())), ids=lambda parser: parser.prog)
def test_every_command_is_complete(parser) -> None:
    for action in (*parser.positionals, *parser.options):
        assert action.help, (parser.prog, action)
    assert parser.prog == "graphc" or not parser.description.partition("\n")[0].endswith("..")
    assert parser.subcommands or callable(parser.get_default("command"))
    assert parser.format_help().startswith(f"usage: {parser.prog} [options]")


def test_shared_options_mean_the_same_everywhere() -> None:
    """An option of one spelling has one kind of value."""
    kinds: dict[str, set[object]] = {}
    for parser in walk(parser_of()):
        for action in parser.options:
            for text in action.option_strings:
                kinds.setdefault(text, set()).add((action.nargs == 0, action.type))
    assert {text: found for text, found in kinds.items() if len(found) > 1} == {}


def test_doctor_as_text_and_as_json() -> None:
    text, as_json = run_cli("doctor"), run_cli("doctor", "--json")
    assert text.returncode == as_json.returncode == 0, text.stderr + as_json.stderr
    facts = json.loads(as_json.stdout)
    assert facts["graphc"] == graphc.__version__
    software = {"graphc", "python", "numpy", "onnx", "llvmlite", "llvm"}
    found = {name: facts.pop(name) for name in ("checks", "ok")}
    assert set(facts) == software | {"cpu", "system", "target", "machine", "matmuls", "peers"}
    assert all(facts.values()) and found["ok"]
    names = ["compile", "run", "compare", "threads", "library", "cache"]
    assert [(check["name"], check["ok"]) for check in found["checks"]] == [(n, True) for n in names]
    lines = dict(
        line.split(maxsplit=1) for line in text.stdout.splitlines() if "features" not in line
    )
    assert [name for name in list(lines) if name.startswith("check.") and lines.pop(name)] == [
        f"check.{name}" for name in names
    ]
    shown = {name: value for name, value in doctor.flat(facts).items() if "features" not in name}
    assert lines == shown
    machine = asdict(target_for("native").machine)
    assert facts["machine"] == machine and lines["matmuls.f64xf64"] == "fma, 0.5 x f32"
    assert run_cli("--version").stdout == f"graphc {graphc.__version__}\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = (
        "import sys; from graphc import cli; from graphc.cli import doctor\n"
        "doctor.run = lambda args: print('x' * 1_000_000) or 0\n"
        "sys.exit(cli.main(['doctor']))"
    )
    done = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert done.stdout is not None and done.stderr is not None
    done.stdout.close()
    assert done.stderr.read() == b""
    done.stderr.close()
    assert done.wait(30) == 141


def test_a_full_disk_is_not_a_bug_of_graphc() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "graphc", "doctor"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "graphc: error: cannot write the output (No space left on device); make room on the device\n"
    )
