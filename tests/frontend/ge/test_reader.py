"""The corner cases of the text."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.base.errors import GraphcError, UserError
from graphc.frontend.ge.document import GraphName, Node, Reference, TensorText, TypeName
from graphc.frontend.ge.printer import print_ge
from graphc.frontend.ge.reader import parse_ge, read_ge

DUMPS = Path(__file__).parents[3] / "examples"
X = "  %x : [#users=1] = Node[type=Data] (attrs = {index: 0})\n"


def body(lines: str) -> str:
    return f'graph("g"):\n{X}{lines}'


def last(lines: str) -> Node:
    return parse_ge(body(lines)).main.nodes[-1]


@pytest.mark.parametrize("name", ["expert_router.txt", "branch_and_loop.txt"])
def test_reading_what_was_written_gives_the_same_dump(name: str) -> None:
    dump = read_ge(DUMPS / name)
    text = print_ge(dump)
    assert parse_ge(text) == dump
    assert print_ge(parse_ge(text)) == text


@pytest.mark.parametrize("name", ["expert_router.txt", "branch_and_loop.txt"])
def test_the_documents_examples_are_written_byte_for_byte(name: str) -> None:
    text = (DUMPS / name).read_text()
    assert print_ge(parse_ge(text)) == text


@pytest.mark.parametrize(
    "name", ["onnx::MatMul_0", "/layer.0/MatMul", "0", "a, b=%c", "a)", "a), attrs", "é", "a=b"]
)
def test_any_name(name: str) -> None:
    text = body(
        f"  %{name} : [#users=1] = Node[type=Relu] (inputs = (x=%x))\n"
        f"  %c : [#users=1] = Node[type=Add] (inputs = (x1=%{name}, x2=%x))\n\n"
        f"  return (output_0=%{name}, output_1=%c)\n"
    )
    dump = parse_ge(text)
    assert dump.main.nodes[-1].inputs == (("x1", Reference(name)), ("x2", Reference("x")))
    assert dump.main.results == (Reference(name), Reference("c"))
    assert print_ge(dump) == text


def test_elements_of_a_node_and_names_that_clash() -> None:
    dump = parse_ge(
        body(
            "  %ret : [#users=2] = Node[type=TopK](inputs = (%x, k=%x))\n"
            "  %ret : [users=1] = get_element[node=%ret](0)\n"
            "  %ret_1 : [#users=1] = get_element[node=%ret](1)\n"
            "  %y : [#users=1] = Node[type=Add] (inputs = (x1=%ret, x2=%ret_1))\n"
            "  return (%y)\n"
        )
    )
    node = dump.main.nodes[-1]
    assert node.inputs == (("x1", Reference("ret", 0)), ("x2", Reference("ret", 1)))
    assert dump.main.nodes[1].outputs == 2
    assert dump.main.nodes[1].inputs[0] == ("", Reference("x"))
    assert parse_ge(print_ge(dump)) == dump


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("2.500000", 2.5),
        ("1" + "0" * 20 + ".000000", 1e20),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("true", True),
        ("DT_FLOAT", TypeName("DT_FLOAT")),
        ('"a, b}"', "a, b}"),
        ('"say "hi", x"', 'say "hi", x'),
        ('""', ""),
        ("{}", ()),
        ("{{1, 2}, {3}}", ((1, 2), (3,))),
        ('{"a, b", "c}"}', None),
        ("[1 2 3]", TensorText((1, 2, 3))),
        ("[true false]", TensorText((True, False))),
        ("[1 2 3 ... 98 99 100]", TensorText((1, 2, 3, 98, 99, 100), "elided")),
        ("<empty>", TensorText(())),
        ("<invalid>", TensorText((), "<invalid>")),
        ("<not_supported>", TensorText((), "<not_supported>")),
    ],
)
def test_values(text: str, value: object) -> None:
    if value is None:  # a string in a list ends at the first quote a comma or brace follows
        value = ("a, b", "c}")
    node = last(
        f"  %y : [#users=1] = Node[type=T] (inputs = (x=%x), attrs = {{a: {text}, b: 1}})\n"
    )
    assert node.attrs == {"a": value, "b": 1}
    assert last(f"  %y : [#users=1] = Node[type=T] (attrs = {{a: {text}}})\n").attrs == {"a": value}
    again = parse_ge(
        print_ge(parse_ge(body(f"  %y : [#users=1] = Node[type=T] (attrs = {{a: {text}}})\n")))
    )
    assert again.main.nodes[-1].attrs == {"a": value}


def test_not_a_number_keeps_its_sign() -> None:
    node = last("  %y : [#users=1] = Node[type=T] (attrs = {a: nan, b: -nan, c: [nan -nan]})\n")
    assert print_ge(parse_ge(body(""))) == body("")
    assert math.isnan(node.attrs["a"])
    assert math.copysign(1, node.attrs["b"]) == -1
    assert math.copysign(1, node.attrs["c"].items[1]) == -1


@pytest.mark.parametrize(
    "text", ["()", "(inputs = ())", "(attrs = {})", "(inputs = (), attrs = {})"]
)
def test_nothing_in_the_brackets(text: str) -> None:
    node = last(f"  %y : [#users=0] = Node[type=NoOp] {text}\n")
    assert (node.inputs, node.attrs, node.outputs) == ((), {}, 0)


def test_graphs_without_blank_lines_returns_or_line_feeds() -> None:
    text = (
        body(
            "  %c : [#users=1] = Node[type=If] (inputs = (cond=%x), attrs = {then_branch: %x, else_branch: %x})\n"
        )
        + 'graph("x"):\n  %k : [#users=1] = Node[type=Const] (attrs = {value: [1]})\n  return (%k)\n'
    )
    dump = parse_ge(text.replace("\n", "\r\n"))
    assert [graph.name for graph in dump.graphs] == ["g", "x"]
    assert dump.main.nodes[1].attrs == {
        "then_branch": GraphName("x"),
        "else_branch": GraphName("x"),
    }
    assert dump.main.results == ()
    assert parse_ge(text) == dump


def test_a_dump_in_markdown() -> None:
    text = f"# Title\n\nSay:\n```\n{body('')}```\nand\n```json\n{{}}\n```\n"
    assert parse_ge(text) == parse_ge(body(""))
    assert parse_ge(text).main.line == 5
    with pytest.raises(UserError) as error:
        parse_ge(text + text, "doc.md")
    assert str(error.value) == (
        "doc.md: exactly one code fence must hold a dump, got fences at line 5, 16"
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("  hello\n", "expected a node, get_element or return, got 'hello'"),
        ("  %x : [#users=1] = Node[type=Relu] ()\n", "names of nodes must differ, got 'x' twice"),
        ("  %y : [#users=1] = Node[type=Relu] (inputs = (x=%z))\n", "'%z' must be defined above"),
        ("  %y : [#users=1] = Node[type=Relu] (inputs = (x=%x)\n",
         "')' must end the inputs, got 'inputs = (x=%x'"),
        ("  %y : [#users=1] = Node[type=Relu] (inputs = (x))\n", "an operand must be written name=%value, got 'x'"),
        ("  %y : [#users=1] = Node[type=Relu] (what)\n", "expected inputs = (...) or attrs = {...}, got 'what'"),
        ("  %y : [#users=1] = get_element[node=%z](0)\n", "node 'z' must be defined above"),
        ("  %y : [#users=1] = get_element[node=%x](99999)\n", "a node must have at most 65536 outputs, got 99999"),
        ("  return (%x)\n  return (%x)\n", "nothing may follow the return of a graph, got 'return (%x)'"),
        ("  %y : [#users=1] = Node[type=T] (attrs = {a})\n",
         "T 'y': an attribute must be written key: value, got 'a'"),
        ("  %y : [#users=1] = Node[type=T] (attrs = {a: 1, a: 2})\n", "T 'y': attribute 'a' must be given once"),
        ("  %y : [#users=1] = Node[type=T] (attrs = {a: 1 b: 2})\n",
         "T 'y': ', ' must follow attribute 'a', got ' b: 2'"),
        ("  %y : [#users=1] = Node[type=T] (attrs = {a: \"b})\n", "T 'y': a string must end with \", got '\"b'"),
        ("  %y : [#users=1] = Node[type=T] (attrs = {a: [1})\n", "T 'y': a tensor must end with ], got '[1'"),
        ("  %y : [#users=1] = Node[type=T] (attrs = {a: [1 z]})\n",
         "T 'y': tensor elements must be numbers of 64 bits, got 'z'"),
        ("  %y : [#users=1] = Node[type=T] (attrs = {a: })\n", "T 'y': a value must follow the key, got nothing"),
        (f"  %y : [#users=1] = Node[type=T] (attrs = {{a: {'9' * 1000000}}})\n",
         f"T 'y': numbers must fit in 64 bits, got '{'9' * 40}'..."),
        (f"  %y : [#users=1] = Node[type=T] (attrs = {{a: {'{' * 100000}}})\n",
         "T 'y': lists must not be nested more than 64 deep, got '" + "{" * 40 + "'..."),
        ("  %y : [#users=1] = Node[type=T] (attrs = {a: {1 2}})\n",
         "T 'y': ', ' or '}' must follow a list item, got ' 2}'"),
        ("  %y : [#users=1] = Node[type=If] (attrs = {a: %g2})\n",
         "If 'y': a names graph 'g2', which must be defined; give the whole dump"),
    ],
)  # fmt: skip
def test_messages(lines: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_ge(body(lines), "f.txt")
    line = 4 if lines.count("return") == 2 else 3
    assert str(error.value) == f"f.txt line {line}: {message}"


def test_messages_about_the_file(tmp_path: Path) -> None:
    for text, message in (
        ("", 'f.txt line 1: a readable dump must begin with graph("name"):, got nothing'),
        ("\nhello", "f.txt line 2: a readable dump must begin with graph(\"name\"):, got 'hello'"),
        (body("") + body(""), "f.txt line 3: names of graphs must differ, got 'g' twice"),
    ):
        with pytest.raises(UserError) as error:
            parse_ge(text, "f.txt")
        assert str(error.value) == message
    (tmp_path / "x.txt").write_bytes(b'graph("g"):\n\xff')
    with pytest.raises(UserError, match=r"x\.txt line 2: a readable dump must be UTF-8 text$"):
        read_ge(tmp_path / "x.txt")
    with pytest.raises(
        UserError, match=r"^there is no file '.*none\.txt'; check its name and its folder$"
    ):
        read_ge(tmp_path / "none.txt")


def outcome(data: bytes) -> None:
    """A dump or an error on purpose."""
    with contextlib.suppress(GraphcError):
        read_ge(data)


SAMPLE = (DUMPS / "branch_and_loop.txt").read_bytes()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_flipped_bytes(flips: list[tuple[int, int]]) -> None:
    data = bytearray(SAMPLE)
    for offset, value in flips:
        data[offset] = value
    outcome(bytes(data))


def test_truncations() -> None:
    for end in range(0, len(SAMPLE), 7):
        outcome(SAMPLE[:end])


def test_adversarial_lines_do_not_hang() -> None:
    for lines in (
        "  %" + "a : [#users=1] = Node[type=T] (" * 20000 + "\n",
        "  %y : [#users=1] = Node[type=T] (inputs = (" + "x=%x, " * 20000 + "x=%x))\n",
        "  %y : [#users=1] = Node[type=T] (attrs = {a: " + '"a, ' * 20000 + "})\n",
        "  %y : [#users=1] = Node[type=T] (" + "(" * 100000 + ")\n",
        "  %y : [#users=1] = Node[type=T] (" + ")" * 100000 + "\n",
        "  return (" + "%x, " * 20000 + "\n",
    ):
        outcome(body(lines).encode())


def test_a_node_may_lack_its_parentheses():
    text = 'graph("g"):\n  %c : [#users=1] = Node[type=Const]\n\n  return (%c)\n'
    assert print_ge(parse_ge(text)) == text.replace("Const]", "Const] ()")
