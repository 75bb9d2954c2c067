"""What the calls of a thread did, as far as their items tell: which tool, which file was read, which were patched.

Only what is certain counts: a command that does more than show one file reads nothing here. No file is looked at.
"""

from __future__ import annotations

import os.path
import re
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from spindle.protocol.items import CALL_TYPES, Item, call_id_of, decode_json, is_output
from spindle.protocol.quote import shell_join

COMMAND_TOOLS = frozenset(("exec_command", "shell", "shell_command", "container.exec", "local_shell"))
PATCH_TOOL = "apply_patch"
READ_TOOL = "read_file"
PATCH_DONE = "Success. Updated the following files:"
"""How the patch tool says that it wrote."""

_READERS = frozenset(("cat", "nl", "sed", "head", "tail"))
_SHELLS = frozenset(("bash", "sh", "zsh"))
_WORD = r"""\s*(?:'([^']*)'|"([^"$`\\]*)"|([^\s'"$`\\|&;<>(){}*?\[\]~#!]+))(?=\s|$)"""
_SPECIAL = r"[^\w ./,:=@%+-]"
_NOT_AS_IT_IS = ("truncated…", "[secret: ", "\ufffd")
"""What stands for something that was cut, masked, or no text."""
_USER_COMMAND = r"<command>\n(.*?)\n</command>\n<result>\n(.*)\n</result>"
_MAX_HEAD = 400
"""What stands before the output of a command (how it ended, how long it took) is no longer than this."""
# Numbers as commands have them: a model can have any text said in the place of a head.
_EXIT_CODE = r"(?:\A|\n)(?:Exit code: |Process exited with code )(-?\d{1,10})\n"
_SECONDS = r"(?m)^(?:Wall time|Duration): (\d{1,9}(?:\.\d{1,9})?) seconds$"
_SESSION = r"(?m)^Process running with session ID (\d+)$"
_PATCH_FILE = r"(?m)^\*\*\* (Add File|Delete File|Update File|Move to): (.+?)\s*$"
_CHANGES: dict[str, Literal["added", "changed", "deleted"]] = {
    "Add File": "added",
    "Delete File": "deleted",
    "Update File": "changed",
    "Move to": "added",
}


class Pair(NamedTuple):
    """A call and its output, by their places in the list."""

    call: int
    output: int
    call_id: str
    tool: str


class FileRead(msgspec.Struct, frozen=True):
    """A call that shows one file, or some lines of it."""

    path: str
    first_line: int | None = None
    """None when it is not known which lines were shown; 1 with no last line is the whole file."""
    last_line: int | None = None


class PatchedFile(msgspec.Struct, frozen=True):
    path: str
    change: Literal["added", "changed", "deleted"]


def find_pairs(items: Sequence[Item]) -> list[Pair]:
    """Every call that has an output after it, in the order of the calls."""
    open_calls: dict[tuple[str, str], deque[int]] = {}
    outputs: dict[int, int] = {}
    for index, item in enumerate(items):
        kind = item.get("type")
        if kind in CALL_TYPES:
            wanted = "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output"
            open_calls.setdefault((wanted, call_id_of(item)), deque()).append(index)
        elif is_output(item):
            waiting = open_calls.get((item["type"], call_id_of(item)))
            if waiting:
                outputs[waiting.popleft()] = index
    return [Pair(call, outputs[call], call_id_of(items[call]), tool_of(items[call])) for call in sorted(outputs)]


def tool_of(call: Item) -> str:
    """The name of the tool that was called; the server's own shell has none in its item."""
    if call.get("type") == "local_shell_call":
        return "local_shell"
    name = call.get("name")
    return name if isinstance(name, str) else ""


def arguments_of(call: Item) -> dict[str, Any]:
    """The arguments of a function call; empty when they are no JSON object."""
    given = call.get("arguments")
    if not isinstance(given, str):
        return given if isinstance(given, dict) else {}
    try:
        decoded = decode_json(given)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def output_text(item: Item) -> str:
    """The text of an output: a plain string, or its text parts one after the other."""
    output = item.get("output")
    if isinstance(output, str):
        return output
    parts = output if isinstance(output, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def command_of(call: Item) -> tuple[str, str] | None:
    """The script a call runs and the folder it names for that (or ""); None if the call runs no command."""
    if call.get("type") == "local_shell_call":
        action = call.get("action")
        given = action if isinstance(action, dict) else {}
        folder = given.get("working_directory")
    elif tool_of(call) in COMMAND_TOOLS:
        given = arguments_of(call)
        folder = given.get("workdir")
    else:
        return None
    script = _script_of(given.get("cmd", given.get("command")))
    return None if script is None else (script, folder if isinstance(folder, str) else "")


def user_command_of(text: str) -> tuple[str, str] | None:
    """A command that the person ran and what came of it, as the model was told; None for any other text."""
    found = re.search(_USER_COMMAND, text, re.DOTALL)
    return None if found is None else (found[1], found[2])


def body_of(text: str) -> str:
    """What a command printed, be it nothing, without the head that the model was shown before it."""
    if isinstance(said := _in_json(text, "output"), str):
        return said
    head, found, body = text.partition("Output:\n")
    return body if found and len(head) < _MAX_HEAD else text


def exit_code_of(text: str) -> int | None:
    """The exit status that the output of a command states in its head; None while it still runs."""
    if found := re.search(_EXIT_CODE, _head_of(text)):
        return int(found[1])
    code = _in_json(text, "metadata", "exit_code")
    return code if isinstance(code, int) else None


def seconds_of(text: str) -> float | None:
    """How long the command took, if its output says so."""
    if found := re.search(_SECONDS, _head_of(text)):
        return float(found[1])
    seconds = _in_json(text, "metadata", "duration_seconds")
    return float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else None


def session_of(text: str) -> str | None:
    """The number under which the command goes on, if it does."""
    found = re.search(_SESSION, _head_of(text))
    return None if found is None else found[1]


def _head_of(text: str) -> str:
    return text[:_MAX_HEAD].partition("Output:\n")[0]


def _in_json(text: str, *way: str) -> Any:
    """What stands in an output that is JSON, as that of `shell` may be; None where it is none."""
    if not text.startswith('{"output":'):
        return None
    try:
        found: Any = decode_json(text)
        for name in way:
            found = found[name]
    except (msgspec.DecodeError, UnicodeEncodeError, KeyError, TypeError):
        return None
    return found


def read_of(call: Item, cwd: str = "") -> FileRead | None:
    """Which file a call shows; None if it does anything else as well."""
    if tool_of(call) == READ_TOOL:
        return _read_by_tool(arguments_of(call), cwd)
    given = call.get("arguments")
    if isinstance(given, str) and not any(reader in given for reader in _READERS):
        return None  # most commands, without parsing them
    command = command_of(call)
    if command is None:
        return None
    script, folder = command
    return _read_by_words(_plain_words(script), locate(folder, cwd))


def patch_of(call: Item) -> tuple[str, str] | None:
    """The text that holds the patch of a call, and the folder that the call names for it (or "")."""
    if tool_of(call) == PATCH_TOOL:
        given = call.get("input") if call.get("type") == "custom_tool_call" else arguments_of(call).get("input")
        return (given if isinstance(given, str) else ""), ""
    command = command_of(call)
    if command is None or PATCH_TOOL not in command[0] or "*** Begin Patch" not in command[0]:
        return None
    return command


def patched_files(call: Item, cwd: str = "") -> list[PatchedFile]:
    """The files a call would patch, as written in its patch; through a shell only in the form of a here-document."""
    if (patch := patch_of(call)) is None:
        return []
    text, folder = patch
    folder = locate(folder, cwd)
    changed: dict[str, PatchedFile] = {}
    last = ""
    for header, name in re.findall(_PATCH_FILE, text):
        path = locate(name, folder)
        if header == "Move to":
            changed[last] = PatchedFile(last, "deleted")
        changed[path] = PatchedFile(path, _CHANGES[header])
        last = path
    return list(changed.values())


def has_patched(output: Item) -> bool:
    """Whether the output says that the patch was written."""
    return PATCH_DONE in output_text(output)


def locate(path: str, folder: str) -> str:
    """`path` as seen from `folder`, without looking at any file; as it is when there is no folder."""
    joined = path if path.startswith("/") or not folder else f"{folder}/{path}"
    return os.path.normpath(joined) if joined else ""


def whole_file(call: Item, text: str) -> str | None:
    """All of the file that a command has shown, where its output proves it: nothing cut, masked, or unreadable.

    A range that ends before the lines it asked for ends with the file. Numbers before the lines are taken off again.
    """
    command = command_of(call)
    if command is None or arguments_of(call).get("tty"):
        return None  # a terminal changes the ends of lines
    shown = _printed(text)
    if not shown or any(mark in shown for mark in _NOT_AS_IT_IS):
        return None
    lines = shown.count("\n") + (not shown.endswith("\n"))
    match _plain_words(command[0]):
        case ["cat", "-n", _] | ["nl", "-ba", _]:
            bare, found = re.subn(r"(?m)^ *\d+\t", "", shown)
            return bare if found == lines else None
        case ["cat", _] | ["cat", "--", _] | ["tail", "-n", "+1", _] | ["sed", "-n", "1,$p", _]:
            return shown
        case ["sed", "-n", wanted, _] if (found := re.fullmatch(r"1,(\d+)p", wanted)) and lines < int(found[1]):
            return shown
        case ["head", "-n", wanted, _] | ["head", wanted, _] if lines < int(wanted.lstrip("-")):
            return shown
        case _:
            return None


def _printed(text: str) -> str | None:
    """What a command printed, without the head of the tool's answer; None where that is not the whole of it."""
    if text.startswith('{"output":'):
        given = _in_json(text, "output")
        return given if isinstance(given, str) else None
    head, found, body = text.partition("Output:\n")
    return body if found and len(head) < _MAX_HEAD and "Total output lines:" not in head else None


# ---- commands that show a file -----------------------------------------------------------------------


def _script_of(command: Any) -> str | None:
    if isinstance(command, str):
        return command
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        return None
    if len(command) == 3 and os.path.basename(command[0]) in _SHELLS and command[1] in ("-c", "-lc"):
        return command[2]
    return shell_join(command)


def _plain_words(script: str) -> list[str]:
    """The words of a single plain command that shows files; none if a shell would do more with it than split it."""
    script = script.strip()
    if script.partition(" ")[0] not in _READERS:
        return []
    # Most have no quotes and nothing that a shell looks at.
    if not re.search(_SPECIAL, script):
        return script.split()
    next_word = re.compile(_WORD).match
    words, end = [], 0
    while end < len(script):
        found = next_word(script, end)
        if found is None or "\n" in found[0]:
            return []
        words.append(found[found.lastindex or 0])
        end = found.end()
    return words


def _read_by_tool(arguments: dict[str, Any], cwd: str) -> FileRead | None:
    path = arguments.get("file_path")
    if not isinstance(path, str) or not path:
        return None
    path = locate(path, cwd)
    if arguments.get("mode", "slice") != "slice":
        return FileRead(path)
    offset, limit = _whole(arguments.get("offset", 1)), _whole(arguments.get("limit", 2_000))
    if offset is None or limit is None:
        return FileRead(path)
    return FileRead(path, offset, offset + limit - 1)


def _read_by_words(words: list[str], folder: str) -> FileRead | None:
    match words:
        case ["cat" | "nl", path] | ["cat" | "nl", "-n" | "-ba" | "--", path] if not path.startswith("-"):
            return FileRead(locate(path, folder), 1, None)
        case ["sed", "-n", "1,$p", path]:
            return FileRead(locate(path, folder), 1, None)
        case ["sed", "-n", lines, path] if found := re.fullmatch(r"(\d+)(?:,(\d+))?p", lines):
            first = int(found[1])
            return FileRead(locate(path, folder), first, int(found[2] or first))
        case ["head", "-n", count, path] if count.isdecimal():
            return FileRead(locate(path, folder), 1, int(count))
        case ["head", count, path] if re.fullmatch(r"-\d+", count):
            return FileRead(locate(path, folder), 1, int(count[1:]))
        case ["tail", "-n", count, path] if re.fullmatch(r"\+?\d+", count):
            return FileRead(locate(path, folder), int(count) if count[0] == "+" else None)
        case _:
            return None


def _whole(value: Any) -> int | None:
    return (
        int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1 else None
    )
