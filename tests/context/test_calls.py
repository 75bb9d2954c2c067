"""What a call did, told from its items alone: nothing is guessed."""

from __future__ import annotations

import pytest

from spindle.context.calls import (
    FileRead,
    Pair,
    PatchedFile,
    body_of,
    command_of,
    exit_code_of,
    find_pairs,
    has_patched,
    output_text,
    patched_files,
    read_of,
    seconds_of,
    session_of,
)
from spindle.protocol.items import encode_json


def call(name: str, call_id: str = "c", **arguments) -> dict:
    return {"type": "function_call", "name": name, "arguments": encode_json(arguments).decode(), "call_id": call_id}


def shell(command: str, **more) -> dict:
    return call("exec_command", cmd=command, **more)


@pytest.mark.parametrize(
    ("made", "read"),
    [
        (call("read_file", file_path="/a"), FileRead("/a", 1, 2_000)),
        (call("read_file", file_path="/a", offset=11, limit=10), FileRead("/a", 11, 20)),
        (call("read_file", file_path="/a", offset=3.0, limit=2), FileRead("/a", 3, 4)),
        (call("read_file", file_path="/a", offset=1.5), FileRead("/a")),
        (call("read_file", file_path="/a", limit=True), FileRead("/a")),
        (call("read_file", file_path="/a", limit="9"), FileRead("/a")),
        (call("read_file", file_path="/a", mode="indentation"), FileRead("/a")),
        (call("read_file", file_path="/a", mode="slice", limit=5), FileRead("/a", 1, 5)),
        (call("read_file", file_path="b/../a"), FileRead("/w/a", 1, 2_000)),
        (call("read_file"), None),
        (call("read_file", file_path=7), None),
        (shell("cat a"), FileRead("/w/a", 1)),
        (shell("  cat -n 'my file' "), FileRead("/w/my file", 1)),
        (shell('nl -ba "a"'), FileRead("/w/a", 1)),
        (shell("sed -n 5p a"), FileRead("/w/a", 5, 5)),
        (shell("sed -n '5,9p' a"), FileRead("/w/a", 5, 9)),
        (shell("head -7 a"), FileRead("/w/a", 1, 7)),
        (shell("head -n 7 a"), FileRead("/w/a", 1, 7)),
        (shell("tail -n +7 a"), FileRead("/w/a", 7)),
        (shell("tail -n 7 a"), FileRead("/w/a")),
        (shell("cat a", workdir="sub"), FileRead("/w/sub/a", 1)),
        (shell("cat a", workdir="/x"), FileRead("/x/a", 1)),
        (call("shell", command=["bash", "-lc", "cat a"]), FileRead("/w/a", 1)),
        (call("shell", command=["cat", "a b"]), FileRead("/w/a b", 1)),
        (
            {"type": "local_shell_call", "action": {"command": ["cat", "a"], "working_directory": "/x"}},
            FileRead("/x/a", 1),
        ),
        *(
            (shell(command), None)
            for command in ("cat a b", "cat a > b", "cat $A", "cat *", "cat a; rm a", "cat a\nrm a")
        ),
        *(
            (shell(command), None)
            for command in ("cat a | head", "cat `b`", "cat ~/a", "cat a&", "cat -", "cat", "catx a")
        ),
        *((shell(command), None) for command in ("sed -i s/a/b/ a", "sed -n '1,5p;w b' a", "head a", "cat 'a", "")),
        (call("list_dir", dir_path="/a"), None),
    ],
    ids=str,
)
def test_only_a_call_that_shows_one_file_reads_it(made: dict, read: FileRead | None):
    assert read_of(made, "/w") == read


def test_without_a_folder_paths_stay_as_they_are_written():
    assert read_of(shell("cat ./src/a")) == FileRead("src/a", 1)


def test_a_patch_names_its_files_from_the_folder_of_the_call():
    hunks = ("*** Update File: a", "*** Move to: b", "@@", "-x", "+*** Add File: no", "*** Delete File: /c ")
    text = "\n".join(("*** Begin Patch", *hunks, "*** End Patch"))
    files = [PatchedFile("/w/a", "deleted"), PatchedFile("/w/b", "added"), PatchedFile("/c", "deleted")]
    assert patched_files({"type": "custom_tool_call", "name": "apply_patch", "input": text}, "/w") == files
    assert patched_files(call("apply_patch", input=text), "/w") == files
    inside = [PatchedFile("/w/sub/a", "deleted"), PatchedFile("/w/sub/b", "added"), PatchedFile("/c", "deleted")]
    assert patched_files(shell(f"apply_patch <<'X'\n{text}\nX", workdir="sub"), "/w") == inside
    assert patched_files(shell(f"cat > p <<'X'\n{text}\nX")) == []
    assert patched_files(shell("apply_patch p")) == patched_files(call("list_dir")) == []
    assert patched_files({"type": "custom_tool_call", "name": "apply_patch"}) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Exit code: 3\nWall time: 0.2 seconds\nOutput:\nExit code: 0\n", 3),
        ("Chunk ID: a\nWall time: 1 seconds\nProcess exited with code -9\nOriginal token count: 1\nOutput:\n", -9),
        ("Process running with session ID 7\nOutput:\nProcess exited with code 1\n", None),
        ('{"output":"x","metadata":{"exit_code":2,"duration_seconds":0.1}}', 2),
        ('{"output":"x"}', None),
        ('{"output":', None),
        ("Output:\nExit code: 1\n", None),
        ("", None),
        ("Exit code: " + "9" * 30 + "\nOutput:\n", None),
    ],
)
def test_the_exit_status_is_read_from_the_head_not_from_what_a_program_printed(text: str, code: int | None):
    assert exit_code_of(text) == code


@pytest.mark.parametrize(
    ("text", "seconds", "session", "body"),
    [
        ("Exit code: 3\nWall time: 0.2 seconds\nOutput:\nWall time: 9 seconds\n", 0.2, None, "Wall time: 9 seconds\n"),
        ("Exit code: 0\nDuration: 1.25 seconds\nOutput:\n", 1.25, None, ""),
        ("Wall time: 1 seconds\nProcess running with session ID 7\nOutput:\nso far", 1.0, "7", "so far"),
        ('{"output":"x\\n","metadata":{"exit_code":2,"duration_seconds":0.1}}', 0.1, None, "x\n"),
        ('{"output":5,"metadata":{"duration_seconds":1e30}}', None, None, None),
        ("no folder\nWall time: " + "9" * 330 + " seconds\n", None, None, None),
    ],
)
def test_how_long_it_took_and_where_it_goes_on_stand_in_the_head_too(
    text: str, seconds: float | None, session: str | None, body: str | None
):
    assert (seconds_of(text), session_of(text), body_of(text)) == (seconds, session, text if body is None else body)


def test_a_command_is_a_script_and_a_folder():
    assert command_of(shell("a && b", workdir="/x")) == ("a && b", "/x")
    assert command_of(call("shell_command", command="a")) == ("a", "")
    assert command_of(call("shell", command=["zsh", "-c", "a b"])) == ("a b", "")
    assert command_of(call("shell", command=["/bin/sh", "-x", "a b"])) == ("/bin/sh -x 'a b'", "")
    assert command_of({"type": "local_shell_call", "action": None}) is None
    for odd in ([], [1], None, 5):
        assert command_of(call("shell", command=odd)) is None
    assert command_of({"type": "function_call", "name": "shell", "arguments": "{"}) is None
    assert command_of(call("update_plan")) is None


def test_a_call_is_paired_with_the_first_output_of_its_kind_after_it():
    done = {"type": "function_call_output", "call_id": "c", "output": "x"}
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": ""}
    items = [done, call("a"), custom, done, call("b"), done, {**done, "type": "custom_tool_call_output"}, call("d")]
    assert find_pairs(items) == [Pair(1, 3, "c", "a"), Pair(2, 6, "c", "apply_patch"), Pair(4, 5, "c", "b")]


def test_the_text_of_an_output_is_all_its_text():
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "x"}, {"text": "b"}, "odd"]
    assert output_text({"output": parts}) == "a\nb"
    assert output_text({"output": None}) == ""
    assert has_patched({"output": "Exit code: 0\nOutput:\nSuccess. Updated the following files:\nM a"})
