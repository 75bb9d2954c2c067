"""The YAML that skill files use: what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.workspace.yaml_subset import YamlError, parse_yaml


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
        ("a: |+\n  one\n\n", {"a": "one\n\n\n"}),
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
        ("plain text", "plain text"),
    ],
)
def test_the_subset_is_read(text: str, value: Any):
    assert parse_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: b: c", "must be quoted"),
        ("a: 'x", "is not closed"),
        ('a: "\\q"', "unknown escape"),
        ('a: "\\ud800"', "unknown escape"),
        ("a: 'x' y", "after a closing quote"),
        ("a: 1\na: 2", "duplicate key 'a'"),
        ("a: &x b", "cannot start a value"),
        ("a: *x", "cannot start a value"),
        ("a: !!python/object:os.system x", "cannot start a value"),
        ("a: b\n   c: d", "must be quoted"),
        ("a:\n\tb: c", "tabs cannot indent"),
        ("a: [b", "not closed"),
        ("a: {b}", "between braces"),
        ("a: |x\n  y", "block text header"),
        ("a\nb: c", "line 2: a value that contains"),
        ("- a\nb: c", "line 2: unexpected"),
        ("a: b\nc", "line 2: expected `key: value`"),
        ("a: " + "[" * 100, "nested too deeply"),
        ("\n".join("  " * depth + "k:" for depth in range(100)), "nested too deeply"),
    ],
)
def test_anything_else_is_refused_with_a_reason(text: str, reason: str):
    with pytest.raises(YamlError, match=reason):
        parse_yaml(text)


@settings(max_examples=200)
@given(st.text(alphabet="ab:-#'\"|>[]{},\\ \n\t&*!?0", max_size=60))
def test_no_text_makes_the_reader_hang_or_fail_otherwise(text: str):
    try:
        parse_yaml(text)
    except YamlError:
        pass
