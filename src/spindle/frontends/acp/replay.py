"""A recorded conversation as updates: what was said, thought and done, in its order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spindle.api.recorded_calls import call_item
from spindle.context.calls import (
    arguments_of,
    body_of,
    command_of,
    exit_code_of,
    locate,
    output_text,
    patch_of,
    tool_of,
    user_command_of,
)
from spindle.context.external import shown_text
from spindle.errors import PatchError
from spindle.frontends.acp.diffs import diff_contents
from spindle.frontends.acp.tool_calls import (
    Update,
    image_call,
    other_call,
    output_content,
    patch_call,
    plan_entries,
    proposed_entries,
    script_call,
    script_of,
    text_content,
    title_of,
)
from spindle.frontends.acp.updates import chunk
from spindle.patch.heredoc import find_patch
from spindle.patch.parse import AddFile, DeleteFile, Hunk, UpdateFile, parse_patch
from spindle.policy.commands import parse_command
from spindle.protocol.items import call_id_of, name_of_external
from spindle.thread.entry import Record
from spindle.thread.view import transcript

_OVER = ("completed", "failed")


def replay(records: Iterable[Record], cwd: str, running: Mapping[str, str]) -> Iterator[Update]:
    """Everything that was shown, turn by turn; calls are finished, but for those of the last turn that are `running`.

    Of these the status is given, by their ids; their end is told when it comes.
    """
    turns = transcript(records, with_calls=True)
    for turn in turns:
        still_open = running if turn is turns[-1] else {}
        for item in turn.items:
            for update in _updates(item, cwd):
                status = still_open.get(update.get("toolCallId", ""))
                if status is None:
                    yield update
                elif update["sessionUpdate"] == "tool_call":
                    yield {**update, "status": status}


def _updates(item: dict[str, Any], cwd: str) -> Iterator[Update]:
    item_id = str(item.get("id") or "")
    match item["type"]:
        case "UserMessage":
            yield from _said(item, item_id)
        case "FunctionCallOutput" if isinstance(item.get("name"), str):
            call = other_call(item_id, f"Message from {name_of_external(item)}", None, "completed")
            yield from _finished(call, output_content(shown_text(item)))
        case "AgentMessage":
            text = "".join(str(part.get("text") or "") for part in item.get("content") or () if isinstance(part, dict))
            if text:
                yield chunk("agent_message_chunk", text, item_id)
        case "Reasoning":
            if text := "\n\n".join(map(str, item.get("summary_text") or ())):
                yield chunk("agent_thought_chunk", text, item_id)
        case "Plan":
            text = str(item.get("text") or "")
            yield chunk("agent_message_chunk", text, item_id)
            yield {"sessionUpdate": "plan", "entries": proposed_entries(text)}
        case "Call":
            yield from _recorded_call(item, item_id, cwd)
        case "UserCommand" if (ran := user_command_of(str(item.get("text") or ""))) is not None:
            script, result = ran
            status = "failed" if exit_code_of(result) else "completed"
            call = script_call(item_id, script, {"command": script, "cwd": cwd}, [], status)
            yield from _finished(call, output_content(body_of(result)))
        case "CommandExecution":
            command = item.get("command") or ""
            words = script_of([str(word) for word in command]) if isinstance(command, list) else str(command)
            yield from _call(
                item_id, {**item, "type": "command_execution", "command": words, "cwd": item.get("cwd") or cwd}
            )
        case "FileChange":
            yield from _call(item_id, {**item, "type": "file_change"})
        case "WebSearch":
            title = f"Searched the web: {item.get('query') or ''}"
            yield from _finished(other_call(item_id, title, {"query": item.get("query")}, "completed", "fetch"))
        case _:
            return


def _said(item: dict[str, Any], item_id: str) -> Iterator[Update]:
    """A message of the person, with the pictures that were attached to it."""
    for part in item.get("content") or ():
        if not isinstance(part, dict):
            continue
        url = part.get("image_url") or part.get("url")
        if part.get("type") == "text" and part.get("text"):
            yield chunk("user_message_chunk", str(part["text"]), item_id)
        elif part.get("type") == "image" and isinstance(url, str) and url.startswith("data:") and "," in url:
            head, _, data = url.partition(",")
            kind = head.removeprefix("data:").split(";")[0]
            content = {"type": "image", "data": data, "mimeType": kind}
            yield {"sessionUpdate": "user_message_chunk", "content": content, "messageId": item_id}


def _recorded_call(item: dict[str, Any], item_id: str, cwd: str) -> Iterator[Update]:
    """A call of the model, with what came of it, as it was shown when it was made."""
    call, output = item["call"], item["output"]
    call_id, name, arguments = call_id_of(call) or item_id, tool_of(call), arguments_of(call)
    shown = call_item(item, cwd)
    if name == "view_image" and isinstance(path := arguments.get("path"), str):
        yield from _finished(image_call(call_id, locate(path, cwd), "failed" if output is None else "completed"))
        return
    if shown is None:
        return
    status = shown.get("status")
    status = status if status in _OVER else "failed"  # what nobody saw the end of was cut off
    said = "" if output is None else body_of(output_text(output))
    match shown["type"]:
        case "file_change":
            hunks, folder = _hunks(call, cwd)
            if not hunks:
                yield from _call(call_id, shown)
                return
            patch = patch_call(call_id, _changes(hunks, folder), [*_diffs(hunks, folder)], status)
            why = [*patch["content"], text_content(said)] if status == "failed" and said else None
            yield from _finished(patch, why)
        case "command_execution":
            script, folder = command_of(call) or ("", "")
            folder = locate(folder, cwd) or cwd
            parsed = parse_command(["sh", "-c", script])
            command = script_call(call_id, script, {"command": script, "cwd": folder}, parsed, status)
            yield from _finished(command, output_content(said))
        case "todo_list":
            plan = arguments.get("plan")
            steps = [step for step in plan if isinstance(step, dict)] if isinstance(plan, list) else []
            yield {"sessionUpdate": "plan", "entries": plan_entries(steps)}
        case "mcp_tool_call":
            title = f"{shown['server']}/{shown['tool']}"
            yield from _finished(other_call(call_id, title, arguments, status), output_content(said))
        case _:
            yield from _call(call_id, shown)


def _hunks(call: dict[str, Any], cwd: str) -> tuple[list[Hunk], str]:
    """What the patch of a call was to do, and the folder it was written for; nothing where it cannot be read."""
    text, folder = patch_of(call) or ("", "")
    folder = locate(folder, cwd)
    if tool_of(call) != "apply_patch":
        text, inner = find_patch(["sh", "-c", text]) or ("", None)
        folder = locate(inner or "", folder)
    try:
        return parse_patch(text), folder
    except PatchError:
        return [], folder


def _changes(hunks: list[Hunk], folder: str) -> dict[str, dict[str, Any]]:
    """The files of a patch, each with its part of it, as events tell it."""
    changes: dict[str, dict[str, Any]] = {}
    for hunk in hunks:
        match hunk:
            case AddFile(path=path, content=content):
                changes[locate(path, folder)] = {"type": "add", "content": content}
            case DeleteFile(path=path):
                changes[locate(path, folder)] = {"type": "delete"}
            case UpdateFile(path=path, move_to=target):
                moved = None if target is None else locate(target, folder)
                changes[locate(path, folder)] = {"type": "update", "move_path": moved}
    return changes


def _diffs(hunks: list[Hunk], folder: str) -> Iterator[Update]:
    """The places that were changed. Of a file that was deleted the patch does not say what stood in it."""
    for hunk in hunks:
        match hunk:
            case AddFile(path=path, content=content):
                yield {"type": "diff", "path": locate(path, folder), "oldText": None, "newText": content}
            case UpdateFile(path=path, chunks=chunks, move_to=target):
                lines = [line for chunk_ in chunks for line in chunk_.lines]
                old = "".join(f"{text}\n" for mark, text in lines if mark != "+")
                new = "".join(f"{text}\n" for mark, text in lines if mark != "-")
                yield {"type": "diff", "path": locate(target or path, folder), "oldText": old, "newText": new}
            case DeleteFile():
                pass


def _call(call_id: str, shown: dict[str, Any]) -> Iterator[Update]:
    """An item of a call that needs no more than what `exec --json` tells of it."""
    status = shown.get("status")
    status = status if status in _OVER else "failed"  # what nobody saw the end of was cut off
    match shown["type"]:
        case "command_execution":
            script, folder = str(shown.get("command") or ""), str(shown.get("cwd") or "")
            parsed = parse_command(["sh", "-c", script])
            call = script_call(call_id, script, {"command": script, "cwd": folder}, parsed, status)
            yield from _finished(call, output_content(str(shown.get("aggregated_output") or "")))
        case "file_change":
            changes = shown.get("changes")
            if isinstance(changes, list):
                changes = {str(one.get("path")): {"type": one.get("kind")} for one in changes if isinstance(one, dict)}
            told = changes if isinstance(changes, dict) else {}
            whole = {path: one for path, one in told.items() if "content" in one or "unified_diff" in one}
            yield from _finished(patch_call(call_id, told, diff_contents(whole, lambda path: None), status))
        case _:
            title = str(shown.get("tool") or shown["type"])
            result = shown.get("result")
            said = [text_content(result)] if isinstance(result, str) and result else []
            yield from _finished(other_call(call_id, title_of(title), shown.get("arguments"), status), said)


def _finished(call: Update, content: list[dict[str, Any]] | None = None) -> Iterator[Update]:
    """A call that began and ended: two updates, as if it had been seen."""
    yield {"sessionUpdate": "tool_call", **call, "status": "in_progress"}
    end: Update = {"sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"], "status": call["status"]}
    yield {**end, "content": content} if content else end
