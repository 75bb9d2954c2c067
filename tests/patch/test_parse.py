"""The patch language, as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.errors import PatchError
from spindle.patch.parse import AddFile, Chunk, DeleteFile, UpdateFile, parse_patch

UPDATE = "*** Begin Patch\n*** Update File: f\n{}*** End Patch\n"


def reason(text: str) -> str:
    with pytest.raises(PatchError) as caught:
        parse_patch(text)
    return str(caught.value)


def test_every_kind_of_hunk_is_read_in_order():
    text = (
        "*** Begin Patch\n"
        "*** Add File: d/new.txt\n+hello\n+\n+ world\n"
        "*** Delete File: gone.txt\n"
        "*** Update File: old.txt\n*** Move to: moved.txt\n"
        "@@ def f():\n kept\n-gone\n+come\n"
        "@@\n-last\n*** End of File\n"
        "*** End Patch\n"
    )
    assert parse_patch(text) == [
        AddFile("d/new.txt", "hello\n\n world\n"),
        DeleteFile("gone.txt"),
        UpdateFile(
            "old.txt",
            (
                Chunk(((" ", "kept"), ("-", "gone"), ("+", "come")), ("def f():",)),
                Chunk((("-", "last"),), (), True),
            ),
            "moved.txt",
        ),
    ]


def test_white_space_around_the_patch_its_markers_and_its_headers_is_ignored():
    text = "\n  *** Begin Patch  \n  *** Delete File:  a b.txt \n\n *** Add File: n\t\n+x\n  *** End Patch \n\n"
    assert parse_patch(text) == [DeleteFile("a b.txt"), AddFile("n", "x\n")]


@pytest.mark.parametrize("opening", ["<<EOF", "<<'EOF'", '<<"EOF"', "<< 'EOF'"])
def test_a_here_document_around_the_patch_is_unwrapped(opening: str):
    text = f"{opening}\n*** Begin Patch\n*** Delete File: f\n*** End Patch\nEOF\n"
    assert parse_patch(text) == [DeleteFile("f")]


def test_a_here_document_that_is_not_closed_is_not_unwrapped():
    assert reason("<<EOF\n*** Begin Patch\n*** Delete File: f\n*** End Patch\n") == (
        "invalid patch: The first line of the patch must be '*** Begin Patch'"
    )


def test_the_first_chunk_may_lack_its_marker():
    assert parse_patch(UPDATE.format("-a\n+b\n")) == [UpdateFile("f", (Chunk((("-", "a"), ("+", "b"))),))]


def test_an_empty_line_inside_a_chunk_is_an_empty_kept_line():
    assert parse_patch(UPDATE.format("@@\n a\n\n-b\n")) == [
        UpdateFile("f", (Chunk(((" ", "a"), (" ", ""), ("-", "b"))),))
    ]


def test_several_anchors_in_a_row_belong_to_one_chunk_and_keep_their_indentation():
    assert parse_patch(UPDATE.format("@@ class A:\n@@     def f(self):\n-x\n")) == [
        UpdateFile("f", (Chunk((("-", "x"),), ("class A:", "    def f(self):")),))
    ]


def test_a_marker_with_blanks_behind_it_has_no_text():
    assert parse_patch(UPDATE.format("@@  \n-x\n")) == [UpdateFile("f", (Chunk((("-", "x"),)),))]


def test_carriage_returns_of_the_patch_itself_are_not_content():
    text = "*** Begin Patch\r\n*** Add File: f\r\n+a\r\n*** End Patch\r\n"
    assert parse_patch(text) == [AddFile("f", "a\n")]


def test_unusual_line_separators_are_content():
    assert parse_patch("*** Begin Patch\n*** Add File: f\n+a\u2028b\x0cc\x85d\n*** End Patch") == [
        AddFile("f", "a\u2028b\x0cc\x85d\n")
    ]


def test_an_added_file_may_be_empty_and_a_rename_needs_no_chunk():
    text = "*** Begin Patch\n*** Add File: e\n*** Update File: a\n*** Move to: b\n*** End Patch"
    assert parse_patch(text) == [AddFile("e", ""), UpdateFile("a", (), "b")]


def test_a_patch_without_hunks_is_an_empty_list():
    assert parse_patch("*** Begin Patch\n*** End Patch") == []


@pytest.mark.parametrize("text", ["", "x", "nonsense\n*** End Patch"])
def test_a_missing_first_line_is_named(text: str):
    assert reason(text) == "invalid patch: The first line of the patch must be '*** Begin Patch'"


@pytest.mark.parametrize("text", ["*** Begin Patch", "*** Begin Patch\n*** Delete File: f"])
def test_a_missing_last_line_is_named(text: str):
    assert reason(text) == "invalid patch: The last line of the patch must be '*** End Patch'"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("foo\n", "invalid hunk at line 2, 'foo' is not a valid hunk header"),
        ("*** Frob File: f\n", "invalid hunk at line 2, '*** Frob File: f' is not a valid hunk header"),
        ("*** Add File: \n+x\n", "invalid hunk at line 2, '*** Add File:' is not a valid hunk header"),
        ("*** Add File: n\n+x\ny\n", "invalid hunk at line 4, 'y' is not a valid hunk header"),
        ("*** Delete File: a\0b\n", "invalid hunk at line 2, a path must not contain a NUL character"),
        ("*** Delete File: d\n*** Update File: f\n", "invalid hunk at line 3, the update of 'f' is empty"),
        ("*** Update File: f\n@@\n", "invalid hunk at line 4, a chunk must contain at least one line"),
        ("*** Update File: f\n@@\n*** End of File\n", "invalid hunk at line 4, a chunk must contain at least one line"),
        ("*** Update File: f\n@@\nxx\n", "invalid hunk at line 4, 'xx' must start with ' ' (kept line)"),
        ("*** Update File: f\nxx\n", "invalid hunk at line 3, 'xx' must start with ' ' (kept line)"),
        ("*** Update File: f\n@@\n a\nxx\n", "invalid hunk at line 5, expected a line starting with '@@', got 'xx'"),
    ],
)
def test_a_bad_hunk_is_named_with_its_line(body: str, expected: str):
    assert reason(f"*** Begin Patch\n{body}*** End Patch").startswith(expected)


HEADERS = "*** Begin Patch|*** End Patch|*** Add File: a|*** Delete File: b|*** Update File: c|*** Move to: d"
LINES = "*** End of File|***|@@|@@ x|@@x|+|-| ||<<EOF|EOF|\r|+a|-b| c"
PIECES = st.sampled_from(f"{HEADERS}|{LINES}".split("|"))


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES | st.text(max_size=4)).map("\n".join)))
def test_any_text_is_read_or_refused_but_never_crashes(text: str):
    for candidate in (text, f"*** Begin Patch\n{text}\n*** End Patch"):
        try:
            parse_patch(candidate)
        except PatchError as error:
            assert str(error).startswith(("invalid patch: ", "invalid hunk at line "))
