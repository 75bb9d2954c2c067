"""Calls in a record that have no event → items as clients know them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from spindle.context.calls import (
    arguments_of,
    body_of,
    command_of,
    exit_code_of,
    has_patched,
    locate,
    output_text,
    patch_of,
    patched_files,
    seconds_of,
    session_of,
    tool_of,
    user_command_of,
)
from spindle.errors import PatchError
from spindle.frontends.app_server.items import command_actions
from spindle.frontends.app_server.objects import (
    CommandItem,
    DynamicToolCallItem,
    FileChangeItem,
    FileUpdateChange,
    ImageViewItem,
    McpToolCallItem,
    PatchKind,
    ThreadItem,
)
from spindle.patch.parse import AddFile, DeleteFile, UpdateFile, parse_patch
from spindle.policy.commands import parse_command
from spindle.protocol.items import call_id_of
from spindle.protocol.quote import shell_join
from spindle.workspace.shell import user_shell

_KINDS: dict[str, Literal["add", "delete", "update"]] = {"added": "add", "changed": "update", "deleted": "delete"}
_PATCH = re.compile(r"\*\*\* Begin Patch\n.*\n\*\*\* End Patch", re.DOTALL)


def call_item(shown: Mapping[str, Any], cwd: str, *, is_running: bool = False) -> ThreadItem | None:
    """The item for an entry `Call` or `UserCommand` of a transcript; None for any other.

    A call without an output goes on while its turn `is_running`; else nobody will answer it.
    """
    match shown["type"]:
        case "Call":
            if not isinstance(shown.get("call"), dict):
                return None
            item = _call(shown["call"], shown["output"], cwd)
            is_open = is_running and shown["output"] is None and hasattr(item, "status")
            return msgspec.structs.replace(item, status="inProgress") if is_open else item
        case "UserCommand":
            return _user_command(str(shown.get("id") or ""), str(shown.get("text") or ""), cwd)
        case _:
            return None


def _call(call: dict[str, Any], output: dict[str, Any] | None, cwd: str) -> ThreadItem:
    item_id, text = call_id_of(call), "" if output is None else output_text(output)
    if patched_files(call):
        status = "completed" if output is not None and has_patched(output) else "failed"
        return FileChangeItem(id=item_id, changes=_changes(call, cwd), status=status)
    if (command := command_of(call)) is not None:
        return _command(call, command[0], locate(command[1], cwd) or cwd, text)
    return _other_call(item_id, call, None if output is None else text)


def _command(call: dict[str, Any], script: str, cwd: str, text: str) -> CommandItem:
    """A command as clients were told of it while it ran; one whose output tells of no end and no session never ran."""
    code, session, seconds = exit_code_of(text), session_of(text), seconds_of(text)
    argv = _argv(call, script)
    return CommandItem(
        id=call_id_of(call),
        command=shell_join(argv),
        cwd=cwd,
        process_id=session,
        source="unifiedExecStartup" if tool_of(call) == "exec_command" else "agent",
        status="completed" if code == 0 or (code is None and session is not None) else "failed",
        command_actions=command_actions(parse_command(argv)),
        aggregated_output=body_of(text) or None,
        exit_code=code,
        duration_ms=None if seconds is None else round(seconds * 1000),
    )


def _argv(call: dict[str, Any], script: str) -> list[str]:
    """The words that ran; the record of a script does not say which shell that was, unless the model did."""
    arguments = arguments_of(call)
    action = call.get("action")
    words = (action if isinstance(action, dict) else arguments).get("command")
    if isinstance(words, list):
        return [str(word) for word in words]
    shell = arguments.get("shell")
    flag = "-c" if arguments.get("login") is False else "-lc"
    return [shell if isinstance(shell, str) and shell else user_shell().path, flag, script]


def _other_call(item_id: str, call: dict[str, Any], text: str | None) -> ThreadItem:
    name, arguments = tool_of(call), arguments_of(call)
    status = "failed" if text is None else "completed"
    if name == "view_image" and isinstance(path := arguments.get("path"), str):
        return ImageViewItem(id=item_id, path=path)
    if name.startswith("mcp__"):
        _, server, tool = [*name.split("__", 2), ""][:3]
        said = text if text is None or not text.startswith("Wall time: ") else text.partition("Output:\n")[2]
        result = None if said is None else {"content": [{"type": "text", "text": said}], "structuredContent": None}
        return McpToolCallItem(id=item_id, server=server, tool=tool, arguments=arguments, status=status, result=result)
    return DynamicToolCallItem(
        id=item_id,
        namespace=namespace if isinstance(namespace := call.get("namespace"), str) else None,
        tool=name,
        arguments=arguments or call.get("input"),
        status=status,
        content_items=None if text is None else [{"type": "inputText", "text": text}],
        success=text is not None,
    )


def _user_command(item_id: str, text: str, cwd: str) -> CommandItem | None:
    script, result = user_command_of(text) or ("", "")
    code, seconds = exit_code_of(result), seconds_of(result)
    if code is None:
        return None
    argv = [user_shell().path, "-lc", script]
    return CommandItem(
        id=item_id,
        command=shell_join(argv),
        cwd=cwd,
        source="userShell",
        status="completed" if code == 0 else "failed",
        command_actions=command_actions(parse_command(argv)),
        aggregated_output=body_of(result) or None,
        exit_code=code,
        duration_ms=None if seconds is None else round(seconds * 1000),
    )


# ---- patches ---------------------------------------------------------------------------------------


def _changes(call: dict[str, Any], cwd: str) -> list[FileUpdateChange]:
    """The files of a patch, each with its part of it; only their names where the patch cannot be read."""
    text, folder = patch_of(call) or ("", "")
    folder = locate(folder, cwd)
    found = _PATCH.search(text)
    try:
        hunks = parse_patch(found[0] if found is not None else text)
    except PatchError:
        hunks = []
    if not hunks:
        return [
            FileUpdateChange(path=locate(file.path, folder), kind=PatchKind(type=_KINDS[file.change]), diff="")
            for file in patched_files(call)
        ]
    return [_change(hunk, folder) for hunk in hunks]


def _change(hunk: AddFile | DeleteFile | UpdateFile, folder: str) -> FileUpdateChange:
    path = locate(hunk.path, folder)
    match hunk:
        case AddFile(content=content):
            return FileUpdateChange(path=path, kind=PatchKind(type="add"), diff=content)
        case DeleteFile():
            return FileUpdateChange(path=path, kind=PatchKind(type="delete"), diff="")
        case UpdateFile(chunks=chunks, move_to=move_to):
            lines: list[str] = []
            for chunk in chunks:
                lines += [f"@@ {anchor}" for anchor in chunk.anchors] or ["@@"]
                lines += [mark + line for mark, line in chunk.lines]
            target = None if move_to is None else locate(move_to, folder)
            diff = "".join(f"{line}\n" for line in lines) + (f"\n\nMoved to: {target}" if target else "")
            return FileUpdateChange(path=path, kind=PatchKind(type="update", move_path=target), diff=diff)
