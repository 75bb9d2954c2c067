"""Calls of tools as an editor shows them: title, kind, places, content. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from spindle.protocol.quote import readable, shell_join

_SHELLS = ("-c", "-lc", "-ic", "-lic")
_TITLE = 200
MAX_OUTPUT = 1 << 18
"""So much of a command's output is shown, from its end."""

Update = dict[str, Any]


def text_content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def output_content(output: str) -> list[dict[str, Any]]:
    """What a command printed, as far as it is shown."""
    cut = output if len(output) <= MAX_OUTPUT else f"… {len(output) - MAX_OUTPUT} characters …\n{output[-MAX_OUTPUT:]}"
    return [text_content(cut)] if cut else []


def title_of(text: str) -> str:
    """In one line."""
    line = " ".join(readable(text).split())
    return line if len(line) <= _TITLE else line[:_TITLE] + "…"


def script_of(command: Sequence[str]) -> str:
    """The command line that a shell is given, or the argument list as one."""
    words = list(command)
    return words[-1] if len(words) == 3 and words[1] in _SHELLS else shell_join(words)


def command_call(
    call_id: str, command: Sequence[str], cwd: str, parsed: Sequence[Mapping[str, Any]], status: str
) -> Update:
    return script_call(call_id, script_of(command), {"command": list(command), "cwd": cwd}, parsed, status)


def script_call(
    call_id: str, script: str, raw: Mapping[str, Any], parsed: Sequence[Mapping[str, Any]], status: str
) -> Update:
    """A command by its script; `raw` is what was asked for, with the folder as `cwd`."""
    kinds = {entry.get("type") for entry in parsed}
    if kinds == {"read"}:
        kind = "read"
    elif kinds and kinds <= {"search", "list_files", "read"}:
        kind = "search"
    else:
        kind = "execute"
    paths = [entry.get("path") for entry in parsed if kind != "execute"]
    return {
        "toolCallId": call_id,
        "title": title_of(script) or "(an empty command)",
        "kind": kind,
        "status": status,
        "rawInput": raw,
        "locations": [{"path": absolute(path, raw["cwd"])} for path in paths if isinstance(path, str) and path],
    }


def patch_call(call_id: str, changes: Mapping[str, Any], diffs: list[dict[str, Any]], status: str) -> Update:
    kinds = {"move" if change.get("move_path") else str(change.get("type")) for change in changes.values()}
    kind = next(iter(kinds)) if len(kinds) == 1 and kinds <= {"move", "delete"} else "edit"
    names = [os.path.basename(str(change.get("move_path") or path)) for path, change in changes.items()]
    verb = {"move": "Move", "delete": "Delete"}.get(kind, "Edit")
    places = [{"path": str(change.get("move_path") or path)} for path, change in changes.items()]
    return {
        "toolCallId": call_id,
        "title": title_of(f"{verb} {', '.join(names)}"),
        "kind": kind,
        "status": status,
        "rawInput": {"changes": changes},
        "locations": places,
        "content": diffs,
    }


def other_call(call_id: str, title: str, raw: Any, status: str, kind: str = "other") -> Update:
    return {
        "toolCallId": call_id,
        "title": title_of(title),
        "kind": kind,
        "status": status,
        "rawInput": raw,
        "locations": [],
    }


def image_call(call_id: str, path: str, status: str) -> Update:
    call = other_call(call_id, f"Look at {path}", {"path": path}, status, "read")
    return {**call, "locations": [{"path": path}]}


def absolute(path: str, cwd: str) -> str:
    return path if os.path.isabs(path) else os.path.normpath(f"{cwd}/{path}")


def server_content(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What an MCP server answered, as content: text and pictures."""
    answer = result.get("Ok")
    if not isinstance(answer, dict):
        return [text_content(str(result.get("Err") or ""))]
    shown: list[dict[str, Any]] = []
    for part in answer.get("content") or ():
        if not isinstance(part, dict):
            continue
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            shown.append(text_content(part["text"][:MAX_OUTPUT]))
        elif part.get("type") == "image" and isinstance(part.get("data"), str):
            kind = str(part.get("mimeType") or "image/png")
            shown.append({"type": "content", "content": {"type": "image", "data": part["data"], "mimeType": kind}})
    return shown


def plan_entries(plan: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The model's checklist."""
    known = ("pending", "in_progress", "completed")
    return [
        {
            "content": str(step.get("step") or ""),
            "priority": "medium",
            "status": step.get("status") if step.get("status") in known else "pending",
        }
        for step in plan
    ]


def proposed_entries(text: str) -> list[dict[str, Any]]:
    """A plan that the model proposes: the points of its outermost list, else the whole as one."""
    points = [line for line in text.splitlines() if line.lstrip()[:2] in ("- ", "* ") or _is_numbered(line.lstrip())]
    least = min((len(line) - len(line.lstrip()) for line in points), default=0)
    steps = [line.strip().lstrip("-*0123456789.) ") for line in points if len(line) - len(line.lstrip()) == least]
    return plan_entries([{"step": step} for step in steps if step] or [{"step": text.strip()}])


def _is_numbered(line: str) -> bool:
    head = line.split(" ", 1)[0]
    return head[:-1].isdigit() and head[-1:] in ".)"
