"""The sentence inside what a server sends when it refuses; whatever it sends, what comes out is short and harmless."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spindle.model.server_words import SHOWN_CHARS, model_names, read_words
from spindle.protocol.quote import readable

SENTENCES: list[tuple[Any, str]] = [
    ({"error": {"message": "m", "type": "t"}}, "m"),
    ({"error": "m"}, "m"),
    ({"error": {"error": {"message": "m"}}}, "m"),
    ({"message": "m"}, "m"),
    ({"detail": "m"}, "m"),
    ({"detail": {"error": "m"}}, "m"),
    ({"detail": [{"loc": ["body", "a", 0], "msg": "m"}, {"loc": ["query", "b"], "msg": "n"}]}, "a.0: m; query.b: n"),
    ({"errors": [{"message": "m"}, {"message": "n"}]}, "m; n"),
    ({"error": "invalid_grant", "error_description": "m"}, "m"),
    ({"title": "T", "detail": "m", "status": 403}, "m"),
    ({"error": "Not Found", "message": "m", "status": 404}, "m"),
    ([{"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}], "m"),
    ({"error": {"message": json.dumps({"error": {"message": "m"}})}}, "m"),
    ({"error": {"message": "Wrapped", "metadata": {"raw": json.dumps({"message": "m"})}}}, "Wrapped (m)"),
    ("m", "m"),
    ({"error": {"code": 17}}, '{"error": {"code": 17}}'),
    ({}, ""),
]


@pytest.mark.parametrize(("body", "text"), SENTENCES, ids=lambda value: str(value)[:40])
def test_the_sentence_is_found_wherever_it_stands(body: Any, text: str) -> None:
    assert read_words(json.dumps(body).encode(), {}).text == text


def test_every_name_of_a_failure_is_noted_in_lower_case() -> None:
    body = {"error": {"message": "m", "code": "Insufficient_Quota", "type": "billing"}, "status": "DENIED", "n": 1}
    words = read_words(json.dumps(body).encode(), {})
    assert words.codes == {"insufficient_quota", "billing", "denied"} and words.fields["n"] == 1


@pytest.mark.parametrize(
    ("page", "headers", "text", "is_cloudflare"),
    [
        (b"<!DOCTYPE html><html><TITLE lang=en> A &lt;b&gt;\n page</TITLE>", {}, "A <b> page", False),
        (b"\xef\xbb\xbf\n<html><h1><i>Oops</i></h1>", {"server": "cloudflare"}, "Oops", True),
        (
            b"<?xml version='1.0'?><Error><Code>X</Code><Message>Access Denied</Message></Error>",
            {},
            "Access Denied",
            False,
        ),
        (b"<html><script src=https://cdnjs.cloudflare.com/x.js></script><title>Portal</title>", {}, "Portal", False),
        (b"<title" * 10_000, {}, "", False),
    ],
)
def test_a_page_is_reduced_to_its_title(page: bytes, headers: dict[str, str], text: str, is_cloudflare: bool) -> None:
    words = read_words(page, headers)
    assert (words.text, words.is_page, words.is_cloudflare) == (text, True, is_cloudflare)


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "message", "detail", "errors", "msg", "loc", "metadata", "raw", "code", "type"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(nested.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=300))
@example(b"[" * 60_000)
@example(b'{"error":' * 5_000)
@example(json.dumps({"message": "\x1b]0;t\x07\x1b[31m\u202e\x00" * 5_000}).encode())
@example(b"\xff\xfe\x00" * 20_000)
def test_whatever_comes_is_one_short_harmless_line(body: bytes) -> None:
    text = read_words(body, {}).text
    assert text == readable(text) and "\x1b" not in text and text.split("\n") == [text] and len(text) <= SHOWN_CHARS + 1


def test_models_are_listed_in_the_usual_shapes_and_nothing_else_is() -> None:
    assert model_names({"data": [{"id": "a"}, {"id": ""}, {"id": 3}, {}, "b"]}) == ("a", "b")
    assert model_names({"models": [{"slug": "c"}, {"name": "d:1b"}, {"id": "x" * 200}]}) == ("c", "d:1b")
    assert [model_names(value) for value in (None, [], {"data": 1}, "x")] == [()] * 4
