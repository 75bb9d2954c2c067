"""Patches against files: matching, line endings, net changes. All in memory."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.errors import PatchError
from spindle.patch.apply import FileChange, Plan, plan_changes, summarise
from spindle.patch.parse import parse_patch


def plan(body: str, files: dict[str, bytes]) -> Plan:
    """Plan a patch over files that stand in `/w`."""

    def read(path: str) -> bytes:
        name = path.removeprefix("/w/")
        if name == "folder":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if name not in files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return files[name]

    return plan_changes(parse_patch(f"*** Begin Patch\n{body}*** End Patch"), lambda path, _: f"/w/{path}", read)


def update(old: str | bytes, chunks: str) -> str:
    """The file `f` after the chunks."""
    content = old.encode() if isinstance(old, str) else old
    (change,) = plan(f"*** Update File: f\n{chunks}", {"f": content}).changes
    assert change.new is not None
    return change.new.decode()


def reason(body: str, files: dict[str, bytes]) -> str:
    with pytest.raises(PatchError) as caught:
        plan(body, files)
    return str(caught.value)


# ---- matching --------------------------------------------------------------------------------------


def test_lines_are_replaced_where_they_stand():
    assert update("one\ntwo\nthree\n", "@@\n one\n-two\n+TWO\n+2\n three\n") == "one\nTWO\n2\nthree\n"


def test_the_first_exact_hit_wins_and_the_search_goes_on_behind_it():
    assert update("a\na\na\n", "@@\n-a\n+1\n@@\n-a\n+2\n") == "1\n2\na\n"


def test_an_exact_hit_further_down_is_preferred_to_a_lax_one():
    assert update("a  \na\n", "@@\n-a\n+x\n") == "a  \nx\n"
    assert update(" a\na  \n", "@@\n-a\n+x\n") == " a\nx\n"
    assert update("\u2014\n -\n", "@@\n--\n+x\n") == "\u2014\nx\n"


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("x = 1  ", "x = 1"),
        ("\tx = 1", "x = 1"),
        ("a \u2013 \u201cb\u201d \u2018c\u2019\u00a0d", "a - \"b\" 'c' d"),
        ("plain - 'c'", "plain \u2014 \u2019c\u2019"),
    ],
)
def test_lines_quoted_almost_right_are_found(line: str, quoted: str):
    assert update(f"{line}\n", f"@@\n-{quoted}\n+new\n") == "new\n"


def test_kept_lines_keep_the_bytes_of_the_file_however_they_were_quoted():
    assert update("  head  \nold\n", "@@\n head\n-old\n+new\n") == "  head  \nnew\n"


def test_an_anchor_moves_the_search_behind_its_line():
    assert update("x\ndef f():\nx\n", "@@ def f():\n-x\n+y\n") == "x\ndef f():\ny\n"
    assert update("x\nx\n", "@@ x\n-x\n+y\n") == "x\ny\n"


def test_anchors_in_a_row_narrow_the_place_down():
    old = "def f():\n  x\nclass A:\n  def f():\n  x\n"
    assert update(old, "@@ class A:\n@@ def f():\n-  x\n+  y\n") == "def f():\n  x\nclass A:\n  def f():\n  y\n"


def test_end_of_file_is_tried_at_the_end_first_and_then_anywhere():
    assert update("a\nb\na\n", "@@\n-a\n+x\n*** End of File\n") == "a\nb\nx\n"
    assert update("a\nb\n", "@@\n-a\n+x\n*** End of File\n") == "x\nb\n"


def test_end_of_file_does_not_reach_back_over_an_earlier_chunk():
    files = {"f": b"a\nb\n"}
    body = "*** Update File: f\n@@\n-b\n+x\n@@\n-b\n+y\n*** End of File\n"
    assert reason(body, files) == "Failed to find expected lines in /w/f:\nb"


def test_a_last_empty_line_that_is_not_in_the_file_is_forgiven():
    assert update("a\nb\n", "@@\n a\n-b\n+c\n\n") == "a\nc\n"
    assert update("a\nb\n", "@@\n-b\n-\n+c\n+\n") == "a\nc\n"
    assert update("a\n", "@@\n a\n\n+b\n") == "a\n\nb\n"


def test_an_empty_line_that_is_not_in_the_file_may_stay_out_of_it():
    assert update("a\n", "@@\n-\n+\n") == "a\n"


def test_additions_alone_go_to_the_end_in_their_order():
    assert update("a\n\n", "@@\n+x\n@@ a\n+y\n") == "a\n\nx\ny\n"
    assert update("", "@@\n+x\n") == "x\n"


def test_a_chunk_may_follow_an_addition_at_the_end():
    assert update("a\nb\n", "@@\n+z\n@@\n-a\n+A\n") == "A\nb\nz\n"
    assert update("a\nb\n", "@@\n+z\n\n@@\n-a\n+A\n") == "A\nb\nz\n"


# ---- line endings ----------------------------------------------------------------------------------


def test_the_result_ends_with_a_newline():
    assert update("a\nb", "@@\n-a\n+A\n") == "A\nb\n"
    assert update("a", "@@\n a\n+b\n") == "a\nb\n"
    assert update("a", "@@\n+b\n") == "a\nb\n"


def test_a_file_whose_lines_all_go_is_empty():
    assert update("a\nb\n", "@@\n-a\n-b\n") == ""


def test_new_lines_of_a_crlf_file_end_with_crlf():
    assert update("a\r\nb\r\nc", "@@\n a\n-b\n+x\n+y\n") == "a\r\nx\r\ny\r\nc\r\n"
    assert update("a\r\nb\r\n", "@@\n+top\n a\n") == "top\r\na\r\nb\r\n"
    assert update("a\r\nb\r\n", "@@\n+end\n") == "a\r\nb\r\nend\r\n"


def test_mixed_endings_stay_with_their_lines():
    old = "a\r\nb\nc\r\nd\ne\r\n"
    assert update(old, "@@\n-b\n-c\n+B\n+C\n d\n+new\n") == "a\r\nB\nC\r\nd\nnew\ne\r\n"
    assert update(old, "@@\n-a\n b\n+new\n") == "b\nnew\nc\r\nd\ne\r\n"


@pytest.mark.parametrize(
    ("old", "body", "new"),
    [
        ("one\r\ntwo\rthree\n", "@@\n two\n-three\n+THREE\n", "one\r\ntwo\rTHREE\n"),
        ("one\r\ntwo\rthree\n", "@@\n one\n-two\n+TWO\n three\n", "one\r\nTWO\rthree\n"),
        ("one\rtwo\rthree\r", "@@\n one\n-two\n+TWO\n+more\n", "one\rTWO\rmore\rthree\r"),
        ("one\rtwo\rthree", "@@\n-three\n+THREE\n", "one\rtwo\rTHREE\r"),
        ("a\r\rb\n", "@@\n a\n \n-b\n+B\n", "a\r\rB\n"),
        ("a\r\r\nb\n", "@@\n a\n \n-b\n+B\n", "a\r\r\nB\n"),
        ("a\rb\n", "@@\n+end\n", "a\rb\nend\n"),
    ],
)
def test_a_carriage_return_alone_ends_a_line_too(old: str, body: str, new: str):
    assert update(old, body) == new


def test_a_patch_may_also_quote_a_line_with_the_carriage_return_inside_of_it():
    assert update("a\n10%\r20%\nd\n", "@@\n a\n-10%\r20%\n+X\n") == "a\nX\nd\n"
    assert reason("*** Update File: f\n@@\n-a\rz\n", {"f": b"a\rb\n"}).startswith("Failed to find expected lines")


def test_a_byte_order_mark_stays_in_front():
    assert update("\ufeffa\nb\n", "@@\n-a\n+A\n") == "\ufeffA\nb\n"


# ---- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "*** Update File: no\n@@\n-a\n",
            "Failed to read file to update /w/no: No such file or directory (os error 2)",
        ),
        ("*** Update File: f\n@@\n a\n-zz\n", "Failed to find expected lines in /w/f:\na\nzz"),
        ("*** Update File: f\n@@ zz\n-a\n", "Failed to find context 'zz' in /w/f"),
        ("*** Update File: b\n@@\n-a\n", "Failed to read file to update /w/b: stream did not contain valid UTF-8"),
        ("*** Delete File: no\n", "Failed to delete file /w/no: No such file or directory (os error 2)"),
        ("*** Delete File: folder\n", "Failed to delete file /w/folder: Is a directory (os error 21)"),
        ("*** Add File: folder\n+x\n", "Failed to write file /w/folder: Is a directory (os error 21)"),
        (
            "*** Delete File: f\n*** Delete File: f\n",
            "Failed to delete file /w/f: No such file or directory (os error 2)",
        ),
        ("*** Add File: n\n+\ud800\n", "Failed to write file /w/n: the text holds a lone surrogate"),
    ],
)
def test_a_patch_that_does_not_fit_says_why(body: str, expected: str):
    assert reason(body, {"f": b"a\nb\n", "b": b"\xff\n"}) == expected


# ---- net changes -----------------------------------------------------------------------------------


def test_each_kind_of_hunk_gives_its_change_and_its_line_in_the_summary():
    result = plan(
        "*** Update File: u\n@@\n-a\n+b\n*** Delete File: d\n*** Add File: n\n+x\n*** Add File: over\n+y\n"
        "*** Update File: from\n*** Move to: to\n@@\n-a\n+c\n*** Update File: r1\n*** Move to: r2\n",
        {"u": b"a\n", "d": b"\xff", "over": b"old\n", "from": b"a\n", "to": b"t\n", "r1": b"\xff"},
    )
    assert result.changes == (
        FileChange(kind="update", path="/w/u", old=b"a\n", new=b"b\n"),
        FileChange(kind="delete", path="/w/d", old=b"\xff", new=None),
        FileChange(kind="add", path="/w/n", old=None, new=b"x\n"),
        FileChange(kind="add", path="/w/over", old=b"old\n", new=b"y\n"),
        FileChange(kind="update", path="/w/from", old=b"a\n", new=b"c\n", move_path="/w/to", replaced=b"t\n"),
        FileChange(kind="update", path="/w/r1", old=b"\xff", new=b"\xff", move_path="/w/r2"),
    )
    assert summarise([result]) == ("Success. Updated the following files:\nA n\nA over\nM u\nM to\nM r2\nD d\n")


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        (
            "*** Update File: f\n@@\n-a\n+A\n*** Update File: f\n@@\n A\n-b\n+B\n",
            [FileChange(kind="update", path="/w/f", old=b"a\nb\n", new=b"A\nB\n")],
        ),
        (
            "*** Add File: n\n+a\n*** Update File: n\n@@\n-a\n+b\n",
            [FileChange(kind="add", path="/w/n", old=None, new=b"b\n")],
        ),
        (
            "*** Delete File: f\n*** Add File: f\n+x\n",
            [FileChange(kind="update", path="/w/f", old=b"a\nb\n", new=b"x\n")],
        ),
        ("*** Add File: n\n+a\n*** Delete File: n\n", []),
        (
            "*** Add File: n\n+a\n*** Update File: n\n*** Move to: m\n",
            [FileChange(kind="add", path="/w/m", old=None, new=b"a\n")],
        ),
        (
            "*** Update File: f\n*** Move to: f\n@@\n-a\n+A\n",
            [FileChange(kind="update", path="/w/f", old=b"a\nb\n", new=b"A\nb\n")],
        ),
        (
            "*** Update File: f\n*** Move to: k\n*** Update File: k\n*** Move to: h\n@@\n-a\n+A\n",
            [FileChange(kind="update", path="/w/f", old=b"a\nb\n", new=b"A\nb\n", move_path="/w/h")],
        ),
        (
            "*** Update File: f\n*** Move to: h\n*** Update File: g\n*** Move to: h\n",
            [
                FileChange(kind="delete", path="/w/f", old=b"a\nb\n", new=None),
                FileChange(kind="update", path="/w/g", old=b"g\n", new=b"g\n", move_path="/w/h"),
            ],
        ),
        (
            "*** Update File: f\n*** Move to: h\n*** Add File: f\n+new\n",
            [
                FileChange(kind="update", path="/w/f", old=b"a\nb\n", new=b"new\n"),
                FileChange(kind="add", path="/w/h", old=None, new=b"a\nb\n"),
            ],
        ),
        (
            "*** Update File: f\n*** Move to: h\n*** Delete File: h\n",
            [FileChange(kind="delete", path="/w/f", old=b"a\nb\n", new=None)],
        ),
    ],
)
def test_hunks_on_the_same_file_compose_to_one_change(body: str, changes: list[FileChange]):
    assert list(plan(body, {"f": b"a\nb\n", "g": b"g\n"}).changes) == changes


def test_changes_have_the_shape_of_the_protocol():
    result = plan(
        "*** Add File: n\n+x\n*** Delete File: d\n*** Update File: u\n*** Move to: v\n@@\n-a\n+b\n",
        {"d": b"bye\n", "u": b"0\n1\na\n2\n3\n"},
    )
    assert {change.path: change.to_wire() for change in result.changes} == {
        "/w/n": {"type": "add", "content": "x\n"},
        "/w/d": {"type": "delete", "content": "bye\n"},
        "/w/u": {"type": "update", "unified_diff": "@@ -2,3 +2,3 @@\n 1\n-a\n+b\n 2\n", "move_path": "/w/v"},
    }


# ---- properties ------------------------------------------------------------------------------------

LINE = st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=["Cs"]), max_size=6)
ENDING = st.sampled_from(["\n", "\r\n"])


@st.composite
def edited_files(draw: st.DrawFn) -> tuple[bytes, str, bytes]:
    """A file of unique lines, chunks that change it, and what must come out."""
    lines = draw(st.lists(st.tuples(LINE, ENDING), min_size=1, max_size=12))
    lines = [(f"{index}{text}", ending) for index, (text, ending) in enumerate(lines)]
    chunks: list[str] = []
    result: list[str] = []
    position = 0
    while position < len(lines):
        text, ending = lines[position]
        position += 1
        match draw(st.sampled_from(["keep", "keep", "change", "insert", "remove"])):
            case "keep":
                result.append(text + ending)
            case "change":
                new = draw(LINE)
                chunks.append(f"@@\n-{text}\n+{new}\n")
                result.append(new + ending)
            case "insert":
                new = draw(LINE)
                chunks.append(f"@@\n {text}\n+{new}\n")
                result += [text + ending, new + ending]
            case _:
                chunks.append(f"@@\n-{text}\n")
    old = "".join(text + ending for text, ending in lines)
    return old.encode(), "".join(chunks), "".join(result).encode()


@settings(max_examples=150, deadline=None)
@given(edited_files())
def test_any_edit_written_as_a_patch_gives_exactly_that_edit(case: tuple[bytes, str, bytes]):
    old, chunks, expected = case
    if chunks:
        (change,) = plan(f"*** Update File: f\n{chunks}", {"f": old}).changes
        assert change.new == expected


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode(errors="surrogatepass")),
    st.lists(
        st.sampled_from(["@@", "@@ a", " a", "-a", "+a", "", " ", "-", "+", "*** End of File", " b"]), max_size=12
    ),
)
def test_any_chunks_on_any_file_fit_or_are_refused(old: bytes, lines: list[str]):
    body = "*** Update File: f\n" + "".join(f"{line}\n" for line in lines)
    try:
        (change,) = plan(body, {"f": old}).changes
    except PatchError:
        return
    assert change.new is not None
    assert change.new == b"" or change.new.endswith((b"\n", b"\r")), "the last line has an end, of the file's own kind"
