"""Chat templates: the texts that models were trained on, and templates that do harm or do not end."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from graphc.base.errors import UnsupportedError, UserError
from graphc.language_models import sandbox
from graphc.language_models.chat import MAX_TEMPLATE, chat_text

TEMPLATE = """{{ bos_token }}{% for message in messages %}
{% if message.role not in ('user', 'assistant') %}{{ raise_exception('only users and assistants') }}{% endif %}
<{{ message.role }}>{{ message.content | trim }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}


def test_messages_and_the_beginning_of_a_reply() -> None:
    messages = [{"role": "user", "content": " Hi "}, {"role": "assistant", "content": "Hello"}]
    assert chat_text(TEMPLATE, messages, NAMES) == "<s><user>Hi\n<assistant>Hello\n<assistant>"


def test_templates_have_json_and_the_date() -> None:
    text = chat_text(
        "{{ messages[0].content | tojson }} {{ strftime_now('%Y') }}",
        [{"role": "user", "content": "é"}],
        {},
    )
    assert text.startswith('"é" 2')


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "one at least"),
        (["hi"], "'role' and 'content'"),
        ([{"role": "user"}], "'role' and 'content'"),
        ([{"role": "robot", "content": "hi"}], "only users and assistants"),
    ],
)
def test_wrong_messages(messages: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        chat_text(TEMPLATE, messages, NAMES)


@pytest.mark.parametrize(
    "template",
    [
        "{% if %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{% for i in range(10 ** 9) %}x{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}xxxxxxxxxx{% endfor %}{% endfor %}",
        "{{ undefined.attribute }}",
        "{% include 'other' %}",
        "{{ 'abc' | truncate(-5) }}",
        "{{ 1e400 | int }}",
    ],
)
def test_templates_that_are_none(template: str) -> None:
    with pytest.raises(UserError, match="template"):
        chat_text(template, [{"role": "user", "content": "hi"}], {})


def test_a_giant_template() -> None:
    with pytest.raises(UnsupportedError, match="characters"):
        chat_text("x" * (MAX_TEMPLATE + 1), [{"role": "user", "content": "hi"}], {})


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10 ** 10 }}",
        "{{ ([1] * 10 ** 10) | length }}",
        "{{ 7 ** (10 ** 9) }}",
        "{% set ns = namespace(x=7) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '{:1000000000d}'.format(1) }}",
        "{{ 'x' | center(3000000000) }}",
        "{{ 'x'.ljust(3000000000) }}",
        "{{ ('x' * 99999).replace('x', 'y' * 99999) }}",
        "{{ ('x' * 99999) | replace('x', 'y' * 99999) }}",
        "{{ range(99999) | join('y' * 99999) }}",
        "{{ ('y' * 99999).join(['x'] * 99999) }}",
        "{{ ''.join(['x' * 99999] * 999) }}",
        "{{ (['x' * 99999] * 999) | join }}",
        "{{ '{:{w}}'.format(1, w='999999999') }}",
        "{{ ('{:999999}' * 999).format(1) }}",
        "{{ ('{0}' * 9999).format('x' * 99999) }}",
        "{{ ('%(a)s' * 9999) % {'a': 'x' * 99999} }}",
        "{{ ('x' * 99999).translate({120: 'y' * 99999}) }}",
        "{{ ('\t' * 99999).expandtabs(9999) }}",
        "{{ ('x\n' * 99999) | indent(99999) }}",
        "{{ ('x\n' * 99999) | indent('y' * 99999) }}",
        "{{ ([[1] * 999] * 9999) | sum(start=[]) }}",
        "{% set x = 'x' * 9999999 %}{{ [x, x, x, x] }}",
        "{% set x = 'x' * 9999999 %}{{ [x, x, x, x] | string }}",
        "{% set x = 'x' * 9999999 %}{{ {'a': x, 'b': x} | tojson }}",
        "{% set x = 'x' * 9999999 %}{{ ([x, x] ~ x) | length }}",
        "{% set x = 'x' * 9999999 %}{{ (x + x + x) | length }}",
        "{% set x = ['x' * 9999999] %}{{ x + x }}",
        "{% set x = 'x' * 9999999 %}{{ raise_exception([x, x]) }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    ],
)
def test_huge_results_are_refused_before_they_are_computed(template: str) -> None:
    with pytest.raises(UserError, match="must end within 5 s and 256 MiB"):
        chat_text(template, [{"role": "user", "content": "hi"}], {})


def test_ordinary_operations_are_computed() -> None:
    template = (
        "{{ 'a' ~ 1 ~ [2] ~ none }} {{ 'x' + 'y' }} {{ [1] + [2] }} {{ '%s-%5.1f' % ('a', 2.5) }} "
        "{{ '{:>4}{}'.format(1, 2) }} "
        "{{ ', '.join(['a', 'b']) }} {{ messages | map(attribute='role') | join(',') }} {{ [1, 2] | sum }} "
        "{{ 'a\nb' | indent(2) }} {{ {'a': 1} | tojson(indent=1) }} {{ 'aXb'.replace('X', '-').split('-') }}"
    )
    text = chat_text(template, [{"role": "user", "content": "hi"}], {})
    assert text == (
        "a1[2]None xy [1, 2] a-  2.5    12 a, b user 3 a\n  b {\n \"a\": 1\n} ['a', 'b']"
    )


def test_long_chats_take_no_square_of_their_length() -> None:
    template = (
        "{% set ns = namespace(all=[]) %}{% for m in messages %}{% set ns.all = ns.all + [m] %}"
        "{% if messages | length > 1 %}{{ m.content }}{% endif %}{% endfor %}{{ ns.all | length }}"
    )
    messages = [{"role": "user", "content": "hi"}] * 1000
    assert chat_text(template, messages, {}) == "hi" * 1000 + "1000"


def test_waiting_for_a_cpu_is_no_time_of_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine, templates of models wait longer than they compute."""

    class Waiting:
        def __str__(self) -> str:
            time.sleep(0.5)
            return "hi"

    monkeypatch.setattr(sandbox, "MAX_SECONDS", 0.4)
    messages = [{"role": "user", "content": Waiting()}]
    assert (
        chat_text(
            "{{ messages[0].content }}{% for i in range(9) %}{{ i }}{% endfor %}", messages, {}
        )
        == "hi012345678"
    )


def test_silent_loops_and_growing_texts_end(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    grows = "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"
    old = sys.gettrace()
    for template, name, limit in ((loops, "MAX_SECONDS", 0.2), (grows, "MAX_BYTES", 1 << 26)):
        with monkeypatch.context() as patch, pytest.raises(UserError, match="must end within"):
            patch.setattr(sandbox, name, limit)
            chat_text(template, [{"role": "user", "content": "hi"}], {})
    assert sys.gettrace() is old
