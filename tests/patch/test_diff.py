"""Differences as people read them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from repository import needs_git
from spindle.patch.diff import TurnDiffTracker, unified_diff


def test_a_change_has_one_line_of_context_and_no_file_names():
    assert unified_diff("0\n1\na\n2\n3\n", "0\n1\nb\nc\n2\n3\n") == "@@ -2,3 +2,4 @@\n 1\n-a\n+b\n+c\n 2\n"


def test_changes_far_apart_get_their_own_hunks():
    assert unified_diff("a\n1\n2\n3\nb\n", "A\n1\n2\n3\nB\n") == (
        "@@ -1,2 +1,2 @@\n-a\n+A\n 1\n@@ -4,2 +4,2 @@\n 3\n-b\n+B\n"
    )


def test_a_file_made_or_emptied_has_an_empty_side():
    assert unified_diff("", "x\n") == "@@ -0,0 +1 @@\n+x\n"
    assert unified_diff("x\n", "") == "@@ -1 +0,0 @@\n-x\n"


def test_a_missing_final_newline_is_marked():
    assert unified_diff("x", "x\n") == "@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n"


def test_equal_texts_have_no_difference():
    assert unified_diff("a\nb\n", "a\nb\n") == ""


def test_a_huge_rewrite_is_shown_as_one_block_and_not_searched():
    lines = [f"{number % 150}\n" for number in range(20_000)]
    diff = unified_diff("".join(lines), "".join(reversed(lines)))
    assert diff.startswith("@@ -1,20000 +1,20000 @@\n-0\n-1\n")


def test_the_turn_diff_is_in_the_style_of_git():
    tracker = TurnDiffTracker()
    tracker.record("/repo/src/u.py", b"a\n", b"b\n")
    tracker.record("/repo/new.txt", None, b"hi\n", mode=0o755)
    tracker.record("/repo/gone.txt", b"bye\n", None)
    tracker.record("/elsewhere/x", b"\xff", b"\xfe")
    assert tracker.render("/repo") == (
        "diff --git a/elsewhere/x b/elsewhere/x\n"
        "index ce542efaa5124a0437f0c4db329d7ec4b7ba70a7..050ac90ecbd9ce5a88212058fad711b4231d104d 100644\n"
        "Binary files a/elsewhere/x and b/elsewhere/x differ\n"
        "diff --git a/gone.txt b/gone.txt\n"
        "deleted file mode 100644\n"
        "index b023018cabc396e7692c70bbf5784a93d3f738ab..0000000000000000000000000000000000000000\n"
        "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"
        "diff --git a/new.txt b/new.txt\n"
        "new file mode 100755\n"
        "index 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n"
        "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hi\n"
        "diff --git a/src/u.py b/src/u.py\n"
        "index 78981922613b2afb6025042ff6bd878ac1994e85..61780798228d17af2d34fce4cfbdf35556832472 100644\n"
        "--- a/src/u.py\n+++ b/src/u.py\n@@ -1 +1 @@\n-a\n+b\n"
    )


def test_a_file_with_nul_bytes_is_binary():
    tracker = TurnDiffTracker()
    tracker.record("/r/f", None, b"a\0b\n")
    assert tracker.render("/r").endswith("\nBinary files /dev/null and b/f differ\n")


def test_the_turn_diff_spans_from_the_first_state_to_the_last():
    tracker = TurnDiffTracker()
    tracker.record("/r/f", b"1\n", b"2\n")
    assert "+2\n" in tracker.render("/r")
    tracker.record("/r/f", b"2\n", b"3\n")
    assert "-1\n+3\n" in tracker.render("/r")
    tracker.record("/r/f", b"3\n", b"1\n")
    assert tracker.render("/r") == ""


TEXT = st.lists(st.sampled_from(["a", "b", "c", "", "d\r"]), max_size=12).map("\n".join)


@needs_git
@settings(max_examples=30, deadline=None)
@given(old=TEXT, new=TEXT)
def test_git_can_apply_a_turn_diff(tmp_path_factory, old: str, new: str):
    folder: Path = tmp_path_factory.mktemp("r")
    tracker = TurnDiffTracker()
    tracker.record(f"{folder}/we ird.txt", old.encode(), new.encode())
    (folder / "we ird.txt").write_bytes(old.encode())
    diff = tracker.render(str(folder))
    if diff:
        subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=folder, input=diff.encode(), check=True)
    assert (folder / "we ird.txt").read_bytes() == new.encode()
