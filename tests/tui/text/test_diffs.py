"""Changes of files, as a person reads them."""

from __future__ import annotations

from typing import Any

import pytest

from spindle.frontends.tui.shown import Line, Span, plain, texts
from spindle.frontends.tui.text.diffs import (
    Counts,
    counts,
    file_change,
    file_changes,
    heading,
    totals,
    unified,
    unified_counts,
)
from spindle.patch.diff import unified_diff

OLD = "".join(f"line {number}\n" for number in range(1, 15))
EDIT = {
    "type": "update",
    "unified_diff": unified_diff(OLD, OLD.replace("line 3\n", "three\n3b\n").replace("line 12\n", "")),
}


def test_a_changed_file_is_shown_with_the_numbers_of_its_lines() -> None:
    assert plain(heading("src/a.py", EDIT)) == "Edited src/a.py (+2 -2)"
    assert texts(file_change("src/a.py", EDIT)) == [
        " 2   line 2",
        " 3 - line 3",
        " 3 + three",
        " 4 + 3b",
        " 5   line 4",
        "   ⋮",
        "12   line 11",
        "12 - line 12",
        "13   line 13",
    ]
    removed = file_change("src/a.py", EDIT)[1]
    assert removed == Line((Span(" 3", "line-number"), Span(" - ", "removed"), Span("line 3", "removed")), (), True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"type": "add", "content": "a\nb\n"}, "Added /w/x.py (+2 -0)"),
        ({"type": "add", "content": ""}, "Added /w/x.py (+0 -0)"),
        ({"type": "delete", "content": "a"}, "Deleted /w/x.py (+0 -1)"),
        ({**EDIT, "move_path": "/w/y.py"}, "Renamed /w/x.py → /w/y.py (+2 -2)"),
        ({**EDIT, "move_path": None}, "Edited /w/x.py (+2 -2)"),
        ({"type": "update", "unified_diff": None}, "Edited /w/x.py (+0 -0)"),
        ({"type": "else"}, "Changed /w/x.py (+0 -0)"),
    ],
)
def test_the_heading_says_what_was_done(change: dict[str, Any], words: str) -> None:
    assert plain(heading("/w/x.py", change)) == words
    short = heading("/w/x.py", change, lambda path: path.removeprefix("/w/"))
    assert plain(short) == words.replace("/w/", "")


def test_several_files_begin_with_the_totals() -> None:
    changes = {"a": {"type": "add", "content": "1\n2\n"}, "b": {"type": "add", "content": "3"}}
    assert texts(file_changes(changes)) == [
        "Added 2 files (+3 -0)",
        *("Added a (+2 -0)", "1 + 1", "2 + 2", "Added b (+1 -0)", "1 + 3"),
    ]
    assert plain(totals({"a": changes["a"], "c": EDIT, "broken": 3})) == "Changed 2 files (+4 -2)"
    assert texts(file_changes({"a": changes["a"]})) == ["Added a (+2 -0)", "1 + 1", "2 + 2"]
    assert counts(EDIT) == Counts(2, 2)


def test_a_new_file_has_the_colours_of_its_language() -> None:
    (line,) = file_change("a.py", {"type": "add", "content": "return 1"})
    assert line.spans == (
        Span("1", "line-number"),
        Span(" + ", "added"),
        Span("return ", "keyword"),
        Span("1", "number"),
    )


def test_text_and_names_of_a_patch_cannot_drive_the_terminal() -> None:
    change = {"type": "add", "content": "a\x1b[2J\u202eb\tc\nd\r"}
    assert texts(file_changes({"x\n\x1b]0;t\x07": change})) == [
        "Added x⟨U+000A⟩⟨U+001B⟩]0;t⟨U+0007⟩ (+2 -0)",
        "1 + a⟨U+001B⟩[2J⟨U+202E⟩b   c",
        "2 + d⟨U+000D⟩",
    ]


def test_what_is_outside_of_the_hunks_is_no_change() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- a\n+++ b\n+not counted by the hunk\n"
    change = {"type": "update", "unified_diff": diff}
    assert texts(file_change("x", change)) == ["1 - -- a", "1 + ++ b"] and counts(change) == Counts(1, 1)


def test_line_ends_of_windows_are_shown_only_where_they_are_mixed() -> None:
    assert texts(file_change("a", {"type": "add", "content": "a\r\nb\r\n"})) == ["1 + a", "2 + b"]
    mixed = unified_diff("a\r\n", "a\n")
    assert texts(file_change("a", {"type": "update", "unified_diff": mixed})) == ["1 - a⟨U+000D⟩", "1 + a"]


GIT = """\
diff --git a/x b/x
index 1..2 100644
--- a/x
+++ b/x
@@ -1,3 +1,3 @@ def f
--- a
+++ b
 c

\\ No newline at end of file
diff --git a/p.png b/p.png
Binary files a/p.png and b/p.png differ
"""


def test_a_diff_of_git_is_coloured_by_what_its_lines_are() -> None:
    shown = unified(GIT)
    assert texts(shown) == GIT.splitlines()
    assert [line.spans[0].style if line.spans else "" for line in shown] == [
        *("bold", "dim", "bold", "bold", "hunk"),
        *("removed", "added", "", "", "dim"),
        *("bold", "dim"),
    ]
    assert unified_counts(GIT) == Counts(1, 1)
    assert unified("") == []
    assert texts(unified("+a\x1b[31m\n@@ -1 +1 @@\x1b\n-\tx")) == ["+a⟨U+001B⟩[31m", "@@ -1 +1 @@⟨U+001B⟩", "-       x"]
