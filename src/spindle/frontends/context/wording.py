"""The words the text and the page share."""

from __future__ import annotations

from typing import Any

from spindle.core.report import Break, ContextReport, RequestReport
from spindle.protocol.items import Item, encode_json, is_output, item_text

_CAUSES = {
    "first_request": "first request",
    "model_changed": "another model",
    "tools_changed": "other tools",
    "instructions_changed": "other instructions",
    "settings_changed": "other settings",
    "compaction": "compaction",
    "context_edit": "context edit",
    "rollback": "rollback",
    "resume": "resumed",
    "fork": "forked",
    "picture_removed": "picture removed",
    "undeclared": "prefix changed, undeclared",
    "provider_miss": "missed by the provider",
    "cache_timeout": "cache timed out",
}
_KINDS = {
    "compaction": "compaction",
    "edit": "edit",
    "rollback": "rollback",
    "branch": "another thread's state",
    "picture_removed": "picture removed",
}


def cause_words(cause: str) -> str:
    return _CAUSES.get(cause, cause.replace("_", " "))


def source_words(source: str) -> str:
    return "AGENTS.md" if source == "agents_md" else source


def note_on(request: RequestReport) -> str:
    """Why a request was dearer than it could be; empty when it was not."""
    cache = request.cache
    if cache.cause is None:
        return ""
    lost = f", {cache.lost_tokens:,} tokens lost" if cache.lost_tokens else ""
    return f"{cause_words(cache.cause)}{lost}{' (a bug: please report it)' if cache.is_alarm else ''}"


def break_words(broken: Break) -> str:
    tokens = f"{broken.tokens_before:,} → {broken.tokens_after:,} tokens"
    items = f"{broken.items_before} → {broken.items_after} items"
    said = f"{broken.message}; " if broken.message else ""
    why = broken.decision.get("explanation") if broken.decision else None
    return f"{_KINDS[broken.kind]}: {said}{tokens}, {items}{f' ({why})' if isinstance(why, str) else ''}"


def summary_words(report: ContextReport) -> str:
    totals = report.totals
    said = [
        counted(totals.requests, "request"),
        f"{totals.input_tokens:,} tokens in, {totals.hit_percent} % of them from the cache",
        f"{totals.output_tokens:,} out",
    ]
    if totals.side_tokens:
        said.append(f"{totals.side_tokens:,} beside (summaries, sub-agents)")
    if totals.compactions:
        said.append(counted(totals.compactions, "compaction"))
    if totals.edits:
        said.append(counted(totals.edits, "edit"))
    return " · ".join(said)


def ledger_words(report: ContextReport) -> str:
    """What the work ledger holds, counted."""
    names = (
        ("requests", "request"),
        ("plan", "plan step"),
        ("reads", "file read"),
        ("changes", "file changed"),
        ("commands", "command"),
        ("approvals", "approval"),
        ("questions", "open question"),
    )
    found = [(len(report.ledger[name]), word) for name, word in names if report.ledger[name]]
    return ", ".join(_plural(count, word) for count, word in found)


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _plural(count: int, word: str) -> str:
    if word.startswith("file ") and count != 1:
        return f"{count:,} files {word[5:]}"
    return counted(count, word)


def time_of(at: str) -> str:
    """The time of day in a timestamp; in UTC, as it is recorded."""
    return at[11:19]


def shown_text(item: Item) -> str:
    """What an item says, for people: its text where it has one, else its JSON."""
    match item:
        case {"type": "message"}:
            said = item_text(item)
            pictures = _pictures(item.get("content"))
            return f"{said}\n{pictures}".strip("\n") if pictures else said
        case {"type": "reasoning", "summary": list(parts)}:
            said = "\n\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
            hidden = item.get("encrypted_content")
            return said or (f"[encrypted: {len(hidden):,} characters]" if isinstance(hidden, str) else "[empty]")
        case {"type": "function_call", "arguments": str(arguments)}:
            return arguments
        case {"type": "custom_tool_call", "input": str(given)}:
            return given
        case {"type": "compaction"}:
            return f"[encrypted by the server: {len(str(item.get('encrypted_content') or '')):,} characters]"
        case {"output": str(output)} if is_output(item):
            return output
        case {"output": list(parts)} if is_output(item):
            return f"{item_text({'content': parts})}\n{_pictures(parts)}".strip("\n")
        case _:
            return encode_json(item).decode()


def _pictures(parts: Any) -> str:
    found = [part for part in parts if isinstance(part, dict) and part.get("type") == "input_image"] if parts else []
    return f"[{counted(len(found), 'picture')}]" if found else ""
