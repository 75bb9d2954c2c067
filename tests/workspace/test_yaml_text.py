"""YAML in skill files: every scalar is the text that stands there, and what is refused says why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.workspace.yaml_text import YamlError, parse_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# only a comment\n\n", None),
        ("a: b", {"a": "b"}),
        ("a: b # comment", {"a": "b"}),
        ("a: b#c", {"a": "b#c"}),
        ("a:\nb: ~", {"a": None, "b": None}),
        ("a: http://x/y", {"a": "http://x/y"}),
        ("a: it's", {"a": "it's"}),
        ("a: 'it''s: # fine'", {"a": "it's: # fine"}),
        ('a: "x: \\"y\\" \\u00e9\\n" # c', {"a": 'x: "y" é\n'}),
        ('"a b": 1', {"a b": "1"}),
        ("a: one\n  two\n  three", {"a": "one two three"}),
        ('a: "one\n  two"', {"a": "one two"}),
        ("a: >\n  one\n  two\n\n  three\nb: x", {"a": "one two\nthree\n", "b": "x"}),
        ("a: >-\n  one\n  two\n", {"a": "one two"}),
        ("a: |\n  one: 1\n   two\n\nb: x", {"a": "one: 1\n two\n", "b": "x"}),
        ("a: |+\n  one\n\n", {"a": "one\n\n"}),
        (
            "m:\n  short-description: s\n  deep:\n    k: v\nn: x",
            {"m": {"short-description": "s", "deep": {"k": "v"}}, "n": "x"},
        ),
        ("l:\n- a\n- b\nm: x", {"l": ["a", "b"], "m": "x"}),
        ("l:\n  - type: mcp\n    value: x\n  - type: env", {"l": [{"type": "mcp", "value": "x"}, {"type": "env"}]}),
        ("l: [a, 'b, c', [d]]", {"l": ["a", "b, c", ["d"]]}),
        ("m: {a: 1, b: 'x'}", {"m": {"a": "1", "b": "x"}}),
        ("a: b\r\nc: d\r\n", {"a": "b", "c": "d"}),
        ("- a\n-\n  b: c", ["a", {"b": "c"}]),
        (
            "a: 1.10\nb: 007\nc: true\nd: 2024-01-01\ne: 'null'",
            {"a": "1.10", "b": "007", "c": "true", "d": "2024-01-01", "e": "null"},
        ),
        ("l: [a,\n  b]\nm: {x: 1,\n  y: 2}", {"l": ["a", "b"], "m": {"x": "1", "y": "2"}}),
        ("? a\n: b", {"a": "b"}),
        ("a: {b}", {"a": {"b": None}}),
        ("a: b\n...\n", {"a": "b"}),
        ("plain text", "plain text"),
    ],
)
def test_scalars_are_the_text_that_stands_there(text: str, value: Any):
    assert parse_yaml(text) == value


BOMB = "a0: &a0 [x, x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: b: c", "line 1: a value that contains `: ` must be quoted"),
        ("a: 'x", "unexpected end of stream"),
        ('a: "\\q"', "line 1: .*escape"),
        ('a: "\\ud800"', "line 1: .*escape"),
        ("a: 'x' y", "line 1: .* must be quoted as a whole"),
        ("a: [see] this", "line 1: .* must be quoted as a whole"),
        ("a: *bold* text", "line 1: .* must be quoted"),
        ("a: 1\na: 2", "line 2: duplicate key 'a'"),
        ("a: {b: 1, b: 2}", "line 1: duplicate key 'b'"),
        ("a: &x b", "line 1: anchors"),
        ("b: 1\na: *x", "line 2: anchors"),
        (BOMB, "line 1: anchors"),
        ("a: !!python/object:os.system x", "line 1: tags"),
        ("a: !!binary aGk=", "line 1: tags"),
        ("a: b\n   c: d", "line 2: a value that contains"),
        ("a:\n\tb: c", "line 2: tabs cannot indent"),
        ("a: `b`", "line 1: .*quote the value"),
        ("a: [b", "line 2: "),
        ("a: |x\n  y", "line 1: "),
        ("a\nb: c", "line 2: a value that contains"),
        ("- a\nb: c", "line 2: "),
        ("a: b\nc", "line 3: "),
        ("a: 1\n---\nb: 2", "line 2: there is more than one document"),
        ("[x]: y", "line 1: a key must be text"),
        ("~: y", "line 1: a key must be text"),
        ("a: \x00", "control characters"),
        ("a: \x1b[2J", "control characters"),
        ("a: \ud800", "that are not text"),
        ("a: " + "[" * 60_000, "nested too deeply"),
        ("{a: " * 15_000, "nested too deeply"),
        ("- " * 30_000, "nested too deeply"),
        ("\n".join("  " * depth + "k:" for depth in range(100)), "nested too deeply"),
    ],
)
def test_anything_else_is_refused_with_a_reason(text: str, reason: str):
    with pytest.raises(YamlError, match=reason) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)


def test_messages_count_lines_from_where_the_text_begins():
    with pytest.raises(YamlError, match="line 12: duplicate"):
        parse_yaml("a: 1\nb: 2\na: 3", first_line=10)


@settings(max_examples=200)
@given(st.text(alphabet="ab:-#'\"|>[]{},\\ \n\t&*!?0", max_size=60))
def test_no_text_makes_the_reader_hang_or_fail_otherwise(text: str):
    try:
        parse_yaml(text)
    except YamlError:
        pass
